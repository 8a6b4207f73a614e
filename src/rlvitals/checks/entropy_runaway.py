"""E002: entropy has left the run's own start upwards by more than a factor of three and more than one nat."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
    LookAlike,
    Needs,
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
from rlvitals.checks.common import fmt, now, shift, start
from rlvitals.view import View

FEW_ROWS = 20  # below this the rise must also be monotone beyond doubt
FEW_ROWS_Z = 2.3
NEAR_LOWEST = 1.25  # times its lowest stretch: where a rise begins (convention)
LOST = {"truncated_frac": "cut at the token budget", "parse_failure_frac": "unreadable"}
LOST_ROWS = 20  # newest rows, as L001 looks at
NOT_YET = 0.5  # of its share now: at the start it was at most this (convention)
LOWEST_ROWS, LOWEST_PARTS = 5, 8  # that stretch: rows at least, and the part of all rows before that it takes


def ceiling(start: float, limits: Mapping[str, Threshold]) -> float:
    """Return the entropy above which a run that started at `start` has run away, nats/token."""
    return max(limits["factor"].value * start, start + limits["rise_nats"].value)


def has_run_away(view: View, limits: Mapping[str, Threshold]) -> bool:
    """True when entropy now is beyond the run's own ceiling."""
    level = course.level(view, "entropy")
    return level.now > ceiling(level.start, limits)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    level = course.level(view, "entropy")
    top = ceiling(level.start, limits)
    seen = (
        f"entropy is {fmt(level.now)} nats/token over steps {level.first}-{level.last}, "
        f"{fmt(level.ratio)} times its start {fmt(level.start)}"
    )
    if not level.now > top:
        return Clear(f"{seen}; the limit is {fmt(top)}")
    if level.rows < FEW_ROWS and not _monotone(view):
        return Clear(f"{seen}, but {level.rows} values without a steady rise do not prove it")
    limit = limits["factor"] if limits["factor"].value * level.start >= top else limits["rise_nats"]
    first = Evidence(
        "entropy",
        f"entropy rose from {fmt(level.start)} nats/token at the start to {fmt(level.now)} over steps "
        f"{level.first}-{level.last}; the limit is {fmt(top)}: {limit}",
        level.now,
        "nats/token",
        level.steps,
        limit,
        ">",
        level.start,
    )
    return Fired(_finding(view, level, top, first, limits))


def _monotone(view: View) -> bool:
    _, values = view.recent("entropy")
    i, j = np.triu_indices(values.size, 1)
    score = float(np.sign(values[j] - values[i]).sum())
    n = values.size
    return score / np.sqrt(n * (n - 1) * (2 * n + 5) / 18) > FEW_ROWS_Z if n > 3 else False


def _finding(view: View, level: course.Level, top: float, first: Evidence, limits: Mapping[str, Threshold]) -> Finding:
    onset = _rise(view, level.start, top)
    rose = f"entropy ran away: {fmt(level.start)} to {fmt(level.now)} nats/token since {onset}"
    worse = companions.worse(view) or (companions.reward_fell(view, plain=True) if level.now > 2 * top else ())
    if worse:
        text = f"{rose}, and the policy got worse"
        return Finding(text, Action.ADJUST, Confidence.HIGH, onset, (first, *worse), "worse")
    lost = _lost(view, limits["lost_share"])
    if lost:
        shares = " and ".join(f"{e.observed:.0%} {LOST[e.metric]}" for e in lost)
        text = f"{rose}, and of the completions {shares}"
        return Finding(text, Action.ADJUST, Confidence.HIGH, onset, (first, *lost), "lost")
    text = f"{rose}; {companions.reward_words(view)}"
    return Finding(text, Action.WATCH, Confidence.MEDIUM, onset, (first,))


def _lost(view: View, limit: Threshold) -> tuple[Evidence, ...]:
    """Return the evidence that many completions came to nothing since the start, with a reward seen not to rise."""
    reward = shift(view, "reward_mean")
    if not math.isfinite(reward.high) or reward.low > 0:
        return ()
    out = []
    for metric in LOST:
        share, began = now(view, metric, LOST_ROWS), start(view, metric)
        if share.n >= LOST_ROWS and share.mean >= limit.value and began <= NOT_YET * share.mean:
            text = (
                f"{metric} went from {fmt(began)} at the start to {fmt(share.mean)} over steps "
                f"{share.steps[0]}-{share.steps[1]}; limit {limit}"
            )
            out.append(Evidence(metric, text, share.mean, "fraction", share.steps, limit, ">=", began))
    return tuple(out)


