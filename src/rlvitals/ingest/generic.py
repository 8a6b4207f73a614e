"""Any other trainer: keys resolved by an alias table of the names in common use; every hit is marked as guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlvitals.ingest.adapter import Adapter, Derived, EvalKey, Key
from rlvitals.ingest.aliases import ALIASES
from rlvitals.schema import Direction, Float64, TrainerInfo

_REF, _OLD, _SMP = Direction.TO_REFERENCE, Direction.OLD_NEW, Direction.SAMPLER_TRAINER

_TABLE = {name: (metric, rank) for metric, names in ALIASES for rank, name in enumerate(names)}

# fmt: off
_PREFIXES = (
    "train_", "training_", "rollout_", "actor_", "policy_", "optim_", "metrics_", "grpo_", "stats_", "critic_", "rl_",
    "batch_", "generate_", "completions_", "env_all_", "objective_", "log_",
)
# fmt: on
_EVAL_WORDS = ("eval", "evaluation", "val", "valid", "validation", "test", "heldout", "held_out", "holdout", "dev")
_EVAL_SCORE = (
    r"accuracy|acc|mean_reward|reward_mean|mean_score|score|reward|success_rate|success|pass_rate|pass_at_1|pass_1|"
    r"solve_rate|correct|exact_match|em|f1|win_rate"
)
_EVAL = re.compile(rf"(?:.+_)??({'|'.join(_EVAL_WORDS)})_(?:(.+?)_)??({_EVAL_SCORE})(?:_mean)?")
_TOKEN_SCORE = re.compile(r"(?:^|_)token_acc(?:uracy)?(?:_|$)")  # of teacher forcing: no answer was sampled
_PART = (
    re.compile(r"rewards?_(?:mean_)?(?P<name>.+?)(?:_mean|_avg)?"),
    re.compile(r"(?:mean_|avg_)?(?P<name>.+?)_rewards?(?:_(?:func|fn))?(?:_mean|_avg)?"),
    re.compile(r"(?P<name>format|correctness|xmlcount|answer|reasoning)_(?:rate|score|frac)(?:_mean|_avg)?"),
)
_NOT_PART = re.compile(
    r"(?:^|_)(?:std|var|min|max|median|p\d+|count|num|total|sum|weights?|threshold|ema|running|best|baseline|model|"
    r"time|seconds|history|clip|scale|discount|target|time_s|lr|loss|eval|val|test|zero|frac|first|last|delta)(?:_|$)"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Guess:
    """An alias hit; `rank` orders several keys of one metric."""

    target: Key | EvalKey
    rank: int


def normalise(raw: str) -> str:
    """Return a key in lower case with single underscores: "train/Mean Reward" -> "train_mean_reward"."""
    return re.sub(r"[^a-z0-9]+", "_", _CAMEL.sub("_", raw).lower()).strip("_")


def guess(raw: str) -> Guess | None:
    """Return what an unknown key most likely stands for, or None; one key never stands for two metrics."""
    name = normalise(raw)
    held_out = _EVAL.fullmatch(name)
    if held_out and not _TOKEN_SCORE.search(name):
        where, what = held_out[2] or held_out[1], held_out[3]
        metric = "reward" if "reward" in what else "accuracy"
        return Guess(EvalKey(raw, where if metric == "accuracy" else f"{where} reward", metric=metric), 0)
    if name.split("_", 1)[0] in _EVAL_WORDS or name.startswith("held_out"):
        return None
    for candidate in _stripped(name):
        found = _TABLE.get(candidate)
        if found is not None:
            metric, rank = found
            return Guess(_key(metric, candidate), rank)
    for regex in _PART:
        part = regex.fullmatch(_stripped(name)[-1])
        if part and not _NOT_PART.search(part["name"]):
            return Guess(Key(f"reward_part/{part['name']}"), 0)
    return None


def _stripped(name: str) -> list[str]:
    out = [name]
    for _ in range(3):
        prefix = next((p for p in _PREFIXES if out[-1].startswith(p) and len(out[-1]) > len(p)), None)
        if prefix is None:
            break
        out.append(out[-1][len(prefix) :])
    return out


def _key(metric: str, name: str) -> Key:
    if metric == "reward_std":
        return Key(metric, estimator="group" if name.startswith("group") else "")
    direction = {"kl_ref": _REF, "kl_old_new": _OLD, "kl_sampler_trainer": _SMP}.get(metric)
    return Key(metric, direction=direction)


def _sum(a: Float64, b: Float64) -> Float64:
    return a + b


def _quotient(part: Float64, whole: Float64) -> Float64:
    return part / whole


ADAPTER = Adapter(
    info=TrainerInfo(
        name="unknown trainer",
        how_to_log={
            "reward_mean": "log the mean total reward of each step as `reward`",
            "zero_variance_frac": "log the share of groups whose rewards are all the same as `frac_reward_zero_std`",
            "entropy": "log the mean policy entropy per token as `entropy`",
            "kl_ref": "log the mean KL to the reference per token as `kl`",
            "length_mean": "log the mean completion length in tokens as `completion_length`",
            "truncated_frac": "log the share of completions cut at the token budget as `truncated_frac`",
            "evals": "log a held-out accuracy as `eval_accuracy`, or pass `--evals NAME=FILE`",
        },
    ),
    matches=lambda keys: 1,
    step_keys=(),
    keys={},
    derived=(
        Derived("truncated_frac", ("truncated_count", "rollout_count"), _quotient, "truncated_count / rollout_count"),
        Derived("zero_variance_frac", ("all_wrong_frac", "all_right_frac"), _sum, "all wrong + all right"),
    ),
)
