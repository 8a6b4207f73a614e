"""docs/after.md shows what the commands print on the example run: each `$ rlvitals` block is run and compared."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlvitals.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "after.md"
BLOCK = re.compile(r"```console\n\$ rlvitals ([^\n]*)\n(.*?)```", re.DOTALL)
BLOCKS = BLOCK.findall(PAGE.read_text(encoding="utf-8"))


def printed(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a command beside a copy of the example run, 80 columns wide, and return what it prints."""
    shutil.copytree(ROOT / "src" / "rlvitals" / "examples" / "trl_run", folder / "trl_run", dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return CliRunner().invoke(app, command.split()).stdout


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[c for c, _ in BLOCKS])
def test_the_page_shows_what_is_printed(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = printed(command, tmp_path, monkeypatch)
    if os.environ.get("RLVITALS_REMAKE"):
        text = PAGE.read_text(encoding="utf-8")
        head = f"```console\n$ rlvitals {command}\n"
        PAGE.write_text(text.replace(f"{head}{shown}```", f"{head}{now}```"), encoding="utf-8")
        return
    assert shown == now, "remake it with: RLVITALS_REMAKE=1 pytest tests/record/test_page.py"


def test_the_page_has_examples() -> None:
    assert [c.split()[0] for c, _ in BLOCKS] == ["rollback", "verify"]
