"""A disk that refuses: said as what it is, whatever library was writing; nothing half written stays."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import torch
from safetensors import SafetensorError

from rlvitals.errors import InputError
from rlvitals.grpo import checkpoint, rolloutfiles
from rlvitals.grpo.logs import RunLog, refused, write_json
from rlvitals.grpo.loop import train
from rlvitals.grpo.rescore import rescore
from tests.grpo.loops import PARTS, config, one_thread

KIB = (1, 4, 8, 16, 32, 48)  # limits of a file's size that refuse one writer after the other


def limited(kib: int, work: Callable[[], str]) -> str:
    """Return what the work says in a process whose files may not grow over a size."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, kib * 1024))
            said = work()
        except BaseException as error:
            said = f"CRASH {type(error).__name__}: {error}"
        os.write(writes, said[:2000].encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def run_into(folder: Path) -> str:
    try:
        return train(config(steps=8, eval_every=1, eval_items=8), PARTS, folder=folder).reason
    except InputError as error:
        return f"refused: {error}"


def test_a_run_on_a_full_disk_says_so_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    one_thread()
    ended = []
    for kib in KIB:
        folder = tmp_path / str(kib)
        said = limited(kib, lambda folder=folder: run_into(folder))  # type: ignore[misc]
        ended.append(said)
        assert said.startswith(("refused: ", "all planned steps")), f"{kib} KiB: {said}"
        if said.startswith("refused"):
            assert "cannot be written" in said
            assert f"--resume --out {folder}\n" in said + "\n"  # the run directory, no folder in it
        assert not [str(p) for p in folder.rglob("*.tmp")]
        for path in folder.rglob("*.jsonl"):
            assert all(json.loads(line) for line in path.open()), f"{kib} KiB: {path}"
        for path in folder.glob("checkpoints/*"):
            assert checkpoint.damage(path) == ""
    assert all(said.startswith("refused") for said in ended[:4])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device, "),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "I/O error: No space left"),
        (RuntimeError("[enforce fail at inline_container.cc:668] . unexpected pos 64 vs 0"), "not taken whole"),
        (duckdb.IOException("Could not write file: No space left on device"), "Could not write file"),
        (Exception("File too large (os error 27)"), "File too large"),  # tokenizers
    ],
)
def test_every_writer_is_understood(error: Exception, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught, refused(tmp_path):
        raise error
    assert said in caught.value.problems[0].found
    assert caught.value.__cause__ is error


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    for error in (RuntimeError("shape mismatch"), ValueError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)), refused(tmp_path):
            raise error


@pytest.mark.parametrize("error", [SafetensorError("No space left"), KeyboardInterrupt(), TypeError("odd")])
def test_no_half_checkpoint_stays_after_any_error(error: BaseException, tmp_path: Path) -> None:
    class Model:
        def save_pretrained(self, folder: Path, **_: Any) -> None:
            (folder / "model.safetensors").write_bytes(b"half")
            raise error

    expected = InputError if isinstance(error, SafetensorError) else type(error)
    with pytest.raises(expected):
        checkpoint.save(tmp_path, 4, Model(), None, {}, {}, {})  # type: ignore[arg-type]
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_half_a_last_line_goes_when_files_are_closed_behind_an_error(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 3)
    log.step(1, {"loss": 0.5})
    with (tmp_path / "metrics.jsonl").open("ab") as torn:
        torn.write(b'{"step": 2, "lo' + b"x" * 200_000)
    log.__exit__(KeyError, KeyError(), None)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "loss": 0.5}\n'
    files = rolloutfiles.RolloutFiles(tmp_path, {})
    (tmp_path / "rollouts/open.jsonl").write_bytes(b'{"step": ')
    files.abandon()
    assert (tmp_path / "rollouts/open.jsonl").read_bytes() == b""


