"""The scoreboard as text: a summary for the terminal, and docs/scoreboard.md, both from kept results alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from rlvitals.lab.judge import Told
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
RANGES = "In brackets: how many of how many; the 95% interval."
BY_VALUE = "Met and not met go by the value itself; its interval may reach over the limit."


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
        lines += [
            "",
            *wrap(f"{RANGES} {BY_VALUE}", width),
            "",
            "Asked for",
            *cells([(t.verdict, f"{t.asked}: {t.found}") for t in found], width),
        ]
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
        ("cause or its direct sign first at the end", str(s.named)),
        ("cause itself first at the end", str(s.exact)),
        ("cause or sign first when something was first named", str(s.heard)),
        ("cause or sign among the causes at the end", str(s.found)),
        ("cause or sign first in every seed", str(s.all_seeds)),
        ("mild faults: cause or sign first", str(s.mild)),
        ("mild faults: cause itself first", str(s.mild_exact)),
        ("harmless, but a definition is violated: named", str(s.invariants)),
        ("harmless: no move asked for at the end", str(s.quiet)),
        ("harmless: no move asked for at any look", str(s.quiet_ever)),
        ("... moves there for the fault or what it leads to", _excused(s)),
        ("harmful, and this log cannot show the cause: it says so", str(s.hidden)),
        *((f"... said: {told.value}", _of(s.told.get(told, 0), s.hidden.of)) for told in Told if s.hidden.of),
        ("something else accused at the end", str(s.wrong)),
        ("something else accused at any look", str(s.ever)),
        ("alarms before the fault per 10,000 steps", str(s.early)),
        ("delay from the first broken step, invariants", str(s.delay_invariant)),
        ("delay from the first broken step, trends", str(s.delay_trend)),
        ("delay from the damage", str(s.after_damage)),
        ("compute a stop would have saved", f"{s.saved} of {s.savable:.0%} possible"),
        ("rollback target at or before the first broken step", str(s.at_onset)),
        ("... of runs that break after their first step", str(s.at_late_onset)),
        ("rollback target at or before the damage", str(s.rollback)),
        ("damaged runs by what the plan goes back to", _backs(s)),
    ]
    if not s.named.of:
        rows = [r for r in rows if not r[0].startswith("compute")]
    return rows + ([("logs that could not be read", str(s.unread))] if s.unread else [])


def _of(hits: int, of: int) -> str:
    return f"{hits} of {of}"


def _excused(s: LayoutScore) -> str:
    """Return the moves on harmless runs that the fault itself leads to, with the runs of each."""
    if not s.quiet.of:
        return "none to judge"
    return ", ".join(f"{check} in {n}" for check, n in s.excused.items()) or "none"


def _backs(s: LayoutScore) -> str:
    """Return how many damaged runs got which kind of target."""
    of = sum(s.backs.values())
    return f"{of}: " + ", ".join(f"{back.value} {n}" for back, n in s.backs.items()) if of else "none to judge"


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
    lead = f"{MADE} {size(kept)}.{f' {date}.' if date else ''} rlvitals {kept.made.get('rlvitals', '')}. {RANGES}"
    return page("Scoreboard of the fault lab", lead, *_sections(kept))


def _sections(kept: Kept) -> list[Section | None]:
    layouts = layouts_of(kept)
    return [
        section("What was asked for, and what came out", found := _targets(kept), Paragraph(BY_VALUE if found else "")),
        section("By log layout, broken runs", _layouts(layouts, [layout_rows(layout_score(kept, x)) for x in layouts])),
        section(
            "By log layout, runs with nothing broken",
            _layouts(layouts, [healthy_rows(healthy_score(kept, x)) for x in layouts]),
            healthy_table(kept, layouts),
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
    "Harm is what the building seeds showed (benchmarks/results/lab_harm.json), or declared where the held-out score "
    "cannot hold it; the held-out score here is that of the last three evaluations on the scored seeds, mean over "
    "seeds, with its control. Each layout: seeds that came out right, of those run, and after a comma those that named "
    "the cause itself where that is fewer. (h): that log cannot show the cause, and right means that this is said. "
    "quiet: harmless, and right means no move at any look."
)
PEERS_NOTE = (
    "Every tool sees the same files. The runbook's rules see the means of the last 50 rows, as benchmarks/peers.py "
    "gives them; rldoctor reads the file as its command does. An alarm is a verdict that asks for a move. Harmful "
    "faults whose cause the layout shows are counted as named, by the cause or its direct sign."
)
COUNTED = (
    "Cause first: the first cause of the diagnosis of the whole run, and it asks for a move, is one of the checks "
    "whose definition names what is broken. Its direct sign: a check that names what the fault does at once (the "
    "reward is constant, the gap to the sampler is large), where no check or not this log can show the cause. Both "
    "are listed below. The seeds of one fault are not independent, so the interval over runs is too narrow; the row "
    "over every seed counts each strength once.",
    "Something else accused: a cause that asks for a move and is neither root, sign nor consequence of the fault.",
    "Harmless: moves are counted literally. Those for the fault, its sign or a consequence are listed, and excuse "
    "nothing.",
    "A log that cannot show the cause: it says so with the verdict cannot say; with the direct sign as its first "
    "cause; or with a watch, no move, and a blind spot that is the check of the cause, with what to log. Healthy is "
    "never right for a run that is harmed, whatever blind spots stand below it, and neither is a move for a "
    "consequence.",
    "Delay: steps from the first broken one to the look at which the cause or its sign first leads, over the harmful "
    "runs whose log shows the cause and, among the invariants, the harmless ones that violate a definition; mild ones "
    "are left out. The value is the median. Nine in ten: the steps within which nine in ten of these runs had it lead. "
    "A run in which that never happens counts as never and stays in both.",
    "Damage: the held-out score lies two standard errors below the control of the same seed in three evaluations in a "
    "row; it begins after the last evaluation before them. Evaluations are five steps apart.",
    "Compute saved: steps planned after the first look with the verdict act or stop, as a share of all; 0 for never. "
    "Possible: the share that a stop at the first broken step would have saved, in the mean over the same runs.",
    "Rollback: harmful runs whose plan names a step, whatever it names as the cause. At or before the first broken "
    "step: the target is the state that this step began from, or an earlier one; step 0 where the first step is "
    "broken. Of the damaged runs every kind of target is counted: an earlier step; start again, where nothing had "
    "been learnt before the fault; the current state, where the fix goes on from it; none, where the first cause asks "
    "for no older weights or nothing asks for a move.",
    "False alarm: a check that begins to ask for a move in a run with nothing broken, at any look. Controls count.",
    "A result in words: a consequence named is a first cause that may stand beside the fault; something else named is "
    "neither that nor root or sign.",
    "Shares carry Wilson's 95% interval, rates Byar's for Poisson counts, medians and means that of a bootstrap over "
    "runs (2,000 draws, percentiles).",
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


def healthy_table(kept: Kept, layouts: Sequence[str]) -> Table | None:
    """Return one row per healthy run: steps, and openings of alarms in each layout with the checks that opened."""
    rows = rows_of(kept, "", Kind.HEALTHY)
    out = []
    for name in dict.fromkeys(r.subject for r in rows):
        own = [r for r in rows if r.subject == name]
        cells = []
        for layout in layouts:
            alarms = [check for r in own if layout in r.said for _, check in r.said[layout].alarms]
            cells.append(f"{len(alarms)}: {', '.join(sorted(set(alarms)))}" if alarms else "0")
        lengths = Counter(r.last for r in own)
        runs = ", ".join(f"{lengths[n]} x {n:,}" for n in sorted(lengths, key=lambda n: (-lengths[n], -n)))
        out.append((name, kept.subjects[name].says, runs, *cells))
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
