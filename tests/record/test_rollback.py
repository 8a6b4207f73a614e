"""Rolling back: every layout, whole files only, the newest complete checkpoint before the fault."""

from __future__ import annotations

import json
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlvitals.cli.main import app
from rlvitals.conclude import diagnose
from rlvitals.ingest.checkpoint_files import problems
from rlvitals.ingest.checkpoints import find_checkpoints
from rlvitals.record.resume_commands import resume_command
from rlvitals.record.rollback import advise
from rlvitals.schema import Run
from tests.cli.runs import trl_rows, write_jsonl
from tests.record.runs import healthy, tied

runner = CliRunner()


def safetensors(path: Path, numbers: int = 4, cut: int = 0) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = struct.pack("<Q", len(header)) + header + b"\0" * (4 * numbers)
    path.write_bytes(whole[: len(whole) - cut])


def broken(first_broken: int = 50) -> Run:
    """A run that is fine up to a step and not finite from there on."""
    found = healthy(rows=100)
    grad = found.columns["grad_norm"].copy()
    grad[first_broken - 1 :] = float("nan")
    flags = (found.step >= first_broken).astype(float)
    return replace(found, columns={**found.columns, "grad_norm": grad, "nonfinite/grad_norm": flags})


def test_files_are_looked_into(tmp_path: Path) -> None:
    safetensors(tmp_path / "a" / "model.safetensors")
    assert problems(tmp_path / "a") == ()
    safetensors(tmp_path / "b" / "model.safetensors", cut=3)
    assert "cut off" in problems(tmp_path / "b")[0]
    (tmp_path / "c").mkdir()
    assert problems(tmp_path / "c") == ("c: no files",)
    with zipfile.ZipFile(tmp_path / "c" / "model.pt", "w") as archive:
        archive.writestr("data", "x" * 500)
    assert problems(tmp_path / "c") == ()
    whole = (tmp_path / "c" / "model.pt").read_bytes()
    (tmp_path / "c" / "model.pt").write_bytes(whole[:-40])
    assert "zip directory" in problems(tmp_path / "c")[0]


