"""FIELDS: what each setting of a run means to the checks, in one line; the settings are those of schema.RunConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from rlvitals.reference.page import Page, Paragraph, Table, page, section
from rlvitals.reference.words import code, per_trainer, trainers
from rlvitals.schema import RunConfig

FIELDS: Mapping[str, str] = {
    "group_size": "Rollouts per prompt (G): the group whose rewards are compared.",
    "prompts_per_step": "Prompts, and so groups, per training step.",
    "updates_per_rollout": "Optimizer steps per rollout batch: epochs x minibatches. At 1 training is on policy.",
    "clip_low": "How far below 1 the importance ratio may go before it is clipped.",
    "clip_high": "How far above 1 the importance ratio may go before it is clipped.",
    "kl_coef": "Weight of the KL to the reference; 0 is none.",
    "kl_estimator": "How that KL is estimated: k1, k2, k3, exact.",
    "kl_in_reward": "True when the KL is taken off the reward instead of added to the loss.",
    "loads_reference": "True when a reference model is held, whatever the weight of the KL.",
    "entropy_coef": "Weight of the entropy bonus.",
    "reference_reset_steps": "Steps after which the reference is replaced by the current policy.",
    "temperature": "Sampling temperature of the rollouts.",
    "top_p": "Nucleus sampling limit of the rollouts; below 1 it cuts probability mass.",
    "top_k": "Number of tokens kept when sampling rollouts.",
    "min_p": "Tokens below this share of the likeliest one's probability are never sampled.",
    "trainer_temperature": "Temperature that the trainer applies to its own log-probabilities.",
    "sampler_correction": "True when importance weights or masks correct the gap between sampler and trainer.",
    "prompt_budget": "Largest number of prompt tokens.",
    "context_length": "Largest number of prompt and completion tokens together.",
    "token_budget": "Largest number of completion tokens.",
    "vocab_size": "Number of tokens of the vocabulary; ln of it is the entropy of random text.",
    "loss_type": "The policy-gradient loss: grpo, dapo, dr_grpo, bnpo, gspo, cispo, reinforce.",
    "loss_aggregation": "How token losses become one number: token mean, sequence mean, sequence sum, constant length.",
    "importance_level": "Importance ratios per token or per sequence.",
    "advantage_estimator": "How advantages are made: grpo, rloo, reinforce++, gae.",
    "advantage_scaling": "What advantages are divided by: the group's spread, the batch's, or nothing.",
    "reward_aggregation": "Rewards summed and then normalised by group, or each normalised and then summed.",
    "drops_zero_variance": "True when groups without variance are dropped or sampled again.",
    "scores_dropped": "True when entropy and log-probabilities are measured over the dropped groups too.",
    "masks_truncated": "True when completions cut at the budget are left out of the loss.",
    "learning_rate": "Peak learning rate.",
    "lr_schedule": "Shape of the learning rate over the run.",
    "warmup_steps": "Steps until the learning rate reaches its peak.",
    "planned_steps": "Training steps that the run is meant to make.",
    "max_grad_norm": "Gradient norm above which the gradient is scaled down.",
    "logging_steps": "Training steps between two logged rows.",
    "eval_items": "Items of each held-out set; gives the standard error of a logged accuracy.",
    "max_version_lag": "Largest policy-version lag that you accept, in versions.",
    "reward_min": "Smallest reward that a rollout can get.",
    "reward_max": "Largest reward that a rollout can get.",
    "uses_lora": "True when only an adapter is trained.",
    "asynchronous": "True when rollouts are sampled while the trainer updates.",
    "model": "The model that is trained.",
    "algorithm": "grpo, ppo (with a critic), reinforce.",
    "gpus": "GPUs that the run occupies, for its cost.",
    "price_per_gpu_hour": "Price of one GPU for one hour, in your currency.",
    "versions": "Versions of trainer, environment and reward code, by name.",
}


def field_page(name: str) -> Page:
    """Return the page of one RunConfig field: meaning, where each trainer sets it, its default, checks that need it."""
    from rlvitals.checks import CHECKS

    settings = per_trainer(lambda a: a.info.knobs.get(name))
    paths = per_trainer(lambda a: code(a.config[name], " or ") if name in a.config else None)
    defaults = per_trainer(lambda a: a.info.defaults.get(name))
    needing = tuple(f"`{c.id}` {c.name}" for c in CHECKS if name in c.needs.config)
    own = f"Set it in rlvitals.toml when your log does not say it: `[config]` then `{name} = ...`"
    return page(
        name,
        FIELDS.get(name, ""),
        section("Setting in each trainer", Table(("trainer", "setting"), settings, running=True)),
        section("Read from", Table(("trainer", "key of its config"), paths, running=True)),
        section("Defaults", Table(("trainer", "default"), defaults, running=True)),
        section("Checks that need it", Paragraph(", ".join(needing))),
        section("When it is unknown", Paragraph(own)),
    )


def fields_table() -> Table:
    """Return every field with its meaning and each trainer's own setting."""
    return Table(
        ("field", "meaning", "setting"),
        tuple((f"`{f.name}`", FIELDS[f.name], _settings(f.name)) for f in fields(RunConfig) if f.name != "sources"),
    )


def _settings(name: str) -> str:
    return "; ".join(f"{who}: `{text}`" for who, text in per_trainer(lambda a: a.info.knobs.get(name)))


def fields_of_setting(setting: str) -> tuple[str, ...]:
    """Return the fields that a trainer's own setting or config key stands for, e.g. "epsilon_high"."""
    found: list[str] = []
    for adapter in trainers():
        for field, paths in adapter.config.items():
            tails = {p.rpartition(".")[2] for p in paths}
            if setting in paths or setting in tails:
                found.append(field)
        found += [field for field, own in adapter.info.knobs.items() if setting == own and field in FIELDS]
    return tuple(dict.fromkeys(found))
