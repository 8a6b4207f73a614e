"""slime: `rollout_data/<id>.pt` is a pickle, which is never opened; the user is told how to convert it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlvitals.errors import InputError, Problem
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.table import Batch

_NAME = re.compile(r"(?:^|/)rollout_data/(?:eval_)?\d+\.pt$")
CONVERT = """\
import json, pathlib, torch
for file in sorted(pathlib.Path("rollout_data").glob("[0-9]*.pt"), key=lambda f: int(f.stem)):
    data = torch.load(file, weights_only=True)
    with open(f"rollouts_{file.stem}.jsonl", "w") as out:
        for s in data["samples"]:
            reward = s["reward"] if not isinstance(s["reward"], dict) else next(iter(s["reward"].values()))
            row = {"step": int(file.stem), "group": s["group_index"], "index": s["index"], "prompt": str(s["prompt"]),
                   "completion": s["response"], "tokens": s["response_length"], "gold": str(s["label"]),
                   "reward": reward, "stop_reason": s["status"]}
            print(json.dumps(row), file=out)"""
WHY = "slime's dump is a pickle, and a pickle can run code when it is opened: it is left alone"
HINT = "The lines that convert it in your own environment: rlvitals rollouts DIR --how-to-convert"


def _accepts(head: Head) -> bool:
    return head.path.suffix == ".pt" and (_NAME.search(head.place) or _NAME.search(head.path.as_posix())) is not None


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    raise InputError(Problem("a pickle is not opened", str(paths[0]), "slime's .pt", "JSON lines or parquet", HINT))


READER = Reader("slime rollout data", _accepts, read, refuse=f"{WHY}. {HINT}")
