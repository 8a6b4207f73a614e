"""Rows in odd orders and of odd kinds: late, repeated, going back, without end of new names; nothing raises."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvitals.ingest import load
from rlvitals.live import keys, pace, ranks, rows
from rlvitals.live.monitor import Monitor
from rlvitals.live.watcher import Watcher
from rlvitals.schema import RunConfig


def row(step: int) -> dict[str, object]:
    return {"reward_mean": 0.2 + 0.01 * math.sin(step), "entropy": 0.5, "grad_norm": 0.1}


def fed(order: list[int]) -> Monitor:
    monitor = Monitor(RunConfig())
    for step in order:
        monitor.log(step, row(step))
    return monitor


def test_log_diagnosis_log_of_one_step_does_not_read_the_run_again() -> None:
    monitor = Monitor(RunConfig())
    feeds = 0
    feed = monitor._rows.course.feed

    def counted(step: int, values: Mapping[str, float]) -> bool:
        nonlocal feeds
        feeds += 1
        return feed(step, values)

    monitor._rows.course.feed = counted  # type: ignore[method-assign]
    for step in range(1, 301):
        monitor.log(step, {"reward_mean": 0.5})
        assert monitor.diagnosis().position.rows == step
        monitor.log(step, {"entropy": 0.3})
    assert feeds == 299  # each whole step once


def test_a_short_way_back_feeds_a_few_rows_and_equals_the_straight_run() -> None:
    order = [*range(1, 500), *range(495, 700)]
    back, straight = fed(order), fed(list(range(1, 700)))
    assert back.diagnosis().position == straight.diagnosis().position
    for name in ("reward_mean", "entropy"):
        ours, theirs = back._rows.engine.store, straight._rows.engine.store
        np.testing.assert_array_equal(ours.block_sums(name), theirs.block_sums(name))
    (segment,) = back._rows.segments
    assert (segment.first_step, segment.last_step, segment.rows, segment.reason) == (495, 499, 5, "rewind")


def test_late_metrics_of_a_recent_step_join_their_row() -> None:
    monitor = Monitor(RunConfig())
    for step in range(1, 200):
        monitor.log(step, row(step))
        if step > 3:
            monitor.log(step - 3, {"kl_ref": 0.001 * step})
    assert monitor._rows.segments == ()
    assert monitor._rows.row(190) == {**row(190), "kl_ref": 0.193}
    assert monitor._rows.engine.store.n == 198
    assert monitor._rows.engine.store.finite[monitor._rows.engine.store.names["kl_ref"]] == 196


def test_steps_that_go_back_without_end_are_bounded_and_counted() -> None:
    monitor = Monitor(RunConfig())
    for step in range(1, 2 * rows.MAX_REWINDS + 20, 2):
        monitor.log(step + 1, row(step))
        monitor.log(step, row(step))
    assert len(monitor._rows.segments) == rows.MAX_REWINDS
    (trouble,) = monitor.troubles
    assert (trouble.what, trouble.count) == ("a step went back more than 256 times: such rows are left out", 10)


def test_a_first_row_of_held_out_scores_does_not_fix_the_trainer() -> None:
    monitor = Monitor(RunConfig())
    monitor.log(0, {"eval/score": 0.1})
    for step in range(1, 40):
        monitor.log(step, {"critic/score/mean": 0.3, "actor/entropy": 0.3, "response_length/clip_ratio": 0.0})
    found = monitor.diagnosis()
    assert (found.trainer, found.position.usable_rows) == ("verl", 39)


def test_timings_that_come_first_are_read_again_once_the_trainer_shows() -> None:
    monitor = Monitor(RunConfig())
    for step in range(1, 10):
        monitor.log(step, {"entropy": 0.4, "loss": 0.1})
    monitor.log(10, {"frac_reward_zero_std": 0.5, "completions/mean_length": 9.0, "reward": 0.5, "entropy": 0.4})
    assert monitor.diagnosis().trainer == "TRL"
    assert monitor.diagnosis().position.rows == 10


def test_new_names_without_end_are_bounded_and_counted() -> None:
    monitor = Monitor(RunConfig())
    for step in range(1, 40):
        monitor.log(step, {"reward_mean": 0.5, **{f"reward_part/{step}-{i}": 0.1 for i in range(200)}})
    assert len(monitor._rows.engine.store.names) <= keys.MAX_METRICS + 1
    counts = {t.what: t.count for t in monitor.troubles}
    assert sum(counts.values()) == 39 * 200 + 1 - len(monitor._keys._metrics)
    assert monitor.diagnosis().position.rows == 39


class Hostile:
    """Raises whatever is asked of it."""

    shape = ()

    def item(self) -> float:
        raise RuntimeError("device lost")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class HostileMapping(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


@pytest.mark.parametrize("step", [None, "x", -1, 2.5, float("nan"), 2**63, [1], Hostile()])
def test_no_step_raises(step: object) -> None:
    monitor = Monitor(RunConfig())
    assert monitor.log(step, {"reward": 0.5}) == ()  # type: ignore[arg-type]
    monitor.add_eval("a", step, 0.5)  # type: ignore[arg-type]
    monitor.log_rollouts(step, [{"reward": 1.0}])  # type: ignore[arg-type]
    assert sum(t.count for t in monitor.troubles) == 3
    monitor.log(1, {"reward": 0.5})
    assert monitor.diagnosis().position.rows == 1


@pytest.mark.parametrize(
    "metrics", [None, 5, [1], {"reward": Hostile()}, HostileMapping(a=1), {Hostile: 1.0}, {"x" * 400: 1.0}]
)
def test_no_metrics_raise(metrics: object) -> None:
    monitor = Monitor(RunConfig())
    assert monitor.log(1, metrics) == ()  # type: ignore[arg-type]
    assert sum(t.count for t in monitor.troubles) <= 1
    monitor.log(2, {"reward": 0.5})
    assert monitor.diagnosis().position.last_step == 2


def test_no_rollouts_and_no_scores_raise() -> None:
    monitor = Monitor(RunConfig())
    for bad in (None, "text", [1], [{"reward": Hostile()}], {"reward": 1.0}):
        monitor.log_rollouts(1, bad)  # type: ignore[arg-type]
    monitor.add_eval("a", 1, "x")  # type: ignore[arg-type]
    monitor.add_event(None)  # type: ignore[arg-type]
    assert [t.count for t in monitor.troubles if t.what == "Monitor.add_eval failed"] == [1]
    monitor.log(2, {"reward": 0.5})
    assert monitor.diagnosis().position.last_step == 2


def test_a_broken_watcher_hides_nothing_from_the_others() -> None:
    seen: list[int] = []

    class Broken(Watcher):
        def on_row(self, step: int, values: Mapping[str, float]) -> None:
            raise RuntimeError("broken")

    class Good(Watcher):
        def on_row(self, step: int, values: Mapping[str, float]) -> None:
            seen.append(step)

    monitor = Monitor(RunConfig(), watchers=[Broken(), Good()])
    for step in range(1, 11):
        monitor.log(step, row(step))
    assert seen == list(range(1, 10))
    assert [(t.what, t.count) for t in monitor.troubles] == [("Broken failed", 9)]


def test_clocks_that_jump_matter_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps: Iterator[float] = iter(np.random.default_rng(0).uniform(-1e9, 1e9, 10_000))
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    monkeypatch.setattr(time, "monotonic", lambda: next(jumps))
    assert fed(list(range(1, 100))).diagnosis().outcomes == fed(list(range(1, 100))).diagnosis().outcomes


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, 0),
        ({"RANK": "3", "LOCAL_RANK": "0"}, 3),
        ({"SLURM_PROCID": "2"}, 2),
        ({"LOCAL_RANK": "1"}, 1),
        ({"RANK": "3", "RLVITALS_RANK": "0"}, 0),
        ({"RANK": "not a rank"}, 0),
    ],
)
def test_the_rank_is_found_from_the_environment(env: dict[str, str], expected: int) -> None:
    assert ranks.rank(env) == expected


def test_other_ranks_do_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monitor = Monitor(RunConfig(), directory=tmp_path / "vitals", stop_on="low")
    for step in range(1, 50):
        assert monitor.log(step, {"reward": float("nan"), "loss": float("nan")}) == ()
    monitor.log_rollouts(1, [{"reward": 1.0}])
    monitor.close()
    assert not (tmp_path / "vitals").exists()
    assert monitor.diagnosis().verdict.value == "cannot_say"
    assert monitor.stop_due() is None


def test_texts_are_scored_within_a_share_of_the_time_between_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(pace.time, "perf_counter", lambda: now)
    found = pace.Pace(64)
    taken = []
    for between in (0.0, 10.0, 1.0, 0.1, 0.0, -1e9, 1e9):  # the last two: clocks that jump
        now += between
        texts = found.texts()
        taken.append(texts)
        begin = now
        now += 0.001 * texts  # a millisecond for each text
        found.spent(begin, texts)
    assert taken == [8, 64, 10, 1, 0, 0, 64]


def test_rollouts_join_the_row_of_their_step_and_fill_what_was_not_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "TEXT_SHARE", 1e9)  # steps of a test follow each other too fast
    monitor = Monitor(RunConfig(), directory=tmp_path, texts=2)
    rollouts = [
        {"group": g, "index": i, "reward": float(i), "completion": f"answer {i}", "reward_parts": {"right": float(i)}}
        for g in ("a", "b")
        for i in range(4)
    ]
    for step in range(1, 10):
        monitor.log(step, {"entropy": 0.5})
        monitor.log_rollouts(step, rollouts)
    found = monitor._rows.row(9)
    assert found is not None
    assert (found["rollouts/reward_mean"], found["entropy"]) == (1.5, 0.5)
    assert (found["reward_mean"], found["zero_variance_frac"]) == (1.5, 0.0)  # the trainer logs neither
    monitor.log(9, {"reward_mean": 0.7})
    assert monitor._rows.row(9) == {**found, "reward_mean": 0.7}
    monitor.log_rollouts(10, rollouts)
    last = monitor._rows.row(10)
    assert last is not None
    assert "reward_mean" not in last  # it does, as has been seen since
    assert monitor.text_share == pytest.approx(0.25)
    monitor.close()
    lines = (tmp_path / "rollouts.jsonl").read_text().splitlines()
    assert len(lines) == 80
    assert sum('"completion"' in line for line in lines) == 20
    again = Monitor(RunConfig(), directory=tmp_path)
    again.begin()
    assert again._rows.row(9) == {**found, "reward_mean": 0.7}
    assert again._rows.row(10) == last
    again.close()
    assert load(tmp_path).columns["rollouts/reward_mean"].tolist() == [1.5] * 10


def test_what_is_logged_after_the_end_is_counted() -> None:
    monitor = fed([1, 2])
    monitor.close()
    monitor.log(3, row(3))
    assert [t.what for t in monitor.troubles] == ["Monitor.log after close: nothing is taken"]
    assert monitor.diagnosis().position.rows == 2
