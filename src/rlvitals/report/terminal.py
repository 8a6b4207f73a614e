"""The diagnosis as text for a terminal: calm, dense, never wider than asked, the same words with and without colour."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlvitals.check import Action, Evidence, Verdict
from rlvitals.diagnosis import Cause, Consequence, Diagnosis, PlanStep
from rlvitals.report import words
from rlvitals.report.series import drawn, incident_of
from rlvitals.report.sparkline import sparkline
from rlvitals.schema import SharedPhrase

MIN_WIDTH, MAX_WIDTH = 40, 100  # columns; longer lines are hard to read
SPARK_METRICS = 8  # lines of sparklines
RULED_OUT_SHOWN = 6
BLIND_METRICS = 6  # missing metrics that are shown per family
BLIND_LINES = 3  # lines to log that are shown per family
VERDICT_STYLE = {
    Verdict.HEALTHY: "bold black on green",
    Verdict.WATCH: "bold black on yellow",
    Verdict.ACT: "bold white on dark_orange3",
    Verdict.STOP: "bold white on red",
    Verdict.CANNOT_SAY: "bold white on blue",
}
ACTION_STYLE = {
    Action.STOP: "bold red",
    Action.FIX: "bold dark_orange3",
    Action.ADJUST: "bold dark_orange3",
    Action.FINISH: "bold yellow",
    Action.WATCH: "bold yellow",
    Action.NOTE: "green",
}
_TRAILING = re.compile(r"[ ]+((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


def render(diagnosis: Diagnosis, *, width: int | None = None, color: bool | None = None) -> str:
    """Return the whole diagnosis.

    Args:
        width: columns; None = those of the terminal, 80 where there is none.
        color: None = where standard output is a terminal and NO_COLOR is unset.
    """
    columns = max(MIN_WIDTH, min(width or shutil.get_terminal_size((80, 24)).columns, MAX_WIDTH))
    out = io.StringIO()
    wanted = _wants_color() if color is None else color
    console = Console(
        file=out,
        width=columns,
        force_terminal=wanted,
        no_color=not wanted,
        color_system="256" if wanted else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for block in _blocks(diagnosis, columns):
        console.print(block)
    return _TRAILING.sub(r"\1", out.getvalue()).rstrip("\n") + "\n"


def render_row(diagnosis: Diagnosis, *, width: int = 80) -> str:
    """Return one line for a table of runs: verdict, name, steps, first cause with its onset."""
    p = diagnosis.position
    name_width = _name_width(width)
    name = words.clean(diagnosis.name, name_width) or "unnamed run"
    steps = f"{p.first_step}-{p.last_step}" if p.rows else "no rows"
    if diagnosis.causes:
        first = diagnosis.causes[0]
        more = f" +{len(diagnosis.causes) - 1}" if len(diagnosis.causes) > 1 else ""
        what = f"{first.id} {first.name} from {first.onset.first}{more}"
    else:
        what = words.headline(diagnosis) if diagnosis.verdict is not Verdict.HEALTHY else "nothing found"
    row = f"{words.VERDICT_WORD[diagnosis.verdict].lower():<10}  {name:<{name_width}}  {steps:<9}  {words.clean(what)}"
    return row if len(row) <= width else row[: width - 1] + "…"


def row_header(*, width: int = 80) -> str:
    """Return the header line that belongs to `render_row`."""
    return f"{'verdict':<10}  {'run':<{_name_width(width)}}  {'steps':<9}  first cause"


def _name_width(width: int) -> int:
    return max(12, min(32, width // 4))


def _wants_color() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


def _blocks(d: Diagnosis, width: int) -> Iterator[RenderableType]:
    """Yield every part in reading order, with the empty lines between them."""
    yield Text(words.run_name(d), "bold")
    yield from _dotted(words.run_facts(d), width)
    yield ""
    badge = Text(f" {words.VERDICT_WORD[d.verdict]} ", VERDICT_STYLE[d.verdict])
    yield _hanging(badge, words.headline(d), "bold")
    for line in _dotted(words.coverage_facts(d.coverage), width - 1):
        yield Padding(line, (0, 0, 0, 1))
    if d.crash:
        yield Padding(Text(words.crash_line(d)), (0, 0, 0, 1))
    for n, cause in enumerate(d.causes, 1):
        yield ""
        yield from _cause(n, cause, d)
    for part in (
        _exploit(d),
        _vitals(d, width),
        _notes(d),
        _recovered(d),
        _ruled_out(d),
        _blind(d),
        _plan(d),
        _ending(d),
    ):
        lines = list(part)
        if lines:
            yield ""
            yield from lines


def _hanging(label: Text, body: str | Text, style: str = "", indent: int = 0) -> RenderableType:
    """Return a label with the body beside it, wrapped lines under the body."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True, width=label.cell_len)
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(body, style) if isinstance(body, str) else body)
    return Padding(grid, (0, 0, 0, indent))


