"""agent-lightning: verl's keys, with rewards over rollouts and groups counted by itself."""

from __future__ import annotations

from rlvitals.ingest.agent_lightning import ADAPTER
from rlvitals.ingest.registry import pick
from rlvitals.schema import Status
from tests.ingest.tables import first, mapped

ROW = {
    "step": 2,
    "critic/score/mean": 0.5,  # over turns
    "training/reward": 0.4,  # over rollouts
    "training/n_rollouts": 20,
    "training/n_rollouts_w_trace": 20,
    "training/n_rollouts_w_reward": 19,
    "training/n_sample": 40,
    "training/n_truncated_sample": 2,
    "training/n_turns": 40,
    "training/n_groups": 8,
    "training/n_zero_adv_groups": 6,
    "training/n_sample_dropped/same_reward": 3,
    "training/async/n_completed_rollouts": 20,
    "actor/ppo_kl": 0.0001,
    "training/off_policy/trajectory_staleness/mean": 0.2,
    "val/reward": 0.6,
    "val/turn_count": 2.0,
}


def test_keys_of_one_row() -> None:
    result = mapped(ADAPTER, [ROW])
    assert pick(frozenset(ROW)).info.name == "agent-lightning"
    assert first(result) == {
        "reward_mean": 0.4,
        "zero_variance_frac": 0.75,
        "truncated_frac": 0.05,
        "verifier_error_frac": 0.05,
        "turns_mean": 2.0,
        "kl_old_new": 0.0001,
        "version_lag_mean": 0.2,
    }
    assert result.unrecognised == ()
    assert [(e.name, e.metric) for e in result.evals] == [("val reward", "reward")]
    assert result.provenance["zero_variance_frac"].status is Status.DERIVED
