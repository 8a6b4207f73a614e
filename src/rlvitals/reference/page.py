"""Page: what a reference page says, free of any way to show it; `to_markdown` renders it for the docs.

Text may mark names with backticks; a terminal shows them in colour.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    items: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head; all rows have as many cells as the head.

    `running`: where a terminal is too narrow, a row becomes one running line instead of one line per cell.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    running: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    text: str


Block = Paragraph | Bullets | Table | Code


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    lead: str
    sections: tuple[Section, ...]


def section(title: str, *blocks: Block | None) -> Section | None:
    """Return a section of the blocks that are there, None when none has content."""
    kept = tuple(b for b in blocks if b is not None and _filled(b))
    return Section(title, kept) if kept else None


def page(title: str, lead: str, *sections: Section | None) -> Page:
    """Return a page of the sections that are there."""
    return Page(title, lead, tuple(s for s in sections if s is not None))


def _filled(block: Block) -> bool:
    if isinstance(block, Bullets):
        return bool(block.items)
    if isinstance(block, Table):
        return bool(block.rows)
    return bool(block.text)


def to_markdown(content: Page, level: int = 1) -> str:
    """Return the page as Markdown, its title as a heading of the given level."""
    parts = ["#" * level + " " + _escaped(content.title), _escaped(content.lead)]
    for each in content.sections:
        parts.append("#" * (level + 1) + " " + _escaped(each.title))
        parts.extend(_block(block) for block in each.blocks)
    return "\n\n".join(p for p in parts if p) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _escaped(block.text)
    if isinstance(block, Bullets):
        return "\n".join(f"{f'{n}.' if block.numbered else '-'} {_escaped(i)}" for n, i in enumerate(block.items, 1))
    if isinstance(block, Code):
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", block.text)), 0)
        return f"{fence}\n{block.text}\n{fence}"
    head = "| " + " | ".join(_escaped(name).replace("|", "\\|") for name in block.head) + " |"
    rule = "|" + "---|" * len(block.head)
    rows = ("| " + " | ".join(_escaped(c).replace("|", "\\|") or " " for c in row) + " |" for row in block.rows)
    return "\n".join((head, rule, *rows))


def _escaped(text: str) -> str:
    """Escape what Markdown would read as HTML or emphasis, outside of backticks."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = parts[i].replace("<", "&lt;").replace("*", "\\*")
    return "`".join(parts)
