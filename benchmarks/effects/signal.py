"""Effects for the checks of the learning signal (S) and of the update (U)."""

from __future__ import annotations

import numpy as np

from benchmarks.effects.draft import Draft, between, drift, here, ramp, shares, steer
from benchmarks.effects.reward import flat as flat_reward


def tied(d: Draft, share: float, *, flat: bool = False) -> None:
    """Groups without a reward difference, two thirds of them all wrong; `flat`: the reward never rises."""
    if flat:
        at = d.at
        flat_reward(d)
        d.at = at
    ties = d.rng.binomial(d.spec.prompts, shares(d, share, 10_000))
    wrong = d.rng.binomial(ties, 2 / 3)
    for name, count in (("zero_variance_frac", ties), ("all_wrong_frac", wrong), ("all_right_frac", ties - wrong)):
        d.columns[name][d.at :] = (count / d.spec.prompts)[d.at :]


def equals_score(d: Draft) -> None:
    """The advantages are the rewards, from the first step on."""
    d.at = 0
    for kind in ("max", "min", "mean"):
        d.columns[f"advantage_{kind}"] = d.columns[f"reward_{kind}"].copy()


def offset(d: Draft, of_std: float, length_spread: float | None = None) -> None:
    """The advantages average a share of their std; lengths spread by a share of their mean, where that is logged."""
    if length_spread is not None:
        d.columns["length_std"] = length_spread * d.columns["length_mean"]
    d.columns["advantage_mean"] = d.columns["advantage_std"] * (of_std * ramp(d) + 0.005 * drift(d))


def small_group(d: Draft, rate: float) -> None:
    """Groups of two at a pass rate, from the first step on."""
    d.at = 0
    d.configure(group_size=2)
    d.columns["success_frac"] = shares(d, rate)


def no_reward_gradient(d: Draft, rows: float) -> None:
    """Every group is tied in a share of the rows; the gradient norm stays above 0."""
    dead = (d.rng.random(d.rows) < rows)[d.at :]
    for name in ("zero_variance_frac", "all_wrong_frac"):
        d.columns[name][d.at :] = np.where(dead, 1.0, 0.8)
    d.columns["all_right_frac"][d.at :] = 0.0
    d.columns["grad_norm"][d.at :] = 0.1 * here(d, "grad_norm") * np.exp(0.2 * drift(d))[d.at :]


def gradient_zero(d: Draft) -> None:
    """The gradient norm is exactly 0; the groups are as they were."""
    d.columns["grad_norm"][d.at :] = 0.0


def spikes(d: Draft, rows: float, times: float) -> None:
    """A share of the gradient norms is a multiple of their level."""
    hit = (d.rng.random(d.rows) < rows) & (ramp(d) > 0)
    noise = np.exp(0.1 * drift(d))
    d.columns["grad_norm"] = np.where(hit, times * here(d, "grad_norm") * noise, d.columns["grad_norm"])


def clipped(d: Draft, share: float) -> None:
    """The clip fraction grows to a share within 50 rows."""
    steer(d, "clip_frac", share, 50)


def never_clipped(d: Draft, *, same: bool) -> None:
    """The clip fraction is 0 in every row; `same`: old and new log-probabilities are equal too."""
    d.at = 0
    d.columns["clip_frac"][:] = 0.0
    if same:
        d.columns["kl_old_new"][:] = 0.0


def first_ratio(d: Draft, clip: float) -> None:
    """With one update per rollout batch, the clip fraction goes from 0.0005 to a share."""
    d.configure(updates_per_rollout=1)
    d.columns["clip_frac"] = between(d, 0.0005, clip) * np.exp(0.3 * drift(d))


def deflated(d: Draft, weight: float) -> None:
    """The importance weights average less than 1."""
    d.columns["sampler_ratio_mean"] = between(d, 1.0, weight) * np.exp(0.02 * drift(d))


def loss_zero(d: Draft) -> None:
    """The loss of a token mean is exactly 0."""
    d.configure(loss_aggregation="token mean")
    d.columns["loss"][d.at :] = 0.0


def no_movement(d: Draft) -> None:
    """The KL to the reference is exactly 0 in every row."""
    d.at = 0
    d.columns["kl_ref"][:] = 0.0


def masked(d: Draft, share: float) -> None:
    """Truncated completions, which are left out of the loss."""
    d.configure(masks_truncated=True)
    d.columns["truncated_frac"][d.at :] = shares(d, share)[d.at :]


def loss_spikes(d: Draft, rows: float, size: float) -> None:
    """A share of the losses explodes to a size, at least 60 times their own."""
    hit = (d.rng.random(d.rows) < rows) & (ramp(d) > 0)
    for name in ("loss", "policy_loss"):
        burst = max(size, 60 * float(np.median(np.abs(d.columns[name])))) * np.exp(0.1 * np.abs(drift(d)))
        d.columns[name] = np.where(hit, burst, d.columns[name])
