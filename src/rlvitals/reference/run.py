"""What was read from one run: recognised, guessed, not recognised, its settings, and the ten things to log."""

from __future__ import annotations

import numpy as np

from rlvitals.diagnosis import Diagnosis
from rlvitals.ingest.registry import by_name
from rlvitals.reference.page import Bullets, Page, Paragraph, Section, Table, page, section
from rlvitals.reference.tenthings import Have, Missing, Standing, standing
from rlvitals.schema import NONFINITE_PREFIX, Provenance, Run, Scope, Status

STATUS_TITLE: dict[Status, str] = {
    Status.MEASURED: "Recognised",
    Status.USER: "Mapped by you",
    Status.GUESSED: "Guessed from the name",
    Status.DERIVED: "Computed from other keys",
    Status.PLACEHOLDER: "Constant zero written for something that is not measured (no data)",
}


def run_page(run: Run, diagnosis: Diagnosis) -> Page:
    """Return the page of one run: what was recognised, how it was converted, what is missing and how to add it."""
    things = standing(run, diagnosis, by_name(run.trainer.name))
    return page(
        run.name,
        _lead(run),
        section("Read", Bullets(run.sources)),
        *(_recognised(run, status, title) for status, title in STATUS_TITLE.items()),
        section("Held-out sets", _evals(run)),
        section("Settings", Table(("field", "value", "read from"), _settings(run), running=True)),
        _unknown(run),
        section("Notes", Bullets(tuple(_note(n.text, n.file, n.line, n.count) for n in run.notes))),
        _ten(things),
        _lines(things, run.trainer.name),
    )


def _lead(run: Run) -> str:
    version = f" {run.trainer.version}" if run.trainer.version else ""
    rows = f"{run.rows} rows, steps {run.step[0]} to {run.step[-1]}" if run.rows else "no rows"
    return f"{run.trainer.name}{version}; {rows}"


def _recognised(run: Run, status: Status, title: str) -> Section | None:
    rows = []
    for metric in run.columns:
        found = run.provenance.get(metric)
        if metric.startswith(NONFINITE_PREFIX) or found is None or found.status is not status:
            continue
        rows.append((f"`{metric}`", f"`{found.key}`", _short(found.file), _measured_as(found), _count(run, metric)))
    return section(title, _narrowed(("metric", "key", "file", "as", "logged"), tuple(rows)))


def _narrowed(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    """Return the table without the file column when all rows name the same file."""
    at = head.index("file")
    if len({row[at] for row in rows}) > 1:
        return Table(head, rows, running=True)
    return Table(head[:at] + head[at + 1 :], tuple(row[:at] + row[at + 1 :] for row in rows), running=True)


def _measured_as(found: Provenance) -> str:
    scope = "" if found.scope in (Scope.ALL, Scope.UNKNOWN) else found.scope.value
    direction = found.direction.value if found.direction is not None else ""
    converted = f"converted: {found.transform}" if found.transform else ""
    return "; ".join(part for part in (found.unit, found.estimator, direction, scope, converted, found.note) if part)


def _count(run: Run, metric: str) -> str:
    return f"{int(np.isfinite(run.columns[metric]).sum())} values"


def _short(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2] or file


def _evals(run: Run) -> Table:
    rows = tuple(
        (e.name, f"`{e.key}`" if e.key else "", _short(e.file), e.metric, str(e.step.size)) for e in run.evals.values()
    )
    return Table(("set", "key", "file", "kind", "scores"), rows)


def _settings(run: Run) -> tuple[tuple[str, str, str], ...]:
    known = [(f"`{k}`", str(v), run.config.sources.get(k, "")) for k, v in run.config.known().items()]
    return (*known, *((f"version of {k}", v, "") for k, v in run.config.versions.items()))


def _unknown(run: Run) -> Section | None:
    """Return the columns nobody knows: the closest metric only where there is one."""
    if not run.unrecognised:
        return None
    rows = tuple(
        (f"`{u.key}`", _short(u.file), f"{u.values} values", f"nearest: `{u.nearest}`" if u.nearest else "")
        for u in run.unrecognised
    )
    hint = "Tell what a column is with `--map METRIC=KEY`; `rlvitals metrics` lists the names."
    return section("Not recognised", Table(("key", "file", "values", "nearest"), rows, running=True), Paragraph(hint))


def _note(text: str, file: str, line: int, count: int) -> str:
    where = f" ({_short(file)}{f':{line}' if line else ''})" if file else ""
    told = f"{count:,}" in text or count <= 1  # the text has its own number, of rollouts, keys or rows
    return f"{text}{where}" + ("" if told else f", {count:,} times")


def _ten(things: tuple[Standing, ...]) -> Section | None:
    rows = []
    for s in things:
        lacking = ", ".join(m.part.label for m in s.missing)
        blind = ", ".join(dict.fromkeys(f"`{i}`" for m in s.missing for i in m.unlocks))
        rows.append((str(s.thing.number), s.thing.title, s.have.value, lacking, blind))
    have = sum(s.have is Have.YES for s in things)
    return section(
        f"The ten things to log: {have} of 10 complete",
        Table(("", "thing", "here", "missing", "would unlock"), tuple(rows)),
    )


def _lines(things: tuple[Standing, ...], trainer: str) -> Section | None:
    """Return the lines to add, those that unlock checks first."""
    by_line: dict[str, list[Missing]] = {}
    for missing in (m for s in things for m in s.missing):
        by_line.setdefault(missing.line, []).append(missing)
    rows = []
    for line, parts in by_line.items():
        ids = sorted({i for m in parts for i in m.unlocks})
        labels = ", ".join(dict.fromkeys(m.part.label for m in parts))
        rows.append((labels, line, ", ".join(f"`{i}`" for i in ids)))
    rows.sort(key=lambda row: -row[2].count("`"))
    return section(f"Lines to add ({trainer})", Table(("for", "line", "unlocks"), tuple(rows)))
