"""The record: what is written is read back, two writers and a kill lose nothing, the next run finds the lesson."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlvitals.cli.main import app
from rlvitals.conclude import diagnose
from rlvitals.errors import InputError
from rlvitals.record import store
from rlvitals.record.entry import Entry, Fix, Outcome, entry_of
from rlvitals.record.lessons import last_lesson, sentence, task_of
from rlvitals.schema import RunConfig
from tests.cli.runs import trl_rows, write_jsonl
from tests.record.runs import healthy, tied, with_evals

runner = CliRunner()


def entry(task: str = "math") -> Entry:
    return entry_of(diagnose(tied()), task, Fix("beta", "0", "0.04", "raised"), "checkpoint-40")


def test_an_entry_is_read_back_whole(tmp_path: Path) -> None:
    file = store.record_file(tmp_path)
    written = store.add(file, entry())
    assert file == tmp_path / ".rlvitals" / "record.sqlite"
    assert store.read(file) == (written,)
    assert written.id == 1
    assert written.check
    assert written.evidence
    assert str(written.fix) == "beta: 0 -> 0.04; raised"


def test_an_outcome_is_set_once_the_fix_is_verified(tmp_path: Path) -> None:
    file = store.record_file(tmp_path)
    store.add(file, entry())
    assert store.set_outcome(file, 1, Outcome.FIXED).outcome is Outcome.FIXED
    with pytest.raises(InputError, match="no such entry"):
        store.set_outcome(file, 2, Outcome.FIXED)


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run record"):
        store.read(store.record_file(tmp_path))
    broken = store.record_file(tmp_path)
    broken.parent.mkdir()
    broken.write_bytes(b"this is no database" * 100)
    with pytest.raises(InputError, match="cannot use the run record"):
        store.read(broken)


_WRITER = """
import sys
from pathlib import Path
from rlvitals.record import store
from rlvitals.record.entry import Entry
base = dict(when="2026-01-01", run=sys.argv[2], task="t", model="m", trainer="TRL", verdict="act", check="S001",
            finding="f", headline="h", onset="step 1", steps=1)
print("ready", flush=True)
for i in range(int(sys.argv[3])):
    store.add(Path(sys.argv[1]), Entry(**base))
    print(i, flush=True)
