"""Held-out scores of saved checkpoints, after a run or beside it: `rlvitals train eval RUN`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import torch

from rlvitals.errors import InputError, Problem
from rlvitals.grpo import checkpoint
from rlvitals.grpo.config import Config, from_mapping
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.evaluate import NAME, HeldOut, evaluate
from rlvitals.grpo.logs import refused
from rlvitals.grpo.parts import Parts, local_sampler
from rlvitals.grpo.rollout import Sampling
from rlvitals.grpo.run import CONFIG, adapted
from rlvitals.grpo.score import Policy
from rlvitals.grpo.warmed import carry_out, planned

FILE, ITEMS = "rescored.csv", "rescored.jsonl"


def rescore(folder: Path, items: int | None, say: Callable[[str], None], parts: Parts | None = None) -> Path:
    """Score every checkpoint of a run on the same items and seeds as the run did; return the table written.

    The table has the columns step, score, stderr and items; beside it stands every item of every checkpoint, in the
    layout of evals.jsonl. `rlvitals check --evals` reads either. Raises InputError.
    """
    parts = parts or Parts()
    config = stored(folder)
    plan = planned(config, folder, resume=True) if config.lora_rank else None
    saved = checkpoint.folders(folder)
    if not saved:
        hint = "They are written every save_every steps"
        raise InputError(Problem("no checkpoints in the run", str(folder), hint=hint))
    loaded = parts.model(config)
    task = parts.held_out(config, loaded.tokenizer)
    if not task.held_out:
        raise InputError(Problem("the task has no held-out items", f"task {config.task}", "0 items", "1 or more"))
    if plan is not None:  # adapters sit on the policy of the start
        loaded, _ = carry_out(plan, loaded, Parallel())
    model = adapted(loaded.model, config)
    policy = Policy(model, getattr(torch, config.dtype)).to(Parallel().device())
    sampling = Sampling(config.temperature, config.top_p, config.top_k, config.max_tokens or task.max_new_tokens)
    found: list[tuple[int, HeldOut]] = []
    for step, at in saved:
        checkpoint.load_weights(at, policy.model)
        sampler = local_sampler(policy, loaded.tokenizer)
        scored = evaluate(
            task, items or config.eval_items, sampler, loaded.tokenizer, sampling, Parallel(), parts.collect
        )
        say(f"step {step}: {scored.score:.4f} +- {scored.stderr:.4f} on {scored.items} items")
        found.append((step, scored))
    _write_items(folder / ITEMS, found)
    return _write(folder / FILE, found)


def stored(folder: Path) -> Config:
    """Return the settings that a run directory holds. Raises InputError."""
    try:
        return from_mapping(json.loads((folder / CONFIG).read_text(encoding="utf-8"))["train"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if not folder.is_dir():
            found = "no such folder"
        elif isinstance(error, FileNotFoundError):
            found = f"no {CONFIG}"
        else:
            found = f"a {CONFIG} that is not of this trainer, or cannot be read"
        raise InputError(
            Problem("no run of this trainer in the folder", str(folder), found, f"its {CONFIG}",
                    f"Start one: rlvitals train --out {folder}")
        ) from error  # fmt: skip


def _write_items(path: Path, found: list[tuple[int, HeldOut]]) -> None:
    with refused(path.parent), path.open("w", encoding="utf-8") as file:
        for step, scored in found:
            file.writelines(json.dumps({"step": step, "set": NAME, **row}) + "\n" for row in scored.rows)


def _write(path: Path, found: list[tuple[int, HeldOut]]) -> Path:
    with refused(path.parent), path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "score", "stderr", "items"])
        writer.writerows([step, f"{s.score:.6f}", f"{s.stderr:.6f}", s.items] for step, s in found)
    return path
