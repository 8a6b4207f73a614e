"""From a trainer's own keys to canonical values, one call at a time; who the trainer is may take a few rows to show.

A first row may hold held-out scores or timings only, and some trainers spread a step over several rows. So the choice
of the trainer is open during the first `SETTLE` rows, in which every new key may change it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rlvitals.ingest.live import live_mapper
from rlvitals.ingest.mapping import MappedRow, RowMapper
from rlvitals.ingest.rules import Resolver
from rlvitals.ingest.values import number
from rlvitals.live.trouble import Troubles
from rlvitals.schema import UNKNOWN_TRAINER, RunConfig, TrainerInfo

SETTLE = 64  # calls during which a new key may change who the trainer is (convention)
MAX_KEYS = 5_000  # different keys that are read; a key that carries a step number would grow without end (convention)
MAX_METRICS = 2_000  # canonical series: about 12 kB each in the engine (docs/measurements.md, "Live monitor")
MAX_DEPTH = 8  # levels of nested metrics that are read (convention)
MAX_NAME = 300  # characters of a key


class Keys:
    """Maps the rows of one run.

    Args:
        trainer: its name, "" to find it from the keys. Raises InputError for an unknown one.
        known: keys that are known beforehand, from a file that is followed.
    """

    def __init__(
        self,
        trainer: str,
        config: RunConfig,
        user: Mapping[str, str] | None,
        troubles: Troubles,
        known: Iterable[str] = (),
    ) -> None:
        self._trainer, self._config, self._user, self._troubles = trainer, config, user, troubles
        self._seen: dict[str, None] = dict.fromkeys(known)
        self._metrics: set[str] = set()
        self.logged: set[str] = set()  # metrics that the trainer itself logs
        self._calls = 0
        self._fixed = False
        self.info: TrainerInfo = UNKNOWN_TRAINER
        self._mapper: RowMapper
        self._resolver: Resolver
        self._choose()

    @property
    def settled(self) -> bool:
        """True when the trainer is decided for good."""
        return self._fixed or self._calls >= SETTLE

    def settle(self) -> None:
        """Decide for good with what is known now."""
        self._fixed = True

    def learn(self, raw: Mapping[str, float]) -> bool:
        """Take note of a call's keys; return whether what earlier rows meant has changed."""
        fresh = [key for key in raw if key not in self._seen]
        open_ = not self.settled
        self._calls += 1
        if not fresh:
            return False
        before = [self._resolver.rule(key) for key in self._seen] if open_ else []
        keys = list(self._seen)
        self._seen.update(dict.fromkeys(fresh))
        if not open_:
            return False
        name, mapper = self.info.name, self._mapper
        self._choose()
        after = [self._resolver.rule(key) for key in keys]
        changed = name != self.info.name or any(
            (a.kind, a.metric, a.scale, a.offset, a.priority) != (b.kind, b.metric, b.scale, b.offset, b.priority)
            for a, b in zip(before, after, strict=True)
        )
        if not changed:  # what the rows so far have taught the mapper still stands
            mapper.resolver = self._resolver
            self._mapper = mapper
        return changed

    def numbers(self, metrics: Mapping[str, object], step: int) -> dict[str, float]:
        """Return the numbers of nested metrics as path/to/key -> value, bounded in depth and in different keys."""
        out: dict[str, float] = {}
        self._flatten(metrics, "", 0, out, step)
        return out

    def canonical(self, raw: Mapping[str, float], step: int) -> MappedRow:
        """Return the canonical values and held-out scores of one call."""
        row = self._mapper.map_row(raw)
        self.logged.update(row.values)
        return MappedRow(self.bounded(row.values, step), row.evals, row.kinds)

    def kl_estimator(self) -> str:
        """Return the estimator of the logged KL to the reference ("k3" ...), "" when neither key nor config says it."""
        return self._mapper.estimator("kl_ref") or self._config.kl_estimator or ""

    def step(self, record: Mapping[str, object]) -> int | None:
        """Return the training step that a record of a log names, None when it names none."""
        for key in self._resolver.step_keys():
            found = _at(record, key)
            value = None if found is None else number(found, key)
            if value is not None and value >= 0 and value == math.floor(value):
                return int(value)
        return None

    def bounded(self, values: Mapping[str, float], step: int) -> Mapping[str, float]:
        """Return the values without new series beyond the limit."""
        fresh = values.keys() - self._metrics
        if not fresh:
            return values
        room = MAX_METRICS - len(self._metrics)
        taken = sorted(fresh)[: max(room, 0)]
        self._metrics.update(taken)
        if len(taken) == len(fresh):
            return values
        left = fresh.difference(taken)
        self._troubles.note(
            f"more than {MAX_METRICS} different metrics: new ones are left out", min(left), step, len(left)
        )
        return {name: value for name, value in values.items() if name not in left}

    def _choose(self) -> None:
        self._mapper, self.info = live_mapper(self._trainer, self._seen, self._config, self._user)
        self._resolver = self._mapper.resolver

    def _flatten(
        self, metrics: Mapping[str, object], prefix: str, depth: int, out: dict[str, float], step: int
    ) -> None:
        for key, value in metrics.items():
            if type(value) is float and not prefix and key in self._seen:  # the common case, quickly
                out[key] = value
            elif isinstance(value, Mapping):
                if depth < MAX_DEPTH:
                    self._flatten(value, f"{prefix}{key}/", depth + 1, out, step)
            else:
                self._add(text(f"{prefix}{key}"), value, out, step)

    def _add(self, name: str, value: object, out: dict[str, float], step: int) -> None:
        if name not in self._seen and (len(self._seen) >= MAX_KEYS or len(name) > MAX_NAME):
            self._troubles.note(f"more than {MAX_KEYS} different keys, or one too long: left out", name, step)
            return
        try:
            found = number(value, name)
        except Exception as error:  # a tensor of a lost device, a broken __float__
            self._troubles.note("a value could not be read", f"{name}: {error}", step)
            return
        if found is not None:
            out[name] = found


def text(name: Any) -> str:
    """Return a name as text that UTF-8 can hold: the files are JSON."""
    found = str(name)
    return found if found.isascii() else found.encode("utf-8", "backslashreplace").decode()


def _at(record: Mapping[str, object], key: str) -> object:
    """Return the value under a key, or under its parts in nested records."""
    if key in record:
        return record[key]
    head, slash, rest = key.partition("/")
    inner = record.get(head) if slash else None
    return _at(inner, rest) if isinstance(inner, Mapping) else None
