"""rLLM's keys: one role or several, what its kl_sample_train_v1 really is, and counts of 2025 against shares."""

from __future__ import annotations

from rlvitals.ingest.configmap import config_from_mapping
from rlvitals.ingest.registry import pick
from rlvitals.ingest.rllm import ADAPTER
from tests.ingest.tables import first, mapped

ROW = {
    "step": 3,
    "reward/default/mean": 0.4,
    "reward/default/std": 0.5,
    "advantage/default/mean": 0.0,
    "advantage/default/fraction_zero": 0.25,
    "batch/default/total": 8,
    "batch/default/fractions/effective": 0.75,
    "batch/default/fractions/too_easy": 0.125,
    "batch/default/fractions/too_hard": 0.125,
    "batch/default/group_reward_mean/p50": 0.4,
    "batch/termination_reason/env_done": 0.9,
    "batch/termination_reason/max_response_length_exceeded": 0.1,
    "train/entropy": 0.7,
    "train/kl_sample_train_v1": 0.011,
    "train/kl_sample_train_v2": 0.0002,
    "progress/lr": 2e-5,
    "async/staleness_mean": 0.5,
    "val/math/pass@1": 0.5,
    "val/math/pass@4": 0.7,
}


def test_keys_of_one_row() -> None:
    result = mapped(ADAPTER, [ROW])
    assert first(result) == {
        "reward_mean": 0.4,
        "reward_std": 0.5,
        "advantage_mean": 0.0,
        "zero_variance_frac": 0.25,
        "all_right_frac": 0.125,
        "all_wrong_frac": 0.125,
        "stop_frac/env_done": 0.9,
        "truncated_frac": 0.1,
        "entropy": 0.7,
        "logprob_gap_mean": 0.011,
        "kl_sampler_trainer": 0.0002,
        "learning_rate": 2e-5,
        "version_lag_mean": 0.5,
    }
    assert result.unrecognised == ()
    assert [e.name for e in result.evals] == ["math", "math pass@4"]
    assert result.provenance["kl_sampler_trainer"].estimator == "k2"


def test_a_single_role_of_another_name_is_the_run_itself_and_of_several_each_is_a_family() -> None:
    one = {"step": 1, "reward/solver/mean": 0.3, "progress/lr": 1e-6}
    two = {"step": 1, "reward/judge/mean": 0.9, "reward/solver/mean": 0.3, "progress/lr": 1e-6}
    assert first(mapped(ADAPTER, [one])) == {"reward_mean": 0.3, "learning_rate": 1e-6}
    assert first(mapped(ADAPTER, [two])) == {"reward_mean": 0.9, "reward_family/solver": 0.3, "learning_rate": 1e-6}
    assert "judge" in mapped(ADAPTER, [two]).provenance["reward_mean"].note


def test_the_fork_of_2025_counts_tasks() -> None:
    fork = {"step": 1, "critic/score/mean": 0.5, "response_length/mean": 90.0, "actor/entropy": 0.4,
            "batch/solve_none": 8, "batch/solve_all": 4, "batch/solve_partial": 20}  # fmt: skip
    assert pick(frozenset(fork)).info.name == "rLLM"
    assert first(mapped(ADAPTER, [fork])) == {
        "reward_mean": 0.5, "length_mean": 90.0, "entropy": 0.4,
        "all_wrong_frac": 0.25, "all_right_frac": 0.125, "zero_variance_frac": 0.375,
    }  # fmt: skip


def test_settings() -> None:
    config = config_from_mapping(
        {"rllm": {"rollout": {"n": 8, "train": {"temperature": 0.8}}, "algorithm": {"kl_beta": 0.0, "eps_clip": 0.2},
                  "async_training": {"enable": True}}, "model": {"lora_rank": 32}, "training": {"learning_rate": 2e-5}},
        ADAPTER, "config.yaml",
    )  # fmt: skip
    assert config.known() == {
        "group_size": 8, "clip_low": 0.2, "clip_high": 0.2, "kl_coef": 0.0, "temperature": 0.8, "learning_rate": 2e-5,
        "uses_lora": True, "asynchronous": True,
    }  # fmt: skip
