"""Console records of other shapes, rewritten as one python-dict line each; every other line passes unchanged.

SkyRL pretty-prints a dict over many lines, AReaL draws a table of cells, prime-rl separates values with bars,
slime names the step in words of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

MAX_LINES = 2_000  # of one record; a longer one is none, and its lines pass unchanged

Line = tuple[int, str]

_STEP_HEAD = re.compile(r"Step (\d+):\s*$")
_TABLE_HEAD = re.compile(r"Train step (\d+)/\d+ done")
_CELL = re.compile(r"[│|]\s*([A-Za-z][\w./@-]*)\s*[│|]\s*([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))\s*(?=[│|])", re.I)
_BORDER = re.compile(r"^[╒╞├╘╤╪┼╧╕╡┤╛═─│\s]+$")
_BARS = re.compile(r"(?<!Micro )\bStep (\d+) \|\s*(.*)$")
_BAR_VALUE = re.compile(
    r"([A-Z][A-Za-z. -]*?):? ([-+]?\d[\d.]*(?:e[-+]?\d+)?)(%?)(?:/\d+ \(([\d.]+)%\))?(?: .*)?$", re.I
)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.I)  # what float() takes, of what the patterns let through
_SECONDS = re.compile(r"(?:Time: )?([\d.]+)s$")
_BAR_SIGNS = (frozenset({"Reward", "Max Off-Policy"}), frozenset({"Reward", "Async Level"}), frozenset({"Loss", "LR"}))
_NAMED = re.compile(r"(?:^|\s)(?:perf|rollout|eval) (\d+): \{(?=['\"](?:rollout|perf|eval)/)")


@dataclass
class _Open:
    """A record that is not complete: the lines seen so far."""

    lines: list[Line] = field(default_factory=list)
    cells: dict[str, str] = field(default_factory=dict)
    step: str = ""


def unwrap(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines, records of several lines as one."""
    dict_, table = _Open(), _Open()
    for n, line in lines:
        if dict_.lines:
            yield from _dict_line(dict_, n, line)
        elif dict_.step and line.startswith("{'") and "}" not in line:
            dict_.lines.append((n, line))
        elif ("│" in line or table.lines) and _table_line(table, n, line):
            continue
        else:
            yield from _table_end(table)
            head = _STEP_HEAD.search(line) if "Step " in line else None
            dict_.step = head[1] if head else ""
            row = _TABLE_HEAD.search(line) if "Train step " in line else None
            if row is not None:
                table.step = str(int(row[1]) - 1)  # the line counts from 1, AReaL's own step from 0
            yield n, _one_line(line)
    yield from dict_.lines
    yield from _table_end(table)


def _dict_line(record: _Open, n: int, line: str) -> Iterator[Line]:
    """Follow a pretty-printed dict; yield it when it ends, its lines unchanged when it turns out to be none."""
    record.lines.append((n, line))
    inside = line.startswith(" ") and len(record.lines) <= MAX_LINES
    if inside and not line.rstrip().endswith("}"):
        return
    lines, record.lines = record.lines, []
    if not inside:
        yield from lines
        return
    text = " ".join(part.strip() for _, part in lines)
    yield lines[0][0], f"Step {record.step}: {text}" if record.step else text


def _table_line(record: _Open, n: int, line: str) -> bool:
    """Take the cells of one line of a table; True for a line that belongs to one."""
    cells = dict(_CELL.findall(line))
    if not cells and not (record.lines and _BORDER.match(line)):
        return False
    record.lines.append((n, ""))
    record.cells.update(cells)
    return True


def _table_end(record: _Open) -> Iterator[Line]:
    if record.lines and record.cells:
        step = {"step": record.step} if record.step else {}
        yield record.lines[0][0], _dict_text({**step, **record.cells})
    record.lines, record.cells = [], {}


def _one_line(line: str) -> str:
    """Return a line with its step where the reader looks for it."""
    named = _NAMED.search(line) if "{" in line else None
    if named is not None:
        return f"{line[: named.start()]} {{'step': {named[1]}, {line[named.end() :]}"
    bars = _BARS.search(line) if "Step " in line and " | " in line else None
    return line if bars is None else _bars(bars[1], bars[2]) or line


def _bars(step: str, text: str) -> str:
    """Return `Step 3 | 11.0s | Reward 0.2 | Error 1.0%` as a dict; percentages become fractions; "" for prose."""
    values: dict[str, str] = {"step": step}
    for part in text.split(" | "):
        seconds = _SECONDS.match(part.strip())
        if seconds is not None:
            values["Time"] = seconds[1]
            continue
        match = _BAR_VALUE.match(part.strip())
        if match is None:
            continue
        share = match[4] or (match[2] if match[3] else "")
        if not share:
            values[match[1]] = match[2]
        elif _NUMBER.fullmatch(share):
            values[match[1]] = str(float(share) / 100)
    return _dict_text(values) if any(signs <= values.keys() for signs in _BAR_SIGNS) else ""


def _dict_text(values: dict[str, str]) -> str:
    return "{" + ", ".join(f"'{key}': '{value}'" for key, value in values.items()) + "}"
