"""K001: KL to the reference keeps growing in proportion to time or faster, has jumped, or leapt at once for nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals import stats
from rlvitals.check import (
    MOVES,
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
from rlvitals.checks import companions, course
from rlvitals.checks.common import Shift, fmt, shift
from rlvitals.checks.kl_leap import leap
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

SIGNED_SHARE = 0.2  # share of values at or below 0 from which a series is a signed estimate around 0
FIRST_LOOK_ROWS = 60  # everything grows linearly at first
FIRST_LOOK_SHARE = 0.15  # of the planned steps, likewise
JUMP_ROWS = 60  # rows before a jump that give the level it is compared with
SKIP_ROWS = 30  # rows at the start in which KL rises from nothing
ENTROPY_MOVED = 3.0  # times up or down against its own start: the policy as a whole has changed
FAR_GROWN = 3.0  # times the first values: a policy that starts away from its reference has not left it
PER_TOKEN = ("rlvitals train", "TRL", "unsloth", "ms-swift", "verl")  # log KL per token; the unit is unknown elsewhere
MATERIAL_GAIN = 0.1  # of the reward range (convention: a tenth of the range matters to a user)
NEAR_SHARE = 0.1  # of the level after the first updates: a run whose first rows are above it did not leap
WORDS = {
    "jump": "KL to the reference jumped",
    "growth": "KL to the reference grows without settling",
    "far": "the policy has left its reference",
}
LASTING_ROWS = 40  # nine tenths of them must lie beyond the level before a missing gain counts against it
NO_GAIN_ROWS = 100
SPIKE = 10.0  # times the run's own median gradient norm
GRADIENT_MOVED = 5.0  # times the run's own start


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    _, values = view.recent("kl_ref", 160)
    negative = float((values <= 0).mean())
    if negative > SIGNED_SHARE:
        return NotApplicable(
            f"{100 * negative:.0f}% of the logged KL values are at or below 0: a signed estimate "
            f"(k1) has no growth rate"
        )
    first, variant = _jumped(view, limits), "jump"
    because = ""
    if first is None:
        (first, because), variant = _growing(view, limits), "growth"
    if first is None:
        first, variant = _far(view, limits), "far"
    found = _finding(view, first, variant, limits) if first is not None else None
    if found is None or found.action not in MOVES:
        found = _leapt(view, limits) or found
    return Fired(found) if found is not None else Clear(because)


def _jumped(view: View, limits: Mapping[str, Threshold]) -> Evidence | None:
    limit = limits["jump_factor"]
    found = course.jump(view, "kl_ref", base_rows=JUMP_ROWS, skip_rows=SKIP_ROWS, factor=limit.value)
    if found is None or found.now < limits["level"].value:
        return None
    return Evidence(
        "kl_ref",
        f"KL to the reference jumped from {fmt(found.before)} to {fmt(found.now)} nats, {fmt(found.ratio)} times, "
        f"between steps {found.first} and {found.last}; limit {limit}",
        found.ratio,
        "times",
        (found.first, found.last),
        limit,
        ">",
        found.before,
    )


def _growing(view: View, limits: Mapping[str, Threshold]) -> tuple[Evidence | None, str]:
    planned = view.config.planned_steps or 0
    spacing = max(course.row_spacing(view, "kl_ref"), 1.0)
    begin = int(max(FIRST_LOOK_ROWS, FIRST_LOOK_SHARE * planned / spacing))
    looks = course.growth(view, "kl_ref", limits["growth_z"].value, begin)
    level, newest = course.level(view, "kl_ref"), next(looks, None)
    if newest is None:
        return None, f"KL to the reference is {fmt(level.now)} nats; its growth is judged from {begin} logged rows on"
    last = max((g for g in newest if _counts(g, limits)), key=lambda g: g.low, default=None)
    if last is None or not any(_counts(g, limits) for g in next(looks, ())):
        seen = max(newest, key=lambda g: g.low)
        return None, (
            f"KL to the reference is {fmt(level.now)} nats and grew like step^{fmt(seen.exponent)} over steps "
            f"{seen.first}-{seen.last}, {fmt(seen.rise)} times; limit {limits['growth']} at two looks"
        )
    text = (
        f"KL to the reference grew like step^{fmt(last.exponent)} over steps {last.first}-{last.last}, at least "
        f"step^{fmt(last.low)}, and is at {fmt(last.now)} nats, {fmt(last.rise)} times its value at "
        f"the window's begin; "
        f"settling is step^0, a random walk step^0.5; limit {limits['growth']}"
    )
    steps = (last.first, last.last)
    return Evidence("kl_ref", text, last.low, "exponent", steps, limits["growth"], ">", last.now / last.rise), ""


def _counts(found: course.Growth, limits: Mapping[str, Threshold]) -> bool:
    return (
        found.low > limits["growth"].value and found.rise >= limits["rise"].value and found.now >= limits["level"].value
    )


def _finding(view: View, first: Evidence, variant: str, limits: Mapping[str, Threshold]) -> Finding:
    level, limit = course.level(view, "kl_ref"), limits["far"].value
    if variant == "far":
        onset = _left(view, limit)
    else:
        onset = Onset(*first.steps) if variant == "jump" else course.onset(view, "kl_ref")
    text = f"{WORDS[variant]} since {onset}, now {fmt(level.now)} nats"
    fell, held_out = companions.reward_fell(view), companions.heldout_fell(view)
    moved = shift(view, "reward_mean")
    if held_out and not fell and moved.low > 0:
        hacked = f"{text}, with rising reward and falling held-out score: the reward is being hacked"
        return Finding(hacked, Action.FIX, Confidence.HIGH, onset, (first, *held_out), "reward hacking")
    others = (*fell, *held_out)
    if others:
        bad = f"{text}, and the policy got worse"
        return Finding(bad, Action.ADJUST, Confidence.HIGH, onset, (first, *others), "worse")
    if variant == "jump":
        others = _others(view, paid=_paid(moved, view))
    elif variant == "far":
        others = _beside_far(view, limits)
    if others:
        bad = f"{text}, together with {others[0].metric}: {others[0].text}"
        return Finding(bad, Action.ADJUST, Confidence.HIGH, onset, (first, *others), variant)
    if moved.low > 0 and variant != "far":
        return Finding(
            f"{text}, while the reward rises", Action.WATCH, Confidence.MEDIUM, onset, (first,), "reward rising"
        )
    sure = Confidence.LOW if variant == "far" else Confidence.MEDIUM
    return Finding(f"{text}; {companions.reward_words(view)}", Action.WATCH, sure, onset, (first,), variant)


def _beginning(view: View) -> float:
    """Return the lowest of the first three values: after one update a policy can be gone, before it it can't."""
    return float(view.head("kl_ref", 3).min())


