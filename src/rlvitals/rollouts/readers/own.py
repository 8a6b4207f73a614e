"""rlvitals' own dump: parquet or JSON lines whose columns are the table's, one file per step or many in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlvitals.rollouts.readers import heads, sql
from rlvitals.rollouts.readers.base import Reader, Request
from rlvitals.rollouts.readers.sql import Raw
from rlvitals.rollouts.table import BY_NAME, PART, Batch, Kind, kind_of

_MUST = ("step", "group", "index", "reward")


def _select(raw: Raw) -> Mapping[str, str | None]:
    forms = {Kind.INTEGER: raw.whole, Kind.NUMBER: raw.number, Kind.TEXT: raw.text, Kind.TOKENS: raw.tokens}
    names = [n for n in raw.types if n in BY_NAME or n.startswith(PART)]
    return {name: forms[kind_of(name)](name) for name in names}


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    parts = [k for k in heads.numeric_keys(paths[0]) if k.startswith(PART)] if paths[0].suffix != ".parquet" else []
    return sql.read(paths, [*BY_NAME, *parts], _select, request)


READER = Reader(
    "rlvitals rollouts",
    lambda head: (
        head.has(*_MUST) and sum(k in BY_NAME or k.startswith(PART) for k in head.keys) >= 0.8 * len(head.keys)
    ),
    read,
)
