"""The experiments of chapter 7: python -m benchmarks.chapter7 [--work DIR] [--seeds 0 1 2 3 4] [--only ARM ...]

Runs what has no result yet, one run after the other on one thread, then writes benchmarks/results/chapter7.json and one
log per arm under examples/chapter7/. A run that was stopped half way is made anew. All of it takes some 25 CPU minutes.
`--summary` runs nothing and writes what there is. docs/chapter7.md is made of the file by tools/chapter7.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.book.arms import ARMS, SEEDS, Arm, one_thread
from benchmarks.book.reference_cost import reference_cost
from benchmarks.book.runs import done, run
from benchmarks.book.summary import write

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "chapter7"


def pending(work: Path, arms: Sequence[Arm], seeds: Sequence[int]) -> list[tuple[Arm, int]]:
    """Return what is still to run: the sections' own claims first, then seed by seed."""
    order = sorted(((not arm.core, seed, i) for i, arm in enumerate(arms) for seed in seeds))
    return [(arms[i], seed) for _, seed, i in order if not done(work, arms[i], seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--only", nargs="*", default=[a.name for a in ARMS], choices=[a.name for a in ARMS])
    parser.add_argument("--summary", action="store_true", help="run nothing")
    args = parser.parse_args()
    one_thread()
    arms = [a for a in ARMS if a.name in args.only]
    todo = [] if args.summary else pending(args.work, arms, args.seeds)
    for number, (arm, seed) in enumerate(todo, start=1):
        if done(args.work, arm, seed):
            continue  # by another process that works on the same folder
        began = time.perf_counter()
        result = run(args.work, arm, seed)
        print(
            f"{number}/{len(todo)} {arm.name} seed {seed}: held-out {result['rows'][-1].get('eval/heldout'):.3f}, "
            f"{result['cpu_seconds']:.0f} CPU s, {time.perf_counter() - began:.0f} s",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    if not args.summary:
        reference_cost(args.work)
    write(args.work, ROOT)


if __name__ == "__main__":
    main()
