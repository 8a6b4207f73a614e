"""What is seen while a fault trains: the metrics as they come, and the monitor's word the moment it notices."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rlvitals.lab.screen import Screen
from rlvitals.report.words import counted

if TYPE_CHECKING:
    from rlvitals.grpo.evaluate import HeldOut
    from rlvitals.grpo.run import Run
    from rlvitals.live.transitions import Transition

SHOWN = ("reward_mean", "zero_variance_frac", "length_mean", "entropy", "kl_ref", "grad_norm", "logprob_gap_mean")
HELD_OUT = "held-out"
AFTERWARDS = 5  # steps that go on once the root cause leads, so that the diagnosis has settled
PATIENCE = 40  # steps that the root cause gets to come first after something else was named


class Noticed(Exception):
    """Ends a run: what was broken has been noticed."""

    def __init__(self, step: int, check: str) -> None:
        super().__init__(f"{check} at step {step}")
        self.step, self.check = step, check


class Watching(AbstractContextManager["Watching"]):
    """The health monitor on a run of the lab, and the screen; ends the run once the fault is named.

    Attributes:
        noticed: the first check that asked for a move after the fault began, None before.
    """

    def __init__(self, steps: int, screen: Screen, roots: frozenset[str], *, stops: bool, start: int) -> None:
        self._steps, self._screen, self._roots, self._stops, self._start = steps, screen, roots, stops, start
        self._monitor: Any = None
        self._rooted: int | None = None
        self.noticed: Noticed | None = None

    def __enter__(self) -> Watching:
        self._screen.begin(self._steps)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._screen.end()

    def __call__(self, run: Run, row: Mapping[str, float], held_out: HeldOut | None) -> None:
        changes = self._monitored(run, row)
        values = {name: row[name] for name in SHOWN if name in row}
        if held_out is not None:
            values[HELD_OUT] = held_out.score
        self._screen.step(run.step, values)
        for change in changes:
            self._say(run.step, change)
        if self._stops and self.noticed is not None:
            self._maybe_end(run.step)

    def _monitored(self, run: Run, row: Mapping[str, float]) -> tuple[Transition, ...]:
        """Hand the monitor what the log holds, and no more: a step that was not logged is none in the file either.

        A monitor beside a trainer reads the texts of few rollouts where steps take less than a second (live.pace); here
        all are counted that a reader of the files would count, so that the same is seen at the same step.
        """
        from rlvitals.grpo.rolloutfiles import row_of
        from rlvitals.live.samples import batch_of
        from rlvitals.rollouts.fold import of_step

        if self._monitor is None:
            from rlvitals.live.monitor import Monitor

            self._monitor = Monitor(run.facts, trainer="rlvitals train", name=run.folder.name, rank=0)
        if not row:
            return ()
        changes = tuple(self._monitor.log(run.step, row))
        rollouts = [row_of(t, run.step, run.trainer.version) for t in run.latest]
        self._monitor.log_rollouts(run.step, rollouts)
        found, _ = of_step(run.step, batch_of(run.step, rollouts))
        self._monitor.log(run.step, {name: value for name, value in found.items() if name not in row})
        return changes

    def _say(self, step: int, change: Transition) -> None:
        """Tell a change that matters, the first one after the fault began as the moment it was noticed."""
        moves = change.finding.action.value not in ("note", "watch", "finish")
        style = "bold red" if moves and change.kind.value in ("opened", "worsened") else "dim"
        if change.action.value == "note":
            return
        asks = f"{change.kind.value}, {change.action.value}: {change.check} {change.name}"
        text = f"step {step} · {asks}: {change.finding.summary}"
        self._screen.text(text, style)
        if moves and self.noticed is None and step >= self._start and change.kind.value in ("opened", "worsened"):
            self.noticed = Noticed(step, change.check)
            since = counted(step - self._start, "step")
            self._screen.text(f"noticed at step {step}, {since} after it broke (from step {self._start} on)", "bold")
            if change.first_action:
                self._screen.text(f"first: {change.first_action}")

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
