"""The one driver: feeds rows to the checks' folds, looks at fixed row counts, and remembers incidents.

`examine(run)` and the live monitor run the same `Engine`; only the size of the chunks differs, and nothing depends on
it. Looks happen at row counts fixed in advance, so a verdict on a prefix never knows what came later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from rlvitals.blind import explained, met
from rlvitals.check import (
    SEVERITY,
    Check,
    Clear,
    Crashed,
    Finding,
    Fired,
    NoData,
    NotApplicable,
    Onset,
    Outcome,
    SourceKind,
    Threshold,
    capped,
)
from rlvitals.schema import (
    NONFINITE_PREFIX,
    Evals,
    Event,
    Example,
    Float64,
    Int64,
    Run,
    RunConfig,
    Segment,
    TrainerInfo,
)
from rlvitals.store import Store
from rlvitals.view import Chunk, Held, View

FIRST_LOOKS_EVERY = 5  # rows between looks, up to 500 rows; then about 1 to 2% of the rows so far
CLOSE_AFTER = 2  # looks without the fault before its incident is closed
MAX_INCIDENTS = 32  # closed incidents remembered per check
MAX_SHOWN = 12  # latest examples remembered per rollout fact


def look_interval(rows: int) -> int:
    """Return the number of rows between looks at this length: 5 up to 500 rows, then doubling with the length."""
    interval = FIRST_LOOKS_EVERY
    while rows >= 100 * interval:
        interval *= 2
    return interval


def is_look(rows: int) -> bool:
    """True when the engine looks after this many rows."""
    return rows > 0 and rows % look_interval(rows) == 0


def next_look(rows: int) -> int:
    """Return the first look after this many rows."""
    interval = look_interval(rows)
    candidate = (rows // interval + 1) * interval
    wider = look_interval(candidate)
    return candidate if candidate % wider == 0 else (candidate // wider + 1) * wider


@dataclass(frozen=True, slots=True)
class Incident:
    """A stretch of steps in which a check was firing; `closed` is None while it still is."""

    check: str
    onset: Onset
    closed: int | None
    finding: Finding  # the most severe one


@dataclass(frozen=True, slots=True)
class Track:
    """What the engine remembers of one check between looks."""

    fired: int = 0  # looks in a row at which it fired
    quiet: int = 0  # looks in a row at which it did not, while an incident is open
    open: Incident | None = None
    past: tuple[Incident, ...] = ()

    def after(self, outcome: Outcome, check: Check, step: int) -> Track:
        """Return the track after one more look."""
        if isinstance(outcome, Fired):
            fired = self.fired + 1
            if fired < check.patience and self.open is None:
                return replace(self, fired=fired, quiet=0)
            if self.open is None:
                started = Incident(check.id, outcome.finding.onset, None, outcome.finding)
                return replace(self, fired=fired, quiet=0, open=started)
            worst = max((self.open.finding, outcome.finding), key=lambda f: SEVERITY.index(f.action))
            return replace(self, fired=fired, quiet=0, open=replace(self.open, finding=worst))
        if self.open is None:
            return replace(self, fired=0) if self.fired else self
        if self.quiet + 1 < CLOSE_AFTER:
            return replace(self, fired=0, quiet=self.quiet + 1)
        closed = replace(self.open, closed=step)
        past = (*self.past, closed)[-MAX_INCIDENTS:]
        return Track(past=past)


@dataclass(frozen=True)
class Examination:
    """The outcome of every check at one moment, and the incidents up to it."""

    outcomes: Mapping[str, Outcome]
    incidents: tuple[Incident, ...]
    view: View


class Engine:
    """Takes rows and held-out scores in order and answers, at any moment, what every check says."""

    def __init__(
        self,
        checks: tuple[Check, ...],
        *,
        config: RunConfig,
        trainer: TrainerInfo,
        limits: Mapping[str, float] | None = None,
        off: Mapping[str, str] | None = None,
    ) -> None:
        self.checks = tuple(c for c in checks if c.id not in (off or {}))
        self.off = {c.id: (off or {})[c.id] for c in checks if c.id in (off or {})}
        self.config = config
        self.trainer = trainer
        self.limits = {c.id: user_limits(c, limits or {}) for c in self.checks}
        self.store = Store()
        self.evals: dict[str, Held] = {}
        self.segments: tuple[Segment, ...] = ()
        self.events: tuple[Event, ...] = ()
        self.audits: tuple[object, ...] = ()
        self._shown: dict[str, tuple[Example, ...]] = {}
        self._folding = tuple((c.id, c.fold) for c in self.checks if c.fold is not None)
        self._folds = {i: fold.start for i, fold in self._folding}
        self._tracks = {c.id: Track() for c in self.checks}
        self._looked_at = 0  # rows at the last scheduled look
        self.latest: dict[str, Outcome] = {}  # what each check said at the last scheduled look

    def feed(self, steps: Int64, names: tuple[str, ...], values: Float64) -> None:
        """Take rows between two looks: steps int64[k], values float64[len(names), k]."""
        at = self.store.index(names)
        chunk = Chunk(steps, {n: i for i, n in enumerate(names)}, values, self.config)
        for i, fold in self._folding:
            state = self._folds[i]
            if isinstance(state, Crashed) or not all(metric in chunk.names for metric in fold.needs):
                continue
            try:
                self._folds[i] = fold.step(state, chunk)
            except Exception as error:  # one broken check must not hide the others
                self._folds[i] = _crash(error)
        self.store.append(steps, at, values)

    def add_eval(self, name: str, step: int, score: float, stderr: float, items: int, metric: str) -> None:
        """Take one held-out score in any order of steps; a score of a step already seen replaces it."""
        items = items or (metric == "accuracy" and self.config.eval_items) or 0
        held = self.evals.get(name)
        if held is None:
            self.evals[name] = Held(
                np.array([step], dtype=np.int64), np.array([score]), np.array([stderr]), items, metric
            )
            return
        at, after = (int(np.searchsorted(held.step, step, side=side)) for side in ("left", "right"))

        def put(old: np.ndarray, new: float) -> np.ndarray:
            return np.concatenate([old[:at], np.array([new], dtype=old.dtype), old[after:]])

        scores = (put(held.step, step), put(held.score, score), put(held.stderr, stderr))
        self.evals[name] = Held(*scores, items or held.items, metric)

    def add_examples(self, examples: Iterable[Example]) -> None:
        """Take rollouts that facts chose, in order of steps, before the look that shows them; the latest are kept."""
        for example in examples:
            self._shown[example.shows] = (*self._shown.get(example.shows, ()), example)[-MAX_SHOWN:]

    def look(self) -> None:
        """Record a scheduled look; of held-out scores, segments and events it sees those that were there by then.

        Held-out scores count from the next step on, so that it does not matter when in a step they arrive.
        """
        self._looked_at = self.store.n
        step = self.store.last_step
        earlier = {}
        for name, held in self.evals.items():
            keep = held.step < step
            if keep.any():
                earlier[name] = (
                    held
                    if keep.all()
                    else replace(held, step=held.step[keep], score=held.score[keep], stderr=held.stderr[keep])
                )
        view = self._view(earlier)
        view.segments = tuple(s for s in self.segments if s.resumed_at <= step)
        view.events = tuple(e for e in self.events if e.step is None or e.step <= step)
        for check in self.checks:
            outcome = self.latest[check.id] = self._judge(check, view)
            self._tracks[check.id] = self._tracks[check.id].after(outcome, check, step)

    def fork(self) -> Engine:
        """Return an engine in the same state that goes its own way from here on."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | deque):  # what they hold is immutable
                setattr(other, name, copy(value))
        other.store = self.store.fork()
        return other

    def examine(self) -> Examination:
        """Return what every check says now; changes nothing, so it may be asked at any step."""
        view = self._view(self.evals)
        outcomes: dict[str, Outcome] = {}
        incidents: list[Incident] = []
        for check in self.checks:
            outcome = self._judge(check, view)
            if isinstance(outcome, NoData):
                outcome = explained(check, outcome, view)
            track = self._tracks[check.id]
            looks = track.fired + (self._looked_at != self.store.n)  # a look just recorded does not count twice
            if isinstance(outcome, Fired) and track.open is None and looks < check.patience:
                seen = "one look" if looks == 1 else f"{looks} looks"
                outcome = Clear(f"seen at {seen} only: {outcome.finding.summary}")
            outcomes[check.id] = outcome
            incidents.extend(track.past)
            if track.open is not None and not isinstance(outcome, Fired):
                incidents.append(replace(track.open, closed=view.step))
        outcomes |= {i: NotApplicable(f"switched off by you: {reason}") for i, reason in self.off.items()}
        incidents.sort(key=lambda i: (i.onset.first, i.check))
        view.state = None
        return Examination(outcomes, tuple(incidents), view)

    def open_incidents(self) -> dict[str, Incident]:
        """Return the incidents that are open after the last scheduled look, by check."""
        return {c: t.open for c, t in self._tracks.items() if t.open is not None}

    def _view(self, evals: Mapping[str, Held]) -> View:
        view = View(self.store, self.config, self.trainer, dict(evals), self.segments, self.events, dict(self._shown))
        view.audits = self.audits
        return view

    def _judge(self, check: Check, view: View) -> Outcome:
        if not met(check, view):
            return NoData(())  # `examine` says of what
        view.state = self._folds.get(check.id)  # the view is this look's own: a copy per check would only cost time
        if isinstance(view.state, Crashed):
            return view.state
        try:
            outcome = check.judge(view, self.limits[check.id])
        except Exception as error:  # one broken check must not hide the others
            return _crash(error)
        if isinstance(outcome, Fired):
            return Fired(capped(outcome.finding))
        return outcome


