"""Small phrases that the reference pages share: knobs and logging lines of every trainer, ranges, links."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from rlvitals.ingest.adapter import Adapter
from rlvitals.ingest.registry import ADAPTERS
from rlvitals.ingest.rules import OWN_NAMES
from rlvitals.metrics import Metric
from rlvitals.schema import UNKNOWN_TRAINER

MOVES: Mapping[str, str] = {"raise": "raise", "lower": "lower", "set": "set", "check": "check"}


# What a user calls a value of their own, where the trainer lets them choose: see `own_name` of ingest/rules.py.
OWN: Mapping[str, str] = {
    **{name: name for name in OWN_NAMES},
    "reward_family": "reward_family_<family>",
    "success_tier": "success_tier_<tier>",
    "stop_frac": "stop_frac_<reason>",
}


def trainers() -> tuple[Adapter, ...]:
    """Return the adapters of trainers with a name: all but the generic one."""
    return tuple(a for a in ADAPTERS if a.info.name != UNKNOWN_TRAINER.name)


def per_trainer(value: Callable[[Adapter], str | None]) -> tuple[tuple[str, str], ...]:
    """Return (trainers, value) with trainers of one value together, in the order of the adapters."""
    groups: dict[str, list[str]] = {}
    for adapter in trainers():
        found = value(adapter)
        if found:
            groups.setdefault(found, []).append(adapter.info.name)
    return tuple((", ".join(names), text) for text, names in groups.items())


def knobs(canonical: str) -> tuple[tuple[str, str], ...]:
    """Return (trainers, their own setting) for a canonical knob."""
    return per_trainer(lambda a: a.info.knobs.get(canonical))


def logging_lines(metric: str) -> tuple[tuple[str, str], ...]:
    """Return (trainers, how to make them log it) for a canonical metric or another needed thing."""
    return per_trainer(lambda a: how_to_log(a, metric))


def how_to_log(adapter: Adapter, metric: str) -> str | None:
    """Return the adapter's line for a metric, or for the open family that it belongs to."""
    lines = adapter.info.how_to_log
    found = lines.get(metric) or (lines.get(metric.partition("/")[0] + "/*") if "/" in metric else None)
    own = OWN.get(metric.partition("/")[0])
    return found.replace("<name>", own) if found and own else found


def span(metric: Metric) -> str:
    """Return the range of possible values in words."""
    low, high = metric.low, metric.high
    if math.isinf(low) and math.isinf(high):
        return "any number"
    if math.isinf(high):
        return f"{low:g} and up"
    return f"{low:g} to {high:g}"


def code(names: Iterable[str], between: str = ", ") -> str:
    """Return the names in backticks."""
    return between.join(f"`{n}`" for n in names)
