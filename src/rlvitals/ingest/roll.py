"""ROLL: RLVR and agentic pipelines; TensorBoard, W&B, and `metrics_tag: {...}` lines on the console. Steps from 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.ingest.roll_words import INFO
from rlvitals.schema import Direction, RunConfig, Scope

_OLD, _REF, _SMP = Direction.OLD_NEW, Direction.TO_REFERENCE, Direction.SAMPLER_TRAINER

_ONES = "right means a score of exactly 1"
_NEW_MINUS_OLD = "logged as new minus old"

_KEYS: dict[str, Key] = {
    "critic/score/mean": Key("reward_mean", note="raw score, before any KL penalty"),
    "critic/score/max": Key("reward_max"),
    "critic/score/min": Key("reward_min"),
    "rollout/score/mean": Key("reward_mean", note="all trajectories of the rollout"),
    "critic/correct/mean": Key("success_frac", note=_ONES),
    "group/mixed_groups_ratio": Key(
        "zero_variance_frac", scale=-1.0, offset=1.0, transform="1 - x",
        note="groups all of score 1 or all of score 0; a group tied at another score counts as mixed",
    ),
    "group/all_correct_groups_ratio": Key("all_right_frac", note=_ONES),
    "group/all_incorrect_groups_ratio": Key("all_wrong_frac", note="wrong means a score of exactly 0"),
    "critic/advantages/mean": Key("advantage_mean", estimator="token mean"),
    "critic/advantages/max": Key("advantage_max"),
    "critic/advantages/min": Key("advantage_min"),
    "token/response_length/mean": Key("length_mean"),
    "token/response_length/max": Key("length_max"),
    "token/response_length/min": Key("length_min"),
    "tokens/response_length/mean": Key("length_mean", note="of the trajectory, observations left out"),
    "tokens/response_length/max": Key("length_max"),
    "tokens/response_length/min": Key("length_min"),
    "token/right_response_length/mean": Key("length_right_mean", note=_ONES),
    "token/error_response_length/mean": Key("length_wrong_mean"),
    "token/total_response_length/clip": Key("truncated_frac", estimator="at budget"),
    "token/prompt_length/mean": Key("prompt_length_mean"),
    "tokens/prompt_length/mean": Key("prompt_length_mean"),
    "critic/entropy/mean": Key("entropy", estimator="full vocabulary"),
    "actor/pg_loss": Key("policy_loss"),
    "actor/total_loss": Key("loss"),
    "actor/kl_loss": Key("kl_ref", estimator="k3", direction=_REF),
    "critic/kl": Key("kl_ref", estimator="k1", direction=_REF, note="mean of the means per sequence"),
    "critic/kl_coef": Key("kl_coef"),
    "actor/policykl": Key(
        "kl_old_new", scale=-1.0, estimator="k1", direction=_OLD, transform="sign flipped", note=_NEW_MINUS_OLD
    ),
    "actor/approxkl": Key("kl_old_new", estimator="k2", direction=_OLD),
    "actor/ppo_ratio_clipfrac": Key("clip_frac", estimator="either side", note="whatever the advantage's sign"),
    "actor/clipfrac": Key("clip_frac", estimator="either side"),
    "actor/ppo_ratio_low_clipfrac": Key("clip_low_frac"),
    "actor/ppo_ratio_high_clipfrac": Key("clip_high_frac"),
    "actor/ratio_mean": Key("ratio_mean"),
    "actor/ratio_max": Key("ratio_max"),
    "actor/ratio_min": Key("ratio_min"),
    "actor/train_infer_ratio_token_mean": Key("sampler_ratio_mean", estimator="token", direction=_SMP),
    "actor/grad_norm": Key("grad_norm"),
    "actor/lr": Key("learning_rate"),
    "time/step_total": Key("step_time_s"),
    "time/per_step": Key("step_time_s"),
    "system/tps": Key("tokens_per_second"),
}  # fmt: skip

_REDUCERS = ("@sum", "@mean", "@max", "@min")  # tags of the reducer, stripped by the trackers of 0.3

_PATTERNS: tuple[tuple[str, Key], ...] = (("{}/critic/score/mean", Key("reward_family/{}")),)

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("val_correct/{}/mean", "{}", note=_ONES),
    EvalKey("val/score/mean", "val score", metric="reward"),
    EvalKey("val/{}/score/mean", "{} score", metric="reward"),
)

_IGNORED: tuple[str, ...] = (
    "critic/{}",
    "token/{}",
    "tokens/{}",
    "group/{}",
    "actor/{}",
    "rollout/{}",
    "system/{}",
    "time/{}",
    "env/{}",
    "val/{}",
    "val_correct/{}",
    "scheduler/{}",
    "{}/critic/{}",
    "{}/token/{}",
    "{}/group/{}",
    "{}/actor/{}",
    "memory/{}",
)


def _matches(keys: frozenset[str]) -> int:
    if keys & {"group/mixed_groups_ratio", "token/total_response_length/clip"}:
        return 98
    scored = bool(keys & {"critic/score/mean", "rollout/score/mean"})
    if scored and keys & {"token/response_length/mean", "tokens/response_length/mean", "system/global_step"}:
        return 97
    return 60 if {"actor/policykl", "actor/approxkl"} <= keys else 0


def _with_reducers(keys: Mapping[str, Key]) -> dict[str, Key]:
    tagged = {name + tag: key for name, key in keys.items() if name.startswith("actor/") for tag in _REDUCERS}
    return {**keys, **tagged}


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Set the estimators that follow from settings, and the scope of a run that masks groups by difficulty."""
    out: dict[str, Key] = {}
    if config.kl_estimator is not None and "actor/kl_loss" not in keys:
        out["critic/kl"] = replace(_KEYS["critic/kl"], estimator=config.kl_estimator)
    if config.importance_level == "sequence":
        for name in ("actor/ppo_ratio_clipfrac", "actor/ppo_ratio_low_clipfrac", "actor/ppo_ratio_high_clipfrac"):
            out[name] = replace(_KEYS[name], estimator="sequence")
    if config.loss_aggregation == "sequence sum":
        for name in ("critic/entropy/mean", "actor/kl_loss"):
            out[name] = replace(_KEYS[name], unit="nats/sequence", note="summed: loss_agg_mode is seq-mean-token-sum")
    if config.drops_zero_variance:
        note = "groups that the query filter dropped are not in it"
        for name in ("critic/score/mean", "critic/correct/mean", "group/mixed_groups_ratio"):
            out[name] = replace(_KEYS[name], scope=Scope.KEPT, note=note)
    return out