def _crash(error: Exception) -> Crashed:
    return Crashed(f"{type(error).__name__}: {error}")


def user_limits(check: Check, limits: Mapping[str, float]) -> dict[str, Threshold]:
    """Return a check's thresholds by name, with the user's values ("ID.name") in place of its own."""
    out = {}
    for t in check.thresholds:
        key = f"{check.id}.{t.name}"
        mine = limits.get(key)
        out[t.name] = t if mine is None else Threshold(t.name, mine, t.unit, SourceKind.USER, "rlvitals.toml")
    return out


def run_engine(
    run: Run,
    checks: tuple[Check, ...],
    at_look: Callable[[Engine], None] | None = None,
    begun: Engine | None = None,
) -> Engine:
    """Feed a whole run through an engine, looking at every scheduled row count on the way.

    Args:
        at_look: is handed the engine after each scheduled look: what a live monitor would have known then.
        begun: an engine of the same checks and settings that has taken the first rows of this very run up to a
            scheduled look; the others are fed to it.
    """
    settings = run.settings
    engine = begun or Engine(
        checks,
        config=run.config,
        trainer=run.trainer,
        limits=getattr(settings, "thresholds", None),
        off={o.id: o.reason for o in getattr(settings, "off", ())},
    )
    engine.segments, engine.events, engine.audits = run.segments, run.events, run.audits
    names = tuple(run.columns)
    columns = [run.columns[n] for n in names]
    pending = sorted(_scores(run.evals), key=lambda e: e[1])
    examples = tuple(getattr(run.rollouts, "examples", ()))
    at, until = engine.store.n, engine.store.last_step
    taken = sum(e[1] <= until for e in pending) if at else 0
    shown = sum(e.step <= until for e in examples) if at else 0
    while at < run.rows:
        upto = min(next_look(at), run.rows)
        values = np.stack([c[at:upto] for c in columns]) if columns else np.zeros((0, upto - at))
        engine.feed(run.step[at:upto], names, values)  # a copy of these rows alone: runs may be large
        while taken < len(pending) and pending[taken][1] <= int(run.step[upto - 1]):
            engine.add_eval(*pending[taken])
            taken += 1
        begin = shown
        while shown < len(examples) and examples[shown].step <= int(run.step[upto - 1]):
            shown += 1
        engine.add_examples(examples[begin:shown])
        if is_look(upto):
            engine.look()
            if at_look is not None:
                at_look(engine)
        at = upto
    for score in pending[taken:]:
        engine.add_eval(*score)
    return engine


def _scores(evals: Mapping[str, Evals]) -> Iterable[tuple[str, int, float, float, int, str]]:
    for name, e in evals.items():
        for step, score, stderr in zip(e.step, e.score, e.stderr, strict=True):
            if np.isfinite(score):
                yield (name, int(step), float(score), float(stderr), e.items, e.metric)


def nonfinite_metrics(view: View) -> tuple[str, ...]:
    """Return the metrics of which a logged value was not finite."""
    start = len(NONFINITE_PREFIX)
    names = view.store.names
    return tuple(n[start:] for n, at in names.items() if n.startswith(NONFINITE_PREFIX) and view.store.nonzero[at])


__all__ = [
    "Engine",
    "Examination",
    "Incident",
    "Track",
    "is_look",
    "look_interval",
    "next_look",
    "run_engine",
]
