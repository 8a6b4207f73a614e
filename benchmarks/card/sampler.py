"""The sampler alone: what one more token costs for 1, 8, 64 and 256 rows, and what the cast to bfloat16 adds."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch

from benchmarks.card.meter import release, wait
from benchmarks.card.setup import Shape, prompts
from rlvitals.env import Message
from rlvitals.grpo import score
from rlvitals.grpo.chat import prompt_ids
from rlvitals.grpo.models import Policy
from rlvitals.grpo.parts import local_sampler
from rlvitals.grpo.rollout import Sampling


def measure(policy: Policy, shape: Shape, rows: int, tokens: int, *, copied: bool = False) -> dict[str, Any]:
    """Return seconds per decoded token of a batch; copied: on a bfloat16 copy instead of casts in each pass."""
    device = next(policy.model.parameters()).device
    model = copy.deepcopy(policy.model).to(torch.bfloat16) if copied else policy.model
    scored = score.Policy(model, torch.float32 if copied else torch.bfloat16)
    sampler = local_sampler(scored, policy.tokenizer)
    texts = prompts(shape, -(-rows // 8))
    ids = [prompt_ids(policy.tokenizer, (Message("user", texts[i // 8]),)) for i in range(rows)]
    wait(device)
    began = time.perf_counter()
    made = sampler.generate(ids, list(range(rows)), [tokens] * rows, Sampling(max_tokens=tokens))
    wait(device)
    seconds = time.perf_counter() - began
    written = sum(len(g.ids) for g in made)
    del model, scored, sampler
    release(device)
    return {
        "case": f"{rows} rows" + (" bfloat16 copy" if copied else ""), "rows": rows, "tokens": written,
        "seconds": round(seconds, 3), "ms_per_token": round(1e3 * seconds / tokens, 2),
        "tokens_per_s": round(written / seconds, 1),
    }  # fmt: skip