def _left(view: View, limit: float) -> Onset:
    """Return when the policy left its reference: after the row in which it still was nearest to it, at the earliest."""
    entered, trace = course.entered(view, "kl_ref", max(_beginning(view), course.TINY), limit), view.trace("kl_ref")
    after = int(trace.first[min(int(np.argmin(trace.value[:3])) + 1, trace.size - 1)])
    return Onset(max(entered.first, after), max(entered.last, after))


def _far(view: View, limits: Mapping[str, Threshold]) -> Evidence | None:
    """The policy has left its reference altogether, having started near it."""
    level, limit, begin = course.level(view, "kl_ref"), limits["far"], _beginning(view)
    if not (level.now > limit.value and level.now > FAR_GROWN * begin):
        return None
    text = (
        f"KL to the reference went from {fmt(begin)} nats at the start to {fmt(level.now)} over steps "
        f"{level.first}-{level.last}; limit {limit}"
    )
    return Evidence("kl_ref", text, level.now, "nats", level.steps, limit, ">", begin)


def _beside_far(view: View, limits: Mapping[str, Threshold]) -> tuple[Evidence, ...]:
    """Return what speaks against a policy that stays far from its reference: gradient spikes, or no gain in reward."""
    _, recent = view.recent("kl_ref", LASTING_ROWS)
    if not _per_token(view) or not float(np.quantile(recent, 0.1)) > limits["far"].value:
        return ()
    spikes = _spikes(view)
    if spikes is not None:
        return (spikes,)
    moved, span, gain = shift(view, "reward_mean"), reward_scale(view).span, limits["gain_share"]
    if moved.rows < NO_GAIN_ROWS or not span > 0 or not moved.high < gain.value * span:
        return ()
    text = (
        f"reward went from {fmt(moved.early)} to {fmt(moved.late)} over steps "
        f"{moved.steps[0]}-{moved.steps[1]}; the gain "
        f"is at most {fmt(moved.high)}, limit {gain}"
    )
    return (Evidence("reward_mean", text, moved.high / span, "of the range", moved.steps, gain, "<", moved.early),)


def _per_token(view: View) -> bool:
    """Return whether KL is known to be logged per token; with losses that are sums verl's is one of sequences."""
    summed = "sum" in (view.config.loss_aggregation or "")
    return view.trainer.name in PER_TOKEN and not (summed and view.trainer.name == "verl")


