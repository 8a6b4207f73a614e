"""open-instruct's grpo_fast: W&B history (its only sink), key generations of 2025 and 2026.

Nearly every statistic is taken over the groups that are trained: tied groups are dropped before (by default).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.ingest.open_instruct_words import INFO
from rlvitals.schema import Direction, Float64, Provenance, RunConfig, Scope, Status

_REF, _SMP, _KEPT = Direction.TO_REFERENCE, Direction.SAMPLER_TRAINER, Scope.KEPT

_DROPPED = "tied groups were dropped before (filter_zero_std_samples)"
_SCALE = "in points of verification_reward, 10 by default"
_OFF_BY_ONE = "steps - 1: training_step minus model_step is 1 on policy"

_KEYS: dict[str, Key] = {
    "scores": Key("reward_mean", note=_SCALE),
    "objective/verifiable_correct_rate": Key("success_frac"),
    "objective/verifiable_reward": Key("reward_part/verifiable", note=_SCALE),
    "val/format_scores": Key("reward_part/format"),
    "batch/filtered_prompts_pct": Key("zero_variance_frac", scope=Scope.ALL, note="tied groups of all that were seen"),
    "val/advantages_mean": Key("advantage_mean", estimator="sequence mean"),
    "val/advantages_min": Key("advantage_min"),
    "val/advantages_max": Key("advantage_max"),
    "val/sequence_lengths": Key("length_mean", note="tool tokens included"),
    "val/sequence_lengths_min": Key("length_min"),
    "val/sequence_lengths_max": Key("length_max"),
    "val/sequence_lengths_solved": Key("length_right_mean", note="full score; 0 when there is none"),
    "val/sequence_lengths_unsolved": Key("length_wrong_mean", note="score 0; 0 when there is none"),
    "val/stop_rate": Key(
        "truncated_frac", scale=-1.0, offset=1.0, estimator="finish reason", transform="1 - x",
        note="every finish reason but `stop`",
    ),
    "objective/kl2_avg": Key("kl_ref", estimator="k3", direction=_REF),
    "loss/kl_avg": Key("kl_loss", note="beta x KL"),
    "loss/policy_avg": Key("policy_loss"),
    "loss/total_avg": Key("loss"),
    "policy/clipfrac_avg": Key("clip_frac", estimator="token"),
    "policy/entropy_avg": Key("entropy", estimator="full vocabulary"),
    "val/ratio": Key("ratio_mean"),
    "debug/vllm_vs_local_logprob_diff_mean": Key("logprob_gap_mean"),
    "debug/vllm_vs_local_logprob_diff_max": Key("logprob_gap_max"),
    "val/rho_weight": Key("sampler_ratio_mean", estimator="after truncation", direction=_SMP),
    "num_steps_off_policy": Key("version_lag_mean", offset=-1.0, transform="x - 1", note=_OFF_BY_ONE),
    "optim/grad_norm": Key("grad_norm"),
    "lr": Key("learning_rate"),
    "tools/aggregate/failure_rate": Key("tool_failure_frac"),
    "time/total": Key("step_time_s"),
    "learner_tokens_per_second_step": Key("tokens_per_second", note="all learners"),
    "val/num_total_tokens": Key("tokens_total"),
    "epoch": Key("epoch"),
}  # fmt: skip

# Of these all groups count; the rest describes the kept ones alone.
_NOT_FILTERED = frozenset(
    {"batch/filtered_prompts_pct", "num_steps_off_policy", "optim/grad_norm", "lr", "time/total", "epoch",
     "learner_tokens_per_second_step", "val/num_total_tokens"}
)  # fmt: skip

_PATTERNS: tuple[tuple[str, Key], ...] = (
    ("objective/{}_reward", Key("reward_family/{}", note="the rollouts that this verifier scores; " + _SCALE)),
)

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval/pass_at_{}_unbiased", "eval pass@{} unbiased"),
    EvalKey("eval/pass_at_1", "eval"),
    EvalKey("eval/pass_at_{}", "eval pass@{}"),
    EvalKey("eval/objective/verifiable_correct_rate", "eval correct"),
    EvalKey("eval/objective/{}_correct_rate", "eval {}"),
    EvalKey("eval/scores", "eval scores", metric="reward", note=_SCALE),
)

_IGNORED: tuple[str, ...] = (
    "global_step",  # counts episodes
    "objective/{}_correct_rate",
    "objective/kl{}_avg",
    "objective/kl_avg",
    "objective/scores",
    "real_batch_size_ratio",
    "unsolved_batch_size_ratio",
    "packed_ratio",
    "val/{}",
    "batch/{}",
    "debug/{}",
    "model_step_{}",
    "stale_results_dropped",
    "tools/{}",
    "env/{}",
    "time/{}",
    "eval/{}",
    "learner_tokens_per_second_{}",
    "_timestamp",
    "_runtime",
)


def _matches(keys: frozenset[str]) -> int:
    if "objective/verifiable_correct_rate" in keys:
        return 97
    if "scores" in keys and keys & {"val/sequence_lengths", "real_batch_size_ratio"}:
        return 95
    return 70 if {"objective/kl3_avg", "policy/clipfrac_avg"} <= keys else 0


_KL_NAMES = {0: "k1", 1: "k2", 2: "k3", 3: "ratio k1"}  # config value of kl_estimator since the keys count from 0
_OLD_KL = {"kl1": "k1", "kl2": "k2", "kl3": "k3", "kl4": "ratio k1"}


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Set the scope by the filter, and the estimators of the older keys: there kl2 is k2 and kl3 is k3."""
    out: dict[str, Key] = {}
    if "objective/kl0_avg" not in keys and keys & {"objective/kl_avg", "objective/kl4_avg"}:
        out["objective/kl2_avg"] = Key("kl_ref", estimator="k2", direction=_REF, note="keys of 2025: kl2 is k2")
        out["objective/kl3_avg"] = Key("kl_ref", estimator="k3", direction=_REF, note="keys of 2025: kl3 is k3")
    if config.drops_zero_variance is False:
        return out
    for name, key in {**_KEYS, **out}.items():
        if name not in _NOT_FILTERED:
            out[name] = replace(key, scope=_KEPT, note="; ".join(t for t in (key.note, _DROPPED) if t))
    return out


