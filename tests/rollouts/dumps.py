"""Small dumps written as each trainer writes them, for the tests of the readers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

GROUP = 4


def rollouts(steps: Sequence[int] = (1, 2, 3), groups: int = 2, size: int = GROUP) -> list[dict[str, Any]]:
    """Return rollouts with rewards that differ by step, group and place: (step + group + index) is even -> 1."""
    return [
        {
            "step": s,
            "group": g,
            "index": i,
            "prompt": f"question {s}.{g}",
            "completion": f"answer {s}.{g}.{i} <answer>{i}</answer>",
            "reward": float((s + g + i) % 2 == 0),
        }
        for s in steps
        for g in range(groups)
        for i in range(size)
    ]


def jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parquet(path: Path, rows: Sequence[Mapping[str, Any]], scratch: Path) -> Path:
    """Write rows as parquet, with the types that JSON shows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = jsonl(scratch / "rows.jsonl", rows)
    duckdb.sql(f"COPY (SELECT * FROM read_ndjson_auto('{source}')) TO '{path}' (FORMAT parquet)")
    return path


def verl(folder: Path, rows: Sequence[Mapping[str, Any]], *, uid: bool = True) -> Path:
    """Write a rollout_data_dir: one file per step; without uid the rows of a step are interleaved."""
    for step in sorted({int(r["step"]) for r in rows}):
        mine = [r for r in rows if r["step"] == step]
        if not uid:
            mine = sorted(mine, key=lambda r: (r["index"], r["group"]))
        out = []
        for r in mine:
            row = {"input": r["prompt"], "output": r["completion"], "gts": "1", "score": r["reward"], "step": step}
            out.append(row | ({"uid": f"u{step}-{r['group']}_{r['index']}_0"} if uid else {"request_id": "x"}))
        jsonl(folder / f"{step}.jsonl", out)
    return folder


def trl(folder: Path, rows: Sequence[Mapping[str, Any]], scratch: Path) -> Path:
    """Write completions/completions_<step>.parquet with two reward functions and no id."""
    for step in sorted({int(r["step"]) for r in rows}):
        out = [
            {"step": step, "prompt": r["prompt"], "completion": r["completion"], "accuracy_reward": r["reward"],
             "format_reward": 1.0, "advantage": r["reward"] - 0.5}
            for r in rows if r["step"] == step
        ]  # fmt: skip
        parquet(folder / "completions" / f"completions_{step:05d}.parquet", out, scratch)
    return folder
