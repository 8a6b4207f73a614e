"""A corpus of public runs with labels, and the rules by which a verdict on one of them is scored.

The corpus (runs/ and LABELS.csv) is not part of the project: what is written here names ids and figures, no content.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CONFIDENCES = (0.9, 0.75, 0.0)  # of a label, at least: the floors at which agreement is counted
ALARM, QUIET = ("stop", "act"), ("healthy", "watch")
WELL = ("no_alarm", "note", "no_alarm_or_note")
FLAT = "not_learning_flat"

# Label -> the checks that name the same cause, or one upstream of it
EQUIVALENT: Mapping[str, tuple[str, ...]] = {
    FLAT: ("R010", "U008", "S005", "D007", "K002", "R014"),
    "advantage_bug": ("S002", "S003", "S004"),
    "base_policy_zero_success": ("T001", "S001", "R013"),
    "zero_variance_groups": ("S001", "R009", "T002", "T001"),
    "truncation_high": ("L001", "L004", "L002", "L005"),
    "length_explosion": ("L002", "L004", "L001"),
    "length_runaway": ("L002", "L004", "L001"),
    "length_collapse/aversion": ("L003",),
    "length_collapse": ("L003",),
    "constant_reward/verifier_default": ("R001", "R006", "R012", "R007"),
    "parse_failure/format-only reward": ("R003", "R004", "R005", "R012"),
    "parse_failure/format-only": ("R003", "R004", "R005", "R012"),
    "format_exploit": ("R003", "R004", "R005", "R012"),
    "reward_hacking": ("H001", "R003", "R005", "R012"),
    "kl_blowup": ("K001", "K003", "K004"),
    "grad_norm_spike/NaN": ("U002", "D001", "U010"),
    "reward_collapse": ("R002", "R014"),
    "kl_pinned": ("K002", "R010"),
    "entropy_runaway": ("E002", "E003"),
    "entropy_rising/near_random": ("E002", "E003", "E004"),
    "entropy_rising": ("E002", "E004"),
    "entropy_collapsed": ("E001",),
    "heldout_regression": ("H001", "H002"),
    "reward_saturated/task_solved": ("R009", "T002", "R007"),
    "reward_saturated": ("R009", "T002", "R007"),
    "stale_rollouts/mismatch": ("Y001", "Y002", "Y003", "K003"),
}


@dataclass(frozen=True)
class Label:
    """What a run is held to be: the verdict expected, and the failures, the first one primary."""

    id: str
    file: str
    repo: str
    expected: str
    confidence: float
    failures: tuple[str, ...]

    @property
    def causes(self) -> frozenset[str]:
        """The checks that name one of the failures."""
        return frozenset(i for name in self.failures for i in EQUIVALENT.get(name, ()))


@dataclass(frozen=True)
class Answer:
    """What a tool says of a run.

    Attributes:
        verdict: healthy, watch, act, stop, cannot_say, refused or unreadable.
        named: the cause that it names first, in its own words; empty where it names none.
        means: the checks of rlvitals that `named` amounts to; any of them may be the right one.
    """

    verdict: str
    named: str = ""
    means: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    """One answer held against its label; `cause_right` is None where no cause is expected or none was named."""

    label: Label
    answer: Answer
    agrees: bool
    cause_right: bool | None

    def row(self) -> dict[str, object]:
        """Return what is kept of it: ids, verdicts, figures."""
        return {
            "id": self.label.id,
            "expected": self.label.expected,
            "confidence": self.label.confidence,
            "label": self.label.failures[0],
            "verdict": self.answer.verdict,
            "named": self.answer.named,
            "agrees": self.agrees,
            "cause_right": self.cause_right,
        }


def read_labels(corpus: Path) -> list[Label]:
    """Return the labels of a corpus in file order. Raises OSError without LABELS.csv, KeyError without a column."""
    with (corpus / "LABELS.csv").open(newline="", encoding="utf-8") as file:
        return [
            Label(r["id"], r["file"], r["repo"], r["expected"], float(r["confidence"]), tuple(r["labels"].split(";")))
            for r in csv.DictReader(file)
        ]


def score(label: Label, answer: Answer) -> Scored:
    """Hold an answer against its label, by the table that comes with the corpus."""
    verdict = answer.verdict
    if label.expected == "alarm":
        # "No learning so far" is a matter to watch: for a flat run it says what the label says.
        flat = label.failures[0] == FLAT and verdict == "watch" and bool(set(answer.means) & set(EQUIVALENT[FLAT]))
        agrees = verdict in ALARM or flat
    elif label.expected in WELL:
        agrees = verdict in QUIET
    else:
        agrees = verdict == ("cannot_say" if label.expected == "abstain" else "refused")
    asked = label.expected == "alarm" and verdict in (*ALARM, "watch") and answer.named != ""
    return Scored(label, answer, agrees, bool(label.causes & set(answer.means)) if asked else None)


def figures(scored: Sequence[Scored]) -> dict[str, int]:
    """Return the counts over some runs; an unreadable run is neither caught nor accused.

    `cause_right` accepts each failure of a label, `cause_primary` the first one alone.
    """
    sick = [s for s in scored if s.label.expected == "alarm"]
    well = [s for s in scored if s.label.expected in WELL]
    named = [s for s in sick if s.cause_right is not None]
    return {
        "runs": len(scored),
        "read": _read(scored),
        "agree": sum(s.agrees for s in scored),
        "sick": len(sick),
        "sick_read": _read(sick),
        "sick_caught": sum(s.agrees for s in sick),
        "sick_caught_as_watch": sum(s.agrees and s.answer.verdict == "watch" for s in sick),
        "well": len(well),
        "well_read": _read(well),
        "well_accused": sum(s.answer.verdict in ALARM for s in well),
        "cause_named": len(named),
        "cause_right": sum(bool(s.cause_right) for s in named),
        "cause_primary": sum(bool(set(EQUIVALENT[s.label.failures[0]]) & set(s.answer.means)) for s in named),
    }


def summary(scored: Sequence[Scored]) -> dict[str, dict[str, int]]:
    """Return the counts by the least confidence of the label."""
    return {str(floor): figures([s for s in scored if s.label.confidence >= floor]) for floor in CONFIDENCES}


def _read(scored: Sequence[Scored]) -> int:
    return sum(s.answer.verdict != "unreadable" for s in scored)
