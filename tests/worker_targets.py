"""Functions that the worker's tests call in another process."""

from __future__ import annotations

import os
import time
from typing import Any


def add(a: float, b: float = 0.0) -> float:
    return a + b


def echo(value: Any) -> Any:
    return value


def pid() -> int:
    return os.getpid()


def act(what: str) -> Any:
    """Do what the text names; a batch may mix all of them."""
    if what == "sleep":
        time.sleep(60)
    elif what == "loop":  # stays in C and holds the interpreter: no signal handler of Python's would run
        return 10 ** (10**10)
    elif what == "raise":
        raise ValueError("no such answer")
    elif what == "memory":
        return len(bytearray(8 * 2**30))
    elif what == "crash":
        os.kill(os.getpid(), 11)
    elif what == "exit":
        raise SystemExit(3)
    elif what == "quit":
        os._exit(7)
    elif what == "print":
        print("x" * 200_000)
        os.write(1, b"junk on the output")
    elif what == "set":
        return {3, 1, 2}
    elif what == "object":
        return object()
    elif what == "nest":
        value: list[Any] = []
        for _ in range(100_000):
            value = [value]
        return value
    return what


async def later(value: int) -> int:
    return value + 1