def _leapt(view: View, limits: Mapping[str, Threshold]) -> Finding | None:
    """The first updates threw the policy off, and the reward has paid hardly anything for the distance since."""
    got, far, paid = leap(view), limits["leap"], limits["paid"]
    if got is None or not _per_token(view):
        return None
    if not (got.level >= far.value and got.first < NEAR_SHARE * got.level):
        return None
    if not (got.paid < paid.value and got.gain < limits["leap_gain"].value and got.place < limits["leap_place"].value):
        return None
    thrown = Evidence(
        "kl_ref",
        f"KL to the reference went from {fmt(got.first)} in the first rows to {fmt(got.level)} nats by steps "
        f"{got.steps[0]}-{got.steps[1]}, and is {fmt(got.now)} now; limit {far}",
        got.level,
        "nats/token",
        got.steps,
        far,
        ">=",
        got.first,
    )
    unpaid = Evidence(
        "reward_mean",
        f"the reward went from {fmt(got.early)} in its first rows to {fmt(got.late)}: at most {fmt(got.paid)} of its "
        f"range per nat of distance (limit {paid}), and at most {got.gain:.0%} of its range in all (limit "
        f"{limits['leap_gain']})",
        got.paid,
        "of the range per nat",
        got.since,
        paid,
        "<",
        got.early,
    )
    begin = view.first_seen("kl_ref")
    return Finding(
        f"The first updates threw the policy {fmt(got.level)} nats per token from its reference, and the reward went "
        f"from {fmt(got.early)} to {fmt(got.late)} since: healthy runs gain more than that at a shorter distance",
        Action.ADJUST,
        Confidence.MEDIUM,
        Onset(begin, got.steps[1]),
        (thrown, unpaid),
        "leap",
    )


def _spikes(view: View) -> Evidence | None:
    """Return the evidence of repeated gradient spikes, far over the run's own median; None without."""
    steps, values = view.recent("grad_norm")
    if values.size < 2 * course.START_ROWS:
        return None
    middle = stats.median(values)
    over = np.flatnonzero(values > SPIKE * middle) if middle > 0 else np.zeros(0, dtype=int)
    if over.size < 2:
        return None
    top = float(values.max())
    text = (
        f"grad_norm was above {SPIKE:g} times its median {fmt(middle)} at {over.size} rows (first step "
        f"{int(steps[over[0]])}), at most {fmt(top)}"
    )
    return Evidence(
        "grad_norm", text, top / middle, "times", (int(steps[over[0]]), int(steps[over[-1]])), None, "", middle
    )


def _paid(moved: Shift, view: View) -> bool:
    """True when the reward surely gained a material part of its range: a take-off moves everything, and is learning."""
    scale = reward_scale(view)
    return scale.seen and scale.span > 0 and moved.low > MATERIAL_GAIN * scale.span


def _others(view: View, *, paid: bool) -> tuple[Evidence, ...]:
    """Return what else moved by a large factor against its own start.

    Where the jump is paid for, entropy falls and gradients grow out of nothing as groups stop being tied; entropy that
    rises is no part of learning a task.
    """
    out = []
    for metric, factor, both in (("entropy", ENTROPY_MOVED, True), ("grad_norm", GRADIENT_MOVED, False)):
        if not view.has(metric, 2 * course.START_ROWS):
            continue
        level = course.level(view, metric)
        ratio = level.ratio
        if paid and (metric == "grad_norm" or ratio < 1):
            continue
        if np.isfinite(ratio) and (ratio > factor or (both and ratio < 1 / factor)):
            text = f"{metric} went from {fmt(level.start)} at the start to {fmt(level.now)}, {fmt(ratio)} times"
            out.append(Evidence(metric, text, ratio, "times", level.steps, None, "", level.start))
    return tuple(out)


