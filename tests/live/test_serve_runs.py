"""Runs are read in the background, and read again when their files change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rlvitals.cli.serve import find, is_one_run
from rlvitals.ingest.trajectories import Count
from rlvitals.live.web import runs
from rlvitals.live.web.runs import Shelf, run_id
from rlvitals.schema import Run
from tests.cli.runs import sft_rows, trl_rows, write_jsonl
from tests.live.site import read, shelf_of, write_run


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "REST", 0.0)
    monkeypatch.setattr(runs, "FIND_SECONDS", 0.0)


def test_a_run_is_read_once_until_its_files_change(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", 40, dump=False)
    shelf = shelf_of(tmp_path)
    assert [(s.name, s.revision) for s in shelf.all()] == [("one", 0)]
    assert shelf.waiting == 1
    assert (shelf.refresh(), shelf.refresh()) == (1, 0)
    with (folder / "log.jsonl").open("a") as file:
        file.write(json.dumps({**trl_rows(1)[0], "step": 41}) + "\n")
    assert shelf.refresh() == 1
    shown = shelf.all()[0]
    assert (shown.revision, shown.diagnosis is not None and shown.diagnosis.position.last_step) == (2, 41)


def test_reading_rests_in_proportion_to_its_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path / "one", 40, dump=False)
    now = [0.0]
    monkeypatch.setattr(runs.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(runs, "REST", 4.0)

    def slowly(path: Path, counting: Count) -> Run:
        now[0] += 3.0
        return read(path, counting)

    shelf = Shelf(lambda: find([tmp_path]), slowly)
    assert shelf.refresh() == 1
    os.utime(folder / "log.jsonl", ns=(1, 1))
    now[0] = 14.9  # read until 3, rests 12 seconds
    assert shelf.refresh() == 0
    now[0] = 15.1
    assert shelf.refresh() == 1


def test_what_cannot_be_read_is_said_and_hides_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "good", 40, dump=False)
    write_jsonl(tmp_path / "sft" / "log.jsonl", sft_rows())
    shelf = shelf_of(tmp_path)
    assert shelf.refresh() == 2
    good, bad = shelf.all()
    assert (good.name, bad.name) == ("good", "sft")
    assert good.problems == ()
    assert bad.diagnosis is None
    assert "no log with a reward" in bad.problems[0].what


def test_a_failed_read_keeps_the_last_diagnosis(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "one", 40, dump=False)
    shelf = shelf_of(tmp_path)
    shelf.refresh()
    (folder / "log.jsonl").write_text("")
    shelf.refresh()
    shown = shelf.all()[0]
    assert shown.diagnosis is not None
    assert shown.diagnosis.position.last_step == 40
    assert len(shown.problems) == 1


def test_a_fault_of_rlvitals_is_a_problem_of_that_run(tmp_path: Path) -> None:
    write_run(tmp_path / "one", 40, dump=False)
    shelf = Shelf(lambda: find([tmp_path]), lambda path, counting: 1 / 0)  # type: ignore[arg-type, return-value]
    shelf.refresh()
    assert shelf.all()[0].problems[0].what == "rlvitals failed: ZeroDivisionError: division by zero"


def test_runs_come_and_go(tmp_path: Path) -> None:
    write_run(tmp_path / "one", 30, dump=False)
    shelf = shelf_of(tmp_path)
    shelf.refresh()
    before = shelf.revision
    write_run(tmp_path / "two", 30, dump=False)
    assert shelf.refresh() == 1
    assert shelf.revision == before + 2
    (tmp_path / "one" / "log.jsonl").unlink()
    (tmp_path / "one").rmdir()
    shelf.refresh()
    assert [s.name for s in shelf.all()] == ["two"]


def test_what_needs_a_move_comes_first(tmp_path: Path) -> None:
    write_run(tmp_path / "a-healthy", 60, dump=False)
    write_run(tmp_path / "b-sick", 60, nan_from=30, dump=False)
    shelf = shelf_of(tmp_path)
    shelf.refresh()
    assert [s.name for s in shelf.all()] == ["b-sick", "a-healthy"]


def test_no_more_runs_than_can_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_RUNS", 2)
    for n in range(3):
        write_run(tmp_path / str(n), 5, dump=False)
    shelf = shelf_of(tmp_path)
    assert (len(shelf.all()), shelf.left_out) == (2, 1)


def test_an_address_says_nothing_of_the_path(tmp_path: Path) -> None:
    found = run_id(tmp_path / "secret")
    assert len(found) == 10
    assert set(found) <= set("0123456789abcdef")


def test_a_run_directory_is_one_run_and_a_folder_of_logs_is_several(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "single" / "metrics.jsonl", trl_rows(5))
    (tmp_path / "single" / "console.log").write_text("step 1")
    for n in "ab":
        write_jsonl(tmp_path / "many" / f"{n}.jsonl", trl_rows(5))
        write_jsonl(tmp_path / "nested" / n / "log.jsonl", trl_rows(5))
    assert [is_one_run(tmp_path / n) for n in ("single", "many", "nested")] == [True, False, False]
    assert [n for n, _ in find([tmp_path / "single"])] == ["single"]
    assert [n for n, _ in find([tmp_path / "many"])] == ["a.jsonl", "b.jsonl"]
    assert [n for n, _ in find([tmp_path / "nested"])] == ["a", "b"]
    assert [n for n, _ in find([tmp_path / "many" / "a.jsonl"])] == ["many/a.jsonl"]
