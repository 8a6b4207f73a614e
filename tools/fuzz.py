"""Fuzz every reader for longer than the tests do: python -m tools.fuzz --minutes 10 [--guided] [--only NAME ...].

Files that break a rule of tests/fuzz/judge.py are kept in --keep, each with the error beside it. `--guided` lets
atheris (libFuzzer) choose the inputs by the code that they reach; without it they are random changes of valid files.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the random changes")
    parser.add_argument("--only", nargs="*", help="names of formats")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--guided", action="store_true")
    args = parser.parse_args()
    if args.guided:
        return guided(args.minutes, args.only, args.keep)
    return unguided(args.minutes, args.seed, args.only, args.keep)


def unguided(minutes: float, seed: int, only: list[str] | None, keep: Path) -> int:
    """Apply random changes to valid files until the time is over; return the exit code."""
    from tests.fuzz.files import mutate, seeds

    chosen = [s for s in seeds() if not only or s.name in only]
    rng = random.Random(seed)
    end = time.monotonic() + 60 * minutes
    counts: Counter[str] = Counter()
    findings: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="rlvitals-fuzz-") as folder:
        while time.monotonic() < end:
            one = rng.choice(chosen)
            outcome = attempt(Path(folder) / one.file, one.wrap(mutate(one.content, rng)), keep, findings)
            counts[f"{one.name} {outcome}"] += 1
    report(counts, findings)
    return 1 if findings else 0


def attempt(path: Path, data: bytes, keep: Path, findings: dict[str, int]) -> str:
    """Judge one file; a broken rule is kept once per place in the code that raised."""
    from tests.fuzz.judge import judge

    path.write_bytes(data)
    try:
        return judge(path, examine=hash(data) % 20 == 0)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f for f in reversed(frames) if "rlvitals" in f.filename), frames[-1])
        key = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        if key not in findings:
            keep.mkdir(parents=True, exist_ok=True)
            name = f"{hashlib.sha256(data).hexdigest()[:10]}-{path.name}"
            (keep / name).write_bytes(data)
            (keep / f"{name}.txt").write_text("".join(traceback.format_exception(error)))
            print(f"{key}: {error}"[:300], flush=True)
        findings[key] = findings.get(key, 0) + 1
        return "broke a rule"
    finally:
        path.unlink(missing_ok=True)


def report(counts: Counter[str], findings: dict[str, int]) -> None:
    for name, count in sorted(counts.items()):
        print(f"{count:8,}  {name}")
    print(f"{sum(counts.values()):,} files, {len(findings)} kinds of findings")


def guided(minutes: float, only: list[str] | None, keep: Path) -> int:
    """Run atheris; the first byte of an input picks the format. It stops at the first finding."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install atheris")
        return 2
    with atheris.instrument_imports(include=["rlvitals.ingest", "rlvitals.checks", "rlvitals.engine"]):
        import rlvitals.ingest.loading  # noqa: F401
        from rlvitals.ingest.readers import (  # noqa: F401
            blocks,
            console,
            csv,
            events,
            json_array,
            jsonl,
            mlflow,
            notebook,
            parquet,
            protobuf,
            recordlog,
            sqlite,
            swanlab,
            tensorboard,
            tfrecord,
            unwrap,
            wandb_export,
            wandb_offline,
        )  # fmt: skip
    from tests.fuzz.files import seeds

    chosen = [s for s in seeds() if not only or s.name in only]
    findings: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="rlvitals-fuzz-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for i, one in enumerate(chosen):
            (corpus / one.name).write_bytes(bytes([i]) + one.content)

        def test_one_input(data: bytes) -> None:
            if data:
                one = chosen[data[0] % len(chosen)]
                attempt(Path(folder) / one.file, one.wrap(data[1:]), keep, findings)

        options = [f"-max_total_time={int(60 * minutes)}", "-max_len=20000", "-timeout=120", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], test_one_input)
        atheris.Fuzz()
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
