"""Samples of the trainers whose units, signs or rounding differ: every entry of the key map agrees with the truth."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from rlvitals.ingest import load
from rlvitals.schema import Float64, Run

SHARED = Path(os.environ.get("RLVITALS_SHARED", Path(__file__).parents[3] / "shared"))

# Entry of the key map -> sample, trainer's name, first step.
SAMPLES: dict[str, tuple[str, str, int]] = {
    "open_instruct": ("open_instruct/wandb_history_export.jsonl", "open-instruct", 1),
    "roll": ("roll/console.log", "ROLL", 0),
    "roll tensorboard": ("roll/tensorboard", "ROLL", 0),
    "torchforge": ("torchforge", "torchforge", 1),
    "agent_lightning": ("agent_lightning", "agent-lightning", 1),
    "rllm": ("rllm", "rLLM", 1),
    "mlx_lm_lora": ("mlx_lm_lora", "mlx-lm-lora", 1),
    "verl": ("verl/tensorboard_log", "verl", 1),
}

# Column of the truth -> canonical series; "trainer: column" where one trainer differs.
CANONICAL: dict[str, str] = {
    "reward_mean": "reward_mean",
    "reward_std_group_mean": "reward_std",
    "frac_zero_std": "zero_variance_frac",
    "correct_mean": "success_frac",
    "torchforge: correct_mean": "reward_part/MathReward",
    "torchforge: format_mean": "reward_part/ThinkingReward",
    "len_mean": "length_mean",
    "len_min": "length_min",
    "len_max": "length_max",
    "trunc_rate": "truncated_frac",
    "kl_ref_k3": "kl_ref",
    "ppo_kl": "kl_old_new",
    "entropy": "entropy",
    "clip_low": "clip_low_frac",
    "clip_high": "clip_high_frac",
    "grad_norm": "grad_norm",
    "lr": "learning_rate",
    "loss": "policy_loss",
    "torchforge: loss": "loss",
    "mlx_lm_lora: loss": "loss",
    "logp_diff_mean": "logprob_gap_mean",
    "is_ratio_mean": "sampler_ratio_mean",
    "adv_mean": "advantage_mean",
    "lag_mean": "version_lag_mean",
}
POINTS = 10.0  # open-instruct's verification_reward: its scores are in points, shown as logged
# mlx-lm-lora's console rounds: half a unit of the last printed digit.
PRINTED = {"len_mean": 0.05, "trunc_rate": 5e-4, "lr": 1e-10, "kl_ref_k3": 1e-12}
PRINTED_ELSE = 5.0001e-4

# No truth column of their own: compared with other columns of the truth.
SUMS = {"clip_frac": ("clip_low", "clip_high")}
HELD_OUT = {"eval_acc", "eval_reward"}
OTHERS = {"reward_std_batch": "mlx-lm-lora logs both; the spread within groups is kept",
          "entropy_sampled": "the sample's own number"}  # fmt: skip


def _mapping() -> dict[str, dict[str, object]]:
    path = SHARED / "formats/mapping.json"
    found: dict[str, dict[str, object]] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def _entries() -> list[tuple[str, str]]:
    known = _mapping()
    return [(trainer, name) for trainer in SAMPLES for name in known.get(trainer.split()[0], {})]


@lru_cache(maxsize=16)
def _run(trainer: str) -> Run:
    return load(SHARED / "formats" / SAMPLES[trainer][0])


@lru_cache(maxsize=1)
def _truth() -> dict[str, Float64]:
    rows = [json.loads(line) for line in (SHARED / "formats/_truth/steps.jsonl").read_text().splitlines()]
    return {key: np.array([row[key] for row in rows], dtype=float) for key in rows[0]}


@pytest.mark.parametrize(("trainer", "name"), [e for e in _entries() if e[1] not in {*HELD_OUT, *OTHERS}])
def test_entry_agrees_with_the_truth(trainer: str, name: str) -> None:
    run = _run(trainer)
    assert run.trainer.name == SAMPLES[trainer][1]
    assert run.step.tolist() == list(range(SAMPLES[trainer][2], SAMPLES[trainer][2] + 16))
    if name in SUMS:
        metric, want = name, np.sum([_truth()[part] for part in SUMS[name]], axis=0)
    else:
        metric, want = CANONICAL.get(f"{trainer}: {name}") or CANONICAL[name], _truth()[name]
    if (trainer, name) == ("open_instruct", "reward_mean"):
        want = POINTS * want
    if trainer == "mlx_lm_lora":
        np.testing.assert_allclose(run.columns[metric], want, rtol=1e-7, atol=PRINTED.get(name, PRINTED_ELSE))
    else:
        np.testing.assert_allclose(run.columns[metric], want, rtol=1e-6, atol=1e-9)


def test_nothing_stays_unrecognised(shared: Path) -> None:
    assert {name: [u.key for u in _run(name).unrecognised] for name in SAMPLES} == {name: [] for name in SAMPLES}


@pytest.mark.parametrize(
    ("trainer", "name", "metric"),
    [("open_instruct", "eval", "accuracy"), ("roll", "all", "accuracy"), ("agent_lightning", "val reward", "reward")],
)
def test_held_out_scores_stand_on_their_steps(shared: Path, trainer: str, name: str, metric: str) -> None:
    found = _run(trainer).evals[name]
    first = SAMPLES[trainer][2]
    assert found.metric == metric
    assert found.step.tolist() == [first + 4, first + 9, first + 14, first + 15]


def test_sampled_entropy_is_told_apart(shared: Path) -> None:
    run = _run("rllm")
    assert run.provenance["entropy"].estimator == "sampled"
    np.testing.assert_allclose(run.columns["entropy"], 0.95 * _truth()["entropy"], rtol=1e-6)


def test_signs_and_complements_are_shown(shared: Path) -> None:
    shown = {
        ("roll", "kl_old_new"): "sign flipped",
        ("roll", "zero_variance_frac"): "1 - x",
        ("rllm", "zero_variance_frac"): "1 - x",
        ("open_instruct", "truncated_frac"): "1 - x",
        ("open_instruct", "version_lag_mean"): "x - 1",
        ("agent_lightning", "zero_variance_frac"): "n_zero_adv_groups / n_groups",
    }
    assert {key: _run(key[0]).provenance[key[1]].transform for key in shown} == shown


def test_the_config_beside_an_mlx_run_is_read(shared: Path) -> None:
    known = _run("mlx_lm_lora").config.known()
    assert (known["group_size"], known["kl_coef"], known["clip_low"], known["token_budget"]) == (4, 0.04, 1e-4, 64)


def test_atropos_groups_agree_with_the_truth(shared: Path) -> None:
    run = load(SHARED / "formats/atropos")
    assert (run.trainer.name, run.rows) == ("Atropos", 64)
    per_step = run.columns["reward_mean"].reshape(16, 4).mean(axis=1)
    np.testing.assert_allclose(per_step, _truth()["reward_mean"], atol=1e-9)
    tied = run.columns["zero_variance_frac"].reshape(16, 4).mean(axis=1)
    np.testing.assert_allclose(tied, _truth()["frac_zero_std"], atol=1e-9)
