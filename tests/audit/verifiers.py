"""Verifiers with known faults, called by name in worker processes."""

from __future__ import annotations

import random
import re
import time
from typing import Any

CALLS = [0]


def _answer(text: str) -> str:
    _, opened, after = text.rpartition("<answer>")
    return after.partition("</answer>")[0].strip() if opened and "</answer>" in after else ""


def good_trl(prompts: list[str], completions: list[str], answer: list[str], **kwargs: Any) -> list[float]:
    return [
        float(_answer(c) == str(a).strip() != "") if a is not None else _no(a)
        for c, a in zip(completions, answer, strict=True)
    ]


def _no(gold: object) -> float:
    raise ValueError(f"no gold answer: {gold!r}")


def good_chat(completions: list[list[dict[str, str]]], answer: list[str], **kwargs: Any) -> list[float]:
    return good_trl([], [c[0]["content"] for c in completions], answer)


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    found = re.findall(r"#### (-?\d+)", solution_str)
    if ground_truth is None:
        raise ValueError("no gold answer")
    return {"score": float(bool(found) and found[-1] == ground_truth), "acc": 1}


async def good_verifiers(completion: list[dict[str, str]], answer: str, state: dict[str, Any]) -> float:
    if answer is None:
        raise ValueError("no gold answer")
    return float(f"\\boxed{{{answer}}}" in completion[-1]["content"])


def good_plain(response: str, gold: str) -> float:
    return good_trl([], [response], [gold])[0]


def always_zero(completions: list[str], **kwargs: Any) -> list[float]:
    return [0.0] * len(completions)


def always_one(completions: list[str], **kwargs: Any) -> list[float]:
    return [1.0] * len(completions)


def raises(completions: list[str], answer: list[str], **kwargs: Any) -> list[float]:
    return [float(int(_answer(c)) == int(a)) for c, a in zip(completions, answer, strict=True)]


def hangs(response: str, gold: str) -> float:
    if "**" in response:
        time.sleep(60)
    return good_plain(response, gold)


def random_reward(response: str, gold: str) -> float:
    return good_plain(response, gold) * random.random()


def counts_calls(response: str, gold: str) -> float:
    """Deterministic for the same number of calls before it."""
    CALLS[0] += 1
    return good_plain(response, gold) + (CALLS[0] % 7) * 0.001


def ranks_the_batch(completions: list[str], answer: list[str], **kwargs: Any) -> list[float]:
    right = good_trl([], completions, answer)
    return [r - sum(right) / (2 * len(right)) for r in right]


def default_one(response: str, gold: str) -> float:
    try:
        return good_plain(response, gold)
    except ValueError:
        return 1.0


def default_zero(response: str, gold: str) -> float:
    try:
        return good_plain(response, gold)
    except ValueError:
        return 0.0


def any_answer_goes(response: str, gold: str) -> float:
    return float(bool(_answer(response))) if gold is not None else _no(gold)


def misses_letters(response: str, gold: str) -> float:
    return good_plain(response, gold) if gold is None or gold.isdigit() else 0.0


def cannot_be_called(alpha: int, beta: int, gamma: int, delta: int, epsilon: int) -> float:
    return 0.0
