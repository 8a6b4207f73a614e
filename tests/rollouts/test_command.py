"""`rlvitals rollouts` shows whole groups, escaped, in every form."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlvitals.cli.main import app
from tests.rollouts.dumps import jsonl, rollouts, verl

HOSTILE = "\x1b[31mred\x1b[0m <script>alert(1)</script> [bold]x[/bold] \u202e"


def run(*args: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["rollouts", *map(str, args)])
    return done.exit_code, done.output


def test_groups_side_by_side(tmp_path: Path) -> None:
    code, out = run(verl(tmp_path / "dump", rollouts()), "--where", "step=2 and reward>0.5", "--group", "u2-1")
    assert code == 0
    assert "2 of 24 rollouts match (verl rollouts, 3 files)" in out
    assert "step 2 · group u2-1" in out
    assert "answer 2.1.1" in out
    assert "answer 2.1.0" not in out


def test_limit_and_what_is_left(tmp_path: Path) -> None:
    code, out = run(verl(tmp_path / "dump", rollouts()), "--limit", "3")
    assert code == 0
    assert "3 shown, 21 more with" in out


def test_hostile_text_is_escaped_everywhere(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "dump.jsonl", [{"step": 1, "reward": 1.0, "completion": HOSTILE, "family": HOSTILE}])
    code, text = run(path)
    assert code == 0
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text
    assert "[bold]x[/bold]" in text
    _, page = run(path, "--format", "html")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "default-src 'none'" in page
    _, raw = run(path, "--format", "json")
    assert json.loads(raw)["rollouts"][0]["completion"] == HOSTILE
    assert "\x1b" not in raw


def test_a_part_that_is_a_column_too_is_shown_once_where_they_agree(tmp_path: Path) -> None:
    """In the terminal and on the page alike: one `correct`, or both told apart where they differ in a group."""
    for other, heads in ((1.0, ["correct"]), (0.5, ["correct", "correct (part)"])):
        rows = [
            {"step": 1, "group": "g", "index": i, "reward": 1.0, "correct": 1.0, "completion": "x",
             "reward_part/correct": other if i else 1.0, "reward_part/format": 0.5}
            for i in range(2)
        ]  # fmt: skip
        path = jsonl(tmp_path / f"{other}.jsonl", rows)
        _, text = run(path)
        table = re.split(r"\s{2,}", next(line for line in text.splitlines() if "reward" in line and "rollout " in line))
        assert [c for c in table if "correct" in c] == heads
        assert "format" in table
        _, page = run(path, "--format", "html")
        first = page.split("<article>")[1]
        assert [h for h in re.findall("<th>(.*?)</th>", first) if "correct" in h] == heads
        assert "<th>format</th><td>0.5</td>" in first
        assert "part/" not in page


def test_json_holds_all_that_the_dump_says(tmp_path: Path) -> None:
    _, out = run(verl(tmp_path / "dump", rollouts()), "--step", "3", "--limit", "1", "--format", "json")
    found = json.loads(out)
    assert (found["matching"], found["read"], found["reader"]) == (8, 24, "verl rollouts")
    assert found["groups"] == {"how": "id", "sure": "certain"}
    one = found["rollouts"][0]
    assert (one["step"], one["group"], one["index"], one["reward"]) == (3, "u3-0", 0, 0.0)
    assert (Path(one["file"]).name, one["row"]) == ("3.jsonl", 0)


def test_problems_come_together_and_exit_2(tmp_path: Path) -> None:
    code, out = run(verl(tmp_path / "dump", rollouts()), "--format", "pdf", "--limit", "0")
    assert code == 2
    assert "--format" in out
    assert "--limit" in out
    code, out = run(tmp_path / "dump", "--where", "rward>1")
    assert code == 2
    assert "Nearest: reward" in out


def test_how_to_convert(tmp_path: Path) -> None:
    code, out = run(tmp_path, "--how-to-convert")
    assert code == 0
    assert "weights_only=True" in out


def test_counts(tmp_path: Path) -> None:
    folder = verl(tmp_path / "dump", rollouts())
    code, out = run(folder, "--counts")
    assert code == 0
    assert "read 24 rollouts from verl rollouts (3 files)" in out
    assert "rollouts/reward_mean" in out
    _, raw = run(folder, "--counts", "--format", "json", "--full")
    found = json.loads(raw)
    assert found["series"]["rollouts/reward_mean"] == {"step": [1, 2, 3], "value": [0.5, 0.5, 0.5]}
    assert found["rollouts"] == 24
    code, out = run(folder, "--counts", "--engine", "spark")
    assert code == 2
    assert "local or ray" in out


def test_a_part_that_is_a_column_already_is_shown_once(shared: Path) -> None:
    _, out = run(shared / "formats" / "trl_real_run", "--limit", "4")
    head = next(line for line in out.splitlines() if line.strip().startswith("rollout   reward"))
    assert head.split() == ["rollout", "reward", "correct", "advantage", "parsed", "digit_frac"]


def test_no_column_is_cut_however_narrow_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"advantage": 0.25, "correct": 1, "stop_reason": "budget", "parsed": "157", "policy_version": 99}
    rows = [
        {**row, **told, "tokens": 10 + row["index"], "verifier_status": "no parse" if row["index"] else "right"}
        for row in rollouts(steps=(1,), groups=1)
    ]
    path = jsonl(tmp_path / "dump.jsonl", rows)
    for width in (60, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        code, out = run(path, "--chars", "20")
        assert code == 0
        table = out.partition("rollout 0")[0]
        assert "\u2026" not in table
        assert max(len(line.rstrip()) for line in table.splitlines()) <= width
        assert table.count("no parse") == 3
        for name in ("reward", "correct", "advantage", "tokens", "stop", "parsed", "verifier", "policy"):
            assert name in table, (width, name)
        assert ("the same for all: " in table) == (width == 60)
