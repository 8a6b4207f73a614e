"""A hub that cannot be reached is asked once, in silence, and said in one clear error."""

from __future__ import annotations

import logging
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rlvitals.errors import InputError

constants = pytest.importorskip("huggingface_hub.constants")
pytest.importorskip("torch")
from rlvitals.grpo import hub  # noqa: E402
from rlvitals.grpo.models import load_policy  # noqa: E402
from rlvitals.grpo.tasks.load import load_task  # noqa: E402


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address that nothing listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", place)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return place


def test_a_dataset_of_a_hub_that_does_not_answer(
    nowhere: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("datasets")
    began = time.monotonic()
    with pytest.raises(InputError) as caught:
        load_task("dataset:path=hub:nobody/nothing")
    assert time.monotonic() - began < 20
    problem = caught.value.problems[0]
    assert problem.what == "the hub cannot be reached, and its cache has no such dataset"
    assert problem.found.startswith(f"{nowhere} does not answer: ")
    assert capfd.readouterr().err == ""
    assert "Retrying" not in caplog.text


def test_a_model_of_a_hub_that_does_not_answer(nowhere: str, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(InputError, match=r"model: nobody/nothing: the hub cannot be reached.*does not answer"):
        load_policy("nobody/nothing")
    assert "Retrying" not in capfd.readouterr().err


def test_everything_is_put_back(nowhere: str) -> None:
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    with hub.asked() as why:
        assert nowhere in why
        assert constants.is_offline_mode()
        assert logger.level == logging.CRITICAL
    assert not constants.is_offline_mode()
    assert logger.level == before


def test_a_hub_that_answers_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_error(403)

        def log_message(self, *args: object) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        with hub.asked() as why:
            assert (why, constants.is_offline_mode()) == ("", False)
    finally:
        server.shutdown()
        server.server_close()


def test_a_user_who_is_offline_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.unreachable() == "HF_HUB_OFFLINE is set"
