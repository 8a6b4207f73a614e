"""The four verification items of the health-check runbook, each with its number, its band and where that comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rlvitals import shares, stats
from rlvitals.check import SourceKind, Threshold
from rlvitals.checks.common import fmt
from rlvitals.checks.held import known_errors
from rlvitals.checks.signal_common import TIED_STD, tied_groups
from rlvitals.schema import Float64, Int64
from rlvitals.view import Held, View

RUNBOOK = "GRPO health-check runbook, Verification"
MIN_ROWS = 20  # rows after the fix below which nothing is settled (docs/design.md, "From outcomes to one answer")
NO_BASELINE = 0.9  # a run whose groups were nearly all tied from the start has no healthy start to compare with
MIN_EVALS = 3  # held-out scores after the fix from which a direction can be told

MOST_GROUPS = Threshold("most_groups", 0.5, "fraction", SourceKind.DEFINITION, RUNBOOK)
MATERIAL_SHARE = Threshold("material_share", 0.5, "of the early baseline", SourceKind.CONVENTION, RUNBOOK)
SHARP_FALL = Threshold("sharp_fall", 0.5, "fraction lost within the window", SourceKind.CONVENTION, RUNBOOK)
OWN_BAND = Threshold("own_band", 2.0, "times this run's own band, either way", SourceKind.CONVENTION, RUNBOOK)
SMALL_KL = Threshold("small_kl", 0.15, "nats/token", SourceKind.MEASURED, "docs/measurements.md: Verifying a fix")
FAR_KL = Threshold(
    "far_kl", 0.65, "nats/token", SourceKind.MEASURED, "docs/measurements.md: KL levels (healthy up to 0.65)"
)
STEADY_GROWTH = Threshold("steady_growth", 1.5, "times, last against first half", SourceKind.CONVENTION, RUNBOOK)


class State(StrEnum):
    """What one item says."""

    HOLDS = "holds"
    FAILS = "fails"
    TOO_EARLY = "too early"
    NO_DATA = "not logged"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that must be true once a fix has worked.

    Attributes:
        observed: the number compared, NaN where there is none; `band` is the limit in words with its source.
        steps_needed: how many rows more before it can be said, 0 when it is said.
    """

    name: str
    state: State
    text: str
    observed: float = math.nan
    band: str = ""
    steps_needed: int = 0


def runbook_items(now: View, early: View) -> tuple[Item, ...]:
    """Return the runbook's items on the rows after a fix, against the run's own early baseline."""
    return (_advantage(now, early), _entropy(now, early), _divergence(now), _held_out(now, early))


def held_out(view: View) -> dict[str, Held]:
    """Return the held-out scores, by name, that tell of the task: the accuracies where there are any.

    A held-out mean of the training reward rises with whatever pays, so it says nothing where the reward is exploited.
    """
    sets = {name: held for name, held in sorted(view.evals.items()) if held.step.size}
    return {name: held for name, held in sets.items() if held.metric == "accuracy"} or sets


def waiting(name: str, rows: int, needed: int = MIN_ROWS, what: str = "rows") -> Item:
    """Return an item that needs more rows."""
    more = max(needed - rows, 1)
    return Item(name, State.TOO_EARLY, f"{rows} {what} after the fix; {more} more are needed", steps_needed=more)


def _missing(name: str, metric: str) -> Item:
    return Item(name, State.NO_DATA, f"{metric} is not logged after the fix")


