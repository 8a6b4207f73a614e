"""The generated docs agree with the code, and every check, metric, command, setting and limit is in them."""

from __future__ import annotations

import dataclasses
import posixpath
import sys
from pathlib import Path

import pytest

from rlvitals.checks import CHECKS
from rlvitals.metrics import METRICS
from rlvitals.schema import RunConfig

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import docs  # noqa: E402


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return docs.documents()


def test_no_drift() -> None:
    assert docs.drift() == "", "run: python tools/docs.py"


def test_no_page_holds_a_path_of_this_machine(made: dict[str, str]) -> None:
    assert [name for name, page in made.items() if str(Path(docs.__file__).resolve().parent.parent) in page] == []


def test_every_check_has_a_page_with_its_limits_and_is_in_the_index(made: dict[str, str]) -> None:
    for check in CHECKS:
        page = made[f"checks/{check.id}-{check.name}.md"]
        assert [t.name for t in check.thresholds if f"`{t.name}`" not in page] == []
        assert f"({check.id}-{check.name}.md)" in made["checks/README.md"]
        assert "## Example cases" in page


def test_every_link_between_pages_leads_somewhere(made: dict[str, str]) -> None:
    import re

    targets = {(p, t) for p, text in made.items() for t in re.findall(r"\]\(([^)]+\.md)\)", text)}
    assert [(p, t) for p, t in targets if posixpath.normpath(f"{posixpath.dirname(p)}/{t}") not in made] == []


def test_every_metric_and_setting_is_documented(made: dict[str, str]) -> None:
    text = made["metrics.md"]
    assert [m.name for m in METRICS if f"## `{m.name}`" not in text] == []
    fields = [f.name for f in dataclasses.fields(RunConfig) if f.name != "sources"]
    assert [f for f in fields if f"| `{f}` |" not in text] == []


def test_every_command_and_option_is_documented(made: dict[str, str]) -> None:
    import typer

    from rlvitals.cli.main import app

    text = made["cli.md"]
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        assert f"## rlvitals {name}" in text
        options = [
            opt for p in command.params if p.param_type_name == "option" for opt in p.opts if opt.startswith("--")
        ]
        assert [opt for opt in options if opt != "--help" and opt not in text] == []


def test_drift_is_told_as_a_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "DOCS", tmp_path)
    docs.write()
    assert docs.drift() == ""
    (tmp_path / "cli.md").write_text("old\n")
    (tmp_path / "checks" / "Z999-gone.md").write_text("old\n")
    (tmp_path / "trainers" / "gone.md").write_text("old\n")
    found = docs.drift()
    assert "-old" in found
    assert "+# Commands" in found
    assert "Z999-gone.md: what it describes no longer exists" in found
    assert "docs/trainers/gone.md" in found
    docs.write()
    assert docs.drift() == ""
