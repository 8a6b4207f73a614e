"""TRL's asynchronous trainer: `kl` is between old and new policy, and settings that it does not have stay away."""

from __future__ import annotations

from rlvitals.ingest.registry import pick
from rlvitals.ingest.trl_async import ADAPTER
from rlvitals.schema import Direction
from tests.ingest.tables import first, mapped

ROW = {
    "step": 4,
    "reward": 0.5,
    "reward_std": 0.3,
    "rewards/accuracy": 0.5,
    "ratio": 1.001,
    "kl": 0.0007,
    "entropy": 0.4,
    "clip_ratio/region_mean": 0.002,
    "completions/mean_length": 300.0,
    "training_tok/s": 900.0,
    "forward_time_s": 1.0,
    "weight_sync_time_s": 2.0,
}


def test_keys_of_one_row() -> None:
    result = mapped(ADAPTER, [ROW])
    assert pick(frozenset(ROW)).info.name == "TRL async"
    assert first(result) == {
        "reward_mean": 0.5,
        "reward_std": 0.3,
        "reward_part/accuracy": 0.5,
        "ratio_mean": 1.001,
        "kl_old_new": 0.0007,
        "entropy": 0.4,
        "clip_frac": 0.002,
        "length_mean": 300.0,
        "tokens_per_second": 900.0,
    }
    assert result.unrecognised == ()
    found = result.provenance
    assert (found["kl_old_new"].estimator, found["kl_old_new"].direction) == ("k3", Direction.OLD_NEW)
    assert found["reward_std"].estimator == "group"


def test_later_releases_log_the_lag_and_the_synchronous_trainer_is_not_taken_for_it() -> None:
    later = {**ROW, "sample/staleness_mean": 1.0, "train/loss": 0.0}
    assert first(mapped(ADAPTER, [later]))["version_lag_mean"] == 1.0
    synchronous = {"reward", "reward_std", "completions/mean_length", "kl", "frac_reward_zero_std", "step_time"}
    assert pick(frozenset(synchronous)).info.name == "TRL"


def test_there_is_no_reference_to_configure() -> None:
    assert ADAPTER.fixed.known() == {
        "kl_coef": 0.0, "loads_reference": False, "loss_aggregation": "token mean", "importance_level": "token",
        "asynchronous": True, "sampler_correction": True,
    }  # fmt: skip
    assert "kl_coef" not in ADAPTER.info.knobs
