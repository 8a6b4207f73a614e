"""A Grafana dashboard made from the checks: the runbook's queries first, then each family in the order of triage.

Each vital sign stands beside the findings of its family, so that the page is read like the diagnosis: upstream first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlvitals.check import Check, Family
from rlvitals.checks import CHECKS
from rlvitals.report import prometheus_names as names
from rlvitals.report.prometheus_names import GAUGES, Gauge
from rlvitals.report.prometheus_rules import RUNBOOK, runbook_query

SCHEMA_VERSION = 38  # of Grafana 10; newer versions read it
UID = "rlvitals"
COLUMNS = 24  # of Grafana's grid
PANEL_WIDTH, PANEL_HEIGHT = 8, 7  # grid units: three in a row
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
RUN = '{run=~"$run"}'
UNITS = {"fraction": "percentunit", "1": "none", "ratio": "none", "correlation": "none"}
LEVELS = (("0", "over", "green"), ("1", "open", "orange"))


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and the legend of its series."""

    expr: str
    legend: str = "{{run}}"
    instant: bool = False


def render(checks: tuple[Check, ...] = CHECKS) -> str:
    """Return the dashboard as JSON for Grafana's import page or its provisioning folder."""
    return json.dumps(dashboard(checks), indent=2, ensure_ascii=False) + "\n"


def dashboard(checks: tuple[Check, ...] = CHECKS) -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON model."""
    return {
        "uid": UID,
        "title": "GRPO vital signs",
        "description": "Written by `rlvitals export grafana` from the checks; write it anew rather than edit it.",
        "tags": ["rlvitals", "grpo"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": _placed(_sections(checks)),
    }


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0},
        {
            "name": "run",
            "label": "Run",
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"query": f"label_values({names.ACTIVE}, run)", "refId": "run"},
            "definition": f"label_values({names.ACTIVE}, run)",
            "refresh": 2,  # with the time range
            "multi": True,
            "includeAll": True,
            "sort": 1,
            "hide": 0,
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        },
    ]


def _sections(checks: tuple[Check, ...]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the rows of the page: title and panels."""
    out = [("Now", _now()), ("Runbook: GRPO training-run health check", [_runbook(*each) for each in RUNBOOK])]
    for family in sorted({c.family for c in checks} | {g.family for g in GAUGES}):
        members = [c for c in checks if c.family is family]
        findings = [_findings(family, members)] if members else []
        panels = [*findings, *(_gauge(g) for g in GAUGES if g.family is family), *_special(family)]
        out.append((family.label.replace("-", " ").capitalize(), panels))
    return out


def _now() -> list[dict[str, Any]]:
    open_now = Query(f"max by (run, check, action) ({names.FINDING}{RUN}) == 1", "{{run}} {{check}} {{action}}", True)
    looked = Query(f"sum by (outcome) ({names.CHECKS}{RUN})", "{{outcome}}")
    silent = Query(f"time() - {names.LAST_ROW}{RUN}")
    return [
        {
            **_panel(
                "table", "Open findings", "`rlvitals explain ID` says what each means and what to do.", [open_now]
            ),
            "transformations": [{"id": "labelsToFields", "options": {}}, {"id": "merge", "options": {}}],
        },
        _series("Checks by answer", "Few checks that could look are no health.", [looked], "1"),
        _series("Since the last row", "A run that stopped logging has no new findings.", [silent], "s"),
    ]


def _runbook(name: str, title: str, query: str) -> dict[str, Any]:
    text = f"The runbook's own query. Recorded as `{name}` by the exported rules."
    return _series(f"{title}, 15 min", text, [Query(runbook_query(query, RUN))], "")


def _findings(family: Family, checks: Sequence[Check]) -> dict[str, Any]:
    ids = "|".join(c.id for c in checks)
    query = Query(f'max by (run, check) ({names.FINDING}{{run=~"$run",check=~"{ids}"}})', "{{run}} {{check}}")
    about = "\n".join(f"- {c.id} {c.name}: {c.fault}" for c in checks)
    panel = _panel("state-timeline", f"Findings: {family.label.replace('-', ' ')}", about, [query])
    mappings = {value: {"text": word, "color": color, "index": int(value)} for value, word, color in LEVELS}
    panel["fieldConfig"]["defaults"]["mappings"] = [{"type": "value", "options": mappings}]
    panel["options"] = {"showValue": "never", "mergeValues": True, "legend": _legend()}
    return panel


def _gauge(gauge: Gauge) -> dict[str, Any]:
    return _series(gauge.metric.replace("_", " "), gauge.help, [Query(f"{gauge.name}{RUN}")], gauge.unit)


def _special(family: Family) -> list[dict[str, Any]]:
    """Return the panels of what has more labels than a run."""
    if family is Family.HELD_OUT:
        scores = Query(f"{names.HELD_OUT}{RUN}", "{{run}} {{set}}")
        return [_series("held-out score", "Newest score of each set.", [scores], "")]
    if family is Family.LEASH:
        text = "Estimators that can be negative, or are not known. Two estimators are never compared."
        return [
            _series("KL to reference, signed", text, [Query(f"{names.KL_SIGNED}{RUN}", "{{run}} {{estimator}}")], "")
        ]
    return []


def _series(title: str, text: str, queries: Sequence[Query], unit: str) -> dict[str, Any]:
    panel = _panel("timeseries", title, text, queries)
    shown = UNITS.get(unit, "s" if unit == "s" else f"suffix: {unit}" if unit else "none")
    panel["fieldConfig"]["defaults"] |= {"unit": shown, "custom": {"lineWidth": 1, "spanNulls": False}}
    panel["options"] = {"tooltip": {"mode": "multi", "sort": "none"}, "legend": _legend()}
    return panel


def _panel(kind: str, title: str, text: str, queries: Sequence[Query]) -> dict[str, Any]:
    return {
        "type": kind,
        "title": title,
        "description": text,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": DATASOURCE,
                "expr": q.expr,
                "legendFormat": q.legend,
                "instant": q.instant,
                "range": not q.instant,
            }
            for i, q in enumerate(queries)
        ],
    }


def _legend() -> dict[str, Any]:
    return {"displayMode": "list", "placement": "bottom", "showLegend": True}


def _placed(sections: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Return all panels with ids and places on the grid, each section under a row of its own."""
    out: list[dict[str, Any]] = []
    y = 0
    for title, panels in sections:
        out.append(
            {"type": "row", "title": title, "collapsed": False, "panels": [], **_at(len(out) + 1, 0, y, COLUMNS, 1)}
        )
        y += 1
        per_row = COLUMNS // PANEL_WIDTH
        for i, panel in enumerate(panels):
            x, below = PANEL_WIDTH * (i % per_row), PANEL_HEIGHT * (i // per_row)
            out.append({**panel, **_at(len(out) + 1, x, y + below, PANEL_WIDTH, PANEL_HEIGHT)})
        y += PANEL_HEIGHT * -(-len(panels) // per_row)
    return out


def _at(number: int, x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {"id": number, "gridPos": {"x": x, "y": y, "w": width, "h": height}}
