"""Alert rules for Prometheus, one per check, with what to do; and the runbook's three queries as recording rules.

The judgement, with its patience and hysteresis, is that of the engine: a rule fires on `rlvitals_finding`, so that
Prometheus and `rlvitals check` never disagree. Four more rules tell a silent, vanished, blind or broken monitor apart
from a healthy run.
"""

from __future__ import annotations

from typing import Any

from rlvitals.check import Action, Check
from rlvitals.checks import CHECKS
from rlvitals.report import prometheus_names as names

RUNBOOK_WINDOW = "15m"  # of the runbook's own queries
SILENT_TIMES = 10  # usual intervals between rows without a row (convention)
SILENT_AT_LEAST_S = 600  # s; shorter silences are evaluations and checkpoints (convention)
GONE_WINDOW = "1h"  # how far back a vanished exporter is remembered (convention)
MIN_ROWS = 20  # usable steps below which nothing is called healthy (conclude.MIN_ROWS)
SEVERITY = (
    '{{ if eq $labels.action "stop" }}critical'
    '{{ else if or (eq $labels.action "fix") (eq $labels.action "adjust") }}warning'
    "{{ else }}info{{ end }}"
)

RUNBOOK: tuple[tuple[str, str, str], ...] = (
    ("grpo:advantage_std:avg15m", "Advantage std", f"avg_over_time(grpo_advantage_std%s[{RUNBOOK_WINDOW}])"),
    ("grpo:policy_entropy:avg15m", "Policy entropy", f"avg_over_time(grpo_policy_entropy%s[{RUNBOOK_WINDOW}])"),
    (
        "grpo:kl_to_reference:mean15m",
        "KL to reference",
        f"rate(grpo_kl_to_reference_sum%s[{RUNBOOK_WINDOW}]) / rate(grpo_kl_to_reference_count%s[{RUNBOOK_WINDOW}])",
    ),
)
"""The runbook's queries: name of the recording rule, title, and the query with %s where a label selector may stand."""


def runbook_query(query: str, selector: str = "") -> str:
    """Return a query of RUNBOOK with a label selector; without one it is the runbook's own text."""
    return query.replace("%s", selector)


def render(checks: tuple[Check, ...] = CHECKS, docs: str = "") -> str:
    """Return the rules as YAML for `rule_files`; `docs` is the address under which docs/ can be read, "" for none."""
    import yaml

    groups = {
        "groups": [
            {"name": "rlvitals-runbook", "rules": [_record(name, query) for name, _, query in RUNBOOK]},
            {"name": "rlvitals-findings", "rules": [finding_rule(check, docs) for check in checks]},
            {"name": "rlvitals-monitor", "rules": _monitor_rules()},
        ]
    }
    text: str = yaml.safe_dump(groups, sort_keys=False, allow_unicode=True, width=110)
    return "# Written by `rlvitals export prometheus-rules`; write it anew rather than edit it.\n" + text


def alert_name(check: Check) -> str:
    """Return e.g. RlvitalsRewardCollapse."""
    return "Rlvitals" + "".join(word.capitalize() for word in check.name.split("-"))


def finding_rule(check: Check, docs: str = "") -> dict[str, Any]:
    """Return the rule that fires while a check finds its fault; its severity follows the action that is asked for."""
    page = f"docs/checks/{check.id}-{check.name}.md"
    annotations = {
        "summary": f"{{{{ $labels.run }}}}: {check.id} {check.name}, {{{{ $labels.action }}}}",
        "description": _plain(f"{check.fault} {check.why}"),
        "action": _plain(first_moves(check)),
        "page": page,
        "explain": f"rlvitals explain {check.id}",
    }
    if docs:
        annotations["runbook_url"] = f"{docs.rstrip('/')}/{page.removeprefix('docs/')}"
    return {
        "alert": alert_name(check),
        "expr": f'{names.FINDING}{{check="{check.id}",action!="{Action.NOTE.value}"}} == 1',
        "labels": {"severity": SEVERITY, "family": check.family.label},
        "annotations": annotations,
    }


def first_moves(check: Check) -> str:
    """Return the first remedy of each of the check's plans, with the variant that it is for."""
    moves: dict[str, list[str]] = {}
    for variant, plan in check.plans.items():
        if plan.remedies:
            moves.setdefault(plan.remedies[0].text.rstrip("."), []).append(variant)
    if len(moves) == 1:
        return next(iter(moves)) + "."
    told = (f"{text} (if {' or '.join(v for v in who if v)})" if any(who) else text for text, who in moves.items())
    return "; ".join(told) + "."


def _record(name: str, query: str) -> dict[str, str]:
    return {"record": name, "expr": runbook_query(query)}


def _plain(text: str) -> str:
    """Return text in which Prometheus finds nothing to expand."""
    return text.replace("{{", "{ {")


def _monitor_rules() -> list[dict[str, Any]]:
    silence = f"time() - {names.LAST_ROW} > clamp_min({SILENT_TIMES} * {names.INTERVAL}, {SILENT_AT_LEAST_S})"
    return [
        _rule(
            "RlvitalsRunSilent",
            f"{silence} and {names.ACTIVE} == 1",
            "warning",
            "has logged no row for {{ $value | humanizeDuration }}, and did not say that it ended",
            "See whether the process hangs or died; what was found before still stands.",
        ),
        _rule(
            "RlvitalsRunGone",
            f"last_over_time({names.ACTIVE}[{GONE_WINDOW}]) == 1 unless {names.ACTIVE}",
            "warning",
            "is no longer exported, and did not say that it ended: no findings mean nothing now",
            "See whether the process died; `rlvitals check` on its log says in what state.",
        ),
        _rule(
            "RlvitalsBlind",
            f'sum without (outcome) ({names.CHECKS}{{outcome=~"fired|clear"}}) == 0 '
            f"and sum without (outcome) ({names.CHECKS}) > 0 and {names.ROWS}_total > {MIN_ROWS}",
            "warning",
            "logs nothing that a check could look at: no findings mean nothing here",
            "Log more: `rlvitals metrics PATH` gives the lines.",
        ),
        _rule(
            "RlvitalsCheckCrashed",
            f'{names.CHECKS}{{outcome="crashed"}} > 0',
            "info",
            "has {{ $value }} checks that failed themselves; the others still answer",
            "Report it; `rlvitals check PATH` shows the error.",
        ),
    ]


def _rule(alert: str, expr: str, severity: str, what: str, action: str) -> dict[str, Any]:
    return {
        "alert": alert,
        "expr": expr,
        "for": "5m",
        "labels": {"severity": severity, "family": "monitor"},
        "annotations": {"summary": f"{{{{ $labels.run }}}} {what}", "action": action},
    }
