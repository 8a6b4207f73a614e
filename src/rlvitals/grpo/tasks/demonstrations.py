"""Demonstrations for the warm start of the embedded model: what a policy should know before it is rewarded."""

from __future__ import annotations

import random

from rlvitals.env import Message
from rlvitals.grpo.tasks.arithmetic import Sum, sums
from rlvitals.grpo.tasks.calculator import question, triples
from rlvitals.grpo.warmstart import Dialogue

CARRY_SHOWN = 0.3  # chance that a column passes a one on, due or not: says nothing about when it is due
THINKING_SHOWN = 0.7  # share of demonstrations that write the sum out
GUESSES_SHOWN = 0.5  # share of calculator demonstrations that guess at once
FORGETS_SHOWN = 0.5  # share of second calls that start from an addend, not from the first result


def worked(item: Sum, rng: random.Random, carry_shown: float = CARRY_SHOWN) -> tuple[str, str]:
    """Return (thinking, answer): the sum digit by digit, lowest first, with ones carried at random.

    The answer follows from what was written, right or wrong.
    """
    steps: list[str] = []
    answer = ""
    carry = 0
    columns = list(zip(reversed(str(item.a)), reversed(str(item.b)), strict=True))
    for at, (x, y) in enumerate(columns):
        total = int(x) + int(y) + carry
        steps.append(f"{x}+{y}{'+1' if carry else ''}={total}")
        last = at == len(columns) - 1
        answer = (str(total) if last else str(total % 10)) + answer
        carry = int(rng.random() < carry_shown)
    return ",".join(steps), answer


def demonstration(item: Sum, rng: random.Random, carry_shown: float, thinking_shown: float) -> Dialogue:
    thinking, answer = worked(item, rng, carry_shown)
    said = f"<think>{thinking}</think>{answer}" if rng.random() < thinking_shown else answer
    return (Message("user", item.prompt), Message("assistant", said))


def arithmetic_demonstrations(
    tiers: tuple[str, ...],
    count: int,
    *,
    seed: int = 0,
    carry_shown: float = CARRY_SHOWN,
    thinking_shown: float = THINKING_SHOWN,
) -> list[Dialogue]:
    """Return demonstrations of training-side sums, the tiers in turn."""
    rng = random.Random(seed)
    pools = [sums(int(t), held_out=False, count=8000, seed=seed + 17) for t in tiers]
    return [demonstration(rng.choice(pools[i % len(pools)]), rng, carry_shown, thinking_shown) for i in range(count)]


def calculator_demonstration(numbers: tuple[int, int, int], rng: random.Random) -> Dialogue:
    """Return a dialogue that guesses at once, or calls twice, the second time perhaps on a wrong number."""
    a, b, c = numbers
    if rng.random() < GUESSES_SHOWN:
        return (question(numbers), Message("assistant", str(sum(numbers) + rng.randint(-9, 9))))
    start = rng.choice((a, b)) if rng.random() < FORGETS_SHOWN else a + b
    return (
        question(numbers),
        Message("assistant", f"<call>{a}+{b}</call>"),
        Message("tool", str(a + b)),
        Message("assistant", f"<call>{start}+{c}</call>"),
        Message("tool", str(start + c)),
        Message("assistant", str(start + c)),
    )


def calculator_demonstrations(count: int, *, seed: int = 0) -> list[Dialogue]:
    """Return demonstrations of training-side triples."""
    rng = random.Random(seed)
    pool = triples(held_out=False, count=8000, seed=seed + 17)
    return [calculator_demonstration(rng.choice(pool), rng) for _ in range(count)]
