"""The page over small runs, for its tests: in process, or as a server on a free port."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

from rlvitals.cli.common import Extras, load_run
from rlvitals.cli.serve import find
from rlvitals.ingest.trajectories import Count
from rlvitals.live.web.app import create_app
from rlvitals.live.web.runs import Shelf, run_id
from rlvitals.live.web.security import Policy
from rlvitals.rollouts.dump import open_rollouts
from rlvitals.schema import Run
from tests.cli.runs import trl_rows, write_jsonl

HOSTILE = "</script><img src=x onerror=alert(1)>\"'><svg/onload=alert(2)>{{7*7}}\u202e\x1b[31m"
FILE_NAME = "<img src=x onerror=alert(3)>&\"' {{7*7}}"  # what a file system allows of it
METRIC = "rewards/<img src=x onerror=alert(4)>/mean"


def rollout_rows(steps: int = 6, groups: int = 3, size: int = 4, text: str = "") -> list[dict[str, Any]]:
    """Return rollouts of two families; reward 1 where the index is even, none for the last of each group."""
    rows = []
    for step in range(1, steps + 1):
        for g in range(groups):
            for i in range(size):
                reward = None if i == size - 1 else float(i % 2 == 0)
                rows.append(
                    {
                        "step": step, "group": f"g{step}-{g}{text}", "index": i, "prompt_id": f"p{g}",
                        "family": ("sums", "chains")[g % 2] + text, "prompt": f"What is {g} + {step}? {text}",
                        "completion": f"  thinking {i}\n  it is {g + step + i}. {text}", "gold": str(g + step),
                        "reward": reward, "correct": reward, "reward_part/format": 0.5,
                        "raw_output": f"score={reward}{text}",
                        "verifier_status": ("error" if reward is None else "right" if reward else "wrong"),
                        "advantage": None if reward is None else reward - 0.5, "tokens": 10 + i,
                        "stop_reason": "budget" if i == 1 else "eos", "policy_version": step,
                        "trainer_version": step + 1,
                    }
                )  # fmt: skip
    return rows


def write_run(folder: Path, steps: int = 60, *, text: str = "", nan_from: int | None = None, dump: bool = True) -> Path:
    """Write the log of a run and its rollouts; a `text` makes all of it hostile."""
    rows = trl_rows(steps, nan_from=nan_from)
    if text:
        for row in rows:
            row[METRIC] = 0.1 + 0.001 * float(str(row["step"]))
    write_jsonl(folder / "log.jsonl", rows)
    if dump:
        write_jsonl(folder / "rollouts" / "all.jsonl", rollout_rows(text=text))
    return folder


def read(path: Path, counting: Count | None = None) -> Run:
    """Read a run with its rollouts."""
    run = load_run([str(path)], Extras({}, {}, None), counting)
    if run.rollouts is None and (path / "rollouts").is_dir():
        return replace(run, rollouts=open_rollouts(path / "rollouts"))
    return run


def shelf_of(*roots: Path) -> Shelf:
    return Shelf(lambda: find(roots), read)


def id_of(path: Path) -> str:
    return run_id(path)


@contextmanager
def client(*roots: Path, policy: Policy | None = None, wait: bool = True, **options: Any) -> Iterator[TestClient]:
    """Yield a client of the page in process, once every run is read."""
    shelf = shelf_of(*roots)
    with TestClient(create_app(shelf, policy), base_url="http://127.0.0.1", **options) as found:
        end = time.monotonic() + 30
        while wait and shelf.waiting and time.monotonic() < end:
            time.sleep(0.02)
        yield found


@contextmanager
def server(*roots: Path, policy: Policy | None = None, seconds: float = 60) -> Iterator[str]:
    """Yield the address of the page as a real server, once every run is read."""
    from rlvitals.live.web.running import server_of

    shelf = shelf_of(*roots)
    running = server_of(create_app(shelf, policy))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    end = time.monotonic() + seconds
    while (not running.started or shelf.waiting) and time.monotonic() < end:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(timeout=10)


def big_rollouts(path: Path, rows: int) -> Path:
    """Write a parquet dump of many rollouts in groups of 8 and steps of 512."""
    import duckdb

    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.execute(
        f"""COPY (SELECT i // 512 + 1 AS step, 'g' || (i // 8) AS "group", i % 8 AS "index",
              ['gsm8k', 'math', 'code'][1 + (i // 8) % 3] AS family, 'prompt ' || (i // 8) AS prompt,
              repeat('some reasoning ', 6) || i AS completion, ((i * 7919) % 100 > 60)::DOUBLE AS reward,
              ((i * 7919) % 100 > 60)::DOUBLE AS correct, 'score ' || i AS raw_output, 0.1 * (i % 8) AS advantage,
              100 + i % 400 AS tokens, CASE WHEN i % 9 = 0 THEN 'budget' ELSE 'eos' END AS stop_reason,
              i // 512 AS policy_version FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"""
    )
    return path


def long_log(path: Path, steps: int, metrics: int = 24) -> Path:
    """Write the log of a long run: TRL keys and further columns."""
    rng = np.random.default_rng(3)
    x = np.linspace(0, 1, steps)
    columns = {
        "reward": 0.3 + 0.4 * x + rng.normal(0, 0.03, steps), "reward_std": 0.3 + rng.normal(0, 0.01, steps),
        "loss": rng.normal(0, 0.01, steps), "grad_norm": 0.2 + np.abs(rng.normal(0, 0.02, steps)),
        "entropy": 0.8 - 0.2 * x + rng.normal(0, 0.02, steps),
        "kl": 0.001 + 0.01 * x + np.abs(rng.normal(0, 0.001, steps)),
        "completions/mean_length": 200 + 40 * x + rng.normal(0, 5, steps),
        "completions/clipped_ratio": np.clip(0.02 + rng.normal(0, 0.005, steps), 0, 1),
        "frac_reward_zero_std": np.clip(0.2 + rng.normal(0, 0.03, steps), 0, 1),
    }  # fmt: skip
    columns |= {
        f"rewards/part{i}/mean": 0.3 + rng.normal(0, 0.02, steps) for i in range(max(metrics - len(columns), 0))
    }
    names = list(columns)
    table = np.round(np.stack([columns[n] for n in names]), 6).T.tolist()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for step, values in enumerate(table, 1):
            file.write(json.dumps({"step": step, **dict(zip(names, values, strict=True))}) + "\n")
    return path
