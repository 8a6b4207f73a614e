"""The embedded policy: a Llama-shaped model of about 84 thousand weights with one token per character and tag.

It is made from nothing and warm-started in seconds. The result is kept in a cache folder under a hash of its whole
recipe, so that it is made once; the same recipe gives the same weights bit for bit on one thread of one machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from rlvitals.grpo.chat import Tokenizer
from rlvitals.grpo.tasks.demonstrations import (
    CARRY_SHOWN,
    THINKING_SHOWN,
    arithmetic_demonstrations,
    calculator_demonstrations,
)
from rlvitals.grpo.tasks.options import given, name_of
from rlvitals.grpo.warmstart import Dialogue, Settings, warm_start

WORDS = (
    "<pad>", "<bos>", "<eos>", "<think>", "</think>", "<call>", "</call>", "<out>", "</out>",
    *"0123456789", *"+-*=,; #?",
)  # fmt: skip
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'tool' %}<out>{{ m['content'] }}</out>"
    "{% elif m['role'] == 'assistant' %}{{ m['content'] }}{{ eos_token }}"
    "{% else %}{{ m['content'] }}{% endif %}{% endfor %}"
)
CACHE = "RLVITALS_CACHE"  # environment variable that moves the cache folder
SHOWN_TIERS = ("1", "2", "3")
STEPS_OF_SEVERAL = 1200  # supervised steps where several tiers share them
CALCULATOR_STEPS = 1000  # with 800 numbers are copied too unsurely (docs/measurements.md: Embedded task)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything the weights depend on.

    Attributes:
        kind: which demonstrations.
        tiers: tiers shown, each equally often.
        hidden, layers, heads, ff: shape of the model.
        seed: of the weights and of the demonstrations.
    """

    kind: str = "arithmetic"
    tiers: tuple[str, ...] = ("2",)
    steps: int = 800
    batch: int = 32
    learning_rate: float = 3e-3
    carry_shown: float = CARRY_SHOWN
    thinking_shown: float = THINKING_SHOWN
    hidden: int = 64
    layers: int = 2
    heads: int = 4
    ff: int = 128
    positions: int = 256
    seed: int = 0
    version: int = 1  # raise it when code that the weights depend on changes

    @property
    def key(self) -> str:
        """Hash of the recipe, the vocabulary and the version of torch that would train it."""
        text = json.dumps([asdict(self), WORDS, TEMPLATE, torch.__version__], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def recipe_for(task: str) -> Recipe:
    """Return the recipe whose demonstrations fit a task's spec; sums of two digits where none is meant for it.

    Sums of four digits are never demonstrated: that tier is too hard for the policy, as some tasks are.
    """
    if name_of(task) == "calculator":
        return Recipe(kind="calculator", steps=CALCULATOR_STEPS)
    tiers = tuple(t for t in given(task, "tiers").split("+") if t in SHOWN_TIERS)
    return Recipe(tiers=tiers or Recipe().tiers, steps=STEPS_OF_SEVERAL if len(tiers) > 1 else Recipe().steps)


def new_tokenizer() -> Tokenizer:
    """Return one token per character and per tag; the tags are ordinary words, so decoding keeps them."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"</?[a-z]+>|."), "isolated")
    inner.decoder = decoders.Fuse()
    made: Any = PreTrainedTokenizerFast  # untyped
    tokenizer = made(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", padding_side="left"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def new_model(recipe: Recipe) -> Any:
    """Return an untrained LlamaForCausalLM; its weights depend on the recipe's seed and shape alone."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=recipe.hidden, intermediate_size=recipe.ff, num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads, num_key_value_heads=recipe.heads, max_position_embeddings=recipe.positions,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return LlamaForCausalLM(config)


def cache_folder() -> Path:
    """Return where warm-started weights are kept: $RLVITALS_CACHE, $XDG_CACHE_HOME/rlvitals or ~/.cache/rlvitals."""
    named = os.environ.get(CACHE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlvitals"


def demonstrations(recipe: Recipe) -> list[Dialogue]:
    """Return the demonstrations of a recipe."""
    count = recipe.steps * recipe.batch
    kinds: dict[str, Callable[[], list[Dialogue]]] = {
        "arithmetic": lambda: arithmetic_demonstrations(
            recipe.tiers, count, seed=recipe.seed, carry_shown=recipe.carry_shown, thinking_shown=recipe.thinking_shown
        ),
        "calculator": lambda: calculator_demonstrations(count, seed=recipe.seed),
    }
    return kinds[recipe.kind]()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run with one torch thread: sums over threads would differ in their last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def make(recipe: Recipe) -> Any:
    """Return a freshly warm-started model; takes some 10 CPU seconds."""
    model = new_model(recipe)
    settings = Settings(steps=recipe.steps, batch=recipe.batch, learning_rate=recipe.learning_rate, seed=recipe.seed)
    with one_thread():
        warm_start(model, new_tokenizer(), demonstrations(recipe), settings)
    return model.eval()


def load(recipe: Recipe = Recipe()) -> tuple[Any, Tokenizer]:
    """Return (model in eval mode, tokenizer) from the cache, made first where it is not there.

    A cache folder that can't be written is no error: the model is then made each time.
    """
    from safetensors.torch import load_file

    path = cache_folder() / f"tiny-{recipe.kind}-{recipe.key}.safetensors"
    if path.is_file():
        model = new_model(recipe)
        model.load_state_dict(load_file(path), strict=False)  # the tied output head is not stored
        model.tie_weights()
        return model.eval(), new_tokenizer()
    model = make(recipe)
    _keep(model, path)
    return model, new_tokenizer()


def _keep(model: Any, path: Path) -> None:
    from safetensors.torch import save_file

    weights = {n: t.detach().clone() for n, t in model.state_dict().items() if n != "lm_head.weight"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".draft")
        os.close(handle)
        save_file(weights, draft)
        os.replace(draft, path)
    except OSError:
        return
