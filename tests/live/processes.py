"""`rlvitals serve` and `rlvitals check --follow` as processes of their own, for tests of load and of kills."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ADDRESS = re.compile(r"at (http://\S+?)/")


class Process:
    """One command; what it prints is collected, so that no pipe fills."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rlvitals", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=lambda p=p, to=to: to.extend(p), daemon=True)
            for p, to in ((self._process.stdout, self.out), (self._process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def said(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """Wait for something on stderr."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, "".join(self.err))
            if found is not None:
                return found
            assert self._process.poll() is None, "".join(self.err)
            time.sleep(0.05)
        raise AssertionError(f"not said: {pattern}; but: {''.join(self.err)}")

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self, seconds: float = 120) -> int:
        """Wait for the end; return the exit code."""
        code = self._process.wait(timeout=seconds)
        for reader in self._readers:
            reader.join(timeout=10)
        return code

    def diagnosis(self) -> dict[str, Any]:
        """Wait for the end and return the diagnosis that was printed as JSON."""
        self.end()
        text = "".join(self.out)
        found: dict[str, Any] = json.loads(text[text.index("{") :])
        return found

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.end()


@contextmanager
def serve(folder: Path) -> Iterator[Process]:
    """Yield the page over a folder, once it has an address."""
    process = Process("serve", str(folder), "--port", "0")
    try:
        address(process)
        yield process
    finally:
        process.stop()


@contextmanager
def follow(path: Path) -> Iterator[Process]:
    """Yield a command that follows a run and ends with its diagnosis as JSON."""
    process = Process("check", "--follow", str(path), "--format", "json")
    try:
        process.said("Following")
        yield process
    finally:
        process.stop()


def address(page: Process) -> str:
    return page.said(ADDRESS.pattern)[1]


def get(page: Process, path: str) -> Any:
    """Return what the page answers; it may still be starting."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address(page) + path, timeout=60) as answer:
                return json.loads(answer.read())
        except (ConnectionError, urllib.error.URLError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def killed(process: Process) -> None:
    """Kill it as a machine does that runs out of memory."""
    process.send(signal.SIGKILL)
    assert process.end() == -signal.SIGKILL
