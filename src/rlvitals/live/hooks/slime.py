"""slime: its custom log functions, named on the command line.

    --custom-rollout-log-function-path rlvitals.live.hooks.slime.log_rollout
    --custom-eval-rollout-log-function-path rlvitals.live.hooks.slime.log_eval

They see every sample of the rollout half; rows go to the directory of the variable RLVITALS_DIR (`vitals` by default).
Loss, gradients and KL are logged by another process: follow its TensorBoard folder with `rlvitals check --follow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlvitals.env import StopReason
from rlvitals.live.hooks.common import harmless, said, shared
from rlvitals.live.monitor import Monitor

_STOPS = {
    "completed": StopReason.EOS, "truncated": StopReason.BUDGET, "aborted": StopReason.ENV, "failed": StopReason.ERROR,
}  # fmt: skip


def log_rollout(
    rollout_id: int,
    args: Any,
    samples: Iterable[Any],
    rollout_extra_metrics: Mapping[str, Any] | None,
    rollout_time: float,
) -> bool:
    """Take the samples of a rollout; return False, so that slime logs as it always does."""
    monitor = shared("slime")
    with harmless(monitor, "slime"):
        take(monitor, rollout_id, args, list(samples), rollout_extra_metrics or {})
    return False


def log_eval(
    rollout_id: int, args: Any, data: Mapping[str, Any], extra_metrics: Mapping[str, Any] | None = None
) -> bool:
    """Take the held-out rewards of each set; return False, so that slime logs as it always does."""
    monitor = shared("slime")
    with harmless(monitor, "slime"):
        for name, found in data.items():
            rewards = [r for r in (_number(x) for x in found.get("rewards") or ()) if r is not None]
            if rewards:
                monitor.add_eval(str(name), rollout_id, sum(rewards) / len(rewards), items=len(rewards))
    return False


def take(monitor: Monitor, rollout_id: int, args: Any, samples: Sequence[Any], extra: Mapping[str, Any]) -> None:
    """Feed one rollout to a monitor: what slime counts itself, under its own names, and every sample."""
    flat = [s for sample in samples for s in (sample if isinstance(sample, list) else [sample])]
    key = getattr(args, "reward_key", None)
    rewards = [r for r in (_reward(s, key) for s in flat) if r is not None]
    row = dict(extra)
    if rewards:
        row["rollout/raw_reward"] = sum(rewards) / len(rewards)
    if flat:
        row["rollout/response_len/mean"] = sum(int(s.response_length) for s in flat) / len(flat)
        row["rollout/truncated_ratio"] = sum(_status(s) == "truncated" for s in flat) / len(flat)
    monitor.log(rollout_id, row)
    monitor.log_rollouts(rollout_id, [_rollout(s, key) for s in flat])
    request = monitor.stop_due()
    if request is not None:
        said(request, "this run should stop; slime has no switch for it")


def _rollout(sample: Any, key: str | None) -> dict[str, Any]:
    versions = [v for v in getattr(sample, "weight_versions", None) or [] if str(v).isdigit()]
    reward = sample.reward
    return {
        "group": str(sample.group_index),
        "index": sample.index,
        "prompt": sample.prompt if isinstance(sample.prompt, str) else None,
        "completion": sample.response,
        "gold": sample.label,
        "tokens": sample.response_length,
        "reward": _reward(sample, key),
        "reward_parts": reward if isinstance(reward, Mapping) else None,
        "stop_reason": _STOPS.get(_status(sample)),
        "policy_version": int(versions[-1]) if versions else None,
    }


def _status(sample: Any) -> str:
    status = getattr(sample, "status", None)
    return str(getattr(status, "value", status))


def _reward(sample: Any, key: str | None) -> float | None:
    found = sample.reward
    return _number(found.get(key) if isinstance(found, Mapping) and key else found)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
