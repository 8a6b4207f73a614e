"""Valid text of the records that take more than one line or row: console blocks, tables, dumps, two processes."""

from __future__ import annotations

import json

STEPS = range(1, 9)
RULE = "=" * 70


def forge() -> bytes:
    """Return torchforge's metric blocks."""
    blocks = [
        f"=== [GlobalReduce] - METRICS STEP {s} ===\n"
        f"  buffer/evict/sum: {s}\n  rewards/MathReward/avg: 0.{s}\n  loss/avg: -0.1\n{'=' * 30}\n"
        for s in STEPS
    ]
    return "".join(blocks).encode()


def mlx() -> bytes:
    """Return mlx-lm-lora's `Iter` blocks."""
    blocks = [
        f"\n{RULE}\nIter {s}:\n{'-' * 70}\nLoss: 0.{s}00\nTotal Rewards:  μ=0.{s}, σ=0.250\n"
        f"Group Rewards:  μ=0.{s}, σ=0.100\nKL Divergence: 0.01{s}\nGeneration Stats:\n  • Avg tokens: 50.{s}\n"
        f"  • Min tokens: 10\n  • Max tokens: 64 (limit: 64)\n  • Hit limit: 12.5%\nIndividual Reward Functions:\n"
        f"  • accuracy reward: μ=0.4, σ=0.2, cov=50.0%\nClipping:  low=0.000, high=0.010, total=0.010\n"
        f"Learning Rate: 1.0e-05\nSpeed: 0.5 it/s, 30.0 tok/s\nMemory: 4.0GB\n{RULE}\n"
        for s in STEPS
    ]
    return "".join(blocks).encode()


def wrapped() -> bytes:
    """Return one console with SkyRL's dicts, AReaL's tables, prime-rl's bars and slime's named steps."""
    parts = []
    for s in STEPS:
        parts.append(f"12:00:00 INFO Step {s}: \n{{'reward/avg_raw_reward': 0.{s},\n 'policy/loss': -0.1}}\n")
        parts.append(
            f"INFO: Train step {s}/8 done.\n╒═══════╤═══════╕\n│ ppo_actor/task_reward/avg │ {s}.0e-01 │\n"
            f"├───────┼───────┤\n│ ppo_actor/update/loss │ -1.0e-02 │\n╘═══════╧═══════╛\n"
        )
        parts.append(f"SUCCESS Step {s} | 11.0s | Reward 0.{s} | Max Off-Policy 1 | Error 1.0% | Tokens 3/8 (37.5%)\n")
        parts.append(f"[x] rollout {s}: {{'rollout/rewards': 0.{s}, 'rollout/raw_reward': 0.{s}}}\n")
    return "".join(parts).encode()


def groups() -> bytes:
    """Return a dump of scored groups, a line each."""
    rows = [
        {
            "scores": [0.0, 1.0, s / 8],
            "tokens": [[1, 2, 3]] * 3,
            "masks": [[-100, 2, 3]] * 3,
            "inference_logprobs": [[1.0, -0.5, -0.1]] * 3,
            "messages": None,
        }
        for s in STEPS
    ]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def rollouts() -> bytes:
    """Return a rollout dump: several lines per step, with texts and gold answers."""
    rows = [
        {"step": s, "uid": f"p{i // 2}_{i}_0", "input": f"q{i // 2}", "output": f"so \\boxed{{{i}}}", "gts": "1",
         "score": float(i % 2), "acc": i % 2 == 1, "data_source": "ab"[i // 2]}
        for s in STEPS
        for i in range(4)
    ]  # fmt: skip
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def two_processes() -> bytes:
    """Return prime-rl's metrics.jsonl: a row of the orchestrator and one of the trainer for each step."""
    rows: list[dict[str, object]] = []
    for s in STEPS:
        rows.append({"step": s, "reward/all/mean": s / 8, "reward/gsm8k/mean": s / 8, "is_truncated/all/mean": 0.1})
        rows.append({"step": s, "loss/mean": 0.1, "entropy/all/mean": 0.5, "mismatch_kl/all/mean": 1e-3})
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
