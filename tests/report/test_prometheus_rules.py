"""The exported alert rules, judged by promtool: they parse, fire on firing series and stay quiet on quiet ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from rlvitals.checks import CHECKS
from rlvitals.cli.main import app
from rlvitals.report.prometheus_rules import alert_name, finding_rule, first_moves, render

DOCS = "https://example.org/docs"


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed")
    return found


def judged(promtool: str, folder: Path, tests: list[dict[str, Any]]) -> str:
    """Run promtool's unit tests on the exported rules; return what it complains about, "" for nothing."""
    (folder / "rules.yml").write_text(render(docs=DOCS))
    (folder / "test.json").write_text(
        json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(
        [promtool, "test", "rules", str(folder / "test.json")], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    inner = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return {"series": f"{name}{{{inner}}}", "values": values}


def test_promtool_takes_the_rules(promtool: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    result = CliRunner().invoke(app, ["export", "prometheus-rules", "--out", str(path), "--docs", DOCS])
    assert (result.exit_code, result.output) == (0, "")
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", str(path)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CHECKS) + 7} rules found".encode() in done.stdout


def test_there_is_one_rule_per_check_with_what_to_do() -> None:
    groups = {g["name"]: g["rules"] for g in yaml.safe_load(render())["groups"]}
    assert list(groups) == ["rlvitals-runbook", "rlvitals-findings", "rlvitals-monitor"]
    assert [r["alert"] for r in groups["rlvitals-findings"]] == [alert_name(c) for c in CHECKS]
    for check, rule in zip(CHECKS, groups["rlvitals-findings"], strict=True):
        assert rule["annotations"]["action"] == first_moves(check)
        assert rule["annotations"]["explain"] == f"rlvitals explain {check.id}"
        assert (Path(__file__).parents[2] / "docs/checks").is_dir()
        assert "runbook_url" not in rule["annotations"]
    runbook = {r["record"]: r["expr"] for r in groups["rlvitals-runbook"]}
    assert runbook == {
        "grpo:advantage_std:avg15m": "avg_over_time(grpo_advantage_std[15m])",
        "grpo:policy_entropy:avg15m": "avg_over_time(grpo_policy_entropy[15m])",
        "grpo:kl_to_reference:mean15m": ("rate(grpo_kl_to_reference_sum[15m]) / rate(grpo_kl_to_reference_count[15m])"),
    }


@pytest.mark.parametrize(
    ("action", "severity"), [("stop", "critical"), ("fix", "warning"), ("adjust", "warning"), ("watch", "info")]
)
def test_every_rule_fires_on_its_finding_and_on_no_other(
    promtool: str, tmp_path: Path, action: str, severity: str
) -> None:
    """Every second check finds its fault for three minutes, then the others do: each alert follows its own series."""
    tests = []
    for half in (0, 1):
        inputs, asks = [], []
        for n, check in enumerate(CHECKS):
            labels = {"run": "qwen", "check": check.id, "action": action}
            fires = n % 2 == half
            inputs.append(series("rlvitals_finding", "0 0 0 1 1 1 0 0" if fires else "0x7", **labels))
            annotations = {
                **finding_rule(check, DOCS)["annotations"],
                "summary": f"qwen: {check.id} {check.name}, {action}",
            }
            told = {**labels, "severity": severity, "family": check.family.label}
            fired = {"exp_labels": told, "exp_annotations": annotations}
            asks += [
                {"eval_time": f"{minute}m", "alertname": alert_name(check), "exp_alerts": [fired] if on else []}
                for minute, on in ((2, False), (4, fires), (7, False))
            ]
        tests.append({"interval": "1m", "input_series": inputs, "alert_rule_test": asks})
    assert judged(promtool, tmp_path, tests) == ""


def test_a_note_is_no_alert_and_a_wrong_expectation_is_noticed(promtool: str, tmp_path: Path) -> None:
    note = {
        "interval": "1m",
        "input_series": [series("rlvitals_finding", "1x5", run="qwen", check="R001", action="note")],
        "alert_rule_test": [{"eval_time": "4m", "alertname": "RlvitalsConstantReward", "exp_alerts": []}],
    }
    assert judged(promtool, tmp_path, [note]) == ""
    note["input_series"] = [series("rlvitals_finding", "1x5", run="qwen", check="R001", action="fix")]
    assert "FAILED" in judged(promtool, tmp_path, [note])


def monitor_case(alert: str, inputs: list[dict[str, str]], at: str, fires: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": inputs,
        "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": [fires] if fires else []}],
    }


def alarm(alert: str, summary: str, severity: str = "warning", **labels: str) -> dict[str, Any]:
    (rule,) = (r for g in yaml.safe_load(render())["groups"] for r in g["rules"] if r.get("alert") == alert)
    annotations = {"summary": summary, "action": rule["annotations"]["action"]}
    return {
        "exp_labels": {"run": "qwen", "severity": severity, "family": "monitor", **labels},
        "exp_annotations": annotations,
    }


def test_silent_gone_blind_and_crashed(promtool: str, tmp_path: Path) -> None:
    steady = series("rlvitals_last_row_timestamp_seconds", "0+60x60", run="qwen")
    stopped = series("rlvitals_last_row_timestamp_seconds", "0 60 120 180 180x60", run="qwen")
    quick = series("rlvitals_row_interval_seconds", "30x70", run="qwen")
    slow = series("rlvitals_row_interval_seconds", "600x70", run="qwen")
    active, ended = (series("rlvitals_run_active", f"{n}x70", run="qwen") for n in (1, 0))
    silent = "has logged no row for 27m 0s, and did not say that it ended"
    gone = "is no longer exported, and did not say that it ended: no findings mean nothing now"
    blind = "logs nothing that a check could look at: no findings mean nothing here"
    rows = series("rlvitals_rows_total", "0+10x30", run="qwen")
    none = [series("rlvitals_checks", f"{n}x30", run="qwen", outcome=o) for o, n in (("fired", 0), ("no_data", 70))]
    some = [series("rlvitals_checks", f"{n}x30", run="qwen", outcome=o) for o, n in (("clear", 3), ("no_data", 70))]
    crashed = series("rlvitals_checks", "2x30", run="qwen", outcome="crashed")
    tests = [
        monitor_case("RlvitalsRunSilent", [steady, quick, active], "30m", None),
        monitor_case(
            "RlvitalsRunSilent", [stopped, quick, active], "30m", alarm("RlvitalsRunSilent", f"qwen {silent}")
        ),
        monitor_case("RlvitalsRunSilent", [stopped, slow, active], "30m", None),
        monitor_case("RlvitalsRunSilent", [stopped, quick, ended], "30m", None),
        monitor_case("RlvitalsRunGone", [active], "30m", None),
        monitor_case(
            "RlvitalsRunGone",
            [series("rlvitals_run_active", "1x10 stale", run="qwen")],
            "30m",
            alarm("RlvitalsRunGone", f"qwen {gone}"),
        ),
        monitor_case("RlvitalsRunGone", [series("rlvitals_run_active", "1x9 0 stale", run="qwen")], "30m", None),
        monitor_case("RlvitalsBlind", [rows, *none], "20m", alarm("RlvitalsBlind", f"qwen {blind}")),
        monitor_case("RlvitalsBlind", [rows, *some], "20m", None),
        monitor_case("RlvitalsBlind", [rows], "20m", None),
        monitor_case(
            "RlvitalsCheckCrashed",
            [crashed],
            "20m",
            alarm(
                "RlvitalsCheckCrashed",
                "qwen has 2 checks that failed themselves; the others still answer",
                "info",
                outcome="crashed",
            ),
        ),
    ]
    assert judged(promtool, tmp_path, tests) == ""


def test_the_runbooks_recording_rules(promtool: str, tmp_path: Path) -> None:
    kl = {"run": "qwen", "estimator": "k3"}
    case = {
        "interval": "1m",
        "input_series": [
            series("grpo_advantage_std", "0.5 1.0 0.5 1.0 0.5 1.0 0.5 1.0 0.5 1.0", run="qwen"),
            series("grpo_policy_entropy", "0.5x9", run="qwen"),
            series("grpo_kl_to_reference_sum", "0+1x9", **kl),
            series("grpo_kl_to_reference_count", "0+8x9", **kl),
        ],
        "promql_expr_test": [
            {
                "expr": name,
                "eval_time": "9m",
                "exp_samples": [{"labels": f"{name}{{{labels}}}", "value": value}],
            }
            for name, labels, value in (
                ("grpo:advantage_std:avg15m", 'run="qwen"', 0.75),
                ("grpo:policy_entropy:avg15m", 'run="qwen"', 0.5),
                ("grpo:kl_to_reference:mean15m", 'run="qwen",estimator="k3"', 0.125),
            )
        ],
    }
    assert judged(promtool, tmp_path, [case]) == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grafanna"], "Nearest: grafana"),
        (["prometheus-rules", "--docs", "javascript:x"], "https://"),
        (["grafana", "--docs", DOCS], "option without a use"),
        (["grafana", "--out", "/no/such/folder/x.json"], "cannot write"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["export", *arguments])
    assert result.exit_code == 2
    assert said in result.output
