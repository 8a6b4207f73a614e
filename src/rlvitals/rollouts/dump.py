"""`Rollouts`: the trajectories of a run, read when asked for, in batches of the canonical table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlvitals.errors import InputError
from rlvitals.rollouts.find import Found, required
from rlvitals.rollouts.fold import whole_steps
from rlvitals.rollouts.grouping import NOT_GROUPED, Grouper, Grouping
from rlvitals.rollouts.readers.base import Reader, Request
from rlvitals.rollouts.skips import Skips
from rlvitals.rollouts.table import BY_NAME, PART, TEXT_HEAVY, Batch
from rlvitals.schema import Example, Note

Mask = npt.NDArray[np.bool_]
Where = Callable[[Batch], Mask]


@dataclass(frozen=True)
class Rollouts:
    """The rollouts of a run.

    Attributes:
        reader: the kind of dump.
        files, evaluation: files of training and of held-out rollouts, in order of steps.
        group_size: as configured, None when unknown.
        evaluated: steps at which the log has an evaluation.
        weights: of the reward's components, where the dump has no total and the log told them.
        count, columns, grouping, skips: what was found when the facts were folded; unknown before.
        sampled_share: share of the rollouts whose text was read.
        examples: rollouts that the facts chose, in order of steps.
    """

    reader: Reader
    files: tuple[Path, ...]
    evaluation: tuple[Path, ...] = ()
    left_out: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)
    group_size: int | None = None
    evaluated: frozenset[int] = frozenset()
    weights: Mapping[str, float] = field(default_factory=dict)
    count: int = 0
    columns: tuple[str, ...] = ()
    grouping: Grouping = NOT_GROUPED
    skips: Skips = field(default_factory=Skips)
    sampled_share: float = float("nan")
    examples: tuple[Example, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of the training files on disk."""
        return sum(path.stat().st_size for path in self.files if path.exists())

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        *,
        rows: Mapping[Path, Sequence[int]] | None = None,
        grouper: Grouper | None = None,
        evaluation: bool = False,
        skips: Skips | None = None,
    ) -> Iterator[Batch]:
        """Yield batches that end where a step ends, with group and index of every rollout.

        Args:
            columns: canonical columns, "reward_part/" for all components; None for every column. Keys come always.
            where: keeps the rollouts for which it is true.
            rows: file -> numbers of rollouts; groups of a dump without ids are only right when whole steps are read.
            evaluation: read the held-out files after the training ones.

        Raises InputError when nothing can be read.
        """
        request = self.request(columns, rows, skips)
        heavy = request.columns is None or bool(request.columns & TEXT_HEAVY)
        grouper = grouper or Grouper(self.group_size)
        for batch in whole_steps(self._read(request, evaluation), least=2_000 if heavy else 20_000):
            batch = self.prepared(batch, grouper)
            if where is not None:
                batch = batch.take(np.flatnonzero(where(batch)))
            if batch.rows:
                yield batch

    def request(
        self,
        columns: Sequence[str] | None,
        rows: Mapping[Path, Sequence[int]] | None = None,
        skips: Skips | None = None,
    ) -> Request:
        """Return what is asked of the reader for these canonical columns, as `scan` asks it."""
        wanted = None if columns is None else frozenset(columns) | {"prompt_id"}
        if wanted is not None and self.weights and "reward" in wanted:
            wanted |= {PART}
        return Request(wanted, rows, self.mapping, self.evaluated, skips if skips is not None else Skips())

    def prepared(self, batch: Batch, grouper: Grouper) -> Batch:
        """Return a batch of whole steps, as the reader gave it, with groups and the total reward."""
        batch = grouper.add(batch)
        return _weighted(batch, self.weights) if self.weights else batch

    def _read(self, request: Request, evaluation: bool) -> Iterator[Batch]:
        if self.files:
            yield from self.reader.read(self.files, request)
        if evaluation and self.evaluation:
            for batch in self.reader.read(self.evaluation, request):
                split = np.full(batch.rows, "eval", dtype=object)
                yield replace(batch, columns={**batch.columns, "split": split})

    @property
    def total(self) -> str:
        """What stands for the reward where the dump has no total, "" where it has one."""
        if self.weights:
            total = " + ".join(f"{weight:g} x {name}" for name, weight in self.weights.items())
            return f"{total}, as the logged rewards tell"
        return "the plain sum of its components stands for it" if self.reader.weights_unknown else ""

    def notes(self) -> tuple[Note, ...]:
        """Return what the user should know of how the dump was read."""
        where = str(self.files[0]) if self.files else ""
        text = f"read {self.count:,} rollouts from {self.reader.name} ({len(self.files)} files); {self.grouping}"
        if self.sampled_share < 1.0:
            text += f"; text of {100 * self.sampled_share:.3g}% of them"
        notes = [Note(text, where, 0, self.count), *self.skips.notes()]
        if self.total:
            notes.append(Note(f"the dump has no total reward: {self.total}", where))
        if self.left_out:
            more = f" and {len(self.left_out) - 4} more" if len(self.left_out) > 4 else ""
            notes.append(Note(f"other dumps left out: {', '.join(self.left_out[:4])}{more}", where))
        return tuple(notes)


def _weighted(batch: Batch, weights: Mapping[str, float]) -> Batch:
    """Return the batch with the reward as the weighted sum of its known components."""
    total, known = np.zeros(batch.rows), np.zeros(batch.rows, dtype=bool)
    for name, weight in weights.items():
        part = batch.number(PART + name)
        there = np.isfinite(part)
        total += np.where(there, weight * part, 0.0)
        known |= there
    return replace(batch, columns={**batch.columns, "reward": np.where(known, total, np.nan)})


def open_rollouts(
    path: Path,
    *,
    mapping: Mapping[str, str] | None = None,
    group_size: int | None = None,
    evaluated: frozenset[int] = frozenset(),
) -> Rollouts:
    """Return the rollouts that a file or directory holds; nothing is read yet. Raises InputError."""
    return of_found(required(path, mapping), mapping or {}, group_size, evaluated)


def of_found(
    found: Found, mapping: Mapping[str, str], group_size: int | None, evaluated: frozenset[int] = frozenset()
) -> Rollouts:
    """Return the rollouts of files that were found. Raises InputError for files that are never opened."""
    if found.reader.refuse:
        for _ in found.reader.read(found.files or found.evaluation, Request()):
            pass
    return Rollouts(found.reader, found.files, found.evaluation, found.left_out, dict(mapping), group_size, evaluated)


def parse_map(pairs: Sequence[str]) -> dict[str, str]:
    """Return canonical column -> key of "column=key" texts. Raises InputError with every problem."""
    from difflib import get_close_matches

    from rlvitals.errors import Problem

    out: dict[str, str] = {}
    problems: list[Problem] = []
    for pair in pairs:
        name, equals, key = pair.partition("=")
        if not equals or not name or not key:
            problems.append(Problem("not a mapping", pair, expected="COLUMN=KEY"))
        elif name not in BY_NAME and not name.startswith(PART):
            near = get_close_matches(name, list(BY_NAME), n=1)
            problems.append(Problem("unknown column", name, hint=f"Nearest: {near[0]}" if near else ""))
        else:
            out[name] = key
    if problems:
        raise InputError(*problems)
    return out


__all__ = ["Rollouts", "Where", "of_found", "open_rollouts", "parse_map"]
