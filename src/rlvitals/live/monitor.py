"""The engine fed step by step, inside or beside a training process: the same verdict as `check` on the same prefix.

    monitor = Monitor(RunConfig(group_size=8), trainer="TRL", directory="vitals")
    monitor.log(step, {"reward": 0.4, "entropy": 0.3, ...})
    print(monitor.diagnosis().headline)

Cost and memory do not grow with the run. Nothing that is logged can raise into training: what could not be used is
counted in `Monitor.troubles` and said once. In a job of many processes rank 0 alone works; the others do nothing.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvitals.check import Check
from rlvitals.checks import CHECKS
from rlvitals.conclude import conclude
from rlvitals.engine import Engine
from rlvitals.live import history
from rlvitals.live.course import Score
from rlvitals.live.files import RowFile
from rlvitals.live.keys import Keys, text
from rlvitals.live.pace import Pace
from rlvitals.live.ranks import rank as found_rank
from rlvitals.live.rows import Rows
from rlvitals.live.safe import never_raises
from rlvitals.live.stop import BestCheckpoint, StopOn, StopRequest, StopWatch, best_checkpoint, stop_on
from rlvitals.live.transitions import Ledger, Transition, transition
from rlvitals.live.trouble import Trouble, Troubles
from rlvitals.live.watcher import Watcher
from rlvitals.schema import UNKNOWN_TRAINER, Event, Run, RunConfig

if TYPE_CHECKING:
    from rlvitals.diagnosis import Diagnosis
    from rlvitals.rollouts.table import Batch

MAX_STEP = 2**53  # whole numbers above are not exact in a float64, in which logs keep them
MAX_SETS = 200  # held-out sets (convention)
TEXTS = 64  # rollouts per step whose text is scored and kept
METRICS_FILE, ROLLOUTS_FILE, TRANSITIONS_FILE = "metrics.jsonl", "rollouts.jsonl", "transitions.jsonl"


class Monitor:
    """Examines a run while it runs.

    Args:
        config: what is known of the run's setup; unknown fields stay None.
        trainer: the trainer's name ("TRL", "verl" ...); "" finds it from the keys of the first rows.
        metric_map: canonical metric -> own key, for logs with their own names.
        directory: where rows are kept, so that a process that was killed goes on where it stood; a temporary file
            that vanishes with the process when None.
        stop_on: when to ask the trainer to stop: a confidence ("high", "medium", "low") for stop verdicts, or StopOn.
        watchers: told of rows, scores and transitions as they come.
        rank: this process's rank; found from the environment when None.
        texts: rollouts per step whose text is scored and kept at most; numbers are counted on all. Fewer are taken
            where steps follow each other so fast that scoring would take more than a hundredth of the time.
        keys: keys known beforehand, where a log is followed.
        keeps: False where a log that is followed keeps the rows already.
        audits: records of audits (auditresults.read_folder); those beside `directory` when None.

    Raises InputError for an unknown trainer or confidence, TypeError for a config of another type: before training.
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
        directory: str | Path | None = None,
        stop_on: StopOn | str | None = None,
        watchers: Sequence[Watcher] = (),
        rank: int | None = None,
        texts: int = TEXTS,
        keys: Iterable[str] = (),
        keeps: bool = True,
        audits: tuple[object, ...] | None = None,
    ) -> None:
        if config is not None and not isinstance(config, RunConfig):
            raise TypeError(f"config is a {type(config).__name__}; expected rlvitals.schema.RunConfig, or None")
        self.name = name
        self._config = config or RunConfig()
        self._checks, self._limits, self._off = checks, limits, off
        self._by_id = {c.id: c for c in checks}
        self.noted = Troubles()
        self._keys = Keys(trainer, self._config, metric_map, self.noted, keys)
        self._stop = StopWatch(_rules(stop_on) or StopOn())
        self._told_stop = False
        self._directory = None if directory is None else Path(directory)
        self._pace = Pace(texts)
        self._watchers = [w for w in watchers if w is not None]
        self._rank, self._pid = rank, os.getpid()
        self.closed = False
        self.lock = threading.RLock()
        self._rollouts: RowFile | None = None
        self._transitions: RowFile | None = None
        self._fresh: tuple[Transition, ...] = ()
        self._seen_rollouts = self._read_rollouts = 0
        self._ledger = Ledger()
        path = None if self._directory is None else self._directory / METRICS_FILE
        self._rows = Rows(self._engine, self._keys, self.noted, path, self._done, keeps=keeps)
        self._rows.audited(_audits(self._directory) if audits is None else audits)

    @property
    def active(self) -> bool:
        """True in the one process that speaks for the run; decided at the first use."""
        if self._rank is None:
            self._rank = found_rank()
        return self._rank == 0 and os.getpid() == self._pid and not self.closed

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """What could not be used or done so far, counted."""
        return self.noted.all

    @property
    def stop_request(self) -> StopRequest | None:
        """The request to stop, once a rule of `stop_on` has asked for it."""
        return self._stop.request

    @property
    def kl_estimator(self) -> str:
        """Estimator of the logged KL to the reference ("k3" ...), "" when neither key nor config says it."""
        return self._keys.kl_estimator()

    @property
    def text_share(self) -> float:
        """Share of the logged rollouts whose text was scored; NaN before the first."""
        return self._read_rollouts / self._seen_rollouts if self._seen_rollouts else math.nan

    @never_raises(())
    def log(self, step: int, metrics: Mapping[str, object]) -> tuple[Transition, ...]:
        """Take one row under the trainer's own keys (or canonical names); return what changed since the last call.

        A row is whole, and can change a verdict, once the next step begins. Rows of the same step are merged. A row
        with only held-out scores is no training row. A step before the last one that brings other metrics is a late
        row; one that logs the same again rewinds the run: the replaced rows become a closed segment, as in a log file.
        """
        at = self._whole(step, "Monitor.log")
        if at is None:
            return self._new()
        if not isinstance(metrics, Mapping):
            self.noted.note("Monitor.log: metrics are no mapping", type(metrics).__name__, at)
            return self._new()
        raw = self._keys.numbers(metrics, at)
        if self._keys.learn(raw) and not self._rows.empty:
            self._rows.rebuild()  # a new key has shown what trainer this is: read the first rows again
        self._rows.engine.trainer = self._keys.info
        row = self._keys.canonical(raw, at)
        raw.pop("step", None)
        self._rows.take(at, dict(row.values), {"step": at, **history.plain(raw)})
        for name, score in row.evals.items():
            self._score((name, at, score, math.nan, 0, row.kinds[name]))
        return self._new()

    @never_raises(None)
    def log_rollouts(self, step: int, rows: Sequence[Mapping[str, Any]] | Batch) -> None:
        """Take all rollouts of a step: mappings with names of the canonical table (reward, group, completion ...).

        Numbers are counted on all of them, texts on a sample whose share `text_share` tells (see `texts`). What they
        say joins the row of their step and fills in metrics that the trainer does not log; what it logged itself wins.
        """
        from rlvitals.live.samples import batch_of, filled, lines_of
        from rlvitals.rollouts.fold import SHARE, of_step

        at = self._whole(step, "Monitor.log_rollouts")
        if at is None:
            return
        batch = batch_of(at, rows)
        if not batch.rows:
            return
        texts, begin = self._pace.texts(), time.perf_counter()
        found, examples = of_step(at, batch, text_sample=texts)
        self._pace.spent(begin, min(texts, batch.rows))
        values = dict(self._keys.bounded({**found, **filled(found, self._keys.logged)}, at))
        self._seen_rollouts += batch.rows
        self._read_rollouts += round(values.get(SHARE, 0.0) * batch.rows)
        row = self._rows.row(at)
        if row is None and at <= self._rows.last_step:
            self.noted.note("rollouts of a step too long ago: kept, but not counted", f"step {at}", at)
        else:
            row = row or {}
            self._rows.take(at, {n: v for n, v in values.items() if n not in row}, {"step": at, history.VALUES: values})
        self._rows.engine.add_examples(examples)
        if self._rollouts is not None:
            for line in lines_of(batch, texts):
                self._rollouts.append({"step": at, **line}, at)

    @never_raises(None)
    def add_eval(
        self, name: str, step: int, score: float, *, stderr: float = math.nan, items: int = 0, metric: str = "accuracy"
    ) -> None:
        """Take one held-out score (a fraction, or the mean reward when `metric` is "reward") of a training step.

        A score that is not finite counts as not evaluated.
        """
        at, value = self._whole(step, "Monitor.add_eval"), float(score)
        if at is None or not math.isfinite(value):
            return
        error = float(stderr) if math.isfinite(stderr) else None
        line = [text(name), value, error, int(items), text(metric)]
        self._rows.write({"step": at, history.EVAL: line}, at)
        self._score((text(name), at, value, math.nan if error is None else error, int(items), text(metric)))

    @never_raises(None)
    def add_event(self, event: Event) -> None:
        """Tell the monitor of a checkpoint, a resume or a change of config."""
        self._rows.write({"step": event.step, history.EVENT: history.event_line(event)}, event.step)
        self._rows.remember(event)

    @never_raises(None)
    def watch(self, watcher: Watcher) -> None:
        """Tell one more watcher from now on."""
        self._watchers.append(watcher)

    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis of everything logged so far; asking changes nothing."""
        with self.lock:
            if self.active:
                self.begin()
            return conclude(self._rows.snapshot().examine(), self._checks, name=self.name)

    @never_raises(None)
    def stop_due(self) -> StopRequest | None:
        """Return the request to stop the first time that it is asked for, None ever after."""
        if self._stop.request is None or self._told_stop:
            return None
        self._told_stop = True
        return self._stop.request

    @never_raises(None)
    def best_checkpoint(self, held_out: str = "") -> BestCheckpoint | None:
        """Return the step with the best held-out score and its checkpoint; None without held-out scores."""
        return best_checkpoint(self._rows.engine.evals, self._rows.events, held_out)

    @never_raises(None)
    def adopt(self, run: Run) -> None:
        """Take over what is known of a run beside its rows: trainer, segments, events, audits; rows in our names."""
        self._keys.settle()
        self._rows.adopt(run)

    @never_raises(())
    def take_over(self, run: Run) -> tuple[Transition, ...]:
        """Start over with a run as its files hold it now; return what changed since what was said of it before."""
        self._rows.take_over(run)
        engine = self._rows.engine
        if engine.latest:
            self._after_look(engine.store.last_step)
        return self._new()

    @never_raises(None)
    def inherit(self, other: Monitor) -> None:
        """Take over what another monitor of the same run has said already, so that none of it is said again."""
        self._ledger, self._stop, self._told_stop = other._ledger, other._stop, other._told_stop

    @never_raises(())
    def log_record(self, record: Mapping[str, object]) -> tuple[Transition, ...]:
        """Take one record of a log, with its step under one of the trainer's own keys."""
        step = self.step_of(record)
        return self.log(step, record) if step is not None else ()

    def step_of(self, record: Mapping[str, object]) -> int | None:
        """Return the training step that a record of a log names, None when it names none."""
        return self._keys.step(record)

    @property
    def last_step(self) -> int:
        """The last step that was logged, -1 before the first."""
        return self._rows.last_step

    @property
    def lost_track(self) -> bool:
        """True when a followed log went back further than is remembered: `take_over` the run as it is now."""
        return self._rows.lost_track

    def close(self) -> None:
        """Take in the last row and close the files. The monitor is of no use afterwards."""
        with self.lock:
            self._finish()

    @never_raises(None)
    def _finish(self) -> None:
        self._rows.flush()
        self._tell(lambda w: w.on_close())
        self._rows.close()
        for file in (self._rollouts, self._transitions):
            if file is not None:
                file.close()
        self.closed = True

    def begin(self) -> None:
        """Open the files at the first use, and go on where a killed process stood."""
        at = self._directory
        if not self._rows.begin() or at is None:
            return
        self._rollouts = RowFile(at / ROLLOUTS_FILE, self.noted)
        self._transitions = RowFile(at / TRANSITIONS_FILE, self.noted)
        self._ledger.restore(history.told(self._transitions), self._rows.engine.open_incidents())

    def _done(self, step: int, values: Mapping[str, float], looked: bool) -> None:
        self._stop.row(step, values)
        self._tell(lambda w: w.on_row(step, values))
        if looked:
            self._after_look(step)
        self._tell_stop()

    def _new(self) -> tuple[Transition, ...]:
        fresh, self._fresh = self._fresh, ()
        return fresh

    def _after_look(self, step: int) -> None:
        engine = self._rows.engine
        changes = self._ledger.after_look(engine.latest, engine.open_incidents())
        self._tell(lambda w: w.on_look(step, engine.latest, self._ledger.open))
        if changes or self._stop.wants_verdict(self._ledger.open):
            found = conclude(engine.examine(), self._checks, name=self.name)
            for change in changes:
                self._announce(transition(change, step, found, self._by_id))
            self._stop.look(step, found.verdict, self._ledger.open)

    def _announce(self, found: Transition) -> None:
        self._fresh = (*self._fresh, found)[-len(self._by_id) * 4 :]
        if self._transitions is not None:
            self._transitions.append(history.transition_line(found), found.step)
        self._tell(lambda w: w.on_transition(found))

    def _tell_stop(self) -> None:
        request = self._stop.request
        if request is not None and not self._stop.told:
            self._stop.told = True
            self._tell(lambda w: w.on_stop(request))

    def _tell(self, call: Callable[[Watcher], None]) -> None:
        for watcher in self._watchers:
            try:
                call(watcher)
            except Exception as error:  # a broken watcher hides nothing from the others
                self.noted.note(f"{type(watcher).__name__} failed", error)

    def _score(self, score: Score) -> None:
        engine = self._rows.engine
        if score[0] not in engine.evals and len(engine.evals) >= MAX_SETS:
            self.noted.note(f"more than {MAX_SETS} held-out sets: new ones are left out", score[0], score[1])
            return
        engine.add_eval(*score)
        self._stop.score(score[0], score[1], score[2])
        self._tell(lambda w: w.on_score(score[0], score[1], score[2]))
        self._tell_stop()

    def _whole(self, step: object, where: str) -> int | None:
        """Return a step as an int; None, counted, for what is no step: it would be taken for a rewind."""
        try:
            found = int(step)  # type: ignore[call-overload]
            if 0 <= found < MAX_STEP and found == float(step):  # type: ignore[arg-type]
                return int(found)
        except (TypeError, ValueError, OverflowError):
            pass
        self.noted.note(f"{where}: not a step", f"{step!r:.80}; expected a whole number, 0 or more")
        return None

    def _engine(self) -> Engine:
        return Engine(self._checks, config=self._config, trainer=UNKNOWN_TRAINER, limits=self._limits, off=self._off)


_rules = stop_on  # the constructor's argument has the same name


def _audits(directory: Path | None) -> tuple[object, ...]:
    """Return the records of audits in `.rlvitals/` of the monitor's folder or of the run folder that holds it."""
    if directory is None:
        return ()
    from rlvitals.auditresults import FOLDER, read_folder

    found = [read_folder(folder / FOLDER)[0] for folder in (directory.absolute().parent, directory)]
    return tuple(sorted((a for part in found for a in part), key=lambda a: a.made.at))
