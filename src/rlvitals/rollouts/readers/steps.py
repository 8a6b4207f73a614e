"""The step that a file's name or folder carries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_DIGITS = re.compile(r"(\d+)")


def step_of(path: Path, pattern: re.Pattern[str]) -> int | None:
    """Return the number that a pattern finds in a path, None where there is none of usable size."""
    found = pattern.search(path.as_posix())
    return int(found[1]) if found is not None and len(found[1]) < 16 else None


def natural(path: Path) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts numbers in a path by value: step_2 before step_10."""
    pieces = _DIGITS.split(path.as_posix())
    return tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in pieces if p)


def in_order(paths: Sequence[Path]) -> list[Path]:
    return sorted(paths, key=natural)
