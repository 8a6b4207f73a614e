"""Groups whose completions are nearly the same text, or take the same line of attack with other numbers.

Similarity is the mean Jaccard index of the pairs of a group, estimated from the SLOTS smallest hashes of each text
(min-wise hashing): two texts share one with the probability of their Jaccard index. Counts of equal hashes merge.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import present, ratio, steps_of
from rlvitals.rollouts.facts.words import CHARS, Hashed, Joined, texts_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Int64

SLOTS = 8
SHINGLE = 3  # words
TOGETHER = 256  # texts that are hashed at once
NEAR = 0.8  # mean Jaccard index from which a group counts as near-identical
LEAST_GROUP = 3
_SALTS = np.array([(2654435761 * (i + 1)) % 2**32 for i in range(SLOTS)], dtype=np.uint64)
_NUMBER = re.compile(r"[-+]?\d[\d.,/]*")
_PIECE = re.compile(r"([.!?;\n]+)")


def approach(text: str) -> set[str]:
    """Return how a text goes about it: the first three words of each sentence, numbers left out, with their place."""
    pieces = []
    for sentence in sentences(text[:CHARS].lower()):
        words = sentence.split(None, 3)[:3]
        if words:
            pieces.append(_NUMBER.sub("#", " ".join(words)))
    return {f"{a} > {b}" for a, b in zip(["", *pieces], pieces, strict=False)}


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; a full stop in or behind a number belongs to the number."""
    parts = _PIECE.split(text)
    out = [parts[0]]
    for mark, then in zip(parts[1::2], parts[2::2], strict=True):
        rest = mark
        if mark[0] == "." and out[-1].rstrip(".,/")[-1:].isdecimal():
            rest = mark.lstrip(".")
            out[-1] += mark[: len(mark) - len(rest)]
        if rest:
            out.append(then)
        else:
            out[-1] += then
    return out


def smallest(crc: npt.NDArray[np.uint32], starts: Int64) -> Int64:
    """Return int64[texts, SLOTS]: the smallest hash of each text's parts under each of SLOTS hash functions.

    Args:
        crc: uint32[parts], CRC-32 of the parts, text after text.
        starts: int64[texts], where each text's parts begin; every text has one at least.
    """
    base = crc.astype(np.uint64)
    out = np.empty((starts.size, SLOTS), dtype=np.int64)
    for k, salt in enumerate(_SALTS):
        mixed = base ^ salt
        with np.errstate(over="ignore"):
            mixed *= np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
        out[:, k] = (np.minimum.reduceat(mixed, starts) >> np.uint64(12)).astype(np.int64)
    return out


def signatures(texts: Sequence[Hashed]) -> Int64:
    """Return int64[texts, SLOTS]: signatures of the runs of SHINGLE words; a shorter text is one run."""
    size = np.array([t.crc.size for t in texts], dtype=np.int64)
    out = np.empty((size.size, SLOTS), dtype=np.int64)
    for words in np.unique(np.minimum(size, SHINGLE)).tolist():
        mine = np.flatnonzero(np.minimum(size, SHINGLE) == words)
        if not words:
            out[mine] = smallest(np.zeros(mine.size, dtype=np.uint32), np.arange(mine.size))  # the CRC of no text
            continue
        joined = Joined.of([texts[i] for i in mine.tolist()])
        runs = size[mine] - words + 1
        out[mine] = smallest(joined.words.run_crcs(words)[joined.inside(words)], np.cumsum(runs) - runs)
    return out


def ways(texts: Sequence[str]) -> Int64:
    """Return int64[texts, SLOTS]: signatures of how each text goes about it."""
    parts = [approach(t) or {""} for t in texts]
    sizes = np.array([len(p) for p in parts], dtype=np.int64)
    return smallest(_crcs(p for part in parts for p in part), np.cumsum(sizes) - sizes)


def _crcs(parts: Iterable[str]) -> npt.NDArray[np.uint32]:
    return np.array([zlib.crc32(p.encode("utf-8", "replace")) for p in parts], dtype=np.uint32)


def _fold(batch: Batch) -> Sums:
    text, group = batch.text("completion"), batch.text("group")
    rows = np.flatnonzero(present(text) & present(group))
    if rows.size == 0:
        none = np.zeros(0, np.int64)
        return Sums((none, np.zeros(0, object), none, none), {"n": np.zeros(0)}, {})
    words = texts_of(batch)
    found = np.empty((rows.size, 2 * SLOTS), dtype=np.int64)
    for begin in range(0, rows.size, TOGETHER):
        part = rows[begin : begin + TOGETHER].tolist()
        found[begin : begin + len(part), :SLOTS] = signatures([words.head(i) for i in part])
        found[begin : begin + len(part), SLOTS:] = ways([text[i] for i in part])
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
