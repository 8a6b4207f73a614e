"""SkyRL: counts, filtered groups, pretty-printed console, settings."""

from __future__ import annotations

from rlvitals.ingest import registry
from rlvitals.ingest.configfiles import config_from_mapping
from rlvitals.ingest.readers.console import parse
from rlvitals.ingest.skyrl import ADAPTER
from rlvitals.schema import RunConfig, Scope
from tests.ingest.tables import first, mapped

ROW = {"step": 1, "reward/avg_raw_reward": 0.5, "reward/num_zero_variance_filtered": 16}


def test_count_of_tied_groups_needs_the_batch_size() -> None:
    assert first(mapped(ADAPTER, [ROW])) == {"reward_mean": 0.5}
    found = mapped(ADAPTER, [ROW], RunConfig(prompts_per_step=64))
    assert first(found) == {"reward_mean": 0.5, "zero_variance_frac": 0.25}
    assert found.provenance["zero_variance_frac"].transform == "count / 64 prompts per step"


def test_dynamic_sampling_means_kept_groups_only() -> None:
    found = mapped(ADAPTER, [ROW], RunConfig(drops_zero_variance=True))
    assert found.provenance["reward_mean"].scope is Scope.KEPT


def test_reward_kl_and_old_names() -> None:
    row = {"step": 1, "reward/avg_raw_reward": 0.5, "loss/avg_kl": 0.02, "policy/ppo_clip_ratio": 0.01,
           "policy/raw_grad_norm": 0.3}  # fmt: skip
    found = mapped(ADAPTER, [row], RunConfig(kl_estimator="k1"))
    assert first(found) == {"reward_mean": 0.5, "kl_ref": 0.02, "clip_frac": 0.01, "grad_norm": 0.3}
    assert found.provenance["kl_ref"].estimator == "k1"


def test_environment_metrics_and_held_out_sets() -> None:
    row = {**ROW, "environment/tool_calls": 2.0, "eval/all/avg_score": 0.4, "eval/gsm8k/pass_at_4": 0.9,
           "eval/all/generate/avg_num_tokens": 99.0}  # fmt: skip
    found = mapped(ADAPTER, [row])
    assert first(found)["reward_part/tool_calls"] == 2.0
    assert {e.name: e.metric for e in found.evals} == {"all": "reward", "gsm8k pass@4": "accuracy"}


def test_pretty_printed_console() -> None:
    text = """2026-11-29 | INFO | tracking:log:232 - Step 1:\x20
{'generate/avg_num_tokens': '35.6250',
 'policy/loss_metrics/clip_ratio': '0.0024',
 'reward/avg_raw_reward': '0.2000',
 'trainer/global_step': 1}
2026-11-29 | INFO | some other line
2026-11-29 | INFO | tracking:log:232 - Step 2:\x20
{'generate/avg_num_tokens': '36.0000',
 'reward/avg_raw_reward': '0.3000',"""
    table = parse(enumerate(text.splitlines(), start=1), "console.log")
    assert registry.pick(table.keys()) is ADAPTER
    assert table.columns["step"].tolist() == [1]  # the second record is cut off
    assert table.columns["reward/avg_raw_reward"].tolist() == [0.2]
    assert "some other line" in table.text


def test_settings() -> None:
    algorithm = {"use_kl_loss": True, "use_kl_in_reward": False, "kl_loss_coef": 0.001, "eps_clip_low": 0.2,
                 "grpo_norm_by_std": False, "policy_loss_type": "gspo", "loss_reduction": "sequence_mean",
                 "use_entropy_loss": False, "entropy_loss_coef": 0.01,
                 "dynamic_sampling": {"type": "filter"}}  # fmt: skip
    found = config_from_mapping(
        {"trainer": {"algorithm": algorithm, "train_batch_size": 512, "policy_mini_batch_size": 128,
                     "update_epochs_per_batch": 1},
         "generator": {"n_samples_per_prompt": 8, "sampling_params": {"temperature": 0.7}}},
        ADAPTER, "wandb",
    ).known()  # fmt: skip
    assert found == {
        "group_size": 8, "prompts_per_step": 512, "updates_per_rollout": 4.0, "clip_low": 0.2, "kl_coef": 0.001,
        "kl_in_reward": False, "entropy_coef": 0.0, "temperature": 0.7, "loss_type": "gspo",
        "loss_aggregation": "sequence mean", "importance_level": "sequence", "advantage_scaling": "none",
        "drops_zero_variance": True, "loads_reference": True,
    }  # fmt: skip


def test_a_record_with_a_bar_behind_it_is_no_open_dict() -> None:
    text = "{'loss': 0.1, 'reward': 0.2, 'step': 1}  5%|#\n{'loss': 0.1, 'reward': 0.3, 'step': 2}\n{'loss': 0.2, 'rew"
    table = parse(enumerate(text.splitlines(), start=1), "console.log")
    assert table.columns["reward"].tolist() == [0.2, 0.3]
