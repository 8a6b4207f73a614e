"""What the record says of earlier runs on the same task and model, so that the next run starts from it."""

from __future__ import annotations

from pathlib import Path

from rlvitals.errors import InputError
from rlvitals.record import store
from rlvitals.record.entry import Entry
from rlvitals.schema import Run


def task_of(run: Run, named: str = "") -> str:
    """Return the name of a run's task: the one given, the one in its config, or that of its held-out sets."""
    if named:
        return named
    for key in ("task", "dataset", "env", "environment"):
        found = run.config.versions.get(key)
        if found:
            return found
    return ", ".join(sorted(run.evals)[:4])


def last_lesson(run: Run, paths: tuple[Path, ...], task: str = "") -> Entry | None:
    """Return the newest recorded finding with the same task and model, None when there is none.

    A record that cannot be read is no lesson: this is advice beside the diagnosis, never a reason to fail.
    """
    wanted = (task_of(run, task), run.config.model or "")
    if not any(wanted):
        return None
    found: list[Entry] = []
    for file in dict.fromkeys(f for path in paths for f in store.find(path)):
        try:
            found += [e for e in store.read(file) if (e.task, e.model) == wanted and e.check]
        except InputError:
            continue
    return max(found, key=lambda e: (e.when, e.id), default=None)


def sentence(entry: Entry) -> str:
    """Return a lesson in one sentence."""
    fix = f"fix: {entry.fix}" if str(entry.fix) else "no fix recorded"
    return (
        f"Last recorded on this task and model ({entry.run}, {entry.when[:10]}): {entry.check} {entry.finding}, "
        f"{entry.onset}; {fix}; outcome: {entry.outcome.value}."
    )
