"""Groups whose completions are nearly the same text, or take the same line of attack with other numbers.

Similarity is the mean Jaccard index of the pairs of a group, estimated from the SLOTS smallest hashes of each text
(min-wise hashing): two texts share one with the probability of their Jaccard index. Counts of equal hashes merge.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import present, ratio, steps_of
from rlvitals.rollouts.table import Batch

SLOTS = 8
SHINGLE = 3  # words
CHARS = 4_000  # of a text that are read
NEAR = 0.8  # mean Jaccard index from which a group counts as near-identical
LEAST_GROUP = 3
_SALTS = np.array([(2654435761 * (i + 1)) % 2**32 for i in range(SLOTS)], dtype=np.uint64)
_NUMBER = re.compile(r"[-+]?\d[\d.,/]*")
_PIECE = re.compile(r"[.!?;\n]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, its characters where it is written without spaces."""
    part = text[:CHARS].lower()
    words = part.split()
    return words if len(words) * 20 >= len(part) else list(part.replace(" ", ""))


def shingles(words: list[str]) -> set[str]:
    """Return all runs of SHINGLE words; a shorter text is one run."""
    if len(words) <= SHINGLE:
        return {" ".join(words)}
    return {" ".join(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)}


def approach(text: str) -> set[str]:
    """Return how a text goes about it: the first three words of each sentence, numbers left out, with their place."""
    pieces = [" ".join(p.split()[:3]) for p in _PIECE.split(_NUMBER.sub("#", text[:CHARS].lower())) if p.strip()]
    return {f"{a} > {b}" for a, b in zip(["", *pieces], pieces, strict=False)}


def signature(parts: Iterable[str]) -> np.ndarray:
    """Return int64[SLOTS]: the smallest hash of the parts under each of SLOTS hash functions."""
    base = np.array([zlib.crc32(p.encode("utf-8", "replace")) for p in parts], dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = (base[:, None] ^ _SALTS[None, :]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((mixed >> np.uint64(12)).min(axis=0).astype(np.int64))


def _fold(batch: Batch) -> Sums:
    text, group = batch.text("completion"), batch.text("group")
    rows = np.flatnonzero(present(text) & present(group))
    if rows.size == 0:
        none = np.zeros(0, np.int64)
        return Sums((none, np.zeros(0, object), none, none), {"n": np.zeros(0)}, {})
    found = np.stack([np.concatenate([signature(shingles(words_of(text[i]))), signature(approach(text[i]) or {""})])
                      for i in rows])  # fmt: skip
    slots = 2 * SLOTS
    step, names = np.repeat(batch.integer("step")[rows], slots), np.repeat(group[rows], slots)
    slot = np.tile(np.arange(slots, dtype=np.int64), rows.size)
    return Sums.of((step, names, slot, found.ravel()), {"n": np.ones(step.size)})


def _finish(sums: Sums) -> Series:
    n = sums.values["n"]
    slot = np.asarray(sums.keys[2], dtype=np.int64)
    text = slot < SLOTS
    equal = n * (n - 1) / 2
    parts = {
        "equal": np.where(text, equal, 0.0), "n": np.where(text, n, 0.0),
        "equal_way": np.where(text, 0.0, equal),
    }  # fmt: skip
    groups = Sums.of(sums.keys[:2], parts)
    size = groups.values["n"] / SLOTS
    pairs = np.maximum(SLOTS * size * (size - 1) / 2, 1.0)
    full = size >= LEAST_GROUP
    near, way = groups.values["equal"] / pairs, groups.values["equal_way"] / pairs
    per = Sums.of(
        (steps_of(groups),),
        {
            "groups": full.astype(float),
            "near": (full & (near > NEAR)).astype(float),
            "one_way": (full & (way > NEAR)).astype(float),
            "alike": np.where(full, near, 0.0),
        },
    )
    return {
        "rollouts/near_identical_frac": ratio(per, "near", "groups"),
        "rollouts/one_strategy_frac": ratio(per, "one_way", "groups"),
        "rollouts/similarity_mean": ratio(per, "alike", "groups"),
    }


FACT = Fact(
    name="similar",
    reads=("group", "completion"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/near_identical_frac", "rollouts/one_strategy_frac", "rollouts/similarity_mean"),
    reads_text=True,
)
