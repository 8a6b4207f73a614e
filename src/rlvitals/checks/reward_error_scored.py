"""R017: verifier failures are scored as if they were answers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.common import fmt, onset_of
from rlvitals.checks.rollout_common import LEAST, began, recent, speaks
from rlvitals.view import View

STATUS, RAW, OPPOSED = "rollouts/error_scored_frac", "rollouts/raw_failure_frac", "rollouts/raw_opposed_frac"
PAID, OTHERS = "rollouts/error_reward_mean", "rollouts/verified_reward_mean"
JUMP = 2  # points of the trace: one between them may hold rows from before and after the failure (definition)
RAW_PAID, RAW_OTHERS = "rollouts/raw_failure_reward_mean", "rollouts/raw_other_reward_mean"


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    seen = []
    for look in (_by_status, _by_verdict, _by_output):
        found = look(view, limits)
        if isinstance(found, Finding):
            return Fired(found)
        seen += [found] if found else []
    return Clear("; ".join(seen))


def _by_status(view: View, limits: Mapping[str, Threshold]) -> Finding | str:
    """Failures that the verifier itself reported and that have a reward."""
    now, limit = recent(view, STATUS), limits["failed_share"]
    if now.n < LEAST:
        return ""
    text = f"{now.mean:.1%} of the rollouts have a reward although their verifier failed or timed out"
    if now.mean < limit.value:
        return f"{text}; limit {limit}"
    paid, others = recent(view, PAID), recent(view, OTHERS)
    credit = paid.n >= LEAST and others.n >= LEAST and paid.mean > others.mean
    shown = view.examples("verifier", 3)
    evidence = [speaks(now, text, limit, ">=", before=began(view, STATUS), examples=shown)]
    if paid.n and others.n:
        evidence.append(_pay(PAID, paid.mean, others.mean, paid.span))
    onset = onset_of(view, STATUS, limit.value, np.inf)
    worth = f"they earn {fmt(paid.mean)}, the others {fmt(others.mean)}" if paid.n and others.n else "as 0 or 1"
    what = f"verifier failures are scored on {now.mean:.0%} of the rollouts: {worth}"
    return Finding(what, Action.FIX, Confidence.HIGH, onset, tuple(evidence), "credit" if credit else "")


def _by_verdict(view: View, limits: Mapping[str, Threshold]) -> Finding | str:
    """Outputs that plainly say right or wrong, and rewards that say the reverse."""
    now, limit = recent(view, OPPOSED), limits["opposed_share"]
    if now.n < LEAST:
        return ""
    text = f"{now.mean:.1%} of the plain verifier outputs say the reverse of the reward"
    if now.mean < limit.value:
        return f"{text}; limit {limit}"
    shown = view.examples("raw-output", 3)
    evidence = speaks(now, text, limit, ">=", before=began(view, OPPOSED), examples=shown)
    onset = onset_of(view, OPPOSED, limit.value, np.inf)
    what = f"{now.mean:.0%} of the rewards say the reverse of what the verifier put out"
    return Finding(what, Action.FIX, Confidence.HIGH, onset, (evidence,), "opposed")


def _by_output(view: View, limits: Mapping[str, Threshold]) -> Finding | str:
    """Outputs that read as a failure of the verifier: a lead, as code that fails is a wrong answer."""
    now, limit = recent(view, RAW), limits["failed_share"]
    if now.n < LEAST:
        return ""
    text = f"{now.mean:.1%} of the verifier outputs read as a failure and have a reward"
    if now.mean < limit.value:
        return f"{text}; limit {limit}"
    paid, others = recent(view, RAW_PAID), recent(view, RAW_OTHERS)
    credit = paid.n >= LEAST and others.n >= LEAST and paid.mean > others.mean
    evidence = [speaks(now, text, limit, ">=", before=began(view, RAW), examples=view.examples("raw-output", 3))]
    if paid.n and others.n:
        evidence.append(_pay(RAW_PAID, paid.mean, others.mean, paid.span))
    onset = onset_of(view, RAW, limit.value, np.inf)
    what = f"{now.mean:.0%} of the verifier outputs read as a failure and are scored all the same"
    if credit:
        return Finding(what, Action.FIX, Confidence.HIGH, onset, tuple(evidence), "credit")
    before = began(view, RAW)
    if now.mean >= limits["all_failed"].value and before < limit.value and _at_once(view):
        text = f"{what}: from hardly any to nearly all at once, so the verifier fails, not the answers"
        return Finding(text, Action.FIX, Confidence.HIGH, onset, tuple(evidence))
    return Finding(what, Action.WATCH, Confidence.LOW, onset, tuple(evidence))


def _at_once(view: View) -> bool:
    """True when the share of failures went from a quarter to three quarters within JUMP points: no policy does that."""
    values = view.trace(RAW).value
    few = np.flatnonzero(values < 0.25)
    most = np.flatnonzero(values[few[-1] :] >= 0.75) if few.size else few
    return bool(most.size and most[0] <= JUMP)


def _pay(metric: str, paid: float, others: float, span: tuple[int, int]) -> Evidence:
    text = f"failures earn {fmt(paid)} on average, the other rollouts {fmt(others)}, over steps {span[0]}-{span[1]}"
    return Evidence(metric, text, paid, "reward", span, before=others)


_NO_REWARD = Remedy("Give a failed verification no reward, and leave the rollout out of its group", "verifier", "set")
CHECK = Check(
    id="R017",
    name="verifier-failure-scored",
    family=Family.REWARD,
    fault="A failure or time-out of the verifier is turned into a reward, as if it were an answer.",
    why="An error says nothing of the answer. Scored as 0 it teaches the policy to avoid what makes the verifier slow; "
    "scored as 1, the credit of a default, it teaches to break the verifier, and a run then reaches full reward "
    "without solving anything.",
    needs=Needs(any_of=(STATUS, RAW, OPPOSED), rows=LEAST),
    thresholds=(
        Threshold(
            "failed_share", 0.05, "of rollouts", SourceKind.PAPER, "prime-rl documentation: errored above 5%, sustained"
        ),
        Threshold(
            "all_failed",
            0.95,
            "of rollouts",
            SourceKind.CONVENTION,
            "nearly every output a failure where hardly any was a moment ago: no policy unlearns every answer at once",
        ),
        Threshold(
            "opposed_share",
            0.02,
            "of plain outputs",
            SourceKind.DEFINITION,
            "right is right; 0.02 covers odd notations",
        ),
    ),
    judge=judge,
    plans={
        "": Plan(
            remedies=(
                _NO_REWARD,
                Remedy("Count verifier failures by exception type and data source", "verifier", "check"),
            ),
            verify=(Verify("no failed verification has a reward", STATUS, "<", 0.01, 30),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "credit": Plan(
            remedies=(
                Remedy("Stop paying for failures: the default of an error must not be a success", "verifier", "set"),
                _NO_REWARD,
                Remedy("Read the rollouts that made the verifier fail: the policy may do it on purpose", "", "check"),
            ),
            verify=(Verify("no failed verification has a reward", STATUS, "<", 0.01, 30),),
            rollback=Rollback.BEFORE_ONSET,
        ),
        "opposed": Plan(
            remedies=(
                Remedy(
                    "Compare raw output and parsed reward of the named rollouts: sign, threshold, parsing",
                    "verifier",
                    "check",
                ),
                Remedy("Repair the step from output to reward", "verifier", "set"),
            ),
            verify=(Verify("rewards agree with the verifier's output", OPPOSED, "<", 0.02, 20),),
            rollback=Rollback.BEFORE_ONSET,
        ),
    },
    leads_to=("R001", "R002", "R006", "R014", "R010", "S001", "H001", "H002", "L002"),
    patience=2,
    look_alikes=(
        LookAlike("Failures without a reward: left out as they should be", "only scored ones count"),
        LookAlike(
            "Code that fails is a wrong answer",
            "a lead, unless failures earn more or nearly all fail at once",
        ),
        LookAlike("Answers that cannot be parsed", "they are answers: parse-failure-high judges them"),
    ),
    sources=("docs/evidence.md: What no curve shows", "verl PR#5635", "Why GRPO training fails: reward extraction"),
)
