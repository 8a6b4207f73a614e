"""`rlvitals demo`: play a recorded fault, noticed and mended, and diagnose the failing run that ships with rlvitals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rlvitals.errors import InputError, Problem

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PREFERRED = "trl_run"
RECORDING = EXAMPLES / "parser-changed.jsonl"
DEFAULT_OUT = Path("rlvitals-demo.html")
REPORT_TITLE = "A run that really failed: the report of rlvitals check"
SPEED_HELP = "Times as fast as it is made for (about 12 s); 0: at once."
PLAY_HELP = "Play another recording (rlvitals lab show FAULT --record FILE)."


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where the HTML report goes.")] = DEFAULT_OUT,
    play: Annotated[Path | None, typer.Option("--play", metavar="FILE", help=PLAY_HELP)] = None,
    speed: Annotated[float, typer.Option("--speed", metavar="X", min=0.0, help=SPEED_HELP)] = 1.0,
    report_only: Annotated[bool, typer.Option("--report-only", help="Play nothing.")] = False,
) -> None:
    """Play a fault that is put in, noticed, named and mended; then diagnose a real failing run and write its report.

    On a terminal the recording moves (Ctrl-C goes on to the report); elsewhere its key moments are printed at once.
    """
    from rlvitals.cli.check import render
    from rlvitals.cli.common import write_file
    from rlvitals.conclude import diagnose
    from rlvitals.ingest import load

    if not report_only:
        _play(play or RECORDING, speed)
    diagnosis = diagnose(load(example()))
    sys.stdout.write(render(diagnosis, "terminal").decode())
    sys.stdout.flush()
    write_file(out, render(diagnosis, "html"))
    print(f"\nWrote the report to {out}. Diagnose your own run with: rlvitals check PATH")
    print("See one fail, be noticed and be mended as it trains: rlvitals lab show parser-changed")


def _play(recording: Path, speed: float) -> None:
    """Play a recording, and say what follows. Raises InputError where it cannot be read."""
    from rlvitals.lab.recording import play, read
    from rlvitals.lab.screen import Screen

    frames, screen = read(recording), Screen()
    screen.text(f"Recorded: rlvitals lab show {frames[0].get('fault', '')} (seed {frames[0].get('seed', '?')})")
    try:
        play(frames, screen, speed)
    except KeyboardInterrupt:
        screen.end()
    screen.title(REPORT_TITLE)


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