def _dotted(parts: Iterable[str], width: int) -> Iterator[Text]:
    """Yield lines of parts joined by dots; a part moves to the next line as a whole and takes no dot with it."""
    line = ""
    for part in parts:
        longer = f"{line} · {part}" if line else part
        if line and cell_len(longer) > width:
            yield Text(line, "dim")
            longer = part
        line = longer
    yield Text(line, "dim")


def _heading(text: str) -> Text:
    return Text(text, "bold cyan")


def _cause(n: int, cause: Cause, d: Diagnosis) -> Iterator[RenderableType]:
    title = Text.assemble((f"{cause.name}", "bold"), (f" {cause.id}", "dim"))
    yield _hanging(Text(f" {n}", "bold"), title)
    yield Padding(_judgement(cause), (0, 0, 0, 3))
    if words.clean(cause.finding.summary) != words.clean(d.headline):
        yield Padding(Text(words.clean(cause.finding.summary)), (0, 0, 0, 3))
    yield from _evidence(cause)
    for consequence in cause.consequences:
        yield from _consequence(consequence)


def _judgement(of: Cause | Consequence) -> Text:
    f = of.finding
    return Text.assemble(
        (words.ACTION_WORDS[f.action], ACTION_STYLE[f.action]),
        f" · {f.confidence.value} confidence · since {f.onset}",
    )


def _evidence(of: Cause | Consequence) -> Iterator[RenderableType]:
    for e in of.finding.evidence:
        text = words.clean(e.text)
        if text != words.clean(of.finding.summary):
            yield _hanging(Text("·", "dim"), text, indent=3)
        yield Padding(Text(f"{words.clean(e.metric)}: {words.evidence_numbers(e)}", "dim"), (0, 0, 0, 5))
        yield from _examples(e)


def _examples(e: Evidence | SharedPhrase) -> Iterator[RenderableType]:
    for example in e.examples:
        said = words.example_text(example)
        yield Padding(Text(words.example_place(example) + (f": {said}" if said else ""), "dim"), (0, 0, 0, 7))


def _exploit(d: Diagnosis) -> Iterator[RenderableType]:
    if d.exploit is None:
        return
    yield _heading("What pays now")
    yield Padding(Text(words.exploit_facts(d.exploit), "dim"), (0, 0, 0, 1))
    for phrase in d.exploit.phrases:
        yield _hanging(Text("·", "dim"), words.phrase_said(phrase), indent=1)
        yield from _examples(phrase)


def _consequence(c: Consequence) -> Iterator[RenderableType]:
    title = Text.assemble((c.name, "bold"), (f" {c.id}", "dim"), f" · since {c.finding.onset}")
    yield _hanging(Text("└ led to", "dim"), title, indent=3)
    yield Padding(Text(words.clean(c.finding.summary)), (0, 0, 0, 5))
    for e in c.finding.evidence:
        yield Padding(Text(f"{words.clean(e.metric)}: {words.evidence_numbers(e)}", "dim"), (0, 0, 0, 5))
        yield from _examples(e)


