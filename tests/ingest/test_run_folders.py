"""Every run folder of the format samples: the right trainer, one sink read and the others named, nothing twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rlvitals.errors import NotATrainingRun
from rlvitals.ingest import load
from rlvitals.ingest.registry import by_name
from rlvitals.reference.trainer import logged
from rlvitals.schema import EventKind
from tests.fuzz.files import event_file, tensorboard_records


@dataclass(frozen=True)
class Folder:
    """What a folder must give: its trainer, the sink that is read, words that must stand in the note, settings."""

    trainer: str
    reads: str
    left: tuple[str, ...] = ()
    first_step: int = 1
    rows: int = 16
    settings: tuple[str, ...] = ()
    checkpoints: tuple[int, ...] = ()


FOLDERS: dict[str, Folder] = {
    "agent_lightning": Folder("agent-lightning", "AgentLightning/calc_x.jsonl"),
    "areal": Folder("AReaL", "tensorboard/events", ("console.log",), 0, settings=("group_size", "token_budget")),
    "atropos": Folder("Atropos", "data/gsm8k_1.jsonl", ("eval_results/metrics.json",), rows=64),
    "mlx_lm_lora": Folder("mlx-lm-lora", "console.log", settings=("group_size", "kl_coef", "clip_low")),
    "ms_swift": Folder(
        "ms-swift",
        "output/v0-20261129-100000/logging.jsonl",
        ("checkpoint-16/trainer_state.json",),
        settings=("group_size", "temperature", "kl_coef"),
        checkpoints=(16,),
    ),
    "nemo_rl": Folder(
        "NeMo-RL",
        "logs/exp_001/tensorboard/events",
        settings=("group_size", "temperature", "clip_low"),
        checkpoints=(10,),  # without its weights
    ),
    "open_instruct": Folder("open-instruct", "wandb_history_export.jsonl"),
    "openrlhf": Folder("OpenRLHF", "tensorboard/ppo_1129T10:00/events", ("console.log",)),
    "prime_rl": Folder(
        "prime-rl", "outputs/my-run/metrics.jsonl", ("orchestrator.log",), settings=("group_size", "temperature")
    ),
    "prime_rl_v0.5": Folder("prime-rl", "wandb_history_export.jsonl"),
    "rasbt_reasoning_from_scratch": Folder(
        "chapter-7 scripts", "logs/7_6_plus_format_reward_metrics.csv", ("7_6_plus_format_reward_metrics.txt",)
    ),
    "rllm": Folder("rLLM", "file_logger/rllm-agent/math.jsonl"),
    "roll": Folder("ROLL", "tensorboard/events", ("console.log",), 0),
    "skyrl": Folder("SkyRL", "tensorboard_log/events", ("console.log",)),
    "slime": Folder("slime", "tensorboard_log/slime/20261129_100000/events", ("console.log",), 0),
    "tinker_cookbook": Folder(
        "tinker-cookbook", "metrics.jsonl", (), 0, settings=("group_size", "temperature"), checkpoints=(10,)
    ),
    "torchforge": Folder("torchforge", "console.log"),
    "trl": Folder("TRL", "grpo_out/trainer_state.json", ("events.out", "console.log"), checkpoints=(8, 16)),
    "trl_real_run": Folder("TRL", "trainer_state.json", ("console.log",), rows=20),
    "trl_v0.15": Folder("TRL", "grpo_out/checkpoint-16/trainer_state.json", checkpoints=(16,)),
    "unsloth": Folder("unsloth", "outputs/checkpoint-16/trainer_state.json", checkpoints=(16,)),
    "verl": Folder(
        "verl",
        "file_logger/verl_examples/gsm8k.jsonl",
        ("tensorboard_log/", "console.log"),
        settings=("group_size", "temperature", "kl_coef", "token_budget"),
    ),
}
EVALUATIONS_ONLY = {"verifiers_legacy"}  # results files without a training log


@pytest.mark.parametrize("name", FOLDERS)
def test_folder_is_one_run(shared: Path, name: str) -> None:
    want = FOLDERS[name]
    run = load(shared / "formats" / name)
    assert run.trainer.name == want.trainer
    assert run.step.tolist() == list(range(want.first_step, want.first_step + want.rows))
    assert run.segments == ()
    note = run.notes[0].text
    assert note.startswith(f"read {want.reads}")
    assert [left for left in want.left if left not in note.partition("; ")[2]] == []
    assert [field for field in want.settings if field not in run.config.known()] == []
    assert tuple(e.step for e in run.events if e.kind is EventKind.CHECKPOINT) == want.checkpoints
    assert len(run.sources) == 1


def test_every_folder_is_listed(shared: Path) -> None:
    here = {path.name for path in (shared / "formats").iterdir() if path.is_dir() and path.name != "_truth"}
    assert here == set(FOLDERS) | EVALUATIONS_ONLY


def test_a_folder_of_evaluations_alone_is_no_run(shared: Path) -> None:
    with pytest.raises(NotATrainingRun, match=r"results\.jsonl"):
        load(shared / "formats" / "verifiers_legacy")


def test_settings_come_from_the_tracker_whose_rows_are_left_out(tmp_path: Path) -> None:
    tracker = tmp_path / "runs" / "Nov29_11-19-09_host" / "events.out.tfevents.1.h.1.0"
    tracker.parent.mkdir(parents=True)
    tracker.write_bytes(event_file(tensorboard_records()))
    rows = [{"step": s, "reward": s / 8, "completions/mean_length": 9.0, "loss": 0.1, "kl": 0.5, "entropy": 0.4,
             "grad_norm": 1.0, "reward_std": s / 8, "num_tokens": s} for s in range(1, 12)]  # fmt: skip
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    run = load(tmp_path)
    assert run.notes[0].text == (
        "read trainer_state.json; took the settings from runs/Nov29_11-19-09_host/events.out.tfevents.1.h.1.0"
    )
    assert run.config.kl_coef == 0.04
    assert np.array_equal(run.columns["reward_mean"], np.arange(1, 12) / 8)


def test_settings_of_another_run_are_not_taken(tmp_path: Path) -> None:
    tracker = tmp_path / "runs" / "Nov29_11-19-09_host" / "events.out.tfevents.1.h.1.0"
    tracker.parent.mkdir(parents=True)
    tracker.write_bytes(event_file(tensorboard_records()))
    rows = [{"step": s, "reward": 0.9 - s / 30, "completions/mean_length": 9.0, "loss": 0.1, "kl": 0.5, "entropy": 0.4,
             "grad_norm": 1.0, "reward_std": s / 8, "num_tokens": s} for s in range(1, 12)]  # fmt: skip
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    assert load(tmp_path).config.kl_coef is None


@pytest.mark.parametrize("name", FOLDERS)
def test_no_page_calls_absent_what_a_run_of_that_trainer_holds(shared: Path, name: str) -> None:
    run = load(shared / "formats" / name)
    adapter = by_name(run.trainer.name)
    assert adapter is not None
    logs = [m for m in run.columns if m not in run.provenance or run.provenance[m].key != "rollouts"]
    got = {metric.partition("/")[0] + "/" * ("/" in metric) for metric in logs}
    own = {"nonfinite/", "parse_failure_frac"}  # the latter is the user's own key in three samples
    assert got - logged(adapter) - own == set()
