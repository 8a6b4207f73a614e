"""Which files of the trainers' run folders are taken for logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvitals.ingest import load
from rlvitals.ingest.discover import candidates, kind_of
from tests.ingest import test_stores, test_tensorboard, test_wandb

# Sample folder -> kind -> files of its first candidate, relative to the folder.
FOUND: dict[str, dict[str, list[str]]] = {
    "trl": {
        "trainer state": ["grpo_out/trainer_state.json"],
        "TensorBoard": ["grpo_out/runs/Nov29_11-19-09_host/events.out.tfevents.1795952803.vm.25055.0"],
        "console log": ["console.log"],
    },
    "verl": {
        "JSONL": ["file_logger/verl_examples/gsm8k.jsonl"],
        "TensorBoard": ["tensorboard_log/verl_examples/gsm8k/events.out.tfevents.1795952804.vm.25055.1"],
        "console log": ["console.log"],
    },
    "nemo_rl": {"TensorBoard": ["logs/exp_001/tensorboard/events.out.tfevents.1795952804.vm.25055.3"]},
    "openrlhf": {
        "TensorBoard": ["tensorboard/ppo_1129T10:00/events.out.tfevents.1795952804.vm.25055.2"],
        "console log": ["console.log"],
    },
    "areal": {
        "TensorBoard": ["tensorboard/events.out.tfevents.1795952805.vm.25055.6"],
        "console log": ["console.log"],
    },
    "roll": {"TensorBoard": ["tensorboard/events.out.tfevents.1795952805.vm.25055.7"], "console log": ["console.log"]},
    "skyrl": {
        "TensorBoard": ["tensorboard_log/events.out.tfevents.1795952804.vm.25055.4"],
        "console log": ["console.log"],
    },
    "slime": {
        "TensorBoard": ["tensorboard_log/slime/20261129_100000/events.out.tfevents.1795952804.vm.25055.5"],
        "console log": ["console.log"],
    },
    "prime_rl": {
        "JSONL": ["outputs/my-run/metrics.jsonl"],
        "console log": ["outputs/my-run/logs/attempt_0/orchestrator.log"],
    },
    "tinker_cookbook": {"JSONL": ["metrics.jsonl"]},
    "ms_swift": {"ms-swift log": ["output/v0-20261129-100000/logging.jsonl"]},
    "rllm": {"JSONL": ["file_logger/rllm-agent/math.jsonl"]},
    "agent_lightning": {"JSONL": ["AgentLightning/calc_x.jsonl"]},
    "open_instruct": {"JSONL": ["wandb_history_export.jsonl"]},
    "prime_rl_v0.5": {"JSONL": ["wandb_history_export.jsonl"]},
    "mlx_lm_lora": {"console log": ["console.log"]},
    "torchforge": {"console log": ["console.log"]},
    "unsloth": {"trainer state": ["outputs/checkpoint-16/trainer_state.json"]},
    "trl_v0.15": {"trainer state": ["grpo_out/checkpoint-16/trainer_state.json"]},
    "rasbt_reasoning_from_scratch": {"CSV": ["logs/7_6_plus_format_reward_metrics.csv"]},
}


@pytest.mark.parametrize("sample", FOUND)
def test_sample_folders(shared: Path, sample: str) -> None:
    folder = shared / "formats" / sample
    found = {kind: groups for kind, groups in candidates(folder).items() if kind != "JSON"}
    first = {
        kind: [p.relative_to(folder).as_posix() for p in found[kind][0]] for kind in FOUND[sample] if kind in found
    }
    assert first == FOUND[sample]
    assert all(len(found[kind]) == 1 for kind in FOUND[sample] if kind != "console log")
    sinks = ("JSONL", "CSV", "parquet", "TensorBoard", "trainer state", "ms-swift log")
    assert [kind for kind in found if kind in sinks and kind not in FOUND[sample]] in ([], ["trainer state"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("events.out.tfevents.1700000000.host.1.0", "TensorBoard"),
        ("events.out.tfevents.1700000000.host.1.0.gz", "TensorBoard"),
        ("run-abc123.wandb", "W&B files"),
        ("mlruns.db", "SQLite store"),
        ("metrics.jsonl.zst", "JSONL"),
        ("trainer_state.json.gz", "trainer state"),
        ("train_data_step12.jsonl", ""),
        ("debug-internal.log", ""),
        ("wandb-metadata.json", ""),
        ("model.safetensors", ""),
    ],
)
def test_names(name: str, kind: str) -> None:
    assert kind_of(Path(name)) == kind


def test_starts_of_one_run_are_together_and_other_runs_apart(tmp_path: Path) -> None:
    for folder in ("runs/Nov29_10-00-00_h", "runs/Nov30_10-00-00_h", "runs/other/a", "runs/other/b"):
        (tmp_path / folder).mkdir(parents=True)
    first = tmp_path / "runs/Nov29_10-00-00_h/events.out.tfevents.1.h.1.0"
    second = tmp_path / "runs/Nov30_10-00-00_h/events.out.tfevents.2.h.1.0"
    for path in (first, second):
        path.touch()
    assert candidates(tmp_path) == {"TensorBoard": [(first, second)]}
    for path in (first, second):
        path.unlink()
    one, other = (tmp_path / f"runs/other/{n}/events.out.tfevents.1.h.1.0" for n in "ab")
    one.touch()
    other.touch()
    assert candidates(tmp_path) == {"TensorBoard": [(one,), (other,)]}


def _write_all_sinks(folder: Path, last: int) -> None:
    """Write the same run as TRL does with report_to="all": state, events, W&B, MLflow, console."""
    steps = range(1, last + 1)
    rows = [{"step": s, "reward": s / 64, "reward_std": 0.25, "completions/mean_length": 100.0 + s} for s in steps]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    (folder / "train.log").write_text("\n".join(map(str, rows)))
    start = "out/runs/Nov29_10-00-00_h/events.out.tfevents.1.h.1.0"
    test_tensorboard.write(folder / start, test_tensorboard.trl_rows(1, last))
    test_wandb.write(folder / "wandb/offline-run-1-abc/run-abc.wandb", test_wandb.rows(1, last))
    reward = [f"{s} {s / 64} {s}" for s in range(1, last + 1)]
    test_stores.mlflow_folder(folder / "mlruns/1/abc", {"reward": reward}, {})


def test_the_same_run_in_every_sink_is_counted_once(tmp_path: Path) -> None:
    _write_all_sinks(tmp_path, 6)
    run = load(tmp_path)
    assert run.step.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.columns["reward_mean"].tolist() == [s / 64 for s in range(1, 7)]
    assert (run.segments, run.sources) == ((), (str(tmp_path / "trainer_state.json"), str(tmp_path / "mlruns/1/abc")))
    text = run.notes[0].text
    assert text.startswith("read trainer_state.json; took the ending from mlruns/1/abc; left out out/runs/")
    assert text.endswith("wandb/offline-run-1-abc/run-abc.wandb, train.log")
