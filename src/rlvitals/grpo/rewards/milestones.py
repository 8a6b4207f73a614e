"""Partial credit: the share of known intermediate results that a completion reaches, in their order."""

from __future__ import annotations

from collections.abc import Sequence


def reached(text: str, milestones: Sequence[str]) -> float:
    """Return the share of milestones found in the text, each behind the one before it; white space does not count.

    A milestone that is missing is passed over, later ones still count. NaN for no milestones: nothing to reach is not
    everything reached.
    """
    wanted = ["".join(m.split()) for m in milestones]
    wanted = [m for m in wanted if m]
    if not wanted:
        return float("nan")
    squeezed = "".join(text.split())
    at = found = 0
    for milestone in wanted:
        where = squeezed.find(milestone, at)
        if where >= 0:
            found += 1
            at = where + len(milestone)
    return found / len(wanted)
