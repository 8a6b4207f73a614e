"""ROLL's keys: signs, shares of right and wrong groups, domains, and settings that decide together."""

from __future__ import annotations

import pytest

from rlvitals.ingest.configmap import config_from_mapping
from rlvitals.ingest.registry import pick
from rlvitals.ingest.roll import ADAPTER
from rlvitals.schema import Direction, RunConfig
from tests.ingest.tables import first, mapped

ROW = {
    "system/global_step": 0,
    "critic/score/mean": 0.3,
    "critic/correct/mean": 0.25,
    "math/critic/score/mean": 0.4,
    "math/token/response_length/mean": 120.0,
    "group/mixed_groups_ratio": 0.6,
    "group/all_incorrect_groups_ratio": 0.3,
    "token/response_length/mean": 110.0,
    "token/total_response_length/clip": 0.05,
    "actor/policykl@sum": 0.0004,
    "actor/approxkl@sum": 0.001,
    "actor/kl_loss@sum": 0.02,
    "actor/ppo_ratio_clipfrac@sum": 0.003,
    "critic/entropy/mean": 0.6,
    "time/step_train": 3.0,
    "val_correct/aime/mean": 0.2,
}


def test_keys_of_one_row() -> None:
    result = mapped(ADAPTER, [ROW])
    assert first(result) == {
        "reward_mean": 0.3,
        "success_frac": 0.25,
        "reward_family/math": 0.4,
        "zero_variance_frac": 0.4,
        "all_wrong_frac": 0.3,
        "length_mean": 110.0,
        "truncated_frac": 0.05,
        "kl_old_new": -0.0004,
        "kl_ref": 0.02,
        "clip_frac": 0.003,
        "entropy": 0.6,
    }
    assert result.unrecognised == ()
    assert [e.name for e in result.evals] == ["aime"]


def test_the_opposite_sign_is_told() -> None:
    found = mapped(ADAPTER, [ROW]).provenance["kl_old_new"]
    assert (found.estimator, found.direction, found.transform) == ("k1", Direction.OLD_NEW, "sign flipped")


def test_it_is_not_taken_for_verl() -> None:
    assert pick(frozenset(ROW)).info.name == "ROLL"
    agentic = {"system/global_step", "critic/score/mean", "tokens/response_length/mean", "actor/pg_loss"}
    assert pick(frozenset(agentic)).info.name == "ROLL"


@pytest.mark.parametrize(
    ("settings", "coefficient", "estimator"),
    [
        ({"use_kl_loss": True, "kl_loss_coef": 0.001, "add_token_level_kl": False}, 0.001, "k3"),
        ({"use_kl_loss": False, "add_token_level_kl": True, "init_kl_coef": 0.2, "kl_penalty": "kl"}, 0.2, "k1"),
        ({"use_kl_loss": False, "add_token_level_kl": False, "init_kl_coef": 0.2}, 0.0, None),
        ({"use_kl_loss": False, "init_kl_coef": 0.2}, None, None),
    ],
)
def test_kl_term_in_force(settings: dict[str, object], coefficient: float | None, estimator: str | None) -> None:
    config = config_from_mapping(settings, ADAPTER, "config.yaml")
    assert (config.kl_coef, config.kl_estimator) == (coefficient, estimator)


def test_clip_range_is_the_one_that_is_switched_on() -> None:
    both = {"pg_clip": 0.2, "pg_clip_low": 0.1, "pg_clip_high": 0.28}
    plain = config_from_mapping({**both, "use_pg_clip_range": False}, ADAPTER, "config.yaml")
    ranged = config_from_mapping({**both, "use_pg_clip_range": True}, ADAPTER, "config.yaml")
    assert (plain.clip_low, plain.clip_high, ranged.clip_low, ranged.clip_high) == (0.2, 0.2, 0.1, 0.28)


def test_sequence_ratios_change_what_the_clip_fraction_counts() -> None:
    config = config_from_mapping({"importance_sampling": "seq"}, ADAPTER, "config.yaml")
    assert config == RunConfig(importance_level="sequence", sources=config.sources)
    row = {**ROW, "actor/ppo_ratio_clipfrac": 0.1}
    del row["actor/ppo_ratio_clipfrac@sum"]
    assert mapped(ADAPTER, [row], config).provenance["clip_frac"].estimator == "sequence"
