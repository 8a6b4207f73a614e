"""The verifier's own output beside the reward that was made of it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from rlvitals.env import VerifierStatus
from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import Mask, by_step, excerpt, is_one, present, ratio, shown
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example, Float64

HEAD = 2_000  # characters of an output that are read: failures are said at its beginning or end
_FAILURE = re.compile(
    r"traceback \(most recent|\b\w*(?:error|exception)\b\s*[:(]|timed? ?out\b|segmentation fault|\bkilled\b"
    r"|\brate limit|connection (?:refused|reset)|\bout of memory\b",
    re.IGNORECASE,
)
PLAIN = 0.8  # share of a step's outputs that must be plain verdicts: else a "1" is the answer that was read, no verdict
_NOTHING = frozenset({"none", "null", "nan", "n/a", "undefined"})
_YES = frozenset({"true", "right", "correct", "pass", "passed", "yes", "1", "1.0"})
_NO = frozenset({"false", "wrong", "incorrect", "fail", "failed", "no", "0", "0.0"})


def reads_as_failure(text: str) -> bool:
    """True when a verifier's output says that the verifier failed, not that the answer is wrong."""
    part = text if len(text) <= 2 * HEAD else text[:HEAD] + "\n" + text[-HEAD:]
    return part.strip().lower() in _NOTHING or _FAILURE.search(part) is not None


def verdict(text: str) -> float:
    """Return 1 for an output that plainly says right, 0 for wrong, NaN for anything else."""
    word = text.strip().lower() if len(text) < 40 else ""
    return 1.0 if word in _YES else 0.0 if word in _NO else np.nan


def _read(batch: Batch) -> tuple[Mask, Float64, Mask]:
    """Return per row: the output reads as a failure, its plain verdict, there is an output and a reward."""
    raw = batch.text("raw_output")
    fail = np.fromiter((bool(t) and reads_as_failure(t) for t in raw), dtype=bool, count=batch.rows)
    said = np.fromiter((verdict(t) if t else np.nan for t in raw), dtype=float, count=batch.rows)
    return fail, said, present(raw) & np.isfinite(batch.number("reward"))


def _opposed(batch: Batch, said: Float64) -> Mask:
    """Return bool[rows]: the output says right where the rollout counts as wrong, or the reverse."""
    counts = batch.number("correct")
    reward = batch.number("reward")
    counts = np.where(np.isfinite(counts), counts, np.where((reward == 0) | (reward == 1), reward, np.nan))
    return np.asarray(np.isfinite(said) & np.isfinite(counts) & (said != counts))


def _fold(batch: Batch) -> Sums:
    fail, said, keep = _read(batch)
    hidden = fail & ~is_one(batch.text("verifier_status"), VerifierStatus.ERROR, VerifierStatus.TIMEOUT)
    reward = np.where(keep, batch.number("reward"), 0.0)
    values = {
        "n": np.ones(batch.rows),
        "hidden": hidden.astype(float),
        "hidden_sum": np.where(hidden, reward, 0.0),
        "others": (~fail).astype(float),
        "others_sum": np.where(fail, 0.0, reward),
        "plain": np.isfinite(said).astype(float),
        "opposed": _opposed(batch, said).astype(float),
    }
    return by_step(batch, keep, values)


def _spoken(sums: Sums) -> Sums:
    """Return the sums without the plain verdicts of steps whose outputs are mostly something else."""
    if not sums.rows:
        return sums
    plain = sums.values["plain"]
    return replace(sums, values={**sums.values, "plain": np.where(plain >= PLAIN * sums.values["n"], plain, 0.0)})


def _finish(sums: Sums) -> Series:
    return {
        "rollouts/raw_failure_frac": ratio(sums, "hidden", "n"),
        "rollouts/raw_failure_reward_mean": ratio(sums, "hidden_sum", "hidden"),
        "rollouts/raw_other_reward_mean": ratio(sums, "others_sum", "others"),
        "rollouts/raw_opposed_frac": ratio(_spoken(sums), "opposed", "plain", least=4),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    fail, said, keep = _read(batch)
    hit = np.flatnonzero(keep & (fail | _opposed(batch, said)))
    raw = batch.text("raw_output")
    return tuple(shown(batch, int(i), "raw-output", "verifier output: " + excerpt(raw[i])) for i in hit[:12])


FACT = Fact(
    name="raw-output",
    reads=("raw_output", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/raw_failure_frac",
        "rollouts/raw_failure_reward_mean",
        "rollouts/raw_other_reward_mean",
        "rollouts/raw_opposed_frac",
    ),
    reads_text=True,
    examples=_examples,
    also=("correct", "verifier_status"),
)
