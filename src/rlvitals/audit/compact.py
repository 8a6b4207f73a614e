"""Turn the lines that `reward_probe` wrote, one per call, into one row per trajectory, and count what they show."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from rlvitals.audit.common import made, share
from rlvitals.auditresults import Rewards
from rlvitals.errors import InputError, Problem

MAX_LINE = 64 << 20  # bytes
COLUMNS: Mapping[str, str] = {
    "step": "BIGINT", "prompt_id": "VARCHAR", "family": "VARCHAR", "tier": "VARCHAR", "completion": "VARCHAR",
    "reward": "DOUBLE", "raw_output": "VARCHAR", "verifier_status": "VARCHAR", "verifier_seconds": "DOUBLE",
    "reward_version": "VARCHAR", "env_version": "VARCHAR", "sampler_version": "VARCHAR", "policy_version": "BIGINT",
    "reward_function": "VARCHAR", "time_s": "DOUBLE", "error": "VARCHAR",
}  # fmt: skip


class Lines:
    """The calls in some files, whole lines alone; `broken` counts the others."""

    def __init__(self, files: list[Path]) -> None:
        self.files, self.broken = files, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for path in self.files:
            with path.open("rb") as stream:
                while line := stream.readline(MAX_LINE):
                    try:
                        found = orjson.loads(line)
                    except ValueError:
                        found = None
                    if isinstance(found, dict) and "t" in found:
                        yield found
                    elif line.strip():
                        self.broken += 1


def rows_of(call: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one row per trajectory of a call; a batch that raised is one row of error per completion."""
    n = call.get("n")
    count = n if isinstance(n, int) else 1
    for i in range(count):

        def at(key: str, i: int = i) -> Any:
            value = call.get(key)
            return (value[i] if i < len(value) else None) if n is not None and isinstance(value, list) else value

        raw, error = at("raw"), call.get("e")
        reward = _reward(raw)
        status = "error" if error or (raw is not None and reward is None) else None
        yield {
            "step": _whole(at("step")), "prompt_id": _text(at("id")), "family": _text(at("family")),
            "tier": _text(at("tier")), "completion": _text(at("tail")), "reward": reward, "raw_output": _text(raw),
            "verifier_status": status, "verifier_seconds": call.get("s", math.nan) / max(count, 1),
            "reward_version": _text(call.get("v")), "env_version": _text(at("env_version")),
            "sampler_version": _text(at("sampler_version")), "policy_version": _whole(at("policy_version")),
            "reward_function": _text(call.get("f")), "time_s": call.get("t"), "error": _text(error),
        }  # fmt: skip


def _reward(raw: object) -> float | None:
    if isinstance(raw, Mapping):
        raw = raw.get("score", raw.get("reward"))
    if isinstance(raw, list) and raw:
        raw = raw[0]
    return float(raw) if isinstance(raw, bool | int | float) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def compact(folder: Path, out: Path) -> Rewards:
    """Write every trajectory under a folder of records to a parquet file, and return what they show.

    Columns are those of the canonical rollout table, so that `rlvitals rollouts` reads it. Raises InputError.
    """
    import duckdb

    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise InputError(
            Problem("no records of reward_probe", str(folder), expected="files *.jsonl",
                    hint="Wrap the reward function: rlvitals.reward_probe(fn)")
        )  # fmt: skip
    lines = Lines(files)
    flat = out.with_suffix(".rows.tmp")
    tally = _Tally()
    try:
        with flat.open("wb") as stream:
            for call in lines:
                for row in rows_of(call):
                    tally.take(row)
                    stream.write(orjson.dumps(row) + b"\n")
        if tally.rows:
            columns = "{" + ", ".join(f"'{n}': '{t}'" for n, t in COLUMNS.items()) + "}"
            connection = duckdb.connect()
            relation = f"SELECT * FROM read_json('{_quoted(flat)}', format='newline_delimited', columns={columns})"
            connection.execute(f"COPY ({relation}) TO '{_quoted(out)}' (FORMAT parquet, COMPRESSION zstd)")
    except (OSError, duckdb.Error) as error:
        raise InputError(Problem("cannot write", str(out), str(error).splitlines()[0])) from error
    finally:
        flat.unlink(missing_ok=True)
    return Rewards(
        made=made("rewards", [str(p) for p in files[:20]]),
        trajectories=tally.rows,
        errors=share(tally.errors, tally.rows),
        none=tally.none,
        error_types=tuple(f"{name}: {n}" for name, n in tally.types.most_common(10)),
        slowest_s=tally.slowest,
        median_s=statistics.median(tally.seconds) if tally.seconds else math.nan,
        broken_lines=lines.broken,
    )


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


class _Tally:
    """Counts over the rows; of times every one up to 100,000."""

    def __init__(self) -> None:
        self.rows = self.errors = self.none = 0
        self.types: Counter[str] = Counter()
        self.slowest = 0.0
        self.seconds: list[float] = []

    def take(self, row: Mapping[str, Any]) -> None:
        self.rows += 1
        if row["verifier_status"] == "error":
            self.errors += 1
            self.types[(row["error"] or f"no number: {row['raw_output']}").partition(":")[0][:60]] += 1
        elif row["reward"] is None:
            self.none += 1
        self.slowest = max(self.slowest, row["verifier_seconds"])
        if len(self.seconds) < 100_000:
            self.seconds.append(row["verifier_seconds"])
