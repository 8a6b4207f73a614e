"""Effects for the checks of data hygiene (D) and of sampler and trainer (Y)."""

from __future__ import annotations

import numpy as np

from benchmarks.effects.draft import Draft, drift, here, ramp, start, steer, to_end
from rlvitals.schema import NONFINITE_PREFIX, Segment


def nonfinite(d: Draft, rows: int) -> None:
    """The gradient norm is NaN in a number of rows."""
    hit = np.zeros(d.rows)
    hit[d.at : d.at + rows] = 1.0
    d.columns["grad_norm"][hit == 1.0] = np.nan
    d.columns[f"{NONFINITE_PREFIX}grad_norm"] = hit


def rewind(d: Draft, back: int) -> None:
    """The run is resumed `back` steps earlier."""
    resumed = int(d.step[d.at])
    d.segments = (Segment(resumed, resumed + back - 1, back, resumed),)


def gap(d: Draft, rows: int) -> None:
    """Rows are missing."""
    keep = np.ones(d.rows, dtype=bool)
    keep[d.at : d.at + rows] = False
    d.step = d.step[keep]
    d.columns = {name: column[keep] for name, column in d.columns.items()}


def vanished(d: Draft) -> None:
    """The gradient norm is logged no more."""
    d.columns["grad_norm"][d.at :] = np.nan


def rescaled(d: Draft, factor: float) -> None:
    """Every reward is multiplied."""
    for name in ("reward_mean", "reward_std", "reward_max", "reward_min"):
        d.columns[name][d.at :] *= factor


def placeholder(d: Draft) -> None:
    """The entropy is 0 in every row."""
    d.at = 0
    d.columns["entropy"][:] = 0.0


def rate_zero(d: Draft) -> None:
    """The learning rate is 0."""
    d.columns["learning_rate"][d.at :] = 0.0


def outside_history(d: Draft, share: float) -> None:
    """The band of three healthy runs is the run's own level plus and minus a share; from the onset on it is left."""
    level = d.columns["length_mean"].copy()
    smooth = np.convolve(np.pad(level, 10, mode="edge"), np.full(21, 1 / 21), mode="valid")
    d.columns["baseline_low/length_mean"], d.columns["baseline_high/length_mean"] = 0.8 * smooth, 1.2 * smooth
    d.columns["baseline_runs"] = np.full(d.rows, 3.0)
    d.columns["length_mean"][d.at :] *= 1 + share


GAP, ALONG = "logprob_gap_mean", "prob_gap_mean"


def _gap_to(d: Draft, factor: np.ndarray | float, least: np.ndarray | float, over: int = 1) -> None:
    base = here(d, GAP)
    target = np.maximum(base * np.asarray(factor), np.asarray(least))
    along = here(d, ALONG) * target / base
    steer(d, GAP, target, over)
    steer(d, ALONG, np.minimum(along, 0.0099), over)  # below its own limit: the one metric is measured


def gap_jump(d: Draft, factor: float) -> None:
    """The log-probability gap jumps to a multiple of its level, at least 0.05 nats."""
    _gap_to(d, factor, 0.05)


def gap_first_update(d: Draft, factor: float) -> None:
    """The same with the first weight update."""
    d.at = 1
    first = d.columns[GAP][0]
    noise = np.exp(0.1 * drift(d))
    d.columns[GAP][1:] = (max(factor * first, 0.05) * noise)[1:]


def gap_level(d: Draft, nats: float) -> None:
    """The log-probability gap is at a level."""
    steer(d, GAP, nats)


def gap_ramp(d: Draft, factor: float, least: float, *, from_start: bool) -> None:
    """The gap grows in line from the onset to the last row."""
    d.at = 0 if from_start else d.at
    begin = here(d, GAP)
    end = max(factor * start(d, GAP), least)
    steer(d, GAP, begin + (end - begin) * to_end(d))


def lag(d: Draft, versions: float) -> None:
    """The largest age of a step's rollouts."""
    d.columns["version_lag_max"][d.at :] = versions


def stuck(d: Draft) -> None:
    """The sampler stands still: its rollouts get one version older with every step."""
    age = np.maximum(np.arange(d.rows) - d.at + 1, 0.0)
    d.columns["version_lag_max"] = age
    d.columns["version_lag_mean"] = age * ramp(d)
