"""That training works on a card at all: held-out gain on the embedded task, and a resume beside an unbroken run."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from rlvitals.grpo.checkpoint import FOLDER
from rlvitals.grpo.config import Config
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.evaluate import HeldOut
from rlvitals.grpo.loop import Row, train
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.run import Run

STEPS = 6  # of the runs that a resume is compared on; checkpoints every 3, broken off after 4
WEIGHTS = f"{FOLDER}/checkpoint-{STEPS}/model.safetensors"


class Stop(Exception):
    """A run is broken off, as a kill would."""


def learning(steps: int, dtype: str, items: int) -> dict[str, Any]:
    """Return held-out accuracy before, during and after training the tiny policy on sums."""
    seen: list[tuple[int, float, float]] = []

    def watch(run: Run, row: Row, held_out: HeldOut | None) -> None:
        if held_out is not None:
            seen.append((run.step, held_out.score, held_out.stderr))

    config = Config(steps=steps, eval_every=max(steps // 4, 1), eval_items=items, save_every=steps, dtype=dtype)
    parts = Parts()
    parts.model(config)  # made and warm-started outside the time
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        train(config, parts, folder=Path(folder) / "run", watch=[watch])
        seconds = time.perf_counter() - began
        before = _score(Path(folder) / "run", step=0)
    gain = seen[-1][1] - before
    return {
        "case": f"learning {dtype}", "device": str(Parallel().device()), "steps": steps, "items": items,
        "before": before, "held_out": seen, "gain": gain, "seconds": round(seconds, 2),
        "seconds_per_step": round(seconds / steps, 3), "learned": gain > 2 * seen[-1][2],
    }  # fmt: skip


def _score(folder: Path, step: int) -> float:
    """Return the share of right answers of an evaluation from its file."""
    lines = (folder / "evals.jsonl").read_text(encoding="utf-8").splitlines()
    right = [float(r["correct"]) for r in map(json.loads, lines) if r["step"] == step]
    return sum(right) / len(right)


def resume(dtype: str) -> dict[str, Any]:
    """Return how far a resumed run is from an unbroken one, and two unbroken ones from each other."""
    config = Config(steps=STEPS, prompts=8, eval_every=0, save_every=3, dtype=dtype)

    def stop(run: Run, row: Row, held_out: HeldOut | None) -> None:
        if run.step == 4:
            raise Stop

    with tempfile.TemporaryDirectory() as top:
        whole, twin, broken = (Path(top) / name for name in ("whole", "twin", "broken"))
        train(config, folder=whole)
        train(config, folder=twin)
        try:
            train(config, folder=broken, watch=[stop])
        except Stop:
            train(config, folder=broken, resume=True)
        return {
            "case": f"resume {dtype}", "device": str(Parallel().device()), "steps": STEPS,
            "resumed - unbroken": apart(whole, broken), "unbroken - unbroken": apart(whole, twin),
        }  # fmt: skip


def apart(one: Path, other: Path) -> dict[str, Any]:
    """Return the largest difference of the last weights, and the first step whose reward or loss differs."""
    a, b = load_file(one / WEIGHTS), load_file(other / WEIGHTS)
    rows = [
        [json.loads(line) for line in (f / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        for f in (one, other)
    ]
    keys = ("reward", "loss", "grad_norm")
    unlike = (
        int(x["step"]) for x, y in itertools.zip_longest(*rows, fillvalue={"step": 0})
        if any(x.get(k) != y.get(k) for k in keys)
    )  # fmt: skip
    return {
        "weights": max(float((a[n] - b[n]).abs().max()) for n in a),
        "first_step_apart": next(unlike, None),
        "rows": [len(r) for r in rows],
    }
