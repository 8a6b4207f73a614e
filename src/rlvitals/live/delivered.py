"""What each channel has told, kept in a file.

A restarted process then tells what the one before it could not, and nothing twice.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

FILE = "alerts.jsonl"
MAX_BYTES = 1_000_000  # a larger file is written anew with the last line of each check (convention)
MAX_READ = 64 * MAX_BYTES  # a larger one is none of ours

Key = tuple[str, str]  # run and check


@dataclass(frozen=True, slots=True)
class Delivered:
    """What was last told of one check. `at_s` is on the clock of the courier."""

    level: int  # severity of the action it asked for then
    variants: frozenset[str]
    is_open: bool
    at_s: float


class DeliveredFile:
    """One line per message that a channel took. Without a folder nothing is kept.

    Args:
        now: s since the epoch; tests give their own.
    """

    def __init__(self, folder: Path | None, channel: str, now: Callable[[], float] = time.time) -> None:
        self._path = None if folder is None else folder / FILE
        self._channel, self._now = channel, now

    def load(self, clock_s: float) -> dict[Key, Delivered]:
        """Return what was told before, with its times on a clock that now shows `clock_s`; bad lines are left out."""
        lines = self._lines()
        now = self._now()
        out: dict[Key, Delivered] = {}
        for line in lines:
            if line.get("channel") != self._channel:
                continue
            with contextlib.suppress(KeyError, TypeError, ValueError):
                age = max(0.0, now - float(line["at"]))  # a clock that was set back makes nothing older than it is
                key = (str(line["run"]), str(line["check"]))
                variants = frozenset(map(str, line["variants"]))
                out.pop(key, None)
                out[key] = Delivered(int(line["level"]), variants, bool(line["open"]), clock_s - age)
        return out

    def append(self, key: Key, told: Delivered) -> None:
        """Keep one message that was told. A disk that is full costs at most a repeat after the next restart."""
        if self._path is None:
            return
        run, check = key
        line = {
            "at": self._now(), "channel": self._channel, "run": run, "check": check,
            "level": told.level, "variants": sorted(told.variants), "open": told.is_open,
        }  # fmt: skip
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_file() and self._path.stat().st_size > MAX_BYTES:
                self._shorten()
            with self._path.open("ab") as file:
                file.write(
                    b"\n" + orjson.dumps(line)
                )  # the break comes first: half a line of a killed process stays alone

    def _lines(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        with contextlib.suppress(OSError):
            if self._path is None or self._path.stat().st_size > MAX_READ:
                return out
            for raw in self._path.read_bytes().splitlines():
                with contextlib.suppress(orjson.JSONDecodeError):
                    found = orjson.loads(raw)
                    if isinstance(found, dict):
                        out.append(found)
        return out

    def _shorten(self) -> None:
        assert self._path is not None
        last = {(str(e.get("channel")), str(e.get("run")), str(e.get("check"))): e for e in self._lines()}
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(b"".join(b"\n" + orjson.dumps(e) for e in last.values()))
        fresh.replace(self._path)
