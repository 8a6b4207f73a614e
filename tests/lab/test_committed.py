"""The committed results agree with the code: descriptions as they are now, and a slice of the runs made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvitals.lab.kept import Kept, Kind, Row, read
from tests.lab.conftest import RESULTS

pytest.importorskip("torch")
pytest.importorskip("transformers")
from rlvitals.lab.about import about, from_json
from rlvitals.lab.cases import Case
from rlvitals.lab.fault import Fault, Healthy
from rlvitals.lab.faults import FAULTS
from rlvitals.lab.healthy import HEALTHY
from rlvitals.lab.run import run_case

MAX_BYTES = 3_000_000  # small enough to commit
SLICE_STEPS, EARLY = 30, 20  # of a run made again; led by then in the committed one
SLICE_FAULTS = 4


@pytest.fixture(scope="module")
def kept() -> Kept:
    return read(RESULTS)


def test_descriptions_are_those_of_the_code(kept: Kept) -> None:
    subjects: list[Fault | Healthy] = [*FAULTS, *HEALTHY]
    now = {s.name: from_json(about(s)) for s in subjects}
    again = "score again: rlvitals lab score --out DIR --json benchmarks/results/lab.json; make docs"
    assert {n: a for n, a in kept.subjects.items() if now.get(n) != a} == {}, again


def test_every_fault_and_healthy_run_has_results(kept: Kept) -> None:
    broken = {(r.subject, r.strength) for r in kept.rows if r.kind is Kind.FAULT and not r.more}
    assert sorted({(f.name, s.name) for f in FAULTS for s in f.strengths} - broken) == []
    healthy = {r.subject for r in kept.rows if r.kind is Kind.HEALTHY}
    assert sorted({h.name for h in HEALTHY} - healthy) == []


def test_it_holds_answers_and_no_logs(kept: Kept) -> None:
    assert RESULTS.stat().st_size < MAX_BYTES
    assert {layout for r in kept.rows for layout in r.said} == {"own", "trl", "verl", "chapter7"}


def chosen(rows: tuple[Row, ...]) -> list[Row]:
    """Return one run each of the first faults whose root led within EARLY steps from the beginning of the run."""
    roots = {f.name: f.roots for f in FAULTS}
    first: dict[str, Row] = {}
    for row in rows:
        led = [s for c, s in row.said["own"].named.items() if c in roots.get(row.subject, ())]
        if row.kind is Kind.FAULT and not row.more and led and min(led) <= EARLY and row.steps >= SLICE_STEPS:
            first.setdefault(row.subject, row)
    return list(first.values())[:SLICE_FAULTS]


@pytest.mark.slow
def test_a_slice_of_the_runs_says_the_same_again(kept: Kept, tmp_path: Path) -> None:
    slice_ = chosen(kept.rows)
    assert slice_, "no fault of the committed results is named early"
    faults = {f.name: f for f in FAULTS}
    for row in slice_:
        fault = faults[row.subject]
        strength = next(s for s in fault.strengths if s.name == row.strength)
        result = run_case(Case(fault, strength, row.seed, SLICE_STEPS), tmp_path)
        for layout, said in row.said.items():
            then = {c for c, step in said.named.items() if step <= EARLY}
            now = {c for c, step in result["heard"][layout]["named"].items() if step <= SLICE_STEPS}
            assert then <= now, f"{row.case} as {layout} logs it: {sorted(then)} led, now {sorted(now)}"


@pytest.mark.slow
def test_a_healthy_run_of_the_slice_stays_quiet(kept: Kept, tmp_path: Path) -> None:
    subject = HEALTHY[0]
    seed = min(r.seed for r in kept.rows if r.subject == subject.name and r.kind is Kind.HEALTHY)
    result = run_case(Case(subject, None, seed, SLICE_STEPS), tmp_path)
    assert {layout: list(h["alarms"]) for layout, h in result["heard"].items()} == {
        layout: [] for layout in result["heard"]
    }
