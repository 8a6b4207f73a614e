"""H001: the training reward rises and the held-out score does not follow."""

from __future__ import annotations

from collections.abc import Mapping

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
    NoData,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, relative_z, shift
from rlvitals.checks.held import Transfer, drop, train_gain, trained_on, transfers
from rlvitals.checks.scale import reward_scale
from rlvitals.view import Held, View

FALL_EVALS = 10  # evaluations from which a trend over the whole run is judged (convention)
OF_TASKS = ("reward_part/", "reward_family/", "rollouts/reward_family/")  # what training logs of one task by its name


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    least, looked, worst, fell = limits["train_gain"].value, [], None, None
    for name, held in sorted(view.evals.items()):
        metric = trained_on(view, name)
        strict = transfers(view, held, z=limits["z_act"].value, metric=metric)
        loose = transfers(view, held, z=limits["z_watch"].value, metric=metric)
        if not loose:
            continue
        looked.append(name)
        falling = _falling(name, view, held, limits)
        if falling is not None:
            return falling
        hit = [t for t in strict if t.evals >= 4 and t.below(limits["ratio_act"].value, least)]
        if hit:
            return _fired(view, name, hit[0], limits["ratio_act"], Action.STOP)
        if strict and loose[0].train_low > 0 and _fell(held, strict[0], limits):  # beside a gain below `least`
            fell = fell or _fired(view, name, strict[0], limits["held_fall"], Action.ADJUST)
        soft = [t for t in loose if t.below(limits["ratio_watch"].value, least)]
        if soft and worst is None:
            worst = _fired(view, name, soft[0], limits["ratio_watch"], Action.WATCH)
    found = fell or worst
    if found is not None:
        return found
    if not looked:
        return NoData(("held-out",), "too few held-out scores with a known error beside a reward within its range")
    name = looked[0]
    longest = transfers(view, view.evals[name], z=limits["z_watch"].value, metric=trained_on(view, name))[0]
    return Clear(
        f"over steps {longest.first} to {longest.last} training gained {longest.train:+.2f} and held-out {name} "
        f"{longest.held:+.2f} of their ranges (held-out at most {longest.held_high:+.2f}; limit "
        f"{limits['ratio_watch'].value:.0%} of the training gain, where that is above {least:.2f})"
    )


def _falling(name: str, view: View, held: Held, limits: Mapping[str, Threshold]) -> Fired | None:
    """Fire when held-out dropped clearly from its best while the training reward rose and did not fall with it."""
    fall, limit = drop(held), limits["z_drop"]
    if fall is None or not fall.z > limit.value:
        return None
    scale, last = reward_scale(view), int(held.step[-1])
    metric = trained_on(view, name)
    since = train_gain(view, float(fall.best_step), float(last), limit.value, metric)
    if since is None or scale.span <= 0:
        return None
    if not (since.low > 0 or relative_z(shift(view, metric, z=limit.value)) > limit.value):
        return None  # neither over the steps of the fall nor over the whole run
    lost = (fall.best - fall.last) / (1.0 if held.metric == "accuracy" else scale.span)
    moved = since.difference / scale.span
    if moved < -limits["ratio_watch"].value * lost:
        return None  # both fell: a setback of the policy, not of the measure
    steps = (fall.best_step, last)
    return Fired(
        Finding(
            f"Training reward rose and held-out {name} fell ({fmt(fall.best)} to {fmt(fall.last)}): "
            f"{_causes(view, name)}",
            Action.STOP,
            Confidence.HIGH,
            Onset(fall.best_step, max(fall.first_low_step, fall.best_step)),
            (
                Evidence(
                    f"held-out/{name}",
                    f"held-out {name} averaged {fmt(fall.best)} in its best two evaluations (up to step "
                    f"{fall.best_step}) and {fmt(fall.last)} in the last ones, lower since step {fall.first_low_step}: "
                    f"z {fall.z:.1f} (limit {limit})",
                    fall.z,
                    "standard errors",
                    steps,
                    limit,
                    ">",
                    fall.best,
                ),
                Evidence(
                    metric,
                    f"over the same steps the training reward went from {fmt(since.early)} to {fmt(since.late)} "
                    f"({moved:+.2f} of its range {fmt(scale.low)} to {fmt(scale.high)}, from {scale.source})",
                    moved,
                    "of range",
                    steps,
                    limits["ratio_watch"],
                    ">",
                    since.early,
                ),
            ),
            "falling",
        )
    )


def _fell(held: Held, whole: Transfer, limits: Mapping[str, Threshold]) -> bool:
    """True when held-out surely fell over the whole run by a share of its range, where that range is known."""
    known = held.metric == "accuracy" or whole.scale.seen  # the spread of step means is no range
    return known and whole.evals >= FALL_EVALS and whole.held_high < limits["held_fall"].value


def _causes(view: View, name: str) -> str:
    """Return what may be behind it: forgetting too, unless training logs a task of that very name."""
    if any(view.has(f"{of}{name}", 1) for of in OF_TASKS):
        return "reward hacking, leakage or overfitting"
    return "reward hacking, leakage or overfitting, or another data set that is being forgotten"


