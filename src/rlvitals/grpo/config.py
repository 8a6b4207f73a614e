"""Config: every setting of a training run in one frozen place, and all that is wrong with it before the first step."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal

from rlvitals.errors import InputError, Problem

MAX_GROUP = 4096  # rollouts of one prompt (convention: far above any published run)
DTYPES = ("float32", "bfloat16")
KL_UNSET = -1.0  # stands in a config for "the recipe's own coefficient"; nobody may give it
RESUMABLE_CHANGES = frozenset({"steps", "eval_items", "save_every", "patience", "dead_steps"})
"""Settings that may differ between a checkpoint and the run that resumes it: they change no step."""


@dataclass(frozen=True)
class Config:
    """The settings of a run.

    Attributes:
        recipe: row of losses and switches (`presets.PRESETS`) and its options: kl, kl_in, kl_by (KL coefficients of
            task families), score_every (steps from one scoring pass to the next, 1 unless it is given).
        task: environment and its options, "name" or "name:key=value,key=value".
        model: "tiny" for the embedded model, else a folder or hub name of a causal LM.
        warm_start: JSON lines with prompt and completion for supervised training before the first step, "" for none.
        steps: rollout batches (one line of the log each); seed: of prompts and samples.
        prompts, group_size: prompts of a step and rollouts of each prompt (G).
        max_tokens: completion budget of a trajectory, tool answers left out; 0 takes the task's own.
        temperature, top_p, top_k: how tokens are drawn; 1, 1 and 0 change nothing.
        epochs: passes over the rollouts of a step; minibatches: optimizer steps of one pass.
        micro_tokens: padded tokens that one forward pass holds at most (memory, never the result).
        lr: peak learning rate, 1/step; warmup_steps: optimizer steps of a linear rise, constant afterwards.
        max_grad_norm: gradient norm above which it is scaled down; 0 clips nothing.
        kl_coef: coefficient of the recipe's KL term (reward per nat); KL_UNSET takes the recipe's own.
        reference_reset: steps after which the reference becomes the current policy; 0 keeps the first one, -1 holds
            none and measures no divergence.
        dtype: of the forward pass; weights and optimizer state are float32 whatever it is.
        checkpoint_activations: recompute activations in the backward pass to save memory.
        lora_rank: rank of the adapters, 0 trains every weight.
        eval_every, eval_items: steps between held-out evaluations (0 none) and items of each set.
        save_every: steps between checkpoints and between rollout files.
        resample_tries: further draws of prompts while groups without signal are replaced.
        patience: evaluations without a better held-out score before the run stops; 0 never stops.
        dead_steps: steps in a row in which every group is tied before the run stops; 0 never, not even when the task is
            solved (`stop.SOLVED_STEPS`).
        sampler: URL of a sampling server, "" samples in this process.
    """

    recipe: str = "default"
    task: str = "arithmetic"
    model: str = "tiny"
    warm_start: str = ""
    steps: int = 120
    seed: int = 0
    prompts: int = 16
    group_size: int = 8
    max_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    epochs: int = 1
    minibatches: int = 2
    micro_tokens: int = 16_384
    lr: float = 3e-4
    warmup_steps: int = 0
    max_grad_norm: float = 1.0
    kl_coef: float = KL_UNSET
    reference_reset: int = 0
    dtype: str = "float32"
    checkpoint_activations: bool = False
    lora_rank: int = 0
    eval_every: int = 10
    eval_items: int = 128
    save_every: int = 20
    resample_tries: int = 2
    patience: int = 0
    dead_steps: int = 50
    sampler: str = ""

    @property
    def rollouts(self) -> int:
        """Trajectories of a step."""
        return self.prompts * self.group_size

    def hash(self) -> str:
        """Return the identity of the settings that decide a trajectory."""
        kept = {k: v for k, v in asdict(self).items() if k not in RESUMABLE_CHANGES}
        return digest(kept)


def digest(value: object) -> str:
    """Return 16 hex digits that identify a value made of JSON types."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# name -> (smallest, largest) value by definition or convention; whole numbers and fractions alike
