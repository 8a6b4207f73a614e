"""Is the resumed run the same experiment? Jumps at the boundary, order of the data, identity of its parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rlvitals import stats
from rlvitals.check import Family, Fired, NoData
from rlvitals.checks import CHECKS
from rlvitals.checks.common import fmt
from rlvitals.conclude import diagnose
from rlvitals.errors import InputError, Problem
from rlvitals.metrics import lookup
from rlvitals.record.prompts import order_item
from rlvitals.schema import EventKind, Float64, Run

WINDOW = 20  # rows on either side of the boundary that are compared (convention)
LEAST = 5  # rows on either side below which a jump can't be told
JUMP_Z = 4.0  # standard errors of a jump; about eight metrics are looked at (docs/measurements.md: Second signals)
LR_TOLERANCE = 0.1  # relative step of the learning rate that a running schedule does not make (convention)
FRESH_KL_SHARE = 0.2  # of the KL to the reference before: below it the reference moved to the policy (convention)
TOLERANCE = 1e-6  # relative difference up to which a replayed row counts as the same row

MAY_CHANGE = frozenset({"planned_steps", "logging_steps", "eval_items", "gpus", "price_per_gpu_hour"})
"""Settings that another value does not make another experiment of."""

WATCHED = (
    "reward_mean",
    "success_frac",
    "entropy",
    "grad_norm",
    "length_mean",
    "logprob_gap_mean",
    "sampler_ratio_mean",
    "clip_frac",
    "truncated_frac",
)


class State(StrEnum):
    SAME = "same"
    DIFFERENT = "different"
    NO_DATA = "not logged"


class Answer(StrEnum):
    SAME = "the same experiment"
    DIFFERENT = "another experiment"
    CANNOT_SAY = "cannot say"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a resume must carry over."""

    name: str
    state: State
    text: str


@dataclass(frozen=True, slots=True)
class Resume:
    """The answer. `reopened` are checks on the sampler and its correction to read again: a version changed."""

    answer: Answer
    headline: str
    boundary: int
    items: tuple[Item, ...]
    reopened: tuple[str, ...]


def compare_resume(before: Run, after: Run) -> Resume:
    """Compare a run with the run that resumed it. Raises InputError when the two don't meet."""
    boundary = _boundary(before, after)
    old = before.until(boundary - 1)
    items = (
        _steps(before, after, boundary),
        _replayed(before, after, boundary),
        _learning_rate(old, after, boundary),
        _reference(old, after, boundary),
        *(_jump(name, old, after, boundary) for name in WATCHED),
        _prompts(before, after, boundary),
        *_identity(before, after),
    )
    reopened = _reopened(before, after)
    different = [i for i in items if i.state is State.DIFFERENT]
    seen = [i for i in items if i.state is State.SAME]
    if different:
        answer, text = Answer.DIFFERENT, "; ".join(i.text for i in different)
    elif len(seen) >= 3:
        answer, text = Answer.SAME, f"{len(seen)} of {len(items)} things looked at carry over, none differs"
    else:
        answer, text = Answer.CANNOT_SAY, f"only {len(seen)} of {len(items)} things could be looked at"
    return Resume(answer, f"{answer.value.capitalize()}: {text}.", boundary, items, reopened)


def _boundary(before: Run, after: Run) -> int:
    """Return the first step of the resumed part."""
    if not before.rows or not after.rows:
        raise InputError(Problem("no rows", "compare --resume", f"{before.rows} and {after.rows}", "two runs"))
    first = int(after.step[0])
    if first > int(before.step[0]):
        return first
    resumed = [e.step for e in after.events if e.kind is EventKind.RESUME and e.step is not None]
    inside = [s for s in resumed if int(before.step[0]) < s <= int(before.step[-1]) + 1]
    if inside:
        return inside[-1] + 1 if inside[-1] in before.step else inside[-1]
    return first if first < int(before.step[0]) or not _continues(before, after) else int(before.step[-1]) + 1


def _continues(before: Run, after: Run) -> bool:
    """True when the log of the resumed run holds the earlier run's rows, then goes on."""
    return bool(int(after.step[-1]) > int(before.step[-1]) and np.isin(before.step, after.step).mean() > 0.9)


