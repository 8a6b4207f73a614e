"""Loops within a completion: a tail that repeats, few distinct word triples, a text that compresses to nothing."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import EXAMPLES_PER_STEP, by_step, pick, present, ratio
from rlvitals.rollouts.facts.words import CHARS, Hashed, UInt64, texts_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example

TAIL = 200  # words at the end in which a loop is looked for
PERIODS = 3  # times in a row that a piece must stand there
COVER = 0.25  # of the tail that the loop must cover
DISTINCT = 0.4  # share of distinct word triples below which a text loops (loops .17, normal .99)
PACKED = 0.2  # compressed over plain size below which it does (loops .10, normal .42 and more)
LEAST_WORDS = 50  # shorter texts are not judged by distinct triples
LEAST_BYTES = 600  # nor by compression: its header weighs too much


def loops_at_end(words: Sequence[int]) -> bool:
    """True when a piece of up to a third of the tail stands there PERIODS times in a row and covers COVER of it."""
    tail = words[-TAIL:]
    need = max(COVER * len(tail), 12)  # words: "1 1 1" is no loop
    back = tail[::-1]
    for period in [p for p in range(1, len(tail) // PERIODS + 1) if back[p] == back[0]]:
        length = period
        while length < len(tail) and back[length] == back[length - period]:
            length += 1
        if length >= PERIODS * period and length >= need:
            return True
    return False


def distinct_triples(triples: UInt64) -> float:
    """Return the share of distinct ones among the hashes of all triples of words, NaN for a short text."""
    if triples.size < LEAST_WORDS - 2:
        return np.nan
    line = np.sort(triples)
    return (1 + int(np.count_nonzero(line[1:] != line[:-1]))) / int(line.size)


def packed(text: str) -> float:
    """Return compressed over plain size (zlib, level 1), NaN for a short text."""
    data = text[-CHARS:].encode("utf-8", "replace")
    return len(zlib.compress(data, 1)) / len(data) if len(data) >= LEAST_BYTES else np.nan


def _measure(text: str, words: Hashed) -> tuple[float, float, float]:
    """Return (loops 0 or 1, share of distinct triples, compression ratio) of one completion."""
    triples, size = distinct_triples(words.run_codes(3)), packed(text)
    loops = triples < DISTINCT or size < PACKED or loops_at_end(words.crc[-TAIL:].tolist())
    return float(loops), triples, size


def _fold(batch: Batch) -> Sums:
    text, words = batch.text("completion"), texts_of(batch)
    keep = present(text)
    found = np.full((batch.rows, 3), np.nan)
    for i in np.flatnonzero(keep).tolist():
        found[i] = _measure(text[i], words.tail(i))
    loops, triples, size = found.T
    values = {
        "n": np.ones(batch.rows),
        "loops": np.nan_to_num(loops),
        "tripled": np.isfinite(triples).astype(float),
        "triples": np.nan_to_num(triples),
        "sized": np.isfinite(size).astype(float),
        "size": np.nan_to_num(size),
    }
    return by_step(batch, keep, values)


def _finish(sums: Sums) -> Series:
    return {
        "rollouts/repetition_frac": ratio(sums, "loops", "n"),
        "rollouts/distinct_3_mean": ratio(sums, "triples", "tripled"),
        "rollouts/compression_mean": ratio(sums, "size", "sized"),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    """Show rollouts that loop, of the steps that have any; texts are measured again until enough are found."""
    text, step, group, index = (batch.text("completion"), batch.integer("step"), batch.text("group"),
                                batch.integer("index"))  # fmt: skip
    words = texts_of(batch)
    left = {int(s): min(int(n), EXAMPLES_PER_STEP) for s, n in zip(sums.keys[0], sums.values["loops"], strict=True)}
    hit = np.zeros(batch.rows, dtype=bool)
    rows = np.flatnonzero(present(text) & np.isin(step, [s for s, n in left.items() if n]))
    for i in sorted(rows.tolist(), key=lambda i: (str(group[i]), int(index[i]))):
        at = int(step[i])
        if left[at] and _measure(text[i], words.tail(i))[0] == 1.0:
            hit[i] = True
            left[at] -= 1
    return pick(batch, hit, "repetition")


FACT = Fact(
    name="repetition",
    reads=("completion",),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/repetition_frac", "rollouts/distinct_3_mean", "rollouts/compression_mean"),
    reads_text=True,
    examples=_examples,
)
