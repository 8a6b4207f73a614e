"""What the checks that read audits share: a record knows no steps, so what it shows was there from the first one."""

from __future__ import annotations

from rlvitals.auditresults import Audit, kind_of
from rlvitals.check import Evidence, Onset, Threshold
from rlvitals.view import View


def from_start(view: View) -> Onset:
    """Return the first step of the run: what an audit finds wrong was wrong before training began."""
    first = max(view.first_step, 0)
    return Onset(first, first)


def evidence(
    view: View, audit: Audit, text: str, observed: float, unit: str, threshold: Threshold, comparison: str = ">"
) -> Evidence:
    """Return an observation of an audit, with what was audited and when."""
    kind = kind_of(audit)
    subject = f" of {audit.made.subject}" if audit.made.subject else ""
    when = f" on {audit.made.at[:10]}" if audit.made.at else ""
    steps = (max(view.first_step, 0), max(view.step, view.first_step, 0))
    return Evidence(
        f"audit:{kind}",
        f"{kind}{subject}{when}: {text} (limit {threshold})",
        observed,
        unit,
        steps,
        threshold,
        comparison,
    )


def percent(value: float) -> str:
    """Return a share as percent, one decimal below 10%."""
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}"
