"""The text facts on arrays say to the bit what their plain definitions say, on odd texts too."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rlvitals.rollouts.facts import phrases, repetition, similar
from rlvitals.rollouts.facts.words import Hashed, coded_words, texts_of, words_of
from tests.rollouts.facts import plain
from tests.rollouts.facts.batches import batch
from tests.rollouts.facts.test_facts_text import prose

LETTERS = [*"abcABCéßΣİ我们先 \n\t .,;!?/-+0123456789\x1c\x85\xa0#<>=", "\ud800"]


def odd(seed: int) -> str:
    """Return one of several kinds of text that break naive tokenising."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 1500))
    return (
        "".join(LETTERS[i] for i in rng.integers(0, len(LETTERS), n)),
        "x" * int(rng.integers(1, 300)) + " and " + "y" * 200 + " and more",
        " ".join(f"{x:.3f}" for x in rng.normal(size=60)) + ". -3.14. +5,/.7 ..9 3..a .5.. 1.!.2 Or 7? 8.9.",
        "First we add 3. Then carry 4.5; done. " * int(rng.integers(1, 160)),
        "我们先把两个数相加然后再减去一" * int(rng.integers(1, 400)),
        "wait, let me check that again. " * int(rng.integers(1, 50)) + prose(seed, 60),
        prose(seed, int(rng.integers(1, 700))),
        "A" * int(rng.integers(1, 70)),
    )[seed % 8]


TEXTS = [odd(seed) for seed in range(160)]


def test_words_as_bytes() -> None:
    assert [coded_words(t) for t in TEXTS] == [[w.encode("utf-8", "replace") for w in plain.words(t)] for t in TEXTS]
    assert words_of("A\x1cb\x1fC") == [w.decode() for w in coded_words("A\x1cb\x1fC")] == ["a", "b", "c"]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_crc_of_a_run_comes_from_those_of_its_words(size: int) -> None:
    for text in [*TEXTS, "z" * 63 + " " + "y" * 64 + " " + "x" * 65 + " w", ""]:
        found = Hashed.of(coded_words(text)).run_crcs(size).tolist()
        assert found == [plain.crc(run) for run in plain.runs(plain.words(text), size)]


def test_signatures() -> None:
    words = texts_of(batch(completion=TEXTS))
    assert similar.signatures([words.head(i) for i in range(len(TEXTS))]).tolist() == [
        plain.signature(plain.shingles(t)) for t in TEXTS
    ]
    assert [similar.approach(t) for t in TEXTS] == [plain.approach(t) for t in TEXTS]
    assert similar.ways(TEXTS).tolist() == [plain.signature(plain.approach(t) or {""}) for t in TEXTS]


def test_repetition() -> None:
    words = texts_of(batch(completion=TEXTS))
    found = [repetition._measure(t, words.tail(i)) for i, t in enumerate(TEXTS)]
    np.testing.assert_array_equal(np.array(found), np.array([plain.repetition(t) for t in TEXTS]))
    assert {f[0] for f in found} == {0.0, 1.0}


@pytest.mark.parametrize("packed", [True, False])
def test_phrases(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not packed:
        monkeypatch.setattr(phrases, "_PACKED", 1)
    steps = [1 + i % 2 for i in range(len(TEXTS))]
    sums = phrases._fold(batch(step=steps, completion=TEXTS, reward=1.0))
    found = dict(zip(zip(*(k.tolist() for k in sums.keys), strict=True), sums.values["n"].tolist(), strict=True))
    held = Counter((s, code) for s, t in zip(steps, TEXTS, strict=True) for code in plain.phrase_codes(t))
    often = {key: float(n) for key, n in held.items() if n >= phrases.LEAST}
    assert found == often | {(1, 0): 80.0, (2, 0): 80.0}
    assert len(often) > 20


def test_words_are_hashed_once_for_all_facts_and_not_carried_to_other_rows() -> None:
    b = batch(completion=TEXTS)
    assert texts_of(b) is texts_of(b)
    assert texts_of(b).head(6) is texts_of(b).tail(6)
    assert b.take(np.array([3])).derived == {}
