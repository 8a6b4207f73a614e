"""TRL: `completions/completions_<step>.parquet`, one row per completion, no group id, no total reward.

Rows of a group follow one another and share a prompt. The reward is the plain sum of the reward functions' columns:
their weights are not in the file. A step without generation writes the buffer again, and an evaluation at the same step
overwrites the training file without a mark.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rlvitals.rollouts.readers import aliases, sql
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.sql import Raw
from rlvitals.rollouts.table import Batch

_NAME = re.compile(r"completions_(\d+)\.parquet$")
_FLOATS = ("DOUBLE", "FLOAT", "DECIMAL")
_NO_PART = frozenset({"step", "advantage", "advantages", "entropy", "reward"})
REPEATED = "completions written again at a step without generation: left out"
LIKELY = (
    "kept: files that ask the same prompts again, as evaluations do that overwrite a step's training file; "
    "read with the run's log they are told apart"
)
OVERWRITTEN = "kept: rollouts of an evaluation that overwrote the step's training file: counted as held-out"


def _accepts(head: Head) -> bool:
    return head.suffix == ".parquet" and head.has("step", "prompt", "completion") and bool(_NAME.search(head.place))


def _select(raw: Raw) -> Mapping[str, str | None]:
    out = aliases.flat(raw)
    parts = [n for n, kind in raw.types.items() if kind.upper().startswith(_FLOATS) and n not in _NO_PART]
    for name in parts:
        out[aliases.part(name)] = raw.number(name)
    if raw.number("reward") is None and parts:
        known = [f"CASE WHEN isnan({raw.number(name)}) THEN NULL ELSE {raw.number(name)} END" for name in parts]
        total = " + ".join(f"coalesce({value}, 0)" for value in known)
        out["reward"] = f"CASE WHEN coalesce({', '.join([*known, 'NULL'])}) IS NULL THEN NULL ELSE {total} END"
    judging = next((name for name in parts if aliases.judges(name)), None)
    out["correct"] = raw.number(judging) if judging is not None else None
    out["group"] = None
    out["prompt_id"] = aliases.text_key(raw.text("prompt"))
    out["completion_id"] = aliases.text_key(raw.text("completion"))
    return out


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    """Yield the files' rollouts, repeated files left out and overwritten ones marked as evaluation."""
    wanted = request.columns
    columns = None if wanted is None else wanted | {"prompt_id", "completion_id", "advantage"}
    before = b""
    asked: dict[bytes, list[str]] = {}  # set of prompts -> files with it
    for batch in sql.read(paths, (), _select, replace(request, columns=columns)):
        if not batch.rows:
            continue
        step = int(batch.integer("step")[0])
        if request.rows is None:
            now = _fingerprint(batch)
            if now == before:
                request.skips.add(REPEATED, batch.source, 0, batch.rows)
                continue
            before = now
        if request.rows is None and not request.evaluated:
            asked.setdefault(_prompts(batch), []).append(batch.source)
        if step in request.evaluated:
            request.skips.add(OVERWRITTEN, batch.source, 0, batch.rows)
            batch = replace(batch, columns={**batch.columns, "split": np.full(batch.rows, "eval", dtype=object)})
        yield batch
    again = [files for files in asked.values() if len(files) > 1]
    if again and 2 * sum(map(len, again)) <= sum(map(len, asked.values())):  # else the data set is that small
        request.skips.add(LIKELY, again[0][0], 0, sum(map(len, again)))


def _prompts(batch: Batch) -> bytes:
    """Return what is the same for files that ask the same prompts, in whatever order and number."""
    return hashlib.sha256("\n".join(sorted(set(map(str, batch.text("prompt_id"))))).encode()).digest()


def _fingerprint(batch: Batch) -> bytes:
    """Return what is the same for a file that was written again: prompts, completions and advantages in order."""
    texts = [*batch.text("prompt_id"), *batch.text("completion_id")]
    return hashlib.sha256("\n".join(map(str, texts)).encode() + batch.number("advantage").tobytes()).digest()


READER = Reader("TRL completions", _accepts, read, step_in_name=True, weights_unknown=True, together=True)
