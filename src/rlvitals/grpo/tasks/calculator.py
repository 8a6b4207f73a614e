"""The embedded task of several turns: add three numbers with a calculator that takes two, in at most four turns.

    #47+85+36=   <call>47+85</call>   132   <call>132+36</call>   168   168

Its demonstrations know how to call and don't know what is worth calling: half of them answer at once with a guess, and
half of the second calls forget the first result.
"""

from __future__ import annotations

import random
import re

from rlvitals.env import Item, Message, Step, StopReason, VerifierStatus
from rlvitals.grpo.rewards.plan import CORRECT_ONLY
from rlvitals.grpo.tasks.arithmetic import HELD_OUT_PERCENT
from rlvitals.grpo.tasks.base import Task, by_hash, identity

MAX_TURNS = 4
MAX_TOKENS = 64
TRAIN_ITEMS = 4096
HELD_OUT_ITEMS = 256
MAX_DIGITS = 12  # of one number in a call; a longer one is refused
CALL = re.compile(r"<call>([^<>]*)</call>")
SUM = re.compile(rf"([0-9]{{1,{MAX_DIGITS}}})([+*-])([0-9]{{1,{MAX_DIGITS}}})")
REFUSED = "?"


def calculate(text: str) -> str:
    """Return the value of `a+b`, `a-b` or `a*b` for whole numbers, "?" for anything else; nothing is evaluated."""
    found = SUM.fullmatch(text)
    if found is None:
        return REFUSED
    a, sign, b = int(found[1]), found[2], int(found[3])
    return str({"+": a + b, "-": a - b, "*": a * b}[sign])


class CalculatorEnv:
    """One sum of three numbers, at most four turns; a turn is one call or the answer."""

    version = identity("calculator", "a+b, a-b, a*b; exact digits", MAX_TURNS, 1)

    def __init__(self) -> None:
        self._gold = ""
        self._turns = 0

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self._gold, self._turns = item.gold, 0
        return item.messages

    def step(self, text: str) -> Step:
        self._turns += 1
        call = CALL.fullmatch(text)
        if call is None and "<call>" not in text:
            return self._answered(text)
        if self._turns == MAX_TURNS:  # nothing more may be said, so no answer will come
            return Step(rewards={"correct": 0.0}, status=VerifierStatus.NO_PARSE, reason=StopReason.ENV)
        result = calculate(call[1]) if call is not None else REFUSED
        return Step(messages=(Message("tool", result),), raw=result, done=False)

    def _answered(self, text: str) -> Step:
        if not (text.isascii() and text.isdigit()):
            return Step(rewards={"correct": 0.0}, raw=text, status=VerifierStatus.NO_PARSE)
        right = text == self._gold
        status = VerifierStatus.RIGHT if right else VerifierStatus.WRONG
        return Step(rewards={"correct": float(right)}, raw=text, status=status, parsed=text)


def triples(*, held_out: bool, count: int, seed: int) -> list[tuple[int, int, int]]:
    """Return different triples of two-digit numbers from one side of the split, which ignores their order."""
    rng = random.Random(f"calculator/{held_out}/{seed}")
    found: dict[tuple[int, int, int], None] = {}
    while len(found) < count:
        a, b, c = (rng.randint(10, 99) for _ in range(3))
        key = "+".join(str(n) for n in sorted((a, b, c)))
        if by_hash(key, held_out_percent=HELD_OUT_PERCENT) == held_out:
            found[a, b, c] = None
    return list(found)


def question(numbers: tuple[int, int, int]) -> Message:
    return Message("user", "#" + "+".join(str(n) for n in numbers) + "=")


def item_of(numbers: tuple[int, int, int]) -> Item:
    text = "+".join(str(n) for n in numbers)
    return Item(f"calc-{text}", (question(numbers),), gold=str(sum(numbers)), family="calculator")


def calculator() -> Task:
    """Return the task: sums of three two-digit numbers, one in five triples held out."""
    return Task(
        name="calculator",
        version=CalculatorEnv.version,
        train=tuple(item_of(t) for t in triples(held_out=False, count=TRAIN_ITEMS, seed=0)),
        held_out=tuple(item_of(t) for t in triples(held_out=True, count=HELD_OUT_ITEMS, seed=1)),
        new_env=CalculatorEnv,
        max_turns=MAX_TURNS,
        max_new_tokens=MAX_TOKENS,
        plan=CORRECT_ONLY,
    )
