"""The scoreboard as text: a summary for the terminal, and docs/scoreboard.md, both from kept results alone."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from rlvitals.lab.kept import Kept, Kind
from rlvitals.lab.pagefaults import faults_table, hidden_table, named_table, wrong_table
from rlvitals.lab.say import WIDTH, cells
from rlvitals.lab.score import (
    LONG,
    HealthyScore,
    LayoutScore,
    healthy_score,
    layout_score,
    layouts_of,
    peer_scores,
    rows_of,
    variant_names,
)
from rlvitals.lab.targets import targets
from rlvitals.reference.page import Bullets, Page, Paragraph, Section, Table, page, section, to_markdown
from rlvitals.report.words import counted

TITLE = {"own": "own log", "trl": "TRL", "verl": "verl", "chapter7": "chapter 7"}
MADE = "Made by `rlvitals lab score` from committed results; do not edit."


def title(layout: str) -> str:
    """Return the name of a layout for readers."""
    return TITLE.get(layout, layout)


def summary(kept: Kept, width: int = WIDTH) -> str:
    """Return the figures in lines for a terminal."""
    lines = wrap(size(kept), width)
    for more, called in {"": "", **variant_names(kept)}.items():
        for layout in layouts_of(kept):
            shown = cells(figures(kept, layout, more), width)
            lines += ["", *wrap(title(layout) + (f", {called}" if more else ""), width), *shown] if shown else []
    if rows_of(kept, "", *Kind) and (found := targets(kept)):
        lines += ["", "Asked for", *cells([(t.verdict, f"{t.asked}: {t.found}") for t in found], width)]
    return "\n".join(lines)


def size(kept: Kept) -> str:
    """Return in one sentence what was run."""
    broken, control = rows_of(kept, "", Kind.FAULT), rows_of(kept, "", Kind.CONTROL)
    healthy = rows_of(kept, "", Kind.HEALTHY)
    seeds = sorted({r.seed for r in broken})
    of = f", seed{'s' * (len(seeds) > 1)} {', '.join(str(s) for s in seeds)}" if seeds else ""
    return (
        f"{counted(len(broken), 'run')} of {counted(len({r.subject for r in broken}), 'fault')}{of}; "
        f"{_some(len(control), 'control')}; {_some(len(healthy), 'healthy run')}; "
        f"{sum(r.last for r in [*healthy, *control]):,} steps with nothing broken"
    )


def _some(n: int, one: str) -> str:
    return counted(n, one) if n else f"no {one}s"


def figures(kept: Kept, layout: str, more: str) -> list[tuple[str, str]]:
    """Return the figures of a layout that there are runs for, on broken runs and on healthy ones."""
    both = [*layout_rows(layout_score(kept, layout, more)), *healthy_rows(healthy_score(kept, layout, more))]
    return [(name, value) for name, value in both if value not in ("none to judge", "no steps to judge")]


def layout_rows(s: LayoutScore) -> list[tuple[str, str]]:
    """Return the figures of a layout on broken runs, named."""
    rows = [
        ("root cause first at the end", str(s.named)),
        ("root cause first when something was first named", str(s.heard)),
        ("root cause among the causes at the end", str(s.found)),
        ("root cause first in every seed", str(s.all_seeds)),
        ("mild faults: root cause first", str(s.mild)),
        ("harmless, but a definition is violated: named", str(s.invariants)),
        ("harmless: no move asked for", str(s.quiet)),
        ("not to be told from this log: nothing accused", str(s.hidden)),
        ("something else accused at the end", str(s.wrong)),
        ("something else accused at any look", str(s.ever)),
        ("alarms before the fault per 10,000 steps", str(s.early)),
        ("delay from the first broken step, invariants", str(s.delay_invariant)),
        ("delay from the first broken step, trends", str(s.delay_trend)),
        ("delay from the damage", str(s.after_damage)),
        ("compute a stop would have saved", f"{s.saved:.0%} of {s.savable:.0%} possible"),
        ("rollback target at or before the damage", str(s.rollback)),
        ("rollback target before the first broken step", str(s.strict)),
    ]
    if not s.named.of:
        rows = [r for r in rows if not r[0].startswith("compute")]
    return rows + ([("logs that could not be read", str(s.unread))] if s.unread else [])


def healthy_rows(s: HealthyScore) -> list[tuple[str, str]]:
    """Return the figures of a layout on runs with nothing broken, named."""
    return [
        ("false alarms per 10,000 healthy steps", str(s.alarms)),
        ("healthy runs with a false alarm", str(s.runs)),
        (f"false alarms per 10,000 steps, runs of {LONG:,} or more", str(s.long_alarms)),
        (f"runs of {LONG:,} steps or more with a false alarm", str(s.long_runs)),
        ("healthy runs with a watch nobody expected", str(s.unasked_watch)),
    ]


def markdown(kept: Kept) -> str:
    """Return docs/scoreboard.md."""
    return to_markdown(scoreboard(kept))


def scoreboard(kept: Kept) -> Page:
    """Return the whole scoreboard."""
    date = kept.made.get("date", "")
    lead = f"{MADE} {size(kept)}.{f' {date}.' if date else ''} rlvitals {kept.made.get('rlvitals', '')}."
    return page("Scoreboard of the fault lab", lead, *_sections(kept))


def _sections(kept: Kept) -> list[Section | None]:
    layouts = layouts_of(kept)
    return [
        section("What was asked for, and what came out", _targets(kept)),
        section("By log layout, broken runs", _layouts(layouts, [layout_rows(layout_score(kept, x)) for x in layouts])),
        section(
            "By log layout, runs with nothing broken",
            _layouts(layouts, [healthy_rows(healthy_score(kept, x)) for x in layouts]),
            _healthy(kept, layouts),
        ),
        _beside(kept),
        *(_variant(kept, more, called, layouts) for more, called in variant_names(kept).items()),
        section("Every fault", faults_table(kept, layouts), Paragraph(FAULTS_NOTE)),
        section("What was named at the end, own log", named_table(kept, "own")),
        section("Something else accused", wrong_table(kept, layouts)),
        section("What cannot be told from a log", hidden_table(kept)),
        section("How it is counted", Bullets(COUNTED)),
    ]


FAULTS_NOTE = (
    "Harm is what the building seeds showed; the held-out score is that of the last three evaluations on the scored "
    "seeds, mean over seeds, with its control. Each layout: seeds that came out right, of those run. (h): the root "
    "cannot be told from that log, and right means that nothing else is accused."
)
PEERS_NOTE = (
    "Every tool sees the same files. The runbook's rules see the means of the last 50 rows, as "
    "benchmarks/peers.py gives them; rldoctor reads the file as its command does. An alarm is a verdict that asks for "
    "a move. Harmful faults whose root the layout shows are counted as named; their root causes are generous to all."
)
COUNTED = (
    "Root cause first: the first cause of the diagnosis of the whole run, and it asks for a move, is one of the "
    "checks that the fault names as its root. The seeds of one fault are not independent, so the interval over runs is "
    "too narrow; the row over every seed counts each strength once.",
    "Something else accused: a cause that asks for a move and is neither root nor consequence of the fault.",
    "Delay: steps from the first broken one to the look at which a root cause first leads. A run in which that never "
    "happens counts as never and stays in the median.",
    "Damage: the held-out score lies two standard errors below the control of the same seed in three evaluations in a "
    "row; it begins after the last evaluation before them. Evaluations are five steps apart.",
    "Compute saved: steps planned after the first look with the verdict act or stop, as a share of all; 0 for never.",
    "Rollback: of the runs with the root first whose plan goes back before the onset, the target against the damage.",
    "False alarm: a check that begins to ask for a move in a run with nothing broken, at any look. Controls count.",
    "Shares carry Wilson's 95% interval, rates Byar's for Poisson counts.",
)


def _targets(kept: Kept) -> Table | None:
    found = targets(kept)
    if not found:
        return None
    return Table(("asked for", "measured", ""), tuple((t.asked, t.found, t.verdict) for t in found))


def _layouts(layouts: Sequence[str], columns: Sequence[Sequence[tuple[str, str]]]) -> Table | None:
    """Return a table with a column per layout."""
    names = list(dict.fromkeys(name for column in columns for name, _ in column))
    cells = [dict(column) for column in columns]
    return Table(("", *(title(x) for x in layouts)), tuple((n, *(c.get(n, "") for c in cells)) for n in names))


def _healthy(kept: Kept, layouts: Sequence[str]) -> Table | None:
    """Return one row per healthy run: steps, and openings of alarms in each layout with the checks that opened."""
    rows = rows_of(kept, "", Kind.HEALTHY)
    out = []
    for name in dict.fromkeys(r.subject for r in rows):
        own = [r for r in rows if r.subject == name]
        cells = []
        for layout in layouts:
            alarms = [check for r in own for _, check in r.said[layout].alarms if layout in r.said]
            cells.append(f"{len(alarms)}: {', '.join(sorted(set(alarms)))}" if alarms else "0")
        out.append((name, kept.subjects[name].says, f"{len(own)} x {max(r.last for r in own):,}", *cells))
    return Table(("run", "why it is hard", "runs x steps", *(title(x) for x in layouts)), tuple(out)) if out else None


def _beside(kept: Kept) -> Section | None:
    rows = [
        (s.tool, title(s.layout), str(s.read), str(s.named), str(s.ours_named), str(s.accused), str(s.ours_accused))
        for s in peer_scores(kept)
    ]
    head = ("tool", "log", "could read", "names the root", "rlvitals does", "accuses well runs", "rlvitals does")
    return section("Beside other tools", Table(head, tuple(rows)), Paragraph(PEERS_NOTE)) if rows else None


def _variant(kept: Kept, more: str, called: str, layouts: Sequence[str]) -> Section | None:
    """Return the figures of runs with another task or model, on which nothing was ever chosen, and every fault."""
    return section(
        f"With {called}",
        Paragraph(f"Settings: {more}.") if more != called else None,
        _layouts(layouts, [figures(kept, layout, more) for layout in layouts]),
        faults_table(kept, layouts, more),
    )
