"""The errors of held-out scores: one function for all who ask how far two scores may lie apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlvitals.check import Onset, Plan, Remedy, Rollback, Verify
from rlvitals.checks.companions import heldout_fell
from rlvitals.checks.held import LEAST_ERROR, apparent_items, climb, drop, errors, known_errors
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


@pytest.mark.parametrize(
    ("scores", "items"),
    [
        ([0.5, 0.6, 0.6, 0.55], 20),
        ([0.5, 0.625, 0.375], 8),
        ([0.3333, 0.4667, 0.5], 30),
        ([0.5, 0.6, 0.6], 10),
        ([0.41, 0.43, 0.47, 0.52], 0),  # hundredths: rounding, or a hundred items
        ([0.412, 0.438], 0),
        ([0.5, 0.5, 0.5], 0),
        ([0.0, 1.0], 0),
        ([-0.5, 0.5, 0.25], 0),  # no shares
        ([], 0),
    ],
)
def test_scores_on_a_coarse_grid_are_means_of_few_items(scores: list[float], items: int) -> None:
    assert apparent_items(np.array(scores)) == items


def test_scores_of_many_items_hardly_ever_look_like_those_of_few() -> None:
    drawn = [np.random.default_rng(i).binomial(n, 0.4, 6) / n for i in range(100) for n in (200, 500, 1319)]
    assert sum(apparent_items(y) > 0 for y in drawn) == 0
    assert sum(apparent_items(np.round(y, 2)) > 0 for y in drawn) <= 6  # of 300


def test_one_item_of_twenty_is_no_drop() -> None:
    scores = np.array([0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.55, 0.55, 0.55])
    few = held(scores.tolist())
    assert errors(few)[3] == pytest.approx(np.sqrt((13 / 22) * (9 / 22) / 20))
    fall = drop(few)
    assert fall is not None
    assert fall.z < 1


def test_a_score_of_unknown_error_surely_climbs_only_where_enough_of_them_show_their_noise() -> None:
    few = climb(held([0.1, 0.5, 0.9]))
    assert few is not None
    assert not few.beyond(0.0)
    assert climb(held([0.1, 0.9])) is None
    known = climb(held([0.1, 0.5, 0.9], items=100))
    assert known is not None
    assert (known.before, known.now) == (0.1, pytest.approx(0.7))
    assert known.beyond(2.6)
    assert not known.beyond(2.6, least=0.6)
    many = climb(held([0.1031, 0.2127, 0.3011, 0.4043, 0.4987, 0.6019, 0.7023, 0.8011, 0.8193, 0.8117, 0.8289, 0.8203]))
    assert many is not None
    assert many.beyond(2.6)


def test_chance_alone_hardly_makes_a_score_climb() -> None:
    rng = np.random.default_rng(0)
    for count, items in ((3, 0), (5, 0), (8, 0), (3, 500), (8, 500)):
        draws = [climb(held(list(0.4 + rng.normal(0, 0.02, count)), items=items)) for _ in range(400)]
        assert sum(d is not None and d.beyond(2.6) for d in draws) <= 8, (count, items)
