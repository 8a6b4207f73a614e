"""What changed since the last look: one place that turns outcomes into opened, worsened, eased and closed.

Hysteresis lives here and in the engine's tracks alone. A fault opens after its check's patience, closes after
`engine.CLOSE_AFTER` quiet looks, is worse at once, and eases only after `EASE_AFTER` milder looks in a row. Channels,
hooks and the terminal consume `Transition`s and keep no judgement of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from rlvitals.check import SEVERITY, Action, Check, Finding, Fired, Outcome, Verdict
from rlvitals.diagnosis import Diagnosis
from rlvitals.engine import CLOSE_AFTER, Incident

EASE_AFTER = CLOSE_AFTER  # milder looks in a row before a fault counts as eased: as slow to relax as to close


class Kind(StrEnum):
    """How a fault changed."""

    OPENED = "opened"
    WORSENED = "worsened"
    EASED = "eased"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of one fault, with everything that a message about it says. It carries no rollout text.

    Attributes:
        check, name: id and name of the check ("R001", "constant-reward").
        finding: what it says now; for CLOSED what it said last.
        step: training step of the look that saw the change.
        verdict: of the whole run at that step; `headline` says it in one sentence.
        first_action: the first move of the plan that answers this fault, "" when it closed.
        page: path of the check's page below the documentation's root ("docs/checks/R001-constant-reward.md").
        before: the action asked for until now, None when it just opened.
        cause: id of the cause that explains this fault, its own id when nothing does.
    """

    kind: Kind
    check: str
    name: str
    finding: Finding
    step: int
    run: str
    verdict: Verdict
    headline: str
    first_action: str
    page: str
    before: Action | None = None
    cause: str = ""

    @property
    def action(self) -> Action:
        return self.finding.action


def page_of(check: str, name: str) -> str:
    """Return the path of a check's page below the documentation's root."""
    return f"docs/checks/{check}-{name}.md"


@dataclass(frozen=True, slots=True)
class Told:
    """The last thing said of one open fault, and how many looks in a row were milder."""

    finding: Finding
    milder: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one fault before the run's verdict and plan are known."""

    kind: Kind
    check: str
    finding: Finding
    before: Action | None


class Ledger:
    """Remembers what was said of each open fault and returns what is new after each look."""

    def __init__(self) -> None:
        self.open: dict[str, Told] = {}

    def after_look(self, outcomes: Mapping[str, Outcome], incidents: Mapping[str, Incident]) -> tuple[Change, ...]:
        """Return the changes of one scheduled look; `incidents` are the engine's open ones after it, by check."""
        changes = []
        for check in sorted(set(self.open) | set(incidents)):
            outcome = outcomes.get(check)
            now = outcome.finding if isinstance(outcome, Fired) else None
            change = self._one(check, incidents.get(check), now)
            if change is not None:
                changes.append(change)
        return tuple(sorted(changes, key=lambda c: -SEVERITY.index(c.finding.action)))

    def restore(self, told: Mapping[str, str], incidents: Mapping[str, Incident]) -> None:
        """Take over what an earlier process had said (check -> action), so that a restart repeats none of it."""
        for check, action in told.items():
            incident = incidents.get(check)
            if incident is not None and action in SEVERITY:
                self.open[check] = Told(replace(incident.finding, action=Action(action)))

    def _one(self, check: str, incident: Incident | None, now: Finding | None) -> Change | None:
        told = self.open.get(check)
        if told is None:
            if incident is None:
                return None
            finding = now or incident.finding
            self.open[check] = Told(finding)
            return Change(Kind.OPENED, check, finding, None)
        if incident is None:
            del self.open[check]
            return Change(Kind.CLOSED, check, told.finding, told.finding.action)
        if now is None:  # a quiet look that does not close it yet
            return None
        level, was = SEVERITY.index(now.action), SEVERITY.index(told.finding.action)
        if level > was:
            self.open[check] = Told(now)
            return Change(Kind.WORSENED, check, now, told.finding.action)
        if level == was:
            self.open[check] = Told(now)
            return None
        if told.milder + 1 < EASE_AFTER:
            self.open[check] = replace(told, milder=told.milder + 1)
            return None
        self.open[check] = Told(now)
        return Change(Kind.EASED, check, now, told.finding.action)


def transition(change: Change, step: int, diagnosis: Diagnosis, checks: Mapping[str, Check]) -> Transition:
    """Return a change with the verdict and the plan of its moment."""
    check = checks[change.check]
    closed = change.kind is Kind.CLOSED
    cause = next(
        (c.id for c in diagnosis.causes if change.check in (c.id, *(k.id for k in c.consequences))), change.check
    )
    return Transition(
        change.kind,
        change.check,
        check.name,
        change.finding,
        step,
        diagnosis.name,
        diagnosis.verdict,
        diagnosis.headline,
        "" if closed else _first_action(change, cause, diagnosis, check),
        page_of(check.id, check.name),
        change.before,
        cause,
    )


def _first_action(change: Change, cause: str, diagnosis: Diagnosis, check: Check) -> str:
    """Return the plan's first step for the cause of a fault; the check's own remedy where the plan has none."""
    step = next((s.text for s in diagnosis.plan if s.cause == cause), "")
    if step:
        return step
    remedies = check.plan(change.finding.variant).remedies
    return remedies[0].text if remedies else ""


class Budget:
    """Lets a bounded number of messages through, and every new or worse kind of problem besides.

    Args:
        messages: how many repeated messages may be sent over the run; None for no limit.
    """

    def __init__(self, messages: int | None = None) -> None:
        self.left = messages
        self.muted = 0
        self._worst: dict[tuple[str, str], int] = {}  # check and variant -> the most severe action ever told

    def lets(self, found: Transition) -> bool:
        """Return whether a message may go out, and count it. News is never held back; counts what is."""
        key, level = (found.check, found.finding.variant), SEVERITY.index(found.action)
        news = found.kind in (Kind.OPENED, Kind.WORSENED) and level > self._worst.get(key, -1)
        if news:
            self._worst[key] = level
            return True
        if self.left is None:
            return True
        if self.left > 0:
            self.left -= 1
            return True
        self.muted += 1
        return False
