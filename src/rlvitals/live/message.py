"""What an alert says: what, since when, the evidence, the first action and where to read on. No text of a rollout.

Names come from logs and configs and are untrusted: they are cut, shown on one line, and can neither mention anybody nor
become a link or markup where the message arrives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from rlvitals.check import Action, Evidence, Finding, Verdict
from rlvitals.checks import CHECKS
from rlvitals.live.stop import StopRequest
from rlvitals.live.transitions import Kind, Transition
from rlvitals.report import words

MAX_TITLE = 63  # characters; W&B takes fewer than 64
MAX_LINE = 400  # characters of one sentence (convention)
EVIDENCE_SHOWN = 3
BREAK = "\u200b"  # zero width: keeps a name from becoming a mention or a link
MIN_EXCERPT = 8  # characters; a shorter piece of a rollout is a word that anything may contain
_MENTION = re.compile(r"([@#])(?=\w)|(?<=\w)(:)(?=//)")
_BRACKETS = str.maketrans({"<": "‹", ">": "›", "`": "'"})
COMPARED = {">": "above", ">=": "at or above", "<": "below", "<=": "at or below", "==": "equal to", "!=": "other than"}


class Severity(StrEnum):
    """How loud a message is; channels translate it into their own levels."""

    INFO = "info"  # watch, finish, or over
    WARNING = "warning"  # fix, adjust
    CRITICAL = "critical"  # stop


SEVERITY_OF = {Action.STOP: Severity.CRITICAL, Action.FIX: Severity.WARNING, Action.ADJUST: Severity.WARNING}


@dataclass(frozen=True, slots=True)
class Message:
    """One alert. `text` holds everything; the other fields are for channels that keep them apart."""

    title: str
    text: str
    severity: Severity
    kind: Kind
    run: str
    check: str
    name: str
    action: Action
    verdict: str
    step: int
    since: str
    evidence: tuple[str, ...]
    first_action: str
    link: str

    def as_dict(self) -> dict[str, object]:
        """Return the fields as plain values for JSON."""
        return {
            "title": self.title,
            "text": self.text,
            "severity": self.severity.value,
            "kind": self.kind.value,
            "run": self.run,
            "check": self.check,
            "name": self.name,
            "action": self.action.value,
            "verdict": self.verdict,
            "step": self.step,
            "since": self.since,
            "evidence": list(self.evidence),
            "first_action": self.first_action,
            "link": self.link,
        }


def message(latest: Transition, worst: Transition, *, changes: int = 1, left_out: int = 0, docs: str = "") -> Message:
    """Return the message about one check of one run.

    Args:
        latest: the newest change; the message says how things stand after it.
        worst: the most severe change since the last message, which may be the same.
        changes: changes since the last message; those between are counted, not told.
        left_out: changes of other checks that found no room and are told by number alone.
        docs: address under which docs/ can be read; "" for the path in the documentation.
    """
    over = latest.kind is Kind.CLOSED
    shown = worst if over else latest
    finding, run = shown.finding, safe(latest.run, words.MAX_NAME)
    evidence = tuple(evidence_line(e) for e in finding.evidence[:EVIDENCE_SHOWN])
    link = f"{docs.rstrip('/')}/{latest.page.removeprefix('docs/')}" if docs else latest.page
    since = str(finding.onset)
    first = "" if over else safe(latest.first_action, MAX_LINE)
    head = f"{latest.check} {latest.name}: {_word(latest)}"
    lines = [f"Run {run}: {head}, at step {latest.step}. Verdict now: {words.VERDICT_WORD[latest.verdict].lower()}."]
    lines.append(sentence(finding, latest.check))
    lines += [
        f"Since {since}" + (f" until step {latest.step}." if over else f", {finding.confidence.value} confidence.")
    ]
    lines += [f"Evidence: {line}." for line in evidence]
    if latest.cause and latest.cause != latest.check and not over:
        lines.append(f"Explained by {latest.cause}, which comes first.")
    if worst is not latest and not over and worst.action is not latest.action:
        lines.append(f"Between the messages it asked for: {words.ACTION_WORDS[worst.action]} (step {worst.step}).")
    if first:
        lines.append(f"First: {first}" + ("" if first.endswith((".", "?")) else "."))
    lines.append(f"More: {link} (rlvitals explain {latest.check}).")
    if changes > 1:
        lines.append(f"It changed {words.counted(changes, 'time')} since the last message.")
    if left_out:
        lines.append(f"Not told one by one: {words.counted(left_out, 'change')} of other checks.")
    severity = Severity.INFO if over else SEVERITY_OF.get(latest.action, Severity.INFO)
    title = safe(f"{head} ({latest.run})", MAX_TITLE)
    return Message(
        title, "\n".join(lines), severity, latest.kind, run, latest.check, latest.name, latest.action,
        latest.verdict.value, latest.step, since, evidence, first, link,
    )  # fmt: skip


def stop_message(request: StopRequest, run: str) -> Message:
    """Return the message that the trainer is asked to stop."""
    named = safe(run, words.MAX_NAME) or "this run"
    reason = safe(request.reason, MAX_LINE)
    lines = (
        f"Run {named}: the trainer is asked to stop at step {request.step}.",
        f"Rule: {request.rule}. {reason}" + ("" if reason.endswith(".") else "."),
        "First: read the diagnosis before you resume (rlvitals check on the run's log).",
    )
    title = safe(f"stop asked for: {request.rule} ({run})", MAX_TITLE)
    return Message(
        title, "\n".join(lines), Severity.CRITICAL, Kind.OPENED, named, "", request.rule, Action.STOP,
        Verdict.STOP.value, request.step, f"step {request.step}", (reason,), lines[2].removeprefix("First: "), "",
    )  # fmt: skip


def safe(text: str, most: int) -> str:
    """Return untrusted text on one line that no channel takes for markup, a mention or a link."""
    shown = _MENTION.sub(lambda m: m[0] + BREAK, words.clean(text).translate(_BRACKETS))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def sentence(finding: Finding, check: str) -> str:
    """Return what a finding says; the check's fault in general words where its sentence quotes a rollout."""
    excerpts = [words.clean(x.excerpt) for e in finding.evidence for x in e.examples]
    said = words.clean(finding.summary)
    if any(len(x) >= MIN_EXCERPT and (x in said or _shares(x, said)) for x in excerpts):
        said = next((c.fault for c in CHECKS if c.id == check), "A fault of the rollouts.")
    said = safe(said, MAX_LINE)
    return said if said.endswith((".", "?")) else said + "."


