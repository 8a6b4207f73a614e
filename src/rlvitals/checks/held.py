"""Held-out scores against each other and against the training reward: errors, drops, and how much was transferred.

Shared by the held-out checks; nothing here decides. Per-item results are rarely logged, so the errors are those of
unpaired scores: wider than paired ones, never narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlvitals import onsets, stats
from rlvitals.checks.course import chosen_z
from rlvitals.checks.reward_parts import split
from rlvitals.checks.scale import Scale, reward_scale
from rlvitals.schema import Float64
from rlvitals.view import Held, View

MIN_EVALS = 3
FOR_NOISE = 5  # scores from which their own noise is estimated where no error is known
LEAST_ERROR = 0.01  # of an accuracy, believed of so few scores: as 2500 items have (convention)
MOST_APPARENT = 64  # items: the error of more is near what differences show
DECIMALS = 6  # beyond which scores are taken as unrounded
BY_CHANCE = 0.02  # (convention; a wrong guess widens an error, no more)
BEYOND = 0.01  # of a known range: rounding of logged means (convention)
WANDER_LAG, WANDER_SCORES = 4, 16  # evaluations between two scores that are compared; scores that this needs
FEW = 4.0  # widening of an error estimated from K differences: (1 + 4 / K), as Student's t asks for
ONE_LARGE = 6  # scores from which the largest difference is left out of their noise
LEFT_OUT = 3.0  # further widening, (4 + 3) / K, for that (docs/measurements.md: Unseen TRL runs)
NEWEST = 3  # scores that the first one is held against
LEAST_ENDS = 5  # logged values at either end, at least
MAX_PART = 48  # logged values at either end of a stretch that its gain is taken from
MAX_STARTS = 8  # stretches compared per held-out set, spread evenly over where they may begin


def known_errors(held: Held) -> Float64:
    """Return the known standard error of each score: logged, else binomial from the items; NaN where neither is."""
    known = held.stderr.copy()
    fraction = (held.score >= 0) & (held.score <= 1)
    if held.items > 0 and held.metric == "accuracy":
        known = np.where(np.isfinite(known) | ~fraction, known, _binomial(held.score, held.items))
    return np.asarray(known)


def _binomial(score: Float64, items: int) -> Float64:
    """Return the standard error of each share of so many items, never 0 at a score of 0 or 1."""
    p = (np.clip(score, 0.0, 1.0) * items + 1) / (items + 2)
    return np.asarray(np.sqrt(p * (1 - p) / items))


def apparent_items(score: Float64) -> int:
    """Return the number of items that scores look to be shares of, 0 where they look like shares of many.

    One item of twenty is 0.05: where all scores are multiples of that, and their decimals would allow others, they are
    means of few items. A hit by chance is less likely than BY_CHANCE: each different score would have to fall on the
    grid by itself.
    """
    inside = np.unique(score[(score > 0) & (score < 1)])
    if inside.size == 0 or np.any((score < 0) | (score > 1)):
        return 0
    rounded = (d for d in range(2, DECIMALS) if np.allclose(inside, np.round(inside, d), rtol=0, atol=1e-9))
    finest = 10.0 ** -next(rounded, DECIMALS)
    for items in range(2, MOST_APPARENT + 1):
        away = np.abs(inside * items - np.round(inside * items)) / items
        if np.all(away <= finest / 2) and (items * finest) ** inside.size < BY_CHANCE:
            return items
    return 0


def errors(held: Held) -> Float64:
    """Return the standard error of each score: the known one, else from differences and the items they look to be of.

    NaN where neither is possible (fewer than FOR_NOISE scores and nothing else known).
    """
    known = known_errors(held)
    if held.score.size >= FOR_NOISE:
        least = np.full(held.score.size, LEAST_ERROR if held.metric == "accuracy" else 0.0)
        items = apparent_items(held.score) if held.metric == "accuracy" else 0
        if items:
            least = np.maximum(least, _binomial(held.score, items))
        known = np.where(np.isfinite(known), known, np.maximum(_spread(held.score), least))
    return np.asarray(known)


def _spread(score: Float64) -> float:
    """Return the noise of scores from their successive differences, from 6 scores on without the largest if less.

    The largest difference may be the very fall, or the first rise, that the noise is wanted for.
    """
    steps, size = np.diff(score), score.size
    typical = 1.4826 * stats.median(np.abs(steps))
    spread = max(float(np.std(steps)), typical) * (1 + FEW / size)
    if size >= ONE_LARGE:
        rest = np.delete(steps, np.argmax(np.abs(steps)))
        spread = min(spread, max(float(np.std(rest)), typical) * (1 + (FEW + LEFT_OUT) / size))
    return spread / math.sqrt(2)


def wander(score: Float64) -> float:
    """Return how far scores WANDER_LAG evaluations apart differ beside their trend, as the error of one score.

    A policy that is trained on small batches swings slowly about its level: real, common to neighbouring scores, and no
    decline. 0 for fewer than WANDER_SCORES scores.
    """
    if score.size < WANDER_SCORES:
        return 0.0
    apart = score[WANDER_LAG:] - score[:-WANDER_LAG]
    return 1.4826 * stats.median(np.abs(apart - stats.median(apart))) / math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Drop:
    """The best two evaluations in a row against the last two or three; z is NaN when errors are unknown."""

    best: float
    last: float
    best_step: int
    first_low_step: int  # step from which scores stay more than one standard error below the best pair
    z: float


def drop(held: Held) -> Drop | None:
    """Return the clearest drop from the best pair of evaluations to the last two or three, None under 4 scores."""
    y, se = held.score, errors(held)
    if y.size < 4:
        return None
    found: Drop | None = None
    for late in (2, 3):
        end = y.size - late
        if end < 2:
            continue
        pairs = 0.5 * (y[: end - 1] + y[1:end])
        at = int(np.argmax(pairs))
        before, after = float(pairs[at]), float(y[end:].mean())
        swing = wander(y[:end])
        error = math.sqrt(float((se[at : at + 2] ** 2).sum()) / 4 + float((se[end:] ** 2).sum()) / late**2)
        error = max(error, math.sqrt(2) * swing)  # neighbouring scores share the swing: no mean takes it away
        z = chosen_z(before - after, error, end) if error > 0 else math.nan
        low = y < before - error  # lasting from here on, so that the fall began between the best pair and this one
        inside = bool(low[at + 1])  # the pair's own second score is down already: a fall right after the first one
        top = at if inside else at + 1
        first = onsets.first_lasting(held.step[top + 1 :].astype(float), low[top + 1 :])
        began = top + 1 + first if first is not None else end
        candidate = Drop(before, after, int(held.step[top]), int(held.step[min(began, end)]), z)
        if found is None or (math.isfinite(z) and not (math.isfinite(found.z) and found.z >= z)):
            found = candidate
    return found


@dataclass(frozen=True, slots=True)
class Climb:
    """The first evaluation against the mean of the newest ones; `error` and `fallen` are NaN where errors are unknown.

    Attributes:
        fallen: how surely the score has left its best pair since, in standard errors (`drop`).
    """

    before: float
    now: float
    error: float
    fallen: float

    def beyond(self, z: float, least: float = 0.0) -> bool:
        """True when the score surely rose by more than `least`; never where its error is unknown."""
        return self.now - self.before - z * self.error > least


def climb(held: Held) -> Climb | None:
    """Return how far a held-out score rose since its first evaluation, None for fewer than MIN_EVALS scores."""
    size, fall = held.score.size, drop(held)
    if size < MIN_EVALS:
        return None
    newest = slice(-min(NEWEST, size - 1), None)
    error = errors(held)
    late = math.sqrt(float((error[newest] ** 2).sum())) / error[newest].size
    return Climb(
        float(held.score[0]),
        float(held.score[newest].mean()),
        math.hypot(float(error[0]), late),
        fall.z if fall is not None else math.nan,
    )


@dataclass(frozen=True, slots=True)
class Transfer:
    """Gains over the same steps, as shares of their ranges, with bounds at the z asked for."""

    first: int
    last: int
    evals: int
    train: float
    train_low: float
    held: float
    held_high: float
    scale: Scale

    def below(self, ratio: float, least: float) -> bool:
        """True when training gained more than `least` and held-out less than `ratio` of it."""
        return self.train_low > least and self.held_high < ratio * self.train_low


def trained_on(view: View, name: str) -> str:
    """Return what a held-out series has to follow: the total, or for a part that is not the task its own training part.

    A format that is at its maximum on both sides can't follow a total that rises with correctness.
    """
    twin = f"reward_part/{name}"
    own = view.has(twin, 2 * LEAST_ENDS) and twin not in split(view).truth
    return twin if own else "reward_mean"


def transfers(view: View, held: Held, *, z: float, metric: str = "reward_mean") -> tuple[Transfer, ...]:
    """Return the gains over every stretch of at least 3 evaluations that ends with the last one.

    A reward whose range is only known from step means is compared with no held-out gain at all (see `train_share`).
    """
    return view.cached(("transfers", id(held), z, metric), lambda: _transfers(view, held, z, metric))


def _transfers(view: View, held: Held, z: float, metric: str) -> tuple[Transfer, ...]:
    scale, se = reward_scale(view), errors(held)
    unit = 1.0 if held.metric == "accuracy" else scale.span
    out = []
    starts = np.linspace(0, held.step.size - MIN_EVALS, MAX_STARTS).astype(int).tolist()
    for i in sorted(set(starts)) if held.step.size >= MIN_EVALS else ():
        t, y, e = held.step[i:].astype(float), held.score[i:], se[i:]
        if not np.isfinite(e).all() or t[0] == t[-1] or unit <= 0 or scale.span <= 0:
            continue
        train = train_gain(view, float(t[0]), float(t[-1]), z, metric)
        if train is None or (scale.known and _outside(train, scale)):
            continue  # the reward was rescaled on the way
        centred = t - t.mean()
        power = float((centred**2).sum())
        span = float(t[-1] - t[0])
        gain = float((centred * y).sum()) / power * span
        error = math.sqrt(float((centred**2 * e**2).sum())) / power * span
        share = train_share(scale)
        out.append(
            Transfer(
                int(t[0]),
                int(t[-1]),
                int(t.size),
                train.difference / scale.span,
                train.low / scale.span * share,
                gain / unit,
                (gain + z * error) / unit,
                scale,
            )
        )
    return tuple(out)


def _outside(train: stats.Change, scale: Scale) -> bool:
    """Return True when a mean of rewards lies beyond the range that the rewards are said to have."""
    slack = BEYOND * scale.span
    return not all(scale.low - slack <= mean <= scale.high + slack for mean in (train.early, train.late))


def train_share(scale: Scale) -> float:
    """Return 1 for a range that is known or seen in single rollouts, else 0.2: step means understate the range."""
    return 1.0 if scale.known or scale.source.startswith("single") else 0.2


def train_gain(view: View, first: float, last: float, z: float, metric: str = "reward_mean") -> stats.Change | None:
    """Return the change of a training metric between two steps (end sixths), None for fewer than 10 points."""
    ends = view.cached(("train ends", first, last, metric), lambda: _ends(view, first, last, metric))
    return None if ends is None else stats.change_of(*ends, z=z)


def _ends(view: View, first: float, last: float, metric: str) -> tuple[stats.Moments, stats.Moments] | None:
    trace = view.trace(metric)
    inside = trace.value[(trace.step >= first) & (trace.step <= last)]
    part = max(inside.size // 6, LEAST_ENDS)
    if inside.size < 2 * part:
        return None
    early, late = inside[:part], inside[-part:]
    if part > MAX_PART:
        early, late = early[-MAX_PART:], late[-MAX_PART:]
    return stats.moments(early), stats.moments(late)
