"""ms-swift's GRPO trainer: TRL-like keys in `logging.jsonl`, whose step is the text "5/100"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlvitals.ingest import trl
from rlvitals.ingest.adapter import Key
from rlvitals.schema import Direction, RunConfig, TrainerInfo

_OWN = frozenset({"global_step/max_steps", "memory(GiB)", "train_speed(iter/s)", "train_speed(s/it)"})

KEYS: dict[str, Key] = {
    "reward_std": Key("reward_std", estimator="group"),
    "entropy/mean": Key("entropy", estimator="full vocabulary"),
    "num_turns": Key("turns_mean"),
    "kl": Key("kl_ref", estimator="k3", direction=Direction.TO_REFERENCE),
}


def matches(keys: frozenset[str]) -> int:
    """Score ms-swift's own bookkeeping keys together with a GRPO reward."""
    bare = {key.removeprefix("train/") for key in keys}
    if "reward" not in bare:
        return 0
    return 95 if bare & _OWN else 0


_ORM = "an ORM class named `{}` in `--external_plugins`, with weight 0 in `--reward_weights`, that returns {}"


def refine(keys: frozenset[str], config: RunConfig) -> Mapping[str, Key]:
    """Set the kind of `reward_std`: within group unless advantages are scaled by the batch."""
    kind = "batch" if config.advantage_scaling == "batch" else "group"
    return trl.with_prefix("train/", {"reward_std": Key("reward_std", estimator=kind)})


ADAPTER = replace(
    trl.ADAPTER,
    info=TrainerInfo(
        name="ms-swift",
        knobs={**trl.KNOBS, "masks_truncated": "overlong_filter", "drops_zero_variance": "dynamic_sample"},
        how_to_log={
            "reward_mean": "always logged as `reward`",
            "reward_std": "logged as `reward_std`",
            "reward_part/*": "pass each component as its own `--reward_funcs`",
            "reward_family/*": _ORM.format("reward_family_NAME", "its reward, None for other families"),
            "success_frac": _ORM.format("success_frac", "1.0 for a solved task"),
            "success_tier/*": _ORM.format("success_tier_NAME", "1.0 for a solved task, None for other tiers"),
            "zero_variance_frac": "logged as `frac_reward_zero_std`",
            "kl_ref": "set `--beta` above 0",
            "entropy": "set `--log_entropy true`",
            "truncated_frac": "logged as `completions/clipped_ratio`",
            "length_mean": "logged as `completions/mean_length`",
            "length_max": "logged as `completions/max_length`",
            "length_right_mean": _ORM.format("length_right_mean", "the length where the answer is right, else None"),
            "stop_frac/*": _ORM.format("stop_frac_eos", "1.0 where the text ended by itself"),
            "version_lag_mean": "no lag to log, unless `--async_generate true`: then it is one update",
            "config": "args.json in the output folder is written by default",
            "evals": "pass `--val_dataset` and `--eval_steps 50`",
            "rollouts": "set `--log_completions true`",
            "parse_failure_frac": _ORM.format("parse_failure_frac", "1.0 for an unreadable answer"),
        },
        step_base=1,
        defaults={"kl_coef": "beta 0.04", "group_size": "num_generations 8"},
    ),
    matches=matches,
    step_keys=("global_step/max_steps", "step", "iteration", "train/global_step"),
    keys={**trl.with_prefix("train/", trl.KEYS), **trl.with_prefix("train/", KEYS)},
    ignore=(
        *trl.ADAPTER.ignore,
        "memory(GiB)",
        "memory",
        "best_metric",
        "train_speed(iter/s)",
        "train_speed(s/it)",
        "percentage",
        "elapsed_time",
        "remaining_time",
        "entropy/max",
        "entropy/min",
        "entropy/threshold",
        "rollout_correction/{}",
        "teacher_kl",
    ),
    config={**trl.CONFIG, "masks_truncated": ("overlong_filter",), "drops_zero_variance": ("dynamic_sample",)},
    refine=refine,
    config_rules=trl.config_rules,
)
