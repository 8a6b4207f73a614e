"""Records out of single lines of a growing log: the readers of whole files, one line at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import Any

from rlvitals.ingest.readers.blocks import Blocks
from rlvitals.ingest.readers.console import parse_record, pieces
from rlvitals.ingest.readers.csv import DELIMITERS
from rlvitals.ingest.readers.jsonl import parse_line
from rlvitals.ingest.readers.unwrap import unwrap
from rlvitals.ingest.values import number

Record = Mapping[str, Any]
KINDS = ("jsonl", "csv", "console")
"""Kinds of files (ingest.readers.sniff) that can be read on line by line."""


class Lines:
    """Parses the lines of one file of a kind; keeps what later lines need: a header, a style, an open block."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.broken = 0
        self.spans_lines = False  # records of several lines, which a poll may cut in two
        self._header: list[str] = []
        self._delimiter = ","
        self._blocks = Blocks()
        self._counts: dict[str, int] = {}

    def records(self, lines: Iterable[bytes]) -> list[Record]:
        """Return the records of whole lines; what is none is skipped, broken ones are counted."""
        if self.kind == "jsonl":
            return [r for line in lines if line.strip() and (r := self._json(line)) is not None]
        if self.kind == "csv":
            return [r for line in lines if line.strip() and (r := self._csv(line)) is not None]
        return self._console(lines)

    def again(self) -> None:
        """Forget the header and the open block: the file starts anew."""
        self._header, self._blocks = [], Blocks()

    def _json(self, line: bytes) -> Record | None:
        try:
            row, _ = parse_line(line.strip().rstrip(b","))
        except ValueError:
            self.broken += 1
            return None
        return row if isinstance(row, dict) else None

    def _csv(self, line: bytes) -> Record | None:
        text = line.replace(b"\x00", b"").decode("utf-8", "replace").removeprefix("\ufeff")
        if not self._header:
            self._delimiter = max(DELIMITERS, key=lambda d: len(_cells(text, d)))
        cells = _cells(text, self._delimiter)
        if not self._header or _names(cells):
            self._header = [cell.strip() for cell in cells]
            return None
        if len(cells) != len(self._header):
            self.broken += 1
            return None
        return {name: cell for name, cell in zip(self._header, cells, strict=True) if cell}

    def _console(self, lines: Iterable[bytes]) -> list[Record]:
        out: list[tuple[str, Record]] = []
        shown = list(pieces(enumerate((line.decode("utf-8", "replace") for line in lines), 1)))
        whole = list(unwrap(shown))
        self.spans_lines |= whole != shown
        for n, piece in whole:
            in_block, done = self._blocks.feed(piece, n)
            if done is not None:
                out.append((done[0], done[1]))
            if in_block:
                continue
            style, parsed = parse_record(piece)
            if parsed is not None:
                out.append((style, parsed))
        for style, record in out:
            self._counts[style] = self._counts.get(style, 0) + 1 + 1000 * any("reward" in key for key in record)
        best = max(self._counts, key=lambda s: self._counts[s], default="")
        return [record for style, record in out if style == best]


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _names(cells: list[str]) -> bool:
    """True for a header, the first or one that stands again in the middle: names and no number."""
    return len(cells) > 1 and all(cell.strip() and number(cell) is None for cell in cells)
