"""`rlvitals lab show` without long training: what it says, what it compares, and how it ends when it is stopped."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from rlvitals.check import Action
from rlvitals.cli.demo import RECORDING
from rlvitals.cli.main import app
from rlvitals.grpo import loop
from rlvitals.lab.compared import beside
from rlvitals.lab.faults import parser_changed
from rlvitals.lab.recording import play, read
from rlvitals.lab.screen import Screen
from rlvitals.lab.show import EARLIER
from rlvitals.lab.watching import Noticed, Watching
from rlvitals.schema import Evals, Run
from tests.lab.faulty import given

runner = CliRunner()
SHOW = ["lab", "show", "parser-changed", "--out"]


def run_of(steps: int, level: float, every: int = 5) -> Run:
    step = np.arange(1, steps + 1)
    at = np.arange(every, steps + 1, every)
    evals = {"heldout": Evals("heldout", at, at / 100.0, np.full(at.size, np.nan))}
    return Run("r", step, {"reward_mean": level + step / 1000.0}, evals=evals)


def test_runs_of_unequal_length_are_compared_over_the_same_steps() -> None:
    head, rows = beside(run_of(16, 0.0), run_of(40, 0.5))
    assert head == ("", "broken, steps 14-16", "mended, steps 14-16", "mended, steps 33-40")
    assert rows == [
        ("held-out score", "0.150 at 15", "0.150 at 15", "0.400 at 40"),
        ("reward_mean", "0.015", "0.515", "0.536"),
    ]
    assert beside(run_of(20, 0.0), run_of(20, 0.5))[0] == ("", "broken, steps 17-20", "mended, steps 17-20")
    assert beside(run_of(30, 0.0), run_of(20, 0.5))[0] == ("", "broken, steps 17-20", "mended, steps 17-20")
    other = {name: cells for name, *cells in beside(run_of(16, 0.0, 4), run_of(16, 0.0, 8))[1]}
    assert other["held-out score"] == ["0.160 at 16", "0.160 at 16"]


def test_the_monitor_sees_the_rollouts_as_a_reader_of_the_files_does(tmp_path: Path) -> None:
    """Where steps take no time a monitor beside a trainer reads few texts: the broken parser was seen 5 steps late."""
    out = io.StringIO()
    watching = Watching(12, Screen(out), frozenset({"R021"}), stops=True, start=1)
    config, parts = parser_changed.FAULT.inject(
        given(parser_changed.FAULT, steps=12, prompts=4, group_size=4, eval_every=0, minibatches=1, epochs=1)
    )
    seen: list[Any] = []

    def texts(run: Any, row: Any, held_out: Any) -> None:
        monitored = watching._monitor
        seen.append(monitored.diagnosis().position.rows)

    with watching:
        loop.train(config, parts, folder=tmp_path / "run", watch=[watching, texts])
    counted = watching._monitor._rows.row(watching._monitor.last_step)
    assert counted["rollouts/text_sampled_frac"] == 1.0  # every text of a step, and not the pace's share
    assert seen[0] == 1
    said = " ".join(out.getvalue().split())
    assert re.search(r"step 6 · opened, (fix|watch|adjust|stop): ", said)


def test_what_is_said_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (80, 60):
        monkeypatch.setenv("COLUMNS", str(width))
        out = io.StringIO()
        play([f for f in read(RECORDING) if f.get("do") not in ("report", "table")], Screen(out))
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert any(line.startswith("  ") for line in lines)  # what goes on in a further line is set in
    monkeypatch.setenv("COLUMNS", "40")
    out, path = io.StringIO(), "/a/long-name-of-a-folder/that-is-never-cut/in-two/seed-0"
    Screen(out).here(f"Both runs are in {path}")
    assert path in out.getvalue()


def ending(*reasons: str, error: Exception | None = None) -> Callable[..., Any]:
    """Return a trainer that logs nothing and ends its runs so, one after the other."""
    left = list(reasons)

    def train(*_: Any, folder: Path, watch: Sequence[Any], **__: Any) -> Any:
        folder.mkdir(parents=True)
        (folder / "new").touch()
        reason = left.pop(0)
        if reason == "noticed":
            raise Noticed(6, "R021")
        if error is not None:
            raise error
        return SimpleNamespace(reason=reason, steps=7)

    return train


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_show_that_is_stopped_says_so_and_judges_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "train", ending(f"asked to stop ({name})", f"asked to stop ({name})"))
    older = tmp_path / "parser-changed" / "mended" / "old"
    older.parent.mkdir(parents=True)
    older.touch()
    for _ in range(2):
        found = runner.invoke(app, [*SHOW, str(tmp_path)])
        assert found.exit_code == 130, found.output
        assert found.output.splitlines()[-1] == "stopped by you at step 7"
        assert "2. The diagnosis" not in found.output
    kept = {str(f.relative_to(tmp_path / "parser-changed")) for f in tmp_path.rglob("*") if f.is_file()}
    assert kept == {f"{EARLIER}/old", "broken/new"}  # not beside a broken run that it is no answer to


def test_ctrl_c_between_the_runs_ends_with_its_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "train", interrupted)
    found = runner.invoke(app, [*SHOW, str(tmp_path)])
    assert (found.exit_code, found.output.splitlines()[-1]) == (130, "stopped by you")


def test_the_severity_of_what_opened_is_said() -> None:
    out = io.StringIO()
    watching = Watching(9, Screen(out), frozenset(), stops=False, start=2)
    for action in (Action.WATCH, Action.FIX):
        finding = SimpleNamespace(action=action, summary="it is so")
        change = SimpleNamespace(
            kind=SimpleNamespace(value="opened"),
            check="R001",
            name="x",
            finding=finding,
            action=action,
            first_action="",
        )
        watching._say(6, change)  # type: ignore[arg-type]
    assert out.getvalue().splitlines() == [
        "step 6 · opened, watch: R001 x: it is so",
        "step 6 · opened, fix: R001 x: it is so",
        "noticed at step 6, 4 steps after it broke (from step 2 on)",
    ]
