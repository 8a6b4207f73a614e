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
    assert target(view(FLAT, first=501), 521, 530).step == 500, "the log begins with a resumed run"


def test_a_gain_in_the_reward_or_held_out_is_kept() -> None:
    assert target(view(RISING), 30, 40).step == 29
    assert target(view(RISING, saved=(10, 20, 40)), 30, 40).path == "checkpoint-20"
    rose = {0: 0.3, 10: 0.45, 20: 0.6, 30: 0.62}
    assert target(view(FLAT, held=rose, saved=(10, 20, 30)), 35, 40).path == "checkpoint-20"


@pytest.mark.parametrize(("rows", "limit", "kept"), [(100, 60, False), (100, 90, True)])
def test_many_rows_are_kept_without_proof(rows: int, limit: int, kept: bool) -> None:
    assert gained(view(FLAT, rows), limit) is kept


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
