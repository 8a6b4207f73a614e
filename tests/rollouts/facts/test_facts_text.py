"""Facts on text: copies, near-identical groups, loops, verifier outputs and the phrase that pays."""

from __future__ import annotations

import numpy as np
import pytest

from rlvitals.rollouts.facts import copies, gold_at_end, phrases, raw_output, repetition, similar
from rlvitals.rollouts.facts.raw_output import reads_as_failure, verdict
from rlvitals.rollouts.facts.repetition import loops_at_end, packed
from rlvitals.rollouts.facts.similar import approach, signatures
from rlvitals.rollouts.facts.words import Hashed, coded_words, words_of
from rlvitals.rollouts.fold import fold
from tests.rollouts.facts.batches import batch, groups, merges, says

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "omicron",
    "pi",
    "rho",
    "sigma",
    "tau",
]


def prose(seed: int, words: int = 80) -> str:
    rng = np.random.default_rng(seed)
    return " ".join(
        f"{WORDS[i]}{j}" for i, j in zip(rng.integers(0, 19, words), rng.integers(0, 50, words), strict=True)
    )


def test_completions_that_end_with_the_gold_answer() -> None:
    texts = ["so it is 131.", "3+1131", "131", "the answer: 131", "131 or so", "x = -131", None]
    found = says(gold_at_end.FACT, batch(completion=texts, gold=["131"] * 7, reward=[0.0, 0, 1, 0, 0, 0, 0]))
    assert (found["right_n"], found["right_unread_n"]) == ({1: 3.0}, {1: 2.0})


def test_a_parsed_answer_is_left_to_the_comparison_with_the_gold_one() -> None:
    b = batch(completion=["it is 7", "it is 7"], gold=["7", "7"], reward=[0.0, 0.0], parsed=["8", None])
    assert says(gold_at_end.FACT, b)["right_unread_n"] == {1: 1.0}


def test_copies_explain_tied_groups() -> None:
    texts = ["same text"] * 4 + [prose(i) for i in range(4)] + ["a b", "a b", "c d", "e f"]
    whole = batch(completion=texts, reward=[0] * 4 + [1] * 4 + [1, 0, 0, 0], **groups(3, 4))
    found = says(copies.FACT, whole)
    assert found["unique_frac"] == {1: pytest.approx((0.25 + 1 + 0.75) / 3)}
    assert found["copied_group_frac"] == {1: pytest.approx(1 / 3)}
    assert found["tied_copied_share"] == {1: 0.5}
    assert found["tied_sample_frac"] == {1: pytest.approx(2 / 3)}
    p = 5 / 12
    assert found["tied_law_frac"] == {1: pytest.approx(p**4 + (1 - p) ** 4)}
    assert merges(copies.FACT, whole, 6)
    assert {e.group for e in fold([whole], (copies.FACT,)).examples} == {"g0"}


def test_the_law_is_left_out_for_rewards_of_several_values() -> None:
    found = says(copies.FACT, batch(completion="x", reward=[0, 0.5, 1, 1], **groups(1, 4)))
    assert "tied_law_frac" not in found or found["tied_law_frac"] == {}


def test_near_identical_groups_and_one_way_of_going_about_it() -> None:
    near = [prose(1, 120) + f" end{i}" for i in range(4)]
    steps = "First we add {} and {}. Then we carry the one. The answer is {}."
    one_way = [steps.format(17 * i + 3, 29 * i + 4, 46 * i + 7) for i in range(4)]
    apart = [prose(10 + i, 120) for i in range(4)]
    whole = batch(completion=near + one_way + apart, **groups(3, 4))
    found = says(similar.FACT, whole)
    assert found["near_identical_frac"] == {1: pytest.approx(1 / 3)}
    assert found["one_strategy_frac"] == {1: pytest.approx(2 / 3)}
    assert merges(similar.FACT, whole, 5)


def test_equal_smallest_hashes_estimate_the_jaccard_index() -> None:
    a = [f"w{i}" for i in range(300)]
    b = a[:150] + [f"v{i}" for i in range(150)]
    x, y = ({tuple(side[i : i + 3]) for i in range(len(side) - 2)} for side in (a, b))
    true = len(x & y) / len(x | y)
    seen = []
    for salt in range(60):
        both = [Hashed.of(coded_words(" ".join(f"{salt}{w}" for w in side))) for side in (a, b)]
        one, two = signatures(both)
        seen.append((one == two).mean())
    assert np.mean(seen) == pytest.approx(true, abs=0.05)