"""


def _writer(file: Path, name: str, count: int) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": "src"}
    command = [sys.executable, "-c", _WRITER, str(file), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    file = store.record_file(tmp_path)
    writers = [_writer(file, name, 20) for name in ("a", "b")]
    assert [w.communicate(timeout=60)[0].splitlines()[-1] for w in writers] == ["19", "19"]
    runs = [e.run for e in store.read(file)]
    assert (runs.count("a"), runs.count("b")) == (20, 20)


def test_a_killed_writer_leaves_what_it_had_confirmed(tmp_path: Path) -> None:
    file = store.record_file(tmp_path)
    writer = _writer(file, "a", 10_000)
    assert writer.stdout is not None
    while writer.stdout.readline().strip() != "5":
        time.sleep(0.001)
    writer.send_signal(signal.SIGKILL)
    confirmed = [int(line) for line in writer.stdout.read().split()]
    writer.wait(timeout=10)
    kept = len(store.read(file))
    last = max(confirmed, default=5)
    assert last + 1 <= kept <= last + 2
    store.add(file, entry())
    assert len(store.read(file)) == kept + 1


def test_the_next_run_finds_the_lesson_of_its_neighbour(tmp_path: Path) -> None:
    config = RunConfig(model="tiny")
    first = replace(tied("first"), config=config)
    store.add(store.record_file(tmp_path / "first"), replace(entry_of(diagnose(first), "math", Fix(text="easier"))))
    (tmp_path / "second").mkdir()
    second = replace(healthy("second"), config=config)
    found = last_lesson(second, (tmp_path / "second",), "math")
    assert found is not None
    assert found.run == "first"
    assert "easier" in sentence(found)
    assert last_lesson(second, (tmp_path / "second",), "code") is None


@pytest.mark.parametrize(
    ("versions", "task"),
    [
        ({"task": "gsm8k"}, "gsm8k"),
        ({"dataset": "math"}, "math"),
        ({"environment": "arithmetic@0123456789ab"}, "arithmetic@0123456789ab"),
        ({"environment": "2026-11-01", "reward": "v3"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_task_is_that_of_the_config_and_never_a_metric(versions: dict[str, str], task: str) -> None:
    run = with_evals(healthy(), [0.1, 0.2, 0.3], name="reward")  # as TRL calls its held-out sets
    assert task_of(replace(run, config=RunConfig(versions=versions))) == task
    assert task_of(replace(run, config=RunConfig(versions=versions)), "mine") == "mine"


def test_without_a_task_the_model_alone_must_be_known_and_the_same(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    file = store.record_file(tmp_path / "first")
    for model in ("", "tiny"):
        run = replace(tied(), config=RunConfig(model=model or None))
        store.add(file, entry_of(diagnose(run), task_of(run)))
    second = replace(healthy("second"), config=RunConfig(model="tiny"))
    found = last_lesson(second, (tmp_path / "second",))
    assert found is not None
    assert (found.task, found.model) == ("unknown", "tiny")
    assert sentence(found).startswith("Last recorded on this model, task unknown (")
    assert last_lesson(healthy("third"), (tmp_path / "second",)) is None
    assert last_lesson(second, (tmp_path / "second",), "math") is None


def test_the_command_records_lists_and_closes(tmp_path: Path) -> None:
    log = write_jsonl(tmp_path / "run" / "log.jsonl", trl_rows(60, nan_from=30))
    done = runner.invoke(app, ["record", str(log), "--fix", "lr=1e-5->1e-6", "--task", "math"])
    assert done.exit_code == 0, done.stderr
    assert "1e-5 -> 1e-6" in done.stdout
    listed = runner.invoke(app, ["record", str(tmp_path), "--list", "-f", "json"])
    assert '"task": "math"' in listed.stdout
    closed = runner.invoke(app, ["record", str(log), "--entry", "1", "--outcome", "fixed"])
    assert closed.exit_code == 0
    assert "fixed" in closed.stdout
    bad = runner.invoke(app, ["record", str(log), "--fix", "lr", "--outcome", "great", "--entry", "1"])
    assert bad.exit_code == 2
    assert "not a change" in bad.stderr
    assert "unknown value" in bad.stderr


def test_check_shows_the_last_lesson(tmp_path: Path) -> None:
    rows = trl_rows(60)
    first = write_jsonl(tmp_path / "a" / "log.jsonl", trl_rows(60, nan_from=30))
    second = write_jsonl(tmp_path / "b" / "log.jsonl", rows)
    for folder in ("a", "b"):
        (tmp_path / folder / "rlvitals.toml").write_text('[config]\nmodel = "tiny"\n[config.versions]\ntask = "sums"\n')
    done = runner.invoke(app, ["record", str(first), "--note", "lower rate"])
    assert (done.exit_code, done.stderr) == (0, "")
    shown = " ".join(runner.invoke(app, ["check", str(second)]).stdout.split())
    assert "Last recorded on this task and model (log.jsonl" in shown
    assert "lower rate" in shown


def test_a_run_that_names_no_task_is_recorded_as_unknown_and_that_is_said(tmp_path: Path) -> None:
    rows = [{**row, "eval_rewards/correct/mean": 0.2, "eval_reward": 0.3} for row in trl_rows(60, nan_from=30)]
    log = write_jsonl(tmp_path / "run" / "log.jsonl", rows)
    done = runner.invoke(app, ["record", str(log), "-f", "json"])
    assert json.loads(done.stdout)["task"] == "unknown"
    assert "Name it with --task NAME" in done.stderr
    named = runner.invoke(app, ["record", str(log), "-f", "json", "--task", "gsm8k"])
    assert json.loads(named.stdout)["task"] == "gsm8k"
    assert named.stderr == ""