_RANGES: Mapping[str, tuple[float, float]] = {
    "steps": (1, 10**9),
    "seed": (0, 2**63 - 1),
    "prompts": (1, 10**6),
    "group_size": (2, MAX_GROUP),
    "max_tokens": (0, 10**7),
    "top_p": (0, 1),
    "top_k": (0, 10**7),
    "temperature": (0, 100),
    "epochs": (1, 1000),
    "minibatches": (1, 10**6),
    "micro_tokens": (1, 10**9),
    "lr": (0, 1),
    "warmup_steps": (0, 10**9),
    "max_grad_norm": (0, math.inf),
    "kl_coef": (0, 10**6),
    "reference_reset": (-1, 10**9),
    "lora_rank": (0, 4096),
    "eval_every": (0, 10**9),
    "eval_items": (1, 10**7),
    "save_every": (1, 10**9),
    "resample_tries": (0, 1000),
    "patience": (0, 10**6),
    "dead_steps": (0, 10**9),
}
_ABOVE_LOW = frozenset({"temperature", "top_p"})  # 0 itself is no value
_WHY: Mapping[str, str] = {
    "group_size": "An advantage is relative to the other rollouts of the prompt: try --set group_size=8",
    "kl_coef": "Left out, the recipe's own coefficient is taken",
    "temperature": "Sampling at 0 gives equal rollouts and no signal: try --set temperature=1",
}


def problems(config: Config) -> list[Problem]:
    """Return everything wrong with the settings, an empty list for none."""
    found: list[Problem] = []
    for name, (low, high) in _RANGES.items():
        value = getattr(config, name)
        above = value > low if name in _ABOVE_LOW else value >= low
        if name == "kl_coef" and value == KL_UNSET:
            continue
        if not (above and value <= high):  # false for NaN too
            sign = "above" if name in _ABOVE_LOW else "at least"
            top = "" if math.isinf(high) else f" and at most {high:g}"
            found.append(Problem("setting out of range", name, f"{value}", f"{sign} {low:g}{top}", _WHY.get(name, "")))
    if config.dtype not in DTYPES:
        found.append(Problem("unknown type of numbers", "dtype", repr(config.dtype), " or ".join(DTYPES)))
    if config.minibatches > config.rollouts > 0:
        found.append(
            Problem("more minibatches than rollouts", "minibatches", f"{config.minibatches} for {config.rollouts}",
                    f"at most {config.rollouts} (prompts x group_size)",
                    f"Try --set minibatches={min(4, config.rollouts)}")
        )  # fmt: skip
    if config.reference_reset and config.lora_rank:
        found.append(
            Problem("the reference of a LoRA run is the model without its adapter and cannot be reset",
                    "reference_reset", str(config.reference_reset), "0 with lora_rank above 0")
        )  # fmt: skip
    return found


def checked(config: Config) -> Config:
    """Return the config. Raises InputError with every problem at once."""
    found = problems(config)
    if found:
        raise InputError(*found)
    return config


def with_settings(config: Config, settings: Mapping[str, str]) -> Config:
    """Return the config with `key=value` texts applied. Raises InputError with every problem."""
    known = {f.name: type(getattr(config, f.name)) for f in fields(Config)}
    values: dict[str, object] = {}
    found: list[Problem] = []
    for name, text in settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Nearest: {near[0]}" if near else f"Settings: {', '.join(known)}"
            found.append(Problem("unknown setting", f"--set {name}", expected="a setting of the trainer", hint=hint))
            continue
        try:
            values[name] = _parse(text, known[name])
        except ValueError:
            found.append(Problem("not a value of this setting", f"--set {name}", repr(text), _KIND[known[name]]))
        if name == "kl_coef" and values.get(name) == KL_UNSET:  # any other negative one is refused with the ranges
            found.append(Problem("setting out of range", name, text, "at least 0", _WHY[name]))
    if found:
        raise InputError(*found)
    return replace(config, **values)  # type: ignore[arg-type]


_KIND: Mapping[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def _parse(text: str, kind: type) -> object:
    if kind is bool:
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise ValueError(text)
        return word == "true"
    return _whole(text) if kind is int else kind(text)


def _whole(text: str) -> int:
    """Return a whole number exactly, `1e3` too: as a float it would be rounded above 2**53. Raises ValueError."""
    try:
        return int(text)
    except ValueError:
        if not math.isfinite(float(text)):  # bounds the digits of what follows too
            raise
    exact = Decimal(text)
    if exact != int(exact):
        raise ValueError(text)
    return int(exact)


def from_mapping(values: Mapping[str, object]) -> Config:
    """Return the config that config.json of a run holds; what it does not know is refused.

    Raises InputError.
    """
    known = {f.name: f for f in fields(Config)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InputError(
            Problem("settings of another version of this trainer", "config.json", ", ".join(unknown)[:200])
        )
    return replace(Config(), **values)  # type: ignore[arg-type]
