"""`rlvitals demo`: diagnose the failing example run that ships with the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rlvitals.errors import InputError, Problem

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PREFERRED = "trl_run"
DEFAULT_OUT = Path("rlvitals-demo.html")


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the HTML report goes.")] = DEFAULT_OUT,
) -> None:
    """Diagnose a real failing run that ships with rlvitals, and write its report."""
    from rlvitals.cli.check import render
    from rlvitals.cli.common import write_file
    from rlvitals.conclude import diagnose
    from rlvitals.ingest import load

    diagnosis = diagnose(load(example()))
    sys.stdout.write(render(diagnosis, "terminal").decode())
    sys.stdout.flush()
    write_file(out, render(diagnosis, "html"))
    print(f"\nWrote the report to {out}. Diagnose your own run with: rlvitals check PATH")
    print("See one fail, be noticed and be mended as it trains: rlvitals lab show parser-changed")


def example() -> Path:
    """Return the example run. Raises InputError when the installation has none."""
    runs = (
        sorted(p for p in EXAMPLES.iterdir() if p.is_dir() and not p.name.startswith("_")) if EXAMPLES.is_dir() else []
    )
    preferred = EXAMPLES / PREFERRED
    if preferred in runs or not runs:
        runs = [preferred]
    if not runs[0].is_dir():
        hint = "Install again with: pip install --force-reinstall rlvitals"
        raise InputError(Problem("the example run is missing", str(EXAMPLES), "no folder", PREFERRED, hint))
    return runs[0]
