"""Which prompts a step asks: how many different ones, and a number that tells the set apart from other sets.

The set counts, not how often each prompt stands in it: rollouts that failed, or groups sampled again, leave it alone.
"""

from __future__ import annotations

import zlib

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums, codes
from rlvitals.rollouts.facts.common import Labels, present, steps_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Int64

GOLD_BITS = 31  # by which the prompt's number is moved, so that the two together fit into 63 bits


def _numbers(column: Labels) -> Int64:
    """Return int64[rows] below 2^32: the CRC of each text, that of nothing where there is none."""
    at, texts = codes(column)
    return np.array([zlib.crc32((t or "").encode("utf-8", "replace")) for t in texts], dtype=np.int64)[at]


def _fold(batch: Batch) -> Sums:
    # every reader of dumps gives an id; the text alone comes from live hooks, and no dump is read for its sake
    name = batch.text("prompt_id" if batch.has("prompt_id") else "prompt")
    keep = present(name)
    # some environments ask one text of every task: the expected answer tells those apart
    asked = ((_numbers(name) << GOLD_BITS) ^ _numbers(batch.text("gold")))[keep]
    step = batch.integer("step")[keep]
    new = np.ones(step.size, dtype=bool)  # rollouts of a prompt stand together: few rows are left to sort
    new[1:] = (step[1:] != step[:-1]) | (asked[1:] != asked[:-1])
    return Sums.of((step[new], asked[new]), {"there": np.ones(int(new.sum()))}, {"there": "max"})


def _finish(sums: Sums) -> Series:
    steps = steps_of(sums)
    asked = np.asarray(sums.keys[1], dtype="<i8")  # in order within each step
    at, begin = np.unique(steps, return_index=True)
    ends = np.append(begin[1:], steps.size)
    code = [float(zlib.crc32(asked[a:b].tobytes())) for a, b in zip(begin, ends, strict=True)]
    return {
        "rollouts/prompts_n": (at, (ends - begin).astype(float)),
        "rollouts/prompt_checksum": (at, np.array(code)),
    }


FACT = Fact(
    name="prompt-set",
    reads=(),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/prompts_n", "rollouts/prompt_checksum"),
    also=("prompt_id", "gold"),
)
