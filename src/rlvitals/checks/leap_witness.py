"""What held-out scores and rollouts say of a reward that leapt to its maximum in one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals.check import Evidence, SourceKind, Threshold
from rlvitals.checks.common import fmt
from rlvitals.checks.held import errors
from rlvitals.view import Held, View

OTHER_PAID = "rollouts/other_answer_paid"

LIMITS = (
    Threshold(
        "held_top", 0.9, "of the held-out tasks right", SourceKind.CONVENTION, "as high as the reward, errors aside"
    ),
    Threshold("held_share", 0.25, "of the leap", SourceKind.MEASURED, "docs/measurements.md: transfer ratio"),
    Threshold("held_z", 2.6, "standard errors", SourceKind.MEASURED, "docs/measurements.md: held-out drop"),
    Threshold("wrong_paid", 10, "rollouts", SourceKind.CONVENTION, "fewer may be slips of the data"),
)


@dataclass(frozen=True, slots=True)
class Witness:
    """What others saw: `followed` says which held-out score rose to the top too, `against` that one contradicts."""

    evidence: tuple[Evidence, ...] = ()
    followed: str = ""
    against: bool = False


NOBODY = Witness()


def witness_of(view: View, since: int, leap: float, limits: Mapping[str, Threshold]) -> Witness:
    """Return what is known besides the reward of a leap at `since`, `leap` of its range high.

    Only a held-out accuracy bears witness: a held-out mean of the reward is scored by the verifier in question.
    """
    out, followed, against = [], "", False
    for name, held in view.evals.items():
        before, after = np.flatnonzero(held.step < since), np.flatnonzero(held.step >= since)
        if not before.size or not after.size:
            continue
        first, last = int(before[-1]), int(after[-1])
        out.append(_beside(name, held, first, last))
        if held.metric != "accuracy":
            continue
        error = errors(held)
        gain = float(held.score[last] - held.score[first])
        slack = limits["held_z"].value * float(np.hypot(error[first], error[last]))  # NaN where no error is known
        if gain - slack > 0 and held.score[last] >= limits["held_top"].value:
            followed = (
                f"held-out {name} rose with the reward, {fmt(float(held.score[first]))} to "
                f"{fmt(float(held.score[last]))} (limit {limits['held_top']}): the tasks are solved"
            )
        against = against or gain + slack < limits["held_share"].value * leap
    paid = view.trace(OTHER_PAID)
    wrong = float((paid.value * paid.count)[paid.first >= since].sum())
    if wrong >= limits["wrong_paid"].value:
        out.append(_wrong(wrong, since, view.step, limits["wrong_paid"]))
        followed, against = "", True
    return Witness(tuple(out), followed, against)


def _beside(name: str, held: Held, first: int, last: int) -> Evidence:
    was, now = float(held.score[first]), float(held.score[last])
    return Evidence(
        f"held-out/{name}",
        f"held-out {name} was {fmt(was)} before and is {fmt(now)} now",
        now,
        "",
        (int(held.step[first]), int(held.step[last])),
        before=was,
    )


def _wrong(wrong: float, since: int, until: int, limit: Threshold) -> Evidence:
    text = f"at least {wrong:.0f} rollouts with another number than the gold answer were scored right (limit {limit})"
    return Evidence(OTHER_PAID, text, wrong, "rollouts", (since, until), limit, ">=")
