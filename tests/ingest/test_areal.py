"""AReaL: both prefixes, the KL given as a reward, console tables, settings."""

from __future__ import annotations

from rlvitals.ingest import registry
from rlvitals.ingest.areal import ADAPTER
from rlvitals.ingest.configfiles import config_from_mapping
from rlvitals.ingest.readers.console import parse
from rlvitals.schema import Direction, RunConfig
from tests.ingest.tables import first, mapped

ROW = {"step": 0, "task_reward/avg": 0.5, "kl_rewards/avg": -0.002, "update/approx_kl/avg": -0.001}


def _row(prefix: str) -> dict[str, object]:
    return {key if key == "step" else f"{prefix}/{key}": value for key, value in ROW.items()}


def test_both_prefixes() -> None:
    for prefix in ("ppo_actor", "grpo_actor"):
        assert registry.pick(frozenset(_row(prefix))) is ADAPTER
        values = first(mapped(ADAPTER, [_row(prefix)]))
        assert values == {"reward_mean": 0.5, "kl_loss": 0.002, "kl_old_new": 0.001}


def test_kl_reward_becomes_a_kl_once_its_coefficient_is_known() -> None:
    found = mapped(ADAPTER, [_row("ppo_actor")], RunConfig(kl_coef=0.1, kl_estimator="k2"))
    assert first(found)["kl_ref"] == 0.02
    told = found.provenance["kl_ref"]
    assert (told.estimator, told.direction, told.transform) == ("k2", Direction.TO_REFERENCE, "-x / 0.1 (kl_ctl)")
    zero = mapped(ADAPTER, [_row("ppo_actor")], RunConfig(kl_coef=0.0))
    assert "kl_ref" not in zero.columns


def test_lengths_without_the_prompt() -> None:
    row = {"step": 0, "ppo_actor/task_reward/avg": 0.0, "ppo_actor/seq_len/avg": 150.0,
           "ppo_actor/prompt_len/avg": 50.0,
           "ppo_actor/correct_seq_len/avg": 0.0, "ppo_actor/correct_n_seqs": 0.0,
           "ppo_actor/incorrect_seq_len/avg": 150.0, "ppo_actor/incorrect_n_seqs": 16.0,
           "ppo_actor/no_eos_ratios/avg": 0.4}  # fmt: skip
    found = mapped(ADAPTER, [row])
    values = first(found)
    assert (values["length_mean"], values["length_wrong_mean"]) == (100.0, 100.0)
    assert values["length_right_mean"] != values["length_right_mean"]  # NaN: none was right
    assert "truncated_frac" not in values  # no_eos_ratios counts what fills the padded width
    assert found.unrecognised == ()


def test_console_table_counts_from_zero() -> None:
    text = """20261129 StatsLogger INFO: Epoch 1/1 Step 2/16 Train step 2/16 done.
20261129 StatsLogger INFO: Stats (1/1):
╒══════════════════╤════════╤═════════════╤════════╕
│ ppo_actor/n_seqs │ 16.000 │ rollout/reward │ 2.0e-01 │
├──────────────────┼────────┼─────────────┼────────┤
│ ppo_actor/task_reward/avg │ 2.0000e-01 │ ppo_actor/update/lr │ 1.0e-06 │
╘══════════════════╧════════╧═════════════╧════════╛
20261129 after"""
    table = parse(enumerate(text.splitlines(), start=1), "console.log")
    assert {key: column.tolist() for key, column in table.columns.items()} == {
        "step": [1], "ppo_actor/n_seqs": [16.0], "rollout/reward": [0.2], "ppo_actor/task_reward/avg": [0.2],
        "ppo_actor/update/lr": [1e-6],
    }  # fmt: skip


def test_settings() -> None:
    found = config_from_mapping(
        {"gconfig": {"n_samples": 4, "temperature": 1.0, "max_new_tokens": 1024},
         "actor": {"eps_clip": 0.4, "kl_ctl": 0.0, "ppo_n_minibatches": 1, "optimizer": {"lr": 1.7e-5},
                   "reward_norm": {"mean_level": "group", "std_level": "group"}, "adv_norm": {"std_level": "batch"}},
         "rollout": {"max_head_offpolicyness": 2}, "train_dataset": {"batch_size": 256}},
        ADAPTER, "config.yaml",
    ).known()  # fmt: skip
    assert found == {
        "group_size": 4, "prompts_per_step": 256, "updates_per_rollout": 1.0, "clip_low": 0.4, "clip_high": 0.4,
        "kl_coef": 0.0, "temperature": 1.0, "token_budget": 1024, "advantage_scaling": "group",
        "learning_rate": 1.7e-5, "max_version_lag": 2.0, "asynchronous": True,
    }  # fmt: skip
