"""The application: which address shows what, how errors look, and the guard in front."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rlvitals.errors import InputError, Problem
from rlvitals.live.web import api, events, pages, problems, rolloutpages, scoring, static
from rlvitals.live.web.problems import Refused
from rlvitals.live.web.rolloutindex import Shelves
from rlvitals.live.web.runs import Shelf
from rlvitals.live.web.security import Guard, Policy

ROUTES = (
    Route("/", pages.runs),
    Route("/runs/{id}", pages.run),
    Route("/runs/{id}/rollouts", rolloutpages.browse),
    Route("/runs/{id}/rollouts/{row:int}", rolloutpages.one),
    Route("/runs/{id}/group", rolloutpages.group),
    Route("/runs/{id}/score", scoring.form),
    Route("/runs/{id}/score", scoring.give, methods=["POST"]),
    Route("/static/{name}", static.serve),
    Route("/api/openapi.json", api.description),
    Route("/api/runs", api.runs),
    Route("/api/events", events.shelf),
    Route("/api/runs/{id}", api.run),
    Route("/api/runs/{id}/events", events.run),
    Route("/api/runs/{id}/series", api.series),
    Route("/api/runs/{id}/rollouts", api.rollouts),
    Route("/api/runs/{id}/rollouts/{row:int}", api.rollout),
)


def create_app(shelf: Shelf, policy: Policy | None = None) -> Guard:
    """Return the page over a shelf of runs; it reads them from its start-up to its shut-down."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        shelf.start()
        try:
            yield
        finally:
            app.state.stopping = True
            shelf.stop()
            app.state.rollouts.close()

    handlers = {HTTPException: _http, Refused: _refused, InputError: _input, Exception: _internal}
    app = Starlette(routes=list(ROUTES), lifespan=lifespan, exception_handlers=handlers)  # type: ignore[arg-type]
    app.router.redirect_slashes = False
    app.state.shelf = shelf
    app.state.rollouts = Shelves()
    app.state.desks = scoring.Desks()
    app.state.stopping = False
    app.state.listeners = 0
    return Guard(app, policy or Policy())


async def _http(request: Request, error: HTTPException) -> Response:
    words = {404: "there is no such page", 405: "method not allowed"}
    return _answer(request, error.status_code, (Problem(words.get(error.status_code, error.detail)),), error.headers)


async def _refused(request: Request, error: Refused) -> Response:
    return _answer(request, error.status, error.problems)


async def _input(request: Request, error: InputError) -> Response:
    return _answer(request, 422, error.problems)


async def _internal(request: Request, error: Exception) -> Response:
    what = f"this is a fault of rlvitals, not of your run; please report it: {type(error).__name__}"
    return _answer(request, 500, (Problem(what),))


def _answer(request: Request, status: int, found: tuple[Problem, ...], headers: object = None) -> Response:
    """Return problems as JSON, and as a page to a browser that asked for one."""
    kept = {k: v for k, v in dict(headers).items()} if isinstance(headers, dict) else {}  # noqa: C416
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
    if wants_page:
        return pages.problem_page(request, status, found)
    return problems.response(status, found, kept)
