"""S009: groups are tied because their rollouts are copies of one text."""

from __future__ import annotations

import math
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
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks import companions
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.rollout_common import began, certainty, recent, speaks
from rlvitals.view import View

COPIED, TIED, LAW = "rollouts/copied_group_frac", "rollouts/tied_sample_frac", "rollouts/tied_law_frac"
CERTAIN = "rollouts/copied_law_frac"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    copied, tied, law = (recent(view, m) for m in (COPIED, TIED, LAW))
    share = copied.mean / tied.mean if tied.mean > 0 else 0.0
    excess = tied.mean - law.mean if law.n else math.nan
    limit, most, over = limits["copied"], limits["of_tied"], limits["excess"]
    by_law = f", {fmt(law.mean)} by chance at this pass rate" if law.n else ""
    seen = f"{copied.mean:.0%} of the groups are copies of one text, {tied.mean:.0%} are tied{by_law}"
    own = recent(view, CERTAIN)
    if own.n:
        seen += f"; the policy's own probabilities make {own.mean:.0%} of the groups copies"
        more = certainty(copied.values[-own.n :] - own.values[-copied.n :])
        if copied.mean - own.mean <= limit.value or more < limits["z"].value:
            return Clear(f"{seen} ({more:+.1f} standard errors apart); limit {limit} above that")
    explained = not math.isfinite(excess) or excess > over.value
    if copied.mean <= limit.value or share < most.value or not explained:
        return Clear(f"{seen}; limit {limit}")
    shown = view.examples("copies", 3)
    first = speaks(copied, seen, limit, before=began(view, COPIED), examples=shown)
    evidence = [first]
    if math.isfinite(excess):
        text = f"{fmt(tied.mean)} of the groups are tied where chance ties {fmt(law.mean)}"
        evidence.append(speaks(tied, text, over, observed=excess, before=law.mean))
    onset = onset_of(view, COPIED, limit.value, np.inf)
    what = f"{share:.0%} of the tied groups are copies: the sampler gives the same text {fmt(copied.mean)} of the time"
    place = companions.reward_place(view)
    majority = copied.mean > limits["majority"].value and not place >= 0.9
    action = Action.ADJUST if majority else Action.WATCH
    return Fired(Finding(what, action, Confidence.HIGH, onset, tuple(evidence)))


CHECK = Check(
    id="S009",
    name="ties-from-copies",
    family=Family.SIGNAL,
    fault="Groups have no reward difference because their rollouts are one and the same text.",
    why="More tied groups than chance makes at the pass rate can mean prompts that are always or never solved, or a "
    "sampler that gives copies: a fixed seed, temperature near 0, a cached answer. Rewards alone can't tell which; the "
    "texts can. Copies teach nothing whatever the difficulty.",
    needs=Needs(all_of=(COPIED, TIED), rows=5),
    thresholds=(
        Threshold("copied", 0.1, "of groups", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        Threshold("of_tied", 0.5, "of tied groups", SourceKind.DEFINITION, "copies are then the larger part"),
        Threshold("excess", 0.05, "of groups", SourceKind.CONVENTION, "above the finite-group law, a lower bound"),
        Threshold("z", 4, "standard errors", SourceKind.MEASURED, "docs/measurements.md: Rollout checks"),
        Threshold("majority", 0.5, "of groups", SourceKind.DEFINITION, "most groups then teach nothing"),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                Remedy("Check the sampler's seed: each rollout of a prompt needs its own", "", "check"),
                Remedy("Check the temperature that the sampler really uses", "temperature", "check"),
                Remedy("Check that no cache returns the first answer for the same prompt", "", "check"),
            ),
            verify=(Verify("fewer than one group in ten is a group of copies", COPIED, "<", 0.1, 20),),
        ),
    },
    leads_to=("S001", "O002", "S005", "R010"),
    patience=2,
    look_alikes=(
        LookAlike("Prompts that are always or never solved", "the texts of their rollouts differ"),
        LookAlike("A policy that is certain of short answers", "its own probabilities expect as many copies"),
        LookAlike("One-word answers to a solved task are equal", "the reward is near its top: watch at most"),
    ),
    sources=("docs/evidence.md: Finite-group law", "docs/measurements.md: Rollout checks"),
)
