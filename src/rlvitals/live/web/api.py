"""The JSON side: the same facts as the pages, for their scripts and for yours. `openapi.py` describes it."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rlvitals.errors import Problem
from rlvitals.live.web import openapi
from rlvitals.live.web.problems import Refused, plain
from rlvitals.live.web.query import MAX_STEP, Query
from rlvitals.live.web.rolloutindex import Index, index_of
from rlvitals.live.web.rolloutquery import read_filters, to_dict
from rlvitals.live.web.runs import Shelf, Shown
from rlvitals.live.web.series import MAX_POINTS, MIN_POINTS, POINTS, Window, spark


def answer(value: object) -> Response:
    return Response(plain(value), media_type="application/json")


def shown_of(request: Request) -> Shown:
    """Return the run that a request names. Raises Refused."""
    shelf: Shelf = request.app.state.shelf
    found = shelf.get(request.path_params["id"])
    if found is None:
        raise Refused(404, Problem("there is no such run", hint="GET /api/runs lists them"))
    return found


async def description(request: Request) -> Response:
    """Return the OpenAPI description of this interface."""
    Query(request.query_params).done()
    return answer(openapi.DOCUMENT)


async def runs(request: Request) -> Response:
    """Return every run with its verdict and the line of its reward, what needs a move first."""
    Query(request.query_params).done()
    shelf: Shelf = request.app.state.shelf
    rows = await run_in_threadpool(lambda: [_summary(s) for s in shelf.all()])
    return answer({"revision": shelf.revision, "left_out": shelf.left_out, "runs": rows})


async def run(request: Request) -> Response:
    """Return one run with its whole diagnosis, as `rlvitals check --format json` gives it."""
    from rlvitals.report.json import to_dict as diagnosis_dict

    Query(request.query_params).done()
    shown = shown_of(request)
    d = shown.diagnosis
    whole = None if d is None else await run_in_threadpool(diagnosis_dict, d)
    return answer(_summary(shown) | {"diagnosis": whole})


async def series(request: Request) -> Response:
    """Return the visible part of the plots."""
    shown = shown_of(request)
    query = Query(request.query_params)
    first, last = query.whole("from", 0, 0, MAX_STEP), query.whole("to", MAX_STEP, 0, MAX_STEP)
    points = query.whole("points", POINTS, MIN_POINTS, MAX_POINTS)
    keys = [k for k in query.text("panels").split(",") if k]
    with_ = query.text("with")
    shelf: Shelf = request.app.state.shelf
    other = shelf.get(with_) if with_ else None
    if with_ and other is None:
        query.problems.append(Problem("there is no such run", "with", repr(with_[:40])))
    query.done(404 if len(query.problems) == 1 and with_ and other is None else 400)
    curves = shown.curves
    out: dict[str, Any] = {"revision": shown.revision, "first": 0, "last": 0, "onset": [0, 0], "panels": {}}
    if curves is None:
        return answer(out)
    over = None if other is None else other.curves
    panels = await run_in_threadpool(curves.data, Window(first, last, points), keys, over)
    whole = {"first": curves.first, "last": curves.last, "onset": list(curves.onset)}
    return answer(out | whole | {"panels": panels})


async def rollouts(request: Request) -> Response:
    """Return one page of the rollouts that fit the filters."""
    index = _index(request)
    query = Query(request.query_params)
    filters = read_filters(query)
    query.done()
    page = await run_in_threadpool(index.page, filters)
    rows = [to_dict(r) for r in page.rows]
    return answer({"total": page.total, "indexed": index.rows, "complete": index.complete, "rollouts": rows})


async def rollout(request: Request) -> Response:
    """Return one rollout with its texts."""
    index = _index(request)
    Query(request.query_params).done()
    found = await run_in_threadpool(index.one, request.path_params["row"])
    if found is None:
        raise Refused(404, Problem("there is no such rollout"))
    return answer(to_dict(found))


def _index(request: Request) -> Index:
    """Return the rollouts of the run. Raises Refused when it has none."""
    index = index_of(request.app.state.rollouts, shown_of(request))
    if index is None:
        raise Refused(404, Problem("this run has no rollouts", hint="See: rlvitals rollouts --help"))
    return index


def _summary(shown: Shown) -> dict[str, Any]:
    d = shown.diagnosis
    out: dict[str, Any] = {
        "id": shown.id,
        "name": shown.name,
        "revision": shown.revision,
        "changed": shown.changed,
        "problems": [str(p) for p in shown.problems],
        "trainer": None,
        "verdict": None,
        "headline": None,
        "first_step": None,
        "last_step": None,
        "spark": None,
    }
    if d is None:
        return out
    return out | {
        "trainer": d.trainer,
        "verdict": d.verdict.value,
        "headline": d.headline,
        "first_step": d.position.first_step,
        "last_step": d.position.last_step,
        "spark": spark(d),
    }
