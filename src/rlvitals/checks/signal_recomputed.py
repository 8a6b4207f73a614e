"""S008: the advantages are not those that the rewards of each group give."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Family,
    Finding,
    Fired,
    LookAlike,
    Needs,
    NoData,
    NotApplicable,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import onset_of
from rlvitals.checks.rollout_common import Recent, recent, speaks
from rlvitals.checks.signal_common import GROUP_BASELINE
from rlvitals.view import View

PREFIX = "rollouts/advantage_match/"
WORDS: Mapping[str, str] = {
    "group_z_ddof0": "centred by group and scaled by its standard deviation (n)",
    "group_z_ddof1": "centred by group and scaled by its standard deviation (n - 1)",
    "centred_only": "centred by group and not scaled",
    "leave_one_out": "the reward minus the mean of the others of its group",
    "batch_scaled": "centred by group and scaled by the batch's standard deviation",
    "batch_baseline": "centred by the mean of the whole batch, not of the group",
    "uncentred": "the reward times a constant: no baseline is subtracted",
    "sign_flipped": "of the opposite sign: rewarded rollouts are pushed down",
    "merged_groups": "centred by a mean over several groups: prompts are merged",
    "misordered": "the right values on the wrong rollouts of their group",
    "shifted": "those of other rows: rewards and advantages are shifted against each other",
    "all_zero": "all 0 although the rewards differ: each rollout is a group of its own, or advantages are lost",
    "other_reward": "made of another reward than the dumped one",
}
SCALING: Mapping[str, tuple[str, ...]] = {
    "group": ("group_z_ddof0", "group_z_ddof1"),
    "batch": ("batch_scaled", "batch_baseline"),
    "none": ("centred_only", "leave_one_out"),
}
PLAIN = (
    "sign_flipped",
    "misordered",
    "shifted",
    "merged_groups",
    "all_zero",
)  # wrong whatever the estimator is meant to be


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    estimator = (view.config.advantage_estimator or "").lower()
    if (estimator and estimator not in GROUP_BASELINE) or view.config.algorithm in ("ppo", "reinforce"):
        return NotApplicable(f"{estimator or view.config.algorithm} advantages are not relative to a group")
    found = {n: recent(view, PREFIX + n) for n in WORDS if view.has(PREFIX + n)}
    groups = _groups(view, found)
    enough, most = limits["groups"], limits["share"]
    if groups < enough.value:
        return NoData((PREFIX,), f"{groups:.0f} groups with reward differences; {enough.value:.0f} are needed")
    best = max(found, key=lambda n: found[n].mean)
    share = found[best].mean
    seen = f"the advantages of {share:.0%} of {groups:.0f} groups are {WORDS[best]}"
    if share < most.value:
        return Clear(f"{seen}; no reading fits {most.value:.0%} of the groups")
    wanted = SCALING.get(view.config.advantage_scaling or "", ())
    if best in PLAIN or best == "uncentred":
        return Fired(_finding(view, found[best], best, seen, most, Action.FIX))
    if best == "other_reward":
        return Fired(_finding(view, found[best], best, seen, most, Action.WATCH))
    fits = max((found[n].mean for n in wanted if n in found), default=1.0)
    if wanted and fits < 1 - most.value:
        text = f"{seen}, and the config says scaling by {view.config.advantage_scaling}"
        return Fired(_finding(view, found[best], "scaling", text, most, Action.WATCH))
    return Clear(f"{seen}, as recomputed from the rewards; limit {most}")


def _groups(view: View, found: Mapping[str, Recent]) -> float:
    count = recent(view, "rollouts/advantage_groups")
    return float(count.values.sum()) if found and count.n else 0.0


def _finding(view: View, now: Recent, variant: str, text: str, limit: Threshold, action: Action) -> Finding:
    evidence = speaks(now, text, limit, ">=")
    confidence = Confidence.HIGH if action is Action.FIX else Confidence.MEDIUM
    return Finding(text, action, confidence, onset_of(view, now.metric, limit.value, np.inf), (evidence,), variant)


CHECK = Check(
    id="S008",
    name="advantages-differ",
    family=Family.SIGNAL,
    fault="The advantages that were used are not those that the rewards of each group give.",
    why="Merged, shifted or misordered groups, a missing baseline and a flipped sign all leave the batch mean of the "
    "advantages at 0 and their spread at 1, so that no curve shows them. Within a group every usual advantage is a "
    "straight line in the reward, whose slope and mean tell how it was made.",
    needs=Needs(all_of=("rollouts/advantage_groups",), rows=3),
    thresholds=(
        Threshold("share", 0.6, "of groups", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        Threshold("groups", 20, "groups", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Recompute the advantages of one step from its rewards, by prompt id, and compare", "", "check"),
                Remedy("Repair the grouping: rewards, prompts and advantages must keep the same order", "", "set"),
            ),
            verify=(Verify("the advantages equal the recomputed ones", PREFIX + "group_z_ddof1", ">", 0.9, 10),),
        ),
        "uncentred": Plan(
            remedies=(Remedy("Subtract the mean of each prompt's group from its rewards", "", "set"),),
            verify=(Verify("the mean advantage is 0 within 0.02", "rollouts/advantage_mean", "<", 0.02, 10),),
        ),
        "sign_flipped": Plan(
            remedies=(Remedy("Turn the sign of the advantage, or of the loss, around", "", "set"),),
            verify=(Verify("the reward no longer falls", "reward_mean", "not falling", None, 30),),
        ),
        "other_reward": Plan(
            remedies=(
                Remedy(
                    "Find what is added to the reward before the advantage: length, KL or format terms", "", "check"
                ),
            ),
            verify=(Verify("the advantages equal the recomputed ones", PREFIX + "other_reward", "<", 0.5, 10),),
        ),
        "scaling": Plan(
            remedies=(Remedy("Set the scaling of the advantages that you mean", "advantage_scaling", "set"),),
            verify=(Verify("the advantages are scaled as configured", "", "", None, 10),),
        ),
    },
    leads_to=("S003", "R010", "R014", "E002", "U001", "U002", "U007", "K001", "H002"),
    patience=2,
    look_alikes=(
        LookAlike("Another usual normalisation or ddof", "recognised and named: it is no fault"),
        LookAlike("Groups of two with 0/1 rewards fit several readings", "all of them are usual ones"),
        LookAlike("A length penalty inside the advantage", "a noisy line, not a crossed one: watch"),
    ),
    sources=(
        "docs/evidence.md: What no curve shows",
        "NeMo-RL PR#3882",
        "AReaL PR#1454",
        "docs/measurements.md: Rollout checks",
    ),
)
