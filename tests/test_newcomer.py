"""What a newcomer trips over: odd files, odd steps, odd calls. Each gets a true answer or a message that helps."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rlvitals
from rlvitals.cli.common import read_extras
from rlvitals.cli.main import app
from rlvitals.errors import InputError, Problem
from rlvitals.report.series import drawn
from rlvitals.schema import Run


def rows(n: int = 40) -> list[dict[str, float]]:
    return [{"step": s, "reward": 0.3 + 0.001 * s, "entropy": 0.4, "kl": 0.001 * s} for s in range(1, n + 1)]


def jsonl(path: Path, records: Iterable[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def notes(run: Run) -> str:
    return " | ".join(note.text for note in run.notes)


def test_a_problem_names_its_place_first() -> None:
    assert str(Problem("empty file", "a.csv", "no content", "a log", "Try b")) == (
        "a.csv: empty file; found no content; expected a log. Try b"
    )


def test_a_table_that_stands_newest_first_is_read_in_reverse(tmp_path: Path) -> None:
    run = rlvitals.load(jsonl(tmp_path / "log.jsonl", reversed(rows())))
    assert run.step.tolist() == list(range(1, 41))
    assert run.columns["reward_mean"][0] == pytest.approx(0.301)
    assert "newest first" in notes(run)
    assert run.segments == ()


def test_rows_with_a_negative_step_are_left_out(tmp_path: Path) -> None:
    run = rlvitals.load(jsonl(tmp_path / "log.jsonl", [{"step": -1, "reward": 9.0}, *rows()]))
    assert run.step[0] == 1
    assert "without a usable step" in notes(run)


def test_decimal_commas_beside_semicolons(tmp_path: Path) -> None:
    lines = ["step;reward;entropy", *(f"{s};0,{300 + s};1,{s:03}" for s in range(1, 31))]
    (tmp_path / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    run = rlvitals.load(tmp_path / "log.csv")
    assert run.columns["reward_mean"][:2].tolist() == [0.301, 0.302]
    assert run.columns["entropy"][0] == 1.001


def test_a_column_name_that_stands_twice_is_noted(tmp_path: Path) -> None:
    lines = ["step,reward,reward", *(f"{s},0.{s},7" for s in range(10, 40))]
    (tmp_path / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    run = rlvitals.load(tmp_path / "log.csv")
    assert run.columns["reward_mean"][0] == pytest.approx(0.1)
    assert "left as column 3 (reward)" in notes(run)
    assert [u.key for u in run.unrecognised] == ["column 3"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("log.csv", b"step,reward,entropy\n", "one line of column names and no rows"),
        ("log.jsonl.gz", b"not compressed at all", "not compressed as .gz says"),
    ],
)
def test_a_file_without_rows_says_what_it_holds(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=expected):
        rlvitals.load(tmp_path / name)


def test_a_cut_off_archive_is_read_to_the_cut_and_says_so(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(400, 8))
    packed = gzip.compress(
        "".join(
            json.dumps({"step": s, "reward": v[0], **{f"m{i}": x for i, x in enumerate(v)}}) + "\n"
            for s, v in enumerate(noise.tolist())
        ).encode()
    )
    (tmp_path / "log.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    run = rlvitals.load(tmp_path / "log.jsonl.gz")
    assert 100 < run.rows < 300
    assert "the compressed file breaks off" in notes(run)


def test_a_link_to_nowhere_says_so(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").symlink_to("gone.jsonl")
    with pytest.raises(InputError, match=r"a link that leads to no file; found gone\.jsonl"):
        rlvitals.load(tmp_path / "log.jsonl")


def test_a_directory_says_what_is_wrong_with_its_only_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl: this is a Git LFS pointer"):
        rlvitals.load(tmp_path)


@pytest.mark.parametrize(("own_log", "known"), [(True, 0), (False, 1)])
def test_checkpoints_of_another_run_beside_a_file_are_not_its_own(tmp_path: Path, own_log: bool, known: int) -> None:
    checkpoint = tmp_path / "saved" / "checkpoint-20"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"x")
    if own_log:
        (checkpoint / "trainer_state.json").write_text('{"log_history": []}', encoding="utf-8")
    assert len(rlvitals.load(jsonl(tmp_path / "log.jsonl", rows())).events) == known


def test_a_rollback_without_checkpoints_agrees_with_the_held_out_scores(tmp_path: Path) -> None:
    scores = [0.5, 0.7, 0.69, 0.71, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3]
    text = "step,accuracy,stderr\n" + "".join(f"{20 * i},{s},0.015\n" for i, s in enumerate(scores))
    (tmp_path / "evals.csv").write_text(text, encoding="utf-8")
    rng = np.random.default_rng(1)
    records = [
        {**r, "kl": 0.01, "reward": 0.3 + 0.003 * r["step"] + 0.02 * rng.normal(), "reward_std": 0.3} for r in rows(181)
    ]
    found = rlvitals.diagnose(
        rlvitals.load(jsonl(tmp_path / "log.jsonl", records), evals={"math": tmp_path / "evals.csv"})
    )
    assert found.causes[0].id == "H001"
    assert found.rollback.step == 20
    assert "the earliest held-out score that ties with the best" in found.rollback.reason


def test_a_trainers_key_given_as_metric_leads_to_the_metric() -> None:
    problems: list[Problem] = []
    read_extras(["reward=foo"], None, None, problems)
    assert problems[0].hint == "Meant is perhaps reward_mean"


def test_a_series_is_drawn_once(tmp_path: Path) -> None:
    (tmp_path / "evals.csv").write_text(
        "step,accuracy\n" + "".join(f"{s},{0.6 - s / 100}\n" for s in range(0, 41, 4)), encoding="utf-8"
    )
    run = rlvitals.load(jsonl(tmp_path / "log.jsonl", rows()), evals={"math": tmp_path / "evals.csv"})
    names = [s.metric for s in drawn(rlvitals.diagnose(run), 8)]
    assert names.count("held-out/math") == 1
    assert len(names) == len(set(names))


def test_the_ending_of_the_output_gives_its_format(tmp_path: Path) -> None:
    log = jsonl(tmp_path / "log.jsonl", rows())
    for name, start in (("a.html", "<!doctype html>"), ("a.json", "{"), ("a.md", "## "), ("a.txt", "log.jsonl")):
        CliRunner().invoke(app, ["check", str(log), "--out", str(tmp_path / name)])
        assert (tmp_path / name).read_text(encoding="utf-8").lower().startswith(start)


def test_diagnose_takes_a_run() -> None:
    with pytest.raises(TypeError, match=r"rlvitals\.load\(path\)"):
        rlvitals.diagnose("run.jsonl")  # type: ignore[arg-type]


def test_the_monitor_refuses_what_it_cannot_mean() -> None:
    with pytest.raises(InputError, match="unknown trainer"):
        rlvitals.Monitor(trainer="trll")
    with pytest.raises(TypeError, match="RunConfig"):
        rlvitals.Monitor({"group_size": 8})  # type: ignore[arg-type]
    monitor = rlvitals.Monitor(trainer="TRL")
    monitor.log(np.int64(3), {"reward": 0.3})  # type: ignore[arg-type]
    for step in (-1, 1.5, float("nan"), "two", None):
        monitor.log(step, {"reward": 0.3})  # type: ignore[arg-type]
    assert monitor.diagnosis().position.last_step == 3
    assert sum(t.count for t in monitor.troubles) == 5, "never raised into training, but counted"
