"""Supervised warm start: teach a policy demonstrations before GRPO, so that it has some success and knows the tags.

The same code makes the embedded models and runs `--warm-start FILE`. The loss counts the assistant's tokens and their
end token alone, averaged over all tokens of a batch.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rlvitals.env import Message
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.chat import Tokenizer, added_ids, prompt_ids, turn_ids

IGNORED = -100  # label of tokens that are not trained on, as transformers and torch have it

Dialogue = tuple[Message, ...]
"""A demonstration: at least one message of the policy's role "assistant"."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a warm start trains: AdamW, linear warm-up and linear decay to a tenth.

    Attributes:
        steps: optimizer steps; None takes `epochs` passes over the demonstrations.
        batch: demonstrations per step.
        learning_rate: its peak.
    """

    steps: int | None = None
    epochs: float = 1.0
    batch: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 30
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Encoded:
    """One demonstration: ids, and for each whether the policy said it."""

    ids: tuple[int, ...]
    said: tuple[bool, ...]


def encode(tokenizer: Tokenizer, dialogue: Dialogue) -> Encoded:
    """Return the ids of a dialogue, the assistant's tokens and end tokens marked."""
    ids: list[int] = []
    said: list[bool] = []
    done = 0  # messages whose ids are in
    for at, message in enumerate(dialogue):
        if message.role != "assistant":
            continue
        between = dialogue[done:at]
        if between:
            new = added_ids(tokenizer, dialogue[:done], between) if done else prompt_ids(tokenizer, between)
            ids += new
            said += [False] * len(new)
        turn = turn_ids(tokenizer, message.content)
        ids += turn
        said += [True] * len(turn)
        done = at + 1
    return Encoded(tuple(ids), tuple(said))


def batch_of(rows: Sequence[Encoded], pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, mask and labels, int64[B, T] each, padded on the right."""
    width = max(len(r.ids) for r in rows)
    ids_BT = torch.full((len(rows), width), pad_id)
    mask_BT = torch.zeros(len(rows), width, dtype=torch.long)
    label_BT = torch.full((len(rows), width), IGNORED)
    for b, row in enumerate(rows):
        n = len(row.ids)
        ids_BT[b, :n] = torch.tensor(row.ids)
        mask_BT[b, :n] = 1
        label_BT[b, :n] = torch.tensor([i if s else IGNORED for i, s in zip(row.ids, row.said, strict=True)])
    return ids_BT, mask_BT, label_BT


def rate(step: int, steps: int, settings: Settings) -> float:
    """Return the learning rate of a step, from 0: linear warm-up, then linear decay to a tenth of the peak."""
    up = min(1.0, (step + 1) / max(settings.warmup_steps, 1))
    return settings.learning_rate * up * (1.0 - 0.9 * step / max(steps, 1))


def warm_start(model: Any, tokenizer: Tokenizer, dialogues: Sequence[Dialogue], settings: Settings) -> list[float]:
    """Train the model in place; return the loss of each step in nats per assistant token.

    Demonstrations are taken in shuffled passes that depend on `settings.seed` alone.
    """
    rows = [encode(tokenizer, d) for d in dialogues]
    steps = settings.steps or max(1, math.ceil(settings.epochs * len(rows) / settings.batch))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    rng = random.Random(settings.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=settings.weight_decay
    )
    device = next(model.parameters()).device
    losses: list[float] = []
    order: list[int] = []
    was_training = model.training
    model.train()
    for step in range(steps):
        while len(order) < min(settings.batch, len(rows)):
            order += rng.sample(range(len(rows)), len(rows))
        taken, order = order[: settings.batch], order[settings.batch :]
        ids_BT, mask_BT, label_BT = (t.to(device) for t in batch_of([rows[i] for i in taken], int(pad)))
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps, settings)
        loss = model(input_ids=ids_BT, attention_mask=mask_BT, labels=label_BT, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    model.train(was_training)
    return losses


def read_file(path: Path) -> list[Dialogue]:
    """Return the demonstrations of a JSON lines file.

    A line is {"prompt": text, "completion": text} or {"messages": [{"role", "content"}, ...]} with at least one message
    of the assistant, as the last one. InputError names the lines that are neither.
    """
    if not path.is_file():
        raise InputError(Problem("no such file", "warm start", str(path), "a JSON lines file"))
    dialogues: list[Dialogue] = []
    problems: list[Problem] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            found = _dialogue(line)
            if found is not None:
                dialogues.append(found)
            else:
                expected = '{"prompt": ..., "completion": ...} or {"messages": [...]} that ends with the assistant'
                problems.append(
                    Problem("not a demonstration", f"{path} line {number}", f"{line.strip()!r:.60}", expected)
                )
    if not dialogues and not problems:
        problems.append(Problem("no demonstrations", str(path), "an empty file", "one JSON object a line"))
    if problems:
        more = [Problem(f"{len(problems) - 5} more such lines", str(path))] if len(problems) > 5 else []
        raise InputError(*problems[:5], *more)
    return dialogues


def _dialogue(line: str) -> Dialogue | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    prompt, completion = row.get("prompt"), row.get("completion")
    if isinstance(prompt, str) and isinstance(completion, str) and prompt and completion:
        return (Message("user", prompt), Message("assistant", completion))
    turns = row.get("messages")
    if not isinstance(turns, list):
        return None
    out = [
        Message(t["role"], t["content"])
        for t in turns
        if isinstance(t, dict) and isinstance(t.get("role"), str) and isinstance(t.get("content"), str)
    ]
    fits = len(out) == len(turns) >= 2 and out[-1].role == "assistant" and out[0].role != "assistant"
    return tuple(out) if fits else None
