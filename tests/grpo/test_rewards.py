"""Reward parts: format by text and ids, milestones, penalties, and how parts become one number."""

from __future__ import annotations

import math

import pytest

from rlvitals.env import StopReason, VerifierStatus
from rlvitals.errors import InputError
from rlvitals.grpo.rewards.form import by_ids, by_text, well_formed
from rlvitals.grpo.rewards.milestones import reached
from rlvitals.grpo.rewards.penalties import overlong, repetition
from rlvitals.grpo.rewards.plan import Completion, Part, RewardPlan, Rule


def completion(
    text: str = "", ids: tuple[int, ...] = (), budget: int = 10, status: VerifierStatus | None = VerifierStatus.RIGHT
) -> Completion:
    return Completion(text, ids, budget, status)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("<think>2+2</think>4", True),
        ("  <think>\n2+2\n</think>\n\n4\n", True),
        ("<think></think>4", False),
        ("<think> </think>4", False),
        ("<think>2+2</think>", False),
        ("<think>2+2</think>  ", False),
        ("4", False),
        ("<think>4", False),
        ("</think>4<think>", False),
        ("well <think>2+2</think>4", False),
        ("<think>a</think>4<think>b</think>", False),
        ("<think>a<think>b</think>4", False),
        ("<think>a</think>4</think>", False),
        ("", False),
    ],
)
def test_format_by_text(text: str, fits: bool) -> None:
    assert well_formed(text) is fits
    assert by_text(completion(text)) == float(fits)


@pytest.mark.parametrize(
    ("ids", "value"),
    [
        ((3, 9, 4, 8, 2), 1.0),
        ((3, 9, 4, 8), 1.0),
        ((3, 4, 8, 2), 0.0),  # empty thinking
        ((3, 9, 4, 2), 0.0),  # nothing behind it but the end token
        ((3, 9, 4, 2, 0, 0), 0.0),
        ((9, 3, 9, 4, 8, 2), 0.0),
        ((4, 9, 3, 8, 2), 0.0),
        ((3, 9, 4, 8, 4, 2), 0.0),
        ((3, 3, 9, 4, 8, 2), 0.0),
        ((), 0.0),
    ],
)
def test_format_by_ids(ids: tuple[int, ...], value: float) -> None:
    assert by_ids(3, 4, ignored=(2, 0))(completion(ids=ids)) == value


def test_text_that_spells_a_tag_is_no_tag_by_ids() -> None:
    assert by_ids(3, 4)(completion("<think>a</think>b", ids=(20, 21, 22, 23))) == 0.0


def test_milestones_count_in_order() -> None:
    steps = ("7+5=12", "4+8+1=13")
    assert reached("<think>7+5=12,4+8+1=13</think>132", steps) == 1.0
    assert reached("<think>7 + 5 = 12", steps) == 0.5
    assert reached("4+8+1=13, 7+5=12", steps) == 0.5  # the second stands before the first
    assert reached("nothing", steps) == 0.0
    assert math.isnan(reached("anything", ()))


def test_length_penalty_rises_over_the_last_fifth() -> None:
    assert [overlong(completion(ids=(1,) * n, budget=100)) for n in (0, 80, 90, 100, 150)] == [0, 0, 0.5, 1, 1]
    assert overlong(completion(ids=(1,), budget=0)) == 0.0


def test_repetition_is_the_share_of_runs_seen_before() -> None:
    assert repetition(completion(ids=tuple(range(20)))) == 0.0
    assert repetition(completion(ids=(7,) * 11)) == pytest.approx(7 / 8)
    assert repetition(completion(ids=(1, 2, 3, 4) * 2)) == pytest.approx(1 / 5)
    assert repetition(completion(ids=(7,) * 7)) == 0.0


FORMAT = Part("format", 0.5, by_text)


def test_sum_weighs_parts() -> None:
    plan = RewardPlan((Part("correct"), FORMAT))
    parts = plan.score(completion("<think>a</think>1"), {"correct": 1.0})
    assert parts == {"correct": 1.0, "format": 1.0}
    assert plan.total(parts) == 1.5
    assert plan.max_total == 1.5


def test_conditional_format_pays_right_answers_only() -> None:
    plan = RewardPlan((Part("correct"), Part("format", 0.5, by_text, only_if_right=True)))
    wrong = completion("<think>a</think>1", status=VerifierStatus.WRONG)
    assert plan.score(wrong, {"correct": 0.0}) == {"correct": 0.0, "format": 0.0}
    assert plan.score(completion("<think>a</think>1"), {"correct": 1.0})["format"] == 1.0


def test_gate_closes_the_other_parts() -> None:
    plan = RewardPlan((Part("correct"), FORMAT), Rule.GATED)
    assert plan.total({"correct": 0.0, "format": 1.0}) == 0.0
    assert plan.total({"correct": 1.0, "format": 1.0}) == 1.5


def test_penalties_have_negative_weights() -> None:
    plan = RewardPlan((Part("correct"), Part("length", -0.2, overlong)))
    assert plan.total(plan.score(completion(ids=(1,) * 10, budget=10), {"correct": 1.0})) == pytest.approx(0.8)
    assert plan.max_total is None


@pytest.mark.parametrize("status", [VerifierStatus.ERROR, VerifierStatus.TIMEOUT])
def test_failed_verifier_is_no_reward_of_any_part(status: VerifierStatus) -> None:
    plan = RewardPlan((Part("correct"), FORMAT))
    parts = plan.score(completion("<think>a</think>1", status=status), {"correct": 0.0})
    assert all(math.isnan(v) for v in parts.values())
    assert math.isnan(plan.total(parts))


def test_part_that_the_environment_left_out_is_missing_not_zero() -> None:
    plan = RewardPlan((Part("correct"), Part("partial")))
    assert math.isnan(plan.score(completion(), {"correct": 1.0})["partial"])


def test_trajectory_cut_off_before_any_answer_earns_nothing() -> None:
    plan = RewardPlan((Part("correct"),))
    cut = Completion("<call>4", (1, 2), 2, None, StopReason.BUDGET)
    assert plan.score(cut, {}) == {"correct": 0.0}
    unknown = Completion("4", (1, 2), 2, None, StopReason.EOS)
    assert math.isnan(plan.score(unknown, {})["correct"])


def test_plan_names_all_its_faults_at_once() -> None:
    with pytest.raises(InputError) as caught:
        RewardPlan((Part("a"), Part("a"), Part("b", math.nan)), Rule.GATED, gate="correct")
    assert [p.where for p in caught.value.problems] == ["reward part a", "reward part b", "gate"]
