"""NeMo-RL: percentages, what dynamic sampling leaves out, values that stand for none, settings."""

from __future__ import annotations

import pytest

from rlvitals.ingest import registry
from rlvitals.ingest.configfiles import config_from_mapping
from rlvitals.ingest.nemo_rl import ADAPTER
from rlvitals.schema import RunConfig, Scope
from tests.ingest.tables import first, mapped

ROW = {"step": 1, "train/reward": 0.5, "train/token_mult_prob_error": 1.02, "train/baseline_reward/pct_mixed": 75.0}


def test_percentages_become_fractions() -> None:
    row = {**ROW, "train/baseline_reward/pct_0": 20.0, "train/baseline_reward/pct_1": 5.0}
    values = first(mapped(ADAPTER, [row]))
    assert values == {
        "reward_mean": 0.5, "logprob_gap_mean": 0.02, "zero_variance_frac": 0.25, "all_wrong_frac": 0.2,
        "all_right_frac": 0.05,
    }  # fmt: skip


def test_minus_one_is_no_ratio() -> None:
    rows = [{**ROW, "train/probs_ratio_max": 1.5, "train/probs_ratio_min": 0.5},
            {**ROW, "step": 2, "train/probs_ratio_max": -1.0, "train/probs_ratio_min": -1.0}]  # fmt: skip
    found = mapped(ADAPTER, rows)
    assert found.columns["ratio_max"].tolist() == [1.5, pytest.approx(float("nan"), nan_ok=True)]


def test_dynamic_sampling_leaves_the_reward_whole_and_the_rest_filtered() -> None:
    row = {**ROW, "train/filtered_reward": 0.6, "train/kl_penalty": 0.01}
    found = mapped(ADAPTER, [row]).provenance
    assert {n: found[n].scope for n in ("reward_mean", "kl_ref", "zero_variance_frac")} == {
        "reward_mean": Scope.ALL, "kl_ref": Scope.KEPT, "zero_variance_frac": Scope.KEPT,
    }  # fmt: skip


def test_keys_of_0_3_are_recognised() -> None:
    assert registry.pick(frozenset({"train/reward", "train/probs_ratio", "train/global_valid_toks"})) is ADAPTER


def test_settings() -> None:
    found = config_from_mapping(
        {
            "grpo": {"num_generations_per_prompt": 16, "num_prompts_per_step": 32, "normalize_rewards": True,
                     "async_grpo": {"enabled": False, "max_trajectory_age_steps": 1}, "overlong_filtering": False},
            "loss_fn": {"token_level_loss": True, "sequence_level_importance_ratios": False,
                        "reference_policy_kl_penalty": 0.01},
            "policy": {"train_global_batch_size": 256, "max_grad_norm": 1.0, "model_name": "m"},
        },
        ADAPTER, "config.yaml",
    )  # fmt: skip
    assert found == RunConfig(
        group_size=16, prompts_per_step=32, updates_per_rollout=2.0, kl_coef=0.01, loss_aggregation="token mean",
        importance_level="token", advantage_scaling="group", masks_truncated=False, max_grad_norm=1.0, model="m",
        asynchronous=False, sources=found.sources,
    )  # fmt: skip
