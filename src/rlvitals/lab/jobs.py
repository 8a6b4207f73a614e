"""The queue of the lab: jobs one after the other or several processes at a time, ended at once by a signal."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from rlvitals.errors import InputError

DONE = "done"
STOPPED = "stopped"  # in place of what is wrong with a result: a signal came, and there is none
PER_PROCESS = 64  # cases per process, so that what they leave in memory ends with it; `max_tasks_per_child` of Python
# 3.11 would do it too, but its pool comes to a standstill when all processes reach it (cpython issue 115634)
GRACE_S = 2.0  # seconds that a process has to close its files before it is killed (convention): all is trained anew
Said = Callable[[str, str], None]
"""Told (name of the case, "done" or what went wrong) as soon as a case has ended."""


class Stopped(Exception):
    """A signal ended a run before its planned steps: what it logged is no result."""


class Interrupted(Exception):
    """A signal ended the queue.

    Attributes:
        left: jobs that have no result from this call.
    """

    def __init__(self, left: int) -> None:
        super().__init__(f"{left} left")
        self.left = left


class Job(Protocol):
    """What is done for one case; returns what is wrong with its result, "" for nothing."""

    name: str

    def __call__(self) -> str: ...


def each(todo: Sequence[Job], jobs: int, said: Said) -> int:
    """Do every job, `jobs` at a time; return how many left no result, or one that is no answer.

    Raises Interrupted when SIGINT or SIGTERM came: no further job is begun, and those under way leave no result.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    failed = ended = 0
    with _terminated_as_interrupted():
        try:
            for name, wrong in _alone(todo) if jobs == 1 or len(todo) < 2 else _together(todo, jobs):
                if wrong == STOPPED:
                    raise KeyboardInterrupt
                ended += 1
                failed += bool(wrong)
                said(name, wrong or DONE)
        except KeyboardInterrupt:
            raise Interrupted(len(todo) - ended) from None
    return failed


def work(job: Job) -> str:
    """Do a job; return what is wrong with its result, "" for nothing, STOPPED when a signal ended it."""
    try:
        return job()
    except Stopped:
        return STOPPED
    except InputError as error:
        return str(error)[:500]
    except Exception as error:  # one case must not end the others
        return f"{type(error).__name__}: {error}"[:300]


def _alone(todo: Sequence[Job]) -> Iterator[tuple[str, str]]:
    for job in todo:
        yield job.name, work(job)


def _together(todo: Sequence[Job], jobs: int) -> Iterator[tuple[str, str]]:
    """Yield what became of each job as it ends; when the caller is interrupted, end every process of ours."""
    spawn = multiprocessing.get_context("spawn")
    ending = spawn.Event()
    for first in range(0, len(todo), jobs * PER_PROCESS):
        others = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_begin, initargs=(ending,))
        try:
            waiting = {pool.submit(_work_of_a_child, job): job.name for job in todo[first : first + jobs * PER_PROCESS]}
            for done in as_completed(waiting):
                died = done.exception()  # killed: the rest of its pool fails too, and is tried again
                yield waiting[done], f"{type(died).__name__}: {died}"[:300] if died is not None else done.result()
            pool.shutdown()
        except BaseException:  # KeyboardInterrupt, or the caller that had enough (GeneratorExit)
            ending.set()
            pool.shutdown(wait=False, cancel_futures=True)
            _end([child for child in multiprocessing.active_children() if child not in others])
            raise


_ending: list[Any] = []  # of a child: an event, set when no further job shall be begun; its pool has some at hand


def _begin(ending: Any) -> None:
    """Prepare a child: Ctrl-C reaches it too, and is the parent's to answer; a run that trains listens by itself."""
    _ending[:] = [ending]
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work_of_a_child(job: Job) -> str:
    return STOPPED if any(ending.is_set() for ending in _ending) else work(job)


def _end(children: Sequence[BaseProcess]) -> None:
    """Ask processes to end, and kill those that do not."""
    until = time.monotonic() + GRACE_S
    try:
        for child in children:
            child.terminate()
        for child in children:
            child.join(max(until - time.monotonic(), 0.0))
    finally:  # a second Ctrl-C waits no longer
        for child in children:
            if child.is_alive():
                child.kill()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, where signals can be had."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
