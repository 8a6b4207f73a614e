"""The phrase that pays: a run of words that stands in many completions of a step and goes with a higher reward.

An exploit is often a text: words that satisfy the verifier whatever the task. For every phrase of WORDS words the mean
reward of the texts that hold it is compared with that of the others; the one with the surest gap names the step.
Phrases that stand in fewer than LEAST texts of a batch are dropped there, so that batches should hold whole steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import EXAMPLES_PER_STEP, excerpt, present, shown
from rlvitals.rollouts.facts.words import Hashed, Joined, UInt64, coded_words, ends_of, texts_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example, Float64, Int64

WORDS = 4
LEAST = 4  # texts with, and texts without
TOTAL = 0  # key of all texts
TOGETHER = 256  # texts that are numbered at once
_BINS = np.uint64(2**18 - 1)  # of a first count, which leaves out most phrases that stand nowhere else
_PACKED = 2**12  # texts of a step up to which a phrase and its text are sorted as one number
SPREAD = 0.05  # smallest standard deviation, of the step's range: two groups of equal rewards differ surely anyway


def codes_of(words: Hashed) -> UInt64:
    """Return one number per run of WORDS words, in their order: equal phrases share it; 2**52 keeps it exact."""
    return (words.run_codes(WORDS) >> np.uint64(12)) | np.uint64(1)


def code_of(phrase: str) -> int:
    """Return the number of a phrase of WORDS words."""
    return int(codes_of(Hashed.of(coded_words(phrase)))[0])


def _common(texts: Sequence[tuple[Hashed, ...]]) -> tuple[Int64, Int64]:
    """Return (int64[k] text, int64[k] phrase): phrases that LEAST texts hold, sorted by phrase, once per text.

    Args:
        texts: per text its parts; no phrase goes from one part into the next.
    """
    held: list[tuple[Int64, UInt64]] = []
    for begin in range(0, len(texts), TOGETHER):
        some = texts[begin : begin + TOGETHER]
        joined = Joined.of([part for parts in some for part in parts])
        inside = np.flatnonzero(joined.inside(WORDS))
        text = np.repeat(np.arange(begin, begin + len(some)), [len(parts) for parts in some])
        held.append((text[joined.owner[inside]], codes_of(joined.words)[inside]))
    at, code = (np.concatenate(side) for side in zip(*held, strict=True))
    rare = np.bincount((code & _BINS).astype(np.int64), minlength=int(_BINS) + 1) < LEAST
    keep = ~rare[(code & _BINS).astype(np.int64)]
    at, code = at[keep], code[keep]
    if len(texts) <= _PACKED:  # a phrase of 52 bits and the number of its text are one number
        both = np.sort((code << np.uint64(12)) | at.astype(np.uint64))
        both = both[np.concatenate([[True], both[1:] != both[:-1]])] if both.size else both
        at, code = (both & np.uint64(_PACKED - 1)).astype(np.int64), both >> np.uint64(12)
    else:
        order = np.lexsort((at, code))
        at, code = at[order], code[order]
        new = np.concatenate([[True], (code[1:] != code[:-1]) | (at[1:] != at[:-1])])[: at.size]
        at, code = at[new], code[new]
    starts = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]])[: code.size])
    times = np.diff(np.append(starts, code.size))
    often = np.repeat(times, times) >= LEAST
    return at[often], code[often].astype(np.int64)


def _fold(batch: Batch) -> Sums:
    text, reward, correct = batch.text("completion"), batch.number("reward"), batch.number("correct")
    rows = np.flatnonzero(present(text) & np.isfinite(reward))
    step, words = batch.integer("step"), texts_of(batch)
    found = [(rows[:0], np.zeros(0, np.int64))]
    for one in np.unique(step[rows]):
        mine = rows[step[rows] == one]
        place, phrase = _common([words.ends(i) for i in mine.tolist()])
        found.append((mine[place], phrase))
    at, code = (np.concatenate(side) for side in zip(*found, strict=True))
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
    if not sums.rows:
        return
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


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    """Show rewarded rollouts that hold the step's phrase, the phrase in front and the text around it."""
    lines = _finish(sums)
    if "rollouts/phrase_code" not in lines:
        return ()
    text, reward, step = batch.text("completion"), batch.number("reward"), batch.integer("step")
    words = texts_of(batch)
    out: list[Example] = []
    for at, code in zip(*lines["rollouts/phrase_code"], strict=True):
        rows = np.flatnonzero((step == at) & present(text) & np.isfinite(reward))
        held = 0
        for i in rows[np.argsort(-reward[rows], kind="stable")].tolist():
            if not any((codes_of(part) == np.uint64(code)).any() for part in words.ends(i)):
                continue
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
    for part in ends_of(text):
        words = coded_words(part)
        at = np.flatnonzero(codes_of(Hashed.of(words)) == np.uint64(code))
        if at.size:
            return b" ".join(words[at[0] : at[0] + WORDS]).decode("utf-8", "replace")
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
