"""What is seen while a fault trains: the metrics as they come, and the monitor's word the moment it notices."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from rlvitals.report.sparkline import sparkline
from rlvitals.report.words import clean

if TYPE_CHECKING:
    from rich.table import Table

    from rlvitals.grpo.evaluate import HeldOut
    from rlvitals.grpo.run import Run
    from rlvitals.live.transitions import Transition

SHOWN = ("reward_mean", "zero_variance_frac", "length_mean", "entropy", "kl_ref", "grad_norm", "logprob_gap_mean")
WIDTH = 48  # cells of a line
AFTERWARDS = 5  # steps that go on once the root cause leads, so that the diagnosis has settled
PATIENCE = 40  # steps that the root cause gets to come first after something else was named
ASKS = ("act", "stop")


class Noticed(Exception):
    """Ends a run: what was broken has been noticed."""

    def __init__(self, step: int, check: str) -> None:
        super().__init__(f"{check} at step {step}")
        self.step, self.check = step, check


class Screen:
    """Where it is shown: colour and moving lines on a terminal, plain lines elsewhere."""

    def __init__(self, out: TextIO | None = None) -> None:
        from rich.console import Console

        self.console = Console(file=out or sys.stdout, highlight=False, markup=False)
        self.moving = self.console.is_terminal
        self.colour = self.moving and not self.console.no_color

    def title(self, text: str) -> None:
        """Print a heading."""
        self.console.print(f"\n{clean(text)}", style="bold cyan", soft_wrap=True)

    def text(self, text: str, style: str = "") -> None:
        """Print a line."""
        self.console.print(clean(text), style=style, soft_wrap=True)

    def raw(self, text: str) -> None:
        """Print a report that was rendered before."""
        self.console.file.write(text)
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


class Watching(AbstractContextManager["Watching"]):
    """The health monitor on a run of the lab, and the screen; ends the run once the fault is named.

    Attributes:
        noticed: the first check that asked for a move after the fault began, None before.
    """

    def __init__(self, steps: int, screen: Screen, roots: frozenset[str], *, stops: bool, start: int) -> None:
        self._steps, self._screen, self._roots, self._stops, self._start = steps, screen, roots, stops, start
        self._series: dict[str, list[tuple[int, float]]] = {name: [] for name in (*SHOWN, "held-out")}
        self._monitor: Any = None
        self._live: Any = None
        self._rooted: int | None = None
        self.noticed: Noticed | None = None

    def __enter__(self) -> Watching:
        if self._screen.moving:
            from rich.live import Live

            self._live = Live(console=self._screen.console, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        from rlvitals.grpo.rolloutfiles import row_of

        if self._monitor is None:
            from rlvitals.live.monitor import Monitor

            self._monitor = Monitor(run.facts, trainer="rlvitals train", name=run.folder.name, rank=0)
        changes = self._monitor.log(run.step, row)
        self._monitor.log_rollouts(run.step, [row_of(t, run.step, run.trainer.version) for t in run.latest])
        for name in SHOWN:
            if math.isfinite(value := row.get(name, math.nan)):
                self._series[name].append((run.step, value))
        if held_out is not None:
            self._series["held-out"].append((run.step, held_out.score))
        self._draw(run.step)
        for change in changes:
            self._say(run.step, change)
        if self._stops and self.noticed is not None:
            self._maybe_end(run.step)

    def _say(self, step: int, change: Transition) -> None:
        """Tell a change that matters, the first one after the fault began as the moment it was noticed."""
        moves = change.finding.action.value not in ("note", "watch", "finish")
        style = "bold red" if moves and change.kind.value in ("opened", "worsened") else "dim"
        if change.action.value == "note":
            return
        text = f"step {step} · {change.kind.value} {change.check} {change.name}: {change.finding.summary}"
        self._screen.text(text, style)
        if moves and self.noticed is None and step >= self._start and change.kind.value in ("opened", "worsened"):
            self.noticed = Noticed(step, change.check)
            self._screen.text(f"noticed {step - self._start + 1} steps after it broke", "bold")
            if change.first_action:
                self._screen.text(f"  {change.first_action}")

    def _maybe_end(self, step: int) -> None:
        """End the run once a root cause has led for some steps, or has had its time to."""
        assert self.noticed is not None
        if self._rooted is None and self._leads():
            self._rooted = step
        since = step - (self._rooted if self._rooted is not None else self.noticed.step)
        if since >= (AFTERWARDS if self._rooted is not None else PATIENCE):
            raise self.noticed

    def _leads(self) -> bool:
        causes = self._monitor.diagnosis().causes
        return bool(causes) and causes[0].asks_for_a_move and (causes[0].id in self._roots or not self._roots)

    def _draw(self, step: int) -> None:
        if self._live is not None:
            self._live.update(self._lines(step))
        elif step % max(self._steps // 12, 1) == 0 or step == self._steps:
            values = ((name, series[-1][1]) for name, series in self._series.items() if series)
            self._screen.text(f"step {step}/{self._steps} · " + " · ".join(f"{n} {v:.3g}" for n, v in values))

    def _lines(self, step: int) -> Table:
        from rich.table import Table

        grid = Table(box=None, pad_edge=False, show_header=False)
        grid.add_row("step", "", f"{step} of {self._steps}")
        for name, series in self._series.items():
            if series:
                at, value = np.array([float(s) for s, _ in series]), np.array([v for _, v in series])
                line = sparkline(at, value, width=WIDTH, span=(1, self._steps))
                grid.add_row(name, line.cells, f"{value[-1]:.3g}")
        return grid
