"""README.md shows what the program really prints, and its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md"), *ROOT.glob("examples/*.md")]
)


def test_readme_shows_the_real_diagnosis() -> None:
    command = [sys.executable, str(ROOT / "tools" / "readme.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_readme_fits_a_terminal() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n\$ rlvitals demo\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    assert max(len(line) for line in shown[1].splitlines()) <= 80


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [t for t in targets if "://" not in t]
    assert [t for t in local if not (page.parent / t).exists()] == []


def test_the_demo_block_begins_as_the_command_does_and_marks_what_is_left_out() -> None:
    tool = _tool()
    shown = tool.demo().splitlines()
    first = tool.printed().splitlines()[0]
    assert shown[1:3] == ["$ rlvitals demo", first.rstrip()]
    recorded = shown[: shown.index(tool.REPORT_TITLE)]
    assert any(line.startswith("[... ") and " lines: " in line for line in recorded)


def test_the_lab_table_tells_the_cause_from_its_sign() -> None:
    head, _, *rows = _tool().lab().splitlines()
    assert head.split(" | ")[1:3] == ["cause or its direct sign first", "the cause itself first"]
    for row in rows:
        either, itself = (int(cell.split()[0]) for cell in row.split(" | ")[1:3])
        assert itself <= either


def _tool() -> ModuleType:
    """Return tools/readme.py as a module."""
    spec = importlib.util.spec_from_file_location("readme_tool", ROOT / "tools" / "readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
