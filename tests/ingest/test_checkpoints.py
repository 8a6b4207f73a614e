"""Checkpoint layouts of TRL, verl, the chapter-7 scripts and tinker; complete or not."""

from __future__ import annotations

import json
from pathlib import Path

from rlvitals.ingest.checkpoints import find_checkpoints


def put(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(folder: Path) -> list[tuple[int | None, str, bool, str]]:
    return [(e.step, e.path, e.complete, e.detail) for e in find_checkpoints(folder)]


def test_trl(tmp_path: Path) -> None:
    put(tmp_path / "out/checkpoint-100/model.safetensors")
    put(tmp_path / "out/checkpoint-50/adapter_model.safetensors")
    index = json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    )
    for step in (150, 200):
        put(tmp_path / f"out/checkpoint-{step}/model.safetensors.index.json", index)
        put(tmp_path / f"out/checkpoint-{step}/model-00001-of-00002.safetensors")
    put(tmp_path / "out/checkpoint-150/model-00002-of-00002.safetensors")
    put(tmp_path / "out/checkpoint-250/trainer_state.json")
    put(tmp_path / "out/checkpoint-300/model.safetensors", "")
    put(tmp_path / "out/checkpoint-best/model.safetensors")
    assert found(tmp_path) == [
        (50, "out/checkpoint-50", True, ""),
        (100, "out/checkpoint-100", True, ""),
        (150, "out/checkpoint-150", True, ""),
        (200, "out/checkpoint-200", False, "missing model-00002-of-00002.safetensors"),
        (250, "out/checkpoint-250", False, "no model weights"),
        (300, "out/checkpoint-300", False, "no model weights"),
    ]


def test_an_index_cannot_point_out_of_its_folder(tmp_path: Path) -> None:
    put(tmp_path / "secret")
    put(tmp_path / "checkpoint-1/model.safetensors.index.json", '{"weight_map": {"a": "../secret"}}')
    assert found(tmp_path) == [(1, "checkpoint-1", False, "missing ../secret")]


def test_verl(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints/project/name"
    put(root / "latest_checkpointed_iteration.txt", "40\n")
    for step, ranks in ((20, (0, 1)), (40, (0,)), (60, (0, 1))):
        for rank in ranks:
            put(root / f"global_step_{step}/actor/model_world_size_2_rank_{rank}.pt")
    put(root / "global_step_10/data.pt")
    base = "checkpoints/project/name/global_step_"
    assert found(tmp_path) == [
        (10, f"{base}10", False, "no actor folder"),
        (20, f"{base}20", True, ""),
        (40, f"{base}40", False, "1 of 2 model shards missing"),
        (60, f"{base}60", False, "newer than latest_checkpointed_iteration.txt (40)"),
    ]


def test_chapter7(tmp_path: Path) -> None:
    put(tmp_path / "checkpoints/7_5_plus_kl/qwen3-0.6B-rlvr-grpo-step00050.pth")
    put(tmp_path / "checkpoints/7_5_plus_kl/qwen3-0.6B-rlvr-grpo-step00100.pth", "")
    put(tmp_path / "checkpoints/7_5_plus_kl/qwen3-0.6B-rlvr-grpo-step00120-interrupt.pth")
    put(tmp_path / "checkpoints/7_5_plus_kl/qwen3-0.6B-rlvr-grpo.pth")
    base = "checkpoints/7_5_plus_kl/qwen3-0.6B-rlvr-grpo-step"
    assert found(tmp_path) == [
        (50, f"{base}00050.pth", True, ""),
        (100, f"{base}00100.pth", False, "empty file"),
        (120, f"{base}00120-interrupt.pth", True, "saved at an interrupt"),
    ]


def test_tinker(tmp_path: Path) -> None:
    rows = [
        {"name": "000010", "batch": 10, "state_path": "tinker://r/weights/000010", "sampler_path": "tinker://r/s/10"},
        {"name": "final", "batch": 15, "sampler_path": "tinker://r/s/15"},
    ]
    put(tmp_path / "checkpoints.jsonl", "\n".join(map(json.dumps, rows)) + '\n{"batch": 2')
    assert found(tmp_path) == [
        (10, "tinker://r/weights/000010", True, ""),
        (15, "tinker://r/s/15", False, "sampler weights only: no training state"),
    ]


def test_none(tmp_path: Path) -> None:
    assert find_checkpoints(tmp_path / "missing") == ()


def test_real_tinker_sample(shared: Path) -> None:
    (event,) = find_checkpoints(shared / "formats" / "tinker_cookbook")
    assert (event.step, event.path, event.complete) == (10, "tinker://x/weights/000010", True)
