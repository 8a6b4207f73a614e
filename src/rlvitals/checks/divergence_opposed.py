"""A total that pays against the task itself, for R003: the weight of a component in an exact sum is negative."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.check import Action, Confidence, Evidence, Finding, Fired, Onset, Threshold
from rlvitals.checks import reward_mix
from rlvitals.checks.common import fmt, words_in
from rlvitals.checks.reward_parts import AGAINST, Parts
from rlvitals.view import View


def opposed(view: View, parts: Parts, limits: Mapping[str, Threshold]) -> Fired | None:
    """Fire where the total is an exact sum in which the task itself counts negative: a flipped sign or weight."""
    found = reward_mix.weights(view)
    limit = limits["task_weight"]
    named = [n for n in parts.truth if n in found and not words_in(n, AGAINST)]
    name = min(named, key=lambda n: found[n], default="")
    if not name or not found[name] < limit.value:
        return None
    lowest, _, highest, _ = view.extremes(name)
    label = name.partition("/")[2]
    since = view.first_seen(name)
    return Fired(
        Finding(
            f"The reward pays against {label}: its weight in the total is {found[name]:.2g}",
            Action.STOP,
            Confidence.HIGH,
            Onset(since, since),
            (
                Evidence(
                    name,
                    f"over the logged steps reward_mean is a sum of its components in which {label} ({fmt(lowest)} to "
                    f"{fmt(highest)}) has weight {found[name]:.2g} (limit {limit})",
                    found[name],
                    "reward per point",
                    (since, view.step),
                    limit,
                    "<",
                ),
            ),
            "opposed",
        )
    )
