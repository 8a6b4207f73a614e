"""Power of every check on step logs at the smallest effect that it claims: python -m benchmarks.power [RUNS] [ID ...].

The effect is put into simulated healthy runs (benchmarks/simulate.py: autocorrelated noise and learning transients
stay) and the engine looks with that one check as a live monitor does. Writes benchmarks/results/power.json; with ids,
only their entries. The checks of the config (C) are left out: they compare settings with each other, without noise.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import orjson

from benchmarks.effects.draft import Draft, NoRoom, draft
from benchmarks.effects.table import EFFECTS
from benchmarks.simulate import healthy, specs
from rlvitals.check import VERDICT_OF, Check, Clear, Fired, Verdict
from rlvitals.checks import CHECKS
from rlvitals.engine import Engine, next_look, run_engine
from rlvitals.schema import UNKNOWN_TRAINER

RESULTS = Path(__file__).parent / "results" / "power.json"
COMMAND = "python -m benchmarks.power"
JUDGED_RUNS = 70  # every course in every layout twice
FIRST_SEED = 40_000  # of no threshold and no other measurement
ALARM = (Verdict.ACT, Verdict.STOP)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a check said of one run.

    Attributes:
        early: it fired at a look before the onset; open_then: and still did at the last one of them.
        delay: steps from the onset to the first look at which it fired.
        acted: it asked for act or stop.
    """

    early: bool
    open_then: bool
    delay: int | None = None
    acted: bool = False


def look(check: Check, d: Draft) -> Seen:
    """Look at a draft as a live monitor does, until the check asks for a move."""
    engine = Engine((check,), config=d.config, trainer=UNKNOWN_TRAINER)
    engine.segments, engine.events = d.segments, d.events
    names, values = tuple(d.columns), np.stack(list(d.columns.values()))
    pending = sorted((int(s), n, i) for n, held in d.evals.items() for i, s in enumerate(held.step))
    early, open_then, delay = False, False, None
    done, rows = 0, int(d.step.size)
    while (upto := next_look(done)) <= rows:
        engine.feed(d.step[done:upto], names, values[:, done:upto])
        while pending and pending[0][0] <= int(d.step[upto - 1]):
            _, name, i = pending.pop(0)
            held = d.evals[name]
            engine.add_eval(
                name, int(held.step[i]), float(held.score[i]), float(held.stderr[i]), held.items, held.metric
            )
        engine.look()
        done = upto
        incident = engine.open_incidents().get(check.id)
        if upto <= d.at:
            open_then = incident is not None
            early |= open_then
        elif open_then:
            return Seen(early, open_then)
        elif incident is not None:
            delay = int(d.step[upto - 1] - d.step[d.at]) if delay is None else delay
            if VERDICT_OF[incident.finding.action] in ALARM:
                return Seen(early, open_then, delay, acted=True)
    return Seen(early, open_then, delay)


def summary(seen: list[Seen]) -> dict[str, object]:
    """Return the counts; power is over the runs in which the check was quiet at the onset."""
    quiet = [s for s in seen if not s.open_then]
    delays = [s.delay for s in quiet if s.delay is not None]
    return {
        "runs": len(seen),
        "quiet_at_onset": len(quiet),
        "found": len(delays),
        "act_or_stop": sum(s.acted for s in quiet),
        "fired_before": sum(s.early for s in seen),
        "median_delay_steps": float(np.median(delays)) if delays else None,
    }


def measure(runs: int, ids: list[str]) -> dict[str, list[dict[str, object]]]:
    """Return per check, per effect: its words and what was seen on `runs` runs, half as many for a larger effect."""
    by_id = {c.id: c for c in CHECKS}
    seen: dict[tuple[str, int], list[Seen]] = {(i, k): [] for i in ids for k in range(len(EFFECTS[i]))}
    for n, spec in enumerate(specs(runs, first_seed=FIRST_SEED)):
        base = draft(spec)
        for (check_id, k), found in seen.items():
            if k and 2 * n >= runs:
                continue
            d = base.copy(k)
            try:
                EFFECTS[check_id][k].put(d)
            except NoRoom:
                continue
            found.append(look(by_id[check_id], d))
    return {i: [{"effect": e.words} | summary(seen[i, k]) for k, e in enumerate(EFFECTS[i])] for i in ids}


def judged(ids: list[str]) -> dict[str, int]:
    """Return in how many of JUDGED_RUNS healthy runs, of all layouts, each check had what it needs to answer."""
    counts = dict.fromkeys(ids, 0)
    for spec in specs(JUDGED_RUNS, first_seed=FIRST_SEED):
        outcomes = run_engine(healthy(spec), CHECKS).examine().outcomes
        for check_id in ids:
            counts[check_id] += isinstance(outcomes[check_id], Clear | Fired)
    return counts


def main(runs: int, ids: list[str]) -> None:
    checks = measure(runs, ids or list(EFFECTS))
    old = orjson.loads(RESULTS.read_bytes())["checks"] if ids and RESULTS.is_file() else {}
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": f"{COMMAND} {runs}",
        "first_seed": FIRST_SEED,
        "checks": old | checks,
        "judged_of": JUDGED_RUNS,
        "judged": judged([c.id for c in CHECKS]),
    }
    RESULTS.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    for check_id, rows in checks.items():
        for r in rows:
            print(
                f"{check_id} found {r['found']}/{r['quiet_at_onset']}, act {r['act_or_stop']}, before "
                f"{r['fired_before']}/{r['runs']}, delay {r['median_delay_steps']}: {r['effect']}",
                flush=True,
            )


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, sys.argv[2:])
