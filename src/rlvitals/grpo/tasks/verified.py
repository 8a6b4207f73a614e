"""One-turn tasks whose answer a verifier judges in a worker process."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass

from rlvitals.env import Item, Message, Step, StopReason, VerifierStatus
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.rewards.milestones import reached
from rlvitals.grpo.tasks.base import identity
from rlvitals.grpo.workerpool import Workers
from rlvitals.worker import Answer

SECONDS = 5.0  # of one verification; as math-verify's own limit
MEMORY_MB = 1024
JUDGE = "rlvitals.grpo.rewards.verifiers:judge"
MATH_JUDGE = "rlvitals.grpo.rewards.judge_math:judge"
LIBRARY = {"math": ("math_verify", "train"), "json": ("jsonschema", "tasks")}
"""Verifier -> module that it needs, and the extra that installs it."""


@dataclass(frozen=True, slots=True)
class Verification:
    """How completions are judged: verifier and reader by name, limits of one call."""

    how: str = "math"
    read: str = "boxed"
    seconds: float = SECONDS
    memory_mb: int = MEMORY_MB

    @property
    def version(self) -> str:
        return identity("verified", self.how, self.read, self.seconds, self.memory_mb, 1)

    def workers(self) -> Workers:
        """Return the workers, not started yet. InputError where the verifier's library is not installed."""
        module, extra = LIBRARY.get(self.how, ("json", ""))
        if importlib.util.find_spec(module) is None:
            hint = f"pip install 'rlvitals[{extra}]'"
            raise InputError(Problem(f"the verifier {self.how} needs {module}", "task: verifier", hint=hint))
        target = MATH_JUDGE if self.how == "math" else JUDGE
        return Workers(target, seconds=self.seconds, memory_mb=self.memory_mb)


def status_of(answer: Answer) -> tuple[VerifierStatus, str]:
    """Return the status of a worker's answer and the verifier's own output as text."""
    if answer.timed_out:
        return VerifierStatus.TIMEOUT, answer.error
    if not answer.ok:
        return VerifierStatus.ERROR, answer.error
    value = answer.value
    if not isinstance(value, Mapping) or value.get("status") not in set(VerifierStatus):
        return VerifierStatus.ERROR, f"the verifier answered {value!r:.200}"
    return VerifierStatus(value["status"]), str(value.get("raw", ""))


def reward_of(status: VerifierStatus) -> float:
    """Return 1 for right, 0 for wrong and no parse, NaN where the verifier gave no verdict."""
    if status in (VerifierStatus.ERROR, VerifierStatus.TIMEOUT):
        return math.nan
    return float(status is VerifierStatus.RIGHT)


class VerifiedEnv:
    """One question, one answer. The workers are shared by all environments of a task."""

    concurrent = True

    def __init__(self, verification: Verification, workers: Workers) -> None:
        self.version = verification.version
        self._verification, self._workers = verification, workers
        self._item: Item | None = None

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self._item = item
        return item.messages

    def step(self, text: str) -> Step:
        if self._item is None:
            raise RuntimeError("step before reset")
        item = self._item
        extra = {k: v for k, v in item.extra.items() if k == "schema"}
        how, read = self._verification.how, self._verification.read
        status, raw = status_of(self._workers.call(text, item.gold, how, read, extra))
        rewards = {"correct": reward_of(status)}
        milestones = item.extra.get("milestones")
        if isinstance(milestones, list | tuple):
            rewards["milestones"] = reached(text, [str(m) for m in milestones])
        reason = StopReason.ERROR if status is VerifierStatus.ERROR else None
        parsed = raw if status in (VerifierStatus.RIGHT, VerifierStatus.WRONG) else None
        return Step(rewards=rewards, raw=raw, status=status, reason=reason, parsed=parsed)
