"""verl: both spellings, key generations, sampler correction, evals, settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvitals.ingest import load
from rlvitals.ingest.configfiles import config_from_mapping
from rlvitals.ingest.verl import ADAPTER
from rlvitals.metrics import is_canonical
from rlvitals.schema import Direction, RunConfig, Status
from tests.ingest.tables import finished, first, mapped

ROW = {
    "step": 3,
    "critic/score/mean": 0.25,
    "critic/score/max": 1.0,
    "critic/score/min": 0.0,
    "critic/rewards/mean": 0.2,
    "critic/advantages/mean": -0.01,
    "actor/entropy": 0.7,
    "actor/entropy_loss": 0.69,
    "actor/ppo_kl": -0.0004,
    "actor/kl_loss": 0.02,
    "actor/pg_clipfrac": 0.003,
    "actor/pg_clipfrac_lower": 0.5,
    "actor/lr": 1e-6,
    "response_length/mean": 120.0,
    "response_length/clip_ratio": 0.125,
    "rollout_corr/kl": 0.0007,
    "rollout_corr/k3_kl": 0.0006,
    "rollout_corr/rollout_is_mean": 0.98,
    "training/off_policy/trajectory_staleness/mean": 1.5,
    "timing_s/step": 9.0,
}


def test_keys_of_one_row() -> None:
    values = first(mapped(ADAPTER, [ROW]))
    assert values == {
        "reward_mean": 0.25,
        "reward_max": 1.0,
        "reward_min": 0.0,
        "advantage_mean": -0.01,
        "entropy": 0.7,
        "kl_old_new": -0.0004,
        "kl_ref": 0.02,
        "clip_frac": 0.003,
        "learning_rate": 1e-6,
        "length_mean": 120.0,
        "truncated_frac": 0.125,
        "kl_sampler_trainer": 0.0006,
        "sampler_ratio_mean": 0.98,
        "version_lag_mean": 1.5,
    }


def test_underscore_spelling_gives_the_same_values() -> None:
    flat = {key.replace("/", "_"): value for key, value in ROW.items()}
    assert ADAPTER.matches(frozenset(flat)) == 95
    assert first(mapped(ADAPTER, [flat])) == first(mapped(ADAPTER, [ROW]))
    assert mapped(ADAPTER, [flat]).unrecognised == ()


def test_every_key_is_understood_and_described() -> None:
    result = mapped(ADAPTER, [ROW])
    assert result.unrecognised == ()
    kl, gap = result.provenance["kl_ref"], result.provenance["kl_sampler_trainer"]
    assert (kl.estimator, kl.direction) == ("k3", Direction.TO_REFERENCE)
    assert (gap.estimator, gap.direction) == ("k3", Direction.SAMPLER_TRAINER)
    assert result.provenance["truncated_frac"].estimator == "at budget"
    assert result.provenance["advantage_mean"].estimator == "token mean"


def test_reward_after_kl_only_without_a_score() -> None:
    row = {key: value for key, value in ROW.items() if not key.startswith("critic/score")}
    result = mapped(ADAPTER, [row])
    assert first(result)["reward_mean"] == 0.2
    assert result.provenance["reward_mean"].transform == "after KL"


def test_entropy_loss_of_old_versions_is_the_entropy() -> None:
    row = {
        "step": 1,
        "critic/score/mean": 0.5,
        "response_length/mean": 10.0,
        "actor/entropy_loss": 0.3,
        "actor/lr": 0.0,
    }
    result = mapped(ADAPTER, [row], source="train.log")
    assert first(result)["entropy"] == 0.3
    assert finished(ADAPTER, result, RunConfig())["learning_rate"].status is Status.PLACEHOLDER
    from_file = mapped(ADAPTER, [row], source="history.csv")
    assert finished(ADAPTER, from_file, RunConfig())["learning_rate"].status is Status.MEASURED


def test_mismatch_keys_of_0_6_and_k1_without_k3() -> None:
    row = {"step": 1, "critic/score/mean": 0.5, "mismatch/mismatch_kl": -0.001, "mismatch/rollout_is_max": 2.0}
    result = mapped(ADAPTER, [row])
    assert first(result) == {"reward_mean": 0.5, "kl_sampler_trainer": -0.001, "sampler_ratio_max": 2.0}
    assert result.provenance["kl_sampler_trainer"].estimator == "k1"


def test_kl_in_reward_is_the_kl_to_the_reference() -> None:
    row = {"step": 1, "critic/score/mean": 0.5, "actor/reward_kl_penalty": 0.01, "actor/reward_kl_penalty_coeff": 0.001}
    result = mapped(ADAPTER, [row])
    assert first(result) == {"reward_mean": 0.5, "kl_ref": 0.01, "kl_coef": 0.001}
    assert result.provenance["kl_ref"].estimator == "k1"


def test_config_decides_estimator_and_unit() -> None:
    config = RunConfig(kl_estimator="k2", loss_aggregation="sequence sum", importance_level="sequence")
    found = mapped(ADAPTER, [ROW], config).provenance
    assert (found["kl_ref"].estimator, found["kl_ref"].unit) == ("k2", "nats/sequence")
    assert found["entropy"].unit == "nats/sequence"
    assert found["clip_frac"].estimator == "sequence"


def test_held_out_scores_in_every_spelling() -> None:
    row = {
        "step": 0,
        "val-core/openai/gsm8k/acc/mean@8": 0.4,
        "val-core/openai/gsm8k/acc/best@8/mean": 0.7,
        "val-aux/openai/gsm8k/reward/mean@8": 0.45,
        "val-aux/openai/gsm8k/acc/std@8": 0.3,
        "val-core/aime/acc/mean_at_4": 0.1,
        "val-core_mine_acc_maj_at_2_mean": 0.2,
        "val/test_score/old": 0.3,
    }
    result = mapped(ADAPTER, [row])
    found = {e.name: (float(e.values[0]), e.metric) for e in result.evals}
    assert found == {
        "openai/gsm8k": (0.4, "accuracy"),
        "openai/gsm8k best@8": (0.7, "accuracy"),
        "openai/gsm8k reward": (0.45, "reward"),
        "aime": (0.1, "accuracy"),
        "mine maj@2": (0.2, "accuracy"),
        "old": (0.3, "reward"),
    }
    assert result.unrecognised == ()


def test_settings() -> None:
    config = config_from_mapping(
        {
            "actor_rollout_ref": {
                "actor": {
                    "use_kl_loss": True, "kl_loss_coef": 0.001, "kl_loss_type": "low_var_kl", "ppo_epochs": 2,
                    "ppo_mini_batch_size": 64, "clip_ratio": 0.2, "clip_ratio_low": None, "clip_ratio_high": 0.28,
                    "loss_agg_mode": "seq-mean-token-sum-norm", "policy_loss": {"loss_mode": "gspo"},
                    "optim": {"lr": "1e-6", "lr_warmup_steps": -1},
                },
                "rollout": {"n": 16, "val_kwargs": {"n": 1, "temperature": 0}},
                "model": {"lora_rank": 0},
            },
            "data": {"train_batch_size": 256, "max_response_length": "${x}"},
            "algorithm": {"adv_estimator": "grpo", "norm_adv_by_std_in_grpo": False, "use_kl_in_reward": False},
            "trainer": {"n_gpus_per_node": 8, "nnodes": 2},
        },
        ADAPTER,
        "config.yaml",
    )  # fmt: skip
    assert config.known() == {
        "group_size": 16, "prompts_per_step": 256, "updates_per_rollout": 8.0, "clip_low": 0.2, "clip_high": 0.28,
        "kl_coef": 0.001, "kl_estimator": "k3", "kl_in_reward": False, "loss_aggregation": "constant length",
        "importance_level": "sequence", "loss_type": "gspo", "advantage_estimator": "grpo", "advantage_scaling": "none",
        "learning_rate": 1e-6, "uses_lora": False, "algorithm": "grpo", "gpus": 16.0,
    }  # fmt: skip
    assert config.sources["group_size"] == "config.yaml: actor_rollout_ref.rollout.n"


def test_words_name_canonical_things() -> None:
    things = {"evals", "rollouts", "config", "checkpoints"}
    assert [name for name in ADAPTER.info.how_to_log if not is_canonical(name) and name not in things] == []
    assert ADAPTER.info.knob("clip_high") == "actor_rollout_ref.actor.clip_ratio_high"


def test_other_trainers_keys_do_not_match() -> None:
    assert ADAPTER.matches(frozenset({"reward", "completions/mean_length"})) == 0


TRUTH = {
    "reward_mean": "reward_mean",
    "length_mean": "len_mean",
    "truncated_frac": "trunc_rate",
    "kl_ref": "kl_ref_k3",
    "kl_old_new": "ppo_kl",
    "entropy": "entropy",
    "grad_norm": "grad_norm",
    "learning_rate": "lr",
    "policy_loss": "loss",
    "advantage_mean": "adv_mean",
    "sampler_ratio_mean": "is_ratio_mean",
    "version_lag_mean": "lag_mean",
}


@pytest.mark.parametrize("name", ["console.log", "file_logger/verl_examples/gsm8k.jsonl", "."])
def test_format_sample_agrees_with_its_truth(shared: Path, name: str) -> None:
    formats = shared / "formats"
    truth = [json.loads(line) for line in (formats / "_truth" / "steps.jsonl").read_text().splitlines()]
    run = load(formats / "verl" / name)
    assert run.step.tolist() == [row["step"] for row in truth]
    for metric, key in TRUTH.items():
        assert run.values(metric).tolist() == pytest.approx([row[key] for row in truth]), metric
    assert run.unrecognised == ()
    assert run.evals["arith_add"].score[0] == 0.5
    assert run.config.group_size == 4


def test_a_config_printed_over_many_lines_is_read_from_the_console(tmp_path: Path) -> None:
    config = [
        "{'actor_rollout_ref': {'actor': {'clip_ratio': 0.2,",
        "                                 'loss_agg_mode': 'token-mean'},",
        "                       'rollout': {'n': 1,",
        "                                   'temperature': 0.7}},",
        " 'algorithm': {'adv_estimator': 'grpo'}}",
    ]
    lines = [f"\x1b[36m(TaskRunner pid=7)\x1b[0m {line}" for line in config]
    lines += [f"step:{i} - critic/score/mean:0.{i:02d} - actor/entropy:0.3" for i in range(1, 25)]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines))
    known = load(path).config
    assert (known.group_size, known.temperature, known.advantage_estimator) == (1, 0.7, "grpo")
