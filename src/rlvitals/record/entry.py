"""One entry of the run record: the finding, the fix that was applied, where it was resumed, and how it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from rlvitals.diagnosis import Diagnosis
from rlvitals.schema import RunConfig

MAX_TEXT = 2_000  # characters of a text that a record keeps (convention)


class Outcome(StrEnum):
    """How a fix went, as `rlvitals verify` or the user says."""

    OPEN = "open"
    FIXED = "fixed"
    NOT_FIXED = "not fixed"
    TOO_EARLY = "too early"
    WORSE = "something else became worse"


@dataclass(frozen=True, slots=True)
class Fix:
    """What was changed: a setting from one value to another, or a text."""

    knob: str = ""
    before: str = ""
    after: str = ""
    text: str = ""

    def __str__(self) -> str:
        change = f"{self.knob}: {self.before or '?'} -> {self.after}" if self.knob else ""
        return "; ".join(part for part in (change, self.text) if part)


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded finding.

    Attributes:
        when: UTC, ISO 8601.
        task, model: what the run trained on; the key under which the next run finds the lesson.
        evidence: sentences with value, unit and limit; no rollout text.
        versions: environment, reward, sampler-config hash, code commit, trainer ... as far as known.
        checkpoint: "step N: path" to resume from, "" where none is named.
        id: number in its record, 0 before it is stored.
    """

    when: str
    run: str
    task: str
    model: str
    trainer: str
    verdict: str
    check: str
    finding: str
    headline: str
    onset: str
    steps: int
    evidence: tuple[str, ...] = ()
    fix: Fix = Fix()
    checkpoint: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    outcome: Outcome = Outcome.OPEN
    id: int = 0


@dataclass(frozen=True, slots=True)
class Entries:
    """Recorded entries, oldest first."""

    entries: tuple[Entry, ...]


def entry_of(diagnosis: Diagnosis, task: str, fix: Fix = Fix(), checkpoint: str = "") -> Entry:
    """Return the entry of a diagnosis: its first cause, or "healthy" where nothing was found."""
    run, cause = diagnosis.run, next(iter(diagnosis.causes), None)
    config = run.config if run is not None else RunConfig()
    target = diagnosis.rollback
    where = f"step {target.step}: {target.path}" if target.path else f"step {target.step}" if target.step else ""
    version = f" {run.trainer.version}" if run is not None and run.trainer.version else ""
    return Entry(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        run=diagnosis.name[:MAX_TEXT],
        task=task[:MAX_TEXT],
        model=(config.model or "")[:MAX_TEXT],
        trainer=diagnosis.trainer + version,
        verdict=diagnosis.verdict.value,
        check=cause.id if cause is not None else "",
        finding=cause.name if cause is not None else "",
        headline=diagnosis.headline[:MAX_TEXT],
        onset=str(cause.onset) if cause is not None else "",
        steps=diagnosis.position.last_step,
        evidence=tuple(e.text[:MAX_TEXT] for e in cause.finding.evidence) if cause is not None else (),
        fix=fix,
        checkpoint=checkpoint or where,
        versions={str(k)[:200]: str(v)[:200] for k, v in config.versions.items()},
    )
