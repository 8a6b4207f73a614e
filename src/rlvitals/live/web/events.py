"""Server-sent events: a browser that shows a run hears when there is more of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import StreamingResponse

from rlvitals.errors import Problem
from rlvitals.live.web.problems import Refused
from rlvitals.live.web.runs import Shelf, Shown

LOOK_SECONDS = 0.5
BEAT_SECONDS = 15.0  # a comment that keeps the connection and notices when it is gone
MAX_LISTENERS = 48  # tabs (convention); each costs one connection


async def shelf(request: Request) -> StreamingResponse:
    """Tell of every change of any run."""
    runs: Shelf = request.app.state.shelf
    return _stream(request, lambda: {"revision": runs.revision, "waiting": runs.waiting})


async def run(request: Request) -> StreamingResponse:
    """Tell of every change of one run."""
    runs: Shelf = request.app.state.shelf
    key = request.path_params["id"]
    if runs.get(key) is None:
        raise Refused(404, Problem("there is no such run", hint="GET /api/runs lists them"))

    def now() -> dict[str, Any]:
        shown = runs.get(key)
        return {"revision": -1} if shown is None else state(shown)

    return _stream(request, now)


def state(shown: Shown) -> dict[str, Any]:
    """Return what is said of a run at each change."""
    d = shown.diagnosis
    return {
        "revision": shown.revision,
        "verdict": None if d is None else d.verdict.value,
        "last_step": None if d is None else d.position.last_step,
    }


def _stream(request: Request, now: Callable[[], dict[str, Any]]) -> StreamingResponse:
    if request.app.state.listeners >= MAX_LISTENERS:
        raise Refused(503, Problem("too many open pages", expected=f"at most {MAX_LISTENERS}", hint="Close some"))
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_events(request, now), media_type="text/event-stream", headers=headers)


async def _events(request: Request, now: Callable[[], dict[str, Any]]) -> AsyncIterator[bytes]:
    request.app.state.listeners += 1
    try:
        last: dict[str, Any] | None = None
        silent = 0.0
        while not request.app.state.stopping and not await request.is_disconnected():
            found = now()
            if found != last:
                last, silent = found, 0.0
                yield b"data: " + orjson.dumps(found) + b"\n\n"
            elif silent >= BEAT_SECONDS:
                silent = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(LOOK_SECONDS)
            silent += LOOK_SECONDS
    finally:
        request.app.state.listeners -= 1
