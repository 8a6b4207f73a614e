"""Effects for the checks on rollout facts: the healthy run has none, so that each effect brings its own series.

How often the facts themselves lead to a false alarm or miss a fault is measured on simulated rollouts
(benchmarks/rollout_checks.py); here the series are given, and what is measured is how soon the check speaks.
"""

from __future__ import annotations

import numpy as np

from benchmarks.effects.draft import Draft, between, drift, ramp
from rlvitals.schema import Float64


def fact(d: Draft, name: str, before: float, after: float, sd: float, *, low: float = 0.0, high: float = 1.0) -> None:
    """Add a rollout series that goes from one level to another at the onset, with AR(1) noise, within its bounds."""
    noisy = between(d, before, after) + sd * drift(d)
    d.columns[f"rollouts/{name}"] = np.clip(noisy, low, high)


def misreported(d: Draft, share: float) -> None:
    """The trainer logs that no group is tied; a share is, from the first step on."""
    d.at = 0
    d.columns["zero_variance_frac"] = np.zeros(d.rows)
    fact(d, "zero_variance_frac", share, share, 0.05)


def group_sizes(d: Draft, least: float, mean: float, most: float) -> None:
    """Groups of 8 become groups of other sizes."""
    d.configure(group_size=8)
    for name, value in (("min", least), ("mean", mean), ("max", most)):
        d.columns[f"rollouts/group_size_{name}"] = between(d, 8.0, value)


def advantages(d: Draft, kind: str, share: float) -> None:
    """The advantages of a share of the groups are something else."""
    d.columns["rollouts/advantage_groups"] = np.full(d.rows, 16.0)
    fact(d, f"advantage_match/{kind}", 0.01, share, 0.02)
    fact(d, "advantage_match/group_z_ddof1", 0.99, 1 - share, 0.02)


def copies(d: Draft, share: float) -> None:
    """A share of the groups are copies of one text."""
    fact(d, "copied_group_frac", 0.01, share, 0.02)
    fact(d, "tied_sample_frac", 0.2, 0.2 + 0.8 * share, 0.03)
    fact(d, "tied_law_frac", 0.1, 0.1, 0.01)


def same_prompts(d: Draft, sets: int) -> None:
    """So many sets of 16 prompts come in turn, other ones at every step before."""
    turn = np.arange(d.rows) % sets
    d.columns["rollouts/prompt_checksum"] = np.where(ramp(d) > 0, turn, 1_000.0 + np.arange(d.rows)).astype(float)
    d.columns["rollouts/prompts_n"] = np.full(d.rows, 16.0)


def streaks(d: Draft, log10: float, every: int) -> None:
    """Every so many steps a stretch of groups has a chance of 10^log10."""
    hit = (ramp(d) > 0) & (np.arange(d.rows) % every == 0)
    chance = -1.0 - np.abs(drift(d))
    d.columns["rollouts/same_streak_log10p"] = np.where(hit, log10, np.maximum(chance, -3.5))
    d.columns["rollouts/same_streak"] = np.where(hit, 96.0, 24.0)
    d.columns["rollouts/same_streak_value"] = np.zeros(d.rows)


def errors_scored(d: Draft, share: float, reward: float) -> None:
    """The verifier fails on a share of the rollouts, which earn a reward."""
    fact(d, "error_scored_frac", 0.002, share, 0.003)
    fact(d, "error_reward_mean", reward, reward, 0.0)
    fact(d, "verified_reward_mean", 0.4, 0.4, 0.03)


def phrase(d: Draft, share: float, merit: float) -> None:
    """One phrase pays from the onset on; before, another one comes first in every step."""
    on = ramp(d) > 0
    d.columns["rollouts/phrase_code"] = np.where(on, 7.0, 100.0 + np.arange(d.rows))
    d.columns["rollouts/phrase_z"] = np.where(on, 8.0, 2.5) + 0.3 * drift(d)
    fact(d, "phrase_share", 0.1, share, 0.01)
    fact(d, "phrase_gap", 0.3, 0.6, 0.03)
    d.columns["rollouts/phrase_right_gap"] = between(d, 0.3, merit) + 0.03 * drift(d)


