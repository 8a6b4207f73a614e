"""The errors of held-out scores: one function for all who ask how far two scores may lie apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlvitals.check import Onset, Plan, Remedy, Rollback, Verify
from rlvitals.checks.companions import heldout_fell
from rlvitals.checks.held import LEAST_ERROR, errors, known_errors
from rlvitals.engine import run_engine
from rlvitals.rollback import rollback_target
from rlvitals.schema import Evals, Event, EventKind, Run
from rlvitals.view import Held, View

STEADY = [6.0, 6.1, 5.9, 6.05, 5.95, 6.1, 5.9, 6.0]


def held(scores: list[float], *, items: int = 0, metric: str = "accuracy", stderr: float = math.nan) -> Held:
    score = np.array(scores)
    return Held(10 * np.arange(1, score.size + 1), score, np.full(score.size, stderr), items, metric)


def view(of: Held, saved: tuple[int, ...] = ()) -> View:
    rows = int(of.step[-1]) + 10
    sets = {"math": Evals("math", of.step, of.score, of.stderr, of.items, metric=of.metric)}
    events = tuple(Event(EventKind.CHECKPOINT, s, path=f"checkpoint-{s}", complete=True) for s in saved)
    columns = {"reward_mean": np.linspace(0.3, 0.9, rows)}
    return run_engine(Run("r", np.arange(1, rows + 1), columns, evals=sets, events=events), ()).examine().view


def test_the_logged_error_comes_first_then_the_items_then_the_scores_themselves() -> None:
    assert errors(held([0.5] * 6, items=100, stderr=0.02)) == pytest.approx(0.02)
    assert known_errors(held([0.0, 0.5], items=98)) == pytest.approx([math.sqrt(0.01 * 0.99 / 98), 0.5 / 98**0.5])
    assert np.isnan(known_errors(held([6.0] * 6, items=100, metric="reward"))).all()
    assert np.isnan(errors(held([0.5] * 4))).all()
    assert errors(held([0.5] * 8)) == pytest.approx(LEAST_ERROR), "scores without a digit that moves are not exact"
    assert 0.05 < errors(held(STEADY, metric="reward"))[0] < 0.3


def test_a_second_signal_reads_the_same_errors() -> None:
    (fell,) = heldout_fell(view(held([*STEADY, 3.0, 2.9, 3.0], metric="reward")))
    assert fell.metric == "held-out math"
    assert not heldout_fell(view(held([*STEADY, 5.9, 6.0, 5.9], metric="reward")))
    assert not heldout_fell(view(held([0.6] * 8 + [0.59, 0.59]))), "one point, of a set of unknown size"
    assert not heldout_fell(view(held([6.0] * 3 + [1.0], metric="reward"))), "too few to know their error"


@pytest.mark.parametrize(
    ("scores", "items", "step"),
    [([0.4, 0.993, 1.0, 1.0], 128, 20), ([0.4, 0.99, 1.0, 1.0], 128, 30), ([0.4, 0.993, 1.0, 0.9], 0, 30)],
)
def test_a_checkpoint_ties_within_the_same_error(scores: list[float], items: int, step: int) -> None:
    """A score of 1 is as uncertain as 128 items are; without any known error the best stands alone."""
    plan = Plan((Remedy("mend it"),), (Verify("see"),), Rollback.BEFORE_ONSET)
    found = rollback_target(plan, Onset(45, 45), view(held(scores, items=items), saved=(10, 20, 30, 40)))
    assert found.step == step
