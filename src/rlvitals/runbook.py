"""The literal rules of "Runbook: GRPO training-run health check", for comparison and for those who cite it.

Same signatures, same results as the document's own block. These are its starting points, one step at a time, with
fixed limits; on healthy runs several of them fire often (docs/measurements.md: Runbook literals). `rlvitals.diagnose`
asks the same six questions of a whole run, against its own history:

    zero_variance_groups  S001  share of tied groups, not "all tied"
    entropy_collapsed     E001  fall from the run's own start and time to its floor
    entropy_near_random   E003  near the uniform limit, as in a broken model
    entropy_rising        E004  a lasting rise out of the run's own band
    kl_blowup             K001  growth that does not settle, whatever the level
    reward_saturated      R009  against the reward's own range, with the held-out score
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlvitals.schema import Float64


def group_advantage_stats(
    rewards: Sequence[float] | Float64, group_size: int, eps: float = 1e-4
) -> tuple[float, float]:
    """Return mean and std of the advantages that centring and scaling within each group of `group_size` gives.

    Args:
        rewards: float[groups * group_size], the rollouts of a group next to each other.

    Raises:
        ValueError: a reward is not finite, or the number of rewards is no multiple of `group_size`.
    """
    r = np.asarray(rewards, dtype=float)
    if not np.isfinite(r).all():
        at = int(np.flatnonzero(~np.isfinite(r.ravel()))[0])
        raise ValueError(f"rewards: value {at} is {r.ravel()[at]}; expected finite numbers")
    if group_size < 1 or r.size == 0 or r.size % group_size:
        raise ValueError(f"rewards: found {r.size} values; expected a multiple of group_size {group_size}")
    r = r.reshape(-1, group_size)
    adv = (r - r.mean(axis=1, keepdims=True)) / (r.std(axis=1, keepdims=True) + eps)
    return float(adv.mean()), float(adv.std())


def diagnose(
    reward_mean: float,
    advantage_std: float,
    entropy: float,
    entropy_trend: float,
    kl: float,
    vocab_size: float,
    zero_var_eps: float = 1e-3,
    entropy_collapse: float = 0.5,
    entropy_random_frac: float = 0.9,
    kl_alarm: float = 0.10,
) -> set[str]:
    """Return the findings that the runbook's procedure flags from one step's, or one window's, metrics.

    Raises:
        ValueError: an argument is not finite (a comparison with NaN would be silently false), or vocab_size is below 1.
    """
    given = {
        "reward_mean": reward_mean,
        "advantage_std": advantage_std,
        "entropy": entropy,
        "entropy_trend": entropy_trend,
        "kl": kl,
        "vocab_size": vocab_size,
        "zero_var_eps": zero_var_eps,
        "entropy_collapse": entropy_collapse,
        "entropy_random_frac": entropy_random_frac,
        "kl_alarm": kl_alarm,
    }
    bad = [f"{name} is {value}" for name, value in given.items() if not math.isfinite(value)]
    if bad:
        raise ValueError(f"{', '.join(bad)}; expected finite numbers")
    if vocab_size < 1:
        raise ValueError(f"vocab_size is {vocab_size}; expected at least 1")
    flags = {
        "zero_variance_groups": advantage_std < zero_var_eps,
        "entropy_collapsed": entropy < entropy_collapse,
        "entropy_near_random": entropy > entropy_random_frac * math.log(vocab_size),
        "entropy_rising": entropy_trend > 0.02,
        "kl_blowup": kl > kl_alarm,
        "reward_saturated": reward_mean > 0.98,
    }
    return {name for name, hit in flags.items() if hit}
