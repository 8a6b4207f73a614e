"""Who may ask the page, and how it refuses the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from rlvitals.live.web import security
from rlvitals.live.web.security import MAX_BODY, MAX_PATH, MAX_QUERY, Policy, allowed_host, policy_for
from tests.live.site import client, write_run

TOKEN = "a-token-of-24-characters"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "one", 30)
    return root


@pytest.fixture
def page(folder: Path) -> Iterator[TestClient]:
    with client(folder) as found:
        yield found


@pytest.fixture
def guarded(folder: Path) -> Iterator[TestClient]:
    with client(folder, policy=policy_for("0.0.0.0", TOKEN), follow_redirects=False) as found:
        yield found


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:7420", "localhost:1", "LOCALHOST", "[::1]:7420", "localhost."]
)
def test_own_names_are_answered(page: TestClient, host: str) -> None:
    assert page.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "",
        "10.0.0.5",
        "local host",
        "127.0.0.1:99:1",
    ],
)
def test_other_names_are_refused(page: TestClient, host: str) -> None:
    answer = page.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["problems"][0]["where"] == "Host header"


def test_beyond_this_machine_addresses_are_answered_and_foreign_names_are_not() -> None:
    policy = policy_for("0.0.0.0", TOKEN, ["Box.lan"])
    assert [allowed_host(h, policy) for h in ("10.0.0.5:7420", "[fe80::1]:7420", "box.lan", "evil.example")] == [
        True, True, True, False,
    ]  # fmt: skip


def test_a_token_is_made_up_where_one_is_needed() -> None:
    assert policy_for("127.0.0.1").token == ""
    assert policy_for("::1").token == ""
    first, second = policy_for("0.0.0.0").token, policy_for("192.168.1.7").token
    assert len(first) == 32
    assert first != second


def test_without_the_token_nothing_is_shown(guarded: TestClient) -> None:
    for path in ("/", "/api/runs", "/api/openapi.json", "/static/live.js", "/runs/0000000000"):
        answer = guarded.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert TOKEN not in answer.text
    assert guarded.get("/?token=wrong").status_code == 401
    assert guarded.get("/", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert guarded.get("/", headers={"cookie": b"rlvitals_token=\xff"}).status_code == 401


def test_the_token_in_the_address_becomes_a_cookie(guarded: TestClient) -> None:
    answer = guarded.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert guarded.get("/").status_code == 200  # the client sends the cookie back
    assert guarded.get(f"/?token={TOKEN}&a=1").headers["location"] == "/?a=1"


def test_the_redirect_never_leads_elsewhere(guarded: TestClient) -> None:
    for path in ("//evil.example/x", "/\\evil.example", "///evil.example"):
        answer = guarded.get(f"http://127.0.0.1{path}?token={TOKEN}")
        assert answer.headers["location"].startswith("/")
        assert not answer.headers["location"].startswith(("//", "/\\"))


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch, guarded: TestClient) -> None:
    seen: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        seen.append((a, b))
        return a == b

    monkeypatch.setattr(security.hmac, "compare_digest", compare)
    assert guarded.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert seen == [(TOKEN.encode(), TOKEN.encode())]


def test_every_answer_carries_the_headers(page: TestClient) -> None:
    for path in ("/", "/api/runs", "/nowhere", "/static/live.js", "/static/nothing"):
        headers = page.get(path).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/page.css%00",
        "/static/..\\app.py",
        "/runs/../../etc/passwd", "/runs/..%2f..%2fetc%2fpasswd", "/api/runs/%2e%2e%2f", "/static//etc/passwd",
        "/etc/passwd",
        "/static/", "/runs/", "/runs/zzzzzzzzzz", "/api/runs/0000000000/series", "/runs/0000000000/rollouts/1",
    ],
)  # fmt: skip
def test_no_address_leads_to_another_file(page: TestClient, path: str) -> None:
    answer = page.get("http://127.0.0.1" + path)
    assert answer.status_code == 404
    assert "root:" not in answer.text
    assert "from __future__" not in answer.text
    assert answer.json()["status"] == 404


def test_what_is_too_large_is_refused(page: TestClient) -> None:
    assert page.get("/" + "a" * MAX_PATH).status_code == 414
    assert page.get("/?a=" + "b" * MAX_QUERY).status_code == 414
    assert page.post("/", content=b"x" * (MAX_BODY + 1)).status_code == 413

    def slowly() -> Iterator[bytes]:  # no Content-Length
        for _ in range(80):
            yield b"x" * 1024

    assert page.post("/", content=slowly()).status_code == 413


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_refused(page: TestClient, method: str) -> None:
    answer = page.request(method, "/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert answer.json()["title"] == "method not allowed"


def test_requests_of_other_sites_are_refused(page: TestClient) -> None:
    evil = {"origin": "http://evil.example"}
    assert page.post("/", headers=evil).status_code == 403
    assert page.post("/", headers={"origin": "null"}).status_code == 403
    assert page.post("/", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert page.get("/api/runs", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}).status_code == 403
    assert page.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 200
    assert page.post("/", headers={"origin": "http://127.0.0.1"}).status_code == 405  # the page's own: no such form


def test_a_fault_of_the_page_is_a_problem_without_inner_details(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlvitals.live.web.runs import Shelf

    with client(folder, raise_server_exceptions=False) as page:
        monkeypatch.setattr(Shelf, "all", lambda self: 1 / 0)
        answer = page.get("/api/runs")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert "division" not in answer.text


def test_the_default_policy_needs_no_token() -> None:
    assert Policy() == Policy(frozenset({"localhost", "127.0.0.1", "::1"}), addresses=False, token="")
