"""open-instruct's keys: points, kept groups, a lag that starts at 1, and the two generations of KL keys."""

from __future__ import annotations

from rlvitals.ingest.configmap import config_from_mapping
from rlvitals.ingest.open_instruct import ADAPTER
from rlvitals.schema import RunConfig, Scope, Status
from tests.ingest.tables import finished, first, mapped

ROW = {
    "training_step": 7,
    "global_step": 112,  # episodes
    "scores": 4.5,
    "objective/verifiable_correct_rate": 0.45,
    "objective/gsm8k_reward": 5.0,
    "objective/gsm8k_correct_rate": 0.5,
    "batch/filtered_prompts_pct": 0.5,
    "batch/filtered_prompts": 4,
    "batch/filtered_prompts_zero": 3,
    "batch/filtered_prompts_solved": 1,
    "val/sequence_lengths": 130.0,
    "val/stop_rate": 0.9,
    "objective/kl0_avg": -0.001,
    "objective/kl1_avg": 0.0021,
    "objective/kl2_avg": 0.002,
    "num_steps_off_policy": 1.5,
    "model_step_min": 4,
    "debug/vllm_vs_local_logprob_diff_mean": 0.012,
    "tools/search/failure_rate": 0.1,
    "eval/pass_at_1": 0.4,
    "eval/pass_at_4": 0.6,
}


def test_keys_of_one_row() -> None:
    result = mapped(ADAPTER, [ROW])
    assert first(result) == {
        "reward_mean": 4.5,
        "success_frac": 0.45,
        "reward_family/gsm8k": 5.0,
        "zero_variance_frac": 0.5,
        "all_wrong_frac": 0.375,
        "all_right_frac": 0.125,
        "length_mean": 130.0,
        "truncated_frac": 0.1,
        "kl_ref": 0.002,
        "version_lag_mean": 0.5,
        "version_lag_max": 2.0,
        "logprob_gap_mean": 0.012,
    }
    assert result.step_key == "training_step"
    assert result.unrecognised == ()
    assert [(e.name, float(e.values[0])) for e in result.evals] == [("eval", 0.4), ("eval pass@4", 0.6)]


def test_statistics_of_kept_groups_say_so() -> None:
    found = mapped(ADAPTER, [ROW]).provenance
    assert found["reward_mean"].scope is found["length_mean"].scope is Scope.KEPT
    assert found["zero_variance_frac"].scope is Scope.ALL
    assert (found["truncated_frac"].transform, found["version_lag_mean"].transform) == ("1 - x", "x - 1")
    unfiltered = RunConfig(drops_zero_variance=False)
    result = mapped(ADAPTER, [ROW], unfiltered)
    assert result.provenance["reward_mean"].scope is Scope.ALL
    assert finished(ADAPTER, result, unfiltered)["zero_variance_frac"].status is Status.PLACEHOLDER


def test_kl_keys_count_from_zero_only_since_2026() -> None:
    old = {"training_step": 1, "scores": 1.0, "real_batch_size_ratio": 1.0, "objective/kl_avg": -0.1,
           "objective/kl2_avg": 0.5, "objective/kl3_avg": 0.4, "objective/kl4_avg": -0.2}  # fmt: skip
    assert mapped(ADAPTER, [old]).provenance["kl_ref"].estimator == "k2"
    assert mapped(ADAPTER, [ROW]).provenance["kl_ref"].estimator == "k3"


def test_settings() -> None:
    config = config_from_mapping(
        {"num_samples_per_prompt_rollout": 8, "num_unique_prompts_rollout": 32, "beta": 0.0, "clip_higher": 0.272,
         "kl_estimator": 2, "loss_denominator": "token", "advantage_normalization_type": "centered",
         "load_ref_policy": False, "async_steps": 4, "filter_zero_std_samples": True, "max_possible_score": 10.0},
        ADAPTER, "config.yaml",
    )  # fmt: skip
    assert config.known() == {
        "group_size": 8, "prompts_per_step": 32, "clip_high": 0.272, "kl_coef": 0.0, "kl_estimator": "k3",
        "loads_reference": False, "loss_aggregation": "token mean", "advantage_scaling": "none",
        "drops_zero_variance": True, "max_version_lag": 4.0, "reward_max": 10.0, "asynchronous": True,
    }  # fmt: skip