def test_the_error_is_told_and_not_what_closing_would_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_thread()

    def down(*_: Any) -> None:
        raise ZeroDivisionError("of the update")

    def never(*_: Any) -> None:
        raise AssertionError("sealed on the way out of an error")

    monkeypatch.setattr(rolloutfiles, "to_parquet", never)
    with pytest.raises(ZeroDivisionError):
        train(config(steps=3, save_every=5), replace(PARTS, sync=on_third(down)), folder=tmp_path)
    steps = {json.loads(line)["step"] for line in (tmp_path / "rollouts/open.jsonl").open()}
    assert steps == {1}
    monkeypatch.undo()
    assert train(config(steps=3, save_every=5), PARTS, folder=tmp_path, resume=True).complete


def on_third(fails: Callable[..., None]) -> Callable[..., None]:
    """Return a part that fails when it is called for the third time: at the start, after step 1, after step 2."""
    calls = iter(range(10))

    def part(*given: Any) -> None:
        if next(calls) == 2:
            fails(*given)

    return part


def test_a_file_that_is_written_whole_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="No space left"):
        write_json(tmp_path / "config.json", {})
    assert list(tmp_path.iterdir()) == []


# --- the scores of saved checkpoints ---


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    one_thread()
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(config(eval_every=0), PARTS, folder=folder)
    return folder


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def corrupt(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


@pytest.mark.parametrize("damage", [truncated, corrupt, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_damaged_checkpoint_is_left_out_and_the_others_are_scored(trained: Path, damage: Callable[..., Any]) -> None:
    weights = trained / "checkpoints/checkpoint-4/model.safetensors"
    (trained / "rescored.csv").write_text("step,score\n4,1.0\n")
    good, said = weights.read_bytes(), list[str]()
    damage(weights)
    try:
        with pytest.raises(InputError) as caught:
            rescore(trained, 4, said.append, PARTS)
    finally:
        weights.write_bytes(good)
    assert caught.value.problems[0].where.endswith("checkpoint-4")
    assert caught.value.problems[-1].found == "steps 2, 6"
    assert said[1].startswith("step 4: skipped, ")
    assert [line.split(",")[0] for line in (trained / "rescored.csv").read_text().splitlines()] == ["step", "2", "6"]
    assert {json.loads(line)["step"] for line in (trained / "rescored.jsonl").open()} == {2, 6}


def test_no_checkpoint_that_is_whole_leaves_the_table_as_it_was(trained: Path) -> None:
    states = sorted(trained.glob("checkpoints/*/state.json"))
    texts = [p.read_text() for p in states]
    (trained / "rescored.csv").write_text("old")
    for path in states:
        path.unlink()
    try:
        with pytest.raises(InputError, match="no table was written; the one that is there is of an earlier scoring"):
            rescore(trained, 4, lambda _: None, PARTS)
    finally:
        for path, text in zip(states, texts, strict=True):
            path.write_text(text)
    assert (trained / "rescored.csv").read_text() == "old"


def test_checkpoints_without_any_verdict_have_no_score(trained: Path) -> None:
    class Down:
        version = "down@1"

        def reset(self, item: Any, seed: int) -> Any:
            return item.messages

        def step(self, text: str) -> Any:
            raise ConnectionError

    def held_out(config_: Any, tokenizer: Any) -> Any:
        return replace(PARTS.held_out(config_, tokenizer), new_env=Down)

    said: list[str] = []
    with pytest.raises(InputError, match="nothing was scored: the verifier failed on every item"):
        rescore(trained, 4, said.append, replace(PARTS, held_out=held_out))
    assert said[0] == "step 2: nothing was scored: 4 items, each without a verdict (error)"
    assert (trained / "rescored.csv").read_text().splitlines() == ["step,score,stderr,items", "2,,,0", "4,,,0", "6,,,0"]


def test_scores_that_cannot_be_written_ask_for_no_resume(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rlvitals.grpo.logs.os.replace", full)
    with pytest.raises(InputError) as caught:
        rescore(trained, 4, lambda _: None, PARTS)
    assert "the scores cannot be written; found No space left on device" in str(caught.value)
    assert str(caught.value).endswith(f"Then score again: rlvitals train eval {trained}")
    assert not list(trained.glob("*.tmp"))


def test_weights_that_cannot_be_read_are_said(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(InputError, match="weights that cannot be read"):
        checkpoint.load_weights(tmp_path, torch.nn.Linear(1, 1))
