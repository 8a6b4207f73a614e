"""The format samples agree with the run behind them, entry by entry of the key map."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from rlvitals.ingest import load
from rlvitals.schema import Run

# Column of the truth -> canonical series; several where trainers differ in what they say.
CANONICAL: dict[str, tuple[str, ...]] = {
    "reward_mean": ("reward_mean",),
    "reward_std_batch": ("reward_std",),
    "reward_std_group_mean": ("reward_std",),
    "frac_zero_std": ("zero_variance_frac",),
    "correct_mean": ("reward_part/correct", "success_frac", "reward_mean"),
    "format_mean": ("reward_part/format",),
    "len_mean": ("length_mean",),
    "len_min": ("length_min",),
    "len_max": ("length_max",),
    "term_len_mean": ("terminated_length_mean",),
    "trunc_rate": ("truncated_frac",),
    "kl_ref_k3": ("kl_ref",),
    "ppo_kl": ("kl_old_new",),
    "entropy": ("entropy",),
    "clip_high": ("clip_high_frac",),
    "clip_low": ("clip_low_frac",),
    "grad_norm": ("grad_norm",),
    "lr": ("learning_rate",),
    "loss": ("loss", "policy_loss"),
    "logp_diff_mean": ("logprob_gap_mean",),
    "is_ratio_mean": ("sampler_ratio_mean",),
    "parse_fail": ("parse_failure_frac",),
    "adv_mean": ("advantage_mean",),
    "lag_mean": ("version_lag_mean",),
}

# Entry of the key map -> sample, relative tolerance (console output is rounded), first step.
SAMPLES: tuple[tuple[str, str, float, int], ...] = (
    ("trl", "trl/grpo_out", 1e-6, 1),
    ("trl", "trl/console.log", 1e-3, 1),
    ("trl_v0.15", "trl_v0.15/grpo_out", 1e-6, 1),
    ("unsloth", "unsloth/outputs", 1e-6, 1),
    ("ms_swift", "ms_swift/output", 1e-6, 1),
    ("verl", "verl/file_logger", 1e-6, 1),
    ("verl", "verl/console.log", 1e-6, 1),
    ("tinker_cookbook", "tinker_cookbook", 1e-6, 0),
    ("rasbt_reasoning_from_scratch", "rasbt_reasoning_from_scratch", 1e-4, 1),
)

SHARED = Path(os.environ.get("RLVITALS_SHARED", Path(__file__).parents[3] / "shared"))


def _entries() -> list[tuple[str, str, float, int, str]]:
    """Return what each sample logs, from the key map; nothing where the samples are absent."""
    path = SHARED / "formats/mapping.json"
    mapping = json.loads(path.read_text()) if path.is_file() else {}
    return [(t, s, tol, base, name) for t, s, tol, base in SAMPLES for name in CANONICAL if name in mapping.get(t, {})]


@lru_cache(maxsize=16)
def _run(path: Path) -> Run:
    return load(path)


@lru_cache(maxsize=1)
def _truth(shared: Path) -> dict[str, np.ndarray]:
    lines = (shared / "formats/_truth/steps.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return {key: np.array([row[key] for row in rows], dtype=float) for key in rows[0]}


@pytest.mark.parametrize(("trainer", "sample", "tolerance", "base", "truth"), _entries())
def test_sample_agrees_with_truth(
    shared: Path, trainer: str, sample: str, tolerance: float, base: int, truth: str
) -> None:
    run = _run(shared / "formats" / sample)
    found = [name for name in CANONICAL[truth] if name in run.columns]
    assert found, f"{trainer}: {truth} not recognised; have {sorted(run.columns)}"
    assert run.step.tolist() == list(range(base, base + 16))
    want = _truth(shared)[truth]
    got = run.columns[found[0]]
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=1e-4 if tolerance > 1e-6 else 1e-6)


def test_samples_are_recognised_as_their_trainer(shared: Path) -> None:
    names = {sample: _run(shared / "formats" / sample).trainer.name for _, sample, _, _ in SAMPLES}
    assert names == {
        "trl/grpo_out": "TRL",
        "trl/console.log": "TRL",
        "trl_v0.15/grpo_out": "TRL",
        "unsloth/outputs": "unsloth",
        "ms_swift/output": "ms-swift",
        "verl/file_logger": "verl",
        "verl/console.log": "verl",
        "tinker_cookbook": "tinker-cookbook",
        "rasbt_reasoning_from_scratch": "chapter-7 scripts",
    }


def test_nothing_in_the_trl_samples_stays_unrecognised(shared: Path) -> None:
    for sample in ("trl/grpo_out", "trl_v0.15/grpo_out", "unsloth/outputs", "ms_swift/output", "trl_real_run"):
        assert [u.key for u in _run(shared / "formats" / sample).unrecognised] == [], sample


def test_trl_eval_rows_are_held_out_series_on_their_steps(shared: Path) -> None:
    run = _run(shared / "formats/trl/grpo_out")
    assert run.evals["correct"].step.tolist() == [5, 10, 15, 16]
    assert run.evals["correct"].metric == "accuracy"
    assert run.evals["reward"].metric == "reward"
    assert run.evals["correct"].score[-1] == pytest.approx(0.75)


def test_real_trl_run_and_its_console_agree(shared: Path) -> None:
    state = _run(shared / "formats/trl_real_run/trainer_state.json")
    console = _run(shared / "formats/trl_real_run/console.log")
    assert state.step.tolist() == console.step.tolist() == list(range(1, 21))
    for name in ("reward_mean", "kl_ref", "entropy", "length_mean", "grad_norm"):
        np.testing.assert_allclose(console.columns[name], state.columns[name], rtol=2e-3, atol=1e-5)
    assert console.evals["correct"].step.tolist() == state.evals["correct"].step.tolist() == [5, 10, 15, 20]


def test_estimator_of_reward_std_follows_the_key_generation(shared: Path) -> None:
    kinds = {s: _run(shared / "formats" / s).provenance["reward_std"].estimator for s in
             ("trl/grpo_out", "trl_v0.15/grpo_out", "ms_swift/output")}  # fmt: skip
    assert kinds == {"trl/grpo_out": "batch", "trl_v0.15/grpo_out": "group", "ms_swift/output": "group"}
