"""What the verifier said, and what its failures earned: an error is never a wrong answer, nor a right one."""

from __future__ import annotations

import numpy as np

from rlvitals.env import VerifierStatus
from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import Mask, by_step, is_one, pick, present, ratio
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example


def failed(batch: Batch) -> Mask:
    """Return bool[rows]: the verifier itself failed or did not answer in time."""
    return is_one(batch.text("verifier_status"), VerifierStatus.ERROR, VerifierStatus.TIMEOUT)


def _fold(batch: Batch) -> Sums:
    status, reward, seconds = batch.text("verifier_status"), batch.number("reward"), batch.number("verifier_seconds")
    broken, scored, timed = failed(batch), np.isfinite(reward), np.isfinite(seconds)
    value = np.where(scored, reward, 0.0)
    values = {
        "n": np.ones(batch.rows),
        "unread": is_one(status, VerifierStatus.NO_PARSE).astype(float),
        "broken": broken.astype(float),
        "broken_scored": (broken & scored).astype(float),
        "broken_sum": np.where(broken, value, 0.0),
        "well": (~broken & scored).astype(float),
        "well_sum": np.where(broken, 0.0, value),
        "timed": timed.astype(float),
        "seconds": np.where(timed, seconds, 0.0),
        "slowest": np.where(timed, seconds, -np.inf),
    }
    return by_step(batch, present(status), values, {"slowest": "max"})


def _finish(sums: Sums) -> Series:
    steps, slowest = np.asarray(sums.keys[0], dtype=np.int64), sums.values["slowest"]
    timed = np.isfinite(slowest)
    return {
        "rollouts/parse_failure_frac": ratio(sums, "unread", "n"),
        "rollouts/verifier_error_frac": ratio(sums, "broken", "n"),
        "rollouts/error_scored_frac": ratio(sums, "broken_scored", "n"),
        "rollouts/error_reward_mean": ratio(sums, "broken_sum", "broken_scored"),
        "rollouts/verified_reward_mean": ratio(sums, "well_sum", "well"),
        "rollouts/verifier_seconds_mean": ratio(sums, "seconds", "timed"),
        "rollouts/verifier_seconds_max": (steps[timed], slowest[timed]),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    reward = batch.number("reward")
    return pick(batch, failed(batch) & np.isfinite(reward), "verifier", rank=reward)


FACT = Fact(
    name="verifier",
    reads=("verifier_status", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/parse_failure_frac",
        "rollouts/verifier_error_frac",
        "rollouts/error_scored_frac",
        "rollouts/error_reward_mean",
        "rollouts/verified_reward_mean",
        "rollouts/verifier_seconds_mean",
        "rollouts/verifier_seconds_max",
    ),
    examples=_examples,
    also=("verifier_seconds",),
)
