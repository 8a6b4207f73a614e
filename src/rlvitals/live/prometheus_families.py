"""The metric families of /metrics, made from what the exporter holds at the moment of a scrape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

from rlvitals.report import prometheus_names as names

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from rlvitals.live.prometheus import Signs

NO_RUN = ""  # label of what belongs to no run that is shown
STALE_AFTER = 50  # rows without a value before a gauge is withdrawn: an old value is not a measurement (convention)


def families(runs: Mapping[str, Signs], refused_runs: Counter[str]) -> Iterator[Metric]:
    """Yield every family; one without a sample is left out: missing is not zero."""
    for family in (
        *_gauges(runs),
        *_kl(runs),
        *_held_out(runs),
        *_diagnosis(runs),
        *_progress(runs),
        _refused(runs, refused_runs),
    ):
        if family.samples:
            yield family


def _gauges(runs: Mapping[str, Signs]) -> Iterator[GaugeMetricFamily]:
    for gauge in names.GAUGES:
        family = GaugeMetricFamily(gauge.name, gauge.help, labels=("run",))
        for run, signs in runs.items():
            value, at = signs.values.get(gauge.metric, (0.0, -STALE_AFTER))
            if signs.rows - at < STALE_AFTER:
                family.add_metric((run,), value)
        yield family


def _kl(runs: Mapping[str, Signs]) -> Iterator[Metric]:
    sums = SummaryMetricFamily(
        names.KL_SUMMARY,
        "Logged KL to the reference, of estimators that cannot be negative. Unit: as logged, mostly nats/token.",
        labels=("run", "estimator"),
    )
    signed = GaugeMetricFamily(
        names.KL_SIGNED,
        "Logged KL to the reference, of estimators that can be negative or are not known. Unit: as logged.",
        labels=("run", "estimator"),
    )
    for run, signs in runs.items():
        for estimator, (total, count) in signs.kl_sums.items():
            sums.add_metric((run, estimator), count, total)
        for estimator, (value, at) in signs.kl_signed.items():
            if signs.rows - at < STALE_AFTER:
                signed.add_metric((run, estimator), value)
    yield sums
    yield signed


def _held_out(runs: Mapping[str, Signs]) -> Iterator[GaugeMetricFamily]:
    score = GaugeMetricFamily(names.HELD_OUT, "Newest score of a held-out set.", labels=("run", "set"))
    step = GaugeMetricFamily(names.HELD_OUT_STEP, "Training step of that score.", labels=("run", "set"))
    for run, signs in runs.items():
        for name, (value, at) in signs.held_out.items():
            score.add_metric((run, name), value)
            step.add_metric((run, name), at)
    yield score
    yield step


def _diagnosis(runs: Mapping[str, Signs]) -> Iterator[GaugeMetricFamily]:
    finding = GaugeMetricFamily(
        names.FINDING,
        "1 while the check finds its fault and asks for the action, 0 once that is over.",
        labels=("run", "check", "action"),
    )
    checks = GaugeMetricFamily(
        names.CHECKS, "Checks by what they answered at the last look: few that could look is no health.",
        labels=("run", "outcome"),
    )  # fmt: skip
    for run, signs in runs.items():
        for (check, action), is_open in sorted(signs.findings.items()):
            finding.add_metric((run, check, action), is_open)
        for outcome, count in sorted(signs.outcomes.items()):
            checks.add_metric((run, outcome), count)
    yield finding
    yield checks


def _progress(runs: Mapping[str, Signs]) -> Iterator[Metric]:
    step = GaugeMetricFamily(names.STEP, "Training step of the last row.", labels=("run",))
    rows = CounterMetricFamily(names.ROWS, "Rows logged since this process began.", labels=("run",))
    last = GaugeMetricFamily(names.LAST_ROW, "When the last row was logged, s since the epoch.", labels=("run",))
    interval = GaugeMetricFamily(names.INTERVAL, "Usual time between two rows, s.", labels=("run",))
    active = GaugeMetricFamily(names.ACTIVE, "1 while the run goes on, 0 once it said that it ended.", labels=("run",))
    for run, signs in runs.items():
        if signs.rows:
            step.add_metric((run,), signs.step)
            rows.add_metric((run,), signs.rows)
            last.add_metric((run,), signs.last_s)
        if not math.isnan(signs.interval_s):
            interval.add_metric((run,), signs.interval_s)
        active.add_metric((run,), int(signs.active))
    yield from (step, rows, last, interval, active)


def _refused(runs: Mapping[str, Signs], refused_runs: Counter[str]) -> CounterMetricFamily:
    family = CounterMetricFamily(
        names.REFUSED, "Values that are not shown, by reason; nothing is dropped without a count.",
        labels=("run", "reason"),
    )  # fmt: skip
    for reason, count in sorted(refused_runs.items()):
        family.add_metric((NO_RUN, reason), count)
    for run, signs in runs.items():
        for reason, count in sorted(signs.refused.items()):
            family.add_metric((run, reason), count)
    return family
