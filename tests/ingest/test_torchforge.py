"""torchforge's console blocks and keys."""

from __future__ import annotations

from rlvitals.ingest.configmap import config_from_mapping
from rlvitals.ingest.mapping import map_table
from rlvitals.ingest.readers.console import parse
from rlvitals.ingest.rules import Resolver
from rlvitals.ingest.torchforge import ADAPTER

LOG = """\
[0] INFO starting 2 services
[0] 2026-11-29 INFO === [global_reduce] - METRICS STEP 1 ===
  buffer/sample/avg_sampled_policy_age: 0.5
  generator/generate/avg_tokens_generated: 210.25
  generator_perf/generate/total_duration_avg_s: 1.5
  reward/evaluate_response/avg_MathReward_reward: 0.25
  reward/evaluate_response/avg_total_reward: 0.4
  reward/evaluate_response/std_MathReward_reward: 0.44
  rl_trainer/avg_loss: -0.01
  rl_trainer/learning_rate: 1e-05
==============================

between the blocks
=== [global_reduce] - METRICS STEP 2 ===
  reward/evaluate_response/avg_total_reward: nan
  rl_trainer/avg_loss: 0.02
"""


def test_blocks_become_rows() -> None:
    table = parse(enumerate(LOG.splitlines(), start=1), "console.log")
    result = map_table(table, Resolver(ADAPTER, table.keys()))
    assert result.step is not None
    assert result.step.tolist() == [1.0, 2.0]
    assert {name: float(column[0]) for name, column in result.columns.items()} == {
        "version_lag_mean": 0.5,
        "length_mean": 210.25,
        "reward_part/MathReward": 0.25,
        "reward_mean": 0.4,
        "reward_part_std/MathReward": 0.44,
        "loss": -0.01,
        "learning_rate": 1e-5,
        "nonfinite/reward_mean": 0.0,
    }
    assert result.columns["nonfinite/reward_mean"].tolist() == [0.0, 1.0]
    assert result.unrecognised == ()
    assert table.text.splitlines() == ["[0] INFO starting 2 services", "between the blocks"]


def test_settings() -> None:
    config = config_from_mapping(
        {"group_size": 8, "max_res_tokens": 1024, "off_by_n": 1, "trainer": {"optimizer": {"lr": "1e-5"}}},
        ADAPTER, "qwen3.yaml",
    )  # fmt: skip
    assert config.known() == {
        "group_size": 8, "token_budget": 1024, "learning_rate": 1e-5, "max_version_lag": 1.0, "asynchronous": True,
    }  # fmt: skip
