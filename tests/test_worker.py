"""A worker answers whatever its function does: returns, raises, hangs, dies or eats memory."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvitals.errors import InputError
from rlvitals.worker import Worker

HERE = "tests.worker_targets"


@pytest.fixture(scope="module")
def act() -> Iterator[Worker]:
    with Worker(f"{HERE}:act", seconds=1.0, memory_mb=256) as worker:
        yield worker


def test_a_broken_pipe_is_no_end_of_the_process_from_any_thread() -> None:
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as the command line sets it
    try:
        Worker(f"{HERE}:add")  # in the main thread; the calls may come from others, which may not set signals
        assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGPIPE, before)


def test_values_and_keywords_come_back() -> None:
    with Worker(f"{HERE}:add") as worker:
        answer = worker.call(2, b=0.5)
        assert (answer.value, answer.error, answer.timed_out, answer.ok) == (2.5, "", False, True)
        assert 0 <= answer.seconds < 1


def test_nan_text_and_structures_survive_the_way() -> None:
    value = {"a": [1, 2.5, None, True], "text": "<script>ü\x00\n", "nested": {"x": []}}
    with Worker(f"{HERE}:echo") as worker:
        assert worker.call(value).value == value
        assert math.isnan(worker.call(math.nan).value)


def test_process_is_kept_between_calls() -> None:
    with Worker(f"{HERE}:pid") as worker:
        first = worker.call().value
        assert first != os.getpid()
        assert [a.value for a in worker.call_many([((), {})] * 5)] == [first] * 5
        worker.close()
        assert worker.call().value != first


def test_exceptions_are_answers(act: Worker) -> None:
    assert act.call("raise").error == "ValueError: no such answer"
    assert act.call("exit").error == "SystemExit: 3"
    assert act.call("object").error.startswith("TypeError: a value of type object can't be handed back")
    assert act.call("nest").error.startswith("RecursionError")
    assert act.call("set").value == [1, 2, 3]
    assert act.restarts == 0


def test_output_of_the_function_does_not_disturb_the_answer(act: Worker) -> None:
    assert act.call("print").value == "print"


@pytest.mark.parametrize("what", ["sleep", "loop"])
def test_time_limit_ends_a_call(act: Worker, what: str) -> None:
    began = time.monotonic()
    answer = act.call(what)
    if what == "sleep":
        assert answer.error == "no answer within 1 s; the process was stopped"
        assert answer.timed_out
    else:  # time or memory, whichever is over first
        assert answer.timed_out or answer.error.startswith(("MemoryError", "the process"))
    assert time.monotonic() - began < 10
    assert act.call("still here").value == "still here"


def test_memory_limit_is_an_error_of_the_call(act: Worker) -> None:
    before = act.restarts
    assert act.call("memory").error.startswith("MemoryError")
    assert (act.call("still here").value, act.restarts) == ("still here", before)


def test_death_of_the_process_is_an_answer(act: Worker) -> None:
    assert act.call("crash").error == "the process died of SIGSEGV"
    assert act.call("quit").error == "the process ended with status 7"
    assert act.call("still here").value == "still here"


def test_one_bad_call_of_a_batch_costs_only_its_own_answer(act: Worker) -> None:
    answers = act.call_many([((w,), {}) for w in ("a", "crash", "b", "sleep", "c", "raise", "d")])
    assert [a.value for a in answers] == ["a", None, "b", None, "c", None, "d"]
    assert [a.timed_out for a in answers] == [False, False, False, True, False, False, False]


def test_large_batches_do_not_lock_up() -> None:
    text = "x" * 50_000
    with Worker(f"{HERE}:echo", seconds=20.0) as worker:
        answers = worker.call_many([((text + str(i),), {}) for i in range(60)])
        assert [a.value for a in answers] == [text + str(i) for i in range(60)]
        assert len(worker.call("y" * 5_000_000).value) == 5_000_000


def test_arguments_that_are_no_json_are_an_error_of_their_call() -> None:
    with Worker(f"{HERE}:echo") as worker:
        answers = worker.call_many([((1,), {}), ((object(),), {}), ((2,), {})])
        assert [a.value for a in answers] == [1, None, 2]
        assert answers[1].error.startswith("arguments can't be handed on as JSON")


def test_async_functions_are_awaited() -> None:
    with Worker(f"{HERE}:later") as worker:
        assert worker.call(1).value == 2


def test_a_file_is_a_target(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Judge:\n    @staticmethod\n    def score(text): return len(text)\n")
    with Worker(f"{tmp_path}/mine.py:Judge.score") as worker:
        assert worker.call("four").value == 4


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere.at.all:f", "ModuleNotFoundError: No module named 'nowhere'"),
        (f"{HERE}:gone", "AttributeError"),
        (f"{HERE}:__name__", "TypeError"),
        ("plain", "is not of the form module:function"),
        ("gone.py:f", "FileNotFoundError: gone.py"),
    ],
)
def test_target_that_cannot_be_loaded_is_said_at_once(target: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Worker(target).call()
    assert said in str(caught.value)
    assert "package.module:function" in str(caught.value)


def test_process_ends_with_its_owner() -> None:
    worker = Worker(f"{HERE}:pid")
    found = worker.call().value
    del worker
    with pytest.raises(ProcessLookupError):
        os.kill(found, 0)


def test_modules_of_the_current_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_verifier_module.py").write_text("def score(text): return 0.5\n")
    monkeypatch.chdir(tmp_path)
    with Worker("my_verifier_module:score") as worker:
        assert worker.call("x").value == 0.5
