"""`--warm-start FILE`: enough steps at the right rate, once per run, told as it goes; a new form is learnt from 200."""

from __future__ import annotations

import copy
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from rlvitals.cli.main import app
from rlvitals.errors import InputError
from rlvitals.grpo import checkpoint, tiny, warmed
from rlvitals.grpo.loop import go_on, train
from rlvitals.grpo.rescore import rescore
from rlvitals.grpo.run import open_run
from rlvitals.grpo.tasks.arithmetic import Sum, sums
from rlvitals.grpo.warmstart import RATES, Dialogue, Settings, rate, settings_for, warm_start
from rlvitals.grpo.warmstart_file import read_file, unknown_share
from tests.grpo.loops import PARTS, SHAPE, config, one_thread, rows


def worked(s: Sum) -> str:
    """The sum as the embedded model writes it, carried right, with the answer in a form that it never saw."""
    steps, carry = [], 0
    for x, y in zip(reversed(str(s.a)), reversed(str(s.b)), strict=True):
        total = int(x) + int(y) + carry
        steps.append(f"{x}+{y}{'+1' if carry else ''}={total}")
        carry = total // 10
    return f"<think>{','.join(steps)}</think>#### {s.a + s.b}"


def read(path: Path) -> list[Dialogue]:
    return list(read_file(path).values())


def demos(path: Path, count: int) -> Path:
    shown = sums(2, held_out=False, count=count, seed=5)
    path.write_text("".join(json.dumps({"prompt": s.prompt, "completion": worked(s)}) + "\n" for s in shown))
    return path


@pytest.mark.parametrize(
    ("count", "steps", "batch"),
    [(1, 15, 1), (7, 100, 1), (50, 100, 7), (200, 100, 16), (1_000, 188, 16), (100_000, 18_750, 16)],
)
def test_small_files_get_enough_steps_and_no_more_than_15_passes(count: int, steps: int, batch: int) -> None:
    found = settings_for(count, 84_000)
    assert (found.steps, found.batch) == (steps, batch)
    assert steps * batch <= 15.1 * count
    assert steps * batch >= 3 * count


@pytest.mark.parametrize(
    ("weights", "peak"), [(84_000, 3e-3), (135_000_000, 3e-4), (1_700_000_000, 1e-4), (7_000_000_000, 1e-5)]
)
def test_the_rate_is_that_of_the_size(weights: int, peak: float) -> None:
    assert settings_for(200, weights).learning_rate == peak
    assert [below for below, _ in RATES] == sorted(below for below, _ in RATES)


def test_the_rise_takes_a_tenth_of_the_steps_and_30_at_most() -> None:
    few = [rate(s, 100, Settings(learning_rate=1.0)) for s in range(100)]
    assert few[9] == max(few) == pytest.approx(1 - 0.9 * 0.09)
    assert few[0] == pytest.approx(0.1)
    assert few[-1] == pytest.approx(0.109)
    assert max(rate(s, 4, Settings(learning_rate=1.0)) for s in range(4)) == 1.0  # was 0.04 with a rise of 30 steps
    # the embedded models are made with 800 and more steps: nothing changes for them
    assert rate(14, 800, Settings(learning_rate=1.0)) == 15 / 30 * (1.0 - 0.9 * 14 / 800)


def test_parts_of_a_batch_give_the_loss_and_the_weights_of_the_whole(tmp_path: Path) -> None:
    one_thread()
    dialogues = read(demos(tmp_path / "demos.jsonl", 40))
    settings = Settings(steps=6, batch=12, learning_rate=1e-2)
    start = tiny.new_model(SHAPE)
    found = []
    for micro_tokens in (0, 16_384, 100):
        model = copy.deepcopy(start)
        losses = warm_start(model, tiny.new_tokenizer(), dialogues, replace(settings, micro_tokens=micro_tokens))
        found.append((losses, torch.cat([p.detach().flatten() for p in model.parameters()])))
    for losses, weights in found[1:]:
        assert losses == pytest.approx(found[0][0], abs=1e-5)
        assert torch.allclose(weights, found[0][1], atol=2e-5)


def test_what_goes_wrong_is_said(tmp_path: Path) -> None:
    dialogues = read(demos(tmp_path / "demos.jsonl", 4))
    model = tiny.new_model(replace(SHAPE, positions=16))
    with pytest.raises(InputError, match=r"4 of 4, number 1 with .* tokens; expected at most 16 tokens"):
        warm_start(model, tiny.new_tokenizer(), dialogues, Settings(steps=1))
    model = tiny.new_model(SHAPE)
    with torch.no_grad():
        next(iter(model.parameters())).fill_(math.nan)
    with pytest.raises(InputError, match=r"went out of range; found loss nan"):
        warm_start(model, tiny.new_tokenizer(), dialogues, Settings(steps=1, micro_tokens=4_000))