def _vitals(d: Diagnosis, width: int) -> Iterator[RenderableType]:
    """Yield one sparkline per involved metric on a common step axis, the incident in brackets."""
    if d.run is None or d.position.rows < 2:
        return
    found = drawn(d, SPARK_METRICS)
    if not found:
        return
    first, last = d.position.first_step, d.position.last_step
    label = max(11, min(max(len(words.clean(s.metric)) for s in found), width // 3 - 4))
    values = [f"{float(s.value[0]):.3g} → {float(s.value[-1]):.3g}" for s in found]
    marked = any(incident_of(d, s.metric) for s in found)
    cells = max(8, min(48, width - label - max(len(v) for v in values) - 7))
    axis = str(first).ljust(cells + 2 * marked - len(str(last))) + str(last)
    yield Text.assemble((f"{'Vital signs':<{label + 3}}", "bold cyan"), (axis, "dim"))
    for s, shown in zip(found, values, strict=True):
        line = sparkline(s.step, s.value, width=cells, span=(first, last), incident=incident_of(d, s.metric))
        before, inside, after = line.parts()
        name = words.clean(s.metric, label).ljust(label)
        bar = [("[", "dim"), (inside, "red"), ("]", "dim")] if inside else []
        tail = "  " if marked and not inside else ""
        yield Text.assemble(f" {name}  ", (before, "cyan"), *bar, (after, "cyan"), f"{tail}  ", (shown, "dim"))
    if marked:
        yield Text(f" {'':<{label}}  [ ] steps of the finding", "dim")


def _notes(d: Diagnosis) -> Iterator[RenderableType]:
    if not d.notes:
        return
    yield _heading("Noted, nothing to do")
    for note in d.notes:
        yield _hanging(
            Text("·", "dim"), Text.assemble(words.clean(note.finding.summary), (f" {note.id}", "dim")), indent=1
        )
        said = [words.clean(e.text) for e in note.finding.evidence if e.text != note.finding.summary]
        if said:
            more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
            yield Padding(Text(said[0] + more, "dim"), (0, 0, 0, 3))


def _recovered(d: Diagnosis) -> Iterator[RenderableType]:
    if not d.incidents:
        return
    yield _heading("Recovered")
    for r in words.recovered(d):
        yield _hanging(Text("·", "dim"), Text.assemble((r.name, ""), (f" {r.id}", "dim"), f" · {r.when()}"), indent=1)
        yield Padding(Text(r.summary, "dim"), (0, 0, 0, 3))


def _ruled_out(d: Diagnosis) -> Iterator[RenderableType]:
    if not d.ruled_out:
        return
    yield _heading("Ruled out")
    shown = words.telling(d.ruled_out, RULED_OUT_SHOWN)
    for r in shown:
        yield _hanging(Text("·", "dim"), Text.assemble(r.name, (f" {r.id}: {words.clean(r.because)}", "dim")), indent=1)
    rest = len(d.ruled_out) - len(shown)
    if rest:
        yield Padding(Text(f"and {rest} more", "dim"), (0, 0, 0, 3))


def _blind(d: Diagnosis) -> Iterator[RenderableType]:
    crashed = words.crashed_checks(d)
    if not d.blind_spots and not crashed:
        return
    yield _heading("Blind spots")
    for family, spots in words.blind_by_family(d.blind_spots).items():
        missing = words.lacking(spots)
        lacks = ", ".join(words.clean(m) for m in missing[:BLIND_METRICS])
        more = f" and {len(missing) - BLIND_METRICS} more" if len(missing) > BLIND_METRICS else ""
        body = Text.assemble(words.blind_count(spots), " " if lacks else "", (lacks, "bold"), more)
        yield _hanging(Text(f"{family:<8}"), body, indent=1)
        lines = words.unique([*words.reasons(spots), *(words.block(h) for s in spots for h in s.how_to_log)])
        for line in lines[:BLIND_LINES]:
            yield _hanging(Text("·", "dim"), line, "dim", indent=10)
        if len(lines) > BLIND_LINES:
            yield Padding(Text(f"and {len(lines) - BLIND_LINES} more", "dim"), (0, 0, 0, 12))
    for check, error in crashed:
        yield _hanging(Text(f"{check:<8}"), f"the check itself failed: {words.clean(error)}", indent=1)


def _plan(d: Diagnosis) -> Iterator[RenderableType]:
    if not d.plan:
        return
    yield _heading("Plan")
    for n, step in enumerate(d.plan, words.first_number(d)):
        yield from _step(n, step)
    for h in d.held_back:
        body = Text.assemble("held back: ", words.clean(h.text), (f" ({h.cause}): {words.clean(h.reason)}", "dim"))
        yield _hanging(Text(" –", "dim"), body)


def _step(n: int, step: PlanStep) -> Iterator[RenderableType]:
    tail = (f" for {step.cause}", "dim") if step.cause else ""
    yield _hanging(Text(f"{n:>2}", "bold"), Text.assemble(words.clean(step.text), tail))
    for v in step.verify:
        yield _hanging(Text("verify:", "dim"), words.verify_line(v), "dim", indent=3)


def _ending(d: Diagnosis) -> Iterator[RenderableType]:
    if d.causes:
        yield _hanging(_heading("Rollback"), words.rollback_line(d))
    if d.cost is not None:
        yield _hanging(_heading("Cost    "), words.cost_line(d.cost))
    if d.lesson:
        yield _hanging(_heading("Record  "), words.clean(d.lesson))
