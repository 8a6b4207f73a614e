"""Rollouts as text, JSON and HTML. Their text is untrusted: control characters are shown as escapes everywhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from rlvitals.report.words import clean, multiline, number
from rlvitals.rollouts.dump import Rollouts
from rlvitals.rollouts.fold import Folded
from rlvitals.rollouts.pick import Picked, Selection, in_groups
from rlvitals.rollouts.table import FILE, PART, ROW

_FACTS = ("reward", "correct", "advantage", "tokens", "stop_reason", "parsed", "verifier_status", "policy_version")
_OF_GROUP = ("family", "tier", "split", "gold")
MAX_HTML_TEXT = 20_000  # characters of one text on the page


def as_text(dump: Rollouts, found: Selection, chars: int) -> None:
    """Print the groups on stdout; colour only on a terminal and without NO_COLOR."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    console = Console(
        file=sys.stdout, width=width, no_color=not colour, force_terminal=colour, highlight=False, emoji=False,
        markup=False, legacy_windows=False,
    )  # fmt: skip
    for item in _lines(dump, found, chars, width):
        console.print(item)


def _lines(dump: Rollouts, found: Selection, chars: int, width: int) -> Iterator[RenderableType]:
    yield Text(summary(dump, found), "bold")
    yield Text(str(found.grouper.found()), "dim")
    for note in found.skips.notes():
        yield Text(f"{clean(note.text)} ({note.count}, first: {clean(note.file)})", "dim")
    for (step, group), members in in_groups(found.rollouts):
        yield ""
        about = [f"{name} {clean(members[0].text(name), 60)}" for name in _OF_GROUP if members[0].text(name)]
        named = [f"group {clean(group, 60)}"] if group else ["no group"]
        yield Text(" · ".join([f"step {step}", *named, *about]), "bold cyan")
        prompt = members[0].text("prompt")
        if prompt:
            yield Padding(Text(cut(prompt, chars), "dim"), (0, 0, 0, 2))
        yield from _table(members, width)
        for one in members:
            if one.text("completion"):
                yield Text(f"  rollout {one.text('index')}", "bold")
                yield Padding(Text(cut(one.text("completion"), chars)), (0, 0, 0, 4))


def _table(members: Sequence[Picked], width: int) -> Iterator[RenderableType]:
    """Yield the group's numbers side by side: one line per rollout, only columns that some of them have.

    Where they don't fit into `width` columns, heads take two lines, then what is the same for all is said once, then
    the other columns follow below; nothing is cut.
    """
    names = [n for n in _FACTS if any(n in m.values for m in members)]
    parts = parts_of(members, names, 20)
    heads = ["rollout", *(n.replace("_", " ") for n in names), *parts.values()]
    rows = [[m.text("index"), *(shown(m, n) for n in (*names, *parts))] for m in members]
    columns = [_Column((head,), tuple(row[i] for row in rows)) for i, head in enumerate(heads)]
    if _taken(columns) > width:
        columns = [_Column(tuple(c.head[0].split()), c.cells) for c in columns]
    if _taken(columns) > width and len(rows) > 1:
        alike = [c for c in columns[1:] if len(set(c.cells)) == 1]
        if alike:
            told = ", ".join(f"{' '.join(c.head)} {c.cells[0]}" for c in alike)
            yield Padding(Text(f"the same for all: {told}", "dim"), (0, 0, 0, 2))
        columns = [c for c in columns if c not in alike]
    for block in _blocks(columns, width):
        tall = max(len(c.head) for c in block)
        lines = [[*[""] * (tall - len(c.head)), *c.head, *c.cells] for c in block]
        for n, row in enumerate(zip(*lines, strict=True)):
            line = "  ".join(cell.rjust(c.width) for cell, c in zip(row, block, strict=True))
            yield Padding(Text(line, "dim" if n < tall else "", no_wrap=True, overflow="ellipsis"), (0, 0, 0, 2))


@dataclass(frozen=True, eq=False)
class _Column:
    """One column: its head in lines, and a cell for each rollout."""

    head: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        return max(map(len, (*self.head, *self.cells)))


def _taken(columns: Sequence[_Column]) -> int:
    """Return how many columns of the terminal a line takes, two of them before it and two between cells."""
    return sum(c.width + 2 for c in columns)


