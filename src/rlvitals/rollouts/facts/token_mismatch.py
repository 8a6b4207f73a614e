"""Log-probabilities of sampler and trainer on the same tokens: gap, identities, weights of tokens and of sequences.

d = trainer - sampler per token. Means over tokens give the gap, k3 and the mean ratio; sums per rollout give the
weight of a sequence, whose logarithm grows with its length.
"""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import Mask, pick, ratio, series, steps_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example, Float64

WIDEST = 20.0  # nats: beyond it a ratio is no number worth averaging
LEAST = 8  # rollouts behind a statistic of sequences


def _lengths(batch: Batch) -> tuple[Mask, np.ndarray]:
    """Return per row: both sides have the same tokens, and how many."""
    sides = zip(batch.text("sampler_logp"), batch.text("trainer_logp"), strict=True)
    both = [0 if s is None or t is None or len(s) != len(t) else len(s) for s, t in sides]
    length = np.array(both, dtype=np.int64) if both else np.zeros(0, np.int64)
    return length > 0, length


def _fold(batch: Batch) -> Sums:
    keep, length = _lengths(batch)
    rows = np.flatnonzero(keep)
    tokens = length[rows].astype(float)
    entropy = batch.number("entropy_mean")[rows]
    if rows.size == 0:
        flat_s = flat_t = np.zeros(0)
        starts = np.zeros(0, np.int64)
    else:
        flat_s = np.concatenate([np.asarray(x, dtype=float) for x in batch.text("sampler_logp")[rows]])
        flat_t = np.concatenate([np.asarray(x, dtype=float) for x in batch.text("trainer_logp")[rows]])
        starts = np.concatenate([[0], np.cumsum(length[rows])[:-1]])
    raw = np.nan_to_num(flat_t - flat_s, nan=0.0, posinf=WIDEST, neginf=-WIDEST)
    d = np.clip(raw, -WIDEST, WIDEST)
    ratio_of = np.exp(d)

    def total(x: Float64) -> Float64:
        return np.add.reduceat(x, starts) if rows.size else np.zeros(0)

    gap, drift = total(np.abs(d)), np.clip(total(d), -WIDEST, WIDEST)
    known = np.isfinite(entropy)
    advantage = batch.number("advantage")[rows]
    weight = np.exp(drift)
    values = {
        "rows": np.ones(rows.size), "tokens": tokens, "gap": gap,
        "top": np.maximum.reduceat(np.abs(d), starts) if rows.size else np.zeros(0),
        "k3": total(ratio_of - d - 1), "ratio": total(ratio_of), "square": total(ratio_of**2),
        "surprisal": -total(np.nan_to_num(flat_t, neginf=-WIDEST)),
        "tokens_e": np.where(known, tokens, 0.0), "entropy": np.where(known, entropy * tokens, 0.0),
        "surprisal_e": np.where(known, -total(np.nan_to_num(flat_t, neginf=-WIDEST)), 0.0),
        "up": np.where(advantage > 0, tokens, 0.0), "up_gap": np.where(advantage > 0, gap, 0.0),
        "down": np.where(advantage < 0, tokens, 0.0), "down_gap": np.where(advantage < 0, gap, 0.0),
        "w": weight, "ww": weight**2, "d": drift, "dd": drift**2, "ll": tokens**2, "dl": drift * tokens,
    }  # fmt: skip
    return Sums.of((batch.integer("step")[rows],), values, {"top": "max"})


def _finish(sums: Sums) -> Series:
    v, steps = sums.values, steps_of(sums)
    n, tokens = v["rows"], v["tokens"]
    enough = n >= LEAST
    with np.errstate(invalid="ignore", divide="ignore"):
        token_ess = v["ratio"] ** 2 / (tokens * v["square"])
        sequence_ess = np.where(enough, v["w"] ** 2 / (n * v["ww"]), np.nan)
        s_dl, s_ll = v["dl"] - v["d"] * tokens / n, v["ll"] - tokens**2 / n
        s_dd = v["dd"] - v["d"] ** 2 / n
        able = enough & (s_ll > 1e-9 * v["ll"]) & (s_dd > 1e-12)
        with_length = np.where(able, s_dl / np.sqrt(np.maximum(s_ll * s_dd, 1e-300)), np.nan)
        spread = np.where(enough, np.sqrt(np.maximum(s_dd, 0.0) / (n - 1)), np.nan)
    some_e = bool((v["tokens_e"] > 0).any())
    out = {
        "rollouts/logprob_gap_mean": ratio(sums, "gap", "tokens"),
        "rollouts/logprob_gap_max": (steps, v["top"]),
        "rollouts/kl_sampler_trainer": ratio(sums, "k3", "tokens"),
        "rollouts/sampler_ratio_mean": ratio(sums, "ratio", "tokens"),
        "rollouts/effective_sample_frac": series(steps, token_ess),
        "rollouts/surprisal_mean": ratio(
            sums, "surprisal_e" if some_e else "surprisal", "tokens_e" if some_e else "tokens"
        ),
        "rollouts/entropy": ratio(sums, "entropy", "tokens_e"),
        "rollouts/gap_positive_mean": ratio(sums, "up_gap", "up"),
        "rollouts/gap_negative_mean": ratio(sums, "down_gap", "down"),
        "rollouts/sequence_ess": series(steps, sequence_ess),
        "rollouts/sequence_log_sd": series(steps, spread),
        "rollouts/sequence_length_corr": series(steps, with_length),
    }
    return {name: line for name, line in out.items() if line[0].size}


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    keep, length = _lengths(batch)
    worst = np.full(batch.rows, np.nan)
    for i in np.flatnonzero(keep):
        sampled, scored = (np.asarray(batch.text(c)[i], dtype=float) for c in ("sampler_logp", "trainer_logp"))
        worst[i] = float(np.abs(scored - sampled).sum()) / length[i]
    return pick(batch, keep & (worst > 0), "token-mismatch", rank=worst)


FACT = Fact(
    name="token-mismatch",
    reads=("sampler_logp", "trainer_logp"),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/logprob_gap_mean",
        "rollouts/logprob_gap_max",
        "rollouts/kl_sampler_trainer",
        "rollouts/sampler_ratio_mean",
        "rollouts/effective_sample_frac",
        "rollouts/surprisal_mean",
        "rollouts/entropy",
        "rollouts/gap_positive_mean",
        "rollouts/gap_negative_mean",
        "rollouts/sequence_ess",
        "rollouts/sequence_log_sd",
        "rollouts/sequence_length_corr",
    ),
    examples=_examples,
    also=("entropy_mean", "advantage"),
)
