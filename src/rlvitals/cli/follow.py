"""`rlvitals check --follow`: what changes in a run, line by line, until Ctrl-C; then the diagnosis.

Stdout holds one thing a reader can parse: the changes and the diagnosis as text, or the diagnosis alone in its format.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rlvitals.cli.common import Extras

if TYPE_CHECKING:
    from rlvitals.diagnosis import Diagnosis
    from rlvitals.live.alerts import Alerts
    from rlvitals.live.follow import Follower
    from rlvitals.live.transitions import Transition

EVERY = 2.0  # seconds between polls

SIGNS = {"opened": "!", "worsened": "!!", "eased": "~", "closed": "ok"}


def follow(
    path: Path,
    extras: Extras,
    *,
    changes: TextIO | None = None,
    every: float = EVERY,
    going: Callable[[], bool] = lambda: True,
) -> Diagnosis | None:
    """Follow a run, print each change, and return the diagnosis once interrupted; None when no step ever came.

    Args:
        changes: where changes are printed, stdout without it.
        every: seconds between polls.
    """
    from rlvitals.live.follow import Follower

    alerts = _alerts(path, extras)
    watchers = (alerts,) if alerts is not None else ()
    follower = Follower(path, map=extras.map, evals=extras.evals, settings=extras.settings, watchers=watchers)
    say(f"Following {path}. Ctrl-C ends with the diagnosis.")
    try:
        with _terminated_like_interrupted():
            _watch(follower, changes or sys.stdout, every, going)
    except KeyboardInterrupt:
        say("")
    found = follower.finish()
    for trouble in follower.troubles:
        say(f"note: {trouble}")
    follower.close()
    for channel in alerts.status() if alerts is not None else ():
        if channel.undelivered:
            say(f"note: {channel.undelivered} alerts through {channel.channel} were not delivered: {channel.error}")
    return found


def _alerts(path: Path, extras: Extras) -> Alerts | None:
    """Return the alerts that the settings want of this command, None for none. Raises InputError."""
    from rlvitals.settings import find_settings, load_settings

    settings = extras.settings
    if settings is None:
        found = find_settings(path)
        settings = load_settings(found) if found is not None else None
    if settings is None or not settings.alerts.follow:
        return None
    from rlvitals.live.alerts import Alerts

    wanted = replace(settings.alerts, trackio=False, wandb=False, mlflow=False)  # their run is in the training process
    alerts = Alerts.of(wanted, run=path.name)
    say(f"Alerts go to: {', '.join(status.channel for status in alerts.status()) or 'no channel'}.")
    return alerts


def _watch(follower: Follower, changes: TextIO, every: float, going: Callable[[], bool]) -> None:
    waiting = how = ""
    said = 0
    while going():
        found = follower.poll()
        if found.waiting and found.waiting != waiting:
            waiting = found.waiting
            say(f"Waiting: {waiting}")
        if follower.how != how:
            how = follower.how
            diagnosis = follower.diagnosis()
            if diagnosis is not None:
                at = diagnosis.position
                say(f"{diagnosis.name}: {at.rows} steps to step {at.last_step}, {how}. {diagnosis.headline}")
        for change in found.transitions:
            print(line_of(change), file=changes, flush=True)
        troubles = follower.troubles
        for trouble in troubles[said:]:
            say(f"note: {trouble}")
        said = len(troubles)
        time.sleep(every)


def line_of(change: Transition) -> str:
    """Return one transition as text for a terminal: what, since when, and the first thing to do."""
    from rlvitals.report.words import clean

    head = f"step {change.step:>6}  {SIGNS[change.kind.value]:>2} {change.kind.value:<8}  {change.check} {change.name}"
    text = f"{head} [{change.action.value}] {change.finding.summary} Since {change.finding.onset}."
    if change.kind.value == "closed":
        text = f"{head}: no longer there at this step; it began at {change.finding.onset}."
    elif change.first_action:
        text += f"\n               do: {change.first_action} Why: rlvitals explain {change.check}"
    return "\n".join(clean(line) for line in text.split("\n"))


def say(text: str) -> None:
    """Print on stderr: stdout is for pipes."""
    from rlvitals.report.words import clean

    print(clean(text), file=sys.stderr, flush=True)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: a job scheduler sends it."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
