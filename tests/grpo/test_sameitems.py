"""A resume gets the items that the run began with, or says which are others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlvitals.env import Item, Message
from rlvitals.errors import InputError
from rlvitals.grpo import sameitems
from rlvitals.grpo.loop import train
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.sameitems import noted, unlike
from tests.grpo.loops import PARTS, config, items, one_thread, rows, sevens

Items = tuple[Item, ...]


def with_items(train: Callable[[Items], Items], held_out: Callable[[Items], Items] = lambda i: i) -> Parts:
    def make(settings: Any, tokenizer: Any) -> Any:
        task = sevens(settings, tokenizer)
        return replace(task, train=train(task.train), held_out=held_out(task.held_out))

    return replace(PARTS, task=make, held_out=make)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    one_thread()
    folder = tmp_path_factory.mktemp("begun") / "run"
    train(config(steps=2, eval_every=0), PARTS, folder=folder)
    return folder


SOME: list[tuple[Callable[[Items], Items], str]] = [
    (lambda i: i[3:], "3 removed ('item-0', 'item-1', 'item-2')"),
    (lambda i: (*i, *items(50, 7)), "7 added ('item-50', 'item-51', 'item-52', 'item-53', 'item-54', ...)"),
    (lambda i: (replace(i[0], gold="9"), *i[1:]), "1 changed ('item-0')"),
    (lambda i: (replace(i[0], messages=(Message("user", "8+8="),)), *i[1:]), "1 changed ('item-0')"),
    (lambda i: tuple(replace(x, tier="hard") for x in i[:2]) + i[2:], "2 changed ('item-0', 'item-1')"),
    (lambda i: (replace(i[0], family="eights"), *i[1:]), "1 changed ('item-0')"),
    (lambda i: (replace(i[0], extra={"schema": {"a": 1}}), *i[1:]), "1 changed ('item-0')"),
    (lambda i: (*i[2:], *items(50, 1)), "1 added ('item-50'), 2 removed ('item-0', 'item-1')"),
    (lambda i: i[::-1], "the same ones in another order"),
]


@pytest.mark.parametrize(("change", "said"), SOME)
def test_other_items_are_refused_and_named(change: Callable[[Items], Items], said: str, begun: Path) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in begun.rglob("*"))
    with pytest.raises(InputError) as caught:
        train(config(steps=4, eval_every=0), with_items(change), folder=begun, resume=True)
    (problem,) = caught.value.problems
    assert (problem.what, problem.found) == ("the training items are not those of the checkpoint", said)
    assert problem.where.endswith("checkpoint-2")
    assert "--out" in problem.hint
    assert sorted((p, p.stat().st_mtime_ns) for p in begun.rglob("*")) == before


def test_both_sides_are_looked_at(begun: Path) -> None:
    with pytest.raises(InputError) as caught:
        train(config(steps=4, eval_every=0), with_items(lambda i: i[1:], lambda i: i[1:]), folder=begun, resume=True)
    assert [(p.what.split()[1], p.found) for p in caught.value.problems] == [
        ("training", "1 removed ('item-0')"), ("held-out", "1 removed ('item-100')"),
    ]  # fmt: skip


def test_a_checkpoint_of_before_goes_on_with_whatever_there_is(begun: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(begun, folder)
    state = folder / "checkpoints/checkpoint-2/state.json"
    kept = json.loads(state.read_text())
    assert kept.pop("items")["train"]["count"] == 24
    state.write_text(json.dumps(kept))
    other = with_items(lambda i: (replace(i[0], gold="9"), *i[1:]))
    train(config(steps=3, eval_every=0), other, folder=folder, resume=True)
    assert [r["step"] for r in rows(folder)] == [1, 2, 3]


def test_many_items_are_told_apart_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sameitems, "NAMED", 10)
    task = sevens(config(), None)
    before = json.loads(json.dumps(noted(task, task)))
    assert before["train"]["each"] is None
    assert unlike(before, noted(task, task), "here") == []
    (problem,) = unlike(before, noted(replace(task, train=task.train[1:]), task), "here")
    assert problem.found == "23 items, 24 in the checkpoint"


def test_what_is_no_json_is_told_by_its_type() -> None:
    class Tool:
        pass

    def made() -> Any:
        item = Item("a", (Message("user", "\ud800"),), extra={"tool": Tool(), 3: {1}, ("x",): 2})  # type: ignore[dict-item]
        return replace(sevens(config(), None), train=(item,))

    assert unlike(noted(made(), made()), noted(made(), made()), "here") == []
