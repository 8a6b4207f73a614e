"""prime-rl: metrics.jsonl that orchestrator and trainer share, W&B; key names of 0.2 to 0.4, 0.5 and 0.6, 0.7 on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.ingest.prime_rl_words import INFO
from rlvitals.schema import Direction, Float64, RunConfig, Scope

_SMP = Direction.SAMPLER_TRAINER

_SUM_ZERO = "groups whose rewards add up to 0"
_ALL_ONE = "groups whose every reward is 1"
_TIES = "only groups that are all 0 or all 1: ties at other totals are missed"
_TRUNCATED = Key("truncated_frac", estimator="finish reason", note="the token budget, the turn limit or the context")
_MISMATCH = Key("kl_sampler_trainer", estimator="k3", direction=_SMP)
_ENTROPY = Key("entropy", estimator="full vocabulary", note="before the update")
_FRESH_LAG = "versions between the start of sampling and the update"

# What the trainer process writes; the names of all generations.
_TRAINER: dict[str, Key] = {
    "entropy/all/mean": _ENTROPY,
    "entropy/mean": _ENTROPY,
    "mismatch_kl/all/mean": _MISMATCH,
    "mismatch_kl/mean": _MISMATCH,
    "is_masked/mean": Key("clip_frac", estimator="token", note="tokens outside the trust region (DPPO mask)"),
    "is_masked/all/mean": Key("clip_frac", estimator="token", note="tokens outside the trust region (DPPO mask)"),
    "is_masked_low/mean": Key("clip_low_frac", note="masked although they had lost probability"),
    "is_masked_high/mean": Key("clip_high_frac", note="masked because they had gained too much probability"),
    "loss/mean": Key("loss"),
    "optim/grad_norm": Key("grad_norm"),
    "optim/lr": Key("learning_rate"),
    "perf/throughput": Key("tokens_per_second"),
}

# What the orchestrator writes: 0.5 and 0.6 ("/all"), and 0.2 to 0.4.
_ORCHESTRATOR: dict[str, Key] = {
    "reward/all/mean": Key("reward_mean"),
    "reward/all/max": Key("reward_max", note="0.5 takes the largest of the tasks' means"),
    "reward/all/min": Key("reward_min", note="0.5 takes the smallest of the tasks' means"),
    "reward/mean": Key("reward_mean"),
    "solve_none/all": Key("all_wrong_frac", note=_SUM_ZERO),
    "solve_all/all": Key("all_right_frac", note=_ALL_ONE),
    "batch/solve_none": Key("all_wrong_frac", note=_SUM_ZERO),
    "batch/solve_all": Key("all_right_frac", note=_ALL_ONE),
    "decode_len/all/mean": Key("length_mean"),
    "decode_len/all/max": Key("length_max"),
    "decode_len/all/min": Key("length_min"),
    "completion_len/all/mean": Key("length_mean"),
    "completion_len/mean": Key("length_mean"),
    "completion_len/max": Key("length_max", note="the largest of the tasks' means"),
    "completion_len/min": Key("length_min", note="the smallest of the tasks' means"),
    "prefill_len/all/mean": Key("prompt_length_mean"),
    "prompt_len/mean": Key("prompt_length_mean"),
    "is_truncated/all/mean": _TRUNCATED,
    "is_truncated/mean": _TRUNCATED,
    "num_turns/all/mean": Key("turns_mean"),
    "num_turns/mean": Key("turns_mean"),
    "errored_rollouts/all": Key("verifier_error_frac", note="rollouts that ended with an error of any kind"),
    "error/mean": Key("verifier_error_frac", note="rollouts that ended with an error of any kind"),
    "pre_filters/all/dropped_rate": Key("dropped_group_frac"),
    "off_policy_level/all/mean": Key("version_lag_mean"),
    "off_policy_level/all/max": Key("version_lag_max"),
    "batch/off_policy_level/mean": Key("version_lag_mean"),
    "batch/off_policy_level/max": Key("version_lag_max"),
    "off_policy/mean": Key("version_lag_mean", note=_FRESH_LAG),
    "off_policy/max": Key("version_lag_max", note=_FRESH_LAG),
    "progress/tokens": Key("tokens_total", note="of the step's rollouts, those not trained on included"),
    "time/step": Key("step_time_s", note="both processes write it; this is the orchestrator's"),
}

_COHORT = "of the cohort that is trained on"

# The step lines of orchestrator.log and trainer.log, in the words they use.
_CONSOLE: dict[str, Key] = {
    "Reward": Key("reward_mean", scope=Scope.KEPT, note=_COHORT),
    "Trainable": Key("zero_variance_frac", scale=-1.0, offset=1.0, transform="1 - x",
                     note="share of rollouts without any advantage"),
    "Truncation": Key("truncated_frac", estimator="finish reason", scope=Scope.KEPT, note=_COHORT),
    "Turns": Key("turns_mean", scope=Scope.KEPT, note=_COHORT),
    "Error": Key("verifier_error_frac", note="rollouts that ended with an error of any kind"),
    "Max Off-Policy": Key("version_lag_max"),
    "Max. Off-Policy Level": Key("version_lag_max"),
    "Time": Key("step_time_s"),
    "Loss": Key("loss"),
    "Entropy": _ENTROPY,
    "Mismatch KL": _MISMATCH,
    "Grad. Norm": Key("grad_norm"),
    "LR": Key("learning_rate"),
    "Throughput": Key("tokens_per_second"),
}  # fmt: skip
_CONSOLE_SIGNS = ({"Reward", "Max Off-Policy"}, {"Reward", "Async Level"}, {"Mismatch KL", "LR"})

_AGENT = "train/agg/all/{}"  # every rollout that arrived; {} is the agent's name

_PATTERNS: tuple[tuple[str, Key], ...] = (
    (f"{_AGENT}/reward/mean", Key("reward_mean", note="of all rollouts that arrived")),
    (f"{_AGENT}/reward/min", Key("reward_min")),
    (f"{_AGENT}/reward/max", Key("reward_max")),
    (
        f"{_AGENT}/is_trainable/mean",
        Key(
            "zero_variance_frac",
            scale=-1.0,
            offset=1.0,
            transform="1 - x",
            note="share of rollouts without any advantage, failed ones included",
        ),
    ),
    (f"{_AGENT}/solved_none", Key("all_wrong_frac", note=_SUM_ZERO)),
    (f"{_AGENT}/solved_all", Key("all_right_frac", note=_ALL_ONE)),
    (f"{_AGENT}/num_output_tokens/mean", Key("length_mean", note="generated tokens of all turns")),
    (f"{_AGENT}/num_output_tokens/min", Key("length_min")),
    (f"{_AGENT}/num_output_tokens/max", Key("length_max")),
    (f"{_AGENT}/num_input_tokens/mean", Key("prompt_length_mean", note="input tokens of all turns")),
    (f"{_AGENT}/is_truncated/mean", _TRUNCATED),
    (f"{_AGENT}/num_turns/mean", Key("turns_mean")),
    (f"{_AGENT}/has_error/mean", Key("verifier_error_frac", note="rollouts that ended with an error of any kind")),
    ("stop_condition/all/{}", Key("stop_frac/{}")),
    ("metrics/{}", Key("reward_part/{}", note="a metric of the environment")),
)

_IGNORED: tuple[str, ...] = (
    "train/{}", "eval/{}", "reward/{}", "solve_none/{}", "solve_all/{}", "effective_batch_size/{}", "batch/{}",
    "seq_len/{}", "completion_len/{}", "decode_len/{}", "prefill_len/{}", "prompt_len/{}", "is_truncated/{}",
    "num_turns/{}", "samples_per_rollout/{}", "stop_condition/{}", "errored_rollouts/{}", "empty_rollouts/{}",
    "off_policy/{}", "off_policy_level/{}", "scheduler/{}", "dispatcher/{}", "concurrency/{}", "watcher/{}",
    "inference/{}", "curriculum/{}", "progress/{}", "pool/{}", "evicted_examples/{}", "filtered_rollouts/{}",
    "filters/{}", "pre_filters/{}", "post_filters/{}", "entropy/{}", "mismatch_kl/{}", "masked_mismatch_kl/{}",
    "unmasked_mismatch_kl/{}", "masked_advantage_{}", "is_masked/{}", "is_masked_{}", "kl_ent_ratio/{}", "ref_kl/{}",
    "loss/{}", "optim/{}", "perf/{}", "time", "time/{}", "timing/{}", "event_loop_lag/{}", "generation_ms/{}",
    "scoring_ms/{}", "sampling/{}", "no_response/{}", "max_vio/{}", "routing_confidence/{}", "worker/{}",
    "worker_lag/{}", "error/{}", "val/{}", "val_reward/{}", "val_batch/{}", "chinese/{}", "trainer/{}", "geo_{}",
    "importance_ratio/{}", "_timestamp", "_runtime", "Async Level", "Seq. Length", "Branches", "Cancelled", "MFU",
    "Peak Mem.", "Max Vio", "Routing Conf.", "Val. Reward",
)  # fmt: skip

_EFFECTIVE = ("eval/{}/effective/{}",)

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval/{}/all/{}/avg@{}", "{0}", metric="reward", note="mean reward"),
    EvalKey("eval/{}/effective/{}/pass@{}", "{0} pass@{2}", note="rollouts without error; 0/1 rewards only"),
    EvalKey("eval/{}/avg@{}", "{0}", metric="reward", note="mean reward", but_not=_EFFECTIVE),
    EvalKey("eval/{}/pass@{}", "{0} pass@{1}", but_not=_EFFECTIVE),
    EvalKey("val/reward/all/mean", "val", metric="reward"),
    EvalKey("val_reward/mean", "val", metric="reward"),
)

_SOLVED = frozenset({"correct", "correct_answer", "is_correct", "solved", "success", "accuracy", "acc"})
_READABLE = frozenset({"parse_ok", "format_ok", "parseable", "format_valid"})


def _matches(keys: frozenset[str]) -> int:
    if any(key.startswith("train/agg/") for key in keys):
        return 98
    if any(signs <= keys for signs in _CONSOLE_SIGNS):
        return 90
    if keys & {"solve_none/all", "effective_batch_size/all", "batch/solve_none", "mismatch_kl/all/mean"}:
        return 95
    return 75 if {"optim/zero_grad_ratio", "optim/lr"} <= keys or {"mismatch_kl/mean", "optim/lr"} <= keys else 0


def _refine(keys: frozenset[str], config: RunConfig) -> dict[str, Key]:
    """Return the keys of what environments and agents named themselves."""
    out: dict[str, Key] = {}
    for name in sorted(keys):
        parts = name.split("/")
        if name.startswith("train/agg/all/") and len(parts) > 5 and parts[-1] == "mean":
            _add_agent_key(out, name, parts[4], "/".join(parts[5:-1]))
        elif name.startswith("train/agg/all/") and len(parts) == 6 and parts[4] == "stop_condition":
            out[name] = Key(f"stop_frac/{parts[5]}")
        elif name.startswith("train/") and len(parts) == 6 and parts[1] != "agg" and name.endswith("/reward/mean"):
            if parts[2] == "all":
                out[name] = Key(f"reward_family/{parts[1]}")
        elif len(parts) == 3 and parts[0] == "reward" and parts[1] != "all" and parts[2] == "mean":
            out[name] = Key(f"reward_family/{parts[1]}")
    if "reward/mean" in keys:  # 0.2 to 0.4: reward/<environment>
        for name in keys:
            if name.startswith("reward/") and name.count("/") == 1 and name[7:] not in ("mean", "max", "min"):
                out[name] = Key(f"reward_family/{name[7:]}")
    if config.drops_zero_variance:
        note = "a filter drops groups before they arrive here"
        for name in ("reward/all/mean", "reward/mean", "completion_len/mean", "is_truncated/all/mean"):
            base = _ORCHESTRATOR[name]
            out[name] = replace(base, scope=Scope.KEPT, note=f"{base.note}; {note}" if base.note else note)
    return out


def _add_agent_key(out: dict[str, Key], name: str, kind: str, own: str) -> None:
    """Add one `<agent>/rewards/<name>/mean` or `<agent>/metrics/<name>/mean`."""
    if kind == "rewards":
        out[name] = Key(f"reward_part/{own}", note="after its weight")
    elif kind == "metrics" and own in _SOLVED:
        out[name] = Key("success_frac", note="a metric of the environment")
    elif kind == "metrics" and own in _READABLE:
        out[name] = Key("parse_failure_frac", scale=-1.0, offset=1.0, transform="1 - x",
                        note="a metric of the environment")  # fmt: skip


def _sum(none: Float64, every: Float64) -> Float64:
    return np.asarray(none + every, dtype=np.float64)


_DERIVED: tuple[Derived, ...] = (
    Derived("zero_variance_frac", ("all_wrong_frac", "all_right_frac"), _sum, "solved_none + solved_all", _TIES),
)

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("orchestrator.group_size", "group_size", "rollouts_per_example"),
    "temperature": ("train.sampling.temperature", "sampling.temperature"),
    "token_budget": ("train.sampling.max_completion_tokens", "sampling.max_completion_tokens", "sampling.max_tokens"),
    "context_length": ("orchestrator.seq_len", "seq_len"),
    "top_p": ("train.sampling.extra_body.top_p",),
    "loss_type": ("algo.type",),
    "learning_rate": ("trainer.optim.lr", "optim.lr"),
    "max_grad_norm": ("trainer.optim.max_norm", "optim.max_norm"),
    "lr_schedule": ("trainer.scheduler.type", "scheduler.type"),
    "warmup_steps": ("trainer.scheduler.warmup_steps", "scheduler.warmup_steps"),
    "planned_steps": ("max_steps",),
    "max_version_lag": ("max_off_policy_steps",),
    "model": ("model.name",),
}


def _config_rules(flat: Mapping[str, object]) -> dict[str, tuple[object, str]]:
    """Return what prime-rl's settings say together: prompts per step, LoRA, GPUs."""
    out: dict[str, tuple[object, str]] = {}
    for prefix in ("orchestrator.", ""):
        batch, group = _number(flat, f"{prefix}batch_size"), _number(flat, f"{prefix}group_size")
        group = group or _number(flat, f"{prefix}rollouts_per_example")
        if batch and group and batch % group == 0:
            out["prompts_per_step"] = (batch / group, f"{prefix}batch_size / {prefix}group_size")
            break
    lora = [path for path in flat if path.endswith("model.lora.rank")]
    if lora:
        out["uses_lora"] = (True, lora[0])
    if flat.get("trainer.loss.type") in ("ipo", "custom"):
        out["loss_type"] = (flat["trainer.loss.type"], "trainer.loss.type")
    train, infer = (_number(flat, f"deployment.num_{name}_gpus") for name in ("train", "infer"))
    if train is not None and infer is not None:
        out["gpus"] = (train + infer, "deployment.num_train_gpus + deployment.num_infer_gpus")
    return out


def _number(flat: Mapping[str, object], path: str) -> float | None:
    value = flat.get(path)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


_FIXED = RunConfig(
    asynchronous=True,
    advantage_scaling="none",
    importance_level="token",
    loss_aggregation="token mean",
    loads_reference=False,
    sampler_correction=True,
    sources=dict.fromkeys(
        (
            "asynchronous", "advantage_scaling", "importance_level", "loss_aggregation", "loads_reference",
            "sampler_correction",
        ),
        "prime-rl's own loop and loss",
    ),
)  # fmt: skip

ADAPTER = Adapter(
    info=INFO,
    matches=_matches,
    step_keys=("step", "_step"),
    keys={**_TRAINER, **_ORCHESTRATOR, **_CONSOLE},
    patterns=_PATTERNS,
    evals=_EVALS,
    derived=_DERIVED,
    ignore=_IGNORED,
    config=_CONFIG,
    refine=_refine,
    config_rules=_config_rules,
    fixed=_FIXED,
)
