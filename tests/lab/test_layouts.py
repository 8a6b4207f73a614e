"""A run of ours in the layouts of other trainers: each is read back by its own adapter, value by value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlvitals
from rlvitals.lab.layouts import CHAPTER7_COLUMNS, LAYOUTS, TRL_KEYS, VERL_KEYS, chapter7, lossy, trl, verl
from rlvitals.metrics import is_canonical

STEPS = 24
METRICS = sorted({*TRL_KEYS, *VERL_KEYS, *(m for _, m in CHAPTER7_COLUMNS)} - {"kl_coef"})
NEVER = {"zero_variance_frac"}  # chapter 7: read off an advantage spread of 0


def value(metric: str, step: int) -> float:
    """Return a value that no other metric or step has; shares within their range."""
    n = METRICS.index(metric)
    fraction = metric.endswith("_frac") or metric.startswith(("prob_gap", "sampler_ratio"))
    return (n + 1) / 100 + step / 10_000 if fraction else float(n + 1) + step / 128


def source(folder: Path, *, kl_coef: float = 0.04, **changes: Mapping[int, Any]) -> Path:
    """Write a run as our trainer logs it: held-out scores before the first step and every eight."""
    folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = [{"step": 0, "eval/heldout": 0.25}]
    for step in range(1, STEPS + 1):
        row = {m: value(m, step) for m in METRICS}
        row |= {"step": step, "kl_coef": kl_coef, "reward_part/correct": step / 64, "reward_part/format": step / 32}
        row |= {m: at[step] for m, at in changes.items() if step in at}
        if step % 8 == 0:
            row["eval/heldout"] = 0.25 + step / 64
        lines.append(row)
    (folder / "metrics.jsonl").write_text("\n".join(json.dumps(r) for r in lines) + "\n", encoding="utf-8")
    config = {"train": {"steps": STEPS}, "run": {"kl_coef": kl_coef}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_every_metric_that_is_rewritten_is_one_of_ours() -> None:
    assert [m for m in METRICS if not is_canonical(m)] == []
    assert list(LAYOUTS) == ["own", "trl", "verl", "chapter7"]


def test_trl(tmp_path: Path) -> None:
    run = rlvitals.load(trl(source(tmp_path / "run"), tmp_path / "out"))
    assert (run.trainer.name, run.step.tolist()) == ("TRL", list(range(1, STEPS + 1)))
    for metric in TRL_KEYS:
        assert run.values(metric).tolist() == [value(metric, s) for s in range(1, STEPS + 1)], metric
    assert run.values("reward_part/correct").tolist() == [s / 64 for s in range(1, STEPS + 1)]
    assert run.values("reward_part/format").tolist() == [s / 32 for s in range(1, STEPS + 1)]
    assert set(run.columns) == {*TRL_KEYS, "reward_part/correct", "reward_part/format"}
    assert dict(run.evals) == {}  # GRPOTrainer has no held-out score of its own


def test_verl(tmp_path: Path) -> None:
    run = rlvitals.load(verl(source(tmp_path / "run"), tmp_path / "out"))
    assert (run.trainer.name, run.step.tolist()) == ("verl", list(range(1, STEPS + 1)))
    for metric in set(VERL_KEYS) - {"kl_coef"}:
        assert run.values(metric).tolist() == [value(metric, s) for s in range(1, STEPS + 1)], metric
    assert run.values("kl_coef").tolist() == [0.04] * STEPS
    assert set(run.columns) == set(VERL_KEYS)
    held = run.evals["heldout"]
    assert held.step.tolist() == [0, 8, 16, 24]
    assert held.score.tolist() == [0.25, 0.375, 0.5, 0.625]


def test_chapter_7(tmp_path: Path) -> None:
    run = rlvitals.load(chapter7(source(tmp_path / "run"), tmp_path / "out"))
    assert (run.trainer.name, run.step.tolist()) == ("chapter-7 scripts", list(range(1, STEPS + 1)))
    for _, metric in CHAPTER7_COLUMNS:
        assert run.values(metric).tolist() == [value(metric, s) for s in range(1, STEPS + 1)], metric
    assert set(run.columns) - NEVER == {metric for _, metric in CHAPTER7_COLUMNS}
    (held,) = run.evals.values()
    assert held.step.tolist() == [8, 16, 24]
    assert held.score.tolist() == [0.375, 0.5, 0.625]


def test_lossy_means_of_ten_steps_without_the_rest(tmp_path: Path) -> None:
    run = rlvitals.load(lossy(source(tmp_path / "run"), tmp_path / "out"))
    assert run.step.tolist() == [10, 20]
    expected = [np.mean([value("entropy", s) for s in range(a, a + 10)]) for a in (1, 11)]
    assert run.values("entropy") == pytest.approx(expected)


@pytest.mark.parametrize("write", [trl, verl])
def test_without_a_kl_term_no_divergence_is_logged(write: Any, tmp_path: Path) -> None:
    run = rlvitals.load(write(source(tmp_path / "run", kl_coef=0.0), tmp_path / "out"))
    assert "kl_ref" not in run.columns
    assert "kl_coef" not in run.columns


def test_a_value_that_is_not_finite_stays_so(tmp_path: Path) -> None:
    made = source(tmp_path / "run", grad_norm={5: float("nan")})
    for name, write in (("trl", trl), ("verl", verl)):
        run = rlvitals.load(write(made, tmp_path / name))
        assert np.isnan(run.values("grad_norm")[4])
        assert run.values("nonfinite/grad_norm")[4] == 1.0


def test_a_step_without_a_reward_is_no_row_of_trl_and_chapter_7(tmp_path: Path) -> None:
    made = source(tmp_path / "run")
    lines = (made / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    lines[3] = json.dumps({"step": 3, "loss": 0.0})
    (made / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, write in (("trl", trl), ("chapter7", chapter7)):
        assert rlvitals.load(write(made, tmp_path / name)).step.tolist() == [1, 2, *range(4, STEPS + 1)]
