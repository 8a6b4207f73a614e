"""OpenRLHF: key generations, filtered groups, flat and nested settings."""

from __future__ import annotations

import math

from rlvitals.ingest import registry
from rlvitals.ingest.configtext import config_from_text
from rlvitals.ingest.openrlhf import ADAPTER
from rlvitals.schema import RunConfig, Scope
from tests.ingest.tables import first, mapped

OLD = {"policy_loss": 0.1, "kl": 0.02, "reward": 0.5, "return": 0.0, "response_length": 80.0, "total_length": 100.0}


def test_old_overview_lines_are_recognised() -> None:
    assert registry.pick(frozenset(OLD)) is ADAPTER
    values = first(mapped(ADAPTER, [{"step": 1, **OLD}]))
    assert (values["reward_mean"], values["length_mean"], values["kl_ref"]) == (0.5, 80.0, 0.02)


def test_rollout_means_win_over_micro_batch_means() -> None:
    row = {"train/reward": 0.4, "train/rollout/reward_mean": 0.5, "train/response_length": 70.0,
           "train/rollout/response_length_mean": 80.0, "train/rollout/truncated_rate": 0.1}  # fmt: skip
    values = first(mapped(ADAPTER, [{"step": 1, **row}]))
    assert (values["reward_mean"], values["length_mean"], values["truncated_frac"]) == (0.5, 80.0, 0.1)


def test_pass_rate_in_percent_gives_the_dropped_share_and_kept_scope() -> None:
    found = mapped(ADAPTER, [{"step": 1, "rollout/reward_mean": 0.5, "dynamic_filtering_pass_rate": 40.0}])
    assert first(found) == {"reward_mean": 0.5, "dropped_group_frac": 0.6, "zero_variance_frac": 0.6}
    assert found.provenance["reward_mean"].scope is Scope.KEPT


def test_kl_estimator_comes_from_the_settings() -> None:
    rows = [{"step": 1, "kl": 0.1, "rollout/reward_mean": 0.5}]
    assert mapped(ADAPTER, rows).provenance["kl_ref"].estimator == ""
    assert mapped(ADAPTER, rows, RunConfig(kl_estimator="k3")).provenance["kl_ref"].estimator == "k3"


def test_command_lines_of_both_generations() -> None:
    new = config_from_text(
        "python3 -m openrlhf.cli.train_ppo_ray --rollout.n_samples_per_prompt 8 --rollout.batch_size 64 "
        "--train.batch_size 256 --train.max_epochs 2 --algo.kl.init_coef 1e-3 --algo.advantage.estimator group_norm "
        "--actor.adam.lr 5e-7 --algo.dynamic_filtering_enable --rollout.max_new_tokens 1024 --algo.kl.use_loss",
        ADAPTER,
    )
    assert new.known() == {
        "group_size": 8, "prompts_per_step": 64, "updates_per_rollout": 4.0, "kl_coef": 1e-3, "token_budget": 1024,
        "advantage_estimator": "group_norm", "advantage_scaling": "group", "learning_rate": 5e-7, "algorithm": "grpo",
        "drops_zero_variance": True, "kl_in_reward": False,
    }  # fmt: skip
    old = config_from_text(
        "python3 -m openrlhf.cli.train_ppo_ray --n_samples_per_prompt 8 --init_kl_coef 0.01 --eps_clip 0.2 "
        "--actor_learning_rate 5e-7 --generate_max_len 1024",
        ADAPTER,
    )
    assert (old.group_size, old.kl_coef, old.clip_high, old.token_budget) == (8, 0.01, 0.2, 1024)
    assert math.isclose(old.learning_rate or 0, 5e-7)