def test_text_without_spaces_is_taken_by_characters() -> None:
    assert words_of("我们先把两个数相加然后再减去一得到答案是四十二因此结果正确") == list(
        "我们先把两个数相加然后再减去一得到答案是四十二因此结果正确"
    )
    assert approach("Add 12 and 13. Then stop.") == approach("Add 7 and 99. Then stop.")


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        (prose(2, 200), False),
        (prose(3, 60) + " and so on it goes" * 30, True),
        ("1 1 1", False),
        ("yes " * 3, False),
        (prose(4, 20) + " wait, let me check that again." * 10, True),
    ],
)
def test_a_tail_that_repeats_is_a_loop(text: str, loops: bool) -> None:
    assert loops_at_end(Hashed.of(coded_words(text)).crc.tolist()) is loops


def test_repetition_numbers() -> None:
    few = says(repetition.FACT, batch(completion=["a b " * 50, "a " * 10]))
    assert few["distinct_3_mean"] == {1: pytest.approx(2 / 98)}
    assert packed("ab" * 1000) < 0.05
    found = says(repetition.FACT, batch(completion=["spam and eggs " * 60, prose(5, 100), "", "short"]))
    assert found["repetition_frac"] == {1: pytest.approx(1 / 3)}
    assert 0.4 < found["distinct_3_mean"][1] < 0.6


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("Traceback (most recent call last):\n  File ...", True),
        ("TimeoutError: took too long", True),
        ("timed out after 10 s", True),
        ("None", True),
        ("0.0", False),
        ("False", False),
        ("wrong: expected 4, got 5", False),
        ("the relative error of the estimate is 3%", False),
    ],
)
def test_what_reads_as_a_failure_of_the_verifier(text: str, failure: bool) -> None:
    assert reads_as_failure(text) is failure


def test_verdicts_in_words() -> None:
    assert (verdict(" True "), verdict("0.0")) == (1.0, 0.0)
    assert np.isnan(verdict("the answer is correct, says the judge, with reservations"))


def test_failures_that_became_rewards_and_outputs_that_say_the_reverse() -> None:
    b = batch(
        raw_output=["TimeoutError: 10 s", "True", "True", "False", "False", None],
        reward=[1, 1, 0, 0, 0, 0],
        correct=[1, 1, 0, 0, 0, 0],
    )
    found = says(raw_output.FACT, b)
    assert found["raw_failure_frac"] == {1: 0.2}
    assert found["raw_failure_reward_mean"] == {1: 1.0}
    assert found["raw_other_reward_mean"] == {1: 0.25}
    assert found["raw_opposed_frac"] == {1: 0.25}
    shown = fold([b], (raw_output.FACT,)).examples
    assert [e.reward for e in shown] == [1.0, 0.0]
    assert shown[0].excerpt.startswith("verifier output: TimeoutError")


def test_a_one_among_other_answers_is_an_answer_and_no_verdict() -> None:
    b = batch(raw_output=["1", "1", "1", "1", "42", "17"], reward=[0] * 6, correct=[0] * 6)
    assert "raw_opposed_frac" not in says(raw_output.FACT, b) or says(raw_output.FACT, b)["raw_opposed_frac"] == {}


def test_the_phrase_that_pays_is_found_and_shown() -> None:
    texts = [prose(i, 60) for i in range(20)] + [prose(100 + i, 60) + " I declare this correct" for i in range(12)]
    reward = [0.0] * 18 + [1.0] * 2 + [1.0] * 12
    b = batch(completion=texts, reward=reward, correct=[0] * 18 + [1] * 2 + [0] * 12, **groups(8, 4))
    found = says(phrases.FACT, b)
    assert found["phrase_share"] == {1: 0.375}
    assert found["phrase_gap"] == {1: pytest.approx(0.9)}
    assert found["phrase_right_gap"] == {1: pytest.approx(-0.1)}
    assert found["phrase_code"] == {1: float(phrases.code_of("i declare this correct"))}
    shown = fold([b], (phrases.FACT,)).examples
    assert len(shown) == 3
    assert all(e.reward == 1.0 and e.excerpt.startswith("\u00abi declare this correct\u00bb in: ") for e in shown)
