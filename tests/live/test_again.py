"""A run that is diagnosed again as it grows: the diagnosis of the whole, at the cost of what is new."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from rlvitals.conclude import diagnose
from rlvitals.diagnosis import Diagnosis
from rlvitals.ingest import load
from rlvitals.live import again as module
from rlvitals.live.again import Again
from rlvitals.live.follow import Follower
from tests.cli.runs import trl_rows
from tests.live.site import rollout_rows


def put(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


def same(kept: Again, folder: Path) -> Diagnosis:
    """The diagnosis is the one of reading and examining everything at once."""
    ours = kept.diagnosis(lambda counting: load(folder, counting=counting))
    theirs = diagnose(load(folder))
    for part in ("verdict", "headline", "position", "causes", "incidents", "outcomes", "plan", "rollback"):
        assert repr(getattr(ours, part)) == repr(getattr(theirs, part)), part
    return ours


def looks(kept: Again, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often the engine looks for one more diagnosis."""
    seen: list[int] = []
    real = module.Engine.look
    monkeypatch.setattr(module.Engine, "look", lambda engine: seen.append(engine.store.n) or real(engine))
    kept.diagnosis(lambda counting: load(folder, counting=counting))
    monkeypatch.setattr(module.Engine, "look", real)
    return len(seen)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_grows_gets_the_diagnosis_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    rows, dump = trl_rows(140, nan_from=100), rollout_rows(140, 2, 4)
    kept, at, behind = Again(), 0, 0
    while at < 140:
        upto = min(at + rng.randrange(5, 40), 140)
        put(tmp_path / "log.jsonl", rows[at:upto])
        last = max(upto - rng.randrange(0, 4), behind)  # rollouts come after the row of their step
        put(tmp_path / "rollouts" / "all.jsonl", dump[8 * behind : 8 * last])
        at, behind = upto, last
        found = same(kept, tmp_path)
    assert found.verdict.value == "stop"
    assert looks(kept, tmp_path, monkeypatch) <= module.OPEN // 5 + 1


def test_what_changes_the_past_is_examined_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Again()
    rows = trl_rows(120)
    put(tmp_path / "log.jsonl", rows[:100])
    same(kept, tmp_path)
    put(tmp_path / "log.jsonl", rows[59:110])  # a restart from step 60
    same(kept, tmp_path)
    assert looks(kept, tmp_path, monkeypatch) <= module.OPEN // 5 + 1
    (tmp_path / "config.json").write_text(json.dumps({"num_generations": 16, "beta": 0.1, "learning_rate": 1e-6}))
    same(kept, tmp_path)
    (tmp_path / "checkpoint-50").mkdir()
    same(kept, tmp_path)
    put(tmp_path / "log.jsonl", [{**row, "entropy": 0.01} for row in rows[110:]])
    same(kept, tmp_path)


def test_what_is_kept_can_be_let_go(tmp_path: Path) -> None:
    kept = Again()
    put(tmp_path / "log.jsonl", trl_rows(60))
    same(kept, tmp_path)
    assert kept.keeps
    kept.forget()
    assert not kept.keeps
    put(tmp_path / "log.jsonl", trl_rows(70)[60:])
    same(kept, tmp_path)


def test_a_follower_counts_new_rollouts_alone(tmp_path: Path) -> None:
    rows, dump = trl_rows(60), rollout_rows(60, 2, 4)
    put(tmp_path / "log.jsonl", rows[:40])
    put(tmp_path / "rollouts" / "all.jsonl", dump[: 8 * 40])
    follower = Follower(tmp_path)
    follower.poll()
    put(tmp_path / "log.jsonl", rows[40:])
    put(tmp_path / "rollouts" / "all.jsonl", dump[8 * 40 :])
    follower._next_load = 0.0
    follower.poll()
    assert follower.run is not None
    assert getattr(follower.run.rollouts, "count", 0) == 8 * 60
    known = follower._growing._grown._known[tmp_path / "rollouts" / "all.jsonl"]
    assert known.rows == 8 * 60
    found, whole = follower.finish(), diagnose(load(tmp_path))
    assert found is not None
    assert repr(found.causes) == repr(whole.causes)
    follower.close()
