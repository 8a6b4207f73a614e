"""Right answers that were not read: completions that end with the gold answer, parsed to nothing, without a reward.

They are counted beside those that were scored right: a task may well ask for a format that some completions miss.
"""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import Mask, by_step, pick, present, series, steps_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example

MAX_GOLD = 40  # characters of a gold answer that is looked for (convention: longer ones are texts, not answers)
_TAIL = 80  # characters of a completion that are looked at


def ends_with(text: str | None, gold: str | None) -> bool:
    """Return True when a text ends with an answer that stands alone: 131 ends "= 131." but not "1131"."""
    wanted = (gold or "").strip()
    if not text or not wanted or len(wanted) > MAX_GOLD:
        return False
    tail = text[-_TAIL:].rstrip().rstrip(".").rstrip()
    before = tail[-len(wanted) - 1 : -len(wanted)]
    return tail.endswith(wanted) and not (before.isalnum() or before in {".", ",", "-", "/"})


def _ending(batch: Batch) -> Mask:
    found = batch.derived.get("gold at end")
    if found is None:
        there = np.isfinite(batch.number("reward")) & present(batch.text("gold")) & ~present(batch.text("parsed"))
        text, gold = batch.text("completion"), batch.text("gold")
        found = there.copy()
        for i in np.flatnonzero(there).tolist():
            found[i] = ends_with(text[i], gold[i])
        batch.derived["gold at end"] = found
    return np.asarray(found, dtype=bool)


def _right(batch: Batch) -> Mask:
    correct, reward = batch.number("correct"), batch.number("reward")
    return np.asarray(np.where(np.isfinite(correct), correct == 1.0, reward > 0.0), dtype=bool)


def _unread(batch: Batch) -> Mask:
    return _ending(batch) & ~_right(batch)


def _fold(batch: Batch) -> Sums:
    unread = _unread(batch)
    values = {"n": np.ones(batch.rows), "unread": unread.astype(float)}
    return by_step(batch, unread | (_right(batch) & present(batch.text("gold"))), values)


def _finish(sums: Sums) -> Series:
    steps = steps_of(sums)
    return {
        "rollouts/right_n": series(steps, sums.values["n"]),
        "rollouts/right_unread_n": series(steps, sums.values["unread"]),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    return pick(batch, _unread(batch), "gold-at-end")


FACT = Fact(
    name="gold-at-end",
    reads=("completion", "gold", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/right_n", "rollouts/right_unread_n"),
    reads_text=True,
    examples=_examples,
    also=("parsed", "correct"),
)
