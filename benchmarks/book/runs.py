"""One run of one arm: trained, read back, and kept as a small file that a later call finds."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.book.arms import Arm
from rlvitals.grpo.loop import train
from rlvitals.grpo.parts import Parts

RESULT = "result.json"
KEPT = (
    "loss", "policy_loss", "kl_loss", "reward_mean", "reward_part/correct", "reward_part/format", "success_frac",
    "length_mean", "truncated_frac", "entropy", "advantage_mean", "advantage_std", "zero_variance_frac", "kl_ref",
    "extra/kl_ref_k1", "ratio_mean", "ratio_max", "clip_frac", "grad_norm", "dropped_group_frac", "logprob_gap_mean",
    "extra/sample_s", "extra/score_s", "extra/update_s", "eval/heldout",
)  # fmt: skip
SHOWN_ITEMS = 3  # held-out items, the first ones, whose completions are kept


def folder_of(work: Path, arm: Arm, seed: int) -> Path:
    return work / arm.name / f"seed-{seed}"


def done(work: Path, arm: Arm, seed: int) -> bool:
    """True when the run has a result."""
    return (folder_of(work, arm, seed) / RESULT).is_file()


def run(work: Path, arm: Arm, seed: int) -> dict[str, Any]:
    """Train one seed of an arm anew and keep its result."""
    folder = folder_of(work, arm, seed)
    shutil.rmtree(folder, ignore_errors=True)
    began = time.process_time()
    outcome = train(arm.config(seed), arm.parts(Parts()), folder=folder)
    if not outcome.complete:
        raise SystemExit(f"{arm.name} seed {seed} ended after step {outcome.steps}: {outcome.reason}")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    result = {
        "arm": arm.name,
        "seed": seed,
        "ended": outcome.reason,
        "cpu_seconds": round(time.process_time() - began, 2),
        "rows": [{"step": r["step"], **{k: r[k] for k in KEPT if k in r}} for r in rows],
        "completions": completions(folder),
    }
    (folder / RESULT).write_text(json.dumps(result), encoding="utf-8")
    for heavy in ("checkpoints", "rollouts"):
        shutil.rmtree(folder / heavy, ignore_errors=True)
    return result


def completions(folder: Path) -> list[dict[str, Any]]:
    """Return what the first held-out items were answered, at every evaluation."""
    rows = [json.loads(line) for line in (folder / "evals.jsonl").read_text(encoding="utf-8").splitlines()]
    first = list(dict.fromkeys(r["item"] for r in rows))[:SHOWN_ITEMS]
    return [
        {"step": r["step"], "item": r["item"], "correct": r["correct"], "completion": r["completion"]}
        for r in rows
        if r["item"] in first
    ]


def results(work: Path, arm: Arm) -> list[dict[str, Any]]:
    """Return the results of an arm, in the order of its seeds."""
    found = [json.loads(p.read_text(encoding="utf-8")) for p in (work / arm.name).glob(f"seed-*/{RESULT}")]
    return sorted(found, key=lambda r: int(r["seed"]))
