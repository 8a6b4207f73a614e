"""`rlvitals train`: bad calls are refused before anything is written, and `check` understands the default run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rlvitals
from rlvitals.cli.main import app

pytest.importorskip("torch")
pytest.importorskip("transformers")

runner = CliRunner()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--recipe", "grop"], "Nearest: grpo"),
        (["--set", "prompst=4"], "Nearest: prompts"),
        (["--set", "prompts"], "not a pair"),
        (["--set", "group_size=1", "--set", "lr=-1"], "2 problems"),
        (["--set", "minibatches=999"], "more minibatches than rollouts; found 999 for 128"),
        (["--set", "kl_coef=-0.5"], "kl_coef: setting out of range; found -0.5; expected at least 0"),
        (["--set", "kl_coef=-1"], "kl_coef: setting out of range; found -1; expected at least 0"),
        (["--recipe", "grpo:kl=foo"], "--recipe: not a value of the option kl; found 'kl=foo'"),
        (["--resume", "--out", "nowhere"], "found no such folder; expected its config.json"),
        (["--resume"], "nothing to resume"),
        (["--resume", "--out", "nowhere"], "no run of this trainer in the folder"),
        (["--task", "arithmetik"], "Nearest: arithmetic"),
        (["--task", "nope"], "task: unknown task; found 'nope'"),
        (["--task", "nope", "--tracker", "tensorboard"], "task: unknown task; found 'nope'"),
        (["--task", "arithmetic:tiers=9"], "unknown tier"),
        (["--task", "arithmetic:tier=1"], "Nearest: tiers"),
        (["--task", "arithmetic:tiers=2+2"], "arithmetic: tiers: a tier named twice; found '2'"),
        (["--task", "calculator:format=nan"], "format: a task option is out of range; found nan"),
        (["--task", "dataset:path=a.jsonl,max_tokens=0,seconds=-1"], "2 problems"),
        (["--model", "./nowhere"], "the model can't be loaded"),
        (["--tracker", "abacus"], "--tracker: unknown tracker; found 'abacus'"),
        (["--warm-start", "nowhere.jsonl"], "no such file"),
        (["eval", "nowhere"], "no run of this trainer in the folder"),
    ],
)
def test_a_bad_call_is_refused(
    args: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["train", *args])
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert result.output.startswith("rlvitals: ")  # the error, and no word before it
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_default_run_is_trained_checked_resumed_and_scored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["train", "--steps", "20", "--set", "save_every=10", "--tracker", "tensorboard"])
    assert result.exit_code == 0, result.output
    folder = tmp_path / "runs" / "arithmetic-default-seed0"
    assert "20 of 20 steps: all planned steps are done" in result.output
    run = rlvitals.load(folder)
    assert (run.rows, run.trainer.name, run.config.group_size) == (20, "rlvitals train", 8)
    assert run.evals["heldout"].score[-1] > run.evals["heldout"].score[0] + 0.1
    assert list((folder / "rlvitals").glob("*tfevents*")) != []
    again = runner.invoke(app, ["train", "--resume", "--out", str(folder), "--steps", "22"])
    assert "22 of 22 steps" in again.output
    assert rlvitals.load(folder / "metrics.jsonl").step.tolist() == list(range(1, 23))
    scored = runner.invoke(app, ["train", "eval", str(folder), "--items", "128"])
    assert scored.exit_code == 0, scored.output
    table = (folder / "rescored.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table] == ["step", "10", "20", "22"]
    logged = {
        r["step"]: r["eval/heldout"] for r in map(json.loads, (folder / "metrics.jsonl").open()) if "eval/heldout" in r
    }
    # the same items and seeds as during the run: the same score, item by item
    assert float(table[1].split(",")[1]) == pytest.approx(logged[10], abs=1e-6)
    items, during = (
        [line for line in (folder / name).read_text().splitlines() if json.loads(line)["step"] in (10, 20)]
        for name in ("rescored.jsonl", "evals.jsonl")
    )
    assert items == during
    alone = rlvitals.load(folder)
    assert (alone.rows, list(alone.evals)) == (22, ["heldout"])  # the new file is taken for no log
    both = [
        rlvitals.load(folder, evals={"again": folder / f"rescored.{kind}"}).evals["again"] for kind in ("csv", "jsonl")
    ]
    assert both[0].score.tolist() == pytest.approx(both[1].score.tolist(), abs=1e-6)
    assert both[0].stderr.tolist() == pytest.approx(both[1].stderr.tolist(), abs=1e-6)
