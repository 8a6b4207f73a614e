"""/metrics: names of the runbook, KL by estimator, what is missing or broken, bounds, and a real Prometheus server."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rlvitals.check import Action, Clear, Confidence, Crashed, Evidence, Finding, Fired, NoData, Onset
from rlvitals.errors import InputError
from rlvitals.live import prometheus
from rlvitals.live.monitor import Monitor
from rlvitals.live.prometheus import Exporter
from rlvitals.live.transitions import Told
from rlvitals.report import prometheus_names as names
from rlvitals.report.prometheus_rules import RUNBOOK, render, runbook_query
from rlvitals.schema import RunConfig

Labels = tuple[tuple[str, str], ...]


def scraped(exporter: Exporter) -> dict[tuple[str, Labels], float]:
    """Return every sample as Prometheus would parse it: name and labels but the run -> value."""
    text = generate_latest(exporter.registry()).decode()
    out = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "run"))
            out[sample.name, labels] = sample.value
    return out


def finding(action: Action) -> Finding:
    return Finding("s", action, Confidence.HIGH, Onset(1, 1), (Evidence("reward_mean", "t", 0.0, "reward", (1, 1)),))


def test_the_runbooks_names_are_there() -> None:
    exporter = Exporter(clock=lambda: 100.0)
    exporter.row("a", 7, {"advantage_std": 0.95, "entropy": 1.4, "kl_ref": 0.02, "reward_mean": 0.5}, "k3")
    exporter.row("a", 8, {"advantage_std": 0.90, "entropy": 1.3, "kl_ref": 0.04, "reward_mean": 0.6}, "k3")
    found = scraped(exporter)
    assert found["grpo_advantage_std", ()] == 0.90
    assert found["grpo_policy_entropy", ()] == 1.3
    assert found["grpo_kl_to_reference_sum", (("estimator", "k3"),)] == pytest.approx(0.06)
    assert found["grpo_kl_to_reference_count", (("estimator", "k3"),)] == 2
    assert found["grpo_reward_mean", ()] == 0.6
    assert found["rlvitals_step", ()] == 8
    assert found["rlvitals_rows_total", ()] == 2
    assert found["rlvitals_last_row_timestamp_seconds", ()] == 100.0
    assert not any(name.startswith("grpo_kl_to_reference_signed") for name, _ in found)


def test_a_kl_that_can_be_negative_is_a_gauge_and_never_in_the_sum() -> None:
    exporter = Exporter()
    for estimator, value in (("k1", -0.03), ("", 0.01), ("sequence sum k1", -2.0)):
        exporter.row("a", 1, {"kl_ref": value}, estimator)
    found = scraped(exporter)
    assert found["grpo_kl_to_reference_signed", (("estimator", "k1"),)] == -0.03
    assert found["grpo_kl_to_reference_signed", (("estimator", "unknown"),)] == 0.01
    assert found["grpo_kl_to_reference_signed", (("estimator", "sequence sum k1"),)] == -2.0
    assert not any(name.startswith("grpo_kl_to_reference_sum") for name, _ in found)


def test_a_negative_k3_is_refused_and_counted() -> None:
    exporter = Exporter()
    exporter.row("a", 1, {"kl_ref": 0.02}, "k3")
    exporter.row("a", 2, {"kl_ref": -0.02}, "k3")
    exporter.row("a", 3, {"nonfinite/kl_ref": 1.0}, "k3")
    found = scraped(exporter)
    assert found["grpo_kl_to_reference_sum", (("estimator", "k3"),)] == 0.02
    assert found["grpo_kl_to_reference_count", (("estimator", "k3"),)] == 1
    negative = (("reason", "negative value of a KL estimator that has none"),)
    assert found["rlvitals_values_refused_total", negative] == 1
    assert found["rlvitals_values_refused_total", (("reason", "KL not finite"),)] == 1


def test_a_constant_zero_may_be_no_measurement() -> None:
    exporter = Exporter()
    exporter.row("a", 1, {"kl_ref": 0.0, "entropy": 0.0, "clip_frac": 0.0, "truncated_frac": 0.0}, "k3")
    found = scraped(exporter)
    assert found["grpo_truncated_frac", ()] == 0.0
    assert {n for n, _ in found if n.startswith("grpo_")} == {"grpo_truncated_frac"}
    exporter.row("a", 2, {"kl_ref": 0.03, "entropy": 0.4, "clip_frac": 0.01}, "k3")
    exporter.row("a", 3, {"clip_frac": 0.0}, "k3")
    found = scraped(exporter)
    assert found["grpo_kl_to_reference_count", (("estimator", "k3"),)] == 2  # the 0 before the first update counts now
    assert found["grpo_clip_frac", ()] == 0.0


def test_missing_is_not_zero_old_is_not_new_and_broken_is_nan() -> None:
    exporter = Exporter()
    exporter.row("a", 1, {"reward_mean": 0.5, "grad_norm": 1.0})
    exporter.row("a", 2, {"nonfinite/reward_mean": 1.0})
    found = scraped(exporter)
    assert math.isnan(found["grpo_reward_mean", ()])
    assert found["grpo_grad_norm", ()] == 1.0
    assert ("grpo_policy_entropy", ()) not in found
    for step in range(3, 60):
        exporter.row("a", step, {"reward_mean": 0.5})
    assert ("grpo_grad_norm", ()) not in scraped(exporter)


def test_findings_open_change_and_close() -> None:
    exporter = Exporter()
    outcomes = {"R001": Fired(finding(Action.FIX)), "E001": Clear("c"), "K001": NoData(()), "U001": Crashed("e")}
    exporter.looked("a", outcomes, {"R001": Told(finding(Action.FIX))})
    found = scraped(exporter)
    assert found["rlvitals_finding", (("action", "fix"), ("check", "R001"))] == 1
    assert {k[1][0][1]: v for k, v in found.items() if k[0] == "rlvitals_checks"} == {
        "fired": 1, "clear": 1, "no_data": 1, "crashed": 1,
    }  # fmt: skip
    exporter.looked("a", outcomes, {"R001": Told(finding(Action.STOP))})
    exporter.looked("a", outcomes, {})
    found = scraped(exporter)
    assert found["rlvitals_finding", (("action", "fix"), ("check", "R001"))] == 0
    assert found["rlvitals_finding", (("action", "stop"), ("check", "R001"))] == 0


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MAX_RUNS", 3)
    exporter = Exporter()
    for n in range(200):
        exporter.row(f"run {n}", 1, {f"reward_part/{n}": 1.0, f"made up {n}": 1.0, "reward_mean": 1.0})
        exporter.held_out("run 0", f"set {n}", 1, 0.5)
        exporter.row("run 0", n, {"kl_ref": 0.1}, f"estimator {n}")
    text = generate_latest(exporter.registry()).decode()
    assert sum(not line.startswith("#") for line in text.splitlines()) < 100
    assert 'rlvitals_values_refused_total{reason="more runs",run=""} 197.0' in text
    assert 'rlvitals_values_refused_total{reason="more held-out sets",run="run 0"} 184.0' in text
    assert 'rlvitals_values_refused_total{reason="more KL estimators",run="run 0"} 196.0' in text


def test_hostile_names_stay_labels() -> None:
    exporter = Exporter()
    name = 'a"} 1\nevil_metric{x="y' + "\x1b[31m" + "z" * 500
    exporter.row(name, 1, {"reward_mean": 0.5})
    exporter.held_out(name, name, 1, 0.5)
    text = generate_latest(exporter.registry()).decode()
    assert not any(line.startswith("evil") for line in text.splitlines())
    assert "\x1b" not in text
    (value,) = (v for (n, _), v in scraped(exporter).items() if n == "grpo_held_out_score")
    assert value == 0.5


def test_a_monitor_feeds_it() -> None:
    exporter = Exporter()
    monitor = Monitor(RunConfig(kl_estimator="k3", group_size=8), name="a")
    exporter.watch(monitor)
    for step in range(1, 41):
        row = {"reward_mean": 0.0, "reward_std": 0.0, "zero_variance_frac": 1.0, "kl_ref": 0.01, "entropy": 0.3}
        monitor.log(step, row)
        if step % 10 == 0:
            monitor.add_eval("gsm8k", step, 0.25)
    found = scraped(exporter)
    opened = set(monitor._ledger.open)
    assert opened
    shown = {dict(k[1])["check"] for k, v in found.items() if k[0] == "rlvitals_finding" and v == 1}
    assert shown == opened
    assert found["rlvitals_rows_total", ()] == 39  # the last row is whole once the next begins
    assert found["grpo_kl_to_reference_count", (("estimator", "k3"),)] == 39
    assert found["grpo_held_out_score", (("set", "gsm8k"),)] == 0.25
    assert found["grpo_held_out_step", (("set", "gsm8k"),)] == 40
    assert sum(v for k, v in found.items() if k[0] == "rlvitals_checks") == len(monitor._checks)
    assert found["rlvitals_run_active", ()] == 1
    monitor.close()
    assert scraped(exporter)["rlvitals_run_active", ()] == 0
    assert monitor.troubles == ()


def test_the_estimator_comes_from_the_trainers_key() -> None:
    exporter = Exporter()
    monitor = Monitor(RunConfig(), trainer="TRL", name="a")
    exporter.watch(monitor)
    for step in range(3):
        monitor.log(step, {"reward": 0.5, "kl": 0.01 + step / 100, "loss": 0.1})
    assert scraped(exporter)["grpo_kl_to_reference_count", (("estimator", "k3"),)] == 2


def test_a_port_that_is_taken_is_said() -> None:
    exporter, other = Exporter(), Exporter()
    address = exporter.serve(port=0)
    try:
        assert address.startswith("http://127.0.0.1:")
        port = int(address.split(":")[2].split("/")[0])
        with pytest.raises(InputError, match=r"cannot serve /metrics; found .*Try port=0"):
            other.serve(port=port)
    finally:
        exporter.close()


def test_every_gauge_is_a_metric_of_the_vocabulary() -> None:
    assert [g.name for g in names.GAUGES if not g.help or not g.unit] == []
    assert len({g.name for g in names.GAUGES}) == len(names.GAUGES)


def test_promtool_finds_nothing_wrong_with_what_is_exposed() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    exporter = Exporter()
    for step in range(3):
        exporter.row("a", step, {g.metric: 0.5 for g in names.GAUGES} | {"kl_ref": 0.1}, "k3")
    exporter.row("a", 4, {"kl_ref": -0.1}, "k1")
    exporter.row("a", 5, {"kl_ref": -0.1}, "k3")
    exporter.held_out("a", "gsm8k", 5, 0.5)
    exporter.looked("a", {"R001": Clear("c")}, {"R001": Told(finding(Action.FIX))})
    text = generate_latest(exporter.registry())
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_page_names_every_series() -> None:
    page = (Path(__file__).parents[2] / "docs" / "prometheus.md").read_text()
    ours = [g.name for g in names.GAUGES] + [names.KL_SUMMARY + "_sum", names.KL_SIGNED, names.HELD_OUT]
    ours += [names.HELD_OUT_STEP, names.FINDING, names.CHECKS, names.STEP, names.ROWS + "_total", names.LAST_ROW]
    ours += [names.INTERVAL, names.ACTIVE, names.REFUSED + "_total"]
    assert [n for n in ours if f"`{n}`" not in page] == []


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Exporter, str]]:
    """An exporter, and the address of a real Prometheus server that scrapes it four times a second."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    exporter = Exporter()
    target = exporter.serve(port=0).removeprefix("http://").removesuffix("/metrics")
    (tmp_path / "rules.yml").write_text(render())
    config = {
        "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "250ms"},
        "rule_files": [str(tmp_path / "rules.yml")],
        "scrape_configs": [{"job_name": "training", "static_configs": [{"targets": [target]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
         f"--web.listen-address={address}", "--log.level=error"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "GOMAXPROCS": "1"},
    )  # fmt: skip
    try:
        yield exporter, f"http://{address}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        exporter.close()


def asked(address: str, path: str, **parameters: str) -> Any:
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    try:
        with urllib.request.urlopen(f"{address}/api/v1/{path}{query}", timeout=5) as answer:
            return json.load(answer)["data"]
    except OSError:  # it is still starting
        return {"result": [], "alerts": []}


def value_of(address: str, query: str) -> float | None:
    found = asked(address, "query", query=query)["result"]
    return float(found[0]["value"][1]) if len(found) == 1 else None


@pytest.mark.slow
def test_a_real_prometheus_answers_the_runbooks_queries_and_fires(server: tuple[Exporter, str]) -> None:
    exporter, address = server
    told = {"R001": Told(finding(Action.STOP))}
    end = time.monotonic() + 60
    queries = [runbook_query(query) for _, _, query in RUNBOOK]
    step = 0
    firing: list[Any] = []
    values: list[float | None] = []
    while time.monotonic() < end:
        step += 1
        exporter.row("qwen", step, {"advantage_std": 0.75, "entropy": 0.5, "kl_ref": 0.125, "reward_mean": 0.4}, "k3")
        exporter.looked("qwen", {}, told)
        values = [value_of(address, query) for query in queries]
        firing = [a for a in asked(address, "alerts")["alerts"] if a["state"] == "firing"]
        if None not in values and firing:
            break
        time.sleep(0.2)
    assert queries == [
        "avg_over_time(grpo_advantage_std[15m])",
        "avg_over_time(grpo_policy_entropy[15m])",
        "rate(grpo_kl_to_reference_sum[15m]) / rate(grpo_kl_to_reference_count[15m])",
    ]
    assert values == [0.75, 0.5, pytest.approx(0.125)]
    (alert,) = firing
    assert alert["labels"]["alertname"] == "RlvitalsConstantReward"
    assert (alert["labels"]["severity"], alert["labels"]["run"]) == ("critical", "qwen")
    assert alert["annotations"]["summary"] == "qwen: R001 constant-reward, stop"
