"""The committed results agree with the code: descriptions as they are now, and a slice of the runs made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvitals.lab.kept import Kept, Kind, read
from tests.lab.conftest import RESULTS

pytest.importorskip("torch")
pytest.importorskip("transformers")
from benchmarks.lab_slice import SLICE, Short, drift, said
from benchmarks.lab_slice import read as read_slice

from rlvitals.lab.about import about, from_json
from rlvitals.lab.fault import Fault, Healthy, Place
from rlvitals.lab.faults import FAULTS
from rlvitals.lab.healthy import HEALTHY
from rlvitals.lab.layouts import LAYOUTS

MAX_BYTES = 3_000_000  # small enough to commit


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


def test_the_slice_has_every_place_and_a_healthy_run() -> None:
    places = {f.place for f in FAULTS if f.name in {s.subject for s in SLICE if s.strength}}
    assert places == set(Place)
    assert [s.subject for s in SLICE if not s.strength]
    assert set(read_slice()) == {s.subject for s in SLICE}


@pytest.mark.slow
@pytest.mark.parametrize("short", SLICE, ids=lambda s: s.subject)
def test_a_run_of_the_slice_says_the_same_again(short: Short, tmp_path: Path) -> None:
    then, now = read_slice()[short.subject], said(short, tmp_path)
    found = {layout: drift(then[layout], now[layout]) for layout in then}
    assert {layout: lines for layout, lines in found.items() if lines} == {}, (
        "if it should say that now: python benchmarks/lab_slice.py"
    )


def test_nothing_is_accused_in_the_healthy_run_of_the_slice() -> None:
    quiet = [read_slice()[s.subject] for s in SLICE if not s.strength]
    assert [a["alarms"] + a["causes"] for run in quiet for a in run.values()] == [[]] * len(LAYOUTS) * len(quiet)


THEN = {"verdict": "act", "causes": ["Y004", "K001"], "alarms": ["Y004"], "named": {"Y004": 10}, "rollback": 40,
        "rollback_kind": "before onset", "error": ""}  # fmt: skip


@pytest.mark.parametrize(
    ("now", "differs"),
    [
        ({}, 0),
        ({"named": {"Y004": 20}, "rollback": 20}, 0),  # another machine
        ({"verdict": "stop"}, 1),
        ({"causes": ["K001", "Y004"]}, 1),
        ({"causes": ["Y004"]}, 1),
        ({"alarms": ["R010", "Y004"]}, 1),  # a new accusation on the way
        ({"named": {"Y004": 25}}, 1),
        ({"named": {}}, 1),
        ({"rollback": -1, "rollback_kind": "none"}, 2),
    ],
)
def test_what_counts_as_drift(now: dict[str, object], differs: int) -> None:
    assert len(drift(THEN, {**THEN, **now})) == differs
