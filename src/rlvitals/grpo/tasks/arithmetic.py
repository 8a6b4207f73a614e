"""The embedded task: sums of whole numbers, written out digit by digit between `<think>` tags or answered at once.

    47+85=   <think>7+5=12,4+8+1=13</think>132

Tiers are the number of digits. The held-out side is a fifth of all pairs, chosen by a hash of the unordered pair, so
that 47+85 and 85+47 are never on two sides. There are only 55 pairs of one digit: that tier has no held-out side.

The demonstrations of the warm start carry a one at random, whether it is due or not: they show how to write a sum
out and say nothing about when to carry. What GRPO gains on held-out sums with a carry is therefore learnt from reward.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from rlvitals.env import Item, Message, Step, VerifierStatus
from rlvitals.grpo.rewards.milestones import reached
from rlvitals.grpo.rewards.plan import CORRECT_ONLY
from rlvitals.grpo.tasks.base import Task, by_hash, identity

HELD_OUT_PERCENT = 20
TIERS = ("1", "2", "3", "4")
ITEMS_PER_TIER = 4096
HELD_OUT_ITEMS = 256
CLOSE = "</think>"
NO_PARSE = VerifierStatus.NO_PARSE


@dataclass(frozen=True, slots=True)
class Sum:
    """Two addends of as many digits as each other."""

    a: int
    b: int

    @property
    def prompt(self) -> str:
        return f"{self.a}+{self.b}="

    @property
    def digits(self) -> int:
        return len(str(self.a))

    @property
    def held_out(self) -> bool:
        low, high = sorted((self.a, self.b))
        return self.digits > 1 and by_hash(f"{low}+{high}", held_out_percent=HELD_OUT_PERCENT)

    @property
    def carries(self) -> int:
        """Columns that pass a one on to a further column."""
        carry = count = 0
        for x, y in list(zip(reversed(str(self.a)), reversed(str(self.b)), strict=True))[:-1]:
            carry = int(int(x) + int(y) + carry >= 10)
            count += carry
        return count


def sums(digits: int, *, held_out: bool, count: int, seed: int) -> list[Sum]:
    """Return up to `count` different sums from one side of the split; the same for the same seed."""
    low, high = (0, 9) if digits == 1 else (10 ** (digits - 1), 10**digits - 1)
    rng = random.Random(f"{digits}/{held_out}/{seed}")
    if (high - low + 1) ** 2 <= 10_000:
        every = [Sum(a, b) for a in range(low, high + 1) for b in range(low, high + 1)]
        mine = [s for s in every if s.held_out == held_out]
        rng.shuffle(mine)
        return mine[:count]
    found: dict[Sum, None] = {}
    while len(found) < count:
        drawn = Sum(rng.randint(low, high), rng.randint(low, high))
        if drawn.held_out == held_out:
            found[drawn] = None
    return list(found)


def final_answer(text: str) -> str:
    """Return what stands after the last closing tag; a completion without tags is all answer."""
    return text.rsplit(CLOSE, 1)[-1]


def judge(text: str, gold: str) -> VerifierStatus:
    """Compare digit by digit; nothing is evaluated, so nothing can hang or fail."""
    answer = final_answer(text)
    if not (answer.isascii() and answer.isdigit()):
        return NO_PARSE
    return VerifierStatus.RIGHT if answer == gold else VerifierStatus.WRONG


class ArithmeticEnv:
    """One sum, one turn."""

    version = identity("arithmetic", "exact digits after the last </think>", 1)

    def __init__(self) -> None:
        self._gold = ""
        self._columns: tuple[str, ...] = ()

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self._gold = item.gold
        self._columns = columns(item)
        return item.messages

    def step(self, text: str) -> Step:
        status = judge(text, self._gold)
        rewards = {"correct": float(status is VerifierStatus.RIGHT), "milestones": reached(text, self._columns)}
        answer = final_answer(text)
        return Step(rewards=rewards, raw=answer, status=status, parsed=None if status is NO_PARSE else answer)


def columns(item: Item) -> tuple[str, ...]:
    """Return the right lines of the written-out sum, lowest digit first: milestones for partial credit."""
    a, b = item.messages[-1].content.rstrip("=").split("+")
    lines: list[str] = []
    carry = 0
    for x, y in zip(reversed(a), reversed(b), strict=True):
        total = int(x) + int(y) + carry
        lines.append(f"{x}+{y}{'+1' if carry else ''}={total}")
        carry = total // 10
    return tuple(lines)


def item_of(drawn: Sum) -> Item:
    return Item(
        id=f"sum-{drawn.a}+{drawn.b}",
        messages=(Message("user", drawn.prompt),),
        gold=str(drawn.a + drawn.b),
        family="arithmetic",
        tier=str(drawn.digits),
        extra={"carries": drawn.carries},
    )


def arithmetic(tiers: tuple[str, ...] = ("2",)) -> Task:
    """Return the task over the given tiers, the held-out items divided evenly among those that have any."""
    with_held_out = [t for t in tiers if t != "1"]
    share = HELD_OUT_ITEMS // max(len(with_held_out), 1)
    train = [s for t in tiers for s in sums(int(t), held_out=False, count=ITEMS_PER_TIER, seed=0)]
    random.Random(0).shuffle(train)
    held_out = [s for t in with_held_out for s in sums(int(t), held_out=True, count=share, seed=1)]
    return Task(
        name="arithmetic",
        version=ArithmeticEnv.version,
        train=tuple(item_of(s) for s in train),
        held_out=tuple(item_of(s) for s in held_out),
        new_env=ArithmeticEnv,
        max_new_tokens=16 + 12 * max(int(t) for t in tiers),
        plan=CORRECT_ONLY,
        tiers=tiers,
        gives=("correct", "milestones"),
    )
