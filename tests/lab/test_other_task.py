"""The unseen task of the scoreboard: the same files each time, right demonstrations, a held-out side of its own."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rlvitals.env import VerifierStatus

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
from benchmarks.other_task import (
    DIGITS,
    ELSEWHERE,
    TASK,
    Shown,
    command,
    demonstration,
    demonstrations,
    inserted,
    policy,
    write_items,
)

from rlvitals.grpo import tiny
from rlvitals.grpo.chat import turn_ids
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.tasks.load import load_task
from rlvitals.lab.cases import cases_of
from rlvitals.lab.faults import FAULTS


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(TASK.format(path=write_items(tmp_path_factory.mktemp("sorting"))))


def test_the_same_files_each_time(tmp_path: Path) -> None:
    one, two = write_items(tmp_path / "a").read_bytes(), write_items(tmp_path / "b").read_bytes()
    assert one == two
    assert len(one.splitlines()) == 2002  # ways to choose 5 of 10 digits, repeats allowed


def test_the_same_weights_each_time(task: Task) -> None:
    one, two = (policy(task, Shown(steps=3)).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    untrained = tiny.new_model(tiny.Recipe(seed=11)).state_dict()
    assert not all(torch.equal(one[name], untrained[name]) for name in one)


def test_nothing_held_out_is_a_reordering_of_what_is_trained_or_shown(task: Task) -> None:
    trained, held_out = {i.gold for i in task.train}, {i.gold for i in task.held_out}
    assert (len(trained), len(held_out)) == (len(task.train), len(task.held_out))
    assert len(held_out) >= 128  # what an evaluation of the lab takes
    assert not trained & held_out
    shown = {"".join(sorted(d[0].content.strip("#="))) for d in demonstrations(task, 500)}
    assert shown <= trained


def test_demonstrations_verify_when_every_digit_is_placed_right(task: Task) -> None:
    rng = random.Random(0)
    lengths = []
    for item in task.held_out[:20]:
        env = task.new_env()
        assert env.reset(item, 0)[-1].content == f"#{item.id}="
        said = demonstration(item.id, rng, placed_right=1.0)[-1].content
        assert env.step(said).status is VerifierStatus.RIGHT
        assert env.step(said[:-1]).status is VerifierStatus.WRONG
        lengths.append(len(turn_ids(tiny.new_tokenizer(), said)))
    assert max(lengths) <= task.max_new_tokens


def test_a_share_of_the_digits_is_misplaced_and_none_is_lost() -> None:
    rng = random.Random(0)
    right = 0
    for _ in range(2000):
        digits = "".join(rng.choices("0123456789", k=DIGITS))
        lists = inserted(digits, rng)
        assert [sorted(made) for made in lists] == [sorted(digits[: n + 1]) for n in range(DIGITS)]
        right += lists[-1] == "".join(sorted(digits))
    assert 0.3 < right / 2000 < 0.45  # 0.75^4 = 0.32, and some mistakes mend each other


def test_every_fault_that_is_not_left_out_is_put_into_this_task() -> None:
    assert ELSEWHERE.keys() <= {f.name for f in FAULTS}
    names = command("sorting").split("--faults ")[1].split(" ")[0].split(",")
    chosen = [(f, "") for f in FAULTS if f.name in names]
    assert len(chosen) == len(FAULTS) - len(ELSEWHERE)
    more = {"task": TASK.format(path="sorting/items.jsonl"), "model": "sorting"}
    for case in cases_of(chosen, [1], more=more):
        config, _ = case.setup()
        assert (config.task, config.model) == (more["task"], more["model"]), case.name
