"""K005: KL to the reference falls to nothing within a row and grows anew: the reference was replaced on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rlvitals import stats
from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    Fold,
    LookAlike,
    Needs,
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt
from rlvitals.schema import EventKind, Float64
from rlvitals.view import Chunk, View

ROWS = 20  # rows before a fall that give its level: one spike is no level
SIDE = 10  # rows after it that say where the policy is: later it moves on
LEAST_SIDE = 5  # fewer than this after it say nothing
START_ROWS = 3  # rows of the run's own start: so near to its reference is a policy that has just left it
KEPT = 8  # falls that are kept
GROWN = 2  # rows above a fall, and still low, that make it one
QUIET = 100  # rows before it without another one so low: a series that falls so and comes back has such rows
SHARE = Threshold("share", 0.05, "of its level", SourceKind.MEASURED, "docs/measurements.md: Reference replaced")
HELD = Threshold("held", 0.5, "of its level", SourceKind.MEASURED, "docs/measurements.md: Reference replaced")
ZERO = Threshold(
    "zero",
    0.002,
    "nats",
    SourceKind.MEASURED,
    "docs/measurements.md: Sampler and trainer numerics (k3 of two bf16 passes is below 2e-3)",
)
PLACES = ("reward_mean", "entropy", "length_mean")  # what says where the policy is


@dataclass(frozen=True, slots=True)
class Fall:
    """A fall of KL: steps of the rows on its sides, the level before and its lowest row, the rows after."""

    before: int
    at: int
    level: float
    lowest: float
    after: tuple[float, ...]
    rates: tuple[float, ...]  # learning rates of the row before and of those after; NaN where not logged

    @property
    def grown(self) -> tuple[float, ...]:
        """The rows from the first one on that is above the row of the fall."""
        above = next((i for i, v in enumerate(self.after) if v > self.after[0]), len(self.after))
        return self.after[above:]


@dataclass(frozen=True, slots=True)
class State:
    """The rows that give the level now, a fall that is not judged yet, and what was found."""

    level: tuple[float, ...] = ()  # the last KL values, oldest first
    step: int = -1  # step of the newest of them
    rate: float = math.nan  # learning rate of that row
    start: tuple[float, ...] = ()  # the first KL values
    open: Fall | None = None
    since_low: int = QUIET  # rows since one was as low as a fall
    found: tuple[Fall, ...] = ()  # the first ones that nobody planned
    planned: int = 0
    deepest: float = math.inf  # lowest share of the level before that any row had
    deepest_at: int = -1


def _step(state: State, chunk: Chunk) -> State:
    kl, rates = chunk.col("kl_ref"), chunk.col("learning_rate")
    for i in np.flatnonzero(np.isfinite(kl)):
        value, step, rate = float(kl[i]), int(chunk.steps[i]), float(rates[i])
        if len(state.start) < START_ROWS:
            state = replace(state, start=(*state.start, value))
        if state.open is None:
            state = _look(state, value, step, rate)
        else:
            state = _follow(state, state.open, value, step, rate)
            state = _settle(state, chunk.config.reference_reset_steps)
    return state


def _look(state: State, value: float, step: int, rate: float) -> State:
    """Take a row while the level stands; it may open a fall."""
    level = _median(state.level) if len(state.level) == ROWS else 0.0
    if level > 0 and value / level < state.deepest:
        state = replace(state, deepest=value / level, deepest_at=step)
    low = level > 0 and value <= SHARE.value * level
    # a level with rows near zero is bursts between them; far below 0 is no policy that equals its reference
    steady = low and min(state.level) > SHARE.value * level and state.since_low >= QUIET
    near = max((v for v in state.start if v <= SHARE.value * level), default=0.0)
    if steady and -ZERO.value <= value <= max(ZERO.value, near):
        return replace(state, open=Fall(state.step, step, level, min(state.level), (value,), (state.rate, rate)))
    since = 0 if low else state.since_low + 1
    return replace(state, level=(*state.level, value)[-ROWS:], step=step, rate=rate, since_low=since)


def _follow(state: State, fall: Fall, value: float, step: int, rate: float) -> State:
    """Take a row after a fall: while it is low the fall stands; that it never grows is another matter."""
    after = (*fall.after, value)
    limit = HELD.value * fall.level
    if len(fall.grown) == 0:
        limit = min(fall.lowest, limit)  # growth begins below every row before: no gap of the log, however long
    if not value < limit or len(after) > ROWS:
        return replace(state, open=None, level=(*state.level, *after)[-ROWS:], step=step, rate=rate, since_low=0)
    return replace(state, open=replace(fall, after=after, rates=(*fall.rates, rate)), step=step, rate=rate)


def _settle(state: State, period: int | None) -> State:
    """Close a fall that grows; what follows is measured against another reference and gives a level of its own."""
    fall = state.open
    if fall is None or len(fall.grown) < GROWN:
        return state
    state = replace(state, open=None, level=fall.after, since_low=QUIET)
    if period is not None and _is_planned(fall, period):
        return replace(state, planned=state.planned + 1)
    return replace(state, found=(*state.found, fall)[:KEPT])


def _median(values: tuple[float, ...]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return 0.5 * (ordered[half - 1] + ordered[half])  # their number is even


def _is_planned(fall: Fall, period: int) -> bool:
    """True when a multiple of the period lies between the rows of the fall, or one row beside them."""
    slack = fall.at - fall.before
    return period > 0 and (fall.at + slack) // period > (fall.before - slack - 1) // period


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.config.kl_coef == 0 and view.config.loads_reference is False:
        return NotApplicable("the KL coefficient is 0 and no reference is loaded: nothing can be replaced")
    state: State = view.state
    found = tuple(f for f in state.found if f.after[0] <= limits["share"].value * f.level)
    if found:
        return Fired(_finding(view, found, limits))
    period = view.config.reference_reset_steps
    if state.planned:
        return Clear(f"KL starts anew {_times(state.planned)}, each time at a planned reset (every {period} steps)")
    if state.deepest_at < 0:
        return Clear(f"KL to the reference has no level of {ROWS} rows above 0 that it could fall from")
    return Clear(
        f"KL to the reference never falls at once to nothing and grows anew: its lowest row has "
        f"{fmt(max(100 * state.deepest, 0.0))}% of the median of the {ROWS} rows before (step {state.deepest_at}); "
        f"limit {limits['share']}, two more low rows after it"
    )


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _finding(view: View, found: tuple[Fall, ...], limits: Mapping[str, Threshold]) -> Finding:
    fall, period = found[0], view.config.reference_reset_steps
    first = _fell(fall, limits["share"])
    onset = Onset(fall.before + 1, fall.at)
    resumed = _resumed(view, fall)
    anew = resumed or _warmed_anew(fall, limits["warm_up"])
    place, stayed = _place(view, fall, limits)
    what = (
        f"KL to the reference fell from {fmt(fall.level)} nats to {fmt(fall.after[0])} at step {fall.at} and grows anew"
    )
    if period:
        what += f", though a reset is planned every {period} steps"
    if len(found) > 1:
        what += f" (the first of {len(found)} such falls{'' if len(found) < KEPT else ' or more'})"
    evidence = (first, *anew, *place)
    if place and not stayed:
        text = f"{what}: the policy itself is back where training began"
        return Finding(text, Action.FIX, Confidence.HIGH, onset, evidence, "policy lost")
    if resumed:
        text = f"{what}: the run was resumed there, and the resumed process made its start weights the reference"
        return Finding(text, Action.FIX, Confidence.HIGH if place else Confidence.MEDIUM, onset, evidence)
    if anew:
        text = f"{what}: the learning rate warms up anew there, as after a restart from weights alone"
        return Finding(text, Action.FIX, Confidence.HIGH if place else Confidence.MEDIUM, onset, evidence)
    if len(found) > 1 and _regular(found):
        text = f"{what}: at even distances, as if the reference was reset on purpose"
        return Finding(text, Action.WATCH, Confidence.MEDIUM, onset, evidence, "regular")
    if place:
        text = f"{what}, while the policy stayed where it was: the reference was replaced"
        return Finding(text, Action.ADJUST, Confidence.MEDIUM, onset, evidence)
    text = f"{what}: the reference was replaced, or the policy went back to it"
    return Finding(text, Action.WATCH, Confidence.MEDIUM, onset, evidence)


def _fell(fall: Fall, limit: Threshold) -> Evidence:
    low, others = fall.after[0], fall.grown
    text = (
        f"KL to the reference is {fmt(low)} nats at step {fall.at} after {fmt(fall.level)} (median of {ROWS} rows up "
        f"to step {fall.before}, none below {fmt(fall.lowest)}), then {' and '.join(fmt(v) for v in others)}: it "
        f"starts from nothing, as from a reference that is the policy itself; limit {limit}"
    )
    share = low / fall.level
    return Evidence("kl_ref", text, share, "of its level", (fall.before, fall.at), limit, "<", fall.level)


def _resumed(view: View, fall: Fall) -> tuple[Evidence, ...]:
    """Return evidence of a resume that lies between the rows of the fall, or one row beside them."""
    slack = fall.at - fall.before
    known = [e.step for e in view.events if e.kind is EventKind.RESUME and e.step is not None]
    known += [s.resumed_at for s in view.segments]
    near = [s for s in known if fall.before - slack <= s <= fall.at + slack]
    if not near:
        return ()
    return (Evidence("step", f"the run was resumed at step {near[0]}", float(near[0]), "step", (near[0], near[0])),)


def _warmed_anew(fall: Fall, limit: Threshold) -> tuple[Evidence, ...]:
    """Return evidence that the learning rate fell in the same row and rises again: the optimizer started anew."""
    before, now, *later = fall.rates[: GROWN + 2]
    if not (
        math.isfinite(later[-1])
        and before > 0
        and now < limit.value * before
        and later == sorted(later)
        and later[0] > now
    ):
        return ()
    text = (
        f"the learning rate goes from {fmt(before)} to {fmt(now)} at step {fall.at} and rises again, to "
        f"{fmt(later[-1])} two rows later: it warms up anew; limit {limit}"
    )
    where = (fall.before, fall.at)
    return (Evidence("learning_rate", text, now / before, limit.unit, where, limit, "<", before),)


def _place(view: View, fall: Fall, limits: Mapping[str, Threshold]) -> tuple[tuple[Evidence, ...], bool]:
    """Return evidence of where the policy is after the fall, and whether it stayed where it was; () when unclear.

    The series decides that is most surely away from one of the two places, the run's start and where it was before,
    and nearer to the other. A run that was not at its reference when its log began can't tell.
    """
    limit, sure = limits["half_way"], limits["sure"].value
    if min(view.state.start) > limits["share"].value * fall.level:
        return (), False
    best: tuple[float, Evidence, bool] | None = None
    for metric in PLACES:
        before, after = _sides(view, metric, fall)
        start = view.head(metric, SIDE)
        if min(before.size, after.size, start.size) < LEAST_SIDE:
            continue
        was, began, now = stats.mean(before), stats.mean(start), stats.mean(after)
        back = (now - was) / (began - was) if began != was else math.nan
        stayed = back < limit.value
        away = stats.change(start if stayed else before, after, z=1.0)
        z = abs(away.difference) / max(0.5 * (away.high - away.low), 1e-12)
        if not z >= sure or (best is not None and z <= best[0]):
            continue
        text = (
            f"{metric} is {fmt(now)} after it, {fmt(was)} before it and {fmt(began)} at the run's start, "
            f"{fmt(100 * max(back, 0.0))}% of the way back, {fmt(z)} standard errors from the "
            f"{'start' if stayed else 'rows before'}; limit {limit}"
        )
        steps = (fall.at, view.step)
        best = (z, Evidence(metric, text, back, limit.unit, steps, limit, "<" if stayed else ">", was), stayed)
    return ((), False) if best is None else ((best[1],), best[2])


def _sides(view: View, metric: str, fall: Fall) -> tuple[Float64, Float64]:
    """Return the values of a metric on both sides of the fall: exact rows while they are kept, else blocks."""
    steps, values = view.recent(metric)
    if steps.size and steps[0] <= fall.before - ROWS * (fall.at - fall.before):
        return values[steps <= fall.before][-ROWS:], values[steps >= fall.at][:SIDE]
    trace = view.trace(metric)
    return trace.value[trace.last <= fall.before][-LEAST_SIDE:], trace.value[trace.first >= fall.at][:LEAST_SIDE]


def _regular(found: tuple[Fall, ...]) -> bool:
    """True when every fall lies at a multiple of the step of the first one."""
    return all(_is_planned(f, found[0].at) for f in found[1:])


CHECK = Check(
    id="K005",
    name="reference-replaced",
    family=Family.LEASH,
    fault="The reference was replaced in the middle of the run, or the policy went back to it.",
    why="KL to a fixed reference moves as far as one update moves the policy: it can't fall to nothing within a row. "
    "Where it does, and grows again from there, the reference has become the policy of that moment: a run resumed from "
    "weights alone takes its start weights for the reference, or a script loads the reference from the newest "
    "checkpoint. The leash is then tied to another point, and KL before and after can't be compared. If the policy "
    "itself went back, its training is lost.",
    needs=Needs(all_of=("kl_ref",), rows=ROWS + 1 + GROWN),
    thresholds=(
        SHARE,
        HELD,
        ZERO,
        Threshold(
            "warm_up", 0.5, "of the learning rate before", SourceKind.CONVENTION, "no schedule halves within a row"
        ),
        Threshold("half_way", 0.5, "of the way back to the run's start", SourceKind.DEFINITION, "nearer to the one"),
        Threshold("sure", 4, "z", SourceKind.MEASURED, "docs/measurements.md: Change of level under AR(1) noise"),
    ),
    judge=judge,
    fold=Fold(State(), _step, needs=("kl_ref",)),
    plans={
        "": Plan(
            remedies=(
                Remedy("Load the reference from the weights that training began with, also after a resume", "", "set"),
                Remedy("Save and load optimizer, scheduler and reference with the weights", "", "check"),
                Remedy(
                    "If the reset was meant, say so: reference_reset_steps under [config] of rlvitals.toml",
                    "reference_reset_steps",
                    "",
                ),
            ),
            verify=(Verify("KL to the original reference is back at its level", "kl_ref", "not falling", None, 20),),
            rollback=Rollback.NONE,
        ),
        "policy lost": Plan(
            remedies=(
                Remedy("Check which weights were loaded: those of the start, not those of the checkpoint", "", "check"),
            ),
            verify=(
                Verify("KL to the reference goes on at its level before the fall", "kl_ref", "not falling", None, 20),
            ),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "regular": Plan(
            remedies=(
                Remedy(
                    "Say that the resets are meant: reference_reset_steps under [config] of rlvitals.toml",
                    "reference_reset_steps",
                    "",
                ),
                Remedy("If they are not, look for restarts that load weights alone at these steps", "", "check"),
            ),
            verify=(Verify("the next fall comes at a planned reset", "", "", None, 20),),
        ),
    },
    leads_to=("K001", "K002", "U002", "D010"),
    look_alikes=(
        LookAlike("One row of 0, or one missing row", "the next row is back at the level: a gap of the log"),
        LookAlike("A KL coefficient that was raised", "KL falls over many rows and does not start from nothing"),
        LookAlike("A planned reset of the reference", "reference_reset_steps is known and the fall is at its multiple"),
        LookAlike("A KL of rare bursts, with rows near 0 between them", "it has no level: rows before it were near 0"),
        LookAlike("A run's first rows", f"fewer than {ROWS} rows stand before them"),
    ),
    sources=("docs/measurements.md: Reference replaced", "docs/false-alarms.md: 6"),
)
