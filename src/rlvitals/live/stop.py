"""When a run should end early, and which checkpoint is its best. Off unless asked for, and asked once.

The rules are those of the documents: every reward zero, the task solved, values that are not finite, held-out scores
that fall. The best checkpoint is the one with the best held-out score; training reward never decides it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlvitals.check import Action, Confidence, Finding, Verdict
from rlvitals.errors import InputError, Problem
from rlvitals.live.transitions import Told
from rlvitals.schema import Event, EventKind
from rlvitals.view import Held

CONFIDENCE = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)
SOLVED, NON_FINITE = "T002", "D001"  # checks whose finding is the rule


@dataclass(frozen=True, slots=True)
class StopOn:
    """What may ask the trainer to stop. Every rule is off until it is set.

    Attributes:
        confidence: stop at a stop verdict whose finding is at least this sure.
        zero_reward_steps: stop after this many steps in a row with a mean reward of exactly 0.
        solved: stop when the task is solved: reward held at its maximum and held-out scores high (check T002).
        non_finite: stop when values stay non-finite (check D001), at any confidence.
        heldout_falling: stop after this many evaluations of one set that each scored below the one before.
    """

    confidence: Confidence | None = None
    zero_reward_steps: int | None = None
    solved: bool = False
    non_finite: bool = False
    heldout_falling: int | None = None

    def __post_init__(self) -> None:
        problems = [
            Problem("not a number of repeats", f"stop_on: {name}", repr(value), "a whole number, 1 or more")
            for name in ("zero_reward_steps", "heldout_falling")
            if (value := getattr(self, name)) is not None and (isinstance(value, bool) or int(value) < 1)
        ]
        if problems:
            raise InputError(*problems)


def stop_on(given: StopOn | str | None) -> StopOn | None:
    """Return what the user gave as rules; a word is the confidence that a stop verdict needs. Raises InputError."""
    if given is None or isinstance(given, StopOn):
        return given
    words = [c.value for c in CONFIDENCE]
    if given not in words:
        raise InputError(
            Problem(
                "unknown confidence", "Monitor(stop_on=...)", repr(given)[:80], f"{', '.join(words)}, or StopOn(...)"
            )
        )
    return StopOn(Confidence(given))


@dataclass(frozen=True, slots=True)
class StopRequest:
    """The one request to stop: which rule asked, at which step, and why in a sentence."""

    rule: str
    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The best held-out score so far, and the checkpoint of that step ("" when none is known)."""

    set: str
    step: int
    score: float
    path: str


@dataclass
class StopWatch:
    """Applies the rules row by row, score by score and look by look; `request` stays what it first became."""

    rules: StopOn
    request: StopRequest | None = None
    told: bool = False  # to the watchers
    _zeros: int = 0
    _zero_since: int = -1
    _scores: dict[str, list[float]] = field(default_factory=dict)

    def row(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of one whole step."""
        reward = values.get("reward_mean")
        if reward is None:
            return  # a step that logged no reward says nothing about it
        if reward != 0.0:
            self._zeros = 0
            return
        self._zero_since = step if self._zeros == 0 else self._zero_since
        self._zeros += 1
        wanted = self.rules.zero_reward_steps
        if wanted is not None and self._zeros >= wanted:
            text = f"mean reward is exactly 0 in {self._zeros} logged steps in a row, since step {self._zero_since}"
            self._ask("zero reward", step, f"{text} (your limit: {wanted} steps)")

    def score(self, name: str, step: int, score: float) -> None:
        """Take one held-out score."""
        wanted = self.rules.heldout_falling
        if wanted is None:
            return
        kept = self._scores.setdefault(name, [])
        kept.append(score)
        del kept[: -(wanted + 1)]
        if len(kept) == wanted + 1 and all(b < a for a, b in itertools.pairwise(kept)):
            text = f"held-out {name} fell {wanted} evaluations in a row, from {kept[0]:.3g} to {kept[-1]:.3g}"
            self._ask("held-out falling", step, text)

    def look(self, step: int, verdict: Verdict, open_: Mapping[str, Told]) -> None:
        """Take the faults that are open after a look, and the verdict of the run."""
        wanted = self.rules.confidence
        if wanted is not None and verdict is Verdict.STOP:
            for check, told in open_.items():
                if _sure(told.finding, wanted):
                    how = f"{told.finding.confidence.value} confidence; you asked for {wanted.value}"
                    self._ask("stop verdict", step, f"{check}: {told.finding.summary} ({how})")
        for check, on, rule in (
            (SOLVED, self.rules.solved, "solved"),
            (NON_FINITE, self.rules.non_finite, "non-finite"),
        ):
            if on and check in open_:
                self._ask(rule, step, f"{check}: {open_[check].finding.summary}")

    def wants_verdict(self, open_: Mapping[str, Told]) -> bool:
        """True when a stop verdict would matter: it costs a conclusion."""
        wanted = self.rules.confidence
        return self.request is None and wanted is not None and any(_sure(t.finding, wanted) for t in open_.values())

    def _ask(self, rule: str, step: int, reason: str) -> None:
        if self.request is None:
            self.request = StopRequest(rule, step, reason)


def _sure(finding: Finding, wanted: Confidence) -> bool:
    return finding.action is Action.STOP and CONFIDENCE.index(finding.confidence) >= CONFIDENCE.index(wanted)


def best_checkpoint(evals: Mapping[str, Held], events: tuple[Event, ...], prefer: str = "") -> BestCheckpoint | None:
    """Return the step with the best held-out score, the earliest of equals; None without held-out scores.

    `prefer` names the set; otherwise the one with most items, then most scores. The checkpoint is the newest complete
    one at or before that step.
    """
    held = evals.get(prefer) if prefer else None
    name = prefer
    if held is None:
        if prefer or not evals:
            return None
        name = max(sorted(evals), key=lambda n: (evals[n].items, evals[n].step.size))
        held = evals[name]
    if held.step.size == 0:
        return None
    at = int(held.score.argmax())
    step, score = int(held.step[at]), float(held.score[at])
    saved = [
        e for e in events if e.kind is EventKind.CHECKPOINT and e.complete and e.step is not None and e.step <= step
    ]
    newest = max(saved, key=lambda e: e.step or 0, default=None)
    return BestCheckpoint(name, step, score, newest.path if newest is not None else "")
