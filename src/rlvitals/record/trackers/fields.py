"""An entry as flat fields, as trackers keep them."""

from __future__ import annotations

from rlvitals.record.entry import Entry

PREFIX = "rlvitals"


def flat(entry: Entry) -> dict[str, str]:
    """Return field -> text, without the ones that are empty."""
    found = {
        "verdict": entry.verdict,
        "finding": f"{entry.check} {entry.finding}".strip(),
        "since": entry.onset,
        "evidence": "; ".join(entry.evidence),
        "fix": str(entry.fix),
        "checkpoint": entry.checkpoint,
        "outcome": entry.outcome.value,
        "recorded": entry.when,
        **{f"version.{name}": value for name, value in entry.versions.items()},
    }
    return {name: value for name, value in found.items() if value}