_GROWTH = "docs/measurements.md: KL growth"
_LEAP = "docs/measurements.md: KL leap of the first updates"
CHECK = Check(
    id="K001",
    name="kl-runaway",
    family=Family.LEASH,
    fault="The policy moves away from its reference without settling.",
    why="A level of KL means nothing by itself: it depends on the estimator, on tokens or sequences, and on how long "
    "the run is; 0.0004 to 0.17 made no difference over eleven runs. Healthy KL settles or creeps like the square "
    "root of the step. Growth in proportion to the step or faster, or a jump, is drift; with rising reward and "
    "falling held-out score it is reward hacking. Updates that are too large leap away from the reference at once, and "
    "earn little by it.",
    needs=Needs(all_of=("kl_ref",), rows=40),
    thresholds=(
        Threshold("growth", 0.8, "exponent of the step, lower bound", SourceKind.MEASURED, _GROWTH),
        Threshold("growth_z", 2.2, "one-sided normal quantile", SourceKind.MEASURED, _GROWTH),
        Threshold("rise", 1.3, "times within the window", SourceKind.MEASURED, _GROWTH),
        Threshold("level", 0.01, "nats", SourceKind.MEASURED, _GROWTH),
        Threshold("far", 1, "nats/token", SourceKind.MEASURED, "docs/measurements.md: KL levels (healthy up to 0.65)"),
        Threshold("gain_share", 0.1, "of the reward's range", SourceKind.MEASURED, "docs/measurements.md: KL levels"),
        Threshold("jump_factor", 10, "times the 60 rows before", SourceKind.MEASURED, "docs/measurements.md: KL jump"),
        Threshold("leap", 0.15, "nats/token", SourceKind.MEASURED, _LEAP),
        Threshold("paid", 3, "of the reward's range per nat", SourceKind.MEASURED, _LEAP),
        Threshold("leap_gain", 0.5, "of the reward's range", SourceKind.CONVENTION, "half of what there is to gain"),
        Threshold("leap_place", 0.75, "of the reward's range", SourceKind.CONVENTION, "a quarter is left to gain"),
        companions.REWARD_DROP_Z,
        companions.REWARD_DROP_SHARE,
        companions.HELDOUT_DROP_Z,
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Lower the learning rate", "learning_rate", "lower"),
                Remedy("Make fewer updates per rollout batch", "updates_per_rollout", "lower"),
                Remedy("Raise the KL coefficient", "kl_coef", "raise"),
            ),
            verify=(Verify("KL stops rising over the next 60 steps", "kl_ref", "not rising", None, 60),),
            rollback=Rollback.CURRENT,
        ),
        "worse": Plan(
            remedies=(
                Remedy(
                    "Go on from the checkpoint before KL rose, with a lower learning rate", "learning_rate", "lower"
                ),
                Remedy("Make fewer updates per rollout batch", "updates_per_rollout", "lower"),
                Remedy("Raise the KL coefficient", "kl_coef", "raise"),
            ),
            verify=(Verify("KL stops rising over the next 60 steps", "kl_ref", "not rising", None, 60),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "leap": Plan(
            remedies=(
                Remedy("Go on with a third of the learning rate", "learning_rate", "lower"),
                Remedy("Make fewer updates per rollout batch", "updates_per_rollout", "lower"),
                Remedy("Start again with it where the reward does not rise within 40 steps", "", ""),
            ),
            verify=(Verify("KL does not rise over the next 40 steps", "kl_ref", "not rising", None, 40),),
        ),
        "reward rising": Plan(
            remedies=(
                Remedy(
                    "Evaluate on held-out tasks now: a falling score means that the reward is being hacked", "", "check"
                ),
                Remedy("Read the 20 best-paid rollouts of the last steps", "verifier", "check"),
            ),
            verify=(Verify("the held-out score does not fall", "held-out", "not falling", None, 60),),
        ),
        "reward hacking": Plan(
            remedies=(
                Remedy(
                    "Stop training on this reward; harden the verifier against what the rollouts exploit",
                    "verifier",
                    "set",
                ),
                Remedy("Resume from the checkpoint before the held-out score began to fall", "", ""),
            ),
            verify=(Verify("the held-out score does not fall", "held-out", "not falling", None, 60),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=("H002", "R002", "R010", "R013", "R014", "S001", "L001", "L004", "U002", "E001", "E002", "E003"),
    look_alikes=(
        LookAlike("A high level of KL", "it has settled, or grows like the square root of the step"),
        LookAlike("KL above 1 because training started from another checkpoint", "it was as high in the first rows"),
        LookAlike("KL rises fast in the first rows", "everything grows in proportion at first: judged from 60 rows on"),
        LookAlike("the first updates leap, and learn", "a gain of 3 times the reward's range per nat or more"),
        LookAlike("KL of 1 to 10 as a sum per sequence", "only its growth is judged, not its level"),
        LookAlike(
            "Old policy against new policy (ppo_kl)", "another metric, kl_old_new: not the distance to the reference"
        ),
    ),
    sources=(
        "GRPO health-check runbook: KL to the reference",
        "Why GRPO training fails: KL and drift",
        "docs/measurements.md: KL growth",
    ),
)
