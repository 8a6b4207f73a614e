"""What the commands after a diagnosis share: a page for the terminal and Markdown, plain JSON for scripts."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlvitals.cli.common import INPUT_PANEL, MAP_HELP, SETTINGS_HELP, SHOW_PANEL, one_of, write_file
from rlvitals.errors import Problem

if TYPE_CHECKING:
    from rlvitals.reference.page import Page

FORMATS = ("terminal", "json", "markdown")
FORMAT_HELP = "terminal, json or markdown."
Format = Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help=FORMAT_HELP, rich_help_panel=SHOW_PANEL)]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write it to this file.", rich_help_panel=SHOW_PANEL),
]
Mapped = Annotated[
    list[str] | None, typer.Option("--map", metavar="METRIC=KEY", help=MAP_HELP, rich_help_panel=INPUT_PANEL)
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help=SETTINGS_HELP, rich_help_panel=INPUT_PANEL)
]


def known_format(format: str, problems: list[Problem]) -> None:
    """Add a problem for a format that these commands do not write."""
    one_of(format, FORMATS, "--format", problems)


def deliver(content: Page, data: Any, format: str, out: Path | None) -> None:
    """Show an answer; `data` is the frozen answer itself, for JSON."""
    if format == "terminal" and out is None:
        from rlvitals.cli.show import show

        show(content)
        return
    text = as_json(data) if format == "json" else _text(content, format)
    if out is None:
        sys.stdout.write(text)
        return
    write_file(out, text.encode())
    print(f"Wrote {out}", file=sys.stderr)


def _text(content: Page, format: str) -> str:
    if format == "markdown":
        from rlvitals.reference.page import to_markdown

        return to_markdown(content)
    from rlvitals.cli.show import render

    return render(content, 80)


def as_json(data: Any) -> str:
    """Return a frozen answer as JSON text: null where a number is not finite."""
    import orjson

    from rlvitals.report.json import plain

    return orjson.dumps(plain(asdict(data)), option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2).decode()
