"""The mapper of the live monitor: the same rules as for files, picked from the trainer's name or the first row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlvitals.errors import InputError, Problem
from rlvitals.ingest import registry
from rlvitals.ingest.mapping import RowMapper
from rlvitals.ingest.rules import Resolver
from rlvitals.schema import RunConfig, TrainerInfo


def live_mapper(
    trainer: str, keys: Iterable[str], config: RunConfig, user: Mapping[str, str] | None = None
) -> tuple[RowMapper, TrainerInfo]:
    """Return the row mapper and the trainer's words; an unknown trainer's name is an InputError with the known ones."""
    found = frozenset(keys)
    adapter = registry.by_name(trainer) if trainer else registry.pick(found)
    if adapter is None:
        known = ", ".join(a.info.name for a in registry.ADAPTERS)
        raise InputError(Problem("unknown trainer", "Monitor(trainer=...)", repr(trainer), f"one of {known}"))
    return RowMapper(Resolver(adapter, found, config, user)), adapter.info
