"""Where the lab shows a run: colour and moving curves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from rlvitals.report import terminal
from rlvitals.report.sparkline import sparkline
from rlvitals.report.words import clean

if TYPE_CHECKING:
    from rich.table import Table

    from rlvitals.diagnosis import Diagnosis

WIDTH = 48  # cells of a curve
INDENT = "  "  # of the further lines of one text
LINES = 12  # of a run, where nothing moves
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """A place for titles, texts, tables, reports, and the curves of a run as it trains."""

    def __init__(self, out: TextIO | None = None) -> None:
        from rich.console import Console

        self.console = Console(file=out or sys.stdout, highlight=False, markup=False)
        self.moving = self.console.is_terminal and not self.console.is_dumb_terminal
        self.colour = self.moving and not self.console.no_color
        self._steps = 0
        self._series: dict[str, list[tuple[int, float]]] = {}
        self._live: Any = None

    def title(self, text: str) -> None:
        """Print a heading."""
        self._print(text, "bold cyan", before="\n")

    def text(self, text: str, style: str = "") -> None:
        """Print a line, in several where the terminal is narrower."""
        self._print(text, style)

    def here(self, text: str) -> None:
        """Print a line that is true on this machine alone: it names a folder."""
        Screen.text(self, text)

    def _print(self, text: str, style: str, before: str = "") -> None:
        """Print a text wrapped between words, as wide as the terminal; a path is never cut in two."""
        lines = wrap(
            clean(text), self.console.width, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
        )
        self.console.print(before + "\n".join(lines), style=style, soft_wrap=True)

    def report(self, diagnosis: Diagnosis) -> None:
        """Print a diagnosis."""
        self.rendered(terminal.render(diagnosis, color=self.colour))

    def rendered(self, text: str) -> None:
        """Print a report that was rendered with colours or without."""
        self.console.file.write(text if self.colour else COLOURS.sub("", text))
        self.console.file.flush()

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under a head."""
        from rich.table import Table

        if not rows:
            return
        grid = Table(*head, box=None, pad_edge=False, header_style="dim")
        for row in rows:
            grid.add_row(*(clean(cell) for cell in row))
        self.console.print(grid)

    def begin(self, steps: int) -> None:
        """Begin the curves of a run of at most that many steps."""
        self._steps, self._series = steps, {}
        if self.moving:
            from rich.live import Live

            self._live = Live(console=self.console, refresh_per_second=8)
            self._live.start()

    def step(self, step: int, values: Mapping[str, float]) -> None:
        """Show what a step brought: name -> value, what was not measured left out."""
        for name, value in values.items():
            if math.isfinite(value):
                self._series.setdefault(name, []).append((step, value))
        if self._live is not None:
            self._live.update(self._curves(step))
        elif step % max(self._steps // LINES, 1) == 0 or step == self._steps:
            last = ((name, series[-1][1]) for name, series in self._series.items())
            Screen.text(self, f"step {step}/{self._steps} · " + " · ".join(f"{n} {v:.3g}" for n, v in last))

    def end(self) -> None:
        """End the curves of a run; they stay where they are."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _curves(self, step: int) -> Table:
        from rich.table import Table

        grid = Table(box=None, pad_edge=False, show_header=False)
        grid.add_row("step", "", f"{step} of {self._steps}")
        for name, series in self._series.items():
            at, value = np.array([float(s) for s, _ in series]), np.array([v for _, v in series])
            line = sparkline(at, value, width=WIDTH, span=(1, self._steps))
            grid.add_row(name, line.cells, f"{value[-1]:.3g}")
        return grid
