"""TRL's experimental asynchronous GRPO trainer: TRL's keys, but `kl` is between old and new policy, and there is a lag.

It has no reference model, and its old log-probabilities are the sampler's: ratio and `kl` hold the sampler gap too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlvitals.ingest import trl
from rlvitals.ingest.adapter import Adapter, Key
from rlvitals.schema import Direction, RunConfig, TrainerInfo

_WITH_SAMPLER = "old log-probabilities are the sampler's: the sampler gap is in it"

KEYS: dict[str, Key] = {
    **trl.KEYS,
    "kl": Key("kl_old_new", estimator="k3", direction=Direction.OLD_NEW, note="not to a reference; " + _WITH_SAMPLER),
    "ratio": Key("ratio_mean", note=_WITH_SAMPLER),
    "reward_std": Key("reward_std", estimator="group", note="mean over the samples of their group's std"),
    "training_tok/s": Key("tokens_per_second"),
}
PATTERNS: tuple[tuple[str, Key], ...] = (("rewards/{}", Key("reward_part/{}")),)

IGNORE: tuple[str, ...] = ("forward_time_s", "weight_sync_time_s", "train_seq_len")

_MARKS = ("training_tok/s", "weight_sync_time_s", "forward_time_s", "batch/groups_per_step")


def _matches(keys: frozenset[str]) -> int:
    bare = {key.removeprefix("train/") for key in keys}
    lags = any(key.startswith("sample/staleness") for key in bare)
    if "reward" in bare and "ratio" in bare and (lags or bare & set(_MARKS)):
        return 92
    return 91 if lags and {"reward", "completions/mean_length"} <= bare else 0


def _refine(keys: frozenset[str], config: RunConfig) -> Mapping[str, Key]:
    """Undo TRL's guesses by version: here every release means the same."""
    return {}


_NOTHING = (
    "not possible without code: there is no reference model; train with the synchronous GRPOTrainer and `beta` above 0"
)
_SCORE = (
    "not possible without code: in `_score_group` of async_rollout_worker.py, `sample.metrics['{}'] = {}`; every "
    "key of it is averaged into the log"
)

INFO = TrainerInfo(
    name="TRL async",
    knobs={
        **{name: text for name, text in trl.KNOBS.items()
           if name not in ("kl_coef", "reference_reset_steps", "importance_level", "top_p", "top_k")},
        "updates_per_rollout": "one update per batch from the queue; weight_sync_steps between transfers",
        "max_version_lag": "max_staleness",
        "sync": "weight_sync_steps and max_staleness",
    },
    how_to_log={
        **trl.HOW_TO_LOG,
        "kl_ref": _NOTHING,
        "kl_old_new": "logged as `kl`",
        "ratio_mean": "logged as `ratio`",
        "version_lag_mean": "logged as `sample/staleness_mean` (TRL 1.12 and newer)",
        "version_lag_max": "logged as `sample/staleness_max` (TRL 1.12 and newer)",
        "reward_family/*": _SCORE.format("reward_family/NAME", "reward"),
        "success_frac": _SCORE.format("success_frac", "float(reward > 0)"),
        "success_tier/*": _SCORE.format("success_tier/NAME", "float(reward > 0)"),
        "parse_failure_frac": _SCORE.format("parse_failure_frac", "value"),
        "truncated_frac": _SCORE.format("truncated_frac", "float(len(ids) >= self.max_tokens)"),
        "length_right_mean": _SCORE.format("length_right_mean", "float(len(ids))") + ", where the answer is right",
        "stop_frac/*": _SCORE.format("stop_frac/eos", "value"),
        "zero_variance_frac": _SCORE.format("zero_variance_frac", "float(reward_std == 0)"),
        "evals": "not possible without code: this trainer has no evaluation loop; score checkpoints elsewhere and pass "
        "`--evals NAME=FILE`",
        "rollouts": "set `log_completions=True` and `report_to='trackio'`: traces with group id and policy version",
    },
    step_base=1,
    defaults={
        "group_size": "num_generations 8 (TRL 1.10)",
        "token_budget": "max_completion_length 2048 (TRL 1.10)",
        "temperature": "1.0 (TRL 1.10)",
        "clip_low": "epsilon 0.2 (TRL 1.10)",
        "learning_rate": "1e-6 (TRL 1.10)",
        "max_version_lag": "max_staleness 4 (TRL 1.10)",
    },
)  # fmt: skip

_FIXED = ("asynchronous", "kl_coef", "loss_aggregation", "importance_level", "loads_reference", "sampler_correction")

ADAPTER: Adapter = replace(
    trl.ADAPTER,
    info=INFO,
    matches=_matches,
    keys=trl.with_prefix("train/", KEYS),
    patterns=(*PATTERNS, *trl.ADAPTER.patterns),
    ignore=(*IGNORE, *("train/" + text for text in IGNORE), *trl.ADAPTER.ignore),
    refine=_refine,
    config={**{k: v for k, v in trl.CONFIG.items() if k not in ("kl_coef", "importance_level", "loss_type")},
            "max_version_lag": ("max_staleness",)},
    fixed=RunConfig(
        asynchronous=True, kl_coef=0.0, loss_aggregation="token mean", importance_level="token", loads_reference=False,
        sampler_correction=True,
        sources=dict.fromkeys(_FIXED, "TRL's asynchronous trainer"),
    ),
)  # fmt: skip
