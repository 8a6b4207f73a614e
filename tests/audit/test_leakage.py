"""Leakage: copies are found in every form that is claimed, one template with other numbers is none."""

from __future__ import annotations

import pytest
from benchmarks.leakage import measure

from rlvitals.audit.leakage import examine_leakage
from rlvitals.audit.overlap import How, find_overlaps, repeats
from rlvitals.env import Message
from tests.audit.data import row

TEXT = "Ada buys 12 apples at the market. Later Ben brings 30 more for the whole class. How many apples are there now?"


@pytest.mark.parametrize(
    ("training", "how"),
    [
        (TEXT, How.EXACT),
        (TEXT.upper().replace(".", " ."), How.NORMALISED),
        (f"Read with care. {TEXT} Explain every step that you take.", How.NGRAM),
        (TEXT.replace("more", "fresh"), How.NEAR),
    ],
)
def test_a_copy_is_found_in_its_strictest_form(training: str, how: How) -> None:
    found = find_overlaps(["What is 3 + 4?", training], ["Who wrote Faust?", TEXT])
    assert [(m.held_out, m.training, m.how) for m in found.matches] == [(1, 1, how)]


def test_other_numbers_are_another_task_of_the_same_template() -> None:
    found = find_overlaps([TEXT.replace("12", "17")], [TEXT])
    assert (found.matches, found.same_template) == ((), (0,))


def test_other_answers_to_nearly_equal_texts_are_two_tasks() -> None:
    changed = TEXT.replace("there now", "there not")
    assert find_overlaps([changed], [TEXT], (["42"], ["41"])).matches == ()
    assert len(find_overlaps([changed], [TEXT], (["42"], [""])).matches) == 1


def test_every_training_path_and_family_is_counted() -> None:
    def made(number: int, text: str, gold: str, family: str) -> object:
        return row(0, number=number, source="f.jsonl", messages=(Message("user", text),), gold=gold, family=family)

    held = [
        made(0, TEXT, "42", "sums"),
        made(1, "Name the capital of the country of Chad.", "n djamena city proper", "facts"),
    ]
    sft = [made(0, TEXT, "42", "sums"), made(1, TEXT + "!", "42", "sums")]
    train = [made(0, "Prove that the sum of two odd numbers is even.", "n djamena city proper", "proofs")]
    found = examine_leakage({"train": train, "sft": sft}, held, families=("proofs", "facts"))  # type: ignore[arg-type]
    assert (found.leaked.count, found.leaked.of, found.training) == (1, 2, 3)
    assert [(o.path, o.how, o.examples) for o in found.overlaps] == [
        ("sft", "exact", ("held-out f.jsonl row 1 is sft f.jsonl row 1",))
    ]
    assert [(f.family, f.instances, f.answer_keys, f.trained) for f in found.families] == [
        ("facts", 0, 1, 0),
        ("sums", 1, 0, 2),
    ]
    assert found.shared_families == ("proofs",)
    assert found.duplicates == 1


def test_empty_texts_match_nothing_and_do_not_count_as_repeats() -> None:
    assert find_overlaps(["", " "], ["", "  "]).matches == ()
    assert repeats(["", "", "a", "A!"]) == 1


def test_the_planted_set() -> None:
    found = measure(rows=600, held=200, seed=3)
    assert found["precision"] == 1.0
    assert found["decoys taken for leaks"] == 0.0
    assert {n: found[n] for n in ("exact copy", "two words exchanged")} == {
        "exact copy": 1.0,
        "two words exchanged": 1.0,
    }
    assert found["reworded in every sentence"] == 0.0
