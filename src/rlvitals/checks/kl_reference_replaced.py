"""K005: KL to the reference falls to nothing within a row and grows anew: the reference was replaced on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
from rlvitals.checks.kl_falls import FALLS, GROWN, HELD, KEPT, ROWS, SHARE, ZERO, Fall, Falls, is_at_multiple
from rlvitals.schema import EventKind, Float64
from rlvitals.view import View

SIDE = 10  # rows after it that say where the policy is: later it moves on
LEAST_SIDE = 5  # fewer than this after it say nothing
PLACES = ("reward_mean", "entropy", "length_mean")  # what says where the policy is


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.config.kl_coef == 0 and view.config.loads_reference is False:
        return NotApplicable("the KL coefficient is 0 and no reference is loaded: nothing can be replaced")
    state: Falls = view.state
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
    return all(is_at_multiple(f, found[0].at) for f in found[1:])


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
    fold=FALLS,
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
            verify=(Verify("KL to the original reference is back at its level", "kl_ref", "as before", None, 20),),
            rollback=Rollback.NONE,
        ),
        "policy lost": Plan(
            remedies=(
                Remedy("Check which weights were loaded: those of the start, not those of the checkpoint", "", "check"),
            ),
            verify=(
                Verify("KL to the reference goes on at its level before the fall", "kl_ref", "as before", None, 20),
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
