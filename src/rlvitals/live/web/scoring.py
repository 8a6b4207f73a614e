"""Scoring by hand: the form of `rlvitals audit score` on the page, over the same session files.

Nothing of the pipeline's score is shown before the person has answered, and the first answer stands.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rlvitals.audit.common import said
from rlvitals.audit.draw import draw
from rlvitals.audit.load import full_marks, load_rollouts
from rlvitals.audit.score import Said, Session, agreement
from rlvitals.auditresults import Score, folder_of, write
from rlvitals.errors import Problem
from rlvitals.ingest.directory import places_in
from rlvitals.ingest.trajectories import with_log
from rlvitals.live.web import pages
from rlvitals.live.web.api import shown_of
from rlvitals.live.web.problems import Refused
from rlvitals.live.web.query import Query
from rlvitals.live.web.rolloutpages import block
from rlvitals.live.web.runs import Shown

DRAWN = 20  # trajectories, as `rlvitals audit score` takes without --n
MAX_DESKS = 4  # runs scored at once
MAX_SHOWN = 100_000  # characters of one text
MAX_NUMBER = 10**6


class Desk:
    """One run's session: what was drawn, the answers, and the record that is written after each."""

    def __init__(self, path: Path) -> None:
        places_in(path)  # refuses a set of runs
        rows = load_rollouts(path, told=with_log)
        self.notes = rows.notes
        self.full = full_marks(rows.rows, None)
        self._drawn = draw(rows.rows, DRAWN)
        if not self._drawn:
            raise Refused(404, Problem("no trajectory has a completion to score", path.name))
        self._run = path
        self.file = folder_of(path) / f"score-session-{path.stem}.jsonl"
        self.session = Session(self.file, self._drawn)
        self._lock = threading.Lock()

    def give(self, i: int, answer: Said) -> None:
        """Keep an answer; with the last one the record that `rlvitals check` reads is written."""
        with self._lock:
            self.session.answer(i, answer)
            if self.session.next is None:
                write(self.score(), folder_of(self._run))

    def score(self) -> Score:
        """Return the agreement so far."""
        return agreement(self.session, self.full, self._run.name, [str(self._run)])


class Desks:
    """The open sessions, the least used forgotten first: their files stay."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Desk] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, shown: Shown) -> Desk:
        """Return the session of a run. Raises InputError and Refused."""
        with self._lock:
            if shown.id not in self._open:
                self._open[shown.id] = Desk(shown.path)
            self._open.move_to_end(shown.id)
            while len(self._open) > MAX_DESKS:
                self._open.popitem(last=False)
            return self._open[shown.id]

    def restart(self, shown: Shown) -> None:
        """Forget the answers and draw anew."""
        with self._lock:
            self._open.pop(shown.id, None)
            (folder_of(shown.path) / f"score-session-{shown.path.stem}.jsonl").unlink(missing_ok=True)


async def form(request: Request) -> Response:
    """Show the next trajectory without an answer, or the agreement once all have one."""
    shown = shown_of(request)
    if shown.diagnosis is None or shown.diagnosis.run is None or shown.diagnosis.run.rollouts is None:
        raise Refused(404, Problem("this run has no rollouts to score"))
    query = Query(request.query_params)
    last = query.whole("last", -1, 0, MAX_NUMBER)
    query.done()
    return await run_in_threadpool(_form, shown, request.app.state.desks, last)


def _form(shown: Shown, desks: Desks, last: int) -> Response:
    desk = desks.get(shown)
    i = desk.session.next
    found = None if i is None else desk.session.shown(i)
    texts = []
    if found is not None:
        pairs = (("Prompt", found.prompt), ("Completion", found.completion), ("Expected", found.gold))
        texts = [(name, block(text[:MAX_SHOWN])) for name, text in (*pairs, ("Verifier output", found.raw)) if text]
    revealed = desk.session.revealed(last, desk.full) if last >= 0 else ""
    return pages.page(
        "score.html.j2", shown=shown, tab="score", i=i, title="" if found is None else found.title, texts=texts,
        revealed=revealed, done=len(desk.session.answers), of=len(desk.session.drawn), choices=tuple(Said),
        score=desk.score() if i is None else None, said=said, notes=desk.notes,
    )  # fmt: skip


async def give(request: Request) -> Response:
    """Take an answer, or begin anew."""
    shown = shown_of(request)
    fields = dict(parse_qsl((await request.body()).decode("ascii", "replace")))
    desks: Desks = request.app.state.desks
    if fields == {"restart": "yes"}:
        await run_in_threadpool(desks.restart, shown)
        return RedirectResponse(f"/runs/{shown.id}/score", 303)
    query = Query(fields)
    number = query.whole("i", -1, 0, MAX_NUMBER)
    word = query.one_of("said", tuple(s.value for s in Said), "")
    if number < 0:
        query.problems.append(Problem("missing field", "i", expected="the number of a trajectory"))
    query.done()
    desk = await run_in_threadpool(desks.get, shown)
    await run_in_threadpool(desk.give, number, Said(word))
    return RedirectResponse(f"/runs/{shown.id}/score?last={number}", 303)
