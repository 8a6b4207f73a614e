"""Options of tasks: types, ranges, choices and lists are checked for every task, all problems of one spec at once."""

from __future__ import annotations

import math
import re

import pytest

from rlvitals.errors import InputError

pytest.importorskip("torch")
from rlvitals.grpo.rewards.shaping import SHAPING
from rlvitals.grpo.tasks.load import KINDS
from rlvitals.grpo.tasks.options import Kind, Option, given, parse
from rlvitals.grpo.tiny import recipe_for

NUMBERS = [
    (kind.name, option)
    for kind in KINDS
    for option in (*kind.options, *SHAPING)
    if option.kind in (Kind.WHOLE, Kind.NUMBER)
]


def said(spec: str, *known: Option) -> list[str]:
    """Return what is wrong with a spec, with the options of its task or with other ones."""
    own = next((k.options for k in KINDS if k.name == spec.partition(":")[0]), ())
    with pytest.raises(InputError) as caught:
        parse(spec, known or (*own, *SHAPING))
    return [str(p) for p in caught.value.problems]


@pytest.mark.parametrize(("task", "option"), NUMBERS, ids=lambda x: x if isinstance(x, str) else x.name)
def test_every_number_has_a_range_that_holds_its_default(task: str, option: Option) -> None:
    assert math.isfinite(option.low)
    assert math.isfinite(option.high)
    assert option.low <= float(option.default) <= option.high
    for bad in (option.low - 1, option.high * 2, *(("nan", "inf") if option.kind is Kind.NUMBER else ())):
        text = f"{bad:.0f}" if isinstance(bad, float | int) and option.kind is Kind.WHOLE else str(bad)
        assert any(s.startswith(f"{task}: {option.name}: ") for s in said(f"{task}:{option.name}={text}"))


def test_every_numeric_default_is_declared_as_a_number() -> None:
    plain = [o.name for k in KINDS for o in (*k.options, *SHAPING) if o.kind is Kind.TEXT and not o.each]
    numeric = [n for n in plain for o in SHAPING if o.name == n and re.fullmatch(r"[\d.]+", o.default)]
    assert numeric == []


def test_all_problems_of_a_spec_are_said_at_once() -> None:
    found = said("dataset:max_tokens=-5,seconds=nan,verifier=guess,format_if_right=perhaps,sise=1,rule")
    assert found == [
        "dataset: unknown task option; found 'sise'. Nearest: system",
        "dataset: a task option has no value; found 'rule'; expected key=value",
        "dataset: path: no path named. Try --task dataset:path=problems.jsonl",
        "dataset: verifier: a task option has the wrong form; found 'guess'; expected math, numeric, exact, json",
        "dataset: seconds: a task option is out of range; found nan; expected at least 0.01 and at most 3,600",
        "dataset: max_tokens: a task option is out of range; found -5; expected at least 1 and at most 10,000,000",
        "dataset: format_if_right: a task option has the wrong form; found 'perhaps'; expected yes or no",
    ]


def test_lists_have_entries_that_are_known_and_there_once() -> None:
    assert said("arithmetic:tiers=2+9+2") == [
        "arithmetic: tiers: unknown tier; found '9'; expected 1+2+3+4",
        "arithmetic: tiers: a tier named twice; found '2'; expected each once",
    ]
    assert said("arithmetic:tiers=+") == ["arithmetic: tiers: no tier named; expected 1+2+3+4. Try tiers=2"]
    assert said("gym:name=") == ["gym: name: no puzzle named. Try name=basic_arithmetic"]
    assert said("gym:name=a+b+a") == ["gym: name: a puzzle named twice; found 'a'; expected each once"]


def test_an_option_that_is_given_twice_is_refused_by_every_reader() -> None:
    assert said("arithmetic:tiers=1,tiers=3,format=1,format=1,format=2") == [
        "arithmetic: tiers is given twice; found '1' and '3'; expected one of them",
        "arithmetic: format is given 3 times; found '1' and '1' and '2'; expected one of them",
    ]
    assert given("arithmetic:format=1,tiers=1+3", "tiers") == "1+3"
    with pytest.raises(InputError, match="tiers is given twice; found '1' and '3'"):
        given("arithmetic:tiers=1,tiers=3", "tiers")
    with pytest.raises(InputError, match="tiers is given twice"):
        recipe_for("arithmetic:tiers=1,tiers=3")  # before a model is made for either


def test_texts_of_another_type_are_refused() -> None:
    assert said("gym:size=2.5") == ["gym: size: a task option has the wrong form; found '2.5'; expected a whole number"]
    assert said("gym:format=much") == ["gym: format: a task option has the wrong form; found 'much'; expected a number"]
    assert said("x:a=-0.5", Option("a", "", "0", Kind.NUMBER, low=0)) == [
        "x: a: a task option is out of range; found -0.5; expected at least 0"
    ]


def test_good_options_are_given_as_they_are() -> None:
    known = (
        Option("n", "", "1", Kind.WHOLE, 0, 9), Option("x", "", "0.5", Kind.NUMBER), Option("f", "", "no", Kind.FLAG),
        Option("w", "", "a", each="word"), Option("c", "", "", choices=("p", "q")),
    )  # fmt: skip
    options = parse("t:n=9,f=Yes,w=a+b", known)
    assert (options.whole("n"), options.number("x"), options.flag("f")) == (9, 0.5, True)
    assert (options.words("w"), options.text("c")) == (("a", "b"), "")
