"""HEALTHY: runs with nothing broken that are hard to tell from sick ones."""

from __future__ import annotations

from rlvitals.lab.fault import Healthy
from rlvitals.lab.healthy import (
    bfloat16,
    calculator,
    ch6_reinforce,
    cispo,
    dapo,
    default,
    dr_grpo,
    fast_learner,
    format_beside,
    grpo,
    gspo,
    kl_settles_high,
    large_groups,
    mixed_tiers,
    plateau,
    slow_learner,
    small_batches,
    solved,
    top_p_accounted,
    two_epochs,
)

HEALTHY: tuple[Healthy, ...] = (
    default.HEALTHY,
    grpo.HEALTHY,
    dapo.HEALTHY,
    dr_grpo.HEALTHY,
    gspo.HEALTHY,
    cispo.HEALTHY,
    ch6_reinforce.HEALTHY,
    two_epochs.HEALTHY,
    kl_settles_high.HEALTHY,
    slow_learner.HEALTHY,
    fast_learner.HEALTHY,
    small_batches.HEALTHY,
    large_groups.HEALTHY,
    solved.HEALTHY,
    mixed_tiers.HEALTHY,
    plateau.HEALTHY,
    calculator.HEALTHY,
    top_p_accounted.HEALTHY,
    format_beside.HEALTHY,
    bfloat16.HEALTHY,
)
