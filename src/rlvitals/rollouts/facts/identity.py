"""Versions of environment, reward and sampler per step: how many there are, and a number that tells them apart."""

from __future__ import annotations

import zlib

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums, codes
from rlvitals.rollouts.facts.common import by_label, excerpt, present, shown
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example

COLUMNS = ("env_version", "reward_version", "sampler_version")


def _fact(column: str) -> Fact:
    """Return the fact of one version column; each is counted where its own column is there."""
    short, name = column, column.replace("_", "-")

    def fold(batch: Batch) -> Sums:
        label = batch.text(column)
        return by_label(batch, present(label), label, {"n": np.ones(batch.rows)})

    def finish(sums: Sums) -> Series:
        steps = np.asarray(sums.keys[0], dtype=np.int64)
        at, begin = np.unique(steps, return_index=True)
        ends = np.append(begin[1:], steps.size)
        names = [sorted(str(x) for x in sums.keys[1][a:b]) for a, b in zip(begin, ends, strict=True)]
        code = np.array([float(zlib.crc32("\n".join(x).encode("utf-8", "replace"))) for x in names])
        return {
            f"rollouts/{short}s": (at, np.array([float(len(x)) for x in names])),
            f"rollouts/{short}_code": (at, code),
        }

    def examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
        """Show one rollout of each version of a step, its version in front."""
        label, step = batch.text(column), batch.integer("step")
        rows = np.flatnonzero(present(label))
        at = codes(label[rows])[0]
        new = np.concatenate([[True], (np.diff(step[rows]) != 0) | (np.diff(at) != 0)])[: rows.size]
        seen: dict[tuple[int, str], int] = {}
        for i in rows[new].tolist():
            seen.setdefault((int(step[i]), str(label[i])), i)
        return tuple(shown(batch, i, name, f"{column} {excerpt(str(v))[:60]}") for (_, v), i in sorted(seen.items()))

    metrics = (f"rollouts/{short}s", f"rollouts/{short}_code")
    return Fact(name, (column,), fold, finish, metrics, examples=examples)


ENV, REWARD, SAMPLER = (_fact(c) for c in COLUMNS)
