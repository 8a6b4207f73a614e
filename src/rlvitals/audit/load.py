"""Rollouts from any dump that is known, or from a plain file: one call for the audits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rlvitals.audit.rows import KEYS, Row, Rows, read_rows
from rlvitals.env import Item, Message
from rlvitals.errors import InputError, Problem
from rlvitals.rollouts.dump import Rollouts, open_rollouts
from rlvitals.rollouts.find import find
from rlvitals.rollouts.readers.generic import READER as GENERIC
from rlvitals.rollouts.table import BY_NAME, MISSING, Batch

MAX_TAKEN = 200_000  # rollouts with their text held in memory; the newest steps of a larger dump are left out, and said
COLUMNS = (
    "step", "group", "index", "prompt_id", "family", "tier", "prompt", "completion", "gold", "reward", "correct",
    "raw_output", "stop_reason", "seed",
)  # fmt: skip


def load_rollouts(
    path: Path, given: Mapping[str, str] | None = None, told: Callable[[Path, Rollouts], Rollouts] | None = None
) -> Rows:
    """Return the rollouts of a trainer's dump (a file or a run directory), else of a plain file.

    Args:
        given: canonical column -> key of the file.
        told: returns a dump with what the log beside it tells, such as the weights of a reward whose total it lacks.

    Raises InputError with every problem.
    """
    given = dict(given or {})
    if not path.exists():
        raise InputError(Problem("no such file or directory", str(path)))
    known = {k: v for k, v in given.items() if k in BY_NAME}
    found = None if path.is_file() and given else find(path, known)
    if found is None or (path.is_file() and found.reader is GENERIC):
        if path.is_dir():
            raise InputError(
                Problem(
                    "no rollouts found", str(path), expected="a trainer's rollout dump, or a JSONL, CSV or parquet file"
                )
            )
        return read_rows(path, given)
    rollouts = open_rollouts(path, mapping=known)
    if told is not None and rollouts.reader.weights_unknown:
        rollouts = told(path, rollouts)
    rows: list[Row] = []
    notes = [f"read as {rollouts.reader.name}"]
    if rollouts.weights:
        notes.append(f"reward = {rollouts.total}")
    elif rollouts.total:
        notes.append("the reward shown is the sum of the parts, unweighted: the logged reward is not in this file")
    for batch in rollouts.scan(COLUMNS):
        rows += _rows(batch, len(rows))
        if len(rows) >= MAX_TAKEN:
            notes.append(f"only the first {len(rows):,} rollouts were taken")
            break
    if not rows:
        raise InputError(Problem("no rollout could be read", str(path)))
    return Rows(tuple(rows), {c: c for c in COLUMNS}, tuple(notes), str(path))


def _rows(batch: Batch, start: int) -> list[Row]:
    whole = {n: batch.integer(n) for n in ("step", "index", "seed")}
    number = {n: batch.number(n) for n in ("reward", "correct")}
    text = {
        n: batch.text(n)
        for n in ("group", "prompt_id", "family", "tier", "prompt", "completion", "gold", "raw_output", "stop_reason")
    }

    def integer(name: str, i: int) -> int | None:
        return None if whole[name][i] == MISSING else int(whole[name][i])

    out = []
    for i in range(batch.rows):
        prompt, completion = text["prompt"][i], text["completion"][i]
        out.append(
            Row(
                number=start + i,
                source=batch.source,
                messages=(Message("user", prompt),) if prompt else (),
                completion=completion,
                gold=text["gold"][i],
                family=text["family"][i] or "",
                tier=text["tier"][i] or "",
                id=text["prompt_id"][i] or "",
                step=integer("step", i),
                group=text["group"][i] or "",
                index=integer("index", i),
                reward=float(number["reward"][i]),
                correct=float(number["correct"][i]),
                stop=text["stop_reason"][i] or "",
                raw=text["raw_output"][i] or "",
                seed=integer("seed", i),
                turns=(completion,) if completion is not None else (),
            )
        )
    return out


def load_tasks(path: Path, given: Mapping[str, str] | None = None) -> tuple[tuple[Item, ...], str]:
    """Return the tasks of a file, each once, and its own name of the gold column. Raises InputError."""
    rows = read_rows(path, {k: v for k, v in (given or {}).items() if k in KEYS}, needs=("prompt",))
    return tasks_of_rows(rows.rows), rows.keys.get("gold", "answer")


def tasks_of_rows(rows: Sequence[Row]) -> tuple[Item, ...]:
    """Return the distinct tasks of rows, in their order; a row without a prompt is none."""
    found: dict[str, Item] = {}
    for row in rows:
        if row.messages:
            found.setdefault(row.task, row.item())
    return tuple(found.values())


def out_of_reach(rows: Sequence[Row], given: float | None) -> str:
    """Return a hint where no reward reaches the given full marks, "" where one does or a verdict counts instead.

    The highest reward seen may still lie below what the reward can pay, so this is said and nothing is refused.
    """
    rewards = [r.reward for r in rows if math.isfinite(r.reward) and math.isnan(r.correct)]
    if given is None or not rewards or given <= max(rewards):
        return ""
    top, count = max(rewards), f"{len(rewards):,} rollout{'s' * (len(rewards) > 1)}"
    lower = f"give what the reward pays for a right answer, such as --solved-at {top:g}"
    hint = lower if top > 0 else "look at the reward first: rlvitals audit probe"  # only the floor was ever paid
    return (
        f"no prompt counts as solved: --solved-at is {given:g}, and the highest reward of {count} is {top:g}. If the "
        f"reward can't pay {given:g}, {hint}"
    )


def full_marks(rows: Sequence[Row], given: float | None) -> float:
    """Return the reward that counts as right: the given one, else the highest seen where rewards take few values.

    Raises InputError for a reward of many values, whose full marks only the user knows.
    """
    if given is not None:
        return given
    values = {r.reward for r in rows if math.isfinite(r.reward)}
    if len(values) > 10 and all(math.isnan(r.correct) for r in rows):
        raise InputError(
            Problem("the reward is no yes or no", found=f"{len(values)} values, {min(values):g} to {max(values):g}",
                    expected="the reward that counts as solved", hint="Say it: --solved-at 1.0")
        )  # fmt: skip
    if values and max(values) <= 0.0:
        return math.inf  # nothing but the floor was ever paid
    return max(values, default=math.inf)
