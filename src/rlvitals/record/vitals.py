"""The four verification items of the health-check runbook, each with its number, its band and where that comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rlvitals import shares, stats
from rlvitals.check import SourceKind, Threshold
from rlvitals.checks.common import fmt
from rlvitals.checks.companions import HELDOUT_DROP_Z
from rlvitals.checks.held import FOR_NOISE, climb, errors, known_errors
from rlvitals.checks.signal_common import TIED_STD, tied_groups
from rlvitals.schema import Float64, Int64
from rlvitals.view import Held, View

RUNBOOK = "GRPO health-check runbook, Verification"
MIN_ROWS = 20  # rows after the fix below which nothing is settled (docs/design.md, "From outcomes to one answer")
NO_BASELINE = 0.9  # a run whose groups were nearly all tied from the start has no healthy start to compare with
SCALED_STD = 1.0  # of advantages divided by the spread of their group or batch, at most (definition)
MIN_EVALS = 3  # held-out scores after the fix from which a direction can be told
BY_CHANCE = 100  # draws of one policy in which all scores of one part lie below the other's once (definition: .01)
SURE_Z = 2.6  # normal quantile of a two-sided .01, as the trends of these items use

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
    if tied is not None and not tied.exact and share <= MOST_GROUPS.value:
        tied, share = None, math.nan  # at least so many are tied: that says nothing of few
    spread, start = now.recent("advantage_std")[1], early.head("advantage_std")
    if tied is None and spread.size == 0:
        return _missing(name, "the spread of advantages or the share of tied groups")
    level, texts, fails, excused, base_share = math.nan, [], False, "", _early_share(early)
    if tied is not None:
        limit = max(MOST_GROUPS.value, min(base_share, NO_BASELINE))
        many = shares.wilson(share * tied.size, tied.size)[0] > limit
        excused = _solved(now, limit)
        fails = many and not excused
        texts.append(f"{fmt(share)} of the groups are tied, {fmt(base_share)} early; at most {MOST_GROUPS} or as early")
        texts += [excused] if many and excused else []
    if spread.size and start.size and (base := stats.median(start)) > 0:
        level = stats.median(spread)
        least, text = _least_spread(base, _untied(share, base_share) if excused else 1.0, now.config.advantage_scaling)
        fails = fails or level < least
        texts.append(f"advantage std {fmt(level)} against {fmt(base)} early; {text}")
    observed = share if math.isfinite(share) else level
    return Item(name, State.FAILS if fails else State.HOLDS, "; ".join(texts), observed, str(MOST_GROUPS))


def _least_spread(base: float, untied: float, scaling: str | None) -> tuple[float, str]:
    """Return the least advantage std that is material, and how it comes about, in words.

    A run that was broken from its first step may begin with a spread that no scaled advantages have.
    """
    most = base if scaling == "none" else min(base, SCALED_STD)
    text = f"at least {MATERIAL_SHARE}"
    if most < base:
        text += f", taken as {fmt(most)}, the most that scaled advantages have"
    if untied < 1:
        text += f", taken as {fmt(most * untied)} with more groups tied since"
    return MATERIAL_SHARE.value * most * untied, text


def _untied(share: float, base_share: float) -> float:
    """Return the part of the early advantage std that ties leave: the share of untied groups against the early one.

    So it is in a mean over groups; over a batch its root would be left, which is more.
    """
    return min((1.0 - share) / (1.0 - base_share), 1.0) if base_share < 1 else 1.0


def _solved(now: View, limit: float) -> str:
    """Say that groups are tied because they are all right, "" where that does not explain it.

    Where the log does not tell them apart, a held-out score that surely rises says it.
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
    lower = bad and last < first and last <= high
    why = gained(now) if lower else ""
    more = f"; it falls while {why}" if why else ""
    state = State.FAILS if bad and not why else State.HOLDS
    if lower and not why and not sharp and _untold(now) and _paid_more(now, early):
        state = State.NO_DATA
        more = "; the reward rose as well, and no held-out score of known error tells whether tasks are solved by it"
    return Item(name, state, f"{course}; {where}; sharp is {SHARP_FALL}{more}", last, str(OWN_BAND))


def _untold(now: View) -> bool:
    """True when no held-out score after the fix could surely rise: none is there, or their errors are unknown."""
    found = [climb(held) for held in held_out(now).values()]
    return all(c is None or math.isnan(c.error) for c in found)


