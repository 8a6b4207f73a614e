"""False alarms and recall of the checks on rollouts: python -m benchmarks.rollout_checks [RUNS] [--first-seed N].

Simulates rollout sets (benchmarks/rollout_sets/), folds them with the facts that ship and looks with the engine as a
live monitor does. Healthy sets count every incident of a check; faulty ones count whether its incident opens after the
onset. Text facts run on a tenth of the sets. Writes benchmarks/results/rollout_checks.json.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import orjson

from benchmarks.rollout_sets.faults import FAULTS, Fault
from benchmarks.rollout_sets.healthy import Rollouts, healthy
from rlvitals.check import VERDICT_OF, Check, Clear, Fired, Verdict
from rlvitals.checks import CHECKS
from rlvitals.engine import Examination, Incident, run_engine
from rlvitals.metrics import lookup
from rlvitals.rollouts.facts import FACTS
from rlvitals.rollouts.fold import fold, whole_steps
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Float64, Run

RESULTS = Path(__file__).parent / "results" / "rollout_checks.json"
FIRST_SEED = 900_000  # of no limit that was chosen
JUDGED = tuple(c for c in CHECKS if c.id in FAULTS)
ALARM = (Verdict.ACT, Verdict.STOP)
BATCH = 20_000  # rows
STEPS = 90  # of a set
TEXT_SHARE = 10  # one set in this many has texts


def batches(r: Rollouts) -> Iterable[Batch]:
    """Yield the set in batches of whole steps."""
    parts = range(0, r.rows, BATCH)
    return whole_steps(
        Batch(min(BATCH, r.rows - a), {n: c[a : a + BATCH] for n, c in r.columns.items()}, "set", a) for a in parts
    )


def run_of(r: Rollouts) -> Run:
    """Return the run that a set makes: its facts as columns, and what no trainer logged filled in from them."""
    logged = r.config.pop("logged_zero_variance", None)
    texts = "completion" in r.columns
    folded = fold(batches(r), tuple(f for f in FACTS if texts or not f.reads_text))
    steps = np.arange(1, r.steps + 1)
    columns: dict[str, Float64] = {}
    for name, (at, values) in folded.series().items():
        column = np.full(r.steps, np.nan)
        column[np.searchsorted(steps, at)] = values
        columns[name] = column
        plain = name.removeprefix("rollouts/")
        if lookup(plain) is not None:
            columns[plain] = column
    if logged is not None:
        columns["zero_variance_frac"] = np.full(r.steps, float(logged))  # type: ignore[arg-type]
    return Run(name=str(r.seed), step=steps, columns=columns, config=r.run_config())


def looked(r: Rollouts, checks: tuple[Check, ...]) -> tuple[Examination, tuple[Incident, ...]]:
    """Return what the engine says at the end of a set, and every incident of it, open or closed."""
    engine = run_engine(run_of(r), checks)
    seen = engine.examine()
    incidents = {(i.check, i.onset): i for i in (*seen.incidents, *engine.open_incidents().values())}
    return seen, tuple(incidents.values())


def alarms(seeds: Iterable[int], *, texts: bool) -> dict[str, Counter[str]]:
    """Return per check: sets, those it could judge, those with an incident, and with one that asks for a move."""
    out = {c.id: Counter({"sets": 0, "judged": 0, "incident": 0, "act_or_stop": 0}) for c in JUDGED}
    for seed in seeds:
        seen, incidents = looked(healthy(seed, steps=STEPS, texts=texts), JUDGED)
        for c in JUDGED:
            found = [i for i in incidents if i.check == c.id]
            out[c.id]["sets"] += 1
            out[c.id]["judged"] += isinstance(seen.outcomes[c.id], Clear | Fired)
            out[c.id]["incident"] += bool(found)
            for i in found:
                print(f"    healthy set {seed}: {c.id} {i.onset}: {i.finding.summary}", flush=True)
            out[c.id]["act_or_stop"] += any(VERDICT_OF[i.finding.action] in ALARM for i in found)
    return out


def recall(check_id: str, fault: Fault, seeds: Iterable[int]) -> dict[str, object]:
    """Return how often the check finds the fault after its onset, names it and asks for a move."""
    check = next(c for c in JUDGED if c.id == check_id)
    count = Counter({"sets": 0, "found": 0, "named": 0, "act_or_stop": 0})
    for seed in seeds:
        r = healthy(seed, steps=STEPS, texts=fault.texts)
        fault.put(r)
        _, incidents = looked(r, (check,))
        found = [i for i in incidents if i.closed is None or i.closed >= r.onset]
        count["sets"] += 1
        count["found"] += bool(found)
        count["named"] += any(not fault.variant or i.finding.variant == fault.variant for i in found)
        count["act_or_stop"] += any(VERDICT_OF[i.finding.action] in ALARM for i in found)
    return {"fault": fault.words, **count}


def told(name: str, false: dict[str, int], rows: list[dict[str, object]]) -> None:
    """Print what was measured of one check."""
    moves = false.get("act_or_stop", 0)
    print(f"{name}: {false.get('incident', 0)} of {false['judged']} healthy sets, {moves} act or stop", flush=True)
    for row in rows:
        counts = f"found {row['found']}/{row['sets']}, named {row['named']}, act {row['act_or_stop']}"
        print(f"    {counts}: {row['fault']}", flush=True)


def main(runs: int, first: int, ids: list[str], out: Path | None) -> None:
    false = {n: dict(c) for n, c in alarms(range(first, first + runs), texts=False).items()}
    with_text = alarms(range(first + 500_000, first + 500_000 + runs // TEXT_SHARE), texts=True)
    for name, found in with_text.items():
        false[name] = dict(Counter(false[name]) + found)
    each = max(6, runs // 10)
    faults = {}
    for n, (name, effects) in enumerate((i, e) for i, e in FAULTS.items() if not ids or i in ids):
        begin = first + 100_000 + 1000 * n
        faults[name] = [
            recall(name, f, range(begin + 100 * k, begin + 100 * k + (each // 2 if f.texts else each)))
            for k, f in enumerate(effects)
        ]
        told(name, false[name], faults[name])
    if out is not None:
        result = {
            "date": datetime.now(UTC).date().isoformat(),
            "command": f"python -m benchmarks.rollout_checks {runs}",
            "first_seed": first,
            "healthy": false,
            "faults": faults,
        }
        out.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=200)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--dry", action="store_true", help="write no result")
    given = parser.parse_args()
    main(given.runs, given.first_seed, given.only, None if given.dry else RESULTS)
