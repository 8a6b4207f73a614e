"""Rollouts whose parsed answer is the gold answer letter by letter, and how many of them earned nothing."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Apart, Fact, Series, Sums, codes
from rlvitals.rollouts.facts.common import Labels, Mask, by_label, named, pick, present
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example, Int64

ALL = "all"  # stands for the family where none is known


def _given(batch: Batch) -> Mask:
    found = batch.derived.get("gold given")
    if found is None:
        parsed, gold = batch.text("parsed"), batch.text("gold")
        number: dict[str, int] = {}  # equal answers share it, whatever stands around them
        mine, right = (_stripped(column, number) for column in (parsed, gold))
        same = (mine == right) & present(parsed) & present(gold)
        found = batch.derived["gold given"] = same & np.isfinite(batch.number("reward"))
    return np.asarray(found, dtype=bool)


def _stripped(column: Labels, number: dict[str, int]) -> Int64:
    at, texts = codes(column)
    return np.array([number.setdefault((t or "").strip(), len(number)) for t in texts], dtype=np.int64)[at]


def _missed(batch: Batch) -> Mask:
    correct = batch.number("correct")
    nothing = np.where(np.isfinite(correct), correct == 0.0, batch.number("reward") <= 0.0)
    return _given(batch) & nothing


def _fold(batch: Batch) -> Sums:
    given = _given(batch)
    family = np.where(present(batch.text("family")), batch.text("family"), ALL)
    values = {"n": np.ones(batch.rows), "missed": _missed(batch).astype(float)}
    return by_label(batch, given, family, values)


def _finish(sums: Sums) -> Series:
    return {
        **named(sums, "rollouts/gold_given/", lambda s: s.values["n"]),
        **named(sums, "rollouts/gold_missed/", lambda s: s.values["missed"]),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    return pick(batch, _missed(batch), "gold")


FACT = Fact(
    name="gold",
    reads=("parsed", "gold", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/gold_given/*", "rollouts/gold_missed/*"),
    examples=_examples,
    also=("family", "correct"),
    apart=Apart.NEVER,
)
