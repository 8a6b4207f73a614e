"""tinker-cookbook: its own loop, custom loops, settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvitals.ingest import load
from rlvitals.ingest.configfiles import config_from_mapping
from rlvitals.ingest.tinker import ADAPTER
from rlvitals.metrics import is_canonical
from rlvitals.schema import RunConfig, Scope, Status
from tests.ingest.tables import first, mapped

ROW = {
    "step": 0,
    "progress/batch": 0,
    "progress/done_frac": 0.1,
    "optim/lr": 4e-5,
    "env/all/reward/total": 0.3,
    "env/all/correct": 0.25,
    "env/all/format": 0.75,
    "env/all/ac_tokens_per_turn": 50.0,
    "env/all/total_episodes": 16,
    "env/all/by_group/frac_mixed": 0.5,
    "env/all/by_group/frac_all_good": 0.125,
    "env/all/by_group/frac_all_bad": 0.375,
    "env/all/stop/length": 0.0625,
    "env/algebra/reward/total": 0.4,
    "env/algebra/correct": 0.5,
    "optim/entropy": 0.9,
    "optim/kl_sample_train_v1": -0.0002,
    "optim/kl_sample_train_v2": 0.0004,
    "kl_policy_base": 0.01,
    "sampling_client/step_mean": 0.0,
    "time/total": 12.0,
    "test/env/all/correct": 0.5,
    "test/env/all/reward/total": 0.55,
}


def test_keys_of_one_row() -> None:
    result = mapped(ADAPTER, [ROW])
    assert first(result) == {
        "reward_mean": 0.3,
        "success_frac": 0.25,
        "reward_part/format": 0.75,
        "parse_failure_frac": 0.25,
        "length_mean": 50.0,
        "all_right_frac": 0.125,
        "all_wrong_frac": 0.375,
        "zero_variance_frac": 0.5,
        "stop_frac/length": 0.0625,
        "reward_family/algebra": 0.4,
        "entropy": 0.9,
        "kl_sampler_trainer": -0.0002,
        "kl_ref": 0.01,
        "learning_rate": 4e-5,
        "version_lag_mean": 0.0,
        "step_time_s": 12.0,
    }
    assert result.unrecognised == ()
    assert result.provenance["zero_variance_frac"].status is Status.DERIVED
    assert result.provenance["entropy"].estimator == "sampled"
    assert {e.name: (float(e.values[0]), e.metric) for e in result.evals} == {
        "test": (0.5, "accuracy"),
        "test reward": (0.55, "reward"),
    }
    assert ADAPTER.info.step_base == 0


def test_custom_loop() -> None:
    row = {
        "progress/step": 0, "progress/done_frac": 0.02, "optim/lr": 1e-5, "reward/mean": 0.2, "reward/tests": 0.01,
        "reward/compiles": 0.19, "policy/entropy": 2.3, "step": 0, "timestamp": 1.7e9,
    }  # fmt: skip
    assert ADAPTER.matches(frozenset(row)) == 80
    result = mapped(ADAPTER, [row])
    assert first(result) == {
        "learning_rate": 1e-5, "reward_mean": 0.2, "reward_part/tests": 0.01, "reward_part/compiles": 0.19,
        "entropy": 2.3,
    }  # fmt: skip
    assert result.unrecognised == ()


def test_a_log_that_only_shares_a_key_is_not_tinker() -> None:
    assert ADAPTER.matches(frozenset({"iteration", "reward/mean", "reward/std"})) == 0


def test_dropped_groups_change_the_scope() -> None:
    found = mapped(ADAPTER, [ROW], RunConfig(drops_zero_variance=True)).provenance
    assert found["reward_mean"].scope is Scope.KEPT
    assert found["learning_rate"].scope is Scope.ALL


def test_settings() -> None:
    config = config_from_mapping(
        {
            "model_name": "m", "learning_rate": 1e-5, "max_tokens": 256, "kl_penalty_coef": 0.0, "loss_fn": "ppo",
            "loss_fn_config": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.28}, "num_substeps": 2,
            "async_config": {"max_steps_off_policy": 3}, "dataset_builder": {"group_size": 8, "groups_per_batch": 32},
        },
        ADAPTER,
        "config.json",
    )  # fmt: skip
    assert config.known() == {
        "group_size": 8, "prompts_per_step": 32, "updates_per_rollout": 2.0, "clip_low": pytest.approx(0.2),
        "clip_high": pytest.approx(0.28), "kl_coef": 0.0, "kl_estimator": "k1", "kl_in_reward": True,
        "token_budget": 256, "loss_type": "ppo", "advantage_scaling": "none", "learning_rate": 1e-5,
        "max_version_lag": 3.0, "uses_lora": True, "asynchronous": True, "model": "m",
    }  # fmt: skip


def test_words_name_canonical_things() -> None:
    things = {"evals", "rollouts", "config", "checkpoints"}
    assert [name for name in ADAPTER.info.how_to_log if not is_canonical(name) and name not in things] == []


def test_format_sample_agrees_with_its_truth(shared: Path) -> None:
    formats = shared / "formats"
    truth = [json.loads(line) for line in (formats / "_truth" / "steps.jsonl").read_text().splitlines()]
    run = load(formats / "tinker_cookbook")
    assert run.step.tolist() == [row["step"] - 1 for row in truth]
    for metric, key in {
        "reward_mean": "reward_mean", "zero_variance_frac": "frac_zero_std", "success_frac": "correct_mean",
        "parse_failure_frac": "parse_fail", "length_mean": "len_mean", "learning_rate": "lr", "kl_ref": "kl_ref_k3",
    }.items():  # fmt: skip
        assert run.values(metric).tolist() == pytest.approx([row[key] for row in truth]), metric
    assert run.unrecognised == ()
    assert run.evals["test"].step.tolist() == [0, 5, 10, 15]


def test_real_custom_loop_with_a_restart(shared: Path) -> None:
    run = load(shared / "corpus" / "runs" / "leetcode_1b_easy.jsonl")
    assert (run.trainer.name, run.rows, len(run.segments)) == ("tinker-cookbook", 45, 1)
    assert run.family("reward_part/") == ("reward_part/correctness_f", "reward_part/compilable_g")
