"""The lab in words: its faults and healthy runs as a list for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rlvitals.lab.fault import Fault, Healthy, Place


def list_text(faults: Sequence[Fault], healthy: Sequence[Healthy]) -> str:
    """Return every fault by its place, with strengths and harm, and every healthy run."""
    lines = [f"{len(faults)} faults; the root cause that must be named stands in brackets"]
    for place in Place:
        found = [f for f in faults if f.place is place]
        if found:
            lines += ["", f"{place.value}"]
            for fault in found:
                lines += _fault(fault)
    lines += ["", f"{len(healthy)} healthy runs: any move asked for is a false alarm"]
    lines += [f"  {h.name:<34} {h.hard}" for h in healthy]
    return "\n".join(lines)


def _fault(fault: Fault) -> list[str]:
    roots = " or ".join(fault.roots) or "none can be named"
    kind = ", violates a definition" if fault.invariant else ""
    begin = f" from step {fault.start}" if fault.start > 1 else ""
    strengths = "; ".join(f"{s.name} (harm: {s.harm.value})" for s in fault.strengths)
    return [f"  {fault.name:<34} {fault.broken}", f"  {'':<34} {strengths}{begin}{kind} [{roots}]"]
