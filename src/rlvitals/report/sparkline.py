"""A series as one line of block characters, with the cells of an incident marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlvitals.schema import Float64

BLOCKS = "▁▂▃▄▅▆▇█"
FLAT = 1e-9  # relative; below it the differences are rounding
GAP = " "  # nothing was logged there: not a low value


@dataclass(frozen=True, slots=True)
class Sparkline:
    """One line: `cells` and the half-open range of them that belongs to an incident (empty when there is none)."""

    cells: str
    marked: tuple[int, int] = (0, 0)

    def parts(self) -> tuple[str, str, str]:
        """Return the cells before, in and after the marked range."""
        a, b = self.marked
        return self.cells[:a], self.cells[a:b], self.cells[b:]

    def __str__(self) -> str:
        """Return the line with brackets around the marked part; two columns wider than `cells` either way."""
        before, inside, after = self.parts()
        return f"{before}[{inside}]{after}" if inside else f"{self.cells}  "


def sparkline(
    step: Float64,
    value: Float64,
    *,
    width: int,
    span: tuple[float, float],
    incident: tuple[float, float] | None = None,
) -> Sparkline:
    """Draw a series over a range of steps.

    Args:
        step, value: float64[K], finite values; every cell shows the mean of its values.
        width: cells.
        span: first and last step of the line, so that several lines share one axis.
        incident: first and last step to mark.
    """
    first, last = span
    edges = np.linspace(first, last + 1, width + 1)
    keep = np.isfinite(value) & (step >= first) & (step <= last)
    cell = np.clip(np.searchsorted(edges, step[keep], side="right") - 1, 0, width - 1)
    count = np.bincount(cell, minlength=width)
    total = np.bincount(cell, weights=value[keep], minlength=width)
    mean = np.divide(total, count, out=np.full(width, np.nan), where=count > 0)
    mean = _carried(mean, sparse=bool(count.sum() < width))
    return Sparkline("".join(_block(v, mean) for v in mean), _cells(incident, edges, width))


def _carried(mean: Float64, *, sparse: bool) -> Float64:
    """Fill the cells between the values of a series that has fewer values than there are cells."""
    known = np.flatnonzero(np.isfinite(mean))
    if not sparse or known.size < 2:
        return mean
    out = mean.copy()
    inside = np.arange(known[0], known[-1] + 1)
    out[inside] = mean[known[np.searchsorted(known, inside, side="right") - 1]]
    return out


def _block(value: float, among: Float64) -> str:
    if not np.isfinite(value):
        return GAP
    low, high = float(np.nanmin(among)), float(np.nanmax(among))
    if high - low <= FLAT * max(abs(high), abs(low)):
        return BLOCKS[3]
    return BLOCKS[min(int((value - low) / (high - low) * len(BLOCKS)), len(BLOCKS) - 1)]


def _cells(incident: tuple[float, float] | None, edges: Float64, width: int) -> tuple[int, int]:
    if incident is None:
        return 0, 0
    a, b = (int(np.clip(np.searchsorted(edges, s, side="right") - 1, 0, width - 1)) for s in incident)
    return a, max(b, a) + 1
