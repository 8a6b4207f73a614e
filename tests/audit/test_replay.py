"""Replay: what is logged is compared with two replays; each fault is told apart by them."""

from __future__ import annotations

import pytest

from rlvitals.audit.replay import pick, replay
from rlvitals.audit.scoring import score_with_env, score_with_reward, try_by_hand, try_solver
from rlvitals.auditresults import ReplayFault
from rlvitals.errors import InputError
from tests.audit.data import item, items, row


def logged(i: int, reward: float, stop: str = "env") -> object:
    return row(i, completion=f"so {2 * i + 5}", turns=(f"so {2 * i + 5}",), reward=reward, stop=stop, seed=i)


@pytest.mark.parametrize(
    ("env", "reward", "stop", "fault"),
    [
        ("Sums", 1.0, "env", None),
        ("Sums", 0.0, "env", ReplayFault.NOT_REPRODUCED),
        ("Sums", 1.0, "budget", ReplayFault.NOT_REPRODUCED),
        ("Noisy", 1.0, "env", ReplayFault.NON_DETERMINISTIC),
        ("Crashing", 0.0, "env", ReplayFault.CRASH_AS_FAILURE),
        ("Crashing", 0.0, "error", None),
        ("Hanging", 0.0, "budget", ReplayFault.HANG_AS_TRUNCATION),
    ],
)
def test_each_fault_is_told_apart(env: str, reward: float, stop: str, fault: ReplayFault | None) -> None:
    found = replay(f"tests.audit.envs:{env}", [logged(1, reward, stop)], seconds=1.5)  # type: ignore[list-item]
    assert [f.fault for f in found.findings] == ([fault] if fault else [])
    assert (found.replayed, found.same) == (1, 0 if fault else 1)
    if fault:
        assert found.findings[0].episodes[0].startswith("step 1, group g1, rollout 0: ")


def test_episodes_without_seed_or_turns_are_skipped_and_counted() -> None:
    found = replay("tests.audit.envs:Sums", [logged(1, 1.0), row(2, reward=1.0, seed=3)])  # type: ignore[list-item]
    assert (found.replayed, found.skipped) == (1, 1)
    with pytest.raises(InputError, match="no episode can be replayed"):
        replay("tests.audit.envs:Sums", [row(2, reward=1.0)])


def test_outliers_are_picked_in_turn() -> None:
    rows = [row(i, group="g", completion="x" * i, turns=("x" * i,), reward=0.0, stop="eos") for i in range(6)]
    rows[2] = row(2, group="g", completion="xx", turns=("xx",), reward=1.0, stop="eos")
    rows[3] = row(3, group="g", completion="xxx", turns=("xxx",), reward=0.0, stop="error")
    assert [r.number for r in pick(rows, ("longest", "crashed", "top", "off-group"), 3)] == [5, 3, 2]
    assert [r.number for r in pick(rows, ("off-group",), 9)] == [2]


def test_samples_are_scored_through_env_or_reward() -> None:
    rows = [row(i, completion=text) for i, text in ((1, "so 7"), (2, "so 0"))]
    assert [(r.reward, r.correct) for r in score_with_env("tests.audit.envs:Sums", rows)] == [(1.0, 1.0), (0.0, 0.0)]
    tagged = [row(i, completion=f"<answer>{text}</answer>") for i, text in ((1, "7"), (2, "0"))]
    assert [r.reward for r in score_with_reward("tests.audit.verifiers:good_trl", tagged)] == [1.0, 0.0]
    with pytest.raises(InputError, match="failed on every completion"):
        score_with_env("tests.audit.envs:Crashing", rows)


def test_solvers_play_through_the_environment() -> None:
    assert try_solver("tests.audit.envs:solve", "tests.audit.envs:Sums", items(2)) == {"t0": True, "t1": True}
    turns = iter(["so 5", "no idea", None])
    found = try_by_hand("tests.audit.envs:Sums", items(3), lambda messages: next(turns))
    assert found == {"t0": True, "t1": False}
    assert item(0).gold == "5"
