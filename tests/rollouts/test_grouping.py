"""Groups are told by id, else by place and prompt, else by prompt; and how sure that is, is said."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.grouping import Grouper, Grouping
from rlvitals.rollouts.table import Batch


def batch(prompts: str, **more: object) -> Batch:
    rows = len(prompts)
    columns = {"step": np.ones(rows, dtype=np.int64), "prompt_id": np.array(list(prompts), dtype=object), **more}
    return Batch(rows, columns)  # type: ignore[arg-type]


def groups(found: Batch) -> str:
    return "".join(found.text("group"))


def test_by_id() -> None:
    grouper = Grouper(4)
    found = grouper.add(batch("aabb", group=np.array(["7", "7", "8", "7"], dtype=object)))
    assert groups(found) == "7787"
    assert found.integer("index").tolist() == [0, 1, 0, 2]
    assert grouper.found() == Grouping("id", "certain")


def test_by_place_with_the_configured_size() -> None:
    grouper = Grouper(2)
    found = grouper.add(batch("aaaabb"))
    assert groups(found) == "001122"  # a prompt drawn twice in a row makes two groups
    assert found.integer("index").tolist() == [0, 1, 0, 1, 0, 1]
    assert grouper.found() == Grouping("position", "certain", 2)


def test_by_place_with_a_size_found_in_the_data_is_only_likely() -> None:
    grouper = Grouper()
    assert groups(grouper.add(batch("aabbccccdd"))) == "0011223344"
    assert grouper.found() == Grouping("position", "likely", 2)


def test_groups_of_another_size_are_counted() -> None:
    grouper = Grouper(4)
    assert groups(grouper.add(batch("aaaabbbbccccddddee"))) == "000011112222333344"
    assert grouper.found() == Grouping("position", "likely", 4, odd=1)


def test_shuffled_rows_are_grouped_by_prompt() -> None:
    grouper = Grouper(2)
    found = grouper.add(batch("abab"))
    assert groups(found) == "abab"
    assert found.integer("index").tolist() == [0, 0, 1, 1]
    assert grouper.found().how == "prompt"


def test_neither_id_nor_prompt() -> None:
    grouper = Grouper(2)
    found = grouper.add(Batch(2, {"step": np.ones(2, dtype=np.int64)}))
    assert not found.has("group")
    assert str(grouper.found()) == "groups told not at all: neither an id nor a prompt is there"