def evidence_line(e: Evidence) -> str:
    """Return what was observed in numbers: metric, from what to what, the limit with its source, the steps."""
    value = words.measure(e.observed, e.unit)
    if e.before is not None and words.in_own_unit(e):
        value = f"from {words.number(e.before)} to {value}"
    line = f"{safe(e.metric, words.MAX_NAME)} {value}"
    if e.threshold is not None:
        t = e.threshold
        compared = COMPARED.get(e.comparison, "")
        source = f"{t.source.value}: {safe(t.reference, MAX_LINE)}" if t.reference else t.source.value
        line += f", limit {compared} {words.measure(t.value, t.unit)} ({source})".replace("  ", " ")
    return f"{line}, {words.span(*e.steps)}"


def _shares(excerpt: str, text: str) -> bool:
    """True when a stretch of the excerpt that is no single word stands in the text."""
    size = 3 * MIN_EXCERPT
    return any(excerpt[i : i + size] in text for i in range(0, max(len(excerpt) - size, 0) + 1, MIN_EXCERPT))


def _word(found: Transition) -> str:
    now = words.ACTION_WORDS[found.action]
    if found.kind is Kind.CLOSED:
        return "over"
    if found.kind is Kind.OPENED or found.before is None:
        return now
    return f"{'worse' if found.kind is Kind.WORSENED else 'milder'}, {now}"
