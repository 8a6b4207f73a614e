"""Rollouts beside a log become columns of the run; logged columns stay; examples reach the checks and the reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlvitals.check import Evidence
from rlvitals.engine import Engine, run_engine
from rlvitals.ingest import load
from rlvitals.report import words
from rlvitals.rollouts.dump import Rollouts
from rlvitals.schema import UNKNOWN_TRAINER, Example, Run, RunConfig, Status
from tests.rollouts.dumps import jsonl, rollouts, trl, verl


def logged(folder: Path, steps: range, reward: float = 0.25) -> Path:
    return jsonl(folder / "metrics.jsonl", [{"step": s, "reward": reward, "entropy": 1.0} for s in steps])


def test_columns_are_aligned_and_logged_ones_stay(tmp_path: Path) -> None:
    logged(tmp_path, range(1, 6))
    verl(tmp_path / "dump", rollouts((2, 3, 9)))
    run = load(tmp_path)
    assert isinstance(run.rollouts, Rollouts)
    assert run.rollouts.count == 24
    assert run.step.tolist() == [1, 2, 3, 4, 5]
    assert run.columns["reward_mean"].tolist() == [0.25] * 5
    got = run.columns["rollouts/reward_mean"]
    assert got[[1, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(got[[0, 3, 4]]).all()
    assert run.columns["zero_variance_frac"][1] == 0.0
    filled = run.provenance["zero_variance_frac"]
    assert (filled.status, filled.key) == (Status.DERIVED, "rollouts")
    texts = " ".join(n.text for n in run.notes)
    assert "read 24 rollouts from verl rollouts (3 files); groups told by the id" in texts
    assert "1 of 3 steps of the rollouts are not in the log" in texts
    assert load(tmp_path, rollouts=False).rollouts is None


def test_a_log_file_finds_the_dump_in_a_folder_beside_it(tmp_path: Path) -> None:
    log = logged(tmp_path, range(1, 6))
    verl(tmp_path / "dump", rollouts())
    assert "rollouts/reward_mean" in load(log).columns
    for n in range(4):  # other runs' logs: the dump may be theirs
        jsonl(tmp_path / f"other_{n}.jsonl", [{"step": 1, "reward": 0.0}])
    assert load(log).rollouts is None


def test_rollouts_alone_are_a_run_of_their_steps(tmp_path: Path) -> None:
    run = load(verl(tmp_path / "dump", rollouts((4, 7))))
    assert run.step.tolist() == [4, 7]
    assert run.columns["reward_mean"].tolist() == [0.5, 0.5]
    assert run.columns["rollouts/group_size_mean"].tolist() == [4.0, 4.0]
    assert load(tmp_path / "dump/4.jsonl").step.tolist() == [4]


def test_a_dump_that_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    logged(tmp_path, range(1, 6))
    folder = tmp_path / "rollout_data"
    folder.mkdir()
    (folder / "0.pt").write_bytes(b"\x80")
    run = load(tmp_path)
    assert run.rollouts is None
    assert any("--how-to-convert" in note.text for note in run.notes)


def test_weights_of_the_reward_are_told_by_the_log(tmp_path: Path) -> None:
    rows = [r | {"reward": float((r["step"] * r["index"] + r["group"]) % 3 == 0)} for r in rollouts(range(1, 13))]
    folder = trl(tmp_path / "out", rows, tmp_path)
    mean = {s: np.mean([r["reward"] for r in rows if r["step"] == s]) for s in range(1, 13)}
    jsonl(folder / "metrics.jsonl", [{"step": s, "reward": 2.0 * m + 0.3, "entropy": 1.0} for s, m in mean.items()])
    run = load(folder)
    assert isinstance(run.rollouts, Rollouts)
    assert run.rollouts.weights == pytest.approx({"accuracy_reward": 2.0, "format_reward": 0.3})
    assert run.columns["rollouts/reward_mean"] == pytest.approx(run.columns["reward_mean"])


def _example(step: int, fact: str = "loops") -> Example:
    return Example(fact, step, "g", 0, 1.0, f"text {step}")


def test_a_look_sees_the_latest_examples_up_to_its_step() -> None:
    run = Run("r", np.arange(1, 21), {"reward_mean": np.ones(20)}, rollouts=_Shown(tuple(map(_example, range(1, 26)))))
    view = run_engine(run, ()).examine().view
    assert [e.step for e in view.examples("loops", 2)] == [20, 19]
    assert view.examples("other") == ()
    live = Engine((), config=RunConfig(), trainer=UNKNOWN_TRAINER)
    for step in range(1, 21):
        live.add_examples([_example(step)])
        live.feed(np.array([step]), ("reward_mean",), np.ones((1, 1)))
    assert live.examine().view.examples("loops", 12) == view.examples("loops", 12)


class _Shown:
    def __init__(self, examples: tuple[Example, ...]) -> None:
        self.examples = examples


def test_examples_are_escaped_in_words() -> None:
    example = Example("x", 3, "g\x1b[31m", 2, 0.5, "a\x1b]0;title\x07<b>\nline", "/runs/it's.jsonl", 7)
    evidence = Evidence("rollouts/count", "t", 1.0, "", (1, 2), examples=(example,))
    assert "\x1b" not in words.example_place(evidence.examples[0]) + words.example_text(example)
    assert words.example_place(example).startswith("step 3, group g")
    assert words.example_command(example).startswith("rlvitals rollouts '/runs/it'\"'\"'s.jsonl' --where 'step=3")
