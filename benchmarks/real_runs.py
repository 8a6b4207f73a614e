"""Verdicts on public runs against their labels: python benchmarks/real_runs.py CORPUS_DIR [--json OUT].

The corpus (runs/ and LABELS.csv) is not part of the project. Prints one row per run, the agreement by confidence, and
writes benchmarks/results/real_runs.json.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from rlvitals.check import Verdict
from rlvitals.conclude import diagnose
from rlvitals.errors import InputError, NotATrainingRun
from rlvitals.ingest import load

RESULTS = Path(__file__).parent / "results" / "real_runs.json"

EQUIVALENT: dict[str, tuple[str, ...]] = {
    "not_learning_flat": ("R010", "U008", "S005", "D007", "K002", "R014"),
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
ALARM, QUIET = ("stop", "act"), ("healthy", "watch")


@dataclass(frozen=True)
class Row:
    id: str
    repo: str
    expected: str
    confidence: float
    labels: str
    verdict: str
    first: str
    agrees: bool
    cause_right: bool | None  # None where no cause is expected
    headline: str
    seconds: float


def agrees(expected: str, verdict: str, first: str, primary: str) -> bool:
    """True when a verdict agrees with the label, by the table of the corpus' README."""
    if expected == "alarm":
        flat = primary == "not_learning_flat" and verdict == "watch" and first in EQUIVALENT["not_learning_flat"]
        return verdict in ALARM or flat
    if expected in ("note", "no_alarm_or_note", "no_alarm"):
        return verdict in QUIET
    return verdict == ("cannot_say" if expected == "abstain" else "refused")


def examine(label: dict[str, str], runs: Path) -> Row:
    """Diagnose one file of the corpus."""
    begin = time.perf_counter()
    first = headline = ""
    try:
        found = diagnose(load(runs / label["file"]))
        verdict, headline = found.verdict.value, found.headline
        first = found.causes[0].id if found.causes else ""
    except NotATrainingRun as error:
        verdict, headline = "refused", str(error).splitlines()[0]
    except InputError as error:
        verdict, headline = "unreadable", str(error).splitlines()[0]
    labels = label["labels"].split(";")
    known = {i for name in labels for i in EQUIVALENT.get(name, ())}
    right = (first in known) if label["expected"] == "alarm" and verdict in (*ALARM, Verdict.WATCH.value) else None
    return Row(
        label["id"], label["repo"], label["expected"], float(label["confidence"]), label["labels"], verdict, first,
        agrees(label["expected"], verdict, first, labels[0]), right, headline, round(time.perf_counter() - begin, 3),
    )  # fmt: skip


def summary(rows: list[Row]) -> dict[str, object]:
    """Return the figures that the README quotes."""
    out: dict[str, object] = {"runs": len(rows), "unreadable": sum(r.verdict == "unreadable" for r in rows)}
    for floor in (0.9, 0.75, 0.0):
        part = [r for r in rows if r.confidence >= floor]
        sick = [r for r in part if r.expected == "alarm"]
        well = [r for r in part if r.expected in ("no_alarm", "note", "no_alarm_or_note")]
        named = [r for r in sick if r.cause_right is not None]
        out[f"confidence>={floor}"] = {
            "runs": len(part),
            "agree": sum(r.agrees for r in part),
            "sick": len(sick),
            "sick_alarmed": sum(r.agrees for r in sick),
            "well": len(well),
            "well_alarmed": sum(not r.agrees for r in well),
            "cause_named": len(named),
            "cause_right": sum(bool(r.cause_right) for r in named),
        }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    with (options.corpus / "LABELS.csv").open(newline="") as file:
        labels = list(csv.DictReader(file))
    rows = [examine(label, options.corpus / "runs") for label in labels]
    for r in sorted(rows, key=lambda r: (-r.confidence, r.id)):
        mark = "  " if r.agrees else "X "
        cause = {None: " ", True: "c", False: "-"}[r.cause_right]
        print(
            f"{mark}{r.confidence:.2f} {r.id:24.24} {r.expected:16.16} {r.verdict:10} {r.first:5}{cause} "
            f"{r.labels[:48]:48} | {r.headline[:110]}"
        )
    figures = summary(rows)
    for key, value in figures.items():
        print(key, value)
    kept = [{k: v for k, v in asdict(r).items() if k != "seconds"} for r in rows]
    options.json.write_bytes(
        orjson.dumps({"summary": figures, "runs": kept}, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    )


if __name__ == "__main__":
    main()
