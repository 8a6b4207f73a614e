"""R003: the reward rises on a cheap component while the part that stands for the task falls or does not move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rlvitals import onsets, stats
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
from rlvitals.checks.common import (
    FIRST,
    Shift,
    fall_onset,
    fmt,
    from_start,
    gain,
    now,
    relative_z,
    rose,
    shift,
    thirds,
    words_in,
)
from rlvitals.checks.course import row_spacing
from rlvitals.checks.divergence_opposed import opposed
from rlvitals.checks.divergence_short import short
from rlvitals.checks.reward_parts import CHEAP, FORMAT, SHORT_ROWS, Parts, split
from rlvitals.view import View


class Compare(Protocol):
    """`shift` or `from_start`: how a series moved."""

    def __call__(self, view: View, metric: str, *, z: float) -> Shift: ...


STRICT_Z = 2.6  # normal quantile of a two-sided 0.01
Z = 3.3  # normal quantile of a two-sided 0.001


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    parts = split(view)
    if not parts.truth and not parts.other:
        return NotApplicable("no logged component is recognisable as the task itself; map one to success_frac")
    against = opposed(view, parts, limits)
    if against is not None:
        return against
    rows = view.count("reward_mean")
    if rows < limits["rows"].value:
        return short(view, parts, limits)
    judged = [n for n in parts.truth if view.count(n) >= limits["rows"].value and not _always_one(view, n)]
    for name in judged:
        if view.count(name) * row_spacing(view, name) < limits["rows_falling"].value:
            continue
        for compare in (shift, from_start):  # thirds of the run; the first rows where it was over within a third
            if not _fell(view, name, limits, compare):
                continue
            risers = [n for n in (*parts.cheap, *parts.other) if _gained(view, n, compare)]
            # a part that rose from its first rows may have done so long before: then only the total tells
            if _gained(view, "reward_mean", compare) or (risers and compare is shift):
                moved, total = compare(view, name, z=Z), compare(view, "reward_mean", z=Z)
                return _found(view, limits, name, moved, total, risers, "falling", compare)
    if not rose(view, "reward_mean", z=Z):
        return Clear(
            f"reward_mean moved by {gain(view, 'reward_mean'):+.3g}, within its noise, so no component carries a gain"
        )
    total = shift(view, "reward_mean", z=Z)
    flat = [n for n in judged if _is_flat(view, n, total, limits)]
    if judged and len(flat) == len(judged):
        return _found(view, limits, flat[0], shift(view, flat[0], z=STRICT_Z), total, _risers(view, parts), "flat")
    low = [n for n in parts.other if _at_floor(view, n, total, limits)] if not parts.truth else []
    if low:  # asked first: it is cheap, and mostly the answer is none
        risers = _risers(view, parts)
        stuck = [n for n in low if n not in risers] if risers else []
        if stuck:
            return _found(view, limits, stuck[0], shift(view, stuck[0], z=STRICT_Z), total, risers, "flat")
    best = max(judged or parts.other, key=lambda n: gain(view, n), default="")
    return Clear(
        f"{best or 'no component'} moved by {gain(view, best):+.3g} while the reward moved by "
        f"{total.difference:+.3g}; the "
        f"limit is {limits['truth_share'].value:.0%} of the reward's gain"
    )


def _risers(view: View, parts: Parts) -> list[str]:
    return [n for n in (*parts.cheap, *parts.other) if rose(view, n, z=Z)]


def _gained(view: View, name: str, compare: Compare) -> bool:
    return rose(view, name, z=Z) if compare is shift else compare(view, name, z=Z).low > 0


def _fell(view: View, name: str, limits: Mapping[str, Threshold], compare: Compare) -> bool:
    """True when a component lost a good part of its early level, beyond its noise; the size is the cheaper question."""
    first = thirds(view, name)[0] if compare is shift else view.head(name, FIRST)
    early = stats.mean(first)
    lost = stats.mean(thirds(view, name)[1]) - early < -limits["fall"].value * (
        early - min(view.extremes(name)[0], 0.0)
    )
    return lost and relative_z(compare(view, name, z=Z)) < -Z


def _always_one(view: View, name: str) -> bool:
    lowest, _, highest, _ = view.extremes(name)
    return lowest == highest == 1.0


def _is_flat(view: View, name: str, total: Shift, limits: Mapping[str, Threshold]) -> bool:
    """True when a component surely gave too little of the gain; one still at its floor is allowed a little more.

    One that rises beyond its noise is learning, unless what it gives is a trickle.
    """
    share = max(limits["truth_share"].value, limits["floor_truth_share"].value)
    if gain(view, name) >= share * total.difference:
        return False  # the upper bound of a gain is never below the gain itself
    moved = shift(view, name, z=STRICT_Z)
    if moved.low > 0 and moved.difference >= limits["trickle"].value * total.difference:
        return False
    if moved.high < limits["truth_share"].value * total.difference:
        return True
    lowest, _, highest, _ = view.extremes(name)
    near_floor = lowest >= 0 and now(view, name).mean < limits["floor_level"].value * highest
    return near_floor and moved.high < limits["floor_truth_share"].value * total.difference


def _at_floor(view: View, name: str, total: Shift, limits: Mapping[str, Threshold]) -> bool:
    """True for a component of unknown meaning that can be earned, never gets off its floor and does not move."""
    lowest, _, highest, _ = view.extremes(name)
    level = now(view, name)
    return (
        lowest >= 0
        and highest > lowest
        and view.count(name) >= limits["rows"].value
        and level.mean < limits["floor_share"].value * total.difference
        and _is_flat(view, name, total, limits)
    )


def _in_grace(view: View, risers: list[str], limits: Mapping[str, Threshold]) -> bool:
    """True while only the format, or something of unknown meaning, is learned: a healthy run may begin so."""
    if not risers or any(words_in(n, CHEAP) and not words_in(n, FORMAT) for n in risers) or not split(view).truth:
        return False
    rows = view.count("reward_mean")
    done = all(view.extremes(n)[0] >= 0 and view.extremes(n)[2] <= 1 and now(view, n).mean >= 0.9 for n in risers)
    return rows < limits["rows_format_done" if done else "rows_format"].value


def _found(
    view: View,
    limits: Mapping[str, Threshold],
    name: str,
    moved: Shift,
    total: Shift,
    risers: list[str],
    variant: str,
    compare: Compare = shift,
) -> Outcome:
    words = "first to last third" if compare is shift else f"first {FIRST} rows to last third"
    limit = limits["fall"] if variant == "falling" else limits["truth_share"]
    evidence = [
        Evidence(
            name,
            f"{name} went from {fmt(moved.early)} to {fmt(moved.late)} ({words} of steps {moved.steps[0]} "
            f"to "
            f"{moved.steps[1]}; at most {moved.high:+.3g} at z {STRICT_Z}) while reward_mean went from "
            f"{fmt(total.early)} to "
            f"{fmt(total.late)} (limit {limit})",
            moved.late,
            "reward",
            moved.steps,
            limit,
            "<",
            moved.early,
        )
    ]
    for riser in risers[:3]:
        up = compare(view, riser, z=Z)
        evidence.append(
            Evidence(
                riser,
                f"{riser} rose from {fmt(up.early)} to {fmt(up.late)} over the same steps",
                up.late,
                "reward",
                up.steps,
                before=up.early,
            )
        )
    act = variant == "falling" or not _in_grace(view, risers, limits)
    word = "falls" if variant == "falling" else "does not move"
    carrier = risers[0].partition("/")[2] if risers else "something else"
    label = name.partition("/")[2] or name
    return Fired(
        Finding(
            f"The reward is earned by {carrier} while {label} {word} ({fmt(moved.early)} to {fmt(moved.late)})",
            Action.FIX if act else Action.WATCH,
            Confidence.HIGH if risers else Confidence.MEDIUM,
            fall_onset(view, name) if variant == "falling" else _since(view, moved, risers),
            tuple(evidence),
            variant,
        )
    )


def _since(view: View, moved: Shift, risers: list[str]) -> Onset:
    """Return from when on the reward went up without the task: from the start, at the latest when the carrier rose."""
    trace = view.trace(risers[0] if risers else "reward_mean")
    rose = onsets.split_onset(trace.step, trace.value)
    return Onset(moved.steps[0], int(rose[1]) if rose is not None else moved.steps[1])


CHECK = Check(
    id="R003",
    name="component-divergence",
    family=Family.REWARD,
    fault="The total reward rises on a cheap component while the component that stands for the task does not.",
    why="A weighted sum goes up whichever part goes up. Format, length, language or compiling can be learned without "
    "solving anything; the policy then spends its steps on them and the total looks like progress.",
    needs=Needs(all_of=("reward_mean",), any_of=("reward_part/", "success_frac"), rows=SHORT_ROWS),
    thresholds=(
        Threshold(
            "task_weight", -0.01, "of the component", SourceKind.DEFINITION, "solving the task must not cost reward"
        ),
        Threshold(
            "truth_share",
            0.2,
            "of the total reward's gain",
            SourceKind.MEASURED,
            "docs/measurements.md: component divergence",
        ),
        Threshold(
            "trickle",
            0.05,
            "of the total reward's gain",
            SourceKind.MEASURED,
            "docs/measurements.md: component divergence",
        ),
        Threshold(
            "floor_truth_share",
            0.3,
            "of the total reward's gain",
            SourceKind.MEASURED,
            "docs/measurements.md: component divergence",
        ),
        Threshold(
            "floor_level",
            0.1,
            "of its highest step",
            SourceKind.CONVENTION,
            "what is earned in fewer than one of ten of its best steps is not being learned",
        ),
        Threshold("fall", 0.2, "of its early level", SourceKind.MEASURED, "docs/measurements.md: component divergence"),
        Threshold(
            "floor_share",
            0.05,
            "of the total reward's gain",
            SourceKind.MEASURED,
            "docs/measurements.md: component divergence",
        ),
        Threshold("rows_falling", 60, "steps", SourceKind.MEASURED, "docs/measurements.md: component divergence"),
        Threshold("rows_format", 250, "logged steps", SourceKind.MEASURED, "docs/measurements.md: format comes first"),
        Threshold(
            "rows_format_done", 150, "logged steps", SourceKind.MEASURED, "docs/measurements.md: format comes first"
        ),
        Threshold("rows", 30, "logged steps", SourceKind.MEASURED, "docs/measurements.md: component divergence"),
        Threshold(
            "short_rise",
            0.25,
            "reward, rising at every step of a short log",
            SourceKind.MEASURED,
            "docs/measurements.md: component divergence in short logs",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Read 20 recent rollouts that scored high: what earns the reward?", "verifier", "check"),
                Remedy(
                    "Pay the cheap component only when the task component is earned, or lower its weight",
                    "verifier",
                    "set",
                ),
                Remedy("Resume from a checkpoint before the task component stopped moving", "", ""),
            ),
            verify=(Verify("the task component does not fall", "success_frac", "not falling", None, 50),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "opposed": Plan(
            remedies=(
                Remedy("Stop: each step teaches the policy to fail", "", ""),
                Remedy("Correct the sign of the task's reward, or its weight in the total", "verifier", "set"),
                Remedy("Start again from the model before this run", "", ""),
            ),
            verify=(Verify("the task component does not fall", "success_frac", "not falling", None, 50),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=(
        "L002",
        "L003",
        "L001",
        "L004",
        "R014",
        "R012",
        "H001",
        "H002",
        "H003",
        "S001",
        "K001",
        "E001",
        "R008",
        "R009",
        "O002",
        "O004",
    ),
    look_alikes=(
        LookAlike(
            "format is learned first, correctness follows",
            "the task component's bound exceeds 20% of the gain, and format alone is only watched at first",
        ),
        LookAlike("a component at its maximum has no room", "a component that is always 1 is not judged"),
    ),
    sources=(
        "chapter 7: format reward",
        "docs/evidence.md: What no curve shows",
        "docs/measurements.md: Component divergence",
    ),
)
