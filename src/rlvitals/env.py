"""The environment protocol: one way to pose a task, used by preflight, replay, the reference trainer and the lab.

A single-turn task is an `Env` whose first step is done. Nothing here runs a model; text goes in, a `Step` comes out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, SupportsFloat


class VerifierStatus(StrEnum):
    """What a verifier said about one completion. An error is never a wrong answer."""

    RIGHT = "right"
    WRONG = "wrong"
    NO_PARSE = "no parse"  # no answer could be read from the completion
    ERROR = "error"  # the verifier itself failed
    TIMEOUT = "timeout"  # the verifier did not answer in time


class StopReason(StrEnum):
    """Why a trajectory ended."""

    EOS = "eos"
    BUDGET = "budget"  # token budget used up
    TIMEOUT = "timeout"
    ERROR = "error"
    TOOL = "tool"  # a tool ended it
    ENV = "env"  # the environment ended it


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `role` is "system", "user", "assistant" or "tool"."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Item:
    """One task instance.

    Attributes:
        id: stable over runs; the prompt id of its rollouts.
        messages: what the policy sees first.
        gold: the expected answer as text, "" where the environment knows it otherwise.
        family, tier: kind and difficulty, "" where there is none.
        extra: further columns of the dataset, handed to the verifier.
    """

    id: str
    messages: tuple[Message, ...]
    gold: str = ""
    family: str = ""
    tier: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """What the environment answers to one assistant turn.

    Attributes:
        messages: what is added to the conversation before the next turn; empty when done.
        rewards: reward parts of this turn, unweighted; empty unless something was scored.
        raw: the verifier's own output as text, before it was turned into a reward.
        status: what the verifier said; None while nothing was verified.
        done: the trajectory is over; `reason` says why, None while it goes on or when the policy stopped by itself.
        parsed: the answer that was read from the text, None where none was or where the verifier does not say.
    """

    messages: tuple[Message, ...] = ()
    rewards: Mapping[str, float] = field(default_factory=dict)
    raw: str = ""
    status: VerifierStatus | None = None
    done: bool = True
    reason: StopReason | None = None
    parsed: str | None = None


class Env(Protocol):
    """One task, played one trajectory at a time.

    A class may say `concurrent = True`: what its instances share may be used by several threads and keeps no state that
    a verdict depends on. The reference trainer then asks a few at a time.
    """

    version: str
    """Identity of the environment and its verifier; a change mid-run is a finding."""

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        """Start a trajectory; return the first messages. The same item and seed start the same trajectory."""
        ...

    def step(self, text: str) -> Step:
        """Take one assistant turn. Raises whatever goes wrong: the caller records an error, never a reward of 0.

        What `fault_of` finds in the answer is recorded as an error too.
        """
        ...


def fault_of(step: object) -> str:
    """Return what is wrong with what an environment answered to a turn, "" where it is a whole `Step`.

    A reward that is not finite is a fault where the verifier gave a verdict: it would be counted nowhere.
    """
    if not isinstance(step, Step):
        return f"step returned {_shown(step)}, not a Step"
    if not (step.status is None or isinstance(step.status, VerifierStatus)):
        return f"status is {_shown(step.status)}, not a VerifierStatus"
    if not (step.reason is None or isinstance(step.reason, StopReason)):
        return f"reason is {_shown(step.reason)}, not a StopReason"
    for name, text in (("raw", step.raw), ("parsed", step.parsed or "")):
        if not is_text(text):
            return f"{name} is {_shown(text)}, not text"
    if not isinstance(step.messages, list | tuple):
        return f"messages are {_shown(step.messages)}, not a tuple of Message"
    return messages_fault(step.messages) or _rewards_fault(step)


def messages_fault(messages: list[Message] | tuple[Message, ...]) -> str:
    """Return what is wrong with messages that an environment gave, "" where nothing is."""
    for message in messages:
        if not isinstance(message, Message):
            return f"a message is {_shown(message)}, not a Message"
        if not (is_text(message.role) and is_text(message.content)):
            return f"a message is {_shown(message)}: role and content are text"
    return ""


def _rewards_fault(step: Step) -> str:
    if not isinstance(step.rewards, Mapping):
        return f"rewards are {_shown(step.rewards)}, not a mapping of names to numbers"
    no_verdict = step.status in (VerifierStatus.ERROR, VerifierStatus.TIMEOUT)
    for name, value in step.rewards.items():
        if not isinstance(value, SupportsFloat):
            return f"reward {_shown(name)} is {_shown(value)}, not a number"
        if not (no_verdict or math.isfinite(float(value))):
            return f"reward {_shown(name)} is {float(value)}, not a finite number"
    return ""


def is_text(value: object) -> bool:
    """True for text that a file in UTF-8 can hold: half of a surrogate pair cannot be written anywhere."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    return f"{value!r:.80} ({type(value).__name__})"
