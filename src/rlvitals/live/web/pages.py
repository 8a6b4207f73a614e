"""The pages of runs: the list, one run, and how an error looks. Every text is escaped by the templates."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rlvitals import __version__
from rlvitals.check import Onset
from rlvitals.diagnosis import Diagnosis
from rlvitals.errors import Problem
from rlvitals.live.web import static
from rlvitals.live.web.api import shown_of
from rlvitals.live.web.runs import Shelf, Shown
from rlvitals.live.web.series import spark
from rlvitals.report import words
from rlvitals.report.html import GLYPH, TELLING
from rlvitals.report.series import Role, stretches
from rlvitals.rollouts.dump import Rollouts

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_OVERLAYS = 200  # runs offered for comparison


async def runs(request: Request) -> Response:
    """Show every run with its verdict and the line of its reward."""
    shelf: Shelf = request.app.state.shelf
    rows = await run_in_threadpool(lambda: [(s, _spark(s)) for s in shelf.all()])
    counts: dict[str, int] = {}
    for s, _ in rows:
        word = "not read" if s.diagnosis is None else words.VERDICT_WORD[s.diagnosis.verdict].lower()
        counts[word] = counts.get(word, 0) + 1
    return page("runs.html.j2", rows=rows, counts=counts, left_out=shelf.left_out, waiting=shelf.waiting)


async def run(request: Request) -> Response:
    """Show one run: what `rlvitals check` says of it, beside its plots."""
    shown = shown_of(request)
    shelf: Shelf = request.app.state.shelf
    return await run_in_threadpool(_run_page, shown, shelf)


def _run_page(shown: Shown, shelf: Shelf) -> Response:
    d = shown.diagnosis
    if d is None:
        return page("unread.html.j2", shown=shown)
    curves = shown.curves
    telling = words.telling(d.ruled_out, TELLING)
    others = [s for s in shelf.all() if s.id != shown.id and s.diagnosis is not None][:MAX_OVERLAYS]
    return page(
        "run.html.j2",
        shown=shown,
        d=d,
        tab="diagnosis",
        others=others,
        course=course(d),
        rollback_at=percent(d, d.rollback.step) if d.rollback.step is not None else None,
        panels=() if curves is None else curves.panels,
        telling=telling,
        rest=[r for r in d.ruled_out if r not in telling],
        blind=words.blind_by_family(d.blind_spots),
        crashed=words.crashed_checks(d),
        first=words.first_number(d),
        rollouts=rollout_facts(d),
    )


def rollout_facts(d: Diagnosis) -> tuple[str, ...]:
    """Return how many rollouts were counted, and the share whose text was read; nothing where there are none."""
    found = d.run.rollouts if d.run is not None else None
    if not isinstance(found, Rollouts) or not found.count:
        return ()
    share = "" if not found.sampled_share < 1.0 else f", text of {100 * found.sampled_share:.3g}% read"
    return (words.counted(found.count, "rollout") + share,)


def problem_page(request: Request, status: int, found: tuple[Problem, ...]) -> Response:
    """Show why a page can't be shown."""
    return page("problem.html.j2", status_code=status, status=status, problems=found)


def page(template: str, status_code: int = 200, **values: Any) -> HTMLResponse:
    """Return a page made from a template."""
    text = environment().get_template(template).render(**values)
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), status_code)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates' environment: escaping on, an unknown name is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    found = Environment(
        loader=FunctionLoader(_own), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.globals |= {
        "w": words,
        "glyph": GLYPH,
        "version": __version__,
        "asset": static.address,
        "map_style_id": static.map_style_id,
    }
    return found


def _own(name: str) -> str:
    return (files("rlvitals.live.web") / "templates" / name).read_text(encoding="utf-8")


def _spark(shown: Shown) -> dict[str, Any] | None:
    return None if shown.diagnosis is None else spark(shown.diagnosis)


def percent(d: Diagnosis, step: float) -> float:
    """Return where a step lies on the run, 0 to 100."""
    first, last = d.position.first_step, d.position.last_step
    return round(100 * min(max((step - first) / max(last - first, 1), 0.0), 1.0), 2)


def course(d: Diagnosis) -> list[dict[str, Any]]:
    """Return the findings as bars over the steps of the run; what recovered several times shares one row."""
    rows: dict[str, dict[str, Any]] = {}
    recovered = {r.id: r for r in words.recovered(d)}
    for s in stretches(d):
        over = s.role is Role.RECOVERED
        certain = percent(d, s.onset_last)
        bar = {"left": percent(d, s.first), "certain": certain, "right": percent(d, s.last)}
        key = f"{s.id} {s.role}" if over else f"{s.id} {s.role} {len(rows)}"
        if key in rows:
            rows[key]["bars"].append(bar)
            rows[key]["last"] = s.last
            continue
        when = f"since {Onset(s.first, s.onset_last)}"
        if over:
            times = recovered[s.id].times
            when = times[0] if len(times) == 1 else f"recovered {len(times)} times"
        name = recovered[s.id].name if over else s.name
        rows[key] = {"id": s.id, "name": name, "role": s.role.value, "when": when, "bars": [bar]}
        rows[key] |= {"first": s.first, "last": s.last}
    return list(rows.values())