def _fired(view: View, name: str, t: Transfer, limit: Threshold, action: Action) -> Fired:
    held = view.evals[name]
    first, last = held.score[held.step >= t.first][0], held.score[-1]
    sure = {Action.STOP: Confidence.HIGH, Action.ADJUST: Confidence.MEDIUM}
    return Fired(
        Finding(
            f"Training reward rose and held-out {name} did not follow ({fmt(float(first))} to {fmt(float(last))}): "
            f"{_causes(view, name)}",
            action,
            sure.get(action, Confidence.LOW),
            Onset(t.first, int(held.step[held.step > t.first][0])),
            (
                Evidence(
                    f"held-out/{name}",
                    f"over steps {t.first} to {t.last} ({t.evals} evaluations) training gained {t.train:+.2f} of its "
                    f"range and held-out {name} {t.held:+.3f}; at most {t.held_high:+.3f}, against at least "
                    f"{t.train_low:+.3f} in training (limit {limit})",
                    t.held_high,
                    "of range",
                    (t.first, t.last),
                    limit,
                    "<",
                    float(first),
                ),
                Evidence(
                    "reward_mean",
                    f"the training reward gained {t.train:+.2f} of its range {fmt(t.scale.low)} to {fmt(t.scale.high)} "
                    f"(from {t.scale.source}) over the same steps",
                    t.train,
                    "of range",
                    (t.first, t.last),
                ),
            ),
            "fell beside a small gain" if action is Action.ADJUST else "flat",
        )
    )


CHECK = Check(
    id="H001",
    name="heldout-not-following",
    family=Family.HELD_OUT,
    fault="The training reward rises while the held-out score stays flat or falls.",
    why="The policy is learning the quirks of the training reward or of the training tasks, not the capability. This "
    "is the one fault that training metrics alone cannot show; every further step makes it worse.",
    needs=Needs(all_of=("held-out", "reward_mean"), rows=3),
    thresholds=(
        Threshold(
            "train_gain", 0.08, "of the reward range", SourceKind.MEASURED, "docs/measurements.md: transfer ratio"
        ),
        Threshold(
            "ratio_act",
            0.1,
            "of the training gain",
            SourceKind.MEASURED,
            "docs/measurements.md: transfer ratio, page level",
        ),
        Threshold(
            "ratio_watch", 0.25, "of the training gain", SourceKind.MEASURED, "docs/measurements.md: transfer ratio"
        ),
        Threshold(
            "held_fall",
            -0.05,
            "of range",
            SourceKind.MEASURED,
            "docs/measurements.md: Held-out falls beside a reward that rises",
        ),
        Threshold("z_act", 2.6, "standard errors", SourceKind.MEASURED, "docs/measurements.md: held-out drop"),
        Threshold("z_drop", 3.5, "standard errors", SourceKind.MEASURED, "docs/measurements.md: held-out drop"),
        Threshold("z_watch", 1.96, "standard errors", SourceKind.MEASURED, "docs/measurements.md: transfer ratio"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Stop: each further step trains a worse policy", "", ""),
                Remedy(
                    "Read high-scoring training rollouts and probe the verifier with wrong answers", "verifier", "check"
                ),
                Remedy("Check the split: the same or near-identical tasks in training and evaluation", "", "check"),
                Remedy("Resume from a checkpoint before the scores parted, with reward or split repaired", "", ""),
                Remedy(
                    "If that score is of another data set than the one trained on, it is being forgotten: mix its "
                    "tasks in, or hold the policy closer to the reference",
                ),
            ),
            verify=(Verify("the held-out score does not fall", "held-out", "not falling", None, 100),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "fell beside a small gain": Plan(
            remedies=(
                Remedy("Look whether the held-out tasks are the ones trained on, or another data set", "", "check"),
                Remedy(
                    "If they are another data set, it is being forgotten: mix its tasks in, or hold the policy closer "
                    "to the reference",
                ),
                Remedy(
                    "If they are the same tasks, read high-scoring training rollouts and probe the verifier with wrong "
                    "answers",
                    "verifier",
                    "check",
                ),
            ),
            verify=(Verify("held-out stops falling", "held-out", "not falling", None, 100),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=("H002", "H003", "R001", "R009", "S001", "S005", "K001", "E001", "E002", "L001", "L002", "L003", "L004"),
    patience=2,
    look_alikes=(
        LookAlike("a small held-out set that wobbles", "its standard error widens the bound"),
        LookAlike("both are at their plateau", "the training reward has not gained"),
        LookAlike("held-out gains less than training but gains", "the bound exceeds a quarter of the training gain"),
        LookAlike(
            "another data set that is being forgotten, beside a training reward that hardly gains",
            "asked to look at it, not to stop",
        ),
    ),
    sources=("docs/measurements.md: Transfer ratio", "GRPO health-check runbook: held-out evaluation"),
)
