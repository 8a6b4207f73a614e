"""Where an exception came from: the code that a fault puts in, or the trainer that it brought down."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rlvitals.lab.fault import Fault, Healthy

PACKAGE = Path(__file__).resolve().parents[1]
OF_FAULTS = (PACKAGE / "lab" / "faults", PACKAGE / "lab" / "healthy")
LIBRARIES = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})
MAX_SAID = 300  # characters of an exception's message


@dataclass(frozen=True, slots=True)
class Line:
    """A line of code, and whether it is the fault's own (else the trainer's)."""

    file: str
    number: int
    own: bool

    def __str__(self) -> str:
        return f"{Path(self.file).name} line {self.number}"


@dataclass(frozen=True, slots=True)
class Crash:
    """A run that ended with an exception.

    Attributes:
        step: the one under way.
        said: the exception and its message; line: the innermost of the fault or the trainer, None when unknown.
    """

    step: int
    said: str
    line: Line | None

    def __str__(self) -> str:
        return f"crashed at step {self.step}: {self.said}" + (f" at {self.line}" if self.line else "")


def crash_of(error: BaseException, subject: Fault | Healthy, logged: int) -> Crash:
    """Return the crash of a run that had logged so many steps."""
    frames = lines_of(error, _files_of(subject))
    return Crash(logged + 1, said_of(error), frames[-1] if frames else None)


def is_no_result(crash: Crash, subject: Fault | Healthy, *, broken: bool) -> bool:
    """Return True where a crash is a mistake and not what the fault does to a run.

    That is: the run has nothing broken in it; or the injected code itself raised, or not one broken step was logged,
    and the fault is not said to crash.
    """
    if not broken or not isinstance(subject, Fault):
        return True
    if subject.crashes:
        return False
    return crash.step <= subject.start or (crash.line is not None and crash.line.own)


def said_of(error: BaseException) -> str:
    """Return "KeyError: 'x'" on one line."""
    message = re.sub(r"\s+", " ", str(error)).strip()
    return f"{type(error).__name__}: {message}"[:MAX_SAID] if message else type(error).__name__


def own_line(error: BaseException, files: Collection[str] = ()) -> Line | None:
    """Return the innermost line that a user wrote, of a SyntaxError the line that cannot be read; None without any."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return Line(error.filename, error.lineno, own=True)
    return next((line for line in reversed(lines_of(error, files)) if line.own), None)


def lines_of(error: BaseException, files: Collection[str] = ()) -> list[Line]:
    """Return the lines that an exception passed, outermost first, those of libraries left out.

    `files` are those of a fault, wherever they lie.
    """
    out = []
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if frame.filename.startswith("<") and frame.filename not in files:
            continue
        where = path.resolve()
        mine = str(where) in files or any(where.is_relative_to(folder) for folder in OF_FAULTS)
        if mine or where.is_relative_to(PACKAGE):
            out.append(Line(frame.filename, frame.lineno or 0, own=mine))
        elif not any(where.is_relative_to(folder) for folder in LIBRARIES):
            out.append(Line(frame.filename, frame.lineno or 0, own=True))
    return out


def _files_of(subject: Fault | Healthy) -> frozenset[str]:
    """Return the files of the code that a fault puts in: a package of the user's may lie among the libraries."""
    from rlvitals.lab.injected import modules_of

    names = modules_of(subject.inject) if isinstance(subject, Fault) else ()
    found = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    files = (Path(file).resolve() for file in found if file)
    return frozenset(str(file) for file in files if not file.is_relative_to(PACKAGE))
