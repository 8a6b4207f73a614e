"""The GRPO scripts of "Build a Reasoning Model (From Scratch)", chapters 6 and 7: CSV, txt, console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.schema import Float64, Provenance, RunConfig, Status, TrainerInfo

_KL_NOTE = "coefficient x KL summed over the sequence (k1, signed): not nats per token"
_KL = Key("kl_loss", estimator="sequence sum k1", unit="nats/sequence x coefficient", note=_KL_NOTE)
_RATIO = Key("ratio_mean", estimator="sequence", note="mean of whole-sequence ratios of the last inner pass")
_SPEED_NOTE = "with several inner passes only the last one's tokens are counted"

_KEYS: dict[str, Key] = {
    "reward_avg": Key("reward_mean", note="all components together"),
    "format_reward_avg": Key("reward_part/format", note="before its weight"),
    "loss": Key("loss"),
    "kl_loss": _KL,
    "kl": _KL,
    "policy_ratio": _RATIO,
    "adv_avg": Key("advantage_mean", estimator="sequence mean"),
    "adv_std": Key("advantage_std", note="one group per step: 0 when it is tied, about 1 when it is not"),
    "entropy_avg": Key("entropy", estimator="full vocabulary", note="at temperature 1, mean of the rollouts' means"),
    "avg_response_len": Key("length_mean"),
    "avg_resp_len": Key("length_mean"),
    "tokens_per_sec": Key("tokens_per_second", note=_SPEED_NOTE),
    "tok/sec": Key("tokens_per_second", note=_SPEED_NOTE),
}

_EVALS: tuple[EvalKey, ...] = (
    EvalKey("eval_acc", "math500", note="scripts write a fraction, the saved logs percent", percent_or_fraction=True),
    EvalKey("math500_acc", "math500", percent_or_fraction=True),
)

# Float32 rounding of equal rewards (1e-7) over the scripts' own 1e-4 in the denominator, by definition of adv_std.
TIED_BELOW = 1e-3

_SIGNATURE = frozenset({"reward_avg", "loss"})
_LENGTHS = frozenset({"avg_response_len", "avg_resp_len"})


def _matches(keys: frozenset[str]) -> int:
    if not keys >= _SIGNATURE or not keys & _LENGTHS:
        return 0
    return 95 if keys & {"tokens_per_sec", "tok/sec"} else 70


def _tied(adv_std: Float64) -> Float64:
    """Return 1 where the step's one group has equal rewards, 0 elsewhere."""
    return np.where(np.isnan(adv_std), np.nan, np.where(np.asarray(adv_std) < TIED_BELOW, 1.0, 0.0))


_DERIVED: tuple[Derived, ...] = (
    Derived("zero_variance_frac", ("advantage_std",), _tied, "1 where adv_std is 0", "one group per step: 0 or 1"),
)

