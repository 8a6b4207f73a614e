"""mlx-lm-lora's console blocks and callback rows."""

from __future__ import annotations

from rlvitals.ingest.configfiles import read_config_file
from rlvitals.ingest.mapping import map_table
from rlvitals.ingest.mlx_lm_lora import ADAPTER
from rlvitals.ingest.readers.console import parse
from rlvitals.ingest.rules import Resolver
from rlvitals.schema import RunConfig
from tests.ingest.tables import first, mapped

RULE, DASHES = "=" * 80, "-" * 80
LOG = f"""\
Iter 1: Val loss 0.123, Val took 1.200s

{RULE}
Iter 10:
{DASHES}
Loss: -0.006
Total Rewards:  μ=0.250, σ=0.433
Group Rewards:  μ=0.250, σ=0.210
KL Divergence: 0.000123000000
{DASHES}
Generation Stats:
  • Avg tokens: 35.6
  • Min tokens: 17
  • Max tokens: 64 (limit: 64)
  • Hit limit: 18.8%
{DASHES}
Individual Reward Functions:
  • r1 accuracy: μ=0.062, σ=0.250, cov=75.00%
{DASHES}
Clipping:  low=0.400, high=0.500, total=0.900
Learning Rate: 3.3000e-07
Speed: 0.084 it/s, 46.100 tok/s
Memory: 9.812GB
{RULE}

Iter 10: Saved adapter weights to adapters/adapters.safetensors.
"""

VALUES = {
    "loss": -0.006,
    "reward_mean": 0.25,
    "reward_std": 0.21,
    "kl_ref": 0.000123,
    "length_mean": 35.6,
    "length_min": 17.0,
    "length_max": 64.0,
    "truncated_frac": 0.188,
    "reward_part/r1_accuracy": 0.062,
    "reward_part_std/r1_accuracy": 0.25,
    "clip_low_frac": 0.4,
    "clip_high_frac": 0.5,
    "learning_rate": 3.3e-07,
    "tokens_per_second": 46.1,
}


def test_a_block_becomes_a_row() -> None:
    table = parse(enumerate(LOG.splitlines(), start=1), "console.log")
    result = map_table(table, Resolver(ADAPTER, table.keys()))
    assert result.step is not None
    assert result.step.tolist() == [10.0]
    assert first(result) == VALUES
    assert result.unrecognised == ()
    assert result.provenance["reward_std"].estimator == "group"
    assert "reference" in result.provenance["clip_low_frac"].note


def test_rows_of_the_callback() -> None:
    row = {"iteration": 5, "train_loss": 0.1, "train_total_rewards_mean": 0.5, "train_grouped_rewards_std": 0.2,
           "train_kl": 0.01, "train_hit_max_tokens_ratio": 0.1, "train_accuracy_mean": 0.4,
           "peak_memory": 9.0}  # fmt: skip
    result = mapped(ADAPTER, [row])
    assert ADAPTER.matches(frozenset(row)) == 97
    assert first(result) == {
        "loss": 0.1, "reward_mean": 0.5, "reward_std": 0.2, "kl_ref": 0.01, "truncated_frac": 0.1,
        "reward_part/accuracy": 0.4,
    }  # fmt: skip
    assert result.unrecognised == ()


def test_the_logged_kl_is_an_estimate_only_without_a_kl_term() -> None:
    row = {"iteration": 1, "kl": 0.01, "total_rewards_mean": 0.5, "grouped_rewards_std": 0.2}
    estimators = [
        mapped(ADAPTER, [row], RunConfig(kl_coef=beta)).provenance["kl_ref"].estimator for beta in (0.0, 0.1, None)
    ]
    assert estimators == ["k3", "other", "other"]


def test_settings_stand_in_the_adapters_config(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "adapter_config.json"
    file.write_text('{"train_mode": "grpo", "group_size": 4, "beta": 0.04, "epsilon": 1e-4, "train_type": "lora"}')
    known = read_config_file(file, ADAPTER).config.known()
    assert known == {"group_size": 4, "clip_low": 1e-4, "clip_high": 1e-4, "kl_coef": 0.04, "uses_lora": True,
                     "kl_estimator": "squared ratio"}  # fmt: skip
