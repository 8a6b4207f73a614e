"""Errors that a user can act on: what happened, where, what was found, what was expected, what to type next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input."""

    what: str
    where: str = ""  # file, line, key
    found: str = ""
    expected: str = ""
    hint: str = ""  # nearest match or next command

    def __str__(self) -> str:
        text = (f"{self.where}: " if self.where else "") + self.what
        if self.found:
            text += f"; found {self.found}"
        if self.expected:
            text += f"; expected {self.expected}"
        return text + (f". {self.hint}" if self.hint else "")


class InputError(Exception):
    """Input that cannot be read as a training run; carries every problem of that input at once."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(p) for p in problems))


class NotATrainingRun(InputError):
    """Input that was read, but is no RL run (SFT only, free text): refused, never called healthy."""


class SeveralRuns(InputError):
    """A folder that holds several runs where one was asked for; `runs` are the paths to name in its place."""

    def __init__(self, runs: tuple[Path, ...], *problems: Problem) -> None:
        self.runs = runs
        super().__init__(*problems)
