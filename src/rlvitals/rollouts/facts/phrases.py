"""The phrase that pays: a run of words that stands in many completions of a step and goes with a higher reward.

An exploit is often a text: words that satisfy the verifier whatever the task. For every phrase of WORDS words the mean
reward of the texts that hold it is compared with that of the others; the one with the surest gap names the step.
Phrases that stand in fewer than LEAST texts of a batch are dropped there, so that batches should hold whole steps.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import EXAMPLES_PER_STEP, excerpt, present, shown
from rlvitals.rollouts.facts.similar import words_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example, Float64

WORDS = 4
LEAST = 4  # texts with, and texts without
CHARS = 2_000  # read at the beginning and at the end
TOTAL = 0  # key of all texts
SPREAD = 0.05  # smallest standard deviation, of the step's range: two groups of equal rewards differ surely anyway


@functools.lru_cache(maxsize=65_536)
def _number(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "replace")) | 1


def codes_of(words: list[str]) -> npt.NDArray[np.uint64]:
    """Return one number per run of WORDS words, in their order: equal phrases share it; 2**52 keeps it exact."""
    each = np.fromiter((_number(w) for w in words), dtype=np.uint64, count=len(words))
    runs = max(len(words) - WORDS + 1, 0)
    code = np.zeros(runs, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for k in range(WORDS):
            code = (code ^ each[k : k + runs]) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(31)
    return (code >> np.uint64(12)) | np.uint64(1)


def code_of(phrase: str) -> int:
    """Return the number of a phrase of WORDS words."""
    return int(codes_of(phrase.split())[0])


def _parts(text: str) -> list[list[str]]:
    """Return the words of the beginning and of the end of a text."""
    return [words_of(p) for p in ([text] if len(text) <= 2 * CHARS else [text[:CHARS], text[-CHARS:]])]


def _fold(batch: Batch) -> Sums:
    text, reward, correct = batch.text("completion"), batch.number("reward"), batch.number("correct")
    rows = np.flatnonzero(present(text) & np.isfinite(reward))
    found = [np.unique(np.concatenate([codes_of(w) for w in _parts(text[i])])) for i in rows]
    at = np.repeat(rows, [f.size for f in found]) if found else np.zeros(0, np.int64)
    code = np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)
    step = batch.integer("step")
    order = np.lexsort((code, step[at]))
    at, code = at[order], code[order]
    if at.size:
        new = np.concatenate([[True], (code[1:] != code[:-1]) | (step[at][1:] != step[at][:-1])])
        starts = np.flatnonzero(new)
        held = np.repeat(np.diff(np.append(starts, at.size)), np.diff(np.append(starts, at.size))) >= LEAST
        at, code = at[held], code[held]
    where = np.concatenate([rows, at])
    code = np.concatenate([np.full(rows.size, TOTAL, dtype=np.int64), code])
    r, judged = reward[where], np.isfinite(correct[where])
    values = {
        "n": np.ones(where.size),
        "r": r,
        "rr": r * r,
        "low": r,
        "high": r,
        "judged": judged.astype(float),
        "right": np.where(judged, correct[where], 0.0),
    }
    return Sums.of((step[where], code), values, {"low": "min", "high": "max"})


def _finish(sums: Sums) -> Series:
    table = [row for row in (_of_step(part) for part in _steps(sums)) if row is not None]
    if not table:
        return {}
    lines = np.array(table)
    steps = lines[:, 0].astype(np.int64)
    names = ("phrase_code", "phrase_share", "phrase_gap", "phrase_z", "phrase_right_gap")
    out = {}
    for j, name in enumerate(names, start=1):
        keep = np.isfinite(lines[:, j])
        if keep.any():
            out[f"rollouts/{name}"] = (steps[keep], lines[keep, j])
    return out


def _steps(sums: Sums) -> Iterable[Sums]:
    """Yield the sums of one step after the other."""
    _, begin = np.unique(sums.keys[0], return_index=True)
    for a, b in zip(begin, np.append(begin[1:], sums.rows), strict=True):
        yield Sums(tuple(k[a:b] for k in sums.keys), {n: v[a:b] for n, v in sums.values.items()}, sums.how)


def _of_step(s: Sums) -> tuple[float, ...] | None:
    """Return (step, code, share, gap, z, gap in correctness) of the phrase with the surest gap, None without one."""
    v, total = s.values, int(np.flatnonzero(s.keys[1] == TOTAL)[0])
    whole = {n: float(x[total]) for n, x in v.items()}
    rest = whole["n"] - v["n"]
    keep = np.flatnonzero((s.keys[1] != TOTAL) & (v["n"] >= LEAST) & (rest >= LEAST))
    span = whole["high"] - whole["low"]
    if keep.size == 0 or span <= 0:
        return None
    n, other = v["n"][keep], rest[keep]
    gap = v["r"][keep] / n - (whole["r"] - v["r"][keep]) / other
    var = _variance(n, v["r"][keep], v["rr"][keep]) / n
    var += _variance(other, whole["r"] - v["r"][keep], whole["rr"] - v["rr"][keep]) / other
    z = gap / np.sqrt(np.maximum(var, (SPREAD * span) ** 2 * (1 / n + 1 / other)))
    # of phrases with the same texts, as the pieces of one sentence, the one with the smallest number stands for all
    i = int(np.lexsort((s.keys[1][keep], -np.round(z, 9)))[0])
    at = keep[i]
    judged, held = whole["judged"], v["judged"][at]
    right = np.nan
    if held >= LEAST and judged - held >= LEAST:
        right = v["right"][at] / held - (whole["right"] - v["right"][at]) / (judged - held)
    return (
        float(s.keys[0][0]), float(s.keys[1][at]), float(n[i] / whole["n"]), float(gap[i]), float(z[i]), float(right),
    )  # fmt: skip


def _variance(n: Float64, total: Float64, square: Float64) -> Float64:
    return np.asarray(np.maximum(square - total**2 / n, 0.0) / np.maximum(n - 1, 1.0))


def _examples(batch: Batch) -> tuple[Example, ...]:
    """Show rewarded rollouts that hold the step's phrase, the phrase in front and the text around it."""
    lines = _finish(_fold(batch))
    if "rollouts/phrase_code" not in lines:
        return ()
    text, reward, step = batch.text("completion"), batch.number("reward"), batch.integer("step")
    out: list[Example] = []
    for at, code in zip(*lines["rollouts/phrase_code"], strict=True):
        rows = np.flatnonzero((step == at) & present(text) & np.isfinite(reward))
        held = 0
        for i in rows[np.argsort(-reward[rows], kind="stable")]:
            phrase = _phrase(text[i], int(code))
            if phrase:
                place = text[i].lower().find(phrase.split()[0])
                out.append(
                    shown(batch, int(i), "phrases", f"\u00ab{phrase}\u00bb in: {excerpt(text[i], max(place, 0))}")
                )
                held += 1
            if held == EXAMPLES_PER_STEP:
                break
    return tuple(out)


def _phrase(text: str, code: int) -> str:
    """Return the phrase with this number as a text holds it, "" where it does not."""
    for words in _parts(text):
        at = np.flatnonzero(codes_of(words) == np.uint64(code))
        if at.size:
            return " ".join(words[at[0] : at[0] + WORDS])
    return ""


FACT = Fact(
    name="phrases",
    reads=("completion", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/phrase_code",
        "rollouts/phrase_share",
        "rollouts/phrase_gap",
        "rollouts/phrase_z",
        "rollouts/phrase_right_gap",
    ),
    reads_text=True,
    examples=_examples,
    also=("correct",),
)
