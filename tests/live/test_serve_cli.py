"""`rlvitals serve` as a process: what it prints, whom it answers, how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.site import write_run

SECONDS = 60.0
TARGETS = (
    "/../../etc/passwd", "//etc/passwd", "/static/../../../etc/passwd", "/static/%2e%2e%2fapp.py", "*", "/%00",
    "/static/..%5capp.py", "/runs/%c0%ae%c0%ae/",
)  # fmt: skip
REQUESTS = (
    b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\r\n\r\n",
)


@contextmanager
def served(*arguments: str, env: dict[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process and the address that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rlvitals", "serve", *arguments, "--port", "0"],
        stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield process, found[0]
    finally:
        process.kill()
        process.wait()


def get(address: str, **headers: str) -> tuple[int, str]:
    end = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run(tmp_path / "one", 30, dump=False)
    return tmp_path


def test_it_shows_a_folder_on_this_machine_and_ends_with_an_open_page(folder: Path) -> None:
    with served(str(folder)) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert "token" not in address
        status, text = get(address + "api/runs")
        assert (status, '"name":"one"' in text) == (200, True)
        stream = socket.create_connection(("127.0.0.1", int(address.rstrip("/").rsplit(":", 1)[1])))
        stream.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in stream.recv(4096)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=SECONDS)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        stream.close()


def test_another_address_needs_the_token_it_prints(folder: Path) -> None:
    with served(str(folder), "--host", "0.0.0.0") as (_, address):
        found = re.fullmatch(r"http://[^:/]+:(\d+)/\?token=([\w-]{32})", address)
        assert found
        here = f"http://127.0.0.1:{found[1]}/api/runs"
        assert get(here)[0] == 401
        assert get(here, Authorization=f"Bearer {found[2]}")[0] == 200


def test_the_token_comes_from_the_environment(folder: Path) -> None:
    with served(str(folder), env={"RLVITALS_TOKEN": "sixteen-letters-x"}) as (_, address):
        assert address.endswith("/?token=sixteen-letters-x")
        assert get(address.partition("?")[0])[0] == 401


def test_raw_requests_that_leave_the_page_are_refused(folder: Path) -> None:
    """What a client library would repair before sending it."""
    with served(str(folder)) as (_, address):
        get(address)
        port = int(address.rstrip("/").rsplit(":", 1)[1])
        for target in TARGETS:
            answer = raw(port, f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert re.match(rb"HTTP/1.1 4\d\d ", answer), (target, answer[:80])
            assert b"root:" not in answer
        for request in REQUESTS:
            assert re.match(rb"HTTP/1.1 4\d\d ", raw(port, request)), request[:60]
        assert get(address)[0] == 200


def raw(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        answer = b""
        try:
            while b"\r\n\r\n" not in answer and (piece := connection.recv(65536)):
                answer += piece
        except ConnectionResetError:  # it closed before it had read all of a large request
            pass
        return answer


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no such file or directory"),
        (["--token", "short", "."], "the token is too short"),
        (["--token", "a token with spaces", "."], "does not fit into a cookie"),
        (["--host", "256.1.1.1", "."], "cannot listen there"),
        (["-"], "cannot be watched"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rlvitals", "serve", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, said in done.stderr) == (2, True)


def test_a_taken_port_is_said(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = subprocess.run(
            [sys.executable, "-m", "rlvitals", "serve", str(folder), "--port", str(taken.getsockname()[1])],
            check=False, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
    assert done.returncode == 2
    assert "Choose another port with: --port 0" in done.stderr


def test_missing_packages_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    from rlvitals.cli import serve

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert str(serve._missing_extra()[0]) == (
        "rlvitals serve: packages are missing; expected starlette and uvicorn. "
        "Install them with: pip install 'rlvitals[serve]'"
    )
