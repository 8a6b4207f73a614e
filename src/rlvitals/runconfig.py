"""Turn a value of a config or of rlvitals.toml into the type of its RunConfig field, or say why not."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from rlvitals.schema import RunConfig

Kind = Literal["int", "float", "str", "bool"]

MAX_TEXT = 300  # characters of a text value that are kept (convention: a model path fits)

UNSET = frozenset({"", "none", "null", "~", "???", "nan"})  # ways to write "not set" (Hydra writes ???)
MINUS_ONE_IS_UNSET = frozenset(
    {
        "planned_steps",
        "warmup_steps",
        "prompts_per_step",
        "token_budget",
        "prompt_budget",
        "context_length",
        "reference_reset_steps",
        "logging_steps",
        "group_size",
    }
)  # trainers write -1 for "decided elsewhere"

# Smallest and largest value that a field can have by its definition.
RANGES: dict[str, tuple[float, float]] = {
    "group_size": (1, math.inf),
    "prompts_per_step": (1, math.inf),
    "updates_per_rollout": (0, math.inf),
    "clip_low": (0, math.inf),
    "clip_high": (0, math.inf),
    "kl_coef": (0, math.inf),
    "reference_reset_steps": (0, math.inf),
    "temperature": (0, math.inf),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "trainer_temperature": (0, math.inf),
    "prompt_budget": (1, math.inf),
    "context_length": (1, math.inf),
    "token_budget": (1, math.inf),
    "vocab_size": (2, math.inf),
    "learning_rate": (0, math.inf),
    "warmup_steps": (0, math.inf),
    "planned_steps": (1, math.inf),
    "max_grad_norm": (0, math.inf),
    "logging_steps": (1, math.inf),
    "max_version_lag": (0, math.inf),
    "gpus": (0, math.inf),
    "price_per_gpu_hour": (0, math.inf),
}

# Trainers' words -> ours; a word that is not listed is kept as it is.
WORDS: dict[str, dict[str, str]] = {
    "kl_estimator": {
        "kl": "k1",
        "k1": "k1",
        "abs": "absolute",
        "mse": "k2",
        "k2": "k2",
        "low_var_kl": "k3",
        "k3": "k3",
        "k3+": "k3",
        "low_var_kl+": "k3",
        "full": "exact",
    },
    "loss_aggregation": {
        "token-mean": "token mean",
        "seq-mean-token-mean": "sequence mean",
        "seq-mean-token-sum": "sequence sum",
        "seq-mean-token-sum-norm": "constant length",
    },
    "advantage_scaling": {
        "true": "group",
        "group": "group",
        "false": "none",
        "none": "none",
        "batch": "batch",
    },
    "advantage_estimator": {
        "reinforce_plus_plus": "reinforce++",
        "reinforce_plus_plus_baseline": "reinforce++ baseline",
        "grpo_passk": "grpo pass@k",
    },
    "importance_level": {"token": "token", "sequence": "sequence", "sequence_sum": "sequence sum"},
    "reward_aggregation": {
        "sum_then_normalize": "sum then normalise",
        "normalize_then_sum": "normalise then sum",
    },
}


@dataclass(frozen=True, slots=True)
class Rejected:
    """A value that a field can't have."""

    found: str
    expected: str


def kinds() -> dict[str, Kind]:
    """Return the type of each RunConfig field that a config can set."""
    known: dict[str, Kind] = {
        "int | None": "int",
        "float | None": "float",
        "str | None": "str",
        "bool | None": "bool",
    }
    return {f.name: known[str(f.type)] for f in fields(RunConfig) if str(f.type) in known}


def coerce(field: str, value: object) -> int | float | str | bool | Rejected | None:
    """Return the value as the field's type; None where it is not set or unresolved; else Rejected."""
    if value is None or (isinstance(value, str) and _is_unset(field, value)):
        return None
    kind = kinds()[field]
    if kind == "bool":
        return _to_bool(value)
    if kind == "str":
        return _to_word(field, value)
    return _to_number(field, value, whole=kind == "int")


def _is_unset(field: str, text: str) -> bool:
    bare = text.strip()
    if "${" in bare:  # an interpolation that nobody resolved
        return True
    return bare.lower() in UNSET and not (field in WORDS and bare.lower() in WORDS[field])


def _to_bool(value: object) -> bool | Rejected:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return Rejected(_show(value), "true or false")


def _to_word(field: str, value: object) -> str | Rejected:
    if not isinstance(value, (str, bool, int, float)):
        return Rejected(_show(value), "text")
    text = str(value).strip()[:MAX_TEXT]
    words = WORDS.get(field, {})
    return words.get(text.lower(), text)


def _to_number(field: str, value: object, *, whole: bool) -> int | float | Rejected | None:
    expected = "a whole number" if whole else "a number"
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return Rejected(_show(value), expected)
    try:
        number = float(value)  # YAML reads 1e-6 as text
    except (ValueError, OverflowError):
        return Rejected(_show(value), expected)
    if not math.isfinite(number) or (whole and number != int(number)):
        return Rejected(_show(value), expected if math.isfinite(number) else "a finite number")
    if number == -1 and field in MINUS_ONE_IS_UNSET:
        return None
    low, high = RANGES.get(field, (-math.inf, math.inf))
    if not low <= number <= high:
        top = "" if high == math.inf else f" and at most {high:g}"
        return Rejected(_show(value), f"at least {low:g}{top}")
    return int(number) if whole else number


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
