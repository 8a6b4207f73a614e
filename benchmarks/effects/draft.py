"""A simulated healthy run that an effect may change from its onset on, and what effects are made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.fault_series import PHIS, coloured
from benchmarks.simulate import Spec, draw_groups, healthy, pass_rate
from rlvitals.schema import Evals, Event, Float64, Int64, RunConfig, Segment

ONSET = (0.25, 0.6)  # share of the rows at which an effect begins
ODDS_NOISE = 0.15  # standard deviation of the drift of a share, in log-odds
SMOOTH = 41  # rows of the running median that stands for the level of a noisy series
TINY = 1e-9


class NoRoom(Exception):
    """The effect cannot be put into this run: no held-out set, or no room above or below."""


@dataclass
class Draft:
    """A healthy run with every column logged; an effect changes the rows from `at` on.

    Attributes:
        at: row of the onset; an effect that is there from the first step sets it to 0.
        rate: float64[N], the true pass rate; weight: what the format part adds to the reward.
    """

    spec: Spec
    rng: np.random.Generator
    at: int
    step: Int64
    columns: dict[str, Float64]
    config: RunConfig
    evals: dict[str, Evals]
    rate: Float64
    weight: float
    segments: tuple[Segment, ...] = ()
    events: tuple[Event, ...] = field(default=())

    @property
    def rows(self) -> int:
        return int(self.step.size)

    @property
    def rollouts(self) -> int:
        """Rollouts of one step."""
        return self.spec.prompts * self.spec.group

    def copy(self, salt: int) -> Draft:
        """Return a draft of the same run with its own random numbers."""
        rng = np.random.default_rng([self.spec.seed, salt])
        return replace(self, rng=rng, columns={n: c.copy() for n, c in self.columns.items()}, evals=dict(self.evals))

    def configure(self, **known: object) -> None:
        self.config = replace(self.config, **known)  # type: ignore[arg-type]


def draft(spec: Spec) -> Draft:
    """Return the healthy run of a specification, in the layout that logs everything, with a random onset."""
    spec = replace(spec, layout="full")
    run = healthy(spec)
    rng = np.random.default_rng([spec.seed, 78])
    columns = {name: np.array(column) for name, column in run.columns.items()}
    extra = columns["reward_mean"] - columns["reward_part/correct"]
    weight = float((extra / np.maximum(columns["reward_part/format"], TINY)).max())
    rate = pass_rate(spec, np.random.default_rng([spec.seed, 77]))
    at = int(run.rows * rng.uniform(*ONSET))
    return Draft(spec, rng, at, run.step.copy(), columns, run.config, dict(run.evals), rate, weight)


def ramp(d: Draft, over: int = 1) -> Float64:
    """Return float64[N]: 0 before the onset, then up to 1 within `over` rows."""
    return np.clip((np.arange(d.rows) - d.at + 1) / over, 0.0, 1.0)


def to_end(d: Draft) -> Float64:
    """Return float64[N]: 0 before the onset, then up to 1 at the last row."""
    return ramp(d, d.rows - d.at)


def level(values: Float64) -> Float64:
    """Return the running median over SMOOTH values, float64[N]."""
    padded = np.pad(values, SMOOTH // 2, mode="reflect")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, SMOOTH), axis=1))


def steer(d: Draft, name: str, target: float | Float64, over: int = 1) -> None:
    """Bring a positive series from its level to a target within `over` rows from the onset; its noise stays."""
    logs = np.log(np.maximum(d.columns[name], TINY))
    moved = np.exp(logs + ramp(d, over) * (np.log(target) - level(logs)))
    d.columns[name][d.at :] = moved[d.at :]


def start(d: Draft, name: str, rows: int = 20) -> float:
    """Return the median of the first rows."""
    return float(np.median(d.columns[name][:rows]))


def here(d: Draft, name: str) -> float:
    """Return the median of the rows up to the onset."""
    return float(np.median(d.columns[name][max(d.at - SMOOTH, 0) : d.at + 1]))


def drift(d: Draft) -> Float64:
    """Return float64[N] of autocorrelated noise with unit variance."""
    return coloured(d.rng, d.rows, float(d.rng.choice(PHIS)))


def shares(d: Draft, rate: float | Float64, of: int | None = None) -> Float64:
    """Return float64[N]: shares of `of` rollouts (those of a step) at a rate that drifts, AR(1) in log-odds."""
    p = np.clip(np.broadcast_to(rate, d.rows), 1e-6, 1 - 1e-6)
    odds = np.log(p / (1 - p)) + ODDS_NOISE * drift(d)
    n = of or d.rollouts
    return np.asarray(d.rng.binomial(n, 1 / (1 + np.exp(-odds))) / n)


def between(d: Draft, before: float, after: float, over: int = 1) -> Float64:
    """Return float64[N]: one value before the onset, another within `over` rows after it."""
    return before + (after - before) * ramp(d, over)


def replay(d: Draft, rate: Float64, *, weight: float | None = None) -> None:
    """Draw the groups anew from the onset on, at another true pass rate (float64[N]); all group statistics follow.

    `weight` replaces that of the format part, in all rows.
    """
    rng = np.random.default_rng([d.spec.seed, 77])
    pass_rate(d.spec, rng)  # so that difficulty and drift are those of the healthy run
    _, found = draw_groups(d.spec, np.clip(rate, 0.0, 1.0), rng)
    if weight is not None:
        d.columns["reward_max"] += weight - d.weight
        d.weight = weight
    found["reward_max"] = found["reward_max"] + d.weight
    for name, column in found.items():
        d.columns[name][d.at :] = column[d.at :]
    d.columns["reward_mean"] = d.columns["reward_part/correct"] + d.weight * d.columns["reward_part/format"]


def standing(d: Draft) -> Float64:
    """Return the pass rate as it is, held at its value of the onset from there on, float64[N]."""
    return np.where(np.arange(d.rows) < d.at, d.rate, d.rate[d.at])
