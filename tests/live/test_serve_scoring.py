"""Scoring by hand on the page: blind until answered, the same files as `rlvitals audit score`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rlvitals.audit.score import Said
from tests.live.site import client, id_of, write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "one", 40)


@pytest.fixture
def page(folder: Path) -> Iterator[TestClient]:
    with client(folder.parent) as found:
        yield found


def answer(page: TestClient, address: str, said: str) -> int:
    """Answer the trajectory that is shown; return its number."""
    number = int(re.findall(r'name="i" value="(\d+)"', page.get(address).text)[0])
    done = page.post(address, data={"i": str(number), "said": said}, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, f"{address}?last={number}")
    return number


def test_the_score_is_hidden_until_it_was_given(page: TestClient, folder: Path) -> None:
    address = f"/runs/{id_of(folder)}/score"
    first = page.get(address).text
    assert "0 of 20 scored" in first
    assert "score=1.0" not in first
    assert "score=0.0" not in first
    assert "The pipeline" not in first
    number = answer(page, address, "wrong")
    after = page.get(f"{address}?last={number}").text
    assert "1 of 20 scored" in after
    assert re.search(r"The one before. The pipeline: (right|wrong|no verdict)", after)


def test_the_first_answer_stands_and_is_kept_in_the_file(page: TestClient, folder: Path) -> None:
    address = f"/runs/{id_of(folder)}/score"
    number = answer(page, address, "right")
    page.post(address, data={"i": str(number), "said": "wrong"})
    file = folder / ".rlvitals" / "score-session-one.jsonl"
    answers = [json.loads(line) for line in file.read_text().splitlines()[1:] if line]
    assert answers == [{"i": number, "said": "right"}]


def test_a_session_goes_on_after_a_restart_of_the_server(folder: Path) -> None:
    address = f"/runs/{id_of(folder)}/score"
    with client(folder.parent) as page:
        answer(page, address, "unsure")
    with client(folder.parent) as page:
        assert "1 of 20 scored" in page.get(address).text


def test_the_last_answer_writes_the_record(page: TestClient, folder: Path) -> None:
    address = f"/runs/{id_of(folder)}/score"
    for _ in range(20):
        answer(page, address, Said.RIGHT.value)
    text = page.get(address).text
    assert "20 of 20 scored" in text
    assert "The pipeline is wrong on" in text
    records = list((folder / ".rlvitals").glob("score-*.json"))
    assert len(records) == 1
    assert json.loads(records[0].read_text())["scored"] == 20


def test_one_can_begin_anew(page: TestClient, folder: Path) -> None:
    address = f"/runs/{id_of(folder)}/score"
    answer(page, address, "wrong")
    assert page.post(address, data={"restart": "yes"}, follow_redirects=False).status_code == 303
    assert "0 of 20 scored" in page.get(address).text


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"i": "0"},
        {"said": "right"},
        {"i": "x", "said": "right"},
        {"i": "0", "said": "<b>"},
        {"i": "-1", "said": "right"},
    ],
)
def test_other_forms_are_problems(page: TestClient, folder: Path, fields: dict[str, str]) -> None:
    answer = page.post(f"/runs/{id_of(folder)}/score", data=fields)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


def test_an_answer_from_another_site_is_refused(page: TestClient, folder: Path) -> None:
    address = f"/runs/{id_of(folder)}/score"
    page.get(address)
    data = {"i": "0", "said": "right"}
    assert page.post(address, data=data, headers={"origin": "http://127.0.0.1:9999"}).status_code == 403
    assert "0 of 20 scored" in page.get(address).text


def test_a_run_without_rollouts_has_nothing_to_score(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "bare", 40, dump=False)
    with client(tmp_path) as page:
        assert page.get(f"/runs/{id_of(folder)}/score").status_code == 404
