"""Other tools on the same public runs: python benchmarks/peers.py --setup, then python benchmarks/peers.py CORPUS_DIR.

`--setup` puts rldoctor into an environment of its own outside the repository. Each file of the corpus is given to its
command as it is; what it can't read counts as unreadable. The runbook's literal rules (rlvitals.runbook) see the runs
through rlvitals' own readers. Both are scored as benchmarks/real_runs.py scores rlvitals, and written to
benchmarks/results/peers.json: ids, verdicts and figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import orjson

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.corpus import Answer, Label, read_labels, score, summary  # noqa: E402
from rlvitals import runbook  # noqa: E402
from rlvitals.errors import InputError, NotATrainingRun  # noqa: E402
from rlvitals.ingest import load  # noqa: E402
from rlvitals.schema import Run  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "peers.json"
RLDOCTOR = "rldoctor==0.2.0"
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rlvitals-peers" / "rldoctor"
TIMEOUT = 120  # seconds for one file

# Severity of rldoctor's worst finding -> verdict. INFO is no alarm; it counts as "watch" so that its plateau at INFO
# has the benefit of the rule for flat runs. Detectors that it skipped give no finding, so a run of which it could see
# nothing counts as healthy, as its own headline says ("No problems found").
SEVERITY: Mapping[str, str] = {"CRITICAL": "act", "WARNING": "act", "INFO": "watch", "OK": "healthy"}

# What its detectors amount to, generously: any of these may be the right cause.
DETECTOR: Mapping[str, tuple[str, ...]] = {
    "advantage_collapse": ("S001", "T001", "R009"),
    "entropy_collapse": ("E001",),
    "reward_hacking": ("H001", "R003"),
    "length_pathology": ("L001", "L002", "L003", "L004"),
    "clip_saturation": ("U003",),
    "kl_drift": ("K001", "K004"),
    "gradient_pathology": ("U001", "U002", "D001"),
    "reward_composition": ("R003", "R004", "R012"),
    "plateau": ("R010",),
}

# The runbook's findings in the order in which it asks, and what they amount to. "reward_saturated" is no alarm.
RULE: Mapping[str, tuple[str, ...]] = {
    "zero_variance_groups": ("S001", "T001"),
    "entropy_collapsed": ("E001",),
    "entropy_near_random": ("E003", "E002"),
    "entropy_rising": ("E004", "E002"),
    "kl_blowup": ("K001", "K004"),
}
WINDOW = 50  # rows: the last ones, whose means the runbook's rules see
TREND = 10  # rows: the runbook leaves open over which its trend is taken; as in benchmarks/course_limits.py
# What fires no rule, for what a run doesn't log
NEUTRAL = {"reward_mean": 0.5, "advantage_std": 1.0, "entropy": 1.0, "entropy_trend": 0.0, "kl": 0.0, "vocab_size": 1e9}


def setup() -> None:
    """Make the environment and install rldoctor. Raises CalledProcessError when pip fails."""
    venv.create(HOME, with_pip=True, clear=True)
    subprocess.run([str(HOME / "bin" / "python"), "-m", "pip", "install", "--quiet", RLDOCTOR], check=True)
    print(f"{rldoctor_version()} is in {HOME}")


def rldoctor_version() -> str:
    """Return its name and version. Raises FileNotFoundError before `--setup`."""
    command = HOME / "bin" / "rldoctor"
    if not command.exists():
        raise FileNotFoundError(f"{command} is missing; run: python benchmarks/peers.py --setup")
    done = subprocess.run([str(command), "--version"], check=True, capture_output=True, text=True)
    return f"rldoctor {done.stdout.split()[-1]}"


def rldoctor(path: Path) -> Answer:
    """Return what rldoctor's command says of a file."""
    command = [str(HOME / "bin" / "rldoctor"), "diagnose", str(path), "--format", "json"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return Answer("unreadable")
    return from_rldoctor(done.stdout) if done.returncode == 0 else Answer("unreadable")


def from_rldoctor(report: bytes) -> Answer:
    """Return the verdict and the first finding of a JSON report, in the report's own order."""
    # json and not orjson: the report may say NaN, which is no JSON
    findings = [f for f in json.loads(report)["findings"] if f["severity"] in SEVERITY]
    worst = next((s for s in SEVERITY if any(f["severity"] == s for f in findings)), "OK")
    first = next((f["detector"] for f in findings if f["severity"] == worst), "") if worst != "OK" else ""
    return Answer(SEVERITY[worst], first, DETECTOR.get(first, ()))


def literals(run: Run) -> Answer:
    """Return what the runbook's rules say of the last rows' means; what is not logged fires no rule."""
    given = dict(NEUTRAL)
    for name, metric in (
        ("reward_mean", "reward_mean"), ("advantage_std", "advantage_std"), ("entropy", "entropy"), ("kl", "kl_ref"),
    ):  # fmt: skip
        values = run.values(metric)
        values = values[np.isfinite(values)][-WINDOW:]
        if values.size:
            given[name] = float(values.mean())
        if name == "entropy" and values.size >= 2 * TREND:
            given["entropy_trend"] = float(values[-TREND:].mean() - values[-2 * TREND : -TREND].mean())
    if run.config.vocab_size:
        given["vocab_size"] = float(run.config.vocab_size)
    found = runbook.diagnose(**given)
    first = next((name for name in RULE if name in found), "")
    return Answer("act", first, RULE[first]) if first else Answer("healthy")


def by_runbook(label: Label, corpus: Path) -> Answer:
    """Return what the runbook's rules say of a file that rlvitals reads."""
    try:
        return literals(load(corpus / "runs" / label.file))
    except NotATrainingRun:
        return Answer("refused")
    except InputError:
        return Answer("unreadable")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--setup", action="store_true", help=f"install {RLDOCTOR} in {HOME}")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.setup:
        setup()
    if options.corpus is None:
        return
    labels = read_labels(options.corpus)
    results = {
        "runbook literals": [score(label, by_runbook(label, options.corpus)) for label in labels],
        rldoctor_version(): [score(label, rldoctor(options.corpus / "runs" / label.file)) for label in labels],
    }
    out = [
        {"tool": tool, "summary": summary(scored), "runs": [s.row() for s in scored]}
        for tool, scored in results.items()
    ]
    for made in out:
        print(made["tool"], made["summary"])
    options.json.write_bytes(orjson.dumps(out, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
