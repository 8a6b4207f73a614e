"""Runs the cases of the lab: one thread each, several at a time, each result kept as soon as it is there."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson

from rlvitals.errors import InputError, Problem
from rlvitals.lab.about import about
from rlvitals.lab.cases import Case
from rlvitals.lab.crash import Crash, crash_of, is_no_result
from rlvitals.lab.examine import examine, nothing
from rlvitals.lab.fault import Fault, Healthy
from rlvitals.lab.find import subject_of
from rlvitals.lab.injected import injected
from rlvitals.lab.jobs import Said, Stopped, each
from rlvitals.lab.kept import FAILED
from rlvitals.lab.layouts import LAYOUTS
from rlvitals.lab.results import CRASH, read_result, results_below
from rlvitals.lab.results import RESULT as RESULT
from rlvitals.lab.results import read_results as read_results

RUN, LAYOUT = "run", "layouts"
CRASHED = "No result is kept of it: mend the fault's code, or say crashes=True where it raises on purpose"
ASKED = "asked to stop"  # how the reason begins with which the trainer ends a run that a signal stopped (grpo.loop)


def missing(cases: Iterable[Case], folder: Path) -> list[Case]:
    """Return the cases that have no whole result yet."""
    return [c for c in cases if not (folder / c.name / RESULT).is_file() or torn([c], folder)]


def torn(cases: Iterable[Case], folder: Path) -> list[Problem]:
    """Return what is wrong with the results of cases that have one, and not a whole one."""
    found: list[Problem] = []
    for file in (folder / c.name / RESULT for c in cases):
        try:
            if file.is_file():
                read_result(file)
        except InputError as error:
            found += error.problems
    return found


def refresh(subjects: Iterable[Fault | Healthy], folder: Path) -> list[str]:
    """Describe subjects in the results that are there as the code that is loaded does.

    Returns the cases whose fault was another one when they were trained, by its code, settings, strength or first step.
    """
    by_name = {s.name: s for s in subjects}
    others = []
    for here, result in results_below(folder):
        subject = by_name.get(str(result["subject"]))
        if subject is None or isinstance(subject, Healthy) is not bool(result.get("healthy", False)):
            continue
        now = about(subject)
        if result.get("about") != now:
            _keep({**result, "about": now}, here)
        if is_other(result, subject):
            others.append(str(result["case"]))
    return sorted(others)


def is_other(result: Mapping[str, Any], subject: Fault | Healthy) -> bool:
    """Return whether a result is of another version of its fault; one that keeps no digest is taken as it is."""
    kept, name = str(result.get("injected", "")), result.get("strength")
    if not kept or isinstance(subject, Healthy):
        return False
    strength = next((s for s in subject.strengths if s.name == name), None)
    return strength is None or injected(subject, strength) not in ("", kept)


def run_case(case: Case, folder: Path) -> dict[str, Any]:
    """Train one case, write it in every layout, examine each, and keep the result.

    A run that its fault brings down is a result too: what was logged until then is examined. Raises Stopped when a
    signal ended it, and InputError where the code of the fault raised by mistake: neither leaves a result.
    """
    import torch

    from rlvitals.grpo.loop import train
    from rlvitals.grpo.parts import settle

    torch.set_num_threads(1)
    here = folder / case.name
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    config, parts = case.setup()
    settle(config)
    started, crash, ended = time.process_time(), "", ""
    try:
        ended = train(config, parts, folder=here / RUN).reason
    except InputError:  # a setup that cannot be, a disk that is full: never what a fault does to a run
        raise
    except Exception as error:  # a fault may well break the trainer
        crash = str(_crash(error, case, here))
    if ended.startswith(ASKED):
        raise Stopped(ended)
    trained = time.process_time() - started
    result = {
        "case": case.name,
        "subject": case.subject.name,
        "about": about(case.subject),
        "injected": injected(case.subject, case.strength),
        "healthy": isinstance(case.subject, Healthy),
        "control": case.is_control,
        "against": "" if isinstance(case.subject, Healthy) else replace(case, strength=None).name,
        "strength": None if case.strength is None else case.strength.name,
        "seed": case.seed,
        "more": dict(case.more),
        "start": getattr(case.subject, "start", 1),
        "steps": config.steps,
        "eval_items": config.eval_items,
        "ended": ended,
        "crash": crash,
        "cpu_seconds": trained,
        "held_out": _held_out(here / RUN),
        "heard": _heard(here),
    }
    _keep(result, here)
    return result


def hear_again(name: str, folder: Path) -> dict[str, Any]:
    """Examine the logs of a case that was trained before with the checks as they are now. Raises InputError."""
    here = folder / name
    result = read_result(here / RESULT)
    if not (here / RUN).is_dir():
        raise InputError(Problem("the logs of this case are gone", str(here), expected="the folder run/"))
    result = {**result, "heard": _heard(here)}
    _keep(result, here)
    return result


def unheard(result: Mapping[str, Any]) -> str:
    """Return which layouts rlvitals itself failed on, "" for none: such an answer is no answer."""
    found = [f"{n}: {h['error']}" for n, h in result["heard"].items() if h["error"].startswith(FAILED)]
    return "; ".join(found)


def _heard(here: Path) -> dict[str, Any]:
    """Return what is said of a run in each layout; a layout that cannot be written or read is an answer too."""
    heard = {}
    for name, write in LAYOUTS.items():
        source = here / RUN
        try:
            if write is not None:
                source = write(here / RUN, here / LAYOUT / name)
            heard[name] = asdict(examine(source))
        except Exception as error:  # one layout must not cost the others
            heard[name] = asdict(nothing(f"{FAILED}{type(error).__name__}: {error}"[:300]))
    return heard


def _keep(result: Mapping[str, Any], here: Path) -> None:
    """Write a result in one move: what is there is whole."""
    partial = here / f"{RESULT}.part"
    partial.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))
    partial.replace(here / RESULT)


def _crash(error: Exception, case: Case, here: Path) -> Crash:
    """Return how a run crashed where that is what its fault does. Raises InputError, and keeps no result, otherwise."""
    crash = crash_of(error, case.subject, last_step(here / RUN))
    if is_no_result(crash, case.subject, broken=case.strength is not None):
        kept = {"case": case.name, "subject": case.subject.name, "crash": str(crash)}
        (here / CRASH).write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2))
        raise InputError(Problem(str(crash), hint=CRASHED)) from error
    return crash


def last_step(run: Path) -> int:
    """Return the last training step that a run logged, 0 for none."""
    file = run / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return max((int(json.loads(line)["step"]) for line in lines if line.strip()), default=0)


def _held_out(run: Path) -> list[tuple[int, float]]:
    """Return (step, score) of every held-out evaluation of a run."""
    file = run / "metrics.jsonl"
    if not file.is_file():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]  # NaN is kept
    return [(int(r["step"]), float(v)) for r in rows for k, v in r.items() if k.startswith("eval/") and v is not None]


def run_cases(cases: Sequence[Case], folder: Path, jobs: int, said: Said) -> int:
    """Run cases, `jobs` at a time; return how many left no result, or one that is no answer. Raises Interrupted."""
    return each([_Train(c, folder) for c in cases], jobs, said)


def hear_cases(names: Sequence[str], folder: Path, jobs: int, said: Said) -> int:
    """Examine cases again, `jobs` at a time; return how many failed. Raises Interrupted."""
    return each([_Hear(name, folder) for name in names], jobs, said)


class _Train:
    """A case to train, found again by name where it runs: what a fault does can rarely be pickled."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.name = case.name
        self._folder, self._source, self._subject = folder, case.source, case.subject.name
        self._is_healthy = isinstance(case.subject, Healthy)
        self._strength = None if case.strength is None else case.strength.name
        self._seed, self._steps, self._more = case.seed, case.steps, case.more

    def __call__(self) -> str:
        subject = subject_of(self._subject, self._source, healthy=self._is_healthy)
        strengths = subject.strengths if isinstance(subject, Fault) else ()
        strength = next((s for s in strengths if s.name == self._strength), None)
        case = Case(subject, strength, self._seed, self._steps, self._more, self._source)
        return unheard(run_case(case, self._folder))


class _Hear:
    """A case to examine again."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder

    def __call__(self) -> str:
        return unheard(hear_again(self.name, self._folder))
