"""The rollout browser: a table that filters, one rollout whole, a group side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rlvitals.errors import Problem
from rlvitals.live.web import pages
from rlvitals.live.web.api import shown_of
from rlvitals.live.web.problems import Refused
from rlvitals.live.web.query import MAX_STEP, Query
from rlvitals.live.web.rolloutindex import MAX_GROUP, Index, index_of
from rlvitals.live.web.rolloutquery import ORDER_WORDS, Row, read_filters
from rlvitals.live.web.runs import Shown
from rlvitals.report import words
from rlvitals.rollouts.table import BY_NAME, PART

FIRST_WAIT = 0.2  # seconds that a first look waits for the index: a small table is whole at once
LONG_WAIT = 3.0  # seconds that a look for one rollout waits for it
T = TypeVar("T")
TEXTS = ("prompt", "completion", "raw_output", "parsed", "gold")
HEAD = ("step", "group", "index", "family", "tier", "reward", "correct", "advantage", "stop_reason", "verifier_status")
BESIDE = ("source", "source_row", "row", *TEXTS, *HEAD)
LABELS = {"raw_output": "verifier output", "parsed": "answer read", "gold": "expected", "idx": "index"}


async def browse(request: Request) -> Response:
    """Show the rollouts that fit the filters."""
    shown = shown_of(request)
    query = Query(request.query_params)
    filters = read_filters(query)
    query.done()
    index = _index(request, shown)
    return await run_in_threadpool(_browse, shown, index, filters)


def _browse(shown: Shown, index: Index, filters: Any) -> Response:
    if not index.rows:
        index.wait(FIRST_WAIT)
    found = index.page(filters)
    return pages.page(
        "rollouts.html.j2", shown=shown, tab="rollouts", index=index, f=filters, found=found, facets=index.facets(),
        orders=ORDER_WORDS, number=shown_number,
    )  # fmt: skip


async def one(request: Request) -> Response:
    """Show one rollout: its numbers, its texts, what the verifier said."""
    shown = shown_of(request)
    Query(request.query_params).done()
    index = _index(request, shown)
    row = await _found(index, lambda: index.one(request.path_params["row"]), "rollout")
    before, after = await run_in_threadpool(index.neighbours, row)
    return pages.page(
        "rollout.html.j2", shown=shown, tab="rollouts", row=row, before=before, after=after, card=card(row)
    )


async def group(request: Request) -> Response:
    """Show the rollouts of one group side by side: what shares a baseline is compared with each other."""
    shown = shown_of(request)
    query = Query(request.query_params)
    step, name = query.whole("step", -1, 0, MAX_STEP), query.text("group")
    if step < 0:
        query.problems.append(Problem("missing parameter", "step", expected="the step of the group"))
    query.done()
    index = _index(request, shown)
    rows = await _found(index, lambda: index.group(step, name), "group")
    return pages.page(
        "group.html.j2", shown=shown, tab="rollouts", step=step, group=name, most=MAX_GROUP,
        all_cards=[card(r) for r in rows], summary=_summary(rows), prompt=rows[0].get("prompt"),
    )  # fmt: skip


def card(row: Row) -> dict[str, Any]:
    """Return a rollout as what its view needs: reward parts, further numbers, texts; all text still unescaped."""
    parts = {n.removeprefix(PART): shown_number(v) for n, v in sorted(row.items()) if n.startswith(PART)}
    rest = []
    for name, field in BY_NAME.items():
        value = row.get(name)
        if value is not None and name not in BESIDE:
            unit = f" {field.unit}" if field.unit in ("seconds", "nats") else ""
            rest.append((name.replace("_", " "), shown_number(value) + unit))
    texts = [(LABELS.get(n, n), n, block(row[n]), row.get(f"{n}_characters")) for n in TEXTS if row.get(n) is not None]
    return {"row": row, "parts": parts, "rest": rest, "texts": texts}


def shown_number(value: object) -> str:
    """Return a value of a table's cell; absent is a dash, never 0."""
    if value is None:
        return "–"
    if isinstance(value, bool | int):
        return str(value)
    return words.number(value) if isinstance(value, float) else words.clean(str(value), 120)


def block(text: object) -> str:
    """Return untrusted text of several lines: invisible characters show their escapes, line ends stay."""
    return "\n".join(_line(line) for line in str(text).split("\n"))


def _line(line: str) -> str:
    """Clean one line and keep its indentation: it is code as often as prose."""
    body = line.lstrip(" \t")
    return line[: len(line) - len(body)] + words.clean(body)


def _summary(rows: Sequence[Row]) -> list[str]:
    """Return what the group's rewards amount to: the numbers that decide its signal."""
    rewards = [r["reward"] for r in rows if r.get("reward") is not None]
    facts = [words.counted(len(rows), "rollout")]
    if len(rewards) < len(rows):
        facts.append(f"{len(rows) - len(rewards)} without a reward")
    if rewards:
        mean = sum(rewards) / len(rewards)
        spread = max(rewards) - min(rewards)
        facts.append(
            f"reward {words.number(mean)} on average, {words.number(min(rewards))} to {words.number(max(rewards))}"
        )
        facts += ["no signal: all rewards are the same"] if spread == 0 and len(rewards) > 1 else []
    return facts


async def _found(index: Index, look: Callable[[], T | None], what: str) -> T:
    """Return what is looked for. Raises Refused when it is not there, or not read yet."""
    found = await run_in_threadpool(look)
    if not found and not index.complete:
        await run_in_threadpool(index.wait, LONG_WAIT)
        found = await run_in_threadpool(look)
    if found:
        return found
    if not index.complete and not index.error:
        raise Refused(503, Problem("the rollouts are still being read", hint="Load the page again in a moment"))
    raise Refused(404, Problem(f"there is no such {what}", hint="Go back to the list of rollouts"))


def _index(request: Request, shown: Shown) -> Index:
    index = index_of(request.app.state.rollouts, shown)
    if index is None:
        raise Refused(404, Problem("this run has no rollouts", hint="rlvitals reads the dumps beside a run's log"))
    return index
