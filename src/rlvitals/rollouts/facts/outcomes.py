"""What cut and finished rollouts earn, and how many of the right ones stopped by themselves."""

from __future__ import annotations

import numpy as np

from rlvitals.env import StopReason
from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_step, is_one, pick, present, ratio
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example

LEAST = 4  # rollouts of a kind in a step behind a mean


def _fold(batch: Batch) -> Sums:
    reason, reward, correct = batch.text("stop_reason"), batch.number("reward"), batch.number("correct")
    cut, there = is_one(reason, StopReason.BUDGET), np.isfinite(reward)
    right, judged = correct == 1.0, np.isfinite(correct)
    value = np.where(there, reward, 0.0)
    values = {
        "cut": (cut & there).astype(float),
        "cut_sum": np.where(cut, value, 0.0),
        "stopped": (~cut & there).astype(float),
        "stopped_sum": np.where(cut, 0.0, value),
        "judged": judged.astype(float),
        "right": right.astype(float),
        "right_cut": (right & cut).astype(float),
        "right_stopped": (right & ~cut).astype(float),
    }
    return by_step(batch, present(reason), values)


def _finish(sums: Sums) -> Series:
    return {
        "rollouts/truncated_reward_mean": ratio(sums, "cut_sum", "cut", least=LEAST),
        "rollouts/stopped_reward_mean": ratio(sums, "stopped_sum", "stopped", least=LEAST),
        "rollouts/right_stopped_frac": ratio(sums, "right_stopped", "judged"),
        "rollouts/right_unstopped_share": ratio(sums, "right_cut", "right", least=LEAST),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    cut = is_one(batch.text("stop_reason"), StopReason.BUDGET)
    reward = batch.number("reward")
    return pick(batch, cut & ((batch.number("correct") == 1.0) | (reward > 0)), "outcomes", rank=reward)


FACT = Fact(
    name="outcomes",
    reads=("stop_reason", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/truncated_reward_mean",
        "rollouts/stopped_reward_mean",
        "rollouts/right_stopped_frac",
        "rollouts/right_unstopped_share",
    ),
    examples=_examples,
    also=("correct",),
)
