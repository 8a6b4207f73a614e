"""The same disagreement where a dump holds one number per rollout: its mean gap, k3, and the sums of both sides."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import ratio, series, steps_of
from rlvitals.rollouts.facts.token_mismatch import LEAST, WIDEST
from rlvitals.rollouts.table import MISSING, Batch


def _fold(batch: Batch) -> Sums:
    count, gap, k3 = batch.integer("tokens"), batch.number("mismatch_abs_mean"), batch.number("mismatch_k3_mean")
    top, adv = batch.number("mismatch_abs_max"), batch.number("advantage")
    tokens = np.where(count == MISSING, 1, count).astype(float)  # without lengths every rollout weighs the same
    drift = np.clip(batch.number("trainer_logp_sum") - batch.number("sampler_logp_sum"), -WIDEST, WIDEST)
    seen, seen3, summed = np.isfinite(gap), np.isfinite(k3), np.isfinite(drift) & (count != MISSING)
    weight, drift = np.where(summed, np.exp(np.where(summed, drift, 0.0)), 0.0), np.where(summed, drift, 0.0)
    known = np.where(seen, gap, 0.0) * tokens
    values = {
        "t": np.where(seen, tokens, 0.0), "gap": known,
        "t3": np.where(seen3, tokens, 0.0), "k3": np.where(seen3, k3, 0.0) * tokens,
        "top": np.where(np.isfinite(top), top, -np.inf),
        "up": np.where(seen & (adv > 0), tokens, 0.0), "up_gap": np.where(adv > 0, known, 0.0),
        "down": np.where(seen & (adv < 0), tokens, 0.0), "down_gap": np.where(adv < 0, known, 0.0),
        "n": summed.astype(float), "w": weight, "ww": weight**2, "d": drift, "dd": drift**2,
        "l": np.where(summed, tokens, 0.0), "ll": np.where(summed, tokens**2, 0.0), "dl": drift * tokens,
    }  # fmt: skip
    return Sums.of((batch.integer("step"),), values, {"top": "max"})


def _finish(sums: Sums) -> Series:
    v, steps = sums.values, steps_of(sums)
    n, enough = v["n"], v["n"] >= LEAST
    with np.errstate(invalid="ignore", divide="ignore"):
        ess = np.where(enough, v["w"] ** 2 / (n * v["ww"]), np.nan)
        s_dl, s_ll, s_dd = v["dl"] - v["d"] * v["l"] / n, v["ll"] - v["l"] ** 2 / n, v["dd"] - v["d"] ** 2 / n
        able = enough & (s_ll > 1e-9 * v["ll"]) & (s_dd > 1e-12)
        corr = np.where(able, s_dl / np.sqrt(np.maximum(s_ll * s_dd, 1e-300)), np.nan)
        spread = np.where(enough, np.sqrt(np.maximum(s_dd, 0.0) / (n - 1)), np.nan)
    out = {
        "rollouts/logprob_gap_mean": ratio(sums, "gap", "t"),
        "rollouts/logprob_gap_max": series(steps, v["top"]),
        "rollouts/kl_sampler_trainer": ratio(sums, "k3", "t3"),
        "rollouts/gap_positive_mean": ratio(sums, "up_gap", "up"),
        "rollouts/gap_negative_mean": ratio(sums, "down_gap", "down"),
        "rollouts/sequence_ess": series(steps, ess),
        "rollouts/sequence_log_sd": series(steps, spread),
        "rollouts/sequence_length_corr": series(steps, corr),
    }
    return {name: line for name, line in out.items() if line[0].size}


FACT = Fact(
    name="rollout-mismatch",
    reads=(),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/logprob_gap_mean",
        "rollouts/logprob_gap_max",
        "rollouts/kl_sampler_trainer",
        "rollouts/gap_positive_mean",
        "rollouts/gap_negative_mean",
        "rollouts/sequence_ess",
        "rollouts/sequence_log_sd",
        "rollouts/sequence_length_corr",
    ),
    also=(
        "tokens", "advantage", "mismatch_abs_mean", "mismatch_k3_mean", "mismatch_abs_max",
        "sampler_logp_sum", "trainer_logp_sum",
    ),
)  # fmt: skip
