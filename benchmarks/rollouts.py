"""Speed and memory of the rollout facts on a million rollouts, as parquet and as JSON lines.

    python benchmarks/rollouts.py [--rows 1000000] [--folder DIR] [--full] [--engine local|ray]

Writes the dumps once (about 3 GB as JSON lines), then times in a process of its own each: a bare duckdb scan of the
columns that the numeric facts read, the numeric facts on every rollout, the text facts on the sample, and with --full
the text facts on every rollout. Limits (30 s from parquet, 60 s from JSON lines, 3 GB) hold for 1,000,000 rollouts on
two cores. Prints one line each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rlvitals.rollouts import counting
from rlvitals.rollouts.dump import Rollouts, open_rollouts
from rlvitals.rollouts.facts import FACTS
from rlvitals.rollouts.fold import columns_read, fold
from rlvitals.rollouts.readers import sql

SEED = 20261129
GROUP = 8
PER_STEP = 1024
WORDS = 2_600  # characters of a completion, on average


def make(folder: Path, rows: int) -> None:
    """Write rollouts.parquet and rollouts.jsonl: groups of 8, four families, two components, lengths that grow."""
    folder.mkdir(parents=True, exist_ok=True)
    connection = sql.connect()
    connection.execute(f"SELECT setseed({SEED % 1000 / 1000})")
    connection.execute(
        """CREATE TABLE pool AS SELECT string_agg(md5(i::VARCHAR)[1:5], ' ') AS text FROM range(40000) t(i)"""
    )
    select = f"""
        SELECT i // {PER_STEP} AS step, ((i % {PER_STEP}) // {GROUP})::VARCHAR AS "group", i % {GROUP} AS "index",
               'p' || (i // {GROUP} % 5000) AS prompt_id,
               ['math', 'code', 'logic', 'format'][i // {GROUP} % 4 + 1] AS family,
               (i // {GROUP} % 3)::VARCHAR AS tier, 'Question ' || (i // {GROUP}) AS prompt,
               substr(pool.text, spot::BIGINT, length) || '<answer>' || (i % 97) || '</answer>' AS completion,
               (i % 97)::VARCHAR AS gold,
               (CASE WHEN solved THEN i % 97 ELSE i % 89 END)::VARCHAR AS parsed,
               solved::DOUBLE AS correct, solved::DOUBLE + 0.1 * said AS reward,
               solved::DOUBLE AS "reward_part/correct",
               said AS "reward_part/format", (CASE WHEN solved THEN 0.8 ELSE -0.8 END) AS advantage,
               length // 4 AS tokens, 40 AS prompt_tokens,
               (CASE WHEN length > 5000 THEN 'budget' ELSE 'eos' END) AS stop_reason,
               i // {PER_STEP} AS policy_version, i // {PER_STEP} AS trainer_version,
               -0.5 * length / 4 AS sampler_logp_sum, -0.5 * length / 4 - 0.1 AS trainer_logp_sum,
               0.01 AS mismatch_abs_mean, 0.0004 AS mismatch_k3_mean, 0.3 AS mismatch_abs_max, 0.6 AS entropy_mean,
               1.0 AS temperature, 1.0 AS top_p, 2048 AS token_budget,
               'env-1' AS env_version, 'reward-1' AS reward_version, 'sampler-1' AS sampler_version
        FROM (SELECT i, hash(i, 1) % 230000 AS spot, (200 + 5600 * ((hash(i, 2) % 10000) / 10000.0) *
                     (0.7 + 0.3 * i / {rows}))::BIGINT * {WORDS} // 2600 AS length,
                     (hash(i, 3) % 1000) / 1000.0 < 0.3 + 0.4 * i / {rows} AS solved,
                     ((hash(i, 4) % 10) > 1)::DOUBLE AS said
              FROM range({rows}) t(i)), pool"""
    connection.execute(f"CREATE TABLE made AS {select}") if rows <= 50_000 else None
    source = "made" if rows <= 50_000 else f"({select})"
    for name, how in (("rollouts.parquet", "FORMAT parquet, COMPRESSION zstd"), ("rollouts.jsonl", "FORMAT json")):
        connection.execute(f"COPY (SELECT * FROM {source}) TO {sql.literal(str(folder / name))} ({how})")
    connection.close()


def _numeric(rollouts: Rollouts) -> int:
    facts = [f for f in FACTS if not f.reads_text]
    return fold(rollouts.scan(("step", "group", "index", *columns_read(facts))), facts).rollouts


def _everything(rollouts: Rollouts) -> int:
    return counting.count(rollouts)[0].rollouts


def _full(rollouts: Rollouts) -> int:
    facts = [f for f in FACTS if f.reads_text]
    return counting.count(rollouts, facts, text_sample=None)[0].rollouts


def _bare(rollouts: Rollouts) -> int:
    """Let duckdb read the same columns and add the numbers up: the floor of what a reader could take."""
    facts = [f for f in FACTS if not f.reads_text]
    path = rollouts.files[0]
    connection = sql.connect()
    names = [n for n in columns_read(facts) if not n.endswith("/*")]
    source = sql.source_of((path,), names)
    there = [str(row[0]) for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
    sums = ", ".join(f"sum(try_cast({sql.quoted(n)} AS DOUBLE))" for n in there if n in names)
    connection.execute(f"SELECT {sums} FROM {source}").fetchall()
    return 0


MEASURED: dict[str, Callable[[Rollouts], int]] = {
    "bare scan": _bare,
    "numeric facts": _numeric,
    "all facts, text sampled": _everything,
    "text facts in full": _full,
}


def measure(path: Path, what: str) -> dict[str, float]:
    """Run one measurement in this process: seconds, peak memory in MB and rollouts."""
    begin = time.perf_counter()
    rows = MEASURED[what](open_rollouts(path))
    seconds = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": seconds,
        "cpu": used.ru_utime + used.ru_stime,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "rollouts": rows,
    }


def _apart(path: Path, what: str) -> dict[str, float]:
    """Run one measurement in a process of its own, so that its memory is its own."""
    command = [sys.executable, __file__, "--measure", what, "--path", str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--measure", choices=tuple(MEASURED))
    parser.add_argument("--path", type=Path)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.path, args.measure)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        if not (folder / "rollouts.jsonl").exists():
            make(folder, args.rows)
        for name in ("rollouts.parquet", "rollouts.jsonl"):
            path = folder / name
            print(f"{name}: {path.stat().st_size / 1e9:.2f} GB")
            scan = _apart(path, "bare scan")
            bare = scan["seconds"]
            print(f"  bare scan of the numeric columns: {bare:.2f} s ({scan['cpu']:.1f} s of CPU)")
            for what in list(MEASURED)[1 : 4 if args.full else 3]:
                m = _apart(path, what)
                cost = f"{m['seconds']:.1f} s ({m['cpu']:.1f} s of CPU), {m['peak_mb']:,.0f} MB"
                times = f"{m['seconds'] / bare:.0f} times the bare scan"
                print(f"  {what}: {cost}, {m['rollouts']:,.0f} rollouts, {times}", flush=True)
        if args.engine == "ray":
            from rlvitals.rollouts.cluster import count as spread

            begin = time.perf_counter()
            folded, _ = spread(open_rollouts(folder / "rollouts.parquet"))
            print(f"ray: {time.perf_counter() - begin:.1f} s, {folded.rollouts:,} rollouts")


if __name__ == "__main__":
    main()
