"""What must hold for any input: an InputError or a run with rows; no hang; memory in proportion to the input."""

from __future__ import annotations

import signal
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rlvitals import diagnose
from rlvitals.errors import InputError
from rlvitals.ingest import load

HANG_S = 60  # seconds for a file of a few kilobytes; far above what any takes, also on a loaded machine
MEMORY_FACTOR = 10  # times the input (issue 4)
MEMORY_FLOOR = 64 * 2**20  # bytes; imports, and MIN_CELLS of one table


class Hang(Exception):
    """The reader did not come back."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hang(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(path: Path, *, memory: bool = False, examine: bool = False) -> str:
    """Load a file and return "refused" or "read". Raises AssertionError or what the reader let through."""
    size = path.stat().st_size
    if memory:
        tracemalloc.start()
    try:
        with time_limit(HANG_S), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            run = load(path)
            warnings.simplefilter("ignore")
            if examine:
                diagnose(run)
    except InputError as error:
        if not error.problems or not str(error).strip():
            raise AssertionError("an InputError without a problem") from error
        return "refused"
    finally:
        if memory:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            limit = max(MEMORY_FLOOR, MEMORY_FACTOR * size)
            assert peak <= limit, f"{peak:,} bytes for an input of {size:,}"
    assert run.rows > 0, "an input without rows was taken for a run"
    assert run.columns, "an input without metrics was taken for a run"
    assert bool(np.all(np.diff(run.step) > 0))
    for name, column in run.columns.items():
        assert not np.isinf(column).any(), f"infinity in {name}"
    return "read"
