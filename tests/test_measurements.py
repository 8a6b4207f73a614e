"""Every threshold that calls itself measured names an entry of docs/measurements.md that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlvitals.check import Check, SourceKind
from rlvitals.checks import CHECKS

PAGE = Path(__file__).parents[1] / "docs" / "measurements.md"


def entries() -> set[str]:
    """Return the names under which entries can be cited, in lower case."""
    text = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"^## (.+)$", text, re.MULTILINE)
    for line in re.findall(r"^Cited as: (.+)\.$", text, re.MULTILINE):
        names += line.split("; ")
    return {name.lower() for name in names}


def cited(reference: str) -> str:
    """Return the name of the entry that a reference names: what follows the file name, up to a bracket."""
    return reference.split("docs/measurements.md:", 1)[1].split(" (")[0].strip().lower()


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.id)
def test_measured_thresholds_have_an_entry(check: Check) -> None:
    measured = [t for t in check.thresholds if t.source is SourceKind.MEASURED]
    assert [t.name for t in measured if "docs/measurements.md:" not in t.reference] == []
    assert sorted({cited(t.reference) for t in measured} - entries()) == []
