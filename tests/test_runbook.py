"""The runbook's own block of assertions, unchanged in substance, and what the package adds: bad input raises."""

from __future__ import annotations

import math

import pytest

from rlvitals.runbook import diagnose, group_advantage_stats


def test_the_documents_asserted_block() -> None:
    adv_mean, adv_std = group_advantage_stats([1.0, 1.0, 0.0, 0.0], group_size=4)
    assert abs(adv_mean) < 1e-9
    assert 0.9 < adv_std < 1.1

    healthy = diagnose(
        reward_mean=0.55, advantage_std=0.95, entropy=1.4, entropy_trend=-0.01, kl=0.02, vocab_size=151_000
    )
    assert healthy == set()

    zv = diagnose(reward_mean=0.99, advantage_std=0.0, entropy=1.2, entropy_trend=-0.01, kl=0.02, vocab_size=151_000)
    assert {"zero_variance_groups", "reward_saturated"} <= zv

    assert diagnose(
        reward_mean=0.40, advantage_std=0.90, entropy=0.15, entropy_trend=-0.05, kl=0.03, vocab_size=151_000
    ) == {"entropy_collapsed"}

    assert diagnose(
        reward_mean=0.60, advantage_std=0.85, entropy=1.3, entropy_trend=0.01, kl=0.35, vocab_size=151_000
    ) == {"kl_blowup"}

    compound = diagnose(
        reward_mean=0.99, advantage_std=0.0, entropy=0.1, entropy_trend=-0.2, kl=0.40, vocab_size=151_000
    )
    assert compound == {"zero_variance_groups", "reward_saturated", "entropy_collapsed", "kl_blowup"}


def test_the_remaining_two_rules_and_their_limits() -> None:
    common = {"reward_mean": 0.5, "advantage_std": 0.9, "kl": 0.10, "vocab_size": 1000}
    assert diagnose(entropy=0.9 * math.log(1000) + 1e-9, entropy_trend=0.02, **common) == {"entropy_near_random"}
    assert diagnose(entropy=1.0, entropy_trend=0.021, **common) == {"entropy_rising"}
    assert diagnose(entropy=1.0, entropy_trend=0.021, kl_alarm=0.05, **common) == {"entropy_rising", "kl_blowup"}


def test_advantage_stats_are_the_documents_numbers() -> None:
    mean, std = group_advantage_stats([1, 0, 0, 0, 1, 1, 1, 1], group_size=4)
    assert mean == pytest.approx(0.0, abs=1e-12)
    assert std == pytest.approx(math.sqrt(0.5), rel=1e-3)  # one of two groups is tied: sqrt(1 - f)


@pytest.mark.parametrize("name", ["reward_mean", "advantage_std", "entropy", "entropy_trend", "kl", "vocab_size"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nonfinite_input_raises_and_names_the_argument(name: str, value: float) -> None:
    arguments = {
        "reward_mean": 0.5,
        "advantage_std": 0.9,
        "entropy": 1.0,
        "entropy_trend": 0.0,
        "kl": 0.0,
        "vocab_size": 1000.0,
    }
    with pytest.raises(ValueError, match=name):
        diagnose(**{**arguments, name: value})


def test_bad_rewards_raise() -> None:
    with pytest.raises(ValueError, match="rewards: value 1 is nan"):
        group_advantage_stats([1.0, math.nan], group_size=2)
    with pytest.raises(ValueError, match="found 3 values; expected a multiple of group_size 2"):
        group_advantage_stats([1.0, 0.0, 1.0], group_size=2)
