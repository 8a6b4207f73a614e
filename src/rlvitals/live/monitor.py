"""The engine fed step by step, inside or beside a training process: the same verdict as `check` on the same prefix.

    monitor = Monitor(RunConfig(group_size=8), trainer="TRL")
    monitor.log(step, {"reward": 0.4, "entropy": 0.3, ...})
    print(monitor.diagnosis().headline)

Cost and memory do not grow with the run. Only a rewind (a step at or before the last one) reads back what was logged.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import orjson

from rlvitals.check import Check
from rlvitals.checks import CHECKS
from rlvitals.conclude import conclude
from rlvitals.engine import Engine, Incident, is_look
from rlvitals.errors import InputError, Problem
from rlvitals.ingest.live import live_mapper
from rlvitals.schema import UNKNOWN_TRAINER, Event, Run, RunConfig, Segment

MAX_STEP = 2**53  # whole numbers above are not exact in a float64, in which logs keep them
MAX_DEPTH = 8  # levels of nested metrics that are read (convention)

if TYPE_CHECKING:
    from rlvitals.diagnosis import Diagnosis
    from rlvitals.ingest.mapping import RowMapper


class Monitor:
    """Examines a run while it runs.

    Args:
        config: what is known of the run's setup; unknown fields stay None.
        trainer: the trainer's name ("TRL", "verl" ...); "" finds it from the keys of the first row.
        metric_map: canonical metric -> own key, for logs with their own names.
        spool: file that keeps the canonical rows; a temporary one that vanishes with the process when None.
    """

    def __init__(
        self,
        config: RunConfig | None = None,
        *,
        trainer: str = "",
        name: str = "live run",
        checks: tuple[Check, ...] = CHECKS,
        metric_map: Mapping[str, str] | None = None,
        limits: Mapping[str, float] | None = None,
        off: Mapping[str, str] | None = None,
        spool: Path | None = None,
    ) -> None:
        if config is not None and not isinstance(config, RunConfig):
            raise TypeError(f"config is a {type(config).__name__}; expected rlvitals.schema.RunConfig, or None")
        self.name = name
        self._config = config or RunConfig()
        if trainer:
            live_mapper(trainer, (), self._config)  # an unknown name is said here, not at the first row
        self._checks = checks
        self._limits, self._off = limits, off
        self._trainer = trainer
        self._map = metric_map
        self._mapper: RowMapper | None = None
        self._spool: IO[bytes] = tempfile.TemporaryFile() if spool is None else spool.open("w+b")  # noqa: SIM115
        self._segments: tuple[Segment, ...] = ()
        self._events: tuple[Event, ...] = ()
        self._pending: tuple[int, dict[str, float]] | None = None
        self._opened: tuple[Incident, ...] = ()  # by a row that diagnosis() took in, not yet returned
        self._engine = self._fresh()

    def log(self, step: int, metrics: Mapping[str, object]) -> tuple[Incident, ...]:
        """Take one row under the trainer's own keys (or canonical names); return the incidents opened since the last.

        A row is whole, and can open incidents, once the next step begins or a diagnosis is asked for. Rows of the same
        step are merged. A row with only held-out scores is no training row. A step at or before the last one rewinds
        the run: the replaced rows become a closed segment, as in a log file. Raises InputError for a step that is no
        whole number of 0 or more: it would be taken for a rewind.
        """
        step = _whole(step, "Monitor.log")
        raw = _flat(metrics)
        if self._mapper is None:
            self._mapper, trainer = live_mapper(self._trainer, raw, self._config, self._map)
            self._engine.trainer = trainer
        row = self._mapper.map_row(raw)
        if row.values:
            self._take(step, dict(row.values))
        for name, score in row.evals.items():
            self.add_eval(name, step, score)
        opened, self._opened = self._opened, ()
        return opened

    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis of everything logged so far."""
        self._flush()
        return conclude(self._engine.examine(), self._checks, name=self.name)

    def add_eval(
        self, name: str, step: int, score: float, *, stderr: float = math.nan, items: int = 0, metric: str = "accuracy"
    ) -> None:
        """Take one held-out score (a fraction, or the mean reward when `metric` is "reward") of a training step.

        A score that is not finite counts as not evaluated. Raises InputError for a step that is none.
        """
        step, score = _whole(step, "Monitor.add_eval"), float(score)
        if math.isfinite(score):
            self._add_eval({"s": step, "e": [_text(name), score, float(stderr), int(items), metric]})

    def add_event(self, event: Event) -> None:
        """Tell the monitor of a checkpoint, a resume or a change of config."""
        self._events = (*self._events, event)
        self._engine.events = self._events

    def adopt(self, run: Run) -> None:
        """Take over what is known of a run beside its rows: trainer, segments and events."""
        self._segments, self._events, self._engine.trainer = run.segments, run.events, run.trainer
        self._engine.segments, self._engine.events = self._segments, self._events
        self._mapper, _ = live_mapper(self._trainer, (), self._config, self._map)

    def close(self) -> None:
        """Release the spool file."""
        self._spool.close()

    def _take(self, step: int, values: dict[str, float]) -> None:
        if self._pending is not None and step == self._pending[0]:
            self._pending[1].update(values)
            return
        self._flush()
        if step <= self._engine.store.last_step:
            self._rewind(step, values)
        else:
            self._pending = (step, values)

    def _flush(self) -> None:
        if self._pending is None:
            return
        step, values = self._pending
        self._pending = None
        self._write({"s": step, "v": values})
        self._opened += self._feed_one(step, values)

    def _feed_one(self, step: int, values: Mapping[str, float]) -> tuple[Incident, ...]:
        names = tuple(values)
        self._engine.feed(np.array([step]), names, np.array([[values[n]] for n in names]))
        if not is_look(self._engine.store.n):
            return ()
        before = self._engine.open_incidents()
        self._engine.look()
        return tuple(i for c, i in self._engine.open_incidents().items() if c not in before)

    def _add_eval(self, row: dict[str, Any]) -> None:
        self._write(row)
        name, score, stderr, items, metric = row["e"]
        self._engine.add_eval(name, row["s"], score, math.nan if stderr is None else stderr, items, metric)

    def _write(self, row: dict[str, Any]) -> None:
        self._spool.write(orjson.dumps(row) + b"\n")

    def _rewind(self, step: int, values: dict[str, float]) -> None:
        """Rebuild the state from the rows before `step`, and close the rest as a segment."""
        last = self._engine.store.last_step
        kept = [r for r in self._rows() if r["s"] < step or (step == last and "e" in r)]  # scores of a merged step stay
        merged = values if step < last else {**self._row_at(step), **values}
        if step < last:
            dropped = sum(1 for r in self._rows() if "v" in r and r["s"] >= step)
            self._segments = (*self._segments, Segment(step, last, dropped, step))
        self._spool.seek(0)
        self._spool.truncate()
        trainer = self._engine.trainer
        self._engine = self._fresh()
        self._engine.trainer = trainer
        for row in kept:
            if "e" in row:
                self._add_eval(row)
                continue
            self._write(row)
            self._feed_one(row["s"], row["v"])
        self._pending = (step, merged)

    def _rows(self) -> Iterator[dict[str, Any]]:
        self._spool.flush()
        self._spool.seek(0)
        for line in self._spool:
            yield orjson.loads(line)
        self._spool.seek(0, 2)

    def _row_at(self, step: int) -> dict[str, float]:
        return next((row["v"] for row in self._rows() if row["s"] == step and "v" in row), {})

    def _fresh(self) -> Engine:
        engine = Engine(self._checks, config=self._config, trainer=UNKNOWN_TRAINER, limits=self._limits, off=self._off)
        engine.segments, engine.events = self._segments, self._events
        return engine


def _whole(step: object, where: str) -> int:
    """Return a step as an int. Raises InputError."""
    try:
        found = int(step)  # type: ignore[call-overload]
        whole = 0 <= found < MAX_STEP and found == float(step)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise InputError(Problem("not a step", where, repr(step)[:80], "a whole number, 0 or more"))
    return int(found)


def _flat(metrics: Mapping[str, object], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Return nested metrics as path/to/key -> value; what is nested deeper than any log, as in a ring, is left out."""
    out: dict[str, Any] = {}
    for key, value in metrics.items():
        if not isinstance(value, Mapping):
            out[_text(f"{prefix}{key}")] = value
        elif depth < MAX_DEPTH:
            out.update(_flat(value, f"{prefix}{key}/", depth + 1))
    return out


def _text(name: object) -> str:
    """Return a name as text that UTF-8 can hold: the spool is JSON."""
    text = str(name)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
