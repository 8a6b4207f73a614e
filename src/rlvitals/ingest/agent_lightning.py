"""agent-lightning: verl's keys and sinks, and its own counts of rollouts and groups under `training/`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlvitals.ingest import verl
from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.schema import Float64, TrainerInfo

_MARKS = ("training/n_zero_adv_groups", "training/n_rollouts_w_trace", "training/n_rollouts_w_reward")

_KEYS: dict[str, Key] = {"training/reward": Key("reward_mean", note="mean over rollouts; verl's own is over turns")}

_EVALS: tuple[EvalKey, ...] = (EvalKey("val/reward", "val reward", metric="reward"),)


def _quotient(part: Float64, whole: Float64) -> Float64:
    return np.asarray(part / whole, dtype=np.float64)


def _lost(all_rollouts: Float64, with_reward: Float64) -> Float64:
    return np.asarray(1.0 - with_reward / all_rollouts, dtype=np.float64)


_DERIVED: tuple[Derived, ...] = (
    Derived(
        "zero_variance_frac", ("training/n_zero_adv_groups", "training/n_groups"), _quotient,
        "n_zero_adv_groups / n_groups",
    ),
    Derived("truncated_frac", ("training/n_truncated_sample", "training/n_sample"), _quotient,
            "n_truncated_sample / n_sample"),
    Derived(
        "verifier_error_frac", ("training/n_rollouts", "training/n_rollouts_w_reward"), _lost,
        "1 - n_rollouts_w_reward / n_rollouts", "rollouts that came back without a reward",
    ),
    Derived("turns_mean", ("training/n_turns", "training/n_rollouts"), _quotient, "n_turns / n_rollouts"),
)  # fmt: skip

_IGNORED: tuple[str, ...] = ("training/{}", "val/{}", "critic/n_transition_after_dropping")


def _matches(keys: frozenset[str]) -> int:
    return 99 if "training/reward" in keys and keys & set(_MARKS) else 0


_EVENT = "send it as a reward event of the rollout (its source and reason are kept on the server)"
_HOOK = "log it from a RolloutHooks subclass (on_succeeded): it sees the events of each rollout"

ADAPTER: Adapter = replace(
    verl.ADAPTER,
    info=TrainerInfo(
        name="agent-lightning",
        knobs={
            **verl.ADAPTER.info.knobs,
            "reward_function": "the reward that your agent emits",
            "verifier": "the reward that your agent emits",
            "parser": "the reward that your agent emits",
            "curriculum": "the order of the tasks that are enqueued",
            "mixture": "the tasks that are enqueued",
        },
        how_to_log={
            **verl.ADAPTER.info.how_to_log,
            "zero_variance_frac": "logged by default (training/n_zero_adv_groups and training/n_groups)",
            "verifier_error_frac": "logged by default (training/n_rollouts_w_reward of training/n_rollouts)",
            "reward_part/*": _EVENT,
            "reward_family/*": _HOOK,
            "success_frac": _HOOK,
            "success_tier/*": _HOOK,
            "parse_failure_frac": _HOOK,
            "stop_frac/*": _HOOK,
            "rollouts": "trainer.logger includes wandb  # step_N/train_trajectories.jsonl.zip is an artifact",
        },
        step_base=1,
        defaults=verl.ADAPTER.info.defaults,
    ),
    matches=_matches,
    keys={**_KEYS, **{name: key for name, key in verl.ADAPTER.keys.items() if key.metric != "reward_mean"},
          **{name: key for name, key in verl.ADAPTER.keys.items() if key.metric == "reward_mean"}},
    evals=(*_EVALS, *verl.ADAPTER.evals),
    derived=(*_DERIVED, *verl.ADAPTER.derived),
    ignore=(*_IGNORED, *verl.ADAPTER.ignore),
)  # fmt: skip
