"""Every rollout of a run, in the canonical table: a parquet file per checkpoint interval, safe against a kill.

The steps since the last checkpoint stand in `rollouts/open.jsonl`, appended step by step. At a checkpoint they become
`rollouts/steps-000001-000020.parquet`, written beside and renamed, and the open file starts anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson

from rlvitals.env import VerifierStatus
from rlvitals.grpo.logs import abandon, refused, whole
from rlvitals.grpo.measure import by_group
from rlvitals.grpo.rollout import Trajectory
from rlvitals.rollouts.table import BY_NAME, PART, Kind, kind_of

OPEN = "open.jsonl"
_TYPES: Mapping[Kind, str] = {
    Kind.INTEGER: "BIGINT",
    Kind.NUMBER: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.TOKENS: "DOUBLE[]",
}
_VERDICT = {VerifierStatus.RIGHT: 1.0, VerifierStatus.WRONG: 0.0, VerifierStatus.NO_PARSE: 0.0}


class RolloutFiles:
    """The rollout files of a run directory.

    Args:
        folder: the run directory.
        fixed: columns that are the same in every row (versions, sampling settings).
        after: last step that is kept; what was written for later ones is removed.
    """

    def __init__(self, folder: Path, fixed: Mapping[str, object], after: int = 0) -> None:
        self.run_folder, self._folder = folder, folder / "rollouts"
        self.fixed = dict(fixed)
        self._steps: list[int] = []
        with refused(folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in self._folder.glob("steps-*.parquet"):
                if int(path.stem.rpartition("-")[2]) > after:
                    path.unlink()
            self._file = (self._folder / OPEN).open("wb")

    def add(self, step: int, trajectories: Sequence[Trajectory], trained_version: int) -> None:
        """Write the rollouts of a step."""
        groups = advantages_by_group(trajectories)
        lines = [
            orjson.dumps({**self.fixed, **row_of(t, step, trained_version), **groups[t.group]}) for t in trajectories
        ]
        with refused(self.run_folder):
            self._file.write(b"\n".join(lines) + b"\n")
            self._file.flush()
        self._steps.append(step)

    def seal(self) -> None:
        """Turn the open file into a parquet file."""
        if not self._steps:
            return
        with refused(self.run_folder):
            self._file.close()
            name = f"steps-{self._steps[0]:06d}-{self._steps[-1]:06d}.parquet"
            to_parquet(self._folder / OPEN, self._folder / name)
            self._file = (self._folder / OPEN).open("wb")
        self._steps = []

    def close(self) -> None:
        """Seal what is open and leave no empty file behind. Raises InputError when the disk refuses."""
        self.seal()
        with refused(self.run_folder):
            self._file.close()
            (self._folder / OPEN).unlink(missing_ok=True)

    def abandon(self) -> None:
        """Close the open file on the way out of an error: its whole lines stay as they are, and nothing is raised."""
        abandon(self._file, self._folder / OPEN)


def advantages_by_group(trajectories: Sequence[Trajectory]) -> dict[int, dict[str, float | None]]:
    """Return group -> mean and sample std of the advantages in it; None without two that the update used."""
    found: dict[int, dict[str, float | None]] = {}
    for number, group in by_group(trajectories).items():
        own = [t.advantage for t in group if math.isfinite(t.advantage)]
        mean, std = (float(np.mean(own)), float(np.std(own, ddof=1))) if len(own) > 1 else (None, None)
        found[number] = {"group_advantage_mean": mean, "group_advantage_std": std}
    return found


def row_of(t: Trajectory, step: int, trained_version: int) -> dict[str, Any]:
    """Return a trajectory as a row of the canonical table; None where a value is not there."""
    row: dict[str, Any] = {
        "step": step,
        "group": str(t.group),
        "index": t.index,
        "prompt_id": t.item.id,
        "family": t.item.family or None,
        "tier": t.item.tier or None,
        "split": "train",
        "prompt": t.prompt,
        "completion": t.text,
        "turns": t.turns,
        "gold": t.item.gold or None,
        "reward": _number(t.reward),
        "correct": None if t.status is None else _VERDICT.get(t.status),
        "raw_output": t.raw,
        "parsed": t.parsed,
        "verifier_status": None if t.status is None else t.status.value,
        "verifier_seconds": _number(t.verifier_seconds),
        "advantage": _number(t.advantage),
        "tokens": t.tokens,
        "prompt_tokens": len(t.prompt_ids),
        "stop_reason": None if t.stop is None else t.stop.value,
        "policy_version": t.version,
        "trainer_version": trained_version,
        "seed": t.seed,
    }
    sampler_logp = t.sampler_logp
    row["sampler_logp"] = sampler_logp.astype(np.float64).round(6).tolist()
    row["sampler_logp_sum"] = float(sampler_logp.sum())
    if t.trainer_logp is not None and t.entropy is not None and t.trainer_logp.size:
        gap = t.trainer_logp.astype(np.float64) - sampler_logp
        row |= {
            "trainer_logp": t.trainer_logp.astype(np.float64).round(6).tolist(),
            "trainer_logp_sum": float(t.trainer_logp.sum()),
            "mismatch_abs_mean": float(np.abs(gap).mean()),
            "mismatch_k3_mean": float((np.expm1(gap) - gap).mean()),
            "mismatch_abs_max": float(np.abs(gap).max()),
            "entropy_mean": float(t.entropy.mean()),
        }
        row["kl_ref"] = _divergence(t)
    return row | {PART + name: _number(value) for name, value in t.parts.items()}


def _divergence(t: Trajectory) -> float | None:
    """Return the mean of k3 over the tokens, as the step's `kl_ref` is made (nats); None without a reference."""
    if t.trainer_logp is None or t.ref_logp is None:
        return None
    k1 = t.trainer_logp.astype(np.float64) - t.ref_logp.astype(np.float64)
    with np.errstate(over="ignore"):
        return _number(float((np.expm1(-k1) + k1).mean()))


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def to_parquet(source: Path, target: Path) -> None:
    """Write the rows of a JSON lines file as parquet, beside and renamed."""
    with source.open("rb") as file:
        present: dict[str, None] = {}
        for line in file:
            present.update(dict.fromkeys(orjson.loads(line)))
    columns = [n for n in present if n in BY_NAME or n.startswith(PART)]
    types = {n: _TYPES[kind_of(n)] for n in columns}
    with whole(target) as draft, duckdb.connect() as db:
        db.execute("SET threads = 1")
        # one line may hold a long completion with all its log-probabilities
        rows = db.read_json(str(source), columns=types, format="newline_delimited", maximum_object_size=256_000_000)
        rows.write_parquet(str(draft), compression="zstd")
