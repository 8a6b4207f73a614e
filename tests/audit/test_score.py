"""Hand scoring: blind, resumable, stratified; agreement and its intervals; the web form is closed to everyone else."""

from __future__ import annotations

import http.client
import math
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rlvitals.audit.common import clopper_pearson, kappa
from rlvitals.audit.draw import HIDDEN, blind, draw
from rlvitals.audit.score import Said, Session, agreement
from rlvitals.audit.scoreweb import make_server, page
from rlvitals.errors import InputError
from tests.audit.data import row

ROWS = [
    row(i, completion=f"<b>{i}</b>", reward=float(i % 2), raw=f'{{"score": {i % 2}.0, "pred": "{i}"}}', stop="eos")
    for i in range(30)
]


def test_known_intervals_and_kappa() -> None:
    assert clopper_pearson(0, 20) == pytest.approx((0.0, 0.16843), abs=1e-5)
    assert clopper_pearson(4, 20) == pytest.approx((0.05733, 0.43661), abs=1e-5)
    assert kappa(20, 5, 10, 15) == pytest.approx(0.4)
    assert math.isnan(kappa(5, 0, 0, 0))


def test_the_draw_is_spread_over_strata_and_repeats_with_its_seed() -> None:
    rare = [row(100 + i, completion="x", reward=1.0, family="rare", stop="budget") for i in range(2)]
    drawn = draw([*ROWS, *rare], 9, seed=1)
    counts = {s: sum(d.stratum == s for d in drawn) for s in {d.stratum for d in drawn}}
    assert counts == {"sums / floor / eos": 4, "sums / full / eos": 3, "rare / full / budget": 2}
    assert sum(d.weight for d in drawn) == pytest.approx(32)
    assert draw([*ROWS, *rare], 9, seed=1) == drawn


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("1.0", HIDDEN),
        (" [0] ", HIDDEN),
        ("True", HIDDEN),
        ('{"score": 1.0, "pred": "7"}', f'{{"score": {HIDDEN}, "pred": "7"}}'),
        ("reward=0.5 parsed=7", f"reward={HIDDEN} parsed=7"),
        ("parsed the answer 7", "parsed the answer 7"),
    ],
)
def test_no_score_is_shown(raw: str, shown: str) -> None:
    assert blind(raw) == shown


def test_a_session_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / ".rlvitals" / "session.jsonl"
    drawn = draw(ROWS, 4)
    first = Session(path, drawn)
    first.answer(0, Said.RIGHT)
    first.answer(0, Said.WRONG)  # the score has been seen: the first answer stands
    first.answer(1, Said.UNSURE)
    with path.open("ab") as stream:
        stream.write(b'\n{"i": 2, "sa')  # killed half-way
    again = Session(path, drawn)
    assert (again.answers, again.next) == ({0: Said.RIGHT, 1: Said.UNSURE}, 2)
    again.answer(2, Said.WRONG)
    assert Session(path, drawn).next == 3
    with pytest.raises(InputError, match="another draw"):
        Session(path, draw(ROWS, 5))


def test_agreement_is_split_by_the_kind_of_error(tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl", draw(ROWS, 10))
    paid = [i for i, d in enumerate(session.drawn) if d.row.reward == 1.0]
    unpaid = [i for i, d in enumerate(session.drawn) if d.row.reward == 0.0]
    for i in paid:
        session.answer(i, Said.WRONG if i == paid[0] else Said.RIGHT)
    for i in unpaid:
        session.answer(i, Said.RIGHT if i in unpaid[:2] else Said.UNSURE if i == unpaid[2] else Said.WRONG)
    found = agreement(session, 1.0, "rollouts")
    assert (found.scored, found.unsure, found.wrong.count, found.wrong.of) == (10, 1, 3, 9)
    assert (found.false_positive.count, found.false_positive.of) == (1, 3)
    assert (found.false_negative.count, found.false_negative.of) == (2, 6)
    assert found.weighted_error == pytest.approx(3 / 9)
    assert len(found.disagreements) == 3


def test_the_form_shows_text_escaped_and_nothing_of_the_score(tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl", draw(ROWS, 3))
    text = page(session, 1.0, None)
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "<script" not in text
    assert "The pipeline" not in text
    assert "The pipeline" not in page(session, 1.0, 0)  # not answered yet
    session.answer(0, Said.RIGHT)
    assert "The pipeline" in page(session, 1.0, 0)


def test_the_server_answers_the_holder_of_the_address_alone(tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl", draw(ROWS, 2))
    server, address = make_server(session, 1.0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    parts = urlsplit(address)
    assert parts.hostname == "127.0.0.1"

    def ask(method: str, path: str, body: str | None = None, host: str = parts.netloc) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=10)
        connection.request(method, path, body, {"Host": host})
        reply = connection.getresponse()
        return reply.status, reply.read().decode(), reply.getheader("Content-Security-Policy") or ""

    try:
        status, text, policy = ask("GET", parts.path)
        assert (status, "is the completion right?" in text) == (200, True)
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert ask("GET", "/")[0] == 404
        assert ask("GET", parts.path, host="evil.example")[0] == 404
        assert ask("POST", "/answer", "i=0&said=right")[0] == 404
        assert ask("POST", parts.path + "answer", "i=0&said=perhaps")[0] == 400
        assert ask("POST", parts.path + "answer", "x" * 2_000)[0] == 413
        assert ask("POST", parts.path + "answer", "i=0&said=right")[0] == 303
        assert session.answers == {0: Said.RIGHT}
    finally:
        server.shutdown()
        server.server_close()