_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("num_return_sequences_in_group",),
    "prompts_per_step": ("rollout_batch_size",),
    "kl_in_reward": ("add_token_level_kl",),
    "entropy_coef": ("entropy_loss_coef",),
    "temperature": ("actor_infer.generating_args.temperature",),
    "top_p": ("actor_infer.generating_args.top_p",),
    "top_k": ("actor_infer.generating_args.top_k",),
    "token_budget": ("response_length",),
    "prompt_budget": ("prompt_length",),
    "context_length": ("sequence_length",),
    "loss_type": ("pg_variant",),
    "loss_aggregation": ("loss_agg_mode",),
    "advantage_estimator": ("adv_estimator",),
    "masks_truncated": ("max_len_mask",),
    "learning_rate": ("actor_train.training_args.learning_rate",),
    "lr_schedule": ("actor_train.training_args.lr_scheduler_type",),
    "warmup_steps": ("actor_train.training_args.warmup_steps",),
    "planned_steps": ("max_steps",),
    "max_grad_norm": ("max_grad_norm",),
    "max_version_lag": ("async_generation_ratio",),
    "logging_steps": ("logging_steps",),
    "model": ("pretrain",),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return the fields that several ROLL settings decide together."""
    out: dict[str, tuple[object, str]] = {**_clip(flat), **_kl(flat)}
    for name in ("enable_reference", "use_kl_loss"):  # the second switches the first on
        if flat.get(name) is True:
            out["loads_reference"] = (True, name)
    level = {"token": "token", "seq": "sequence"}.get(str(flat.get("importance_sampling")))
    if level is not None:
        out["importance_level"] = (level, "importance_sampling")
    how = flat.get("adv_estimator")
    if isinstance(how, str):
        out["algorithm"] = ("ppo" if how == "gae" else how, "adv_estimator")
    if "norm_std_type" in flat:
        out["advantage_scaling"] = (str(flat["norm_std_type"] or "none").lower(), "norm_std_type")
    if any(path.endswith("query_filter_config.type") and value not in (None, "no_filter")
           for path, value in flat.items()):  # fmt: skip
        out["drops_zero_variance"] = (True, "rewards.*.query_filter_config.type")
    lag = _number(flat, "async_generation_ratio")
    if lag is not None:
        out["asynchronous"] = (lag > 0, "async_generation_ratio")
    return out


def _clip(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    ranged = flat.get("use_pg_clip_range") is True
    names = ("pg_clip_low", "pg_clip_high") if ranged else ("pg_clip", "pg_clip")
    fields = zip(("clip_low", "clip_high"), names, strict=True)
    return {field: (flat[name], name) for field, name in fields if flat.get(name) is not None}


def _kl(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return coefficient and estimator of the KL term in force; coefficient 0 where both are known to be off."""
    in_loss, in_reward = flat.get("use_kl_loss"), flat.get("add_token_level_kl")
    if in_loss is True:
        return {"kl_coef": (flat.get("kl_loss_coef"), "kl_loss_coef"), "kl_estimator": ("k3", "use_kl_loss")}
    if in_reward is True:
        estimator = flat.get("kl_penalty")
        return {"kl_coef": (flat.get("init_kl_coef"), "init_kl_coef"), "kl_estimator": (estimator, "kl_penalty")}
    if in_loss is False and in_reward is False:
        return {"kl_coef": (0.0, "use_kl_loss and add_token_level_kl are off")}
    return {}


def _number(flat: Mapping[str, object], path: str) -> float | None:
    value = flat.get(path)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("step", "system/global_step", "_step"),
    keys=_with_reducers(_KEYS),
    patterns=_PATTERNS,
    evals=_EVALS,
    ignore=_IGNORED,
    config=_CONFIG,
    refine=_refine,
    config_rules=_config_rules,
)