def _share(pct: Float64, part: Float64, all_filtered: Float64) -> Float64:
    """Return the share of one kind of tied groups: part of the filtered ones, times their share of all groups."""
    return np.asarray(np.where(np.asarray(all_filtered) > 0, pct * part / np.maximum(all_filtered, 1), 0.0))


def _oldest(step: Float64, oldest: Float64) -> Float64:
    return np.asarray(step - oldest - 1.0, dtype=np.float64)


_FILTERED = ("batch/filtered_prompts_pct", "batch/filtered_prompts")
_DERIVED: tuple[Derived, ...] = (
    Derived(
        "all_wrong_frac", ("zero_variance_frac", "batch/filtered_prompts_zero", "batch/filtered_prompts"), _share,
        "filtered_pct x filtered_zero / filtered",
    ),
    Derived(
        "all_right_frac", ("zero_variance_frac", "batch/filtered_prompts_solved", "batch/filtered_prompts"), _share,
        "filtered_pct x filtered_solved / filtered",
    ),
    Derived("version_lag_max", ("training_step", "model_step_min"), _oldest, "training_step - model_step_min - 1"),
)  # fmt: skip


def _finish(provenance: Mapping[str, Provenance], config: RunConfig) -> dict[str, Provenance]:
    """Without the filter nothing is counted as filtered: the zero is no measurement."""
    out = dict(provenance)
    if config.drops_zero_variance is False:
        for name in ("zero_variance_frac", "all_wrong_frac", "all_right_frac"):
            if name in out:
                out[name] = replace(out[name], status=Status.PLACEHOLDER, note="filter_zero_std_samples is off")
    return out


_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("num_samples_per_prompt_rollout",),
    "prompts_per_step": ("num_unique_prompts_rollout",),
    "updates_per_rollout": ("num_mini_batches",),
    "clip_low": ("clip_lower",),
    "clip_high": ("clip_higher",),
    "kl_coef": ("beta",),
    "reference_reset_steps": ("ref_policy_update_freq",),
    "temperature": ("temperature",),
    "top_p": ("vllm_top_p",),
    "token_budget": ("response_length",),
    "loss_type": ("loss_fn",),
    "drops_zero_variance": ("filter_zero_std_samples",),
    "masks_truncated": ("mask_truncated_completions",),
    "learning_rate": ("learning_rate",),
    "sampler_correction": ("use_rho_correction",),
    "lr_schedule": ("lr_scheduler_type",),
    "warmup_steps": ("warm_up_steps",),
    "planned_steps": ("num_training_steps",),
    "max_grad_norm": ("max_grad_norm",),
    "max_version_lag": ("max_result_age_steps", "async_steps"),
    "reward_max": ("max_possible_score",),
    "model": ("model_name_or_path",),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return estimator, aggregation and scaling, which open-instruct writes as numbers or in its own words."""
    out: dict[str, tuple[object, str]] = {}
    estimator = flat.get("kl_estimator")
    names = _OLD_KL | {str(number): name for number, name in _KL_NAMES.items()}
    if str(estimator) in names:
        out["kl_estimator"] = (names[str(estimator)], "kl_estimator")
    denominator = flat.get("loss_denominator")
    if denominator is not None:
        out["loss_aggregation"] = ("token mean" if denominator == "token" else "constant length", "loss_denominator")
    scaling = {"standard": "group", "centered": "none"}.get(str(flat.get("advantage_normalization_type")))
    if scaling is not None:
        out["advantage_scaling"] = (scaling, "advantage_normalization_type")
    if flat.get("load_ref_policy") is False:
        out["loads_reference"] = (False, "load_ref_policy")
    lag = flat.get("async_steps")
    if isinstance(lag, int) and not isinstance(lag, bool):
        out["asynchronous"] = (lag > 0, "async_steps")
    return out


ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("training_step", "_step"),
    keys=_KEYS,
    patterns=_PATTERNS,
    evals=_EVALS,
    derived=_DERIVED,
    ignore=_IGNORED,
    config=_CONFIG,
    refine=_refine,
    finish=_finish,
    config_rules=_config_rules,
    fixed=RunConfig(
        advantage_estimator="grpo", importance_level="token", kl_in_reward=False,
        sources=dict.fromkeys(("advantage_estimator", "importance_level", "kl_in_reward"), "open-instruct grpo_fast"),
    ),
)  # fmt: skip
