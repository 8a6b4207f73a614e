"""Runs the cases of the lab: one thread each, several at a time, each result kept as soon as it is there."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson

from rlvitals.errors import InputError, Problem
from rlvitals.lab.about import about
from rlvitals.lab.cases import Case
from rlvitals.lab.examine import examine, nothing
from rlvitals.lab.fault import Fault, Healthy
from rlvitals.lab.find import subject_of
from rlvitals.lab.injected import injected
from rlvitals.lab.kept import FAILED
from rlvitals.lab.layouts import LAYOUTS

RESULT = "result.json"
RUN, LAYOUT = "run", "layouts"
DONE = "done"
PER_PROCESS = 64  # cases per process, so that what they leave in memory ends with it; `max_tasks_per_child` of Python
# 3.11 would do it too, but its pool comes to a standstill when all processes reach it (cpython issue 115634)
Said = Callable[[str, str], None]
"""Told (name of the case, "done" or what went wrong) as soon as a case has ended."""


def missing(cases: Iterable[Case], folder: Path) -> list[Case]:
    """Return the cases that have no result yet."""
    return [c for c in cases if not (folder / c.name / RESULT).is_file()]


def refresh(subjects: Iterable[Fault | Healthy], folder: Path) -> list[str]:
    """Describe subjects in the results that are there as the code that is loaded does.

    Returns the cases whose fault was another one when they were trained, by its code, settings, strength or first step.
    """
    by_name = {s.name: s for s in subjects}
    others = []
    for result in read_results(folder) if folder.is_dir() else []:
        subject = by_name.get(str(result["subject"]))
        if subject is None or isinstance(subject, Healthy) is not bool(result.get("healthy", False)):
            continue
        now = about(subject)
        if result.get("about") != now:
            _keep({**result, "about": now}, folder / str(result["case"]))
        if is_other(result, subject):
            others.append(str(result["case"]))
    return others


def is_other(result: Mapping[str, Any], subject: Fault | Healthy) -> bool:
    """Return whether a result is of another version of its fault; one that keeps no digest is taken as it is."""
    kept, name = str(result.get("injected", "")), result.get("strength")
    if not kept or isinstance(subject, Healthy):
        return False
    strength = next((s for s in subject.strengths if s.name == name), None)
    return strength is None or injected(subject, strength) not in ("", kept)


def run_case(case: Case, folder: Path) -> dict[str, Any]:
    """Train one case, write it in every layout, examine each, and keep the result.

    A run that its fault brings down is a result too: what was logged until then is examined.
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
    started, crash = time.process_time(), ""
    try:
        outcome = train(config, parts, folder=here / RUN)
        ended = outcome.reason
    except InputError as error:
        if not _logged(here / RUN):
            raise
        ended, crash = "", str(error)[:500]
    except Exception as error:  # a fault may well break the trainer
        ended, crash = "", f"{type(error).__name__}: {error}"[:500]
        if not _logged(here / RUN):
            raise InputError(Problem("the trainer died before it logged a step", case.name, crash)) from error
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
    result = _read(here / RESULT)
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


def _logged(run: Path) -> bool:
    """Return whether a run logged anything: what logged nothing is no run that could be examined."""
    file = run / "metrics.jsonl"
    return file.is_file() and file.stat().st_size > 0


def _held_out(run: Path) -> list[tuple[int, float]]:
    """Return (step, score) of every held-out evaluation of a run."""
    file = run / "metrics.jsonl"
    if not file.is_file():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]  # NaN is kept
    return [(int(r["step"]), float(v)) for r in rows for k, v in r.items() if k.startswith("eval/") and v is not None]


def run_cases(cases: Sequence[Case], folder: Path, jobs: int, said: Said) -> int:
    """Run what has no result yet, `jobs` at a time; return how many left none, or one that is no answer."""
    return _each([_Train(c, folder) for c in missing(cases, folder)], jobs, said)


def hear_cases(names: Sequence[str], folder: Path, jobs: int, said: Said) -> int:
    """Examine cases again, `jobs` at a time; return how many failed."""
    return _each([_Hear(name, folder) for name in names], jobs, said)


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


def _work(job: _Train | _Hear) -> str:
    """Do a job; return what is wrong with its result, "" for nothing."""
    try:
        return job()
    except InputError as error:
        return str(error)[:500]
    except Exception as error:  # one case must not end the others
        return f"{type(error).__name__}: {error}"[:300]


def _each(todo: Sequence[_Train | _Hear], jobs: int, said: Said) -> int:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    os.environ["OMP_NUM_THREADS"] = "1"
    failed = 0
    if jobs == 1 or len(todo) < 2:
        for job in todo:
            wrong = _work(job)
            failed += bool(wrong)
            said(job.name, wrong or DONE)
        return failed
    spawn = get_context("spawn")
    for first in range(0, len(todo), jobs * PER_PROCESS):
        with ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
            waiting = {pool.submit(_work, job): job.name for job in todo[first : first + jobs * PER_PROCESS]}
            try:
                for done in as_completed(waiting):
                    died = done.exception()  # killed: the rest of its pool fails too, and is tried again
                    wrong = f"{type(died).__name__}: {died}"[:300] if died is not None else done.result()
                    failed += bool(wrong)
                    said(waiting[done], wrong or DONE)
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return failed


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return every result below a folder, by name of its case; what is no result of the lab is left out."""
    found = []
    for file in sorted(folder.rglob(RESULT)):
        with suppress(InputError):
            found.append(_read(file))
    return sorted(found, key=lambda r: str(r["case"]))


def _read(file: Path) -> dict[str, Any]:
    """Return a result. Raises InputError when the file holds none."""
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError(Problem("no result of the lab", str(file), str(error)[:200])) from error
    if not isinstance(found, dict) or not {"case", "subject", "seed", "heard"} <= set(found):
        raise InputError(Problem("no result of the lab", str(file)))
    return found


def print_said(name: str, text: str) -> None:
    """Say on stderr what became of a case."""
    print(f"{name}: {text}", file=sys.stderr)
