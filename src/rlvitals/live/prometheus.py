"""`/metrics` for Prometheus: the vital signs of the runs of a process, and what is wrong with them now.

    monitor = Monitor(config, trainer="TRL", name="qwen3-4b gsm8k")
    exporter = Exporter()
    exporter.watch(monitor)
    if monitor.active:  # rank 0
        exporter.serve(port=9464)

The training thread writes a few numbers per row; everything else happens when Prometheus asks. The number of series is
bounded whatever a log holds: the gauges of `report/prometheus_names.py`, one finding per check and action, `MAX_RUNS`
runs and `MAX_SETS` held-out sets. What is over a bound is counted in `rlvitals_values_refused_total`.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlvitals.check import Clear, Crashed, Fired, NoData, NotApplicable, Outcome
from rlvitals.errors import InputError, Problem
from rlvitals.live.transitions import Told
from rlvitals.live.watcher import Watcher
from rlvitals.metrics import lookup
from rlvitals.report import prometheus_names as names
from rlvitals.report.words import clean
from rlvitals.schema import NONFINITE_PREFIX

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from rlvitals.live.monitor import Monitor

MAX_RUNS = 64  # runs that one process exports (convention: a sweep on one host)
MAX_SETS = 16  # held-out sets per run (convention)
MAX_ESTIMATORS = 4  # KL estimators per run: one, and a few more after a changed config (convention)
MAX_LABEL = 120  # characters of a name from a log (convention: a path fits)
LOCAL = "127.0.0.1"
DEFAULT_PORT = 9464  # the port that OpenTelemetry's Prometheus exporters use
OUTCOMES: tuple[tuple[type, str], ...] = (
    (Fired, "fired"),
    (Clear, "clear"),
    (NoData, "no_data"),
    (NotApplicable, "not_applicable"),
    (Crashed, "crashed"),
)


@dataclass(slots=True)
class Signs:
    """What is shown of one run."""

    step: int = -1
    rows: int = 0
    last_s: float = math.nan  # clock time of the last row, s
    interval_s: float = math.nan  # exponential mean of the times between rows, s
    active: bool = True
    values: dict[str, tuple[float, int]] = field(default_factory=dict)  # gauge -> value and the row it came with
    proven: set[str] = field(default_factory=set)  # metrics that were once anything but 0
    zeros: int = 0  # KL values of 0 that wait for proof that KL is measured
    kl_sums: dict[str, tuple[float, int]] = field(default_factory=dict)  # estimator -> sum and count
    kl_signed: dict[str, tuple[float, int]] = field(default_factory=dict)  # estimator -> value and the row
    held_out: dict[str, tuple[float, int]] = field(default_factory=dict)  # set -> score and its step
    findings: dict[tuple[str, str], int] = field(default_factory=dict)  # check and action -> 1 open, 0 over
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


class Exporter:
    """Keeps the newest numbers of each run and answers Prometheus.

    Args:
        clock: s since the epoch; tests give their own.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: dict[str, Signs] = {}
        self._refused_runs: Counter[str] = Counter()
        self._server: Any = None

    def watch(self, monitor: Monitor) -> None:
        """Show a monitor's run under its name, from now on."""
        monitor.watch(_RunWatcher(self, monitor.name, lambda: monitor.kl_estimator))

    def row(self, run: str, step: int, values: Mapping[str, float], kl_estimator: str = "") -> None:
        """Take one whole row in canonical names; a non-finite value is told by its `nonfinite/<metric>` companion."""
        with self._lock:
            signs = self._of(run)
            if signs is None:
                return
            now = self._clock()
            gap = now - signs.last_s
            if gap >= 0:  # False for the first row and for a clock that was set back
                signs.interval_s = gap if math.isnan(signs.interval_s) else 0.8 * signs.interval_s + 0.2 * gap
            signs.step, signs.rows, signs.last_s, signs.active = step, signs.rows + 1, now, True
            for name, value in values.items():
                if name == "kl_ref":
                    self._kl(signs, value, kl_estimator or names.NO_ESTIMATOR)
                elif name in names.BY_METRIC and self._measured(signs, name, value):
                    signs.values[name] = (value, signs.rows)
                elif name.startswith(NONFINITE_PREFIX) and value:
                    self._broken(signs, name.removeprefix(NONFINITE_PREFIX), kl_estimator or names.NO_ESTIMATOR)

    def held_out(self, run: str, name: str, step: int, score: float) -> None:
        """Take one held-out score of a training step."""
        with self._lock:
            signs = self._of(run)
            if signs is None:
                return
            label = clean(name, MAX_LABEL)
            if not math.isfinite(score):
                signs.refused["held-out score not finite"] += 1
            elif label not in signs.held_out and len(signs.held_out) >= MAX_SETS:
                signs.refused["more held-out sets"] += 1
            else:
                signs.held_out[label] = (score, step)

    def looked(self, run: str, outcomes: Mapping[str, Outcome], open_: Mapping[str, Told]) -> None:
        """Take one look: what is open now, and how many checks could look at all."""
        with self._lock:
            signs = self._of(run)
            if signs is None:
                return
            now = {(check, told.finding.action.value): 1 for check, told in open_.items()}
            signs.findings = dict.fromkeys(signs.findings, 0) | now
            signs.outcomes = Counter(word for o in outcomes.values() for kind, word in OUTCOMES if type(o) is kind)

    def ended(self, run: str) -> None:
        """Mark a run as over: its silence is no fault."""
        with self._lock:
            signs = self._runs.get(clean(run, MAX_LABEL))
            if signs is not None:
                signs.active = False

    def registry(self) -> CollectorRegistry:
        """Return a registry of its own that holds this exporter alone. Raises InputError without prometheus_client."""
        try:
            from prometheus_client import CollectorRegistry
        except ImportError as error:
            hint = "Install it: pip install 'rlvitals[prometheus]'"
            raise InputError(Problem("/metrics needs prometheus_client, which is not installed", hint=hint)) from error
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return registry

    def serve(self, port: int = DEFAULT_PORT, address: str = LOCAL) -> str:
        """Answer on http://address:port/metrics from a thread of its own, and return that address.

        Port 0 takes a free one. Raises InputError when the port is taken or prometheus_client is absent.
        """
        registry = self.registry()
        from prometheus_client import start_http_server

        try:
            self._server, _ = start_http_server(port, address, registry)
        except OSError as error:
            where, why = f"{address}:{port}", error.strerror or str(error)
            raise InputError(Problem("cannot serve /metrics", where, why, hint="Try port=0 for a free one")) from error
        return f"http://{address}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family as it is now; called by prometheus_client for each scrape."""
        from rlvitals.live.prometheus_families import families

        with self._lock:  # a scrape takes about a millisecond per run, a row waits no longer
            found = list(families(self._runs, self._refused_runs))
        yield from found

    def _of(self, run: str) -> Signs | None:
        label = clean(run, MAX_LABEL)
        signs = self._runs.get(label)
        if signs is None:
            if len(self._runs) >= MAX_RUNS:
                self._refused_runs["more runs"] += 1
                return None
            signs = self._runs[label] = Signs()
        return signs

    def _measured(self, signs: Signs, metric: str, value: float) -> bool:
        """True unless the value is a 0 that this trainer may write for what it does not measure."""
        if value != 0:
            signs.proven.add(metric)
            return True
        row = lookup(metric)
        return metric in signs.proven or row is None or not row.zero_may_mean_unmeasured

    def _kl(self, signs: Signs, value: float, estimator: str) -> None:
        known = signs.kl_sums.keys() | signs.kl_signed.keys()
        if estimator not in known and len(known) >= MAX_ESTIMATORS:
            signs.refused["more KL estimators"] += 1
            return
        if not self._measured(signs, "kl_ref", value):
            signs.zeros += 1
            return
        if estimator not in names.NON_NEGATIVE:
            signs.kl_signed[estimator] = (value, signs.rows)
            signs.zeros = 0
            return
        if value < 0:  # no value of this estimator: what was logged is something else, and a sum must not fall
            signs.refused["negative value of a KL estimator that has none"] += 1
            return
        total, count = signs.kl_sums.get(estimator, (0.0, 0))
        signs.kl_sums[estimator] = (total + value, count + 1 + signs.zeros)
        signs.zeros = 0

    def _broken(self, signs: Signs, metric: str, estimator: str) -> None:
        """Show a value that is not finite as NaN; a sum leaves it out, or it would be NaN for ever."""
        if metric in names.BY_METRIC:
            signs.values[metric] = (math.nan, signs.rows)
        elif metric == "kl_ref":
            signs.refused["KL not finite"] += 1
            if estimator in signs.kl_signed:
                signs.kl_signed[estimator] = (math.nan, signs.rows)


class _RunWatcher(Watcher):
    """Hands what one monitor sees to the exporter, with the run's name and the estimator of its KL."""

    def __init__(self, exporter: Exporter, run: str, kl_estimator: Callable[[], str]) -> None:
        self._exporter, self._run, self._kl_estimator = exporter, run, kl_estimator

    def on_row(self, step: int, values: Mapping[str, float]) -> None:
        self._exporter.row(self._run, step, values, self._kl_estimator())

    def on_score(self, name: str, step: int, score: float) -> None:
        self._exporter.held_out(self._run, name, step, score)

    def on_look(self, step: int, outcomes: Mapping[str, Outcome], open_: Mapping[str, Told]) -> None:
        self._exporter.looked(self._run, outcomes, open_)

    def on_close(self) -> None:
        self._exporter.ended(self._run)
