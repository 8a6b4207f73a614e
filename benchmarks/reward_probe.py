"""What `rlvitals.reward_probe` adds to a call of a reward function, in microseconds.

    python -m benchmarks.reward_probe [--calls 20000]

Functions that do nothing are called bare and wrapped, in turns; the difference of the medians of 20 rounds is
printed, for one completion of 2,000 characters and for batches.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlvitals.live.reward_probe import reward_probe

TEXT = "Let us see. " * 166 + "<answer>42</answer>"
LIMIT_US = 50.0  # per call of one completion
ROUNDS = 20


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any]) -> dict[str, Any]:
    return {"score": 1.0, "pred": "42"}


def reward(completions: list[str], answer: list[str], **kwargs: Any) -> list[float]:
    return [1.0] * len(completions)


async def judge(completion: str, answer: str) -> float:
    return 1.0


def timed(call: Callable[[], object], calls: int) -> float:
    """Return microseconds per call."""
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls * 1e6


def added(bare: Callable[[], object], wrapped: Callable[[], object], calls: int) -> float:
    """Return the microseconds that the wrapper adds to a call: medians of rounds that take turns."""
    pairs = [(timed(bare, calls // ROUNDS), timed(wrapped, calls // ROUNDS)) for _ in range(ROUNDS)]
    return statistics.median(w for _, w in pairs) - statistics.median(b for b, _ in pairs)


def measure(folder: Path, calls: int) -> dict[str, float]:
    """Return case -> added microseconds per call."""
    single = reward_probe(compute_score, to=folder)
    batch = reward_probe(reward, to=folder)
    asynchronous = reward_probe(judge, to=folder)
    info = {"index": 7, "level": "3"}
    out = {
        "one completion, verl's form": added(
            lambda: compute_score("gsm8k", TEXT, "42", info), lambda: single("gsm8k", TEXT, "42", info), calls
        )
    }
    for size in (1, 8, 64):
        texts, golds, levels = [TEXT] * size, ["42"] * size, ["3"] * size
        out[f"a batch of {size}, TRL's form"] = added(
            lambda t=texts, g=golds, v=levels: reward(completions=t, answer=g, level=v),  # type: ignore[misc]
            lambda t=texts, g=golds, v=levels: batch(completions=t, answer=g, level=v),  # type: ignore[misc]
            calls // size + ROUNDS,
        )

    async def many(call: Callable[..., Any]) -> None:
        for _ in range(100):
            await call(completion=TEXT, answer="42")

    out["one completion, async"] = (
        added(lambda: asyncio.run(many(judge)), lambda: asyncio.run(many(asynchronous)), max(calls // 100, ROUNDS))
        / 100
    )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, value in measure(Path(folder), given.calls).items():
            print(f"{name:<30} {value:7.1f} us per call")
    print(f"limit: {LIMIT_US:g} us per call of one completion")


if __name__ == "__main__":
    main()
