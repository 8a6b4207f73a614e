"""One plan without contradictions: the standing first step, then the remedies of the causes in their order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rlvitals.auditresults import Leakage, Preflight, Probe, Score, newest
from rlvitals.check import Check, Family, Remedy, Verdict
from rlvitals.diagnosis import BlindSpot, Cause, HeldBack, PlanStep
from rlvitals.view import View

VERIFY_THE_VERIFIER = (
    "Verify the verifier: score 20 rollouts by hand and compare them one by one with the logged rewards; "
    "gold answers must score full marks, wrong and empty ones nothing."
)
MIN_ROWS = 20  # usable steps below which nothing is ever called healthy (docs/design.md, "From outcomes to one answer")
SPARSE = 1.5  # rows per row with a reward from which that is said
ROUNDING = 1e-9  # of a number of rows
SAID_TOGETHER = 4  # metrics that one line brings
MAX_LINES = 6  # of what to log: the next ones wait until these are there
DECIDE = ("reward_mean", "zero_variance_frac", "reward_std", "advantage_std", "entropy", "kl_ref", "grad_norm",
          "length_mean", "truncated_frac")  # fmt: skip
"""What most checks need, so it is asked for first."""
OPPOSITE = {"raise": "lower", "lower": "raise"}
UPSTREAM_OF_LEASH = (Family.TASK, Family.REWARD, Family.SIGNAL, Family.ROLLOUT, Family.LENGTH)
LEASH_KNOBS = frozenset({"kl_coef"})


def make_plan(
    causes: Sequence[Cause],
    by_id: Mapping[str, Check],
    view: View,
    blind: Sequence[BlindSpot],
    verdict: Verdict,
) -> tuple[tuple[PlanStep, ...], tuple[HeldBack, ...]]:
    """Return the plan and what was held back from it.

    Remedies of consequences are left out: they go away with their cause. A remedy that moves a setting against an
    upstream one is held back, and so is any change of the KL coefficient while reward, signal, rollouts or length
    are not cleared.
    """
    more = log_more(blind, view) if verdict is Verdict.CANNOT_SAY else ()
    if not causes:
        return more, ()
    steps = [*more, PlanStep(first_step(view))]
    held: list[HeldBack] = []
    moved: dict[str, dict[str, str]] = {}  # setting -> "raise" or "lower" -> the first cause that asks for it
    said: set[str] = set()
    upstream = next((c for c in causes if by_id[c.id].family in UPSTREAM_OF_LEASH), None)
    for cause in causes:
        plan = by_id[cause.id].plan(cause.finding.variant)
        verify = plan.verify  # shown with the cause's first step, whichever that is
        for remedy in plan.remedies:
            reason = _refusal(remedy, cause, moved, upstream)
            if reason:
                held.append(HeldBack(_worded(remedy, view), cause.id, reason))
                continue
            moves = moved.setdefault(remedy.knob, {}) if remedy.knob and remedy.move in OPPOSITE else {}
            if remedy.text in said or moves.setdefault(remedy.move, cause.name) != cause.name:
                continue  # an upstream cause already asks for the same
            said.add(remedy.text)
            steps.append(PlanStep(_worded(remedy, view), cause.id, _knob(remedy, view), remedy.move, verify))
            verify = ()
    return tuple(steps), tuple(held)


def first_step(view: View) -> str:
    """Return the standing first step, with what no audit has looked at yet and what was verified."""
    probed, scored = newest(view.audits, Probe), newest(view.audits, Score)
    if probed and scored:
        verified = (
            f"Verify the verifier: probed on {probed[0].made.at[:10]}, {scored[0].scored} trajectories scored by hand "
            f"on {scored[0].made.at[:10]}; once more if the reward function or the answer format has changed since."
        )
    else:
        how = " and ".join(
            command
            for command, done in (("rlvitals audit score", scored), ("rlvitals audit probe", probed))
            if not done
        )
        verified = f"{VERIFY_THE_VERIFIER} The verifier is unverified: {how}."
    open_ = [
        f"{what}: rlvitals {command}"
        for what, command, done in (
            ("learnability unknown", "preflight", newest(view.audits, Preflight)),
            ("leakage unchecked", "audit leakage", newest(view.audits, Leakage)),
        )
        if not done
    ]
    return f"{verified} {'; '.join(open_).capitalize()}." if open_ else verified


def _refusal(remedy: Remedy, cause: Cause, moved: Mapping[str, Mapping[str, str]], upstream: Cause | None) -> str:
    if remedy.knob in LEASH_KNOBS and upstream is not None:
        return f"the KL coefficient comes only after {upstream.name} is cleared"
    owner = moved.get(remedy.knob, {}).get(OPPOSITE.get(remedy.move, ""), "")
    return f"contradicts the step for {owner}, which comes first" if owner else ""


def _knob(remedy: Remedy, view: View) -> str:
    return view.trainer.knob(remedy.knob) if remedy.knob else ""


def _worded(remedy: Remedy, view: View) -> str:
    """Return the remedy with the trainer's own name of the setting after it, where that says more."""
    knob = _knob(remedy, view)
    return f"{remedy.text} [{knob}]" if knob and knob not in remedy.text else remedy.text