def _rows(run: Run, name: str, low: int, high: int) -> tuple[Float64, Float64]:
    keep = (run.step >= low) & (run.step < high)
    values = run.columns.get(name, np.full(run.rows, np.nan))
    keep &= np.isfinite(values)
    return run.step[keep].astype(float), values[keep]


def _steps(before: Run, after: Run, boundary: int) -> Item:
    name = "steps go on"
    last = int(before.step[before.step < boundary][-1]) if (before.step < boundary).any() else None
    spacing = int(np.median(np.diff(before.step))) if before.rows > 1 else 1
    if last is None:
        text = f"the resumed run starts at step {int(after.step[0])}, the run before it at {int(before.step[0])}"
        return Item(name, State.DIFFERENT, f"the step counter restarted: {text}")
    gap = boundary - last
    if gap > max(2 * spacing, spacing + 1):
        return Item(name, State.DIFFERENT, f"steps {last + 1} to {boundary - 1} are in neither log")
    return Item(name, State.SAME, f"step {last} is followed by step {boundary}")


def _replayed(before: Run, after: Run, boundary: int) -> Item:
    """Compare steps that both runs logged: after an exact resume they are the same rows, whatever the metric."""
    name = "replayed steps give the same rows (RNG, data, optimizer)"
    common, at_b, at_a = np.intersect1d(before.step, after.step, return_indices=True)
    keep = common >= boundary
    common, at_b, at_a = common[keep], at_b[keep], at_a[keep]
    if common.size == 0:
        return Item(name, State.NO_DATA, "no step was logged by both; whether the RNG was restored can't be seen")
    worst, where = 0.0, ""
    for metric in ("reward_mean", "loss", "entropy", "grad_norm", "length_mean"):
        if metric not in before.columns or metric not in after.columns:
            continue
        x, y = before.columns[metric][at_b], after.columns[metric][at_a]
        known = np.isfinite(x) & np.isfinite(y)
        if known.any():
            scale = max(float(np.abs(x[known]).mean()), float(np.abs(y[known]).mean()), 1e-12)
            apart = np.abs(x - y)[known] / scale
            if float(apart.max()) > worst:
                worst, where = float(apart.max()), f"{metric} at step {int(common[known][np.argmax(apart)])}"
    if worst <= TOLERANCE:
        return Item(name, State.SAME, f"{common.size} steps logged by both are the same rows")
    text = f"{common.size} steps were logged by both and differ, most in {where}: by {fmt(worst)} of its level"
    return Item(name, State.DIFFERENT, text)


def _learning_rate(old: Run, after: Run, boundary: int) -> Item:
    name = "learning rate goes on (scheduler)"
    steps, values = _rows(old, "learning_rate", 0, boundary)
    new_steps, new = _rows(after, "learning_rate", boundary, 2**62)
    if values.size < 2 or new.size == 0:
        return Item(name, State.NO_DATA, "the learning rate is not logged on both sides")
    slope = stats.theil_sen(steps[-WINDOW:], values[-WINDOW:])
    expected = float(values[-1] + slope * (new_steps[0] - steps[-1]))
    scale = max(abs(expected), abs(float(values[-1])), 1e-30)
    text = f"learning rate {fmt(values[-1])} is followed by {fmt(new[0])}; the schedule leads to {fmt(expected)}"
    restarted = abs(float(new[0]) - expected) > LR_TOLERANCE * scale
    return Item(name, State.DIFFERENT if restarted else State.SAME, text)


def _reference(old: Run, after: Run, boundary: int) -> Item:
    name = "reference policy is the same"
    values, new = _rows(old, "kl_ref", 0, boundary)[1], _rows(after, "kl_ref", boundary, 2**62)[1]
    if values.size < LEAST or new.size < 1:
        return Item(name, State.NO_DATA, "KL to the reference is not logged on both sides")
    level, first = stats.median(values[-WINDOW:]), stats.median(new[: min(LEAST, new.size)])
    text = f"KL to the reference {fmt(level)} nats before, {fmt(first)} nats after"
    if level > 0 and abs(first) < FRESH_KL_SHARE * level and _beyond_noise(values[-WINDOW:], new[:LEAST]):
        return Item(name, State.DIFFERENT, f"{text}: the reference became the resumed policy")
    return Item(name, State.SAME, text)


