"""preflight: verdicts, pass@k and tied groups against arithmetic, intervals with tasks as units."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from rlvitals.audit.learnable import Task, at_k, examine_rollouts, rate, tasks_of
from rlvitals.auditresults import Learnable, Preflight
from rlvitals.errors import InputError
from tests.audit.data import row


def sampled(*chances: float, tasks: int = 60, k: int = 8) -> Preflight:
    draw = random.Random(7)
    rows = [
        row(i, index=j, tier=str(i % len(chances)), reward=float(draw.random() < chances[i % len(chances)]))
        for i in range(tasks)
        for j in range(k)
    ]
    return examine_rollouts(rows, threshold=1.0)


@pytest.mark.parametrize(
    ("chances", "verdict", "start"),
    [
        ((0.0,), Learnable.EASIER, ""),
        ((0.005,), Learnable.EASIER, ""),
        ((0.3,), Learnable.YES, "0"),
        ((0.99,), Learnable.SOLVED, ""),
        ((0.0, 1.0), Learnable.UNMIXED, ""),
        ((0.5, 0.2, 0.0), Learnable.YES, "0"),
    ],
)
def test_verdicts(chances: tuple[float, ...], verdict: Learnable, start: str) -> None:
    found = sampled(*chances)
    assert (found.verdict, found.start_with if len(chances) > 1 or start else "") == (verdict, start)
    assert found.needed == 0


def test_too_few_samples_say_how_many_are_needed() -> None:
    found = sampled(0.0, tasks=3, k=1)
    assert found.verdict is Learnable.UNSURE
    assert found.high == pytest.approx(0.56, abs=0.01)  # 3 tasks without a success
    assert found.needed == math.ceil(1.96**2 * 49) - 3  # Wilson's upper bound for none of n reaches 2% at n = 189


def test_pass_at_k_and_ties_are_the_counting_estimates() -> None:
    tasks = [Task("a", "", "", 1, 4), Task("b", "", "", 4, 4)]
    assert at_k(tasks, 2, "pass").value == pytest.approx((0.5 + 1.0) / 2)  # 1 - C(3,2)/C(4,2) = 1/2
    assert at_k(tasks, 2, "tied").value == pytest.approx((0.5 + 1.0) / 2)
    assert not at_k(tasks, 4, "pass").extrapolated
    assert at_k(tasks, 8, "tied").extrapolated


def test_rollouts_of_one_task_do_not_count_as_independent() -> None:
    clustered = [Task(str(i), "", "", 8 * (i % 2), 8) for i in range(40)]
    spread = [Task(str(i), "", "", 4, 8) for i in range(40)]
    wide, narrow = (rate(t)[2] - rate(t)[1] for t in (clustered, spread))
    assert wide / narrow == pytest.approx(math.sqrt(8), rel=0.1)


def test_verifier_errors_are_left_out_and_counted() -> None:
    rows = [row(i, reward=float(i % 2)) for i in range(20)] + [row(20, reward=math.nan)]
    found = examine_rollouts(rows, threshold=1.0)
    assert (found.rollouts, found.unscored, found.success) == (20, 1, 0.5)
    with pytest.raises(InputError, match="no rollout has a reward"):
        tasks_of([row(0)], 1.0)


def test_correct_goes_before_the_reward_and_shaped_rewards_need_a_limit() -> None:
    rows = [row(i, reward=0.1 * i, correct=float(i > 5)) for i in range(12)]
    assert sum(t.right for t in tasks_of(rows)[0]) == 6
    with pytest.raises(InputError, match="--solved-at"):
        tasks_of([replace(r, correct=math.nan) for r in rows])


def test_intervals_of_tied_groups_hold() -> None:
    """Chances drawn from Beta(0.6, 1.5): the true share of tied groups is E[p^G] + E[(1-p)^G]."""

    def rise(c: float, k: int) -> float:
        return math.exp(math.lgamma(c + k) - math.lgamma(c) - math.lgamma(2.1 + k) + math.lgamma(2.1))

    held = {8: 0, 16: 0}  # counted, and extrapolated from 8 rollouts per task
    for seed in range(100):
        draw = random.Random(seed)
        tasks = []
        for i in range(60):
            p = draw.betavariate(0.6, 1.5)
            tasks.append(Task(str(i), "", "", sum(draw.random() < p for _ in range(8)), 8))
        for k in held:
            found = at_k(tasks, k, "tied")
            held[k] += found.low <= rise(0.6, k) + rise(1.5, k) <= found.high
    assert min(held.values()) >= 88