def test_an_index_must_find_its_shards(tmp_path: Path) -> None:
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name in names:
        safetensors(tmp_path / name)
    index = {"metadata": {"total_size": 32}, "weight_map": {"a": names[0], "b": names[1]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert problems(tmp_path) == ()
    (tmp_path / names[1]).unlink()
    assert "1 of 2 shards missing" in problems(tmp_path)[0]
    index["weight_map"]["b"] = "../../etc/passwd"  # type: ignore[index]
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "1 of 2 shards missing" in problems(tmp_path)[0]


def test_openrlhf_nemo_and_prime_layouts(tmp_path: Path) -> None:
    actor = tmp_path / "openrlhf" / "ckpt" / "_actor"
    for step in (10, 20):
        (actor / f"global_step{step}").mkdir(parents=True)
        (actor / f"global_step{step}" / "mp_rank_00_model_states.pt").write_bytes(b"x")
    (actor / "latest").write_text("global_step10")
    found = find_checkpoints(tmp_path / "openrlhf")
    assert [(e.step, e.complete) for e in found] == [(10, True), (20, False)]
    nemo = tmp_path / "nemo" / "results" / "grpo"
    for step, full in ((5, True), (10, False)):
        weights = nemo / f"step_{step}" / "policy" / "weights"
        weights.mkdir(parents=True)
        (nemo / f"step_{step}" / "training_info.json").write_text("{}")
        if full:
            (weights / "shard.bin").write_bytes(b"x")
    assert [(e.step, e.complete) for e in find_checkpoints(tmp_path / "nemo")] == [(5, True), (10, False)]
    prime = tmp_path / "prime"
    safetensors(prime / "weights" / "step_8" / "model.safetensors")
    (prime / "weights" / "step_8" / "STABLE").touch()
    safetensors(prime / "weights" / "step_16" / "model.safetensors")
    (prime / "checkpoints" / "step_8" / "trainer").mkdir(parents=True)
    (prime / "checkpoints" / "step_8" / "trainer" / "__0_0.distcp").write_bytes(b"x")
    (prime / "checkpoints" / "step_8" / "trainer" / ".metadata").write_bytes(b"x")
    states = {e.path: e.complete for e in find_checkpoints(prime)}
    assert states == {"checkpoints/step_8": True, "weights/step_8": True, "weights/step_16": False}


def test_the_newest_whole_checkpoint_before_the_fault_is_taken(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 60):
        safetensors(tmp_path / f"checkpoint-{step}" / "model.safetensors", cut=5 if step == 40 else 0)
    found = diagnose(replace(broken(), events=find_checkpoints(tmp_path)))
    advice = advise(found, tmp_path)
    assert (advice.step, advice.path) == (30, "checkpoint-30")
    assert "resume_from_checkpoint" in advice.command
    why = {p.step: p.why for p in advice.passed}
    assert "cut off" in why[40]
    assert why[60] == "after the fault began"


def test_no_whole_checkpoint_is_said(tmp_path: Path) -> None:
    advice = advise(diagnose(broken()), tmp_path)
    assert advice.step is None
    assert "No checkpoint is known" in advice.note
    assert advise(diagnose(healthy()), tmp_path).kind == "none"
    assert advise(diagnose(tied()), tmp_path).onset


@pytest.mark.parametrize("trainer", ["TRL", "verl", "OpenRLHF", "NeMo-RL", "prime-rl", "SkyRL", "something else"])
def test_every_command_names_the_checkpoint(trainer: str) -> None:
    assert "30" in resume_command(trainer, "run/step_30", 30)


def test_the_command(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", trl_rows(80, nan_from=40))
    for step in (10, 30, 50):
        safetensors(tmp_path / f"checkpoint-{step}" / "model.safetensors")
    done = runner.invoke(app, ["rollback", str(tmp_path)])
    assert done.exit_code == 0, done.stdout
    assert "checkpoint-30" in done.stdout
    (tmp_path / "checkpoint-10" / "model.safetensors").write_bytes(b"")
    (tmp_path / "checkpoint-30" / "model.safetensors").write_bytes(b"abc")
    assert runner.invoke(app, ["rollback", str(tmp_path)]).exit_code == 3


def test_names_from_disk_come_out_escaped(tmp_path: Path) -> None:
    run = tmp_path / "<img src=x onerror=alert(1)>"
    write_jsonl(run / "log.jsonl", trl_rows(80, nan_from=40))
    safetensors(run / "checkpoint-10" / "model.safetensors")
    shown = runner.invoke(app, ["rollback", str(run), "--format", "markdown"]).stdout
    assert "checkpoint-10" in shown
    assert "<img" not in shown


def dump(path: Path, steps: int = 30, groups: int = 4) -> Path:
    """Rollouts alone, of a run that learns."""
    rows: list[dict[str, object]] = [
        {"step": s, "group": f"{s}-{g}", "prompt": f"{g} + {s}?", "completion": f"it is {g + s + i}",
         "gold": str(g + s), "reward": float(i <= s % 3)}
        for s in range(1, steps + 1) for g in range(groups) for i in range(4)
    ]  # fmt: skip
    return write_jsonl(path, rows)


@pytest.mark.parametrize("steps", [5, 30])
def test_rollouts_alone_cannot_say_that_none_is_needed(tmp_path: Path, steps: int) -> None:
    rollouts = str(dump(tmp_path / "rollouts.jsonl", steps))
    done = runner.invoke(app, ["rollback", rollouts])
    text = " ".join(done.stdout.split())
    assert done.exit_code == 3, done.output
    assert "rollouts.jsonl: cannot say" in text
    assert "a trainer's step log has them" in text
    assert "(such as trainer_state.json or metrics.jsonl), and its checkpoints (none is known here)" in text
    assert "not needed" not in text
    assert json.loads(runner.invoke(app, ["rollback", rollouts, "-f", "json"]).stdout)["kind"] == "unknown"
    checked = " ".join(runner.invoke(app, ["check", rollouts]).stdout.split())
    assert "Not needed" not in checked
    if steps >= 20:  # below, the report has no line on it
        assert "Rollback Cannot say: entropy, KL to the reference and the update are not in these files" in checked


def test_a_run_too_short_to_judge_cannot_say_either(tmp_path: Path) -> None:
    done = runner.invoke(app, ["rollback", str(write_jsonl(tmp_path / "log.jsonl", trl_rows(5)))])
    assert done.exit_code == 3
    assert "cannot say" in done.stdout
    assert "5 usable steps; at least 20 are needed" in " ".join(done.stdout.split())
    assert (
        f"rlvitals check {tmp_path}/log.jsonl"
        in json.loads(runner.invoke(app, ["rollback", str(tmp_path / "log.jsonl"), "-f", "json"]).stdout)["note"]
    )


def test_before_anything_was_learnt_the_run_starts_anew(tmp_path: Path) -> None:
    found = advise(diagnose(broken(first_broken=3)), tmp_path)
    assert (found.step, found.wanted, found.note) == (None, 0, "Start anew from the weights that the run began with.")


def test_where_the_weights_are_kept_no_checkpoint_is_asked_for(tmp_path: Path) -> None:
    rows = [{**r, "kl": 0.002 + 2.5 * min(n / 40, 1.0), "grad_norm": 1.0 + 99.0 * (n in (70, 80))}
            for n, r in enumerate(trl_rows(100))]  # fmt: skip
    log = str(write_jsonl(tmp_path / "log.jsonl", rows))
    checked = runner.invoke(app, ["check", log]).stdout
    assert "Stay at the current checkpoint" in checked, checked
    done = runner.invoke(app, ["rollback", log])
    assert done.exit_code == 0
    assert "stay at the current checkpoint" in done.stdout
    assert "by hand" not in done.stdout
    safetensors(tmp_path / "checkpoint-50" / "model.safetensors")
    text = " ".join(runner.invoke(app, ["rollback", str(tmp_path)]).stdout.split())
    assert "stay at the current checkpoint, the newest is step 50: checkpoint-50" in text
