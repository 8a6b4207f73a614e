"""Mutated files of every format: refused with a reason or read with rows. `python -m tools.fuzz` runs for longer."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fuzz.files import Seed, mutate, seeds
from tests.fuzz.judge import judge

SEEDS = {seed.name: seed for seed in seeds()}
QUICK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LONG = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


def _put(folder: Path, seed: Seed, content: bytes) -> Path:
    path = folder / seed.file
    path.write_bytes(seed.wrap(content))
    return path


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_are_read_as_they_are(tmp_path: Path, name: str) -> None:
    assert judge(_put(tmp_path, SEEDS[name], SEEDS[name].content), memory=True, examine=True) == "read"


@pytest.mark.parametrize("name", SEEDS)
@QUICK
@given(number=st.integers(0, 2**32 - 1))
def test_mutated_files(tmp_path_factory: pytest.TempPathFactory, name: str, number: int) -> None:
    seed = SEEDS[name]
    judge(_put(tmp_path_factory.mktemp("fuzz"), seed, mutate(seed.content, random.Random(number))), memory=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
@LONG
@given(number=st.integers(0, 2**32 - 1))
def test_mutated_files_for_longer(tmp_path_factory: pytest.TempPathFactory, name: str, number: int) -> None:
    seed = SEEDS[name]
    judge(_put(tmp_path_factory.mktemp("fuzz"), seed, mutate(seed.content, random.Random(number))))


@QUICK
@given(content=st.binary(max_size=2000), name=st.sampled_from(sorted(SEEDS)))
@example(content=b"", name="tensorboard-records")
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str) -> None:
    judge(_put(tmp_path_factory.mktemp("fuzz"), SEEDS[name], content))


KEYS = st.sampled_from(["step", "reward", "kl", "loss", "epoch", "global_step", "eval_reward", "_step", "x"])
CELLS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.lists(st.floats(), max_size=3)
)


@QUICK
@given(rows=st.lists(st.dictionaries(KEYS, CELLS), max_size=9))
def test_any_rows(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge(path)
