"""Reward parts beside correctness, and the task options that turn them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvitals.errors import InputError, Problem
from rlvitals.grpo.rewards.form import by_ids, by_text
from rlvitals.grpo.rewards.penalties import overlong, repetition
from rlvitals.grpo.rewards.plan import Completion, Part, RewardPlan, Rule
from rlvitals.grpo.tasks.options import Kind, Option, Options
from rlvitals.grpo.vocabulary import tag_ids

if TYPE_CHECKING:
    from rlvitals.grpo.chat import Tokenizer

MAX_WEIGHT = 1e6  # of a reward part beside the 1 of a right answer (convention: whatever is above drowns it)


def _weight(name: str, meaning: str) -> Option:
    return Option(name, f"weight of {meaning}", "0", Kind.NUMBER, 0, MAX_WEIGHT)


SHAPING: tuple[Option, ...] = (
    _weight("format", "the reward for well-formed thinking tags"),
    Option("format_if_right", "pay the format reward for right answers only", "no", Kind.FLAG),
    _weight("milestones", "partial credit for intermediate results that the task knows"),
    _weight("partial", "the partial score that the task's own scorer gives"),
    _weight("length_penalty", "the penalty on the last fifth of the token budget"),
    _weight("repetition_penalty", "the penalty on repeated runs of 4 tokens"),
    Option("rule", "how parts combine: sum, gated (by correctness) or gdpo", "sum", choices=tuple(Rule)),
)


def format_judge(tokenizer: Tokenizer | None) -> Callable[[Completion], float]:
    """Return the format judge by token ids where both tags are one token each, else by text."""
    if tokenizer is None:
        return by_text
    found = tag_ids(tokenizer)
    if found is None:
        return by_text
    ends = [i for i in (tokenizer.eos_token_id, tokenizer.pad_token_id) if i is not None]
    return by_ids(*found, ignored=ends)


def shaped(plan: RewardPlan, options: Options, tokenizer: Tokenizer | None, *, gives: tuple[str, ...]) -> RewardPlan:
    """Return the plan with the parts that the options ask for.

    Args:
        gives: parts that the task's environment scores. InputError when one is asked for that it doesn't.
    """
    parts = list(plan.parts)
    for name in ("milestones", "partial"):
        if weight := options.number(name):
            if name not in gives:
                raise InputError(
                    Problem("the task gives no such reward part", f"{options.task}: {name}", "", ", ".join(gives))
                )
            parts.append(Part(name, weight))
    if weight := options.number("format"):
        parts.append(Part("format", weight, format_judge(tokenizer), options.flag("format_if_right")))
    if weight := options.number("length_penalty"):
        parts.append(Part("length_penalty", -weight, overlong))
    if weight := options.number("repetition_penalty"):
        parts.append(Part("repetition_penalty", -weight, repetition))
    return replace(plan, parts=tuple(parts), rule=Rule(options.text("rule")))
