"""JSON lines as they are given: every line an object of text in UTF-8, or all that is wrong with the file at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlvitals.env import is_text
from rlvitals.errors import InputError, Problem

MAX_FILE_BYTES = 4 * 2**30
SHOWN = 5  # broken lines named in one error
BOM = "\ufeff"
HALF = re.compile(r"\\u[dD][89a-fA-F]..")  # the only way to a surrogate in a line that was read as UTF-8
LONE = re.compile(r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]..")  # to show it

Row = dict[str, Any]


def numbered(path: Path, where: str) -> Iterator[tuple[int, Row | Problem]]:
    """Yield (number of the line, its object or what is wrong with it) for each line that is not blank.

    Args:
        where: what names the file, for errors.

    InputError where there is no such file, or it cannot be read or is too large.
    """
    try:
        if not path.is_file():
            raise InputError(Problem("no such file", where, str(path), "a JSON lines file"))
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(Problem("the file is too large", str(path), f"{size:,} bytes", "at most 4 GiB"))
        # what is no UTF-8 becomes lone surrogates, which no UTF-8 file can hold: so it is found line by line
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                text = line.removeprefix(BOM) if number == 1 else line
                if text.strip():
                    yield number, _row(text, f"{path} line {number}")
    except OSError as error:
        raise InputError(Problem("the file cannot be read", str(path), error.strerror or str(error))) from error


def _row(text: str, where: str) -> Row | Problem:
    if not is_text(text):
        found = f"{text.strip().encode(errors='surrogateescape')!r:.60}"
        return Problem("not UTF-8", where, found, "text in UTF-8", "Convert it: iconv -f latin1 -t utf-8 FILE")
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        return Problem("not a JSON object", where, f"{text.strip()!r:.60}")
    if HALF.search(text) and not is_text(json.dumps(row, ensure_ascii=False)):
        at = LONE.search(text) or HALF.search(text)
        found = text[max(0, at.start() - 20) : at.end() + 20].strip() if at else ""
        return Problem("half a surrogate pair, which is no text", where, found, "", "Write the character itself")
    return row


def rows_of(path: Path, where: str) -> list[Row]:
    """Return the objects of a JSON lines file. InputError names every line that is none, the first few at once."""
    rows: list[Row] = []
    broken: list[Problem] = []
    for _, row in numbered(path, where):
        if isinstance(row, Problem):
            broken.append(row)
        else:
            rows.append(row)
    if broken:
        raise InputError(*first_few(broken, str(path)))
    if not rows:
        raise InputError(Problem("no rows", str(path), "an empty file", "one JSON object a line"))
    return rows


def first_few(broken: Sequence[Problem], where: str, what: str = "lines") -> list[Problem]:
    """Return the first problems, and how many more there are."""
    more = len(broken) - SHOWN
    return [*broken[:SHOWN], *([Problem(f"{more} more broken {what}", where)] if more > 0 else [])]
