"""Which rollouts a text fact sees: at most so many per step, chosen by hash, so that any worker chooses the same.

The hash of (step, group) orders the groups of a step and the hash of the index orders within a group; the first rows in
that order are the sample. Groups stay whole as far as the number allows, because duplicates are counted within them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlvitals.rollouts.fact import codes
from rlvitals.rollouts.table import FILE, ROW, Batch
from rlvitals.schema import Int64

PER_STEP = 64  # rollouts whose text is read per step (issue: at most 64 unless told otherwise)
UInt64 = npt.NDArray[np.uint64]
_WITHIN = np.uint64(24)  # low bits of a priority: the place within the group


def mixed(values: UInt64) -> UInt64:
    """Return a 64-bit mix of each value (splitmix64's finaliser)."""
    out = values + np.uint64(0x9E3779B97F4A7C15)
    out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(out ^ (out >> np.uint64(31)))


def priorities(batch: Batch) -> UInt64:
    """Return uint64[rows]: the order in which the rollouts of a step are taken, the smallest first."""
    step = batch.integer("step").astype(np.uint64)
    index = batch.integer("index").astype(np.uint64)
    row = np.arange(batch.first_row, batch.first_row + batch.rows, dtype=np.uint64)
    at, names = codes(batch.text("group"))
    named = np.array(
        [zlib.crc32(b"g" + n.encode("utf-8", "replace")) if n is not None else 0 for n in names], np.uint64
    )
    group = named[at] if names else np.zeros(batch.rows, np.uint64)
    alone = np.array([n is None for n in names], dtype=bool)[at] if names else np.ones(batch.rows, bool)
    group = np.where(alone, mixed(row), group)
    with np.errstate(over="ignore"):
        between = mixed(mixed(step) + group)
        within = mixed(between + np.where(batch.has("index"), index, row))
    return (between & ~((np.uint64(1) << _WITHIN) - np.uint64(1))) | (within >> (np.uint64(64) - _WITHIN))


@dataclass(frozen=True)
class Chosen:
    """The smallest priorities of each step.

    Args:
        step, priority: int64[k], uint64[k], sorted by both.
        file, row: str object[k], int64[k]: where each rollout stands.
    """

    step: Int64
    priority: UInt64
    file: npt.NDArray[np.object_]
    row: Int64

    @classmethod
    def of(cls, batch: Batch, per_step: int) -> Chosen:
        """Return the sample of one batch."""
        named = batch.named()
        found = cls(batch.integer("step"), priorities(batch), named.text(FILE), named.integer(ROW))
        return found._smallest(per_step)

    @classmethod
    def none(cls) -> Chosen:
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=object), empty)

    @classmethod
    def merge(cls, parts: Sequence[Chosen], per_step: int) -> Chosen:
        """Return the sample of everything that the parts were taken from. Raises ValueError without parts."""
        if not parts:
            raise ValueError("nothing to merge")
        joined = (np.concatenate([getattr(p, name) for p in parts]) for name in ("step", "priority", "file", "row"))
        return cls(*joined)._smallest(per_step)

    def _smallest(self, per_step: int) -> Chosen:
        order = np.lexsort((self.priority, self.step))
        step = self.step[order]
        starts = np.flatnonzero(np.concatenate([[True], step[1:] != step[:-1]])) if step.size else np.zeros(0, np.int64)
        place = np.arange(step.size) - np.repeat(starts, np.diff(np.append(starts, step.size)))
        keep = order[place < per_step]
        return Chosen(self.step[keep], self.priority[keep], self.file[keep], self.row[keep])

    def rows(self) -> dict[Path, list[int]]:
        """Return file -> its chosen rows, sorted."""
        out: dict[Path, list[int]] = {}
        for file, row in zip(self.file, self.row, strict=True):
            out.setdefault(Path(str(file)), []).append(int(row))
        return {file: sorted(found) for file, found in out.items()}

    def mask(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return bool[rows]: which rollouts of a batch are in the sample."""
        if not self.step.size:
            return np.zeros(batch.rows, dtype=bool)
        step = batch.integer("step")
        last = np.searchsorted(self.step, step, side="right") - 1
        there = (last >= 0) & (self.step[np.maximum(last, 0)] == step)
        return np.asarray(there & (priorities(batch) <= self.priority[np.maximum(last, 0)]))