def _blocks(columns: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
    """Yield the columns in blocks that fit, each with the first column, which names the rollout."""
    block = [columns[0]]
    for column in columns[1:]:
        if len(block) > 1 and _taken([*block, column]) > width:
            yield block
            block = [columns[0]]
        block.append(column)
    yield block


def parts_of(members: Sequence[Picked], names: Collection[str], most: int) -> dict[str, str]:
    """Return the reward parts of a group that are shown beside the columns `names`, each with its name, cleaned.

    A part that is a column of its own too is shown once, where the two are the same in every rollout of the group.
    """
    out = {}
    for part in dict.fromkeys(n for m in members for n in m.values if n.startswith(PART)):
        name = part.removeprefix(PART)
        if name not in names:
            out[part] = clean(name, most)
        elif any(shown(m, part) != shown(m, name) for m in members):
            out[part] = f"{clean(name, most)} (part)"
    return out


def shown(one: Picked, name: str) -> str:
    """Return one value in a cell."""
    value = one.values.get(name, "-")
    return clean(value, 24) if isinstance(value, str) else str(value) if isinstance(value, int) else number(value)


def cut(text: str, chars: int) -> str:
    """Return text with escapes in place of control characters, bounded, its end kept: there stands the answer."""
    if len(text) > chars:
        head, tail = chars * 2 // 3, chars - chars * 2 // 3
        text = f"{text[:head]}\n[{len(text) - chars:,} characters left out]\n{text[len(text) - tail :]}"
    return multiline(text)


def summary(dump: Rollouts, found: Selection) -> str:
    """Return what was read and how much of it is shown."""
    files = len(dump.files) + len(dump.evaluation)
    text = f"{found.matching:,} of {found.seen:,} rollouts match ({dump.reader.name}, {files} files)"
    left = found.matching - len(found.rollouts)
    return text + (f"; {len(found.rollouts)} shown, {left:,} more with --limit" if left else "")


def as_json(dump: Rollouts, found: Selection) -> str:
    """Return the rollouts as JSON, lossless but for what JSON can't hold."""
    import orjson

    from rlvitals.report.json import plain

    out = {
        "reader": dump.reader.name,
        "files": [str(p) for p in (*dump.files, *dump.evaluation)],
        "groups": {"how": found.grouper.found().how, "sure": found.grouper.found().sure},
        "matching": found.matching,
        "read": found.seen,
        "skipped": [{"reason": n.text, "file": n.file, "count": n.count} for n in found.skips.notes()],
        "rollouts": [dict(one.values) for one in found.rollouts],
    }
    return orjson.dumps(plain(out), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def counts_text(dump: Rollouts, folded: Folded) -> str:
    """Return one line per series: from the first step to the last."""
    lines = [clean(note.text) for note in dump.notes()]
    for name, (steps, values) in sorted(folded.series().items()):
        known = np.flatnonzero(np.isfinite(values))
        if known.size:
            first, last = known[0], known[-1]
            span = f"step {steps[first]} to {steps[last]}"
            lines.append(f"  {clean(name, 60):60s} {number(values[first])} → {number(values[last])}  {span}")
    return "\n".join(lines) + "\n"


def counts_json(dump: Rollouts, folded: Folded) -> str:
    """Return every series in full."""
    import orjson

    from rlvitals.report.json import plain

    series = {n: {"step": s.tolist(), "value": v.tolist()} for n, (s, v) in folded.series().items()}
    out = {"rollouts": folded.rollouts, "notes": [n.text for n in dump.notes()], "series": series}
    return orjson.dumps(plain(out), option=orjson.OPT_APPEND_NEWLINE).decode()


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Rollouts</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { padding: .1rem .8rem .1rem 0; text-align: right; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24rem; overflow-y: auto; padding: .6rem;
      border: 1px solid #8885; border-radius: .3rem; }
.group { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: .8rem; }
.soft { opacity: .7; }
</style></head><body>
<h1>Rollouts</h1><p>{{ summary }}</p><p class="soft">{{ grouping }}</p>
{% for n in notes %}<p class="soft">{{ clean(n.text) }} ({{ n.count }}, first: {{ clean(n.file) }})</p>{% endfor %}
{% for (step, group), members in groups %}
<section id="step-{{ step }}-group-{{ clean(group, 60) }}"><h2>Step {{ step }}, group {{ clean(group, 60) }}</h2>
<p>{% for n in of_group if members[0].text(n) %}{{ n }} {{ clean(members[0].text(n), 80) }} {% endfor %}</p>
{% if members[0].text("prompt") %}<pre>{{ cut(members[0].text("prompt"), most) }}</pre>{% endif %}
<div class="group">{% for m in members %}
<article><h3>Rollout {{ m.text("index") }}</h3>
<table>
{% for n, label in columns(members) if n in m.values %}<tr><th>{{ label }}</th><td>{{ shown(m, n) }}</td></tr>
{% endfor %}
</table>
<pre>{{ cut(m.text("completion"), most) }}</pre>
<p class="soft">{{ clean(m.text("file")) }}, row {{ m.text("row") }}</p></article>
{% endfor %}</div></section>
{% endfor %}</body></html>
"""


_ELSEWHERE = {"prompt", "completion", "step", "group", "index", "prompt_id", "completion_id", FILE, ROW, *_OF_GROUP}


def _columns(members: Sequence[Picked]) -> list[tuple[str, str]]:
    """Return what the page shows of each rollout of a group: the column, and what it is called."""
    all_names = dict.fromkeys(n for m in members for n in m.values)
    names = [n for n in all_names if n not in _ELSEWHERE and not n.startswith(PART)]
    return [*((n, clean(n, 60)) for n in names), *parts_of(members, names, 60).items()]


def as_html(dump: Rollouts, found: Selection) -> str:
    """Return a page without scripts; every text is escaped."""
    from jinja2 import Environment, StrictUndefined

    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(_PAGE)
    return page.render(
        summary=summary(dump, found),
        grouping=str(found.grouper.found()),
        notes=found.skips.notes(),
        groups=in_groups(found.rollouts),
        of_group=_OF_GROUP,
        columns=_columns,
        most=MAX_HTML_TEXT,
        clean=clean,
        cut=cut,
        shown=shown,
    )
