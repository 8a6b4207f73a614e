"""Two runs side by side: where they part and in what first, what their configs and findings differ in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlvitals import onsets, stats
from rlvitals.diagnosis import Diagnosis
from rlvitals.metrics import lookup
from rlvitals.schema import NONFINITE_PREFIX, Float64, Int64, Run

PAIRED_CORRELATION = 0.5  # of two runs' rewards step by step; runs on the same prompts in the same order show 0.7-0.9
PAIRED_STEPS = 30  # common steps from which pairing is judged
PART_Z = 3.3  # of a difference that has parted; two-sided 0.001, as many metrics are looked at
WIDTH = 10  # steps whose mean difference is compared (convention)
TOO_FEW = -2  # common values to say since when a difference lasts
UNTIMELY = ("step_time_s", "tokens_per_s", "tokens_per_sec", "memory", "time", "throughput", "num_tokens", "epoch")


@dataclass(frozen=True, slots=True)
class Parting:
    """One metric that two runs part in.

    Attributes:
        first: first step at which the logged values differ at all; -1 when every common value is the same.
        lasting: first step from which the difference lasts beyond its noise; -1 when it never does, and TOO_FEW where
            fewer than 2 x WIDTH common values leave that open.
        before, after: the two runs' levels over the last stretch.
    """

    metric: str
    unit: str
    first: int
    lasting: int
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class Setting:
    """A config field that differs; "unknown" where a run does not say."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of a - b over the last third of the common steps, with its 95% interval under autocorrelated noise."""

    metric: str
    paired: bool
    why: str
    difference: float
    low: float
    high: float
    steps: int


@dataclass(frozen=True, slots=True)
class Pair:
    """What two runs have in common and what not."""

    a: str
    b: str
    common_steps: int
    partings: tuple[Parting, ...]
    settings: tuple[Setting, ...]
    differences: tuple[PairedDifference, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]
    same: tuple[str, ...]


def compare(a: Run, b: Run, first: Diagnosis, second: Diagnosis) -> Pair:
    """Compare run `b` with run `a`; findings are new, gone or same as seen from `a`."""
    steps, at_a, at_b = np.intersect1d(a.step, b.step, return_indices=True)
    found_a, found_b = _findings(first), _findings(second)
    paired, why = _paired(a, b, at_a, at_b)
    partings = [
        p
        for name in a.columns
        if name in b.columns and not name.startswith(NONFINITE_PREFIX) and not any(w in name for w in UNTIMELY)
        for p in [_parting(name, steps, a.columns[name][at_a], b.columns[name][at_b])]
        if p.first >= 0
    ]
    partings.sort(key=lambda p: (p.lasting < 0, p.lasting if p.lasting >= 0 else p.first, p.first, p.metric))
    return Pair(
        a.name,
        b.name,
        int(steps.size),
        tuple(partings),
        _settings(a, b),
        tuple(
            _difference(name, a.columns[name][at_a], b.columns[name][at_b], paired, why)
            for name in ("reward_mean", "success_frac", "length_mean", "entropy")
            if name in a.columns and name in b.columns and steps.size
        ),
        tuple(n for n in found_b if n not in found_a),
        tuple(n for n in found_a if n not in found_b),
        tuple(n for n in found_a if n in found_b),
    )


def _findings(diagnosis: Diagnosis) -> tuple[str, ...]:
    out = []
    for cause in diagnosis.causes:
        out.append(f"{cause.id} {cause.name}")
        out += [f"{c.id} {c.name}" for c in cause.consequences]
    return tuple(out)


def _paired(a: Run, b: Run, at_a: Int64, at_b: Int64) -> tuple[bool, str]:
    """Say whether step k of both runs saw the same prompts, judged from how their rewards move together.

    The trend is taken out first: two runs that both learn are not paired by that.
    """
    if "reward_mean" not in a.columns or "reward_mean" not in b.columns or at_a.size < PAIRED_STEPS:
        return False, f"{at_a.size} common steps with a reward; pairing is judged from {PAIRED_STEPS} on"
    x, y = np.diff(a.columns["reward_mean"][at_a]), np.diff(b.columns["reward_mean"][at_b])
    keep = np.isfinite(x) & np.isfinite(y)
    if keep.sum() < PAIRED_STEPS or x[keep].std() == 0 or y[keep].std() == 0:
        return False, "too few steps on which both rewards move"
    r = float(np.corrcoef(x[keep], y[keep])[0, 1])
    known = f"the rewards move together from step to step (correlation {r:.2f})"
    apart = f"the rewards do not move together from step to step (correlation {r:.2f})"
    return (True, known) if r >= PAIRED_CORRELATION else (False, apart)


def _parting(name: str, steps: Int64, a: Float64, b: Float64) -> Parting:
    known = np.isfinite(a) & np.isfinite(b)
    at, gap = steps[known], a[known] - b[known]
    info = lookup(name)
    unit = info.unit if info is not None else ""
    apart = np.flatnonzero(gap != 0)
    if apart.size == 0:
        return Parting(name, unit, -1, -1, math.nan, math.nan)
    tail = slice(-max(min(WIDTH, gap.size), 1), None)
    levels = float(a[known][tail].mean()), float(b[known][tail].mean())
    return Parting(name, unit, int(at[apart[0]]), _lasting(at, gap), *levels)


def _lasting(at: Int64, gap: Float64) -> int:
    """Return the step from which the mean difference of `WIDTH` rows stays beyond its noise, -1 when it does not.

    TOO_FEW where there are not enough rows to tell.
    """
    if gap.size < 2 * WIDTH:
        return TOO_FEW
    mean = stats.running_means(gap, WIDTH)
    noise = stats.noise_sd(gap)
    if not math.isfinite(noise) or noise == 0:
        noise = float(np.std(np.diff(gap)) / math.sqrt(2))
    limit = PART_Z * noise * math.sqrt(stats.inflation(np.arange(gap.size, dtype=float), gap) / WIDTH)
    for sign in (1.0, -1.0):
        first = onsets.first_lasting(np.arange(mean.size, dtype=float), sign * mean > limit)
        if first is not None:  # a window of rows: within it, since the first that differs that way
            return int(at[first + int(np.argmax(sign * gap[first : first + WIDTH] > 0))])
    return -1


def _settings(a: Run, b: Run) -> tuple[Setting, ...]:
    first, second = a.config.known(), b.config.known()
    first |= {f"version of {k}": v for k, v in a.config.versions.items()}
    second |= {f"version of {k}": v for k, v in b.config.versions.items()}
    if a.trainer.name != b.trainer.name:
        first["trainer"], second["trainer"] = a.trainer.name, b.trainer.name
    names = dict.fromkeys((*first, *second))
    return tuple(
        Setting(n, str(first.get(n, "unknown")), str(second.get(n, "unknown")))
        for n in names
        if first.get(n) != second.get(n)
    )


def _difference(name: str, a: Float64, b: Float64, paired: bool, why: str) -> PairedDifference:
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    part = slice(-max(a.size // 3, min(a.size, WIDTH)), None)
    if a.size < 2:
        return PairedDifference(name, paired, why, math.nan, -math.inf, math.inf, int(a.size))
    if paired:
        m = stats.moments((a - b)[part])
        half = 1.96 * math.sqrt(m.error2)
        return PairedDifference(name, True, why, m.mean, m.mean - half, m.mean + half, m.n)
    change = stats.change(b[part], a[part])
    return PairedDifference(name, False, why, change.difference, change.low, change.high, int(a[part].size))
