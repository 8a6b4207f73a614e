"""Which series a report draws, and which stretch of steps belongs to which finding."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rlvitals.check import Finding, Onset
from rlvitals.diagnosis import Diagnosis
from rlvitals.metrics import lookup
from rlvitals.schema import Float64, Run

HELD_OUT = "held-out"
USUAL = ("reward_mean", HELD_OUT, "zero_variance_frac", "length_mean", "entropy", "kl_ref", "grad_norm")


@dataclass(frozen=True, slots=True)
class Series:
    """One drawable series: step float64[K], value float64[K], finite values only."""

    metric: str
    step: Float64
    value: Float64
    unit: str
    note: str = ""  # the estimator: what tells it from its namesakes
    stderr: Float64 | None = None  # float64[K], of held-out scores; NaN = unknown

    @property
    def label(self) -> str:
        """The short name beside other series of the same panel: a family's own part, else the metric."""
        return self.metric.split("/", 1)[-1]


class Role(StrEnum):
    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class Stretch:
    """The steps of one finding: `first` is its onset, `last` where it ended or the run stands."""

    id: str
    name: str
    role: Role
    first: int
    onset_last: int  # it had certainly begun by then
    last: int
    metrics: tuple[str, ...]


def series_of(run: Run, metric: str) -> Series | None:
    """Return one series of a run; None when it was not logged or only stands for "not measured"."""
    if metric.startswith(HELD_OUT):
        return _held_out(run, metric)
    if not run.has(metric):
        return None
    value = run.columns[metric]
    keep = np.isfinite(value)
    known, found = lookup(metric), run.provenance.get(metric)
    unit = (found.unit if found is not None else "") or (known.unit if known is not None else "")
    note = found.estimator if found is not None else ""
    return Series(metric, run.step[keep].astype(float), value[keep], unit, note)


def _held_out(run: Run, metric: str) -> Series | None:
    """Return the named held-out set, or for the bare word the one with the most evaluations."""
    name = metric[len(HELD_OUT) :].lstrip("/:")
    chosen = run.evals.get(name) or max(run.evals.values(), key=lambda e: e.step.size, default=None)
    if chosen is None:
        return None
    keep = np.isfinite(chosen.score)
    if not keep.any():
        return None
    return Series(
        f"{HELD_OUT}/{chosen.name}",
        chosen.step[keep].astype(float),
        chosen.score[keep],
        chosen.metric,
        stderr=chosen.stderr[keep],
    )


def stretches(d: Diagnosis) -> tuple[Stretch, ...]:
    """Return the steps of every cause, consequence and recovered incident, in the order of the diagnosis."""
    now = d.position.last_step
    out = []
    for cause in d.causes:
        out.append(_stretch(cause.id, cause.name, Role.CAUSE, cause.finding, now))
        out += [_stretch(k.id, k.name, Role.CONSEQUENCE, k.finding, now) for k in cause.consequences]
    for i in d.incidents:
        end = i.closed if i.closed is not None else now
        out.append(_stretch(i.check, i.check, Role.RECOVERED, i.finding, end, i.onset))
    return tuple(out)


def _stretch(id: str, name: str, role: Role, f: Finding, last: int, onset: Onset | None = None) -> Stretch:
    at = f.onset if onset is None else onset
    end = max(last, at.first)
    return Stretch(id, name, role, at.first, min(at.last, end), end, tuple(dict.fromkeys(e.metric for e in f.evidence)))


def involved(d: Diagnosis, most: int) -> tuple[str, ...]:
    """Return the metrics that the findings speak of, then the usual vital signs, at most `most`."""
    spoken = [m for s in stretches(d) for m in s.metrics]
    names = dict.fromkeys([*spoken, *USUAL] if not spoken else [*spoken, "reward_mean", HELD_OUT])
    return tuple(names)[:most]


def drawn(d: Diagnosis, most: int) -> list[Series]:
    """Return the involved series that have something to draw, each once: "held-out" alone may be a set named before."""
    if d.run is None:
        return []
    found = [s for s in (series_of(d.run, m) for m in involved(d, most)) if s is not None and s.value.size > 1]
    return list({s.metric: s for s in found}.values())


def incident_of(d: Diagnosis, metric: str) -> tuple[int, int] | None:
    """Return the steps of the first finding that speaks of a metric."""
    for s in stretches(d):
        if metric in s.metrics or (metric.startswith(HELD_OUT) and any(m.startswith(HELD_OUT) for m in s.metrics)):
            return s.first, s.last
    return None
