"""Facts on log-probabilities: the gap, the two identities, the split by sign, weights of whole sequences."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rlvitals.rollouts.facts import rollout_mismatch, token_mismatch
from tests.rollouts.facts.batches import batch, merges, says


def drawn(seed: int, rows: int, *, scored: str = "full", keep: float = 1.0) -> dict[str, list[object]]:
    """Return sampler and trainer log-probabilities of tokens drawn from a small vocabulary.

    With `keep` the sampler draws from the most likely tokens that hold this mass, renormalised.
    """
    rng = np.random.default_rng(seed)
    sampler, trainer, entropy = [], [], []
    for _ in range(rows):
        length = int(rng.integers(20, 60))
        logits = rng.normal(0, 2, (length, 30))
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        ranked = np.sort(p, 1)[:, ::-1]
        cut = np.take_along_axis(ranked, (ranked.cumsum(1) < keep).sum(1, keepdims=True).clip(max=29), 1)
        q = np.where(p >= cut, p, 0.0)
        mass = q.sum(1)
        token = (rng.random((length, 1)) < (q / mass[:, None]).cumsum(1)).argmax(1)
        logp = np.log(p[np.arange(length), token])
        trainer.append(logp)
        sampler.append(logp - np.log(mass) if scored == "kept" else logp)
        entropy.append(float(-(p * np.log(p)).sum(1).mean()))
    return {"sampler_logp": sampler, "trainer_logp": trainer, "entropy_mean": entropy}


def test_small_exact_numbers() -> None:
    b = batch(
        sampler_logp=[np.array([-1.0, -2.0]), np.array([-1.0]), None],
        trainer_logp=[np.array([-1.1, -1.8]), np.array([-1.0]), np.array([-1.0])],
        advantage=[1.0, -1.0, 1.0],
    )
    found = says(token_mismatch.FACT, b)
    assert found["logprob_gap_mean"] == {1: pytest.approx(0.1)}
    assert found["logprob_gap_max"] == {1: pytest.approx(0.2)}
    assert found["gap_positive_mean"] == {1: pytest.approx(0.15)}
    assert found["gap_negative_mean"] == {1: 0.0}
    assert found["sampler_ratio_mean"] == {1: pytest.approx((math.exp(-0.1) + math.exp(0.2) + 1) / 3)}
    k3 = (math.exp(-0.1) + 0.1 - 1) + (math.exp(0.2) - 0.2 - 1)
    assert found["kl_sampler_trainer"] == {1: pytest.approx(k3 / 3)}
    assert found["surprisal_mean"] == {1: pytest.approx(3.9 / 3)}
    assert "sequence_ess" not in found


def test_the_mean_ratio_is_the_kept_mass_and_surprisal_equals_entropy_on_policy() -> None:
    full = says(token_mismatch.FACT, batch(**drawn(1, 300)))
    assert full["sampler_ratio_mean"][1] == 1.0
    assert full["surprisal_mean"][1] == pytest.approx(full["entropy"][1], rel=0.02)
    cut = says(token_mismatch.FACT, batch(**drawn(1, 300, scored="kept", keep=0.9)))
    assert 0.9 <= cut["sampler_ratio_mean"][1] < 0.95
    assert cut["surprisal_mean"][1] < 0.9 * cut["entropy"][1]


def test_weights_of_sums_follow_the_log_normal_law() -> None:
    """With token noise s the log-weight of L tokens has spread s sqrt(L), and ESS is exp(-s^2 L)."""
    rng = np.random.default_rng(3)
    base = [rng.normal(-1, 0.5, 100) for _ in range(4000)]
    noisy = [x + rng.normal(-0.0002, 0.02, 100) for x in base]
    found = says(token_mismatch.FACT, batch(sampler_logp=base, trainer_logp=noisy))
    assert found["sequence_log_sd"][1] == pytest.approx(0.2, rel=0.05)
    assert found["sequence_ess"][1] == pytest.approx(math.exp(-0.04), rel=0.02)
    assert "sequence_length_corr" not in found or found["sequence_length_corr"] == {}


def test_a_drift_per_token_grows_with_length() -> None:
    lengths = [10, 20, 40, 80, 160, 30, 60, 90]
    b = batch(sampler_logp=[np.full(n, -1.0) for n in lengths], trainer_logp=[np.full(n, -1.01) for n in lengths])
    assert says(token_mismatch.FACT, b)["sequence_length_corr"] == {1: pytest.approx(-1.0)}
    assert merges(token_mismatch.FACT, b, 3)


def test_one_number_per_rollout_is_weighed_by_its_tokens() -> None:
    b = batch(tokens=[10, 30], mismatch_abs_mean=[0.1, 0.02], advantage=[1.0, -1.0], mismatch_abs_max=[0.5, None])
    found = says(rollout_mismatch.FACT, b)
    assert found["logprob_gap_mean"] == {1: pytest.approx(0.04)}
    assert (found["gap_positive_mean"], found["gap_negative_mean"]) == ({1: 0.1}, {1: 0.02})
    assert found["logprob_gap_max"] == {1: 0.5}


def test_reference_numbers(shared: Path) -> None:
    """The published numbers of the reference inputs: mean gap, largest gap and k3 over the masked tokens."""
    inputs = json.loads((shared / "vectors" / "inputs.json").read_text(encoding="utf-8"))
    wanted = json.loads((shared / "vectors" / "metrics.json").read_text(encoding="utf-8"))["mismatch"]
    sides = {
        ours: [np.array(row)[np.array(mask) > 0] for row, mask in zip(inputs[theirs], inputs["mask"], strict=True)]
        for ours, theirs in (("sampler_logp", "logp_sampler"), ("trainer_logp", "logp_old"))
    }
    found = says(token_mismatch.FACT, batch(**sides))
    assert found["logprob_gap_mean"][1] == pytest.approx(wanted["mean_abs_dlogp"], abs=1e-8)
    assert found["logprob_gap_max"][1] == pytest.approx(wanted["max_abs_dlogp"], abs=1e-8)
    assert found["kl_sampler_trainer"][1] == pytest.approx(wanted["k3"], abs=1e-8)
    assert found["effective_sample_frac"][1] == pytest.approx(wanted["ess_token"], abs=1e-8)
    assert found["sequence_ess"][1] == pytest.approx(wanted["ess_seq"], abs=1e-8)
