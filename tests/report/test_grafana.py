"""The exported dashboard: Grafana's own types take it, ids are unique, nothing overlaps, every query parses."""

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
from rlvitals.report import prometheus_names as names


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    result = CliRunner().invoke(app, ["export", "grafana"])
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def queries(board: dict[str, Any]) -> list[str]:
    return [t["expr"] for p in board["panels"] for t in p.get("targets", ())]


def test_grafanas_own_types_take_it(board: dict[str, Any]) -> None:
    pytest.importorskip("grafana_foundation_sdk")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert (read["uid"], read["title"], read["schemaVersion"]) == ("rlvitals", "GRPO vital signs", 38)
    assert [p["type"] for p in read["panels"]] == [p["type"] for p in board["panels"]]
    assert [p["gridPos"] for p in read["panels"]] == [p["gridPos"] for p in board["panels"]]
    assert [t["expr"] for p in read["panels"] for t in p.get("targets", ())] == queries(board)
    assert [v["name"] for v in read["templating"]["list"]] == ["datasource", "run"]


def test_ids_are_unique_and_no_panel_covers_another(board: dict[str, Any]) -> None:
    ids = [p["id"] for p in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert all(0 <= x < 24 for x, _ in cells)
        taken |= cells


def test_everything_that_is_exported_is_shown_once(board: dict[str, Any]) -> None:
    shown = queries(board)
    for gauge in names.GAUGES:
        assert shown.count(f'{gauge.name}{{run=~"$run"}}') == 1, gauge.name
    text = "\n".join(shown)
    assert all(check.id in text for check in CHECKS)
    assert names.HELD_OUT in text
    assert names.KL_SIGNED in text
    assert shown[3:6] == [
        'avg_over_time(grpo_advantage_std{run=~"$run"}[15m])',
        'avg_over_time(grpo_policy_entropy{run=~"$run"}[15m])',
        'rate(grpo_kl_to_reference_sum{run=~"$run"}[15m]) / rate(grpo_kl_to_reference_count{run=~"$run"}[15m])',
    ]


def test_every_query_parses(board: dict[str, Any], tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    rules = [{"record": f"query:{i}", "expr": expr} for i, expr in enumerate(queries(board))]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_every_panel_of_checks_says_what_they_look_for(board: dict[str, Any]) -> None:
    text = "\n".join(p.get("description", "") for p in board["panels"])
    assert [c.id for c in CHECKS if f"- {c.id} {c.name}: {c.fault}" not in text] == []