def _advantage(now: View, early: View) -> Item:
    name = "advantage std is materially above 0 across most groups"
    tied = tied_groups(now)
    if tied is not None and tied.size < MIN_ROWS:
        return waiting(name, tied.size)
    share = float(np.mean(tied.values)) if tied is not None else math.nan
    spread, start = now.recent("advantage_std")[1], early.head("advantage_std")
    if tied is None and spread.size == 0:
        return _missing(name, "the spread of advantages or the share of tied groups")
    level, base = stats.median(spread) if spread.size else math.nan, stats.median(start) if start.size else math.nan
    texts, fails = [], False
    if tied is not None:
        base_share = _early_share(early)
        limit = max(MOST_GROUPS.value, min(base_share, NO_BASELINE))
        fails = shares.wilson(share * tied.size, tied.size)[0] > limit
        texts.append(f"{fmt(share)} of the groups are tied, {fmt(base_share)} early; at most {MOST_GROUPS} or as early")
    if math.isfinite(level) and math.isfinite(base) and base > 0:
        fails = fails or level < MATERIAL_SHARE.value * base
        texts.append(f"advantage std {fmt(level)} against {fmt(base)} early; at least {MATERIAL_SHARE}")
    if fails and (why := _solved(now, limit if tied is not None else MOST_GROUPS.value)):
        fails = False
        texts.append(why)
    observed = share if math.isfinite(share) else level
    return Item(name, State.FAILS if fails else State.HOLDS, "; ".join(texts), observed, str(MOST_GROUPS))


def _solved(now: View, limit: float) -> str:
    """Say that groups are tied because they are all right, "" where that does not explain it.

    Where the log does not tell them apart, a held-out score that rises beyond its noise says it.
    """
    tied, right = now.rows_of("zero_variance_frac"), now.rows_of("all_right_frac")
    both = np.isfinite(tied) & np.isfinite(right)
    if both.sum() < MIN_ROWS:
        return gained(now)
    wrong = float(np.maximum(tied[both] - right[both], 0.0).mean())
    return f"{fmt(wrong)} of the groups are tied and not all right" if wrong <= limit else ""


def _early_share(early: View) -> float:
    """Return the share of tied groups over the first rows of the run, 0 where it is not known."""
    head = early.head("zero_variance_frac")
    if head.size:
        return float(head.mean())
    spread = early.head("advantage_std")
    return float((spread < TIED_STD).mean()) if spread.size else 0.0


def _halves(values: Float64) -> tuple[float, float]:
    half = values.size // 2
    return stats.median(values[:half]), stats.median(values[half:])


def _slope(steps: Int64, values: Float64) -> stats.Trend:
    """Return the trend, of logarithms where all values are positive: growth by a factor is a line there."""
    positive = bool((values > 0).all())
    return stats.trend(steps.astype(float), np.log(values) if positive else values, z=2.6)


def _entropy(now: View, early: View) -> Item:
    name = "entropy no longer falls sharply and lies in this model's own band"
    steps, values = now.recent("entropy")
    if values.size == 0:
        return _missing(name, "entropy")
    if values.size < MIN_ROWS:
        return waiting(name, int(values.size))
    first, last = _halves(values)
    slope = _slope(steps, values)
    sharp = slope.falling and last < (1 - SHARP_FALL.value) * first
    base = early.head("entropy")
    low, high = (base.min() / OWN_BAND.value, base.max() * OWN_BAND.value) if base.size else (-math.inf, math.inf)
    outside = not low <= last <= high
    course = f"entropy went from {fmt(first)} to {fmt(last)} nats/token over {values.size} rows"
    where = f"this run's own early band is {fmt(low)} to {fmt(high)} ({OWN_BAND})" if base.size else "no early band"
    bad = sharp or outside
    why = gained(now) if bad and last < first and last <= high else ""
    state = State.FAILS if bad and not why else State.HOLDS
    more = f"; it falls while {why}" if why else ""
    return Item(name, state, f"{course}; {where}; sharp is {SHARP_FALL}{more}", last, str(OWN_BAND))


def gained(now: View) -> str:
    """Say that the held-out score rises beyond its noise, "" where it does not: entropy then falls as tasks are solved.

    A run that was broken from its first step has an early band of a policy that learnt nothing.
    """
    held = max(held_out(now).values(), key=lambda h: h.step.size, default=None)
    if held is None or held.step.size < MIN_EVALS:
        return ""
    moved = float(held.score[-1] - held.score[0])
    if not moved > _noise(held):
        return ""
    return f"the held-out score rises from {fmt(float(held.score[0]))} to {fmt(float(held.score[-1]))}"


