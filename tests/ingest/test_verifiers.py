"""verifiers: keys of its trainer, results of its evaluations old and new."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rlvitals.errors import InputError, NotATrainingRun
from rlvitals.ingest import load, registry
from rlvitals.ingest.configfiles import config_from_mapping
from rlvitals.ingest.evals import read_evals
from rlvitals.ingest.verifiers import ADAPTER
from tests.ingest.tables import first, mapped

ROW = {"step": 1, "reward": 0.5, "reward/std": 0.2, "reward/format": 0.9, "tokens/completion": 80.0,
       "importance_ratio": 1.001, "entropy": 0.6, "mismatch_kl": 1e-3, "loss": 0.1, "learning_rate": 1e-5}  # fmt: skip


def test_keys_of_the_trainer() -> None:
    assert registry.pick(frozenset(ROW)) is ADAPTER
    assert registry.pick(frozenset(f"train/{key}" for key in ROW)) is ADAPTER
    assert first(mapped(ADAPTER, [ROW])) == {
        "reward_mean": 0.5, "reward_std": 0.2, "reward_part/format": 0.9, "length_mean": 80.0,
        "sampler_ratio_mean": 1.001, "entropy": 0.6, "kl_sampler_trainer": 1e-3, "loss": 0.1, "learning_rate": 1e-5,
    }  # fmt: skip


def test_ratio_masks_are_distances_from_one() -> None:
    found = config_from_mapping(
        {"mask_ratio_low": 0.125, "mask_ratio_high": 8.0, "batch_size": 512, "rollouts_per_example": 16}, ADAPTER, "x"
    )
    assert (found.clip_low, found.clip_high, found.prompts_per_step, found.group_size) == (0.875, 7.0, 32, 16)


def _legacy(folder: Path, model: str, rewards: list[tuple[int, float | None]]) -> Path:
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"model": model, "env_id": "gsm8k"}))
    rows = [
        {"example_id": i, "prompt": [], "completion": [], "reward": r, "error": None if r is not None else "boom"}
        for i, r in rewards
    ]
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"example_id": 9, "rew')
    return folder


def test_legacy_results_are_held_out_scores(tmp_path: Path) -> None:
    _legacy(tmp_path / "e/a", "org/m-step-100", [(0, 1.0), (0, 0.0), (1, 1.0), (1, 1.0), (2, None)])
    _legacy(tmp_path / "e/b", "org/m-step-200", [(0, 1.0), (0, 1.0), (1, 1.0), (1, 1.0)])
    found = read_evals("gsm8k", tmp_path / "e")
    assert (found.step.tolist(), found.score.tolist(), found.metric) == ([100, 200], [0.75, 1.0], "accuracy")
    np.testing.assert_allclose(found.stderr, [math.sqrt(0.125 / 2), 0.0])  # over examples; the failed one is left out


def test_results_without_a_step_are_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No training step in the name"):
        read_evals("gsm8k", _legacy(tmp_path / "a", "org/m", [(0, 1.0)]))


def _episode(task: str, score: float, step: int | None, ok: bool = True) -> dict[str, object]:
    work = {"type": "eval", **({"step": step} if step is not None else {})}
    return {
        "id": "x", "env": {"name": "gsm8k"}, "task": {"hash": task}, "run": {"work": work}, "ok": ok,
        "traces": [{"rewards": {"right": {"score": score, "weight": 1.0}, "form": {"score": 1.0, "weight": 0.2}}}],
    }  # fmt: skip


def test_current_traces_are_held_out_scores(tmp_path: Path) -> None:
    for step, scores in ((10, (0.0, 1.0)), (20, (1.0, 1.0))):
        file = tmp_path / f"rollouts/step_{step}/eval/all/traces.jsonl"
        file.parent.mkdir(parents=True)
        rows = [_episode(f"t{i}", s, step) for i, s in enumerate(scores)] + [_episode("t9", 0.0, step, ok=False)]
        file.write_text("\n".join(map(json.dumps, rows)))
    found = read_evals("gsm8k", tmp_path / "rollouts")
    assert (found.step.tolist(), found.metric, found.items) == ([10, 20], "reward", 2)
    np.testing.assert_allclose(found.score, [0.7, 1.2])


def test_results_are_refused_as_a_training_log(tmp_path: Path) -> None:
    file = _legacy(tmp_path / "a", "m", [(0, 1.0)]) / "results.jsonl"
    with pytest.raises(NotATrainingRun, match="verifiers evaluation"):
        load(file)
    traces = tmp_path / "traces.jsonl"
    traces.write_text(json.dumps(_episode("t", 1.0, None)) + "\n")
    with pytest.raises(NotATrainingRun, match="--evals"):
        load(traces)
