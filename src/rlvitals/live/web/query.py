"""What a request asks for: its parameters as values, with every problem of them at once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rlvitals.errors import Problem
from rlvitals.live.web.problems import Refused

MAX_STEP = 2**53  # whole numbers above are not exact in a float64
MAX_TEXT = 200  # characters of a filter
STEPS = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")


class Query:
    """Reads parameters one by one; `done()` raises Refused with all problems, unknown parameters included."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._read: set[str] = set()
        self.problems: list[Problem] = []

    def text(self, name: str) -> str:
        """Return a parameter, "" when it is absent or empty."""
        self._read.add(name)
        value = self._given.get(name, "").strip()
        if len(value) > MAX_TEXT:
            self._wrong(name, f"{len(value)} characters", f"at most {MAX_TEXT}")
            return ""
        if "\x00" in value:
            self._wrong(name, "a NUL character", "text")
            return ""
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """Return a whole number of a range."""
        value = self.text(name)
        if not value:
            return default
        if value.isascii() and value.isdigit() and len(value) <= 16 and low <= int(value) <= high:
            return int(value)
        self._wrong(name, repr(value), f"a whole number, {low} to {high}")
        return default

    def number(self, name: str) -> float | None:
        """Return a finite number, None when it is absent."""
        value = self.text(name)
        if not value:
            return None
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            self._wrong(name, repr(value), "a number")
            return None
        return found

    def one_of(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """Return one of the allowed words."""
        value = self.text(name) or default
        if value not in allowed:
            self._wrong(name, repr(value), " or ".join(allowed))
            return default
        return value

    def steps(self, name: str) -> tuple[int, int] | None:
        """Return "40", "40-80" or "80-40" as first and last step, None when it is absent."""
        value = self.text(name)
        if not value:
            return None
        match = STEPS.fullmatch(value)
        if match is None:
            self._wrong(name, repr(value), "a step, or first-last")
            return None
        first, last = sorted((int(match[1]), int(match[2] or match[1])))
        return first, last

    def done(self, status: int = 400) -> None:
        """Raise Refused when anything was wrong."""
        for name in sorted(set(self._given) - self._read):
            known = ", ".join(sorted(self._read)) or "none"
            self.problems.append(Problem("unknown parameter", found=repr(name[:40]), expected=known))
        if self.problems:
            raise Refused(status, *self.problems)

    def _wrong(self, name: str, found: str, expected: str) -> None:
        self.problems.append(Problem("wrong value", name, found, expected))