@pytest.fixture
def warm(tmp_path: Path) -> Any:
    one_thread()
    return config(warm_start=str(demos(tmp_path / "demos.jsonl", 20)), steps=4)


def never(*_: object, **__: object) -> None:
    pytest.fail("trained again")


def test_a_resume_takes_the_policy_of_the_start_from_the_run(
    warm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(warm, PARTS, folder=tmp_path / "whole")
    train(replace(warm, steps=2), PARTS, folder=tmp_path / "run")
    monkeypatch.setattr(warmed, "warm_start", never)
    Path(warm.warm_start).unlink()  # it is not needed any more
    train(warm, PARTS, folder=tmp_path / "run", resume=True)
    # the step after the closing evaluation of the shorter run
    assert rows(tmp_path / "run")[3:] == rows(tmp_path / "whole")[3:]
    files = [tmp_path / n / "checkpoints/checkpoint-4/model.safetensors" for n in ("whole", "run")]
    assert files[0].read_bytes() == files[1].read_bytes()
    start, later = (tmp_path / "run/checkpoints" / n / "model.safetensors" for n in ("warm-start", "checkpoint-4"))
    assert start.read_bytes() != later.read_bytes()
    assert [s for s, _ in checkpoint.folders(tmp_path / "run")] == [2, 4]  # it is no checkpoint of a step
    assert rescore(tmp_path / "run", 4, lambda text: None, PARTS).is_file()  # nor does it need the file


def test_a_resume_without_any_checkpoint_takes_it_too_and_another_seed_does_not(warm: Any, tmp_path: Path) -> None:
    run = open_run(warm, PARTS, tmp_path / "run")
    run.log.close()  # type: ignore[union-attr]
    again = warmed.planned(warm, tmp_path / "run", resume=True)
    assert again is not None
    assert again.kept is not None
    assert again.kept.losses == run.warm.losses  # type: ignore[union-attr]
    other = warmed.planned(replace(warm, seed=3), tmp_path / "run", resume=True)
    assert other is not None
    assert other.kept is None
    fresh = warmed.planned(warm, tmp_path / "run", resume=False)
    assert fresh is not None
    assert fresh.kept is not None  # a start that failed behind its warm start leaves it
    demos(Path(warm.warm_start), 19)
    changed = warmed.planned(warm, tmp_path / "run", resume=False)
    assert changed is not None
    assert changed.kept is None


def test_a_start_that_failed_behind_its_warm_start_takes_it(
    warm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise InputError

    whole = open_run(warm, PARTS, tmp_path / "whole")
    with monkeypatch.context() as broken:
        broken.setattr("rlvitals.grpo.run._open_files", full)
        with pytest.raises(InputError):
            open_run(warm, PARTS, tmp_path / "run")
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["checkpoints"]
    monkeypatch.setattr(warmed, "warm_start", never)
    again = open_run(warm, PARTS, tmp_path / "run")
    assert again.warm is not None
    assert again.warm.losses == whole.warm.losses  # type: ignore[union-attr]
    assert again.facts.versions == whole.facts.versions
    for one, other in zip(again.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sampler": "http://127.0.0.1:9"}, "the sampling server cannot be used"),
        ({"lora_rank": 2}, "needs the package peft"),
        ({}, r"cannot be written; found Not a directory; .* Then start again, or name another place: --out DIR"),
    ],
)
def test_what_needs_no_training_is_refused_before_it(
    warm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(warmed, "warm_start", never)
    monkeypatch.setitem(sys.modules, "peft", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=said):
        open_run(replace(warm, **changes), PARTS, tmp_path / ("run" if changes else "file/run"))
    assert not (tmp_path / "run").exists()


ASKED = {"role": "user", "content": "2+3="}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"messages": [ASKED, *[{"role": "assistant", "content": c} for c in "45"]]}, "two messages of the assistant"),
        ({"prompt": "2+3=", "completion": "  "}, "the assistant says nothing"),
        ({"messages": [ASKED, {"role": "assistant", "content": ""}]}, "the assistant says nothing"),
        ({"prompt": "2+3=", "completion": "5<eos>6"}, "opens or ends turns; found <eos>"),
        ({"prompt": "2+3=", "completion": "<pad>5"}, "opens or ends turns; found <pad>"),
        ({"prompt": "2+3=", "completion": "\ud800"}, "half a surrogate pair"),
    ],
)
def test_demonstrations_that_teach_something_else_are_refused(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    path = demos(tmp_path / "demos.jsonl", 3)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=said) as caught:
        unknown_share(tiny.new_tokenizer(), read_file(path), str(path))
    assert caught.value.problems[0].where == f"{path} line 4"


