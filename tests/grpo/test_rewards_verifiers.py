"""Verifiers: what counts as equal, what can't be read, and answers that were made to break a grader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvitals.env import VerifierStatus
from rlvitals.errors import InputError
from rlvitals.grpo.rewards.extract import READERS, last_boxed
from rlvitals.grpo.rewards.verifiers import exact, json_schema, judge, nesting, numeric
from rlvitals.grpo.tasks.verified import LIBRARY, MATH_JUDGE, Verification, reward_of, status_of
from rlvitals.worker import Answer, Worker

RIGHT, WRONG, NO_PARSE = VerifierStatus.RIGHT, VerifierStatus.WRONG, VerifierStatus.NO_PARSE


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{42}", "42"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{7} and then \boxed{8 is cut", "7"),
        (r"\boxed{cut", None),
        ("no box", None),
        (r"\boxed{}", ""),
    ],
)
def test_last_complete_box(text: str, answer: str | None) -> None:
    assert last_boxed(text) == answer


@pytest.mark.parametrize(
    ("read", "text", "answer"),
    [
        ("boxed", r"<think>\boxed{1}</think>\boxed{2}", "2"),
        ("boxed", r"<think>\boxed{1}</think>2", None),
        ("hashes", "5+5=10\n#### 10", "10"),
        ("last-number", "I have 3 and pay $1,234.50 in all.", "1,234.50"),
        ("last-number", "none", None),
        ("tagged", "<answer> 7 </answer>", "7"),
        ("whole", "<think>x</think> 12 ", "12"),
        ("whole", "<think>x</think> ", None),
    ],
)
def test_readers(read: str, text: str, answer: str | None) -> None:
    assert READERS[read](text) == answer


@pytest.mark.parametrize(
    ("answer", "gold", "status"),
    [
        ("42", "42", RIGHT),
        ("42.0", "42", RIGHT),
        ("1,234", "1234", RIGHT),
        ("$5", "5", RIGHT),
        ("0.3333333", "0.33333333", RIGHT),
        ("0.334", "0.3333", WRONG),
        ("1000001", "1000000", WRONG),  # whole numbers are compared exactly
        ("52_8", "528", NO_PARSE),
        ("forty", "40", NO_PARSE),
        ("nan", "5", NO_PARSE),
        ("inf", "5", NO_PARSE),
        ("1e999999999", "5", NO_PARSE),
        ("", "5", NO_PARSE),
    ],
)
def test_numeric(answer: str, gold: str, status: VerifierStatus) -> None:
    assert numeric(answer, gold, {})[0] is status


def test_numeric_gold_must_be_a_number() -> None:
    with pytest.raises(ValueError, match="is no number"):
        numeric("5", "five", {})


def test_exact_ignores_white_space_only() -> None:
    assert exact(" a  b ", "a b", {})[0] is RIGHT
    assert exact("A b", "a b", {})[0] is WRONG


SCHEMA = '{"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}'


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ('{"city": "Bonn"}', RIGHT),
        ('```json\n{"city": "Bonn"}\n```', RIGHT),
        ('{"city": 5}', WRONG),
        ("{city: Bonn}", NO_PARSE),
        ("[" * 5000, NO_PARSE),
    ],
)
def test_json_schema(answer: str, status: VerifierStatus) -> None:
    assert json_schema(answer, SCHEMA, {})[0] is status
    assert json_schema(answer, "ignored", {"schema": {"type": "object", "required": ["city"],
                       "properties": {"city": {"type": "string"}}}})[0] is status  # fmt: skip


def test_schema_that_is_none_is_an_error_of_the_verifier() -> None:
    with pytest.raises(ValueError, match="schema can't be used"):
        json_schema("{}", '{"type": "no such type"}', {})


def test_nesting_counts_unmatched_brackets_too() -> None:
    assert (nesting("((a)[b])"), nesting("(" * 500), nesting(")))")) == (2, 500, 0)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    pytest.importorskip("math_verify", reason="needs math-verify: pip install 'rlvitals[train]'")
    with Worker(MATH_JUDGE, seconds=2.0, memory_mb=512) as made:
        yield made


def status(worker: Worker, answer: str, gold: str) -> VerifierStatus:
    return status_of(worker.call(f"\\boxed{{{answer}}}", gold, "math", "boxed"))[0]


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("42", "42"),
        (r"\frac{1}{2}", "0.5"),
        (r"\frac12", r"\frac{1}{2}"),
        (r"3\sqrt2", r"\sqrt{18}"),
        ("x=5", "5"),
        (r"\{3, 5,7\}", r"\{3,5,7\}"),
        (r"2\pi", r"2 \pi"),
        ("(1,2]", "(1, 2]"),
    ],
)
def test_math_that_is_equal(worker: Worker, answer: str, gold: str) -> None:
    assert status(worker, answer, gold) is RIGHT


@pytest.mark.parametrize(
    ("answer", "gold"), [("41", "42"), (r"\frac{1}{3}", r"\frac{1}{2}"), ("[1,2]", "(1,2)"), ("x+1", "x+2")]
)
def test_math_that_is_not(worker: Worker, answer: str, gold: str) -> None:
    assert status(worker, answer, gold) is WRONG


def test_code_in_an_answer_is_not_run(worker: Worker, tmp_path: Path) -> None:
    made = tmp_path / "made"
    for answer in (
        f'open("{made}","w")',
        f"open('{made}','w').write('x')",
        f'__import__("pathlib").Path("{made}").touch()',
        f"\\text{{open('{made}','w')}}",
    ):
        assert status(worker, answer, "42") in (WRONG, NO_PARSE)
        assert not made.exists()


@pytest.mark.parametrize("answer", ['eval("40+2")', "print(42)", "input()", 'len("aaaaa")', "int('42')"])
def test_calls_are_not_their_value(worker: Worker, answer: str) -> None:
    gold = "5" if answer.startswith("len") else "42"
    assert status(worker, answer, gold) is not RIGHT


@pytest.mark.parametrize("answer", ["10^{10^{10}}", "9^{9^{9^9}}", "(x+1)^{5000000}", "100000000!"])
def test_monsters_end_in_time_and_are_never_a_reward(worker: Worker, answer: str) -> None:
    found = status_of(worker.call(f"\\boxed{{{answer}}}", "42", "math", "boxed"))[0]
    assert found is not RIGHT
    assert status(worker, "42", "42") is RIGHT  # and the next answer is judged


def test_deep_nesting_is_unreadable_not_a_crash(worker: Worker) -> None:
    before = worker.restarts
    assert status(worker, "(" * 500 + "1" + ")" * 500, "1") is NO_PARSE
    assert status(worker, "1" * 5000, "1") is NO_PARSE
    assert worker.restarts == before


def test_gold_that_cannot_be_read_is_an_error_not_a_wrong_answer(worker: Worker) -> None:
    found, said = status_of(worker.call("5", "five apples", "numeric", "last-number"))
    assert found is VerifierStatus.ERROR
    assert "is no number" in said


def test_no_answer_is_no_parse() -> None:
    assert judge("I have no idea. Step 6", "6", "math", "boxed") == {"status": "no parse", "raw": ""}


def test_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIBRARY, "math", ("no_such_module", "train"))
    with pytest.raises(InputError, match=r"needs no_such_module. pip install 'rlvitals\[train\]'"):
        Verification("math").workers()


def test_status_of_an_answer() -> None:
    assert status_of(Answer(error="late", timed_out=True)) == (VerifierStatus.TIMEOUT, "late")
    assert status_of(Answer(error="ValueError: x")) == (VerifierStatus.ERROR, "ValueError: x")
    assert status_of(Answer(value="junk"))[0] is VerifierStatus.ERROR
    assert status_of(Answer(value={"status": "right", "raw": "4"})) == (RIGHT, "4")
    assert [reward_of(s) for s in (RIGHT, WRONG, NO_PARSE)] == [1.0, 0.0, 0.0]
    assert reward_of(VerifierStatus.TIMEOUT) != reward_of(VerifierStatus.TIMEOUT)
