"""What is trained on the card: a random model of a published shape, a tokenizer for it, and a task that always pays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from rlvitals.env import Item, Message, Step, VerifierStatus
from rlvitals.grpo.config import Config
from rlvitals.grpo.models import Policy
from rlvitals.grpo.tasks.base import Task

GROUP = 8  # rollouts of a prompt, as in chapter 7
SPECIAL = ("<pad>", "<eos>")


@dataclass(frozen=True)
class Shape:
    """A causal LM with tied embeddings and a work to go with it.

    prompt_tokens: of each prompt; scale: budgets of completions are divided by it.
    """

    layers: int = 28
    hidden: int = 1024
    heads: int = 16
    kv_heads: int = 8
    head_dim: int = 128
    ff: int = 3072
    vocabulary: int = 151_936
    prompt_tokens: int = 128
    scale: int = 1


QWEN3 = Shape()  # Qwen3-0.6B: its config.json
SMALL = Shape(2, 32, 4, 2, 8, 64, vocabulary=1000, prompt_tokens=6, scale=64)


def new_policy(shape: Shape, device: torch.device) -> Policy:
    """Return a random model in float32 on the device, with its tokenizer; the same weights each time on one device."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config: Any = Qwen3Config(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, intermediate_size=shape.ff,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, max_position_embeddings=40_960, tie_word_embeddings=True, pad_token_id=0,
        bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    with device:
        model: Any = Qwen3ForCausalLM(config)
    return Policy(model.float().eval(), new_tokenizer(shape.vocabulary), f"random-qwen3-{shape.layers}x{shape.hidden}")


def new_tokenizer(vocabulary: int) -> Any:
    """Return a tokenizer that writes each id as a word of its own: random ids decode without a download."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*SPECIAL, *(f"w{i}" for i in range(len(SPECIAL), vocabulary))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="w2"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made: Any = PreTrainedTokenizerFast  # untyped
    return made(tokenizer_object=inner, pad_token=SPECIAL[0], eos_token=SPECIAL[1], padding_side="left")


class _Turns:
    """Pays every second rollout: no group is ever without a signal, whatever the model writes."""

    version = "turns@1"

    def __init__(self, turns: Iterator[int]) -> None:
        self._paid = float(next(turns) % 2)

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return item.messages

    def step(self, text: str) -> Step:
        status = VerifierStatus.RIGHT if self._paid else VerifierStatus.WRONG
        return Step((), {"correct": self._paid}, text[:50], status)


def prompts(shape: Shape, count: int) -> list[str]:
    """Return random prompts of the shape's length in tokens."""
    rng = torch.Generator().manual_seed(1)
    ids = torch.randint(len(SPECIAL), shape.vocabulary, (count, shape.prompt_tokens), generator=rng)
    return [" ".join(f"w{i}" for i in row) for row in ids.tolist()]


def new_task(shape: Shape) -> Task:
    """Return prompts without an answer, every second rollout of which is paid."""
    turns = itertools.count()
    items = tuple(Item(f"prompt-{i}", (Message("user", p),)) for i, p in enumerate(prompts(shape, 64)))
    return Task("turns", _Turns.version, items, (), lambda: _Turns(turns))


def settings(*, budget: int, prompts: int = 1, **changes: Any) -> Config:
    """Return our settings: clip 0.2, token mean, one optimizer step per batch, bfloat16 over float32 weights."""
    fixed: dict[str, Any] = {
        "recipe": "bnpo", "steps": 1_000_000, "prompts": prompts, "group_size": GROUP, "max_tokens": budget,
        "minibatches": 1, "lr": 1e-6, "dtype": "bfloat16", "reference_reset": -1, "eval_every": 0,
        "save_every": 1_000_000, "dead_steps": 0,
    }  # fmt: skip
    return Config(**{**fixed, **changes})
