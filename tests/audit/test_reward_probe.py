"""reward_probe: training sees what it would see without it; the record holds every call, and a kill costs one line."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.reward_probe import LIMIT_US, added, compute_score

import rlvitals
from rlvitals.audit.compact import compact
from rlvitals.live.reward_probe import reward_probe


def reward(completions: list[str], answer: list[str], **kwargs: Any) -> list[float | None]:
    """Score by equality."""
    if answer[0] == "broken":
        raise ValueError("no gold")
    return [None if c == "" else float(c == a) for c, a in zip(completions, answer, strict=True)]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines() if line
    ]


def test_name_signature_and_document_are_kept(tmp_path: Path) -> None:
    probe = rlvitals.reward_probe(reward, to=tmp_path)
    assert (probe.__name__, probe.__doc__, inspect.signature(probe)) == (
        "reward",
        reward.__doc__,
        inspect.signature(reward),
    )


def test_a_batch_is_one_line_with_columns(tmp_path: Path) -> None:
    probe = reward_probe(reward, to=tmp_path, version="v1")
    assert probe(["a", "", "c"], answer=["a", "b", "x"], level=["1", "2", "3"], step=7) == [1.0, None, 0.0]
    (line,) = lines(tmp_path)
    assert {k: line[k] for k in ("f", "v", "n", "raw", "tail", "tier", "step")} == {
        "f": "reward", "v": "v1", "n": 3, "raw": [1.0, None, 0.0], "tail": ["a", "", "c"],
        "tier": ["1", "2", "3"], "step": 7,
    }  # fmt: skip
    assert 0 < line["s"] < 1


def test_exceptions_reach_training_and_are_recorded(tmp_path: Path) -> None:
    probe = reward_probe(reward, to=tmp_path)
    with pytest.raises(ValueError, match="no gold"):
        probe(["a"], answer=["broken"])
    assert lines(tmp_path)[0]["e"] == "ValueError: no gold"


def test_async_functions_and_callable_objects(tmp_path: Path) -> None:
    async def judge(completion: str, answer: str) -> float:
        return 0.5

    class Rule:
        def __call__(self, solution_str: str, ground_truth: str) -> dict[str, Any]:
            return {"score": 1.0, "pred": solution_str}

    probe = reward_probe(judge, to=tmp_path)
    assert inspect.iscoroutinefunction(probe)
    assert asyncio.run(probe("x", answer="y")) == 0.5
    rule = reward_probe(Rule(), to=tmp_path)  # type: ignore[arg-type]
    assert (rule.__name__, rule("4", "4")) == ("Rule", {"score": 1.0, "pred": "4"})
    assert sorted(json.dumps(line["raw"]) for line in lines(tmp_path)) == ["0.5", '{"score": 1.0, "pred": "4"}']


def test_nothing_about_recording_raises_into_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    blocked = tmp_path / "file"
    blocked.write_text("")
    probe = reward_probe(lambda completions: [Hostile()], to=blocked / "below")
    assert len(probe(["a"])) == 1
    assert len(probe(["a"])) == 1
    assert capsys.readouterr().err.count("was dropped") == 1


def test_odd_values_stay_readable(tmp_path: Path) -> None:
    probe = reward_probe(lambda completion: float("nan"), to=tmp_path)
    probe("half a pair \ud83d")
    probe([{"role": "assistant", "content": "said"}])
    assert [line["tail"] for line in lines(tmp_path)][-1:] == ["said"]
    assert {line["raw"] for line in lines(tmp_path)} == {"nan"}


def test_a_wrapped_function_can_be_copied(tmp_path: Path) -> None:
    probe = reward_probe(reward, to=tmp_path)
    assert copy.copy(probe)(["a"], answer=["a"]) == [1.0]
    sink = pickle.loads(pickle.dumps(probe.__closure__[1].cell_contents.sink))  # type: ignore[attr-defined]
    sink.write(b'{"t": 1}\n')
    assert len(lines(tmp_path)) == 2


KILLED = """
import os, sys
from rlvitals import reward_probe
probe = reward_probe(lambda completions: [1.0] * len(completions), to=sys.argv[1])
n = 0
while True:
    probe([f"completion {n} " * 50] * 4)
    n += 1
    if n % 200 == 0:
        print(n, flush=True)
"""


def test_a_kill_loses_at_most_the_line_in_flight(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    done = [int(child.stdout.readline()) for _ in range(3)][-1]
    os.kill(child.pid, signal.SIGKILL)
    done = max([done, *(int(x) for x in child.stdout.read().split())])
    child.wait()
    record = compact(tmp_path, tmp_path / "rewards.parquet")
    assert record.trajectories >= 4 * done
    assert record.broken_lines <= 1


def test_compaction_gives_canonical_rows_and_counts_errors(tmp_path: Path) -> None:
    import duckdb

    probe = reward_probe(reward, to=tmp_path, version="v1")
    probe(["a", "b"], answer=["a", "x"], level=["1", "2"])
    with pytest.raises(ValueError, match="no gold"):
        probe(["a", "b"], answer=["broken", "x"])
    (tmp_path / "torn.jsonl").write_text('{"t": 1, "ra')
    out = tmp_path / "it's.parquet"
    record = compact(tmp_path, out)
    assert (record.trajectories, record.errors.count, record.broken_lines) == (4, 2, 1)
    assert record.error_types == ("ValueError: 2",)
    found = duckdb.connect().execute(
        "SELECT reward, tier, verifier_status, reward_version FROM read_parquet(?)", [str(out)]
    )
    errors = [(None, None, "error", "v1")] * 2
    assert found.fetchall() == [(1.0, "1", None, "v1"), (0.0, "2", None, "v1"), *errors]


def test_the_cost_of_a_call(tmp_path: Path) -> None:
    probe = reward_probe(compute_score, to=tmp_path)
    info = {"index": 1}
    cost = min(
        added(lambda: compute_score("g", "x" * 2000, "4", info), lambda: probe("g", "x" * 2000, "4", info), 2000)
        for _ in range(3)
    )
    assert cost < LIMIT_US
