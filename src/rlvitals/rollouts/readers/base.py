"""What every reader of rollouts is: which files it takes, how it reads them, how it knows the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlvitals.rollouts.skips import Skips
from rlvitals.rollouts.table import PART, Batch

KEYS = ("step", "group", "index", "split", "segment")
"""Columns that every batch carries where the dump has them."""


@dataclass(frozen=True, slots=True)
class Head:
    """What can be told of a file without reading it.

    Attributes:
        path: the file.
        place: its path below the folder that was named, with "/".
        keys: names of its columns or of the first record's keys.
        record: the first record of a JSON file, {} for other files.
    """

    path: Path
    place: str
    keys: frozenset[str]
    record: Mapping[str, object] = field(default_factory=dict)

    @property
    def suffix(self) -> str:
        """The kind of file, without what packs it: ".jsonl", ".parquet" ..."""
        suffixes = [s for s in self.path.suffixes if s not in (".gz", ".zst")]
        return suffixes[-1] if suffixes else ""

    def has(self, *keys: str) -> bool:
        return self.keys.issuperset(keys)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a reader.

    Attributes:
        columns: canonical columns, None for all of them.
        rows: file -> rows to read, from 0 and sorted; None for every row.
        mapping: canonical column -> the dump's own key; wins over what the reader knows.
        evaluated: training steps at which the log has an evaluation, where that is known.
        skips: counts what could not be used.
    """

    columns: frozenset[str] | None = None
    rows: Mapping[Path, Sequence[int]] | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    evaluated: frozenset[int] = frozenset()
    skips: Skips = field(default_factory=Skips)

    def wants(self, name: str) -> bool:
        if self.columns is None or name in KEYS or name in self.columns:
            return True
        return name.startswith(PART) and not self.columns.isdisjoint((PART, f"{PART}*"))


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of dump.

    Attributes:
        name: as the user knows it: "TRL completions".
        accepts: whether a file is of this kind.
        read: files in order of steps -> batches. Rows that can't be used are counted in the request's skips.
        evaluation: whether a file of this kind holds held-out rollouts.
        refuse: why files of this kind are never opened, "" for the others.
        step_in_name: a file's name is that of a step, so that the same name in two folders is the same step twice.
        steps_elsewhere: the trainer's own adapter reads such a file as a step log.
        together: what a file means depends on the other files, so that they are read by one worker.
        folder_is_step: the files of a folder are the rollouts of one step.
        reads_beside: a file is read with another one that lies beside it.
        weights_unknown: the dump has reward components and not their sum.
    """

    name: str
    accepts: Callable[[Head], bool]
    read: Callable[[Sequence[Path], Request], Iterator[Batch]]
    evaluation: Callable[[Head], bool] = lambda head: False
    refuse: str = ""
    step_in_name: bool = False
    weights_unknown: bool = False
    steps_elsewhere: bool = False
    together: bool = False
    folder_is_step: bool = False
    reads_beside: bool = False
