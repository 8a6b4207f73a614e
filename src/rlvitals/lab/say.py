"""The lab in words: its faults and healthy runs as a list for the terminal, and what fits its width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from textwrap import wrap

from rlvitals.lab.fault import Fault, Healthy, Place

WIDTH = 80  # columns, where no terminal tells its own
INDENT, GAP = 2, 2  # columns before the first cell and between the two
LEAST = 20  # columns that a cell keeps on the narrowest terminal


def list_text(faults: Sequence[Fault], healthy: Sequence[Healthy], width: int = WIDTH) -> str:
    """Return every fault by its place, with strengths and harm, and every healthy run."""
    names = max((len(name) for name in (*(f.name for f in faults), *(h.name for h in healthy))), default=0)
    lines = wrap(f"{len(faults)} faults; the root cause that must be named stands in brackets", width)
    for place in Place:
        found = [f for f in faults if f.place is place]
        if found:
            lines += ["", f"{place.value}"]
            lines += cells([row for fault in found for row in _fault(fault)], width, names)
    lines += ["", *wrap(f"{len(healthy)} healthy runs: any move asked for is a false alarm", width)]
    lines += cells([(h.name, h.hard) for h in healthy], width, names)
    return "\n".join(lines)


def _fault(fault: Fault) -> list[tuple[str, str]]:
    roots = " or ".join(fault.named) or "none can be named"
    kind = ", violates a definition" if fault.invariant else ""
    begin = f" from step {fault.start}" if fault.start > 1 else ""
    strengths = "; ".join(f"{s.name} (harm: {s.harm.value})" for s in fault.strengths)
    return [(fault.name, fault.broken), ("", f"{strengths}{begin}{kind} [{roots}]")]


def cells(rows: Sequence[tuple[str, str]], width: int, first: int = 0) -> list[str]:
    """Return the lines of two columns, each cell wrapped within itself where a row would be wider than the terminal.

    `first` is how wide the first column is where nothing need be wrapped; without it as wide as its longest cell.
    """
    inside = max(width - INDENT - GAP, 2 * LEAST)
    first = first or max((len(left) for left, _ in rows), default=0)
    if first + max((len(right) for _, right in rows), default=0) > inside:
        first = min(first, inside // 2)
    out = []
    for left, right in rows:
        pairs = zip_longest(wrap(left, first or 1), wrap(right, inside - first), fillvalue="")
        out += [f"{'':{INDENT}}{a:<{first}}{'':{GAP}}{b}".rstrip() for a, b in pairs]
    return out
