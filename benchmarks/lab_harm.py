"""Harm of every fault, measured on building seeds: python benchmarks/lab_harm.py FOLDER [FOLDER ...].

Each FOLDER is what `rlvitals lab run` filled. For every fault and strength the score at the end (mean of the last three
held-out evaluations) is set against that of the control of the same seed; where nothing held out was evaluated, the
reward of the last 30 steps is, which is true wherever that happens in the lab. The rule is `lab.damage.harm_by`.
`benchmarks/results/lab_harm.json` holds a line per strength; tests/lab/test_harm.py holds the labels against it.
Runs with other settings (another task, another model) are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from rlvitals.lab.damage import end_of, harm_by, mean_of  # noqa: E402
from rlvitals.lab.run import RUN, read_results  # noqa: E402

OUT = ROOT / "benchmarks" / "results" / "lab_harm.json"
LAST_STEPS = 30  # whose rewards are the score where nothing was held out (convention)
HELD_OUT, REWARD = "held-out", "reward"

Runs = Mapping[str, tuple[Path, Mapping[str, Any]]]
"""Case -> its folder and its result."""


def table(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return a row per fault and strength: how far below the controls, at what price in tokens, and the harm."""
    runs = {str(r["case"]): (f / str(r["case"]), r) for f in folders for r in read_results(f) if not r.get("more")}
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case, (_, result) in runs.items():
        if result["strength"] is not None and result.get("against") in runs:
            groups[str(result["subject"]), str(result["strength"])].append(case)
    return [_row(fault, strength, groups[fault, strength], runs) for fault, strength in sorted(groups)]


def _row(fault: str, strength: str, cases: Sequence[str], runs: Runs) -> dict[str, Any]:
    ordered = sorted(cases, key=lambda c: runs[c][1]["seed"])
    own = [runs[c] for c in ordered]
    beside = [runs[str(r["against"])] for _, r in own]
    held = all(r["held_out"] for _, r in own)
    ends = [_end(folder, r, held) for folder, r in own]
    controls = [_end(folder, r, held) for folder, r in beside]
    lower = [c - e for e, c in zip(ends, controls, strict=True)]
    stopped = any(r["crash"] or "non-finite" in r["ended"] for _, r in own)
    mean, error = mean_of(lower)
    tokens = [_mean(f, "length_mean") / _mean(g, "length_mean") for (f, _), (g, _) in zip(own, beside, strict=True)]
    return {
        "fault": fault, "strength": strength, "measure": HELD_OUT if held else REWARD,
        "seeds": [r["seed"] for _, r in own], "end": _short(mean_of(ends)[0]), "control": _short(mean_of(controls)[0]),
        "lower": _short(mean), "error": _short(error), "least": _short(min(lower)), "most": _short(max(lower)),
        "tokens": round(mean_of(tokens)[0], 2), "stopped": stopped, "harm": harm_by(lower, stopped=stopped).value,
    }  # fmt: skip


def _end(folder: Path, result: Mapping[str, Any], held: bool) -> float:
    if held:
        return end_of(result["held_out"])
    return _mean(folder, "reward_mean", since=int(result["steps"]) - LAST_STEPS)


def _mean(folder: Path, metric: str, since: int = 0) -> float:
    """Return the mean of a metric over the rows after a step, NaN without any."""
    rows = [json.loads(line) for line in (folder / RUN / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    found = [float(r[metric]) for r in rows if r["step"] > since and r.get(metric) is not None]
    return math.fsum(found) / len(found) if found else math.nan


def _short(value: float) -> float:
    return round(value, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--date", default="", help="of the measurement, kept in the file")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    rows = table(options.folders)
    lines = ",\n".join(json.dumps(r) for r in rows)
    made = json.dumps({"date": options.date, "seeds": sorted({s for r in rows for s in r["seeds"]})})
    text = f'{{"made": {made},\n"rows": [\n{lines}\n]}}\n'
    options.out.write_text(text, encoding="utf-8")
    print(f"{len(rows)} strengths: {options.out}")


if __name__ == "__main__":
    main()
