"""A recording of `rlvitals lab show`: one JSON object per line, of what was put on the screen; no clock, no path."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.lab.screen import Screen
from rlvitals.report import terminal

FORM = 1  # of the file; raised when an older player could not read it
MAX_BYTES = 200_000  # it travels in every wheel
COLUMNS = 80  # that a recorded report is written for
DIGITS = 4  # significant ones of a recorded value
LONGEST = 12.0  # seconds that a recording takes at speed 1; one that would take longer plays faster (convention)
PAUSES = {"title": 0.6, "text": 0.35, "report": 2.5, "table": 1.5, "step": 0.05}  # seconds after each (convention)
HINT = "Make one: rlvitals lab show FAULT --record FILE"


class Recorder(Screen):
    """A screen that also keeps what it shows; what is true on this machine alone is left out."""

    def __init__(self, **about: str | int) -> None:
        super().__init__()
        self._frames: list[dict[str, Any]] = [{"rlvitals_show": FORM, **about}]

    def title(self, text: str) -> None:
        self._frames.append({"do": "title", "text": text})
        super().title(text)

    def text(self, text: str, style: str = "") -> None:
        self._frames.append({"do": "text", "text": text, **({"style": style} if style else {})})
        super().text(text, style)

    def report(self, diagnosis: Any) -> None:
        self._frames.append({"do": "report", "text": terminal.render(diagnosis, color=True, width=COLUMNS)})
        super().report(diagnosis)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self._frames.append({"do": "table", "head": list(head), "rows": [list(row) for row in rows]})
        super().table(head, rows)

    def begin(self, steps: int) -> None:
        self._frames.append({"do": "begin", "steps": steps})
        super().begin(steps)

    def step(self, step: int, values: Mapping[str, float]) -> None:
        short = {n: float(f"{v:.{DIGITS}g}") for n, v in values.items()}
        self._frames.append({"do": "step", "step": step, "values": {n: v for n, v in short.items() if v == v}})
        super().step(step, values)

    def end(self) -> None:
        self._frames.append({"do": "end"})
        super().end()

    def write(self, path: Path) -> None:
        """Write what was shown. Raises InputError where that fails or is too much."""
        text = "".join(json.dumps(f, ensure_ascii=False) + "\n" for f in self._frames).encode()
        if len(text) > MAX_BYTES:
            raise InputError(
                Problem("the recording is too large", "--record", f"{len(text)} bytes", f"at most {MAX_BYTES}",
                        "Take fewer steps: --steps N")
            )  # fmt: skip
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        except OSError as error:
            raise InputError(Problem("cannot write", f"--record {path}", error.strerror or str(error))) from error


def read(path: Path) -> tuple[dict[str, Any], ...]:
    """Return the frames of a recording, its first line first. Raises InputError for anything else."""
    try:
        frames = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise InputError(Problem("cannot read", str(path), error.strerror or str(error), hint=HINT)) from error
    except ValueError as error:
        raise InputError(Problem("no recording of the lab", str(path), str(error)[:200], hint=HINT)) from error
    if not frames or not all(isinstance(f, dict) for f in frames) or frames[0].get("rlvitals_show") != FORM:
        raise InputError(Problem("no recording of the lab", str(path), expected=f"form {FORM}", hint=HINT))
    return tuple(frames)


def play(
    frames: Iterable[Mapping[str, Any]], screen: Screen, speed: float = 1.0, wait: Callable[[float], None] = time.sleep
) -> None:
    """Show a recording, with pauses on a terminal and at once elsewhere; speed 0 is at once too."""
    shown = [f for f in frames if "do" in f]
    whole = sum(PAUSES.get(f["do"], 0.0) for f in shown)
    factor = min(1.0, LONGEST / whole) / speed if whole and speed and screen.moving else 0.0
    for frame in shown:
        _show(frame, screen)
        if pause := factor * PAUSES.get(frame["do"], 0.0):
            wait(pause)


def _show(frame: Mapping[str, Any], screen: Screen) -> None:
    match frame["do"]:
        case "title":
            screen.title(frame["text"])
        case "text":
            screen.text(frame["text"], frame.get("style", ""))
        case "report":
            screen.rendered(frame["text"])
        case "table":
            screen.table(frame["head"], frame["rows"])
        case "begin":
            screen.begin(frame["steps"])
        case "step":
            screen.step(frame["step"], frame["values"])
        case "end":
            screen.end()
