"""Loops within a completion: a tail that repeats, few distinct word triples, a text that compresses to nothing."""

from __future__ import annotations

import zlib

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_step, pick, present, ratio
from rlvitals.rollouts.facts.similar import words_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example

TAIL = 200  # words at the end in which a loop is looked for
PERIODS = 3  # times in a row that a piece must stand there
COVER = 0.25  # of the tail that the loop must cover
DISTINCT = 0.4  # share of distinct word triples below which a text loops (loops .17, normal .99)
PACKED = 0.2  # compressed over plain size below which it does (loops .10, normal .42 and more)
LEAST_WORDS = 50  # shorter texts are not judged by distinct triples
LEAST_BYTES = 600  # nor by compression: its header weighs too much
CHARS = 4_000


def loops_at_end(words: list[str]) -> bool:
    """True when a piece of up to a third of the tail stands there PERIODS times in a row and covers COVER of it."""
    tail = words[-TAIL:]
    need = max(COVER * len(tail), 12)  # words: "1 1 1" is no loop
    for period in range(1, len(tail) // PERIODS + 1):
        length = period
        while length < len(tail) and tail[-1 - length] == tail[-1 - length + period]:
            length += 1
        if length >= PERIODS * period and length >= need:
            return True
    return False


def distinct_triples(words: list[str]) -> float:
    """Return the share of distinct triples among all triples of words, NaN for a short text."""
    if len(words) < LEAST_WORDS:
        return np.nan
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(triples)) / len(triples)


def packed(text: str) -> float:
    """Return compressed over plain size (zlib, level 1), NaN for a short text."""
    data = text[-CHARS:].encode("utf-8", "replace")
    return len(zlib.compress(data, 1)) / len(data) if len(data) >= LEAST_BYTES else np.nan


def _measure(text: str | None) -> tuple[float, float, float]:
    """Return (loops 0 or 1, share of distinct triples, compression ratio) of one completion."""
    if not text:
        return (np.nan, np.nan, np.nan)
    words = words_of(text[-CHARS:])
    triples, size = distinct_triples(words), packed(text)
    return (float(loops_at_end(words) or triples < DISTINCT or size < PACKED), triples, size)


def _fold(batch: Batch) -> Sums:
    keep = present(batch.text("completion"))
    found = np.array([_measure(t) for t in batch.text("completion")]).reshape(-1, 3)
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


def _examples(batch: Batch) -> tuple[Example, ...]:
    loops = np.array([_measure(t)[0] for t in batch.text("completion")])
    return pick(batch, loops == 1.0, "repetition")


FACT = Fact(
    name="repetition",
    reads=("completion",),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/repetition_frac", "rollouts/distinct_3_mean", "rollouts/compression_mean"),
    reads_text=True,
    examples=_examples,
)
