"""Held-out evaluation: the same items with the same seeds at every cadence, sampled as in training, in one batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlvitals.env import VerifierStatus
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.rollout import Sampler, Sampling, Trajectory, seed_of
from rlvitals.grpo.tasks.base import Task

NAME = "heldout"
SEED = seed_of("held-out")  # one for all runs, so that runs and steps are compared on the same draws
SHARE = 0.25  # of the run's time above which evaluations become rarer (convention)
SHARE_FROM_S = 60.0  # seconds of a run before that is looked at: short runs keep their cadence (convention)
MAX_TEXT = 2000  # characters of a completion that are kept per item

_RIGHT = {VerifierStatus.RIGHT: 1.0, VerifierStatus.WRONG: 0.0, VerifierStatus.NO_PARSE: 0.0}


@dataclass(frozen=True)
class HeldOut:
    """One evaluation: share of right answers, its standard error, and a row per item.

    score is NaN when no item got a verdict; items counts those that did.
    """

    score: float
    stderr: float
    items: int
    rows: tuple[dict[str, Any], ...]


def evaluate(
    task: Task, items: int, sampler: Sampler, tokenizer: Any, sampling: Sampling, parallel: Parallel,
    collect: Callable[..., list[Trajectory]],
) -> HeldOut:  # fmt: skip
    """Return the score on the first held-out items, one sample each; every process plays its share of them."""
    chosen = task.held_out[:items]
    mine = parallel.share(len(chosen))
    own = collect(task, chosen[mine.start : mine.stop], 1, sampler, tokenizer, sampling, SEED, first_group=mine.start)
    return summary([t for part in parallel.gather([_light(t) for t in own]) for t in part])


def _light(t: Trajectory) -> Trajectory:
    t.keep_packed = []
    return t


def summary(trajectories: Sequence[Trajectory]) -> HeldOut:
    """Return the score of played items; one that the verifier failed on is no wrong answer and is left out."""
    rows = tuple(
        {
            "item": t.item.id,
            "seed": t.seed,
            "reward": t.reward if math.isfinite(t.reward) else None,
            "correct": None if t.status is None else _RIGHT.get(t.status),
            "status": None if t.status is None else t.status.value,
            "tokens": t.tokens,
            "stop_reason": None if t.stop is None else t.stop.value,
            "tier": t.item.tier,
            "completion": t.text[:MAX_TEXT],
        }
        for t in trajectories
    )
    marks = [float(r["correct"]) for r in rows if r["correct"] is not None]
    if not marks:
        return HeldOut(math.nan, math.nan, 0, rows)
    score = sum(marks) / len(marks)
    return HeldOut(score, math.sqrt(score * (1.0 - score) / len(marks)), len(marks), rows)


@dataclass
class Cadence:
    """When to evaluate: every so many steps, rarer once evaluations take more than their share of the time."""

    every: int
    seconds: float = 0.0

    def due(self, step: int) -> bool:
        return self.every > 0 and step % self.every == 0

    def took(self, seconds: float, of_run: float) -> bool:
        """Take the time of an evaluation; return True when the cadence was halved for it."""
        self.seconds += seconds
        if of_run < SHARE_FROM_S or self.seconds <= SHARE * of_run:
            return False
        self.every *= 2
        return True