def _divergence(now: View) -> Item:
    name = "KL to the reference is bounded and not monotone"
    steps, values = now.recent("kl_ref")
    if values.size == 0:
        return _missing(name, "KL to the reference")
    if values.size < MIN_ROWS:
        return waiting(name, int(values.size))
    first, last = _halves(values)
    slope = _slope(steps, values)
    grows = slope.rising and last > STEADY_GROWTH.value * max(first, 0.0)
    why = well_within(last, now) if grows else ""
    text = f"KL to the reference went from {fmt(first)} to {fmt(last)} nats over {values.size} rows; at most "
    state = State.FAILS if grows and not why else State.HOLDS
    return Item(name, state, f"{text}{STEADY_GROWTH}{'; ' * bool(why)}{why}", last, str(STEADY_GROWTH))


def well_within(kl: float, now: View) -> str:
    """Say why a KL to the reference is no blow-up by whatever factor it grew, "" where that is open.

    A policy that begins to learn leaves 0, and a ratio of two small numbers says nothing.
    """
    if kl < SMALL_KL.value:
        return f"it is small below {SMALL_KL}"
    why = gained(now) if kl < FAR_KL.value else ""
    return f"it is near below {FAR_KL}, and {why}" if why else ""


def _held_out(now: View, early: View) -> Item:
    """Judge every held-out score of the task; the worst decides, then the one with the most evaluations."""
    name = "the held-out score moves with the training reward"
    sets = held_out(now)
    if not sets:
        return _missing(name, "a held-out score")
    most = max(held.step.size for held in sets.values())
    if most < MIN_EVALS:
        return waiting(name, most, MIN_EVALS, "evaluations")
    reward = now.recent("reward_mean")[1]
    if reward.size < MIN_ROWS:
        return waiting(name, int(reward.size))
    ordered = sorted(sets.items(), key=lambda item: -item[1].step.size)
    found = [_moves(name, of, held, early, reward) for of, held in ordered if held.step.size >= MIN_EVALS]
    return next((i for i in found if i.state is State.FAILS), found[0])


def _moves(name: str, of: str, held: Held, early: View, reward: Float64) -> Item:
    """Fail where the reward rises and the score falls, or the score stays below its best before the fix.

    The latter is judged beside the reward's gain since the run's own start: an exploit that is complete pays no more.
    """
    third = reward.size // 3
    train = stats.change(reward[:third], reward[-third:], z=2.6)
    moved, noise = float(held.score[-1] - held.score[0]), _noise(held)
    past = early.evals.get(of)
    older = past.score[past.step < held.step[0]] if past is not None else held.score[:0]  # none in a run started anew
    best = float(older.max()) if older.size else math.nan
    wide = max(noise, _noise(past)) if past is not None and older.size else noise
    lost = moved <= wide and float(held.score[-1]) < best - wide  # NaN: nothing to have lost
    start = early.head("reward_mean")
    gained = train.low > 0 or (start.size > 0 and stats.change(start, reward[-third:], z=2.6).low > 0)
    apart = (train.low > 0 and moved < -noise) or (gained and lost)
    text = (
        f"training reward {fmt(train.early)} to {fmt(train.late)}, held-out {of} {fmt(float(held.score[0]))} to "
        f"{fmt(float(held.score[-1]))} over {held.step.size} evaluations; noise of that difference {fmt(wide)}"
    )
    text += f"; it was {fmt(best)} before the fix" if lost else ""
    return Item(name, State.FAILS if apart else State.HOLDS, text, moved, f"above -{fmt(noise)} while reward rises")


def _noise(held: Held) -> float:
    """Return how far two held-out scores of the same policy may lie apart: from their known errors, averaged.

    Half of the range seen where none is known, and not `held.errors`: before a fix or after it there are few scores,
    and what a policy gained or lost between two of them would count as their noise.
    """
    known = known_errors(held)
    known = known[np.isfinite(known)]
    return 2.6 * math.sqrt(2) * float(known.mean()) if known.size else float(np.ptp(held.score)) / 2