def _rise(view: View, start: float, top: float) -> Onset:
    """Return the interval from where entropy last was near its lowest to where it passed `top` for good.

    What the rise did to the policy shows long before entropy, which falls at first in a run that learns, has passed a
    limit that no healthy run reaches.
    """
    passed = course.entered(view, "entropy", start, top)
    trace = view.trace("entropy", center="median")
    before = course.smoothed(trace.value[trace.last <= passed.last])
    if before.size < LOWEST_ROWS:
        return passed
    width = max(LOWEST_ROWS, before.size // LOWEST_PARTS)  # one low value in a noisy series is not its lowest stretch
    lowest = float(np.convolve(before, np.full(width, 1 / width), mode="valid").min())
    near = np.flatnonzero(before <= NEAR_LOWEST * lowest)
    return Onset(min(int(trace.first[near[-1]]), passed.first), passed.last)


def rising(view: View, z: float) -> stats.Trend:
    """Return the trend of log entropy over the last third of the run (40 to 160 rows), per row."""
    _, values = view.recent("entropy")
    width = int(min(max(40, view.count("entropy") // 3), 160, values.size))
    logs = np.log(np.maximum(values[-width:], course.TINY))
    x, y = stats.blocks(np.arange(width, dtype=float), logs, course.FORECAST_POINTS)
    found = stats.careful_trend(x, y, z)
    return stats.NO_TREND if found.rising and course.settling(x, y) else found


REMEDIES = (
    Remedy("Set the entropy bonus to zero", "entropy_coef", "lower"),
    Remedy("Lower the upper clip bound towards the lower one", "clip_high", "lower"),
    Remedy("Check for a loss term that acts without reward: summed or k1 KL used as a loss", "kl_coef", "check"),
    Remedy("Lower the learning rate", "learning_rate", "lower"),
)
VERIFY = (Verify("entropy falls back over the next 40 steps", "entropy", "not rising", None, 40),)

CHECK = Check(
    id="E002",
    name="entropy-runaway",
    family=Family.ENTROPY,
    fault="The policy is drifting towards random text: its entropy is far above where this run started.",
    why="A rise by more than a factor of three and one nat was seen in no healthy reference run; "
    "left alone it ends in gibberish. "
    "A slow rise is intended with a raised upper clip bound, as long as it stays below about one nat and settles. "
    "Common causes: an entropy bonus, a KL or loss term that only pushes sampled tokens down, sampling at other "
    "settings than the trainer assumes.",
    needs=Needs(all_of=("entropy",), rows=6),
    thresholds=(
        Threshold(
            "factor", 3, "times the run's own start", SourceKind.MEASURED, "docs/measurements.md: Entropy runaway"
        ),
        Threshold(
            "rise_nats", 1, "nats/token above the start", SourceKind.MEASURED, "docs/measurements.md: Entropy runaway"
        ),
        Threshold("lost_share", 0.25, "of completions", SourceKind.MEASURED, "docs/measurements.md: Entropy runaway"),
        companions.REWARD_DROP_Z,
        companions.BESIDE_PLAIN,
        companions.REWARD_DROP_SHARE,
        companions.HELDOUT_DROP_Z,
    ),
    judge=judge,
    plans={
        "": Plan(remedies=REMEDIES, verify=VERIFY, rollback=Rollback.CURRENT),
        "worse": Plan(remedies=REMEDIES, verify=VERIFY, rollback=Rollback.BEFORE_ONSET),
        "lost": Plan(remedies=REMEDIES, verify=VERIFY, rollback=Rollback.CURRENT),
    },
    leads_to=(
        "E003",
        "E004",
        "K001",
        "R002",
        "R004",
        "R014",
        "L001",
        "L002",
        "L004",
        "O002",
        "H002",
        "U002",
        "Y002",
        "Y003",
    ),
    look_alikes=(
        LookAlike("Entropy rises with clip-higher", "it stays below one nat above the start and settles"),
        LookAlike("Single spikes", "the median of the last nine values stays low"),
        LookAlike("Another run of the same model shows a lower entropy", "only this run's own start counts"),
    ),
    sources=("docs/measurements.md: Entropy runaway", "arXiv 2503.14476", "rllm#116"),
)
