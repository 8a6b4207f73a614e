"""One candidate log of a folder as it was read, its rewards, and whether two logs show the same run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlvitals.errors import InputError
from rlvitals.ingest import hygiene, readers, registry
from rlvitals.ingest.discover import Candidate
from rlvitals.ingest.rules import Kind, Resolver
from rlvitals.ingest.table import RawTable
from rlvitals.schema import Float64

SAME_SHARE = 0.5  # share of equal rewards in common steps above which two logs show the same run (convention)
RICHER = 1.25  # times as many values that another log must hold to be read in place of the preferred one (convention)

# Metrics that only RL training has: a log with one of them is an RL run even without a reward series.
_RL_ONLY = (
    "advantage_", "zero_variance_frac", "all_wrong_frac", "all_right_frac", "kl_ref", "kl_old_new", "clip_", "ratio_",
    "reward_", "sampler_", "kl_sampler_trainer", "logprob_gap", "version_lag",
)  # fmt: skip
Rewards = tuple[Float64, Float64]  # steps, rewards


@dataclass(frozen=True)
class Log:
    """One candidate that was read."""

    files: Candidate
    tables: tuple[RawTable, ...]
    values: int  # logged values with a known meaning


def is_rl(metric: str) -> bool:
    return metric.startswith(_RL_ONLY) or hygiene.is_reward_like(metric)


def read_log(files: Candidate) -> Log | None:
    """Return what the files hold; no values when they hold no RL metrics, None when they can't be read."""
    try:
        tables = readers.read_together(files)
    except InputError:
        return None
    keys: frozenset[str] = frozenset().union(*(table.keys() for table in tables))
    resolver = Resolver(registry.pick(keys), keys)
    if not any(is_rl(resolver.rule(key).metric) for key in keys):
        return Log(files, tuple(tables), 0)
    return Log(files, tuple(tables), sum(_known_values(table, resolver) for table in tables))


def _known_values(table: RawTable, resolver: Resolver) -> int:
    return sum(
        int(np.count_nonzero(~np.isnan(column)))
        for key, column in table.columns.items()
        if resolver.rule(key).kind in (Kind.METRIC, Kind.EVAL)
    )


def rewards_of(table: RawTable) -> Rewards | None:
    """Return (steps, rewards) of the rows that have both, None for a table without them."""
    keys = table.keys()
    resolver = Resolver(registry.pick(keys), keys)
    rules = {key: resolver.rule(key) for key in table.columns}
    rewards = [key for key, rule in rules.items() if rule.kind is Kind.METRIC and rule.metric == "reward_mean"]
    step = next((table.columns[key] for key in resolver.step_keys() if key in table.columns), None)
    if not rewards or step is None:
        return None
    reward = table.columns[min(rewards, key=lambda key: rules[key].priority)]
    both = ~np.isnan(step) & ~np.isnan(reward)
    return (step[both], reward[both]) if both.any() else None


def equal_rewards(own: Rewards, their: Rewards) -> np.ndarray:
    """Return bool[steps that both have]: whether the rewards are equal, to the digits of a console."""
    _, a, b = np.intersect1d(own[0], their[0], return_indices=True)
    return np.isclose(own[1][a], their[1][b], rtol=1e-3, atol=1e-6)


def same_run(own: Rewards, their: Rewards) -> bool:
    """True when most rewards of the steps that both have are equal."""
    same = equal_rewards(own, their)
    return bool(same.size) and float(same.mean()) > SAME_SHARE
