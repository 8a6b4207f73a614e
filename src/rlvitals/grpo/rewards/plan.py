"""How the parts of a reward become one number, or stay apart.

A part is judged by the environment (it comes with `Step.rewards`) or here, on the finished completion. Parts are kept
unweighted in every log; weights act only in the total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlvitals.env import StopReason, VerifierStatus
from rlvitals.errors import InputError, Problem

NO_ANSWER = frozenset({StopReason.BUDGET, StopReason.ENV, StopReason.TOOL})
"""Ends of a trajectory that leave nothing to verify through the policy's own doing."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished trajectory as the shaping parts see it.

    Attributes:
        text: the assistant's turns joined, tags visible, without end tokens.
        ids: completion token ids, end tokens included, environment tokens left out.
        budget: completion tokens it was allowed.
        status: what the verifier said, None where nothing was verified.
    """

    text: str
    ids: Sequence[int]
    budget: int
    status: VerifierStatus | None = None
    stop: StopReason | None = None

    @property
    def right(self) -> bool:
        return self.status is VerifierStatus.RIGHT


class Rule(StrEnum):
    """How several parts become the advantage's input."""

    SUM = "sum"  # weighted sum
    GATED = "gated"  # the gate's part alone decides; the others count only where the gate is 1
    GDPO = "gdpo"  # each part normalised within its group, then weighted (advantages.components_B)


@dataclass(frozen=True, slots=True)
class Part:
    """One reward part.

    Attributes:
        name: column `reward_part/<name>`.
        weight: what one unit of it is worth in the total; negative for penalties.
        judge: completion -> unweighted value; None where the environment gives it.
        only_if_right: 0 unless the verifier said right (a conditional format reward).
    """

    name: str
    weight: float = 1.0
    judge: Callable[[Completion], float] | None = None
    only_if_right: bool = False


@dataclass(frozen=True, slots=True)
class RewardPlan:
    """All parts of a task's reward and their rule.

    InputError where two parts share a name, a weight is not finite or the gate is no part.
    """

    parts: tuple[Part, ...]
    rule: Rule = Rule.SUM
    gate: str = "correct"

    def __post_init__(self) -> None:
        names = [p.name for p in self.parts]
        problems = [
            Problem("two reward parts share a name", where=f"reward part {n}", hint="Rename one")
            for n in sorted({n for n in names if names.count(n) > 1})
        ]
        problems += [
            Problem(
                "weight is no number", where=f"reward part {p.name}", found=str(p.weight), expected="a finite number"
            )
            for p in self.parts
            if not math.isfinite(p.weight)
        ]
        if self.rule is Rule.GATED and self.gate not in names:
            problems.append(
                Problem("the gate is no reward part", where="gate", found=self.gate, expected=", ".join(names))
            )
        if problems:
            raise InputError(*problems)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parts)

    @property
    def weights(self) -> tuple[float, ...]:
        return tuple(p.weight for p in self.parts)

    @property
    def max_total(self) -> float | None:
        """The total of a right, well-formed completion when every positive part is worth at most 1; else None."""
        if any(p.weight < 0 for p in self.parts):
            return None
        return math.fsum(self.weights)

    def score(self, completion: Completion, from_env: Mapping[str, float]) -> dict[str, float]:
        """Return every part, unweighted; NaN for all of them when the verifier gave no verdict.

        A part that the environment should have given and did not is NaN: missing is not zero. A trajectory that was cut
        off before anything could be verified did not answer: that is 0.
        """
        if completion.status in (VerifierStatus.ERROR, VerifierStatus.TIMEOUT):
            return dict.fromkeys(self.names, math.nan)
        return {p.name: self._part(p, completion, from_env) for p in self.parts}

    def _part(self, part: Part, completion: Completion, from_env: Mapping[str, float]) -> float:
        if part.judge is None:
            unasked = completion.status is None and completion.stop in NO_ANSWER
            return float(from_env.get(part.name, 0.0 if unasked else math.nan))
        if part.only_if_right and not completion.right:
            return 0.0
        return float(part.judge(completion))

    def total(self, parts: Mapping[str, float]) -> float:
        """Return the reward of one completion; NaN as soon as one part is NaN.

        Under GDPO this is the weighted sum, for the log; the advantage is made from the parts.
        """
        weighted = {p.name: p.weight * parts[p.name] for p in self.parts}
        if any(math.isnan(v) for v in weighted.values()):
            return math.nan
        if self.rule is Rule.GATED and parts[self.gate] < 1.0:
            return weighted[self.gate]
        return math.fsum(weighted.values())


CORRECT = Part("correct")
CORRECT_ONLY = RewardPlan((CORRECT,))
