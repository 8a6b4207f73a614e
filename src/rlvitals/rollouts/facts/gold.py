"""Rollouts whose parsed answer is the gold answer letter by letter, and how many of them earned nothing."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import Mask, by_label, named, pick, present
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example

ALL = "all"  # stands for the family where none is known


def _given(batch: Batch) -> Mask:
    parsed, gold = batch.text("parsed"), batch.text("gold")
    same = (bool(p) and bool(g) and p.strip() == g.strip() for p, g in zip(parsed, gold, strict=True))
    return np.fromiter(same, dtype=bool, count=batch.rows) & np.isfinite(batch.number("reward"))


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


def _examples(batch: Batch) -> tuple[Example, ...]:
    return pick(batch, _missed(batch), "gold")


FACT = Fact(
    name="gold",
    reads=("parsed", "gold", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/gold_given/*", "rollouts/gold_missed/*"),
    examples=_examples,
    also=("family", "correct"),
)
