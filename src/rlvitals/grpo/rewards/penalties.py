"""Penalties on length and repetition, each from 0 (nothing to punish) to 1; their weight in a plan is negative."""

from __future__ import annotations

from rlvitals.grpo.rewards.plan import Completion

SOFT_SHARE = 0.2  # share of the budget over which the penalty rises; DAPO, arXiv 2503.14476: 4,096 of 20,480 tokens
RUN = 4  # tokens of a run that counts as repeated; convention (distinct-n is usually reported up to 4)


def overlong(completion: Completion) -> float:
    """Return 0 up to 80% of the token budget, then linearly up to 1 at the full budget.

    Source: soft overlong punishment, DAPO, arXiv 2503.14476, eq. 13, with its sign turned.
    """
    soft = completion.budget * SOFT_SHARE
    over = len(completion.ids) - (completion.budget - soft)
    return min(1.0, max(0.0, over / soft)) if soft > 0 else 0.0


def repetition(completion: Completion) -> float:
    """Return the share of runs of 4 tokens that stood in the completion before; 0 for fewer than 8 tokens."""
    ids = tuple(completion.ids)
    runs = [ids[i : i + RUN] for i in range(len(ids) - RUN + 1)]
    return 1.0 - len(set(runs)) / len(runs) if len(ids) >= 2 * RUN else 0.0