def _paid_more(now: View, early: View) -> bool:
    """True when the reward surely lies above that of the run's own first rows."""
    start, reward = early.head("reward_mean"), now.recent("reward_mean")[1]
    return bool(start.size and reward.size) and stats.change(start, reward[-MIN_ROWS:], z=SURE_Z).low > 0


def gained(now: View) -> str:
    """Say that the held-out score surely rises, "" where it does not: entropy then falls as tasks are solved.

    A run that was broken from its first step has an early band of a policy that learnt nothing. A score of unknown
    error excuses nothing, and neither does one that has surely left its best since.
    """
    held = max(held_out(now).values(), key=lambda h: h.step.size, default=None)
    found = climb(held) if held is not None else None
    if found is None or not found.beyond(SURE_Z) or found.fallen > HELDOUT_DROP_Z.value:
        return ""
    return f"the held-out score rises from {fmt(found.before)} to {fmt(found.now)}"


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
    more = f"; {why}" if why else ""
    if last > STEADY_GROWTH.value * max(first, 0.0) and not slope.rising:
        more = "; that is no steady rise: these rows have no trend"
    state = State.FAILS if grows and not why else State.HOLDS
    return Item(name, state, f"{text}{STEADY_GROWTH}{more}", last, str(STEADY_GROWTH))


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
    A loss between few scores of unknown error waits for more of them.
    """
    third = reward.size // 3
    train = stats.change(reward[:third], reward[-third:], z=2.6)
    past = early.evals.get(of)
    moved, noise = float(held.score[-1] - held.score[0]), _noise(held, past)
    older = past.score[past.step < held.step[0]] if past is not None else held.score[:0]  # none in a run started anew
    best = float(older.max()) if older.size else math.nan
    lost = moved <= noise and float(held.score[-1]) < best - noise  # NaN: nothing to have lost
    below = moved <= 0 and not _known(held) and _all_below(held.score, older)
    lost = lost or below
    start = early.head("reward_mean")
    gained = train.low > 0 or (start.size > 0 and stats.change(start, reward[-third:], z=2.6).low > 0)
    if math.isnan(noise) and not lost and ((train.low > 0 and moved < 0) or (gained and float(held.score[-1]) < best)):
        return waiting(name, held.step.size, FOR_NOISE, "evaluations, of unknown error,")
    apart = (train.low > 0 and moved < -noise) or (gained and lost)
    text = (
        f"training reward {fmt(train.early)} to {fmt(train.late)}, held-out {of} {fmt(float(held.score[0]))} to "
        f"{fmt(float(held.score[-1]))} over {held.step.size} evaluations; noise of that difference "
        f"{'unknown' if math.isnan(noise) else fmt(noise)}"
    )
    text += f"; it was {fmt(best)} before the fix" if lost else ""
    text += f", and never as low in {older.size} evaluations" if below else ""
    return Item(name, State.FAILS if apart else State.HOLDS, text, moved, _band(noise))


def _band(noise: float) -> str:
    return "not falling while reward rises" if math.isnan(noise) else f"above -{fmt(noise)} while reward rises"


def _noise(held: Held, past: Held | None) -> float:
    """Return how far two held-out scores of the same policy may lie apart: from their errors, averaged; NaN unknown.

    Where no error is known, from the scores after the fix or those before it, whichever moved less: what a policy gains
    or loses between two scores adds to their differences, and scores that are all the same show no noise. Few scores
    tell nothing: half of the range seen is passed by chance between the first and the last of three in 33% of draws.
    """
    sets = (held,) if past is None else (held, past)
    known = [error for s in sets for error in _known(s)]
    guessed = [float(errors(s).mean()) for s in sets if not known and np.ptp(s.score) > 0]
    told = [error for error in guessed if math.isfinite(error)]
    return SURE_Z * math.sqrt(2) * max(known, default=min(told, default=math.nan))


def _known(held: Held) -> tuple[float, ...]:
    """Return the mean of the known errors of a set, nothing where none is known."""
    known = known_errors(held)
    known = known[np.isfinite(known)]
    return (float(known.mean()),) if known.size else ()


def _all_below(now: Float64, older: Float64) -> bool:
    """Return whether every score lies below every older one, which chance does once in BY_CHANCE or less often."""
    apart = older.size > 0 and float(now.max()) < float(older.min())
    return apart and math.comb(now.size + older.size, now.size) >= BY_CHANCE
