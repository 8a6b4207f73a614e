"""What the record says of earlier runs on the same task and model, so that the next run starts from it."""

from __future__ import annotations

from pathlib import Path

from rlvitals.errors import InputError
from rlvitals.record import store
from rlvitals.record.entry import Entry
from rlvitals.schema import Run

UNKNOWN = "unknown"  # the task of a run whose config names none


def task_of(run: Run, named: str = "") -> str:
    """Return the name of a run's task: the one given, else the one in its config, else "unknown".

    Held-out sets give no name: many trainers call them after a metric (`eval_reward`, `eval_rewards/correct/mean`). A
    bare version of the environment ("2026-11-01") gives none either; NAME@VERSION, as our trainer writes it, does.
    """
    if named:
        return named
    known = run.config.versions
    named_environments = (v for v in (known.get("env", ""), known.get("environment", "")) if v.find("@") > 0)
    return known.get("task") or known.get("dataset") or next(named_environments, UNKNOWN)


def last_lesson(run: Run, paths: tuple[Path, ...], task: str = "") -> Entry | None:
    """Return the newest recorded finding with the same task and model, None when there is none.

    Where no run names its task the model alone must be the same, and be known; `sentence` says so. A record that cannot
    be read is no lesson: this is advice beside the diagnosis, never a reason to fail.
    """
    wanted = (task_of(run, task), run.config.model or "")
    if wanted == (UNKNOWN, ""):
        return None
    found: list[Entry] = []
    for file in dict.fromkeys(f for path in paths for f in store.find(path)):
        try:
            found += [e for e in store.read(file) if (e.task or UNKNOWN, e.model) == wanted and e.check]
        except InputError:
            continue
    return max(found, key=lambda e: (e.when, e.id), default=None)


def sentence(entry: Entry) -> str:
    """Return a lesson in one sentence."""
    fix = f"fix: {entry.fix}" if str(entry.fix) else "no fix recorded"
    on = "model, task unknown" if entry.task in ("", UNKNOWN) else "task and model"
    return (
        f"Last recorded on this {on} ({entry.run}, {entry.when[:10]}): {entry.check} {entry.finding}, "
        f"{entry.onset}; {fix}; outcome: {entry.outcome.value}."
    )
