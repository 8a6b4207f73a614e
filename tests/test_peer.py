"""The benchmark beside TRL: what it counts, and that the kept results say what the measurements page says."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from statistics import median

import pytest

pytest.importorskip("torch")

from benchmarks.peer.setup import UNTIMED, Marks, Work, coin
from benchmarks.train import KINDS

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "train.json"
WORK = Work("arithmetic", "tiny", budget=16, steps=UNTIMED + 2, prompts=4, group_size=8)


@pytest.fixture(scope="module")
def kept() -> dict[str, list[dict[str, float]]]:
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {kind: found[kind] for kind in KINDS}


def middle(rows: list[dict[str, float]], trainer: str, key: str) -> float:
    return median(r[key] for r in rows if r["trainer"] == trainer)


def test_first_steps_and_evaluations_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    monkeypatch.setattr("time.perf_counter", lambda: 2 * clock[0])
    marks = Marks()
    marks.start()

    def work(seconds: float) -> None:
        clock[0] += seconds

    for _ in range(UNTIMED):
        marks.timed("update", work)(5.0)  # slow: imports, first allocations
        marks.step(20.0)
    marks.timed("update", work)(1.0)
    marks.step(10.0)
    work(100.0)  # an evaluation
    marks.away = (100.0, 200.0)
    marks.timed("update", work)(3.0)
    marks.step(14.0)
    found = marks.result(WORK, before_mb=0.0)
    assert found["cpu_s_per_step"] == 2.0
    assert found["trajectories_per_cpu_s"] == 32 / 2.0
    assert found["trajectories_per_s"] == 32 / 4.0
    assert found["length_mean"] == 12.0
    assert found["parts_cpu_s_per_step"] == {"update": 2.0}


def test_both_are_paid_by_the_same_coin() -> None:
    assert [coin(t) for t in ("", "12", "<think>")] == [
        float(zlib.crc32(t.encode()) & 1) for t in ("", "12", "<think>")
    ]


def test_our_settings_are_those_of_the_comparison() -> None:
    config = WORK.config
    assert (config.recipe, config.minibatches, config.epochs, config.reference_reset) == ("bnpo", 1, 1, -1)
    assert (config.prompts, config.group_size, config.max_tokens, config.eval_every) == (4, 8, 16, 0)


def test_trainers_took_turns_on_the_same_work(kept: dict[str, list[dict[str, float]]]) -> None:
    for kind, rows in kept.items():
        ours, trl = ([r["seed"] for r in rows if r["trainer"] == t] for t in ("ours", "trl"))
        assert ours == trl, kind
        assert {r["trainer"] for r in rows[:2]} == {"ours", "trl"}, kind


def test_what_the_measurements_page_concludes(kept: dict[str, list[dict[str, float]]]) -> None:
    for kind in ("equal", "ragged", "large"):
        rows = kept[kind]
        assert middle(rows, "ours", "trajectories_per_cpu_s") > middle(rows, "trl", "trajectories_per_cpu_s"), kind
        assert middle(rows, "ours", "extra_mb") < middle(rows, "trl", "extra_mb"), kind
    assert [r["length_mean"] for r in kept["equal"]] == pytest.approx([16.0] * len(kept["equal"]), abs=0.05)
