"""Which held-out texts are in a training set: exact, normalised, n-gram and near-duplicate (MinHash LSH, datasketch).

Two texts whose numbers differ are two tasks of one template, never a duplicate: "12 + 34" and "12 + 35" share most of
their letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rlvitals.errors import InputError, Problem

NGRAM = 13  # words; convention of contamination studies since GPT-3 (2005.14165)
CONTAINED = 0.5  # share of a text's n-grams found in one training text
JACCARD = 0.5  # of word 3-shingles; measured on planted copies (docs/measurements.md: Leakage on a planted set)
PERMUTATIONS = 128
SHINGLE = 3  # words
MIN_WORDS = 6  # shorter texts are compared whole: an n-gram of three words is no evidence
_WORD = re.compile(r"\w+(?:[.,]\d+)*", re.UNICODE)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class How(StrEnum):
    """How a text was found, strictest first."""

    EXACT = "exact"
    NORMALISED = "normalised"
    NGRAM = "n-gram"
    NEAR = "near-duplicate"


@dataclass(frozen=True, slots=True)
class Match:
    """Held-out row `held_out` is training row `training`."""

    held_out: int
    training: int
    how: How


@dataclass(frozen=True)
class Overlaps:
    """Matches, one per held-out text at most, and held-out texts that share a template with a training text."""

    matches: tuple[Match, ...]
    same_template: tuple[int, ...]


def normalised(text: str) -> str:
    """Return text as words of lower case in one space, compatibility forms joined, punctuation left out."""
    return " ".join(words(text))


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; numbers keep their points, without thousands separators."""
    found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return [w.replace(",", "") if w[0].isdigit() else w for w in found]


def numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of a text in order of size, written the same way."""
    return tuple(sorted(n.replace(",", "").rstrip(".") for n in _NUMBER.findall(unicodedata.normalize("NFKC", text))))


def find_overlaps(
    training: Sequence[str], held_out: Sequence[str], answers: tuple[Sequence[str], Sequence[str]] | None = None
) -> Overlaps:
    """Return, for each held-out text, the strictest match in the training texts.

    Args:
        answers: gold answers of both, "" where unknown; nearly equal texts with different answers are two tasks.

    Raises InputError when datasketch is not installed.
    """
    matches: dict[int, Match] = {}
    for how, form in ((How.EXACT, str.strip), (How.NORMALISED, normalised)):
        first: dict[str, int] = {}
        for j, text in enumerate(training):
            first.setdefault(form(text), j)
        for i, text in enumerate(held_out):
            key = form(text)
            if i not in matches and key and key in first:
                matches[i] = Match(i, first[key], how)
    rest = [i for i in range(len(held_out)) if i not in matches and held_out[i].strip()]
    for i, j in _contained(training, held_out, rest, answers):
        matches[i] = Match(i, j, How.NGRAM)
    rest = [i for i in rest if i not in matches]
    near, template = _near(training, held_out, rest, answers)
    matches |= {i: Match(i, j, How.NEAR) for i, j in near.items()}
    return Overlaps(tuple(matches[i] for i in sorted(matches)), tuple(sorted(set(template) - set(matches))))


def repeats(texts: Sequence[str]) -> int:
    """Return how many texts repeat an earlier one, normalised."""
    seen = {normalised(t) for t in texts if t.strip()}
    return sum(1 for t in texts if t.strip()) - len(seen)


def _grams(found: Sequence[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(found[k : k + n]) for k in range(len(found) - n + 1)}


def _contained(
    training: Sequence[str],
    held_out: Sequence[str],
    rest: Sequence[int],
    answers: tuple[Sequence[str], Sequence[str]] | None,
) -> list[tuple[int, int]]:
    """Return held-out texts half of whose n-grams, and all of whose numbers, stand in one training text.

    A text shorter than NGRAM words counts when it stands there whole; otherwise the answers must not differ.
    """
    wanted: dict[tuple[str, ...], list[int]] = {}
    sizes: dict[int, tuple[int, int]] = {}  # held-out row -> (n, number of n-grams)
    for i in rest:
        found = words(held_out[i])
        n = min(NGRAM, len(found))
        if n < MIN_WORDS:
            continue
        grams = _grams(found, n)
        sizes[i] = (n, len(grams))
        for gram in grams:
            wanted.setdefault(gram, []).append(i)
    lengths = sorted({n for n, _ in sizes.values()})
    out: dict[int, int] = {}
    for j, text in enumerate(training):
        found = words(text)
        hits: dict[int, int] = {}
        for n in lengths:
            for gram in _grams(found, n):
                for i in wanted.get(gram, ()):
                    hits[i] = hits.get(i, 0) + 1
        for i, count in hits.items():
            inside = set(numbers(held_out[i])) <= set(numbers(text))
            whole = count >= sizes[i][1] or _same_answer(answers, j, i)
            if i not in out and inside and whole and count >= CONTAINED * sizes[i][1]:
                out[i] = j
    return sorted(out.items())


def _near(
    training: Sequence[str],
    held_out: Sequence[str],
    rest: Sequence[int],
    answers: tuple[Sequence[str], Sequence[str]] | None,
) -> tuple[dict[int, int], list[int]]:
    """Return near-duplicates with the same numbers and answer, and held-out texts that only share a template."""
    near: dict[int, int] = {}
    template: list[int] = []
    if not rest:
        return near, template
    minhash, lsh_type = _datasketch()
    lsh = lsh_type(threshold=JACCARD, num_perm=PERMUTATIONS, weights=(0.2, 0.8))  # recall first: candidates are checked
    for j, hashed in enumerate(minhash.bulk([_bytes(_shingles(t)) for t in training], num_perm=PERMUTATIONS)):
        lsh.insert(j, hashed)
    for i, hashed in zip(
        rest, minhash.bulk([_bytes(_shingles(held_out[i])) for i in rest], num_perm=PERMUTATIONS), strict=True
    ):
        mine, mine_numbers = _shingles(held_out[i]), numbers(held_out[i])
        for j in sorted(lsh.query(hashed)):
            other = _shingles(training[j])
            if len(mine & other) < JACCARD * len(mine | other):
                continue
            if numbers(training[j]) == mine_numbers and _same_answer(answers, j, i):
                near[i] = j
                break
            template.append(i)
    return near, template


def _same_answer(answers: tuple[Sequence[str], Sequence[str]] | None, training: int, held_out: int) -> bool:
    """Return False only where both answers are known and neither ends with the other, as a worked solution does."""
    if answers is None:
        return True
    short, long = sorted((words(answers[0][training]), words(answers[1][held_out])), key=len)
    return not short or long[-len(short) :] == short


def _shingles(text: str) -> frozenset[str]:
    """Return the word 3-shingles of a text, numbers as one sign: what changes with the numbers is told apart later."""
    found = ["0" if w[0].isdigit() else w for w in words(text)]
    if len(found) < SHINGLE:
        return frozenset((" ".join(found),))
    return frozenset(" ".join(found[k : k + SHINGLE]) for k in range(len(found) - SHINGLE + 1))


def _bytes(shingles: frozenset[str]) -> list[bytes]:
    return [s.encode("utf-8", "surrogatepass") for s in shingles]


def _datasketch() -> tuple[Any, Any]:
    try:
        from datasketch import MinHash, MinHashLSH
    except ImportError as error:
        raise InputError(
            Problem("near-duplicates need the package datasketch", hint="pip install 'rlvitals[audit]'")
        ) from error
    return MinHash, MinHashLSH
