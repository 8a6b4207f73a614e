"""A cluster of two workers counts what one machine counts, also when a worker is killed half-way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlvitals.rollouts import cluster, counting
from rlvitals.rollouts.dump import open_rollouts
from rlvitals.rollouts.fact import Sums
from rlvitals.rollouts.facts import FACTS, rewards
from rlvitals.rollouts.fold import Folded
from rlvitals.rollouts.table import Batch
from tests.rollouts.dumps import rollouts, verl


def test_parts_hold_every_file_once(tmp_path: Path) -> None:
    dump = open_rollouts(verl(tmp_path / "dump", rollouts(range(1, 8))))
    assert [len(p.files) for p in cluster.parts(dump, 1)] == [1] * 7
    pieces = cluster.parts(dump, 3 * dump.files[0].stat().st_size + 1)
    assert [f for p in pieces for f in p.files] == list(dump.files)
    assert [len(p.files) for p in pieces] == [3, 3, 1]


@pytest.fixture(scope="module")
def two_workers() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def same(a: Folded, b: Folded) -> None:
    left, right = a.series(), b.series()
    assert left.keys() == right.keys()
    for name, (steps, values) in left.items():
        assert steps.tolist() == right[name][0].tolist(), name
        assert values == pytest.approx(right[name][1], rel=1e-12, abs=1e-12, nan_ok=True), name
    assert a.rollouts == b.rollouts
    assert a.examples == b.examples


@pytest.mark.slow
def test_two_workers_count_the_same(tmp_path: Path, two_workers: None) -> None:
    dump = open_rollouts(verl(tmp_path / "dump", rollouts(range(1, 13))))
    folded, found = counting.count(dump)
    spread, told = cluster.count(dump, part=1)
    same(folded, spread)
    assert (told.count, told.grouping, told.sampled_share) == (found.count, found.grouping, 1.0)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(tmp_path: Path, two_workers: None) -> None:
    flag = tmp_path / "killed"

    def deadly(batch: Batch) -> Sums:
        if 5 in batch.integer("step") and not flag.exists():
            flag.write_text("once")
            os.kill(os.getpid(), signal.SIGKILL)
        return rewards.FACT.fold(batch)

    dump = open_rollouts(verl(tmp_path / "dump", rollouts(range(1, 13))))
    spread, _ = cluster.count(dump, (replace(rewards.FACT, fold=deadly),), part=1)
    assert flag.exists()
    same(counting.count(dump, (rewards.FACT,))[0], spread)
    assert np.all(spread.series()["rollouts/count"][1] == 8)
    assert len(FACTS) > 1
