"""What looks on while a run trains: a progress bar and the health monitor; trackers.py has the experiment trackers.

Each is called after every step in the process that writes; none of them can change the run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TextIO

from rlvitals.grpo.evaluate import HeldOut
from rlvitals.grpo.logs import METRICS
from rlvitals.grpo.rolloutfiles import row_of
from rlvitals.grpo.run import Run


class Progress(AbstractContextManager["Progress"]):
    """A bar with rate, time left, reward and held-out score on a terminal; a line every tenth of the run elsewhere."""

    def __init__(self, steps: int, out: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._out = out or sys.stderr
        self._console = Console(file=self._out, highlight=False)
        self._steps, self._held_out = steps, ""
        self._bar: Bar | None = None
        if self._console.is_terminal:
            self._bar = Bar(
                BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn(),
                console=self._console,
            )  # fmt: skip
            self._task = self._bar.add_task("starting", total=steps)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, soft_wrap=True)

    def __call__(self, run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        if held_out is not None:
            self._held_out = f" · held-out {held_out.score:.3f}"
        reward = f"reward {row['reward_mean']:.3f}" if "reward_mean" in row else "no reward"
        rate = f"{row['tokens_per_second']:,.0f} tokens/s"
        text = f"{reward}{self._held_out} · {rate}"
        if self._bar is not None:
            self._bar.update(self._task, completed=run.step, description=text)
        elif run.step % max(self._steps // 10, 1) == 0 or run.step == self._steps:
            self.say(f"step {run.step}/{self._steps} · {text}")


class Vitals:
    """The health monitor on the run: says what changes, and notes it in events.jsonl."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._monitor: Any = None

    def __call__(self, run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        if self._monitor is None:
            self._monitor = self._started(run)
        changes = self._monitor.log(run.step, row)
        fixed = {} if run.rollouts is None else run.rollouts.fixed
        rows = [{**fixed, **row_of(t, run.step, run.trainer.version)} for t in run.latest]
        self._monitor.log_rollouts(run.step, rows)
        for change in changes:
            if change.action.value == "note":  # true of the settings all along, nothing to do
                continue
            text = f"{change.kind.value} {change.check} {change.name}: {change.finding.summary}"
            self._progress.say(f"step {run.step} · {text}")
            if change.first_action:
                self._progress.say(f"  {change.first_action}")
            if run.log is not None:
                run.log.event(run.step, "vitals", text, check=change.check, action=change.action.value)

    def headline(self) -> str:
        """Return the verdict so far in one sentence, "" before the first step."""
        return "" if self._monitor is None else str(self._monitor.diagnosis().headline)

    def _started(self, run: Run) -> Any:
        from rlvitals.live.monitor import Monitor

        monitor = Monitor(run.facts, trainer="rlvitals train", name=run.folder.name, rank=0)
        with (run.folder / METRICS).open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        for row in rows:  # of a resumed run: what came before
            if row["step"] < run.step:
                monitor.log(row["step"], {k: v for k, v in row.items() if k != "step"})
        return monitor
