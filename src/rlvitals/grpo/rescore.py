"""Held-out scores of saved checkpoints, after a run or beside it: `rlvitals train eval RUN`."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

import torch

from rlvitals.errors import InputError, Problem
from rlvitals.grpo import checkpoint
from rlvitals.grpo.config import Config, from_mapping
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.evaluate import NAME, HeldOut, evaluate
from rlvitals.grpo.logs import refused, whole
from rlvitals.grpo.parts import Parts, local_sampler
from rlvitals.grpo.rollout import Sampling
from rlvitals.grpo.run import CONFIG, adapted
from rlvitals.grpo.score import Policy
from rlvitals.grpo.warmed import carry_out, planned

FILE, ITEMS = "rescored.csv", "rescored.jsonl"


def rescore(folder: Path, items: int | None, say: Callable[[str], None], parts: Parts | None = None) -> Path:
    """Score every checkpoint of a run on the same items and seeds as the run did; return the table written.

    The table has the columns step, score, stderr and items; beside it stands every item of every checkpoint, in the
    layout of evals.jsonl. `rlvitals check --evals` reads either. Both are written after each checkpoint, so that no
    score is lost. Raises InputError, for a checkpoint that is not whole when the others are scored.
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
    skipped: list[Problem] = []
    for step, at in saved:
        if problem := _loaded(at, policy.model):
            skipped.append(problem)
            say(f"step {step}: skipped, {problem.what}; {problem.found}")
            continue
        sampler = local_sampler(policy, loaded.tokenizer)
        scored = evaluate(
            task, items or config.eval_items, sampler, loaded.tokenizer, sampling, Parallel(), parts.collect
        )
        say(f"step {step}: {_said(scored)}")
        found.append((step, scored))
        _write(folder, found)
    if found and not any(scored.items for _, scored in found):
        hint = f"Every item with its status is in {folder / ITEMS}"
        skipped.append(
            Problem("nothing was scored: the verifier failed on every item", f"task {config.task}", "", "", hint)
        )
    if skipped:
        raise InputError(*skipped, _rest(folder, found))
    return folder / FILE


def _loaded(at: Path, model: torch.nn.Module) -> Problem | None:
    """Put the weights of a checkpoint into the model; return why that cannot be done."""
    if lacking := checkpoint.damage(at):
        return Problem("a checkpoint that is not whole", str(at), lacking)
    try:
        checkpoint.load_weights(at, model)
    except InputError as error:
        return error.problems[0]
    return None


def _rest(folder: Path, found: list[tuple[int, HeldOut]]) -> Problem:
    """Return what became of the other checkpoints."""
    steps = ", ".join(str(step) for step, scored in found if scored.items)
    if steps:
        return Problem("the others were scored", str(folder / FILE), f"steps {steps}")
    if found:
        return Problem("the table has no scores", str(folder / FILE), f"{len(found)} steps without one")
    old = "; the one that is there is of an earlier scoring" if (folder / FILE).exists() else ""
    return Problem(f"no checkpoint could be scored, so no table was written{old}", str(folder / FILE))


def _said(scored: HeldOut) -> str:
    if scored.items:
        return f"{scored.score:.4f} +- {scored.stderr:.4f} on {scored.items} items"
    statuses = dict.fromkeys(str(row["status"] or "not verified") for row in scored.rows)
    return f"nothing was scored: {len(scored.rows)} items, each without a verdict ({', '.join(statuses)})"


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


def _write(folder: Path, found: list[tuple[int, HeldOut]]) -> None:
    """Write the table and the items; each file is there completely or as it was before. Raises InputError."""
    hint = f"Then score again: rlvitals train eval {folder}"
    with refused(folder, "the scores cannot be written", hint):
        with whole(folder / ITEMS) as draft, draft.open("w", encoding="utf-8") as file:
            for step, scored in found:
                file.writelines(json.dumps({"step": step, "set": NAME, **row}) + "\n" for row in scored.rows)
        with whole(folder / FILE) as draft, draft.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "score", "stderr", "items"])
            writer.writerows([step, _cell(s.score), _cell(s.stderr), s.items] for step, s in found)


def _cell(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6f}"
