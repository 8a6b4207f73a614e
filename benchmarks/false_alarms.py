"""False alarms on simulated healthy runs, looked at as a live monitor looks: python benchmarks/false_alarms.py [RUNS].

Prints, per check, how many runs it raised to act or stop at any look, and the total per 10,000 steps; writes
benchmarks/results/false_alarms.json.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import orjson

from benchmarks.simulate import COURSES, LAYOUTS, Spec, healthy, specs
from rlvitals.check import VERDICT_OF, Verdict
from rlvitals.checks import CHECKS
from rlvitals.engine import run_engine

RESULTS = Path(__file__).parent / "results" / "false_alarms.json"
ALARM = (Verdict.ACT, Verdict.STOP)


def alarms(spec: Spec) -> tuple[int, Counter[str], Counter[str], list[str]]:
    """Return (steps, alarms by check, checks that said watch, examples) of one healthy run."""
    run = healthy(spec)
    engine = run_engine(run, CHECKS)
    examination = engine.examine()
    open_now = engine.open_incidents().values()
    acts: Counter[str] = Counter()
    watches: Counter[str] = Counter()
    examples = []
    for incident in (*examination.incidents, *open_now):
        if VERDICT_OF[incident.finding.action] in ALARM:
            acts[incident.check] += 1
            examples.append(f"{run.name} {spec.course}/{spec.layout} {incident.check} {incident.finding.summary}")
        elif VERDICT_OF[incident.finding.action] is Verdict.WATCH:
            watches[incident.check] += 1
    return int(run.step[-1] - run.step[0] + 1), acts, watches, examples


def main(count: int, first_seed: int) -> None:
    steps, by_check, watch_runs, alarmed = 0, Counter[str](), Counter[str](), 0
    courses: Counter[str] = Counter()
    for spec in specs(count, first_seed=first_seed):
        n, acts, watches, examples = alarms(spec)
        steps += n
        by_check += acts
        watch_runs.update(watches.keys())
        alarmed += bool(acts)
        if acts:
            courses[f"{spec.course}/{spec.layout}"] += 1
        for line in examples[:2]:
            print(line)
    total = sum(by_check.values())
    print(f"{count} healthy runs, {steps} steps: {total} alarms = {1e4 * total / steps:.2f} per 10,000 steps;")
    print(f"{alarmed} runs alarmed; by check {dict(by_check.most_common())}; where {dict(courses.most_common())}")
    print(f"runs with a watch, by check: {dict(watch_runs.most_common())}")
    RESULTS.write_bytes(
        orjson.dumps(
            {
                "runs": count, "first_seed": first_seed, "steps": steps, "alarms": total, "alarmed_runs": alarmed,
                "per_10k_steps": round(1e4 * total / steps, 4), "by_check": dict(by_check),
                "watch_runs": dict(watch_runs), "courses": list(COURSES), "layouts": list(LAYOUTS),
            },
            option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS,
        )
    )  # fmt: skip


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
