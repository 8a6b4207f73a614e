"""Verdicts on public runs against their labels: python benchmarks/real_runs.py CORPUS_DIR [--json OUT].

The corpus (runs/ and LABELS.csv) is not part of the project. Prints one row per run and the agreement by confidence,
and writes benchmarks/results/real_runs.json: ids, verdicts and figures, nothing of the runs' content. Besides the
whole runs it scores prefixes of the healthy ones, and the runs of a repository without the checks whose limits were
chosen with that repository in view.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.corpus import ALARM, WELL, Answer, Label, Scored, read_labels, score, summary  # noqa: E402
from rlvitals import __version__  # noqa: E402
from rlvitals.check import Check  # noqa: E402
from rlvitals.checks import CHECKS  # noqa: E402
from rlvitals.conclude import diagnose  # noqa: E402
from rlvitals.errors import InputError, NotATrainingRun  # noqa: E402
from rlvitals.ingest import load  # noqa: E402
from rlvitals.schema import Run  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "real_runs.json"
PREFIXES = (0.25, 0.40, 0.55, 0.70, 0.85)  # share of the rows of a run

# Checks with a limit that rests on the runs of one repository, or two (docs/measurements.md: Real runs). Where other
# repositories or a simulation carry the limit as well, it would stand without the one, and the check is not here.
RESTS_ON: Mapping[str, tuple[str, ...]] = {
    "rasbt/reasoning-from-scratch": ("E002", "E003", "E004", "L002", "U010"),
    "Ning-Guo/hotpotqa-agent": ("K001",),
    "jorahn/rookworld-rlvr": ("U010",),
    "Sridhar1030/grpo-trainer": ("L003",),
}


def read(label: Label, corpus: Path) -> tuple[Run | None, str, str]:
    """Return the run, or None with the verdict and what was said instead."""
    try:
        return load(corpus / "runs" / label.file), "", ""
    except NotATrainingRun as error:
        return None, "refused", str(error).splitlines()[0]
    except InputError as error:
        return None, "unreadable", str(error).splitlines()[0]


def answer(run: Run, checks: tuple[Check, ...] = CHECKS) -> tuple[Answer, str]:
    """Return the verdict with the first cause, and the headline."""
    found = diagnose(run, checks)
    first = found.causes[0].id if found.causes else ""
    return Answer(found.verdict.value, first, (first,) if first else ()), found.headline


def prefixes(run: Run) -> dict[str, str]:
    """Return the verdict after each share of the rows."""
    out = {}
    for share in PREFIXES:
        rows = math.ceil(share * run.rows)
        out[f"{share:.0%}"] = answer(run.until(int(run.step[rows - 1])))[0].verdict if rows else "cannot_say"
    return out


def left_out(run: Run, label: Label) -> Answer | None:
    """Return the answer without the checks that rest on the run's own repository; None where there are none."""
    dropped = RESTS_ON.get(label.repo, ())
    return answer(run, tuple(c for c in CHECKS if c.id not in dropped))[0] if dropped else None


def report(scored: Scored, headline: str) -> str:
    """Return one printed line: X marks a disagreement; c and - a first cause that is right and wrong."""
    label, said = scored.label, scored.answer
    cause = {None: " ", True: "c", False: "-"}[scored.cause_right]
    return (
        f"{'  ' if scored.agrees else 'X '}{label.confidence:.2f} {label.id:24.24} {label.expected:16.16} "
        f"{said.verdict:10} {said.named:5}{cause} {';'.join(label.failures)[:48]:48} | {headline[:110]}"
    )


def counted(early: Sequence[dict[str, str]]) -> dict[str, dict[str, int]]:
    """Return how often each verdict was given, by the share of the rows."""
    return {f"{s:.0%}": dict(Counter(row[f"{s:.0%}"] for row in early)) for s in PREFIXES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    all_scored, without, early, lines = [], [], {}, []
    for label in read_labels(options.corpus):
        run, verdict, headline = read(label, options.corpus)
        said, other = Answer(verdict), None
        if run is not None:
            said, headline = answer(run)
            other = left_out(run, label)
            if label.expected in WELL:
                early[label.id] = prefixes(run)
        all_scored.append(score(label, said))
        without.append(score(label, other or said))
        lines.append((-label.confidence, label.id, report(all_scored[-1], headline)))
    print("\n".join(line for _, _, line in sorted(lines)))
    changed = [b.row() for a, b in zip(all_scored, without, strict=True) if a.answer != b.answer]
    alarms = {i: {k: v for k, v in row.items() if v in ALARM} for i, row in early.items()}
    accused = {i: row for i, row in alarms.items() if row}
    results = {
        "tool": f"rlvitals {__version__}",
        "summary": summary(all_scored),
        "leave_one_repository_out": {"summary": summary(without), "changed": changed},
        "prefixes_of_well_runs": {
            "verdicts": counted(list(early.values())),
            "accused": accused,
        },
        "runs": [s.row() for s in all_scored],
    }
    for key in ("summary", "leave_one_repository_out", "prefixes_of_well_runs"):
        print(key, results[key])
    options.json.write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
