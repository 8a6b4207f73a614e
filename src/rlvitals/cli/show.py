"""Show a reference page in the terminal: wrapped to its width, tables that do not fit as stacked entries."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from rlvitals.reference.page import Block, Bullets, Code, Page, Paragraph, Table
from rlvitals.report.words import clean

MAX_WIDTH = 100  # columns; longer lines read badly (convention)
NAME_STYLE = "cyan"
_TRAILING = re.compile(r" +$", re.MULTILINE)
_MARKED = re.compile(r"`([^`]*)`")


def show(content: Page) -> None:
    """Print a page on stdout; colour only on a terminal and without NO_COLOR."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size((80, 24)).columns
    sys.stdout.write(render(content, min(width, MAX_WIDTH), colour=colour))


def render(content: Page, width: int, *, colour: bool = False) -> str:
    """Return the page as text of at most `width` columns."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        no_color=not colour,
        force_terminal=colour,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for item in _blocks(content, width):
        console.print(item)
    return _TRAILING.sub("", out.getvalue())


def _blocks(content: Page, width: int) -> Iterator[RenderableType]:
    yield Text(clean(content.title), "bold")
    if content.lead:
        yield text(content.lead)
    for each in content.sections:
        yield ""
        yield Text(clean(each.title), "bold cyan")
        for block in each.blocks:
            yield from _block(block, width - 2)


def _block(block: Block, width: int) -> Iterator[RenderableType]:
    if isinstance(block, Paragraph):
        yield _indented(text(block.text))
    elif isinstance(block, Code):
        yield _indented(Text(block.text), 4)
    elif isinstance(block, Bullets):
        for n, item in enumerate(block.items, 1):
            yield _indented(_hanging(f"{n}." if block.numbered else "-", item))
    else:
        yield from _table(block, width)


def _hanging(mark: str, body: str) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row(mark, text(body))
    return grid


def _table(table: Table, width: int) -> Iterator[RenderableType]:
    """Yield a table where it fits, else one entry per row: the first cell, then the others by their head."""
    columns = range(len(table.head))
    used = [c for c in columns if any(row[c] for row in table.rows)]
    widths = [max(len(_plain(row[c])) for row in (table.head, *table.rows)) for c in used]
    if sum(widths) + 2 * len(widths) <= width:
        grid = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for c in used:
            grid.add_column(table.head[c])
        for row in table.rows:
            grid.add_row(*(text(row[c]) for c in used))
        yield _indented(grid)
        return
    for row in table.rows:
        yield from _stacked(table, row, used)


def _stacked(table: Table, row: tuple[str, ...], used: list[int]) -> Iterator[RenderableType]:
    """Yield one row of a table that is too wide: its first cell in bold, then the others."""
    first, *rest = (c for c in used if row[c])
    if table.running:
        line = text(row[first], "bold")
        line.append_text(text("".join(f" · {row[c]}" for c in rest)))
        yield _indented(line)
        return
    head = f"{row[first]}. {row[rest.pop(0)]}" if not table.head[first] and rest else row[first]
    yield _indented(text(head, "bold"))
    for c in rest:
        yield _indented(_labelled(table.head[c], row[c]), 4)


def _indented(item: RenderableType, by: int = 2) -> RenderableType:
    return Padding(item, (0, 0, 0, by), expand=False)


def _labelled(label: str, body: str) -> RenderableType:
    return Text.assemble((f"{label}: ", "dim"), *_pieces(body))


def _pieces(body: str) -> Iterator[tuple[str, str]]:
    at = 0
    for match in _MARKED.finditer(body):
        yield clean_keep(body[at : match.start()]), ""
        yield clean_keep(match[1]), NAME_STYLE
        at = match.end()
    yield clean_keep(body[at:]), ""


def clean_keep(part: str) -> str:
    """Return untrusted text without control characters, its outer spaces kept."""
    inner = clean(part)
    if not inner:
        return " " if part else ""
    return (" " if part[:1] == " " else "") + inner + (" " if part[-1:] == " " else "")


def text(body: str, style: str = "") -> Text:
    """Return body text with the names in backticks coloured."""
    return Text.assemble(*_pieces(body), style=style)


def _plain(cell: str) -> str:
    return _MARKED.sub(r"\1", cell)
