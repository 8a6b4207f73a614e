"""CSV and TSV; a header that stands again in the middle (an appended run) starts a new set of columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from rlvitals.ingest.readers.wandb_export import unwrap
from rlvitals.ingest.sources import Source
from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.ingest.values import number
from rlvitals.schema import Note

DELIMITERS = (",", "\t", ";", "|")
MAX_NAME = 120  # characters of a column name
MAX_CELL = 1_000_000  # characters; longer cells (whole completions) are cut by the csv module with an error

_NAME = re.compile(r"[A-Za-z_(#]")
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")  # beside ";" the comma is the decimal one


def looks_like_table(head: bytes) -> bool:
    """True when the first lines split into the same number of cells, the first one holding names."""
    lines = head.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if len(head) >= 4096:
        lines = lines[:-1]  # may be cut
    lines = [line for line in lines if line.strip()]
    if len(lines) < 2:
        return False
    return sniff_delimiter(lines) != ""


def only_header(head: bytes) -> bool:
    """True when the first bytes hold a single line, of column names."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if line.strip()]
    if len(lines) != 1 or len(head) >= 4096:
        return False
    return any(len(cells := next(csv.reader(lines, delimiter=d))) > 1 and _is_header(cells) for d in DELIMITERS)


def sniff_delimiter(lines: list[str]) -> str:
    """Return the delimiter of a table, "" when the lines are no table."""
    best, best_width = "", 1
    for delimiter in DELIMITERS:
        rows = list(csv.reader(lines[:8], delimiter=delimiter))
        width = len(rows[0])
        if width < 2 or width <= best_width or not _is_header(rows[0]):
            continue
        same = sum(len(row) == width for row in rows[1:])
        numeric = any(number(cell) is not None for row in rows[1:] for cell in row)
        if numeric and same >= 0.6 * (len(rows) - 1):
            best, best_width = delimiter, width
    return best


def _is_header(cells: list[str]) -> bool:
    """True for a row of names: most start with a letter, none is a number."""
    names = [cell.strip() for cell in cells if cell.strip()]
    named = sum(1 for name in names if _NAME.match(name) and len(name) <= MAX_NAME)
    return named >= max(2, 0.6 * len(cells)) and not any(number(name) is not None or "{" in name for name in names)


def read(source: Source) -> list[RawTable]:
    """Read a CSV or TSV file."""
    csv.field_size_limit(MAX_CELL)
    head = source.head().removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = [line for line in head.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]
    delimiter = sniff_delimiter(lines[:-1] if len(lines) > 2 else lines) or ","
    return [unwrap(_read_rows(csv.reader(_text(source), delimiter=delimiter), source.name, delimiter == ";"))]


def _names(cells: list[str], twice: dict[str, str]) -> list[str]:
    """Return a header in which a name that stands there again is "column 3", so that no alias takes it for anything.

    `twice` gets new name -> the name it had.
    """
    out: list[str] = []
    for at, cell in enumerate(cells, 1):
        name = cell.strip()
        if name and name in out:
            twice[f"column {at}"] = name
            name = f"column {at}"
        out.append(name)
    return out


def _text(source: Source) -> Iterator[str]:
    for _, line in source.lines():
        text = line.replace(b"\x00", b"").decode("utf-8", "replace")
        yield from (piece + "\n" for piece in text.split("\r") if piece)


def _read_rows(reader: Iterable[list[str]], name: str, comma: bool) -> RawTable:
    """Read the rows; with `comma`, decimal commas as points: spreadsheets write ";" between cells for their sake."""
    builder = TableBuilder(name)
    twice: dict[str, str] = {}
    header: list[str] = []
    skipped = short = 0
    first_skipped = 0
    number_of_row = 0
    iterator = iter(reader)
    while True:
        try:
            cells = next(iterator)
        except StopIteration:
            break
        except csv.Error:
            skipped += 1
            continue
        number_of_row += 1
        if not header:
            header = _names(cells, twice)
            continue
        if len(cells) != len(header):
            if _is_header(cells):
                header = _names(cells, twice)
                continue
            short += 1
            if len(cells) > len(header) or len(cells) < 2:
                skipped += 1
                first_skipped = first_skipped or number_of_row
                continue
        elif cells[0].strip() == header[0]:
            if _is_header(cells):
                header = _names(cells, twice)
            continue
        if comma:
            cells = [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell.strip()) else cell for cell in cells]
        builder.add(_row(header, cells), number_of_row)
    notes: list[Note] = []
    if twice:
        named = ", ".join(f"{new} ({old})" for new, old in list(twice.items())[:6])
        text = f"columns of a name that stood before: only the first is taken for it; left as {named}"
        notes.append(Note(text, name, 0, len(twice)))
    if skipped:
        notes.append(Note("skipped rows with another number of cells than the header", name, first_skipped, skipped))
    if short - skipped > 0:
        notes.append(
            Note("rows with fewer cells than the header, e.g. a half-written last line", name, 0, short - skipped)
        )
    return builder.build(tuple(notes))


def _row(header: list[str], cells: list[str]) -> dict[str, object]:
    """Return a row without its empty cells; numbers as floats where that is quick."""
    row: dict[str, object] = {}
    for key, cell in zip(header, cells, strict=False):
        if cell:
            try:
                row[key] = float(cell)
            except ValueError:
                row[key] = cell
    return row