def log_more(blind: Sequence[BlindSpot], view: View) -> tuple[PlanStep, ...]:
    """Return what to log where a log cannot tell, in whole sentences and this trainer's own words."""
    lines = view.trainer.how_to_log
    missing = dict.fromkeys(m for spot in blind for m in spot.missing)
    told = [m for m in (*(m for m in DECIDE if m in missing), *missing) if m in lines]
    said = [*_rows_wanted(view), *_evaluation_wanted(view)]
    by_line: dict[str, list[str]] = {}
    for metric in dict.fromkeys(told):
        by_line.setdefault(lines[metric], []).append(metric)
    said += [_sentence(", ".join(metrics[:SAID_TOGETHER]), line) for line, metrics in by_line.items()]
    return tuple(PlanStep(text) for text in said[:MAX_LINES])


def _rows_wanted(view: View) -> tuple[str, ...]:
    """Say how to come to rows enough: a row for every step where steps are left out, else more steps."""
    there, steps = view.count("reward_mean"), view.steps_of()
    if there == 0 or there >= MIN_ROWS:
        return ()
    apart = int(np.median(np.diff(steps))) if steps.size > 1 else 1
    every = _reward_every(view)
    sparse = f", one row in {every:.1f}".removesuffix(".0") if every >= SPARSE else ""
    wanted = f"{there} {'row has' if there == 1 else 'rows have'} a reward{sparse}, and {MIN_ROWS} are needed."
    if apart > 1:
        knob = view.trainer.knobs.get("logging_steps", "")
        how = f" ({knob}{' ' if knob.startswith('-') else '='}1)" if knob else ""
        return (f"Log every step{how}: this log has one row per {apart} steps; {wanted}",)
    more = math.ceil((MIN_ROWS - there) * every - ROUNDING)
    return (f"Let it train for {more} more step{'s' * (more > 1)}: {wanted}",)


def _reward_every(view: View) -> float:
    """Return how many rows come per row with a reward, from the first of them on: 1 where every row has one."""
    at = np.flatnonzero(np.isfinite(view.rows_of("reward_mean")))
    if at.size > 1:
        return float(at[-1] - at[0]) / (at.size - 1)
    return view.rows / view.count("reward_mean")


def _evaluation_wanted(view: View) -> tuple[str, ...]:
    """Say how to get a held-out score where there is none."""
    if any(held.step.size for held in view.evals.values()):
        return ()
    how = view.trainer.how_to_log.get("evals", "score the same items every few steps and log the accuracy")
    return (f"Evaluate on items that are never trained on: {_ended(how)}",)


def _sentence(metric: str, line: str) -> str:
    """Return one line of an adapter as a sentence about the metrics that it brings."""
    if line.startswith("always logged"):
        name = line.removeprefix("always logged").removeprefix(" as ")
        written = f"this trainer always writes it{' as ' if name else ''}{name}"
        return _ended(f"Keep {metric} in the log: {written}, and what was read lacks it")
    if line.startswith("logged "):
        return _ended(f"Log {metric}: it is {line}")
    return _ended(f"Log {metric}: {line}")


def _ended(text: str) -> str:
    text = text.replace("  # ", "; ")  # of a line of a config
    return text if text.endswith((".", "!", "?")) else f"{text}."