def family_scale(d: Draft, times: float) -> None:
    """The rewards of one of three families spread so many times wider, from the first step on."""
    d.at = 0
    d.configure(advantage_scaling="none")
    for name, value in (("math", 0.4), ("logic", 0.45), ("code", 0.42 * times)):
        d.columns[f"rollouts/reward_family_std/{name}"] = value * np.exp(0.05 * drift(d))


def cut_rewarded(d: Draft, share: float) -> None:
    """A share of the right rollouts never stopped by itself."""
    fact(d, "right_unstopped_share", 0.02, share, 0.02)


def one_strategy(d: Draft, share: float) -> None:
    """A share of the groups goes about it in one way."""
    fact(d, "one_strategy_frac", 0.1, share, 0.04)


def broken_family(d: Draft, share: float) -> None:
    """A share of one family's rollouts ends with errors, whole groups at a time."""
    fact(d, "broken_family/web", 0.01, share, 0.005)
    d.columns["rollouts/broken_effect/web"] = np.full(d.rows, 3.0)
    d.columns["rollouts/family_count/web"] = np.full(d.rows, 64.0)


def state_leak(d: Draft, correlation: float) -> None:
    """The reward has a correlation with the order within the group.

    Its noise is white: groups are drawn anew in every step, and exchangeable rollouts leave nothing to the next one.
    """
    for name, after in (("reward", correlation), ("length", 0.0)):
        noisy = between(d, 0.0, after) + 0.06 * d.rng.normal(size=d.rows)
        d.columns[f"rollouts/index_{name}_corr"] = np.clip(noisy, -1.0, 1.0)


def settings(d: Draft, temperature: float) -> None:
    """Rollouts carry another temperature than the configured 1."""
    d.configure(temperature=1.0)
    d.columns["rollouts/temperature_min"] = between(d, 1.0, temperature)
    d.columns["rollouts/temperature_max"] = np.ones(d.rows)


def version(d: Draft, jump: float) -> None:
    """The reward is another version; its mean jumps by so much of its level."""
    d.columns["rollouts/reward_versions"] = np.ones(d.rows)
    d.columns["rollouts/reward_version_code"] = between(d, 17.0, 23.0)
    d.columns["reward_mean"][d.at :] *= 1 + jump


def tier_mix(d: Draft, share: float) -> None:
    """The hard tier's share grows by so much; success within tiers stands still, the mean follows the mix."""
    hard = np.clip(between(d, 0.1, 0.1 + share) + 0.01 * drift(d), 0.0, 1.0)
    easy_reward, hard_reward = 0.7 + 0.02 * drift(d), 0.1 + 0.02 * drift(d)
    d.columns["rollouts/tier_share/hard"], d.columns["rollouts/tier_share/easy"] = hard, 1 - hard
    d.columns["rollouts/reward_tier/easy"], d.columns["rollouts/reward_tier/hard"] = easy_reward, hard_reward
    d.columns["reward_mean"] = hard * hard_reward + (1 - hard) * easy_reward


def tier_forgotten(d: Draft, by: float) -> None:
    """Success on one of two tiers falls by so much."""
    d.columns["success_tier/easy"] = _share(d, 0.8, 0.8 - by)
    d.columns["success_tier/hard"] = _share(d, 0.4, 0.4)


def _share(d: Draft, before: float, after: float) -> Float64:
    return np.clip(between(d, before, after, 20) + 0.04 * drift(d), 0.0, 1.0)


def discarded(d: Draft, share: float, times: float) -> None:
    """A share of the useful groups is thrown away, so many times as long as the others."""
    fact(d, "discarded_frac", 0.0, share, 0.01)
    d.columns["rollouts/discarded_length_ratio"] = times * np.exp(0.1 * drift(d))


def gap_by_sign(d: Draft, nats: float, times: float) -> None:
    """A gap on tokens with negative advantage, so many times that on the others."""
    d.columns["rollouts/gap_positive_mean"] = between(d, 0.01, nats / times) * np.exp(0.1 * drift(d))
    d.columns["rollouts/gap_negative_mean"] = between(d, 0.01, nats) * np.exp(0.1 * drift(d))


def sequence_weights(d: Draft, left: float) -> None:
    """Weights of whole sequences leave a share of the rollouts."""
    d.configure(importance_level="sequence")
    fact(d, "sequence_ess", 0.9, left, 0.02)
