"""The verifier probe: conventions are detected, each fault gets its own finding, a right verifier gets none."""

from __future__ import annotations

import pytest

from rlvitals.audit.calling import Ask, Convention, Signature, Way, arguments, detect, read_rewards
from rlvitals.audit.probe import Limits, probe
from rlvitals.audit.probeinputs import Case, spellings, truncated, wrong_answer
from rlvitals.auditresults import Probe, ProbeFault
from rlvitals.errors import InputError
from tests.audit.data import item, items

F = ProbeFault


def probed(name: str, **options: object) -> Probe:
    return probe(f"tests.audit.verifiers:{name}", items(4), limits=Limits(3.0, 512), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "convention", "template"),
    [
        ("good_trl", "TRL, completions as text", "<answer>{gold}</answer>"),
        ("good_chat", "TRL, completions as messages", "<answer>{gold}</answer>"),
        ("compute_score", "verl, completions as text", "#### {gold}"),
        ("good_verifiers", "verifiers, completions as messages", "\\boxed{{gold}}"),
        ("good_plain", "plain, completions as text", "<answer>{gold}</answer>"),
    ],
)
def test_a_right_verifier_is_called_its_own_way_and_cleared(name: str, convention: str, template: str) -> None:
    found = probed(name)
    assert found.convention.startswith(convention)
    assert found.template == template
    assert (found.full_marks, found.floor) == (1.0, 0.0)
    assert found.findings == ()
    counts = {c.name: (c.calls, c.paid) for c in found.classes}
    assert counts["gold"] == (4, 4)
    assert counts["wrong"] == counts["empty"] == counts["gold of another item"] == (4, 0)


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("always_zero", [F.ALWAYS_ZERO]),
        ("always_one", [F.ALWAYS_ONE]),
        ("raises", [F.RAISES]),
        ("counts_calls", [F.NON_DETERMINISTIC]),
        ("ranks_the_batch", [F.ORDER_DEPENDENT]),
        ("default_one", [F.DEFAULT_ON_ERROR]),
        ("default_zero", [F.DEFAULT_ON_ERROR]),
        ("any_answer_goes", [F.PAYS_WRONG]),
    ],
)
def test_each_fault_has_its_own_finding(name: str, faults: list[ProbeFault]) -> None:
    assert [f.fault for f in probed(name).findings] == faults


def test_a_verifier_that_hangs_is_stopped_and_named() -> None:
    found = probe("tests.audit.verifiers:hangs", items(2), limits=Limits(1.5, 512))
    (hang,) = (f for f in found.findings if f.fault is F.HANGS)
    assert "a tower of powers" in hang.text
    assert hang.shown.count >= 2


def test_a_default_is_told_apart_by_what_it_pays() -> None:
    assert [f.zero for f in probed("default_zero").findings] == [True]
    assert [f.zero for f in probed("default_one").findings] == [False]


def test_own_completions_are_compared_with_their_logged_reward() -> None:
    said = "<answer>5</answer>"
    logged = [
        Case("logged", Ask.of(item(0), said), None, "row 1", 0.0),
        Case("logged", Ask.of(item(1), said), None, "row 2", 0.0),
    ]
    found = probed("good_plain", logged=logged)
    assert [(f.fault, f.shown.count, f.shown.of) for f in found.findings] == [(F.DISAGREES_WITH_LOG, 1, 2)]


def test_what_cannot_be_called_or_loaded_is_an_input_error() -> None:
    with pytest.raises(InputError, match="no known way to call it"):
        probed("cannot_be_called")
    with pytest.raises(InputError, match="can't be loaded"):
        probed("no_such_function")
    with pytest.raises(InputError, match="no task has a gold answer"):
        probe("tests.audit.verifiers:good_plain", [])


@pytest.mark.parametrize(
    ("names", "convention"),
    [
        (("prompts", "completions"), Convention.TRL),
        (("data_source", "solution_str", "ground_truth"), Convention.VERL),
        (("completion", "answer", "state"), Convention.VERIFIERS),
        (("completion", "answer"), Convention.PLAIN),
        (("x", "y"), Convention.PLAIN),
    ],
)
def test_conventions_by_signature(names: tuple[str, ...], convention: Convention) -> None:
    assert detect(Signature(names, names), "m:f")[0] is convention


def test_a_plain_function_is_filled_by_name_then_by_place() -> None:
    ask = Ask.of(item(1), "said")
    way = Way(Convention.PLAIN)
    assert arguments(way, Signature(("question", "gold", "response"), ()), [ask]) == (
        [],
        {"question": "What is 1 + 6 ?", "gold": "7", "response": "said"},
    )
    assert arguments(way, Signature(("a", "b"), ("a", "b")), [ask]) == ([], {"a": "said", "b": "7"})


def test_rewards_that_are_none() -> None:
    way = Way(Convention.TRL)
    assert [r.value for r in read_rewards(way, [1, None, float("nan"), "1"], 4)] == [1.0, None, None, None]
    assert read_rewards(way, [1.0], 2)[0].problem == "returned 1 rewards for 2 completions"
    assert read_rewards(Way(Convention.VERL), {"score": 0.5, "acc": 1}, 1)[0].value == 0.5


def test_known_wrong_answers_and_spellings() -> None:
    assert [wrong_answer(g) for g in ("42", "B", "yes", "x = 3", "a cat")] == [
        "49",
        "C",
        "no",
        "x = 10",
        "not a cat at all",
    ]
    assert ("thousands separated", "1,234") in spellings("1234")
    assert truncated("<answer>{gold}</answer>", "42") == "<answer>"
