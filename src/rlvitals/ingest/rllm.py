"""rLLM: its own loop on the tinker, fireworks and verl backends, and the verl fork of 2025.

Rewards and groups are logged per role; with one role they are the run's own, with several each is a family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest import verl
from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.ingest.rllm_words import INFO
from rlvitals.schema import Direction, Float64, RunConfig

_SMP = Direction.SAMPLER_TRAINER
_ALL_EXTREMES = "tied groups at a reward of 1 or more, and of 0 or less; others are in neither"

# Of one role; `{}` stands for it.
_ROLE: dict[str, Key] = {
    "reward/{}/mean": Key("reward_mean"),
    "reward/{}/std": Key("reward_std", estimator="batch"),
    "reward/{}/max": Key("reward_max"),
    "reward/{}/min": Key("reward_min"),
    "advantage/{}/mean": Key("advantage_mean", estimator="sequence mean"),
    "advantage/{}/std": Key("advantage_std"),
    "advantage/{}/max": Key("advantage_max"),
    "advantage/{}/min": Key("advantage_min"),
    "batch/{}/fractions/effective": Key("zero_variance_frac", scale=-1.0, offset=1.0, transform="1 - x"),
    "batch/{}/fractions/too_easy": Key("all_right_frac", note=_ALL_EXTREMES),
    "batch/{}/fractions/too_hard": Key("all_wrong_frac", note=_ALL_EXTREMES),
}

_KEYS: dict[str, Key] = {
    "episode/correct": Key("success_frac"),
    "batch/termination_reason/max_response_length_exceeded": Key("truncated_frac", estimator="finish reason"),
    "episode/termination_reason/max_response_length_exceeded": Key("truncated_frac", estimator="finish reason"),
    "batch/step_response_length/mean": Key("length_mean", note="per turn"),
    "batch/step_response_length/min": Key("length_min", note="per turn"),
    "batch/step_response_length/max": Key("length_max", note="per turn"),
    "episode/response_tokens": Key("length_mean", note="of the whole episode"),
    "episode/prompt_tokens": Key("prompt_length_mean"),
    "episode/num_turns": Key("turns_mean"),
    "batch/steps_per_traj/mean": Key("turns_mean"),
    "train/entropy": Key("entropy", estimator="sampled", note="minus the mean log-probability of the sampler"),
    "train/kl_sample_train_v1": Key("logprob_gap_mean", note="a mean of absolute differences, despite its name"),
    "train/kl_sample_train_v2": Key("kl_sampler_trainer", estimator="k2", direction=_SMP),
    "progress/lr": Key("learning_rate"),
    "progress/epoch": Key("epoch"),
    "async/staleness_mean": Key("version_lag_mean"),
    "async/staleness_max": Key("version_lag_max"),
    "time/step": Key("step_time_s"),
}

_PATTERNS: tuple[tuple[str, Key], ...] = (
    ("batch/termination_reason/{}", Key("stop_frac/{}")),
    ("episode/termination_reason/{}", Key("stop_frac/{}")),
)

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("val/{}/pass@1", "{}"),
    EvalKey("val/{}/pass@{}", "{0} pass@{1}"),
    EvalKey("val/reward/{}/mean", "{} reward", metric="reward"),
    EvalKey("val/avg_reward", "val reward", metric="reward"),
    EvalKey("val/test_score/{}", "{}", metric="reward"),
)

_IGNORED: tuple[str, ...] = (
    "progress/{}",
    "groups/{}",
    "batch/{}",
    "episode/{}",
    "reward/{}",
    "advantage/{}",
    "async/{}",
    "train/{}",
    "time/{}",
    "val/{}",
)

_ROLE_OF = re.compile(r"reward/([^/]+)/mean")
_OWN_MARKS = ("batch/solve_partial", "progress/lr", "episode/correct", "groups/num_groups")


def _roles(keys: frozenset[str]) -> list[str]:
    return sorted(match[1] for match in map(_ROLE_OF.fullmatch, keys) if match)


def _matches(keys: frozenset[str]) -> int:
    if any(key.startswith("batch/") and key.endswith("/fractions/effective") for key in keys):
        return 98
    if _roles(keys) and any(mark in keys for mark in _OWN_MARKS):
        return 97
    # the fork of 2025 writes verl's keys and these
    return 97 if {"batch/solve_none", "batch/solve_partial"} <= keys else 0


def _refine(keys: frozenset[str], config: RunConfig) -> Mapping[str, Key]:
    """Give the role's keys their meaning: the run's when there is one role, else a family each."""
    assert verl.ADAPTER.refine is not None
    out: dict[str, Key] = dict(verl.ADAPTER.refine(keys, config))
    roles = _roles(keys)
    if not roles:
        return out
    main = "default" if "default" in roles else roles[0]
    note = "" if len(roles) == 1 else f"of the role {main}, one of {len(roles)}"
    for pattern, key in _ROLE.items():
        out[pattern.format(main)] = replace(key, note="; ".join(t for t in (key.note, note) if t))
    for role in roles:
        if role != main:
            out[f"reward/{role}/mean"] = Key("reward_family/" + role, note="another role")
    return out


def _share(part: Float64, second: Float64, third: Float64) -> Float64:
    """Return the first of three parts as a share: they are counts in the fork of 2025, shares since."""
    return np.asarray(part / (part + second + third), dtype=np.float64)


def _tied(none: Float64, every: Float64, partial: Float64) -> Float64:
    return np.asarray((none + every) / (none + every + partial), dtype=np.float64)


_SOLVED = ("batch/solve_none", "batch/solve_all", "batch/solve_partial")
_BY_CORRECTNESS = "tasks whose episodes are all right or all wrong; a shaped reward can still differ"
_DERIVED: tuple[Derived, ...] = (
    Derived("all_wrong_frac", _SOLVED, _share, "solve_none / (none + all + partial)"),
    Derived("all_right_frac", ("batch/solve_all", "batch/solve_none", "batch/solve_partial"), _share,
            "solve_all / (none + all + partial)"),
    Derived("zero_variance_frac", _SOLVED, _tied, "(none + all) / (none + all + partial)", _BY_CORRECTNESS),
)  # fmt: skip

_CONFIG: dict[str, tuple[str, ...]] = {
    **verl.ADAPTER.config,
    "group_size": ("rllm.rollout.n", "training.group_size", *verl.ADAPTER.config["group_size"]),
    "prompts_per_step": ("rllm.data.train_batch_size", "data.train_batch_size"),
    "clip_low": ("rllm.algorithm.eps_clip", *verl.ADAPTER.config["clip_low"]),
    "clip_high": ("rllm.algorithm.eps_clip_high", "rllm.algorithm.eps_clip", *verl.ADAPTER.config["clip_high"]),
    "temperature": ("rllm.rollout.train.temperature", *verl.ADAPTER.config["temperature"]),
    "top_p": ("rllm.rollout.train.top_p", *verl.ADAPTER.config["top_p"]),
    "token_budget": ("rllm.data.max_response_length", "data.max_response_length"),
    "prompt_budget": ("rllm.data.max_prompt_length", "data.max_prompt_length"),
    "loss_type": ("rllm.algorithm.loss_fn",),
    "loss_aggregation": ("rllm.algorithm.loss_agg_mode", *verl.ADAPTER.config["loss_aggregation"]),
    "advantage_estimator": ("rllm.algorithm.adv_estimator", *verl.ADAPTER.config["advantage_estimator"]),
    "advantage_scaling": ("rllm.algorithm.norm_adv_by_std_in_grpo", *verl.ADAPTER.config["advantage_scaling"]),
    "masks_truncated": ("rllm.mask_truncated_samples", "rllm.agent.overlong_filter"),
    "drops_zero_variance": ("rllm.rejection_sample.filter_uniform_groups",),
    "learning_rate": ("training.learning_rate", *verl.ADAPTER.config["learning_rate"]),
    "lr_schedule": ("rllm.algorithm.lr_schedule", "training.lr_schedule", *verl.ADAPTER.config["lr_schedule"]),
    "asynchronous": ("rllm.async_training.enable",),
    "max_version_lag": ("rllm.async_training.staleness_threshold",),
    "model": ("model.name", *verl.ADAPTER.config["model"]),
}


def _config_rules(flat: Mapping[str, object]) -> Mapping[str, tuple[object, str]]:
    """Return verl's rules for that backend, and rLLM's own KL coefficient and LoRA rank."""
    assert verl.ADAPTER.config_rules is not None
    out = dict(verl.ADAPTER.config_rules(flat))
    beta, rank = flat.get("rllm.algorithm.kl_beta"), flat.get("model.lora_rank")
    if isinstance(beta, (int, float)) and not isinstance(beta, bool):
        out["kl_coef"] = (beta, "rllm.algorithm.kl_beta")
    if isinstance(rank, int) and not isinstance(rank, bool):
        out["uses_lora"] = (rank > 0, "model.lora_rank")
    return out


ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("step", "progress/batch", *verl.ADAPTER.step_keys),
    keys={**{pattern.format("default"): key for pattern, key in _ROLE.items()}, **_KEYS, **verl.ADAPTER.keys},
    patterns=_PATTERNS,
    evals=(*_EVALS, *verl.ADAPTER.evals),
    derived=_DERIVED,
    ignore=(*_IGNORED, *verl.ADAPTER.ignore),
    config=_CONFIG,
    refine=_refine,
    finish=verl.ADAPTER.finish,
    config_rules=_config_rules,
)
