"""Do the prompts of a resumed run go on where the run before it stopped? From the rollouts, where both wrote them."""

from __future__ import annotations

from collections.abc import Mapping

from rlvitals.rollouts.dump import Rollouts
from rlvitals.rollouts.table import MISSING
from rlvitals.schema import Run

STEPS = 20  # steps on either side whose prompts are compared (convention)
SHARE = 0.5  # of the prompts of the first resumed steps: that many seen just before are a repetition (convention)


def order_item(before: Run, after: Run, boundary: int) -> tuple[str, str]:
    """Return ("same" | "different" | "not logged", what was seen)."""
    old, new = prompts_by_step(before), prompts_by_step(after)
    replayed = [s for s in old if s >= boundary and s in new]
    if replayed:
        apart = [s for s in replayed if old[s] != new[s]]
        if apart:
            return "different", f"step {min(apart)} was sampled from other prompts than before ({len(apart)} steps)"
        return "same", f"{len(replayed)} replayed steps use the same prompts"
    head = {p for s in sorted(s for s in new if s >= boundary)[:STEPS] for p in new[s]}
    steps = sorted(s for s in old if s < boundary)
    tail = {p for s in steps[-STEPS:] for p in old[s]}
    if not head or not tail:
        return "not logged", "no rollouts with prompts on both sides"
    begin = {p for s in steps[:STEPS] for p in old[s]} - tail
    again = len(head & begin) / len(head)
    if again >= SHARE and len(steps) > 2 * STEPS:
        return "different", f"{again:.0%} of the first prompts are those of the first steps: the data cursor restarted"
    repeated = len(head & tail) / len(head)
    ever = {p for s in steps for p in old[s]}
    if repeated >= SHARE and len(ever) > 2 * len(tail):
        return "different", f"{repeated:.0%} of the first prompts were used in the {STEPS} steps before the boundary"
    return "same", f"{repeated:.0%} of the first prompts were used in the {STEPS} steps before the boundary"


def prompts_by_step(run: Run) -> Mapping[int, frozenset[str]]:
    """Return the prompts of each training step, empty where the run has no rollouts that name them."""
    if not isinstance(run.rollouts, Rollouts):
        return {}
    found: dict[int, set[str]] = {}
    for batch in run.rollouts.scan(("step", "prompt_id")):
        names = batch.text("prompt_id")
        for step, name in zip(batch.integer("step").tolist(), names, strict=True):
            if name is not None and step != MISSING:
                found.setdefault(step, set()).add(str(name))
    return {step: frozenset(names) for step, names in found.items()}
