"""Example rollouts of a finding reach every report, escaped."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rlvitals.diagnosis import Diagnosis
from rlvitals.report import html, markdown, terminal
from rlvitals.report import json as json_report
from rlvitals.schema import Example
from tests.report.examples import sick

TEXT = "first line\n<script>alert(1)</script> \x1b[31mred `code` *bold*"
EXAMPLE = Example("loops", 120, "g7", 2, 0.5, TEXT, "/runs/a b/rollouts.jsonl", 41)


@pytest.fixture
def diagnosis() -> Diagnosis:
    """A diagnosis whose first finding names a rollout."""
    d = sick()
    first = d.causes[0]
    evidence = tuple(replace(e, examples=(EXAMPLE,)) for e in first.finding.evidence)
    return replace(d, causes=(replace(first, finding=replace(first.finding, evidence=evidence)), *d.causes[1:]))


def test_terminal(diagnosis: Diagnosis) -> None:
    text = " ".join(terminal.render(diagnosis).split())
    assert "step 120, group g7, rollout 2, reward 0.5: first line <script>alert(1)</script> \\x1b[31mred" in text
    assert "\x1b" not in text


def test_markdown(diagnosis: Diagnosis) -> None:
    text = markdown.render(diagnosis)
    assert "step 120, group g7, rollout 2, reward 0.5: `" in text
    assert "\x1b" not in text


def test_html(diagnosis: Diagnosis) -> None:
    page = html.render(diagnosis)
    assert "<script>alert" not in page
    assert "first line\n&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "rlvitals rollouts &#39;/runs/a b/rollouts.jsonl&#39; --where" in page
    assert "\x1b" not in page


def test_json(diagnosis: Diagnosis) -> None:
    found = json.loads(json_report.render(diagnosis))["causes"][0]["evidence"][0]["examples"]
    assert found == [
        {"shows": "loops", "step": 120, "group": "g7", "index": 2, "reward": 0.5, "excerpt": TEXT,
         "source": "/runs/a b/rollouts.jsonl", "row": 41}
    ]  # fmt: skip