def _beyond_noise(old: Float64, new: Float64) -> bool:
    if new.size < 2:
        return abs(float(new[0]) - stats.median(old)) > JUMP_Z * max(stats.noise_sd(old), 1e-12)
    moved = stats.change(old, new, z=JUMP_Z)
    return moved.low > 0 or moved.high < 0


def _jump(name: str, old: Run, after: Run, boundary: int) -> Item:
    """Test a step change at the boundary, the trend on both sides taken out."""
    known = lookup(name)
    unit = known.unit if known is not None else ""
    steps, values = _rows(old, name, 0, boundary)
    new_steps, new = _rows(after, name, boundary, 2**62)
    x0, y0, x1, y1 = steps[-WINDOW:], values[-WINDOW:], new_steps[:WINDOW], new[:WINDOW]
    title = f"{name} does not jump"
    if y0.size < LEAST or y1.size < LEAST:
        return Item(title, State.NO_DATA, f"{name}: {y0.size} rows before and {y1.size} after; {LEAST} are needed")
    early, late, error = _step_change(np.concatenate([x0, x1]) - boundary, np.concatenate([y0, y1]), y0.size)
    text = f"{name} {fmt(early)} before and {fmt(late)} {unit} after".rstrip()
    jumped = abs(late - early) > JUMP_Z * error
    return Item(title, State.DIFFERENT if jumped else State.SAME, f"{text}, trend taken out" + " (a jump)" * jumped)


def _step_change(x: Float64, y: Float64, before: int) -> tuple[float, float, float]:
    """Return the levels on both sides of x = 0 and the standard error of their difference.

    Least squares of a common line with a step in it; the error allows for the slope, which is estimated too, and for
    autocorrelated residuals.
    """
    after = (np.arange(y.size) >= before).astype(float)
    design = np.stack([np.ones(y.size), x, after], axis=1)
    fit, *_ = np.linalg.lstsq(design, y, rcond=None)
    rest = y - design @ fit
    spread = float(rest @ rest) / max(y.size - 3, 1) * stats.inflation(x, rest)
    error = math.sqrt(max(spread * float(np.linalg.pinv(design.T @ design)[2, 2]), 0.0))
    return float(fit[0]), float(fit[0] + fit[2]), max(error, 1e-12 * max(abs(float(fit[0])), 1.0))


def _prompts(before: Run, after: Run, boundary: int) -> Item:
    state, text = order_item(before, after, boundary)
    return Item("prompts go on where they stopped", State(state), text)


def _identity(before: Run, after: Run) -> Sequence[Item]:
    first, second = dict(before.config.versions), dict(after.config.versions)
    items = []
    for name in dict.fromkeys((*first, *second)):
        a, b = first.get(name), second.get(name)
        if a is None or b is None:
            items.append(Item(f"version of {name}", State.NO_DATA, f"version of {name} is known on one side only"))
        else:
            state = State.SAME if a == b else State.DIFFERENT
            items.append(Item(f"version of {name}", state, f"version of {name}: {a} and {b}"))
    settings: Mapping[str, object] = before.config.known()
    other: Mapping[str, object] = after.config.known()
    apart = [n for n in settings if n in other and settings[n] != other[n] and n not in MAY_CHANGE]
    if settings and other:
        text = ", ".join(f"{n} {settings[n]} -> {other[n]}" for n in apart) or "every setting known on both sides"
        items.append(Item("settings", State.DIFFERENT if apart else State.SAME, text))
    return items


def _reopened(before: Run, after: Run) -> tuple[str, ...]:
    """Return the checks between sampler and trainer that a changed version re-opens, with what they say now."""
    first, second = before.config.versions, after.config.versions
    changed = [n for n in first if n in second and first[n] != second[n]]
    if not changed and before.trainer.version == after.trainer.version:
        return ()
    outcomes = diagnose(after).outcomes
    out = []
    for check in CHECKS:
        if check.family is Family.SYNC and check.id in outcomes:
            outcome = outcomes[check.id]
            said = "fires" if isinstance(outcome, Fired) else "can't look" if isinstance(outcome, NoData) else "clear"
            out.append(f"{check.id} {check.name}: {said}")
    return tuple(out)
