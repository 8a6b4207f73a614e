"""What was asked of the checks before they were scored, beside what came out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rlvitals.lab.figures import Middle, Share
from rlvitals.lab.kept import Kept
from rlvitals.lab.score import LONG, HealthyScore, LayoutScore, healthy_score, layout_score, layouts_of

NAMED_OWN, NAMED_TRL = 0.95, 0.85  # shares of harmful runs (asked for before anything was scored)
ALARMS = 1.0  # false alarms per 10,000 healthy steps
HEALTHY_STEPS, LONG_RUNS = 60_000, 20
DELAY_INVARIANT, DELAY_TREND = 10, 30  # steps, medians
ROLLBACK = 0.90
CAUSE = "root cause (or its direct sign) first"


@dataclass(frozen=True, slots=True)
class Target:
    """One thing asked for, what was found, and whether it was met ("" when nothing could be judged)."""

    asked: str
    found: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "met", False: "not met", None: "not run"}[self.met]


def targets(kept: Kept) -> list[Target]:
    """Return every target with its figure; a target without any run is neither met nor missed."""
    layouts = layouts_of(kept)
    out: list[Target] = []
    if "own" in layouts:
        own = layout_score(kept, "own")
        out += [
            _named(f"{CAUSE} in at least {NAMED_OWN:.0%} of harmful faults, own log", own, NAMED_OWN),
            _delay(f"median delay at most {DELAY_INVARIANT} steps, invariants", own.delay_invariant, DELAY_INVARIANT),
            _delay(f"median delay at most {DELAY_TREND} steps, trends", own.delay_trend, DELAY_TREND),
            *_rollback(own),
            _alarms(healthy_score(kept, "own")),
        ]
    if "trl" in layouts:
        text = f"{CAUSE} in at least {NAMED_TRL:.0%} of the faults visible in TRL's log"
        out.insert(1, _named(text, layout_score(kept, "trl"), NAMED_TRL))
    return out


def _named(asked: str, found: LayoutScore, least: float) -> Target:
    """Return the target as asked, the stricter figure beside it."""
    plain = _share(asked, found.named, least)
    return replace(plain, found=f"{plain.found}; the cause itself: {found.exact}") if found.named.of else plain


def _share(asked: str, found: Share, least: float) -> Target:
    return Target(asked, str(found), found.value >= least if found.of else None)


def _delay(asked: str, found: Middle, most: float) -> Target:
    return Target(asked, str(found), None if math.isnan(found.median) else found.median <= most)


def _rollback(own: LayoutScore) -> list[Target]:
    """Return the target against the first broken step, as asked, and against the damage beside it."""
    asked = f"rollback target at or before the first broken step in at least {ROLLBACK:.0%}"
    onset = _share(asked, own.at_onset, ROLLBACK)
    late = f"{onset.found}; of runs that break after their first step: {own.at_late_onset}"
    return [
        replace(onset, found=late) if own.at_late_onset.of else onset,
        _share(f"rollback target at or before the damage in at least {ROLLBACK:.0%}", own.rollback, ROLLBACK),
    ]


def _alarms(found: HealthyScore) -> Target:
    steps, long = found.alarms.steps, found.long_runs.of
    asked = (
        f"at most {ALARMS:g} false alarm per 10,000 steps, over at least {HEALTHY_STEPS:,} healthy steps and "
        f"{LONG_RUNS} runs of {LONG:,} steps"
    )
    said = f"{found.alarms}; {long} such runs"
    if not steps:
        return Target(asked, said, None)
    lacking = [] if found.alarms.value <= ALARMS else [f"more than {ALARMS:g} per 10,000 steps"]
    if steps < HEALTHY_STEPS:
        lacking.append(f"{steps:,} of the {HEALTHY_STEPS:,} steps")
    if long < LONG_RUNS:
        lacking.append(f"{long} of the {LONG_RUNS} runs")
    return Target(asked, f"{said}; what is not met: {', '.join(lacking)}" if lacking else said, not lacking)