def test_text_outside_the_vocabulary_is_told_and_refused_above_a_tenth(warm: Any, tmp_path: Path) -> None:
    tokenizer, path = tiny.new_tokenizer(), Path(warm.warm_start)
    assert unknown_share(tokenizer, read_file(path), "") == 0.0
    with path.open("a") as file:
        file.write('{"prompt": "2+3=", "completion": "5 ok ?"}\n')
    share = unknown_share(tokenizer, read_file(path), "")
    assert 0 < share < 0.02
    path.write_text('{"prompt": "2+3=", "completion": "five"}\n' + path.read_text())
    run = open_run(warm, PARTS, tmp_path / "run")
    assert run.warm is not None
    assert run.warm.unknown > share
    assert "% of the assistant's tokens are outside the vocabulary" in run.warm.sentence()
    path.write_text('{"prompt": "2+3=", "completion": "55555"}\n{"prompt": "2+3=", "completion": "five"}\n')
    with pytest.raises(InputError, match=r"found 44% of the assistant's tokens unknown, the first in line 2; .* 10%"):
        unknown_share(tokenizer, read_file(path), "demos")


def test_adapters_sit_on_the_warm_policy_when_checkpoints_are_scored_again(warm: Any, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    train(replace(warm, lora_rank=2, steps=2, eval_every=2), PARTS, folder=tmp_path / "run")
    table = rescore(tmp_path / "run", 4, lambda text: None, PARTS).read_text().splitlines()
    logged = [r["eval/heldout"] for r in rows(tmp_path / "run") if r["step"] == 2]
    assert float(table[1].split(",")[1]) == pytest.approx(logged[0], abs=1e-6)


def test_it_is_told_in_the_events_and_as_it_goes(warm: Any, tmp_path: Path) -> None:
    said: list[tuple[str, bool]] = []
    run = open_run(warm, PARTS, tmp_path / "run", say=lambda text, last: said.append((text, last)))
    go_on(run)
    assert len(said) == 100
    assert sum(last for _, last in said) == 10
    assert said[-1][0].startswith("warm start: step 100/100 · loss ")
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").open()]
    event = next(e for e in events if e["kind"] == "warm-start")
    assert len(event["losses"]) == 100
    assert event["losses"][-1] < event["losses"][0]
    assert "20 demonstrations" in event["detail"]
    assert "100 steps of 3 (15.0 passes, peak rate 0.003)" in event["detail"]


def statuses(folder: Path) -> list[str]:
    return [r["status"] for r in map(json.loads, (folder / "evals.jsonl").open()) if r["step"] == 0]


def test_a_form_that_the_policy_does_not_know_is_learnt_from_200_demonstrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held-out answers behind ####, which the embedded model never wrote: by the command line's own settings."""
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    demos(tmp_path / "demos.jsonl", 200)
    for name, held_out in (("train.jsonl", False), ("held.jsonl", True)):
        asked = sums(2, held_out=held_out, count=96, seed=7)
        text = "".join(json.dumps({"question": s.prompt, "answer": str(s.a + s.b)}) + "\n" for s in asked)
        (tmp_path / name).write_text(text)
    task = "dataset:path=train.jsonl,held_out_path=held.jsonl,verifier=numeric,read=hashes,system=no,max_tokens=32"
    args = ["train", "--task", task, "--steps", "1", "--set", "prompts=2", "--set", "eval_every=5", "--no-vitals"]
    before = CliRunner().invoke(app, [*args, "--out", "before"])
    after = CliRunner().invoke(app, [*args, "--out", "after", "--warm-start", "demos.jsonl"])
    assert (before.exit_code, after.exit_code) == (0, 0), before.output + after.output
    parsed = [sum(s != "no parse" for s in statuses(tmp_path / n)) / 96 for n in ("before", "after")]
    right = [sum(s == "right" for s in statuses(tmp_path / n)) / 96 for n in ("before", "after")]
    assert (parsed[0], right[0]) == (0.0, 0.0)
    assert parsed[1] > 0.75
    assert right[1] > 0.4
    assert "warm start: step 50/100 · loss " in after.output
    assert "warm start on 200 demonstrations of demos.jsonl: loss " in after.output
    assert "warm start" not in before.output