_CONFIG: dict[str, tuple[str, ...]] = {
    "group_size": ("num_rollouts",),
    "updates_per_rollout": ("inner_epochs",),
    "clip_low": ("clip_eps_low", "clip_eps"),
    "clip_high": ("clip_eps_high", "clip_eps"),
    "kl_coef": ("kl_coeff",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "token_budget": ("max_new_tokens",),
    "planned_steps": ("steps", "total_steps"),
    "learning_rate": ("lr",),
}

_SCRIPTS = "the chapter 6 and 7 scripts"
_FIXED = RunConfig(
    prompts_per_step=1,
    kl_estimator="sequence sum k1",
    kl_in_reward=False,
    importance_level="sequence sum",
    loss_aggregation="sequence sum",  # log-probabilities are summed; only olmo3_style.py averages over tokens
    advantage_estimator="grpo",
    algorithm="grpo",
    max_grad_norm=1.0,
    vocab_size=151_936,  # Qwen3-0.6B, the only model these scripts load
    logging_steps=1,
    uses_lora=False,
    asynchronous=False,
    sources=dict.fromkeys(
        (
            "prompts_per_step", "kl_estimator", "kl_in_reward", "importance_level", "loss_aggregation",
            "advantage_estimator",
            "algorithm", "max_grad_norm", "vocab_size", "logging_steps", "uses_lora", "asynchronous",
        ),
        _SCRIPTS,
    ),
)  # fmt: skip


def _finish(provenance: Mapping[str, Provenance], config: RunConfig) -> dict[str, Provenance]:
    """Mark the KL term as a placeholder where the coefficient is known to be 0: no reference model is loaded then."""
    out = dict(provenance)
    kl = out.get("kl_loss")
    if kl is not None and config.kl_coef == 0:
        out["kl_loss"] = replace(kl, status=Status.PLACEHOLDER, note="kl_coeff is 0: no KL is computed")
    return out


_CODE = "not possible without code: compute it beside `rewards` in compute_grpo_loss and append it to the CSV row"

_KNOBS: dict[str, str] = {
    "group_size": "--num_rollouts",
    "prompts_per_step": "one prompt per step is fixed in train_rlvr_grpo",
    "updates_per_rollout": "--inner_epochs",
    "clip_low": "--clip_eps (--clip_eps_low in olmo3_style.py)",
    "clip_high": "--clip_eps (--clip_eps_high in olmo3_style.py)",
    "kl_coef": "--kl_coeff",
    "temperature": "--temperature",
    "top_p": "--top_p",
    "token_budget": "--max_new_tokens",
    "planned_steps": "--steps",
    "learning_rate": "lr in train_rlvr_grpo",
    "max_grad_norm": "clip_grad_norm_ in train_rlvr_grpo",
    "loss_aggregation": "olmo3_style.py averages over tokens",
    "advantage_scaling": "olmo3_style.py leaves out the division by the standard deviation",
    "drops_zero_variance": "--skip-zero-advantage-updates",
    "reward_weights": "--format_reward_weight, --conditional_reward",
    "curriculum": "the order of math_data (load_math_train)",
    "mixture": "math_data (load_math_train)",
    "reward_function": "reward_rlvr and grade_answer",
    "eval_every": "--eval_on_checkpoint (items per evaluation, at every checkpoint)",
    "checkpoint_every": "checkpoint_every in train_rlvr_grpo",
    "resume_from": "--checkpoint_path (weights only: optimizer, step and data position start anew)",
}

_HOW_TO_LOG: dict[str, str] = {
    "reward_mean": "logged as reward_avg",
    "reward_std": _CODE,
    "reward_min": _CODE,
    "reward_max": _CODE,
    "reward_part/*": "logged as format_reward_avg by 7_6_plus_format_reward.py and gdpo.py",
    "success_frac": _CODE,
    "success_tier/*": f"{_CODE}; the level is in math_data[i]['level']",
    "parse_failure_frac": f"{_CODE}: the share of rollouts for which extract_final_candidate returns None",
    "verifier_error_frac": _CODE,
    "zero_variance_frac": "use 7_3_plus_tracking.py or later: adv_std is 0 in a tied step",
    "advantage_mean": "use 7_3_plus_tracking.py or later (adv_avg)",
    "advantage_std": "use 7_3_plus_tracking.py or later (adv_std)",
    "reward_family/*": f"{_CODE}; the subject is a field of math_data[i]",
    "length_right_mean": f"{_CODE}: the mean gen_len of the samples with reward 1",
    "stop_frac/*": f"{_CODE}, as stop_frac/eos: the share of samples whose last token is the stop token",
    "version_lag_mean": "no lag to log: the scripts sample with the weights that they train",
    "rollouts": "not possible without code: the *_outputs.txt file holds one sample per step; write all of them in "
    "compute_grpo_loss as JSON lines",
    "config": "keep the command line in run.sh beside the log",
    "length_mean": "logged as avg_response_len",
    "length_min": _CODE,
    "length_max": _CODE,
    "truncated_frac": f"{_CODE}: the share of samples whose gen_len equals max_new_tokens",
    "entropy": "use 7_3_plus_tracking.py or later (entropy_avg)",
    "loss": "logged as loss",
    "grad_norm": "keep what torch.nn.utils.clip_grad_norm_ returns and append it to the CSV row",
    "ratio_mean": "use 7_4_plus_clip_ratio.py or later (policy_ratio)",
    "clip_frac": _CODE,
    "kl_ref": "per token: torch.exp(ref - new) - (ref - new) - 1 over the response tokens, appended to the CSV row",
    "kl_loss": "--kl_coeff 0.001 with 7_5_plus_kl.py or later",
    "tokens_per_second": "logged as tokens_per_sec",
    "evals": "--eval_on_checkpoint 500",
    "checkpoints": "written every 50 steps by default",
}

ADAPTER = Adapter(
    info=TrainerInfo(
        name="chapter-7 scripts",
        sequence_means=("advantage_mean",),
        knobs=_KNOBS,
        how_to_log=_HOW_TO_LOG,
        step_base=1,
        defaults={
            "group_size": "8 (April 2026)",
            "token_budget": "512 (April 2026)",
            "temperature": "0.8 (April 2026)",
            "top_p": "0.9 (April 2026)",
            "clip_low": "10.0 (April 2026)",
            "clip_high": "10.0 (April 2026)",
            "updates_per_rollout": "2 in 7_4, 7_5 and 7_7, 1 in 7_6 (April 2026)",
            "kl_coef": "0.001 in 7_5, 0.0 in 7_6 (April 2026; 0.02 before February 2026)",
            "learning_rate": "1e-5, constant (April 2026)",
        },
    ),
    matches=_matches,
    step_keys=("step",),
    keys=_KEYS,
    evals=_EVALS,
    derived=_DERIVED,
    ignore=("total_steps", "pg_loss"),
    config=_CONFIG,
    finish=_finish,
    fixed=_FIXED,
)
