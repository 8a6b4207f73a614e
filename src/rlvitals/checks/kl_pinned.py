"""K002: KL to the reference has stopped near zero while the reward does not move: something holds the policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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
    NoData,
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
from rlvitals.checks.common import Shift, fmt, onset_of, shift
from rlvitals.checks.scale import reward_scale
from rlvitals.view import View

ROWS = 50  # recent rows behind the coefficient
STEADY = 4.0  # times below its median that the ratio of loss to KL may lie and still be a coefficient


@dataclass(frozen=True, slots=True)
class Price:
    """Args: worth: cost over one std of the advantages; coef; unit: that std; known: the coefficient was logged."""

    worth: float
    coef: float
    unit: float
    known: bool


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    if view.config.kl_coef == 0:
        return NotApplicable("the KL coefficient is 0: no KL term holds the policy")
    level, limit = course.level(view, "kl_ref"), limits["level"]
    seen, needed = level.rows * course.row_spacing(view, "kl_ref"), limits["steps"]
    if seen < needed.value:
        return NoData(
            ("kl_ref",), f"KL to the reference was logged over {seen:.0f} steps; {needed.value:.0f} are needed"
        )
    price = _price(view, limits["distance"].value)
    held_by_price = price is not None and price.worth > limits["price"].value
    if held_by_price:
        limit = limits["distance"]
    if not abs(level.now) < limit.value:
        return Clear(
            f"KL to the reference is {fmt(level.now)} nats over steps {level.first}-{level.last}; limit {limit}"
        )
    _, _, high, _ = view.extremes("kl_ref")
    if seen >= 2 * needed.value and not held_by_price and _still_moving(view):
        return Clear(f"KL to the reference is small ({fmt(level.now)} nats) but still grows; highest {fmt(high)}")
    moved, scale = shift(view, "reward_mean", z=2.0), reward_scale(view)
    if not math.isfinite(moved.late) or not scale.span > 0:
        return Clear(f"KL is {fmt(level.now)} nats, and the reward has no spread to compare with")
    if companions.reward_place(view) >= 0.9:
        return Clear(
            f"KL is {fmt(level.now)} nats and the reward {fmt(moved.late)} is near its maximum: little to move for"
        )
    gain = limits["gain_share"]
    if not moved.high < gain.value * scale.span:
        return Clear(
            f"KL is {fmt(level.now)} nats, but the reward may have gained up to {fmt(moved.high)} "
            f"(from {fmt(moved.early)} to {fmt(moved.late)}); limit {gain}"
        )
    return Fired(_finding(view, level, moved, limit, limits, price if held_by_price else None))


def _finding(
    view: View,
    level: course.Level,
    moved: Shift,
    limit: Threshold,
    limits: Mapping[str, Threshold],
    price: Price | None,
) -> Finding:
    _, _, high, _ = view.extremes("kl_ref")
    gain = limits["gain_share"]
    held = Evidence(
        "kl_ref",
        f"KL to the reference is {fmt(level.now)} nats over steps {level.first}-{level.last}, and was never above "
        f"{fmt(high)}; limit {limit}",
        level.now,
        "nats",
        level.steps,
        limit,
        "<",
    )
    flat = Evidence(
        "reward_mean",
        f"reward went from {fmt(moved.early)} to {fmt(moved.late)} over steps "
        f"{moved.steps[0]}-{moved.steps[1]}; the gain is "
        f"at most {fmt(moved.high)}, limit {gain}",
        moved.high / reward_scale(view).span,
        "of the range",
        moved.steps,
        gain,
        "<",
        moved.early,
    )
    onset = _since(view, limit.value)
    coefficient = "" if view.config.kl_coef is None else f" (coefficient {fmt(view.config.kl_coef)})"
    text = f"KL to the reference is pinned at {fmt(level.now)} nats{coefficient} while the reward does not move"
    if price is None:
        return Finding(text, Action.WATCH, Confidence.MEDIUM, onset, (held, flat))
    distance = limits["distance"].value
    dear = Evidence(
        "kl_coef" if price.known else "loss",
        f"{fmt(distance)} nats of KL cost {fmt(price.coef * distance)} in the loss (coefficient {fmt(price.coef)}"
        f"{'' if price.known else ', as loss over KL'}), {fmt(price.worth)} times what a rollout earns that is one "
        f"standard deviation ({fmt(price.unit)}) better than its group; limit {limits['price']}",
        price.worth,
        "times",
        level.steps,
        limits["price"],
        ">",
    )
    what = f"{text}: any step away from the reference costs more than it can earn"
    return Finding(what, Action.ADJUST, Confidence.HIGH, onset, (held, flat, dear), "outweighed")


def _price(view: View, distance: float) -> Price | None:
    """Return what `distance` nats of KL cost, None where no coefficient is known or can be told.

    Where the coefficient is unknown, a loss that is little else than the penalty gives it away: their ratio is then
    nearly the same in every row.
    """
    coefs = view.recent("kl_coef")[1]
    coef = float(coefs[-1]) if coefs.size else view.config.kl_coef
    known = coef is not None
    if coef is None:
        loss, kl = view.rows_of("loss", ROWS), view.rows_of("kl_ref", ROWS)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (loss / kl)[np.isfinite(loss) & (kl > 0)]
        if ratio.size < 20 or not np.quantile(ratio, 0.1) > stats.median(ratio) / STEADY:
            return None
        coef = stats.median(ratio)
    spread = view.recent("advantage_std", ROWS)[1]
    unit = stats.median(spread[spread > 0]) if np.any(spread > 0) else 1.0
    return Price(coef * distance / unit, coef, unit, known)


def _since(view: View, limit: float) -> Onset:
    """Return from when on KL was that small: from the first step where it mostly was, whatever single spikes did."""
    trace = view.trace("kl_ref", center="median")
    if stats.median(np.abs(trace.value)) < limit:
        return Onset(view.first_step, int(trace.last[0]))
    return onset_of(view, "kl_ref", -limit, limit, center="median")


def _still_moving(view: View) -> bool:
    steps, values = view.recent("kl_ref")
    x, y = stats.blocks(steps.astype(float), values, course.FORECAST_POINTS)
    return stats.careful_trend(x, y, z=2.0).rising


CHECK = Check(
    id="K002",
    name="kl-pinned",
    family=Family.LEASH,
    fault="The policy is held at its reference, and the reward does not move.",
    why="KL near zero with a flat reward means that the constraint, an over-large KL coefficient or a learning rate "
    "near zero, prevents any movement; or that no learning signal arrives, which comes first. KL of 0.0005 in the "
    "first tens of steps is usual and no finding.",
    needs=Needs(all_of=("kl_ref", "reward_mean"), rows=20),
    thresholds=(
        Threshold("level", 0.01, "nats", SourceKind.MEASURED, "docs/measurements.md: KL pinned"),
        Threshold("gain_share", 0.1, "of the reward's range", SourceKind.MEASURED, "docs/measurements.md: KL pinned"),
        Threshold(
            "distance", 0.1, "nats", SourceKind.MEASURED, "docs/measurements.md: Lab faults of sampler and trainer"
        ),
        Threshold(
            "price", 1, "standard deviations of the advantages", SourceKind.DEFINITION, "costs all that it earns"
        ),
        Threshold("steps", 60, "steps", SourceKind.CONVENTION, "usual in the first tens of steps (trl#3452)"),
    ),
    judge=judge,
    patience=2,
    plans={
        "": Plan(
            remedies=(
                Remedy("Check that groups carry a signal and that updates reach the weights", "", "check"),
                Remedy("Raise the learning rate if it is below 1e-6 (1e-5 with LoRA)", "learning_rate", "raise"),
                Remedy("Lower the KL coefficient", "kl_coef", "lower"),
            ),
            verify=(Verify("KL leaves its level and is above 0.01 nats", "kl_ref", ">", 0.01, 20),),
            rollback=Rollback.NONE,
        ),
        "outweighed": Plan(
            remedies=(Remedy("Lower the KL coefficient to 0.04 or less, or to 0", "kl_coef", "lower"),),
            verify=(Verify("KL leaves its level and is above 0.01 nats", "kl_ref", ">", 0.01, 20),),
            rollback=Rollback.NONE,
        ),
    },
    leads_to=("R010", "U002"),
    look_alikes=(
        LookAlike("KL of 0.0005 in the first tens of steps", "fewer than 60 steps, or it still grows"),
        LookAlike("KL 0 with a coefficient of 0", "no reference is measured"),
        LookAlike("Small KL while the reward rises", "the gain is not below a tenth of the range"),
    ),
    sources=("Why GRPO training fails: KL pinned near zero", "docs/measurements.md: KL pinned"),
)
