"""How verdicts on labelled runs are scored, what other tools' answers amount to, and that the kept results add up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.corpus import Answer, Label, figures, score
from benchmarks.peers import from_rldoctor, literals

from rlvitals.schema import Run

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


def label(expected: str, *failures: str) -> Label:
    return Label("a", "a.jsonl", "x/y", expected, 0.9, failures or ("healthy",))


@pytest.mark.parametrize(
    ("expected", "failure", "verdict", "named", "agrees"),
    [
        ("alarm", "kl_blowup", "act", "K001", True),
        ("alarm", "kl_blowup", "watch", "K001", False),
        ("alarm", "not_learning_flat", "watch", "R010", True),
        ("alarm", "not_learning_flat", "watch", "L001", False),
        ("alarm", "kl_blowup", "unreadable", "", False),
        ("no_alarm", "healthy", "watch", "S001", True),
        ("no_alarm", "healthy", "stop", "K001", False),
        ("no_alarm", "healthy", "unreadable", "", False),
        ("no_alarm", "healthy", "cannot_say", "", False),
        ("abstain", "too_short_to_tell", "healthy", "", False),
        ("abstain", "too_short_to_tell", "cannot_say", "", True),
        ("refuse", "not_rl", "refused", "", True),
    ],
)
def test_agreement(expected: str, failure: str, verdict: str, named: str, agrees: bool) -> None:
    assert score(label(expected, failure), Answer(verdict, named, (named,) if named else ())).agrees is agrees


def test_an_unreadable_run_is_neither_caught_nor_accused() -> None:
    said = [score(label("alarm", "kl_blowup"), Answer("unreadable")), score(label("no_alarm"), Answer("unreadable"))]
    got = figures(said)
    assert (got["read"], got["sick_caught"], got["well_accused"], got["cause_named"]) == (0, 0, 0, 0)


def test_first_cause_may_be_any_failure_of_the_label_and_primary_counts_apart() -> None:
    got = figures([score(label("alarm", "kl_blowup", "not_learning_flat"), Answer("act", "R010", ("R010",)))])
    assert (got["cause_named"], got["cause_right"], got["cause_primary"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("severities", "verdict", "named"),
    [
        (["INFO", "CRITICAL", "WARNING"], "act", "kl_drift"),
        (["WARNING", "OK", "WARNING"], "act", "plateau"),
        (["INFO", "OK", "SKIPPED"], "watch", "plateau"),
        (["SKIPPED", "SKIPPED", "SKIPPED"], "healthy", ""),
    ],
)
def test_severities_of_rldoctor(severities: list[str], verdict: str, named: str) -> None:
    names = ["plateau", "kl_drift", "clip_saturation"]
    findings = [{"detector": n, "severity": s} for n, s in zip(names, severities, strict=True)]
    got = from_rldoctor(json.dumps({"findings": findings, "x": float("nan")}).encode())
    assert (got.verdict, got.named) == (verdict, named)


def test_runbook_sees_the_last_rows_and_what_is_missing_is_neutral() -> None:
    step = np.arange(1, 101)
    late = np.where(step > 50, 0.2, 0.0)
    assert literals(Run("a", step, {"kl_ref": late})).named == "kl_blowup"
    assert literals(Run("a", step, {"kl_ref": late[::-1]})).verdict == "healthy"
    assert literals(Run("a", step, {"reward_mean": np.ones(100)})).verdict == "healthy"
    rising = np.where(step > 90, 1.1, 1.0)
    assert literals(Run("a", step, {"entropy": rising})).named == "entropy_rising"


def test_kept_results_hold_figures_only_and_add_up() -> None:
    ours = json.loads((RESULTS / "real_runs.json").read_text(encoding="utf-8"))
    tools = [ours, *json.loads((RESULTS / "peers.json").read_text(encoding="utf-8"))]
    fields = {"id", "expected", "confidence", "label", "verdict", "named", "agrees", "cause_right"}
    for tool in tools:
        assert {key for row in tool["runs"] for key in row} == fields
        rows = [r for r in tool["runs"] if r["confidence"] >= 0.75]
        assert tool["summary"]["0.75"]["agree"] == sum(r["agrees"] for r in rows)
        assert [r["id"] for r in tool["runs"]] == [r["id"] for r in ours["runs"]]
