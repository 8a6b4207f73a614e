"""ADAPTERS: every trainer that is understood, and how the right one is picked."""

from __future__ import annotations

from rlvitals.ingest import (
    agent_lightning,
    areal,
    atropos,
    chapter7,
    generic,
    mlx_lm_lora,
    ms_swift,
    nemo_rl,
    open_instruct,
    openrlhf,
    prime_rl,
    rllm,
    rlvitals_train,
    roll,
    skyrl,
    slime,
    tinker,
    torchforge,
    trl,
    trl_async,
    unsloth,
    verifiers,
    verl,
)
from rlvitals.ingest.adapter import Adapter

ADAPTERS: tuple[Adapter, ...] = (
    trl.ADAPTER,
    unsloth.ADAPTER,
    ms_swift.ADAPTER,
    trl_async.ADAPTER,
    verl.ADAPTER,
    agent_lightning.ADAPTER,
    rllm.ADAPTER,
    open_instruct.ADAPTER,
    roll.ADAPTER,
    torchforge.ADAPTER,
    atropos.ADAPTER,
    mlx_lm_lora.ADAPTER,
    tinker.ADAPTER,
    openrlhf.ADAPTER,
    nemo_rl.ADAPTER,
    prime_rl.ADAPTER,
    verifiers.ADAPTER,
    skyrl.ADAPTER,
    slime.ADAPTER,
    areal.ADAPTER,
    chapter7.ADAPTER,
    rlvitals_train.ADAPTER,
    generic.ADAPTER,
)

CERTAIN = 50  # score from which an adapter is taken instead of the generic one

_UNSLOTH_BANNER = "Unsloth"  # unsloth prints its name at import and at each model it loads


def pick(keys: frozenset[str], text: str = "") -> Adapter:
    """Return the adapter that fits the raw keys best, the generic one when none is sure; `text` is console output."""
    best = max(ADAPTERS, key=lambda adapter: adapter.matches(keys))
    if best.matches(keys) < CERTAIN:
        return generic.ADAPTER
    return unsloth.ADAPTER if best is trl.ADAPTER and _UNSLOTH_BANNER in text else best


def by_name(name: str) -> Adapter | None:
    """Return the adapter of a trainer's name in any case, or None."""
    return next((a for a in ADAPTERS if a.info.name.lower() == name.lower()), None)
