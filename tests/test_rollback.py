"""Where to go back to: nothing worth keeping, a best that was passed, checkpoints that are too late."""

from __future__ import annotations

import numpy as np
import pytest

from rlvitals.check import Onset, Plan, Remedy, Rollback, Verify
from rlvitals.diagnosis import RollbackTarget
from rlvitals.engine import run_engine
from rlvitals.rollback import gained, rollback_target
from rlvitals.schema import Evals, Event, EventKind, Run
from rlvitals.view import View

PLAN = Plan((Remedy("mend it"),), (Verify("see"),), Rollback.BEFORE_ONSET)
FLAT, RISING = "flat", "rising"


def view(
    reward: str, rows: int = 100, *, first: int = 1, held: dict[int, float] | None = None, saved: tuple[int, ...] = ()
) -> View:
    noise = np.random.default_rng(0).normal(0, 0.03, rows)
    columns = {"reward_mean": noise + (np.full(rows, 0.4) if reward == FLAT else np.linspace(0.3, 0.9, rows))}
    at, scores = np.array(list(held or {})), np.array(list((held or {}).values()))
    sets = {"math": Evals("math", at, scores, np.full(scores.size, np.nan), 128)}
    events = tuple(Event(EventKind.CHECKPOINT, s, path=f"checkpoint-{s}", complete=True) for s in saved)
    run = Run("r", np.arange(first, first + rows), columns, evals=sets if held else {}, events=events)
    return run_engine(run, ()).examine().view


def target(of: View, *onset: int) -> RollbackTarget:
    return rollback_target(PLAN, Onset(*onset), of)


def test_a_fault_before_anything_was_learnt_goes_back_to_the_start() -> None:
    found = target(view(FLAT), 20, 30)
    assert (found.kind, found.step, found.path) == (Rollback.BEFORE_ONSET, 0, "")
    assert "start again" in found.reason
    assert target(view(FLAT, saved=(20, 40)), 25, 30).step == 0
    assert target(view(FLAT, saved=(0, 20)), 25, 30).path == "checkpoint-0"


def test_a_gain_in_the_reward_or_held_out_is_kept() -> None:
    assert target(view(RISING), 30, 40).step == 29
    assert target(view(RISING, saved=(10, 20, 40)), 30, 40).path == "checkpoint-20"
    rose = {0: 0.3, 10: 0.45, 20: 0.6, 30: 0.62}
    assert target(view(FLAT, held=rose, saved=(10, 20, 30)), 35, 40).path == "checkpoint-20"


@pytest.mark.parametrize(("rows", "limit", "kept"), [(100, 60, False), (100, 90, True)])
def test_many_rows_are_kept_without_proof(rows: int, limit: int, kept: bool) -> None:
    assert gained(view(FLAT, rows), limit) is kept


def of_columns(columns: dict[str, np.ndarray], held: dict[int, float] | None = None) -> View:
    rows = next(iter(columns.values())).size
    at, scores = np.array(list(held or {})), np.array(list((held or {}).values()))
    sets = {"math": Evals("math", at, scores, np.full(scores.size, np.nan), 128)} if held else {}
    return run_engine(Run("r", np.arange(1, rows + 1), columns, evals=sets), ()).examine().view


def broken_at(onset: int, before: np.ndarray, rows: int) -> View:
    """A run whose reward is 0 from a step on."""
    return of_columns({"reward_mean": np.concatenate([before[: onset - 1], np.zeros(rows - onset + 1)])})


def test_blocks_of_a_long_run_count_by_their_rows() -> None:
    noise = np.random.default_rng(1).normal(0, 0.03, 400)
    learnt = np.minimum(np.linspace(0.1, 0.77, 400), 0.6) + noise
    for rows in (5000, 100_000):  # blocks of 64 and of 1024 rows: the second has none that ends before the fault
        found = target(broken_at(401, learnt, rows), 401, 401)
        assert found.step == 400, rows
        assert "start again" not in found.reason
    assert target(broken_at(401, 0.3 + noise, 1000), 401, 401).step == 400, "400 noisy rows without a gain"


def test_a_long_run_that_never_had_a_reward_starts_again() -> None:
    for constant in (0.0, 0.1):
        before = np.full(400, constant)
        assert target(broken_at(401, before, 5000), 401, 401).step == 0
        assert target(broken_at(401, before, 100_000), 401, 401).step == 0
    noise = np.random.default_rng(1).normal(0.3, 0.03, 400)
    assert target(broken_at(2, noise, 5000), 2, 2).step == 0, "one row shows nothing, however coarse the blocks"
    assert not gained(broken_at(31, noise, 5000), 30), "the first rows are kept exactly, and show no gain"
    assert gained(broken_at(31, np.linspace(0.1, 0.6, 30) + noise[:30] - 0.3, 5000), 30)
    assert gained(broken_at(51, noise, 5000), 50), "later ones are too coarse to tell"
    assert not gained(broken_at(51, noise, 500), 50)


@pytest.mark.parametrize(
    ("rows", "limit", "kept"), [(1000, 808, True), (1000, 65, True), (1000, 60, False), (100, 60, False)]
)
def test_without_a_reward_the_rows_of_the_log_count(rows: int, limit: int, kept: bool) -> None:
    flat = {s: 0.5 + 0.01 * (s % 20 > 9) for s in range(0, rows, 10)}
    assert gained(of_columns({"entropy": np.linspace(0.5, 0.6, rows)}, flat), limit) is kept


def test_what_a_resumed_run_had_learnt_before_its_log_is_kept() -> None:
    found = target(view(FLAT, first=501), 541, 541)
    assert (found.step, found.path) == (500, "")
    assert "start again" not in found.reason
    assert "since step 501, where this log starts: go back to there" in found.reason
    assert target(view(FLAT, first=501, saved=(100, 400, 520)), 541, 541).path == "checkpoint-400"
    assert target(view(RISING, first=501), 541, 541).step == 540


def test_a_log_of_every_tenth_step_is_not_a_resumed_one() -> None:
    noise = np.random.default_rng(0).normal(0.4, 0.03, 100)
    run = Run("r", np.arange(10, 1010, 10), {"reward_mean": noise})
    found = target(run_engine(run, ()).examine().view, 210, 210)
    assert found.step == 0
    assert "start again" in found.reason


def test_no_steps_at_all_are_no_gain_and_no_data_is_no_verdict() -> None:
    assert target(view(RISING), 2, 2).step == 0
    empty = run_engine(Run("r", np.arange(1, 41), {"entropy": np.ones(40)}), ()).examine().view
    assert target(empty, 30, 30).step == 29


def test_no_checkpoint_after_the_last_good_evaluation() -> None:
    passed = {0: 0.3, 10: 0.6, 20: 0.4, 30: 0.35, 40: 0.3}
    found = target(view(RISING, held=passed, saved=(5, 20, 40)), 45, 50)
    assert found.path == "checkpoint-5", "the score of step 20 is surely below the one of step 10"
    late = target(view(RISING, held=passed, saved=(20, 40)), 45, 50)
    assert (late.step, late.path) == (10, "")
    assert "no complete checkpoint on disk is as early" in late.reason
