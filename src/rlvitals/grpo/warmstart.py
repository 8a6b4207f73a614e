"""Supervised warm start: teach a policy demonstrations before GRPO, so that it has some success and knows the tags.

The same code makes the embedded models and runs `--warm-start FILE`. The loss counts the assistant's tokens and their
end token alone, averaged over all tokens of a batch. `settings_for` says how a file is trained on; reading it is
`warmstart_file`'s.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlvitals.env import Message
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.chat import Tokenizer, added_ids, prompt_ids, turn_ids
from rlvitals.grpo.packing import micro_batches
from rlvitals.grpo.score import Policy

IGNORED = -100  # label of tokens that are not trained on, as transformers and torch have it

# How a file of demonstrations is trained on. Small files are gone over more often: with fewer steps the linear warm-up
# and the decay leave no step at the peak.
BATCH = 16  # demonstrations of a step at most (s1, arXiv 2501.19393)
PASSES = 3.0  # over a large file (Stanford Alpaca)
MAX_PASSES = 15  # over a small one: LIMA's, over 1,000 demonstrations (arXiv 2305.11206)
MIN_STEPS = 100  # optimizer steps, as far as MAX_PASSES gives them (docs/measurements.md: Warm start from a file)
WARMUP_SHARE = 0.1  # of the steps that the rate rises in (alignment-handbook, SmolLM2 and Zephyr)
RATES: tuple[tuple[float, float], ...] = (
    (1e7, 3e-3),  # as the embedded model is made (docs/measurements.md: Warm start from a file)
    (5e8, 3e-4),
    (2.5e9, 1e-4),
    (math.inf, 1e-5),
)
"""(weights below, peak rate of full fine-tuning): alignment-handbook has 1e-3 for SmolLM2 with 135M and 360M weights,
3e-4 with 1.7B, 2e-5 for SmolLM3 with 3B and Zephyr with 7B, all at 128 demonstrations a step; here times
sqrt(16 / 128), the rule of Adam for other batches (arXiv 2205.10287), rounded. LIMA took 1e-5."""

Dialogue = tuple[Message, ...]
"""A demonstration: at least one message of the policy's role "assistant"."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a warm start trains: AdamW, linear warm-up and linear decay to a tenth.

    Attributes:
        steps: optimizer steps; None takes `epochs` passes over the demonstrations.
        batch: demonstrations per step.
        learning_rate: its peak.
        warmup_steps: steps of the rise at most; never more than WARMUP_SHARE of all steps.
        micro_tokens: padded tokens of one forward pass, whose logits are never whole; 0 passes a batch at once through
            the model's own loss, which the embedded models are made with: other sums would be other weights.
        dtype: of the forward pass in parts; recompute: activations are recomputed there, as the model was told.
    """

    steps: int | None = None
    epochs: float = 1.0
    batch: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 30
    weight_decay: float = 0.0
    grad_clip: float = 1.0
    seed: int = 0
    micro_tokens: int = 0
    dtype: torch.dtype = torch.float32
    recompute: bool = False

    def steps_for(self, count: int) -> int:
        """Return the optimizer steps over a number of demonstrations."""
        return self.steps or max(1, math.ceil(self.epochs * count / self.batch))


def settings_for(count: int, weights: int) -> Settings:
    """Return how a file of `count` demonstrations is trained on, by a model of so many weights."""
    batch = max(1, min(BATCH, count * MAX_PASSES // MIN_STEPS))
    steps = max(math.ceil(PASSES * count / batch), min(MIN_STEPS, MAX_PASSES * count // batch))
    return Settings(steps=steps, batch=batch, learning_rate=next(r for below, r in RATES if weights < below))


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
    warmup = max(1, min(settings.warmup_steps, int(WARMUP_SHARE * steps)))
    up = min(1.0, (step + 1) / warmup)
    return settings.learning_rate * up * (1.0 - 0.9 * step / max(steps, 1))


Said = Callable[[int, int, float], None]
"""(steps done, of how many, loss of the last one): called after each step."""


def warm_start(
    model: Any, tokenizer: Tokenizer, dialogues: Sequence[Dialogue], settings: Settings, told: Said | None = None
) -> list[float]:
    """Train the model in place, where it is; return the loss of each step in nats per assistant token.

    Demonstrations are taken in shuffled passes that depend on `settings.seed` alone. InputError when the loss or the
    gradient is not finite, or a demonstration does not fit into the model.
    """
    rows = [encode(tokenizer, d) for d in dialogues]
    _fit(rows, model)
    steps = settings.steps_for(len(rows))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    rng = random.Random(settings.seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=settings.weight_decay
    )
    losses: list[float] = []
    order: list[int] = []
    was_training = model.training
    model.train(settings.recompute or not settings.micro_tokens)
    backward = _in_parts if settings.micro_tokens else _whole
    for step in range(steps):
        while len(order) < min(settings.batch, len(rows)):
            order += rng.sample(range(len(rows)), len(rows))
        taken, order = order[: settings.batch], order[settings.batch :]
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps, settings)
        loss = backward(model, [rows[i] for i in taken], int(pad), settings)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip)
        if not (math.isfinite(loss) and bool(norm.isfinite())):
            raise InputError(
                Problem("the warm start went out of range", f"step {step + 1} of {steps}",
                        f"loss {loss:g}, gradient norm {float(norm):g}", "finite numbers",
                        "Look for odd lines in the file; with dtype=bfloat16 try --set dtype=float32")
            )  # fmt: skip
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss)
        if told is not None:
            told(step + 1, steps, loss)
    model.train(was_training)
    return losses


def _whole(model: Any, rows: Sequence[Encoded], pad: int, settings: Settings) -> float:
    """Run forward and backward over a batch at once; return its loss."""
    device = next(model.parameters()).device
    ids_BT, mask_BT, label_BT = (t.to(device) for t in batch_of(rows, pad))
    loss = model(input_ids=ids_BT, attention_mask=mask_BT, labels=label_BT, use_cache=False).loss
    loss.backward()
    return float(loss.detach())


def _in_parts(model: Any, rows: Sequence[Encoded], pad: int, settings: Settings) -> float:
    """Run forward and backward over parts of a batch, each divided by the tokens of the whole; return the loss."""
    policy = Policy(model, settings.dtype)
    ids_BL, _, label_BL = (t.to(policy.device) for t in batch_of(rows, pad))
    mask_BT = label_BL[:, 1:] != IGNORED
    tokens, total = int(mask_BT.sum()), 0.0
    lengths = torch.tensor([len(r.ids) for r in rows])
    for chosen in micro_batches(lengths, torch.arange(len(rows)), settings.micro_tokens):
        longest = int(lengths[chosen].max())
        logp_N, _ = policy(ids_BL[chosen, :longest], mask_BT[chosen, : longest - 1], 1.0)
        loss = -logp_N.float().sum() / tokens
        loss.backward()
        total += float(loss.detach())
    return total


def _fit(rows: Sequence[Encoded], model: Any) -> None:
    """Refuse demonstrations that are longer than the positions of the model."""
    most = getattr(model.config, "max_position_embeddings", None)
    long = [i for i, r in enumerate(rows) if most and len(r.ids) > most]
    if long:
        raise InputError(
            Problem("demonstrations longer than the model's context", "warm start",
                    f"{len(long)} of {len(rows)}, number {long[0] + 1} with {len(rows[long[0]].ids)} tokens",
                    f"at most {most} tokens")
        )  # fmt: skip
