"""Rollouts whose parsed answer is plainly another one than the gold answer, and how many of them were scored right.

Two plain numbers that differ, or no answer at all where the gold one is a number: whatever notation a verifier
accepts, these are wrong. Words, fractions, units and percentages are left out: they may be equal in another notation.
"""

from __future__ import annotations

import re

import numpy as np

from rlvitals.rollouts.fact import Apart, Fact, Series, Sums, codes
from rlvitals.rollouts.facts.common import Labels, Mask, by_step, is_one, known, pick, series, steps_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example, Float64

FULL = 1.0  # reward that stands for right where a dump has no `correct` (convention: rewards of 0 and 1)
ROUNDED = 0.01  # relative difference that two decimals may have: answers are rounded (convention)
MAX_DIGITS = 15  # of a number that a double holds exactly
_PLAIN = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def _numbers(column: Labels) -> tuple[Float64, Mask]:
    """Return (the value of each plain number, NaN for another text; True where it is whole)."""
    at, texts = codes(column)
    values, whole = np.full(len(texts), np.nan), np.zeros(len(texts), dtype=bool)
    for i, text in enumerate(texts):
        found = _PLAIN.fullmatch(text.strip()) if text is not None and len(text) <= 2 * MAX_DIGITS else None
        digits = found[0].replace(",", "") if found else ""
        if digits and len(digits) <= MAX_DIGITS:
            values[i], whole[i] = float(digits), "." not in digits
    return values[at], whole[at]


def _other(batch: Batch) -> Mask:
    found = batch.derived.get("other number")
    if found is None:
        parsed, gold = batch.text("parsed"), batch.text("gold")
        (mine, mine_whole), (right, right_whole) = _numbers(parsed), _numbers(gold)
        with np.errstate(invalid="ignore"):
            away = np.abs(mine - right)
            apart = np.where(mine_whole & right_whole, away > 0, away > ROUNDED * np.maximum(np.abs(right), 1.0))
        empty = known(parsed) & (parsed == "") & np.isfinite(right)
        failed = is_one(batch.text("verifier_status"), "error", "timeout")  # R017 speaks of these
        found = (apart | empty) & ~failed & np.isfinite(batch.number("reward"))
        batch.derived["other number"] = found
    return np.asarray(found, dtype=bool)


def _paid(batch: Batch) -> Mask:
    correct = batch.number("correct")
    return _other(batch) & np.where(np.isfinite(correct), correct == 1.0, batch.number("reward") >= FULL)


def _fold(batch: Batch) -> Sums:
    values = {"n": np.ones(batch.rows), "paid": _paid(batch).astype(float)}
    return by_step(batch, _other(batch), values)


def _finish(sums: Sums) -> Series:
    steps = steps_of(sums)
    return {
        "rollouts/other_answer_n": series(steps, sums.values["n"]),
        "rollouts/other_answer_paid": series(steps, sums.values["paid"]),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    return pick(batch, _paid(batch), "other-answer")


FACT = Fact(
    name="other-number",
    reads=("parsed", "gold", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/other_answer_n", "rollouts/other_answer_paid"),
    examples=_examples,
    also=("correct", "verifier_status"),
    apart=Apart.NEVER,
)
