"""The reference policy that the divergence is measured to: a frozen copy, or the model without its adapter."""

from __future__ import annotations

import copy
import hashlib
from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import Tensor

from rlvitals.grpo.distributed import weights
from rlvitals.grpo.packing import Packed
from rlvitals.grpo.score import Head, Policy, score


class Reference:
    """What the policy is compared with.

    Args:
        policy: as it is at the start; its weights are copied unless an adapter can be switched off.
        held: False keeps no reference, and no divergence is measured.

    A copy costs the memory of the weights once and a forward pass per step; an adapter costs the pass alone.
    """

    def __init__(self, policy: Policy, *, held: bool = True) -> None:
        self._policy = policy
        self._adapter = hasattr(policy.model, "peft_config")
        self._copy = _frozen(policy) if held and not self._adapter else None
        self.held = held
        self.since = 0  # step after which its weights were taken
        self.identity = _identity(policy) if held else "none"

    def score(self, packed: Packed, temperature: float, micro_tokens: int) -> Tensor | None:
        """Return the reference's log-probabilities (B, T), None without a reference."""
        if not self.held:
            return None
        if self._copy is not None:
            return score(self._copy, packed, temperature, micro_tokens).logp_BT
        with cast("Any", self._policy.model).disable_adapter():
            return score(self._policy, packed, temperature, micro_tokens).logp_BT

    @torch.no_grad()
    def head(self, packed: Packed) -> Head:
        """Return the reference's distributions of the counting tokens, for the exact divergence.

        ValueError without a reference.
        """
        if not self.held:
            raise ValueError("no reference is held: reference_reset is -1")
        if self._copy is not None:
            return self._copy.head(packed.ids_BL, packed.mask_BT)
        with cast("Any", self._policy.model).disable_adapter():
            return self._policy.head(packed.ids_BL, packed.mask_BT)

    def reset(self, step: int) -> None:
        """Take the policy's present weights."""
        if self._copy is not None:
            self._copy.load_state_dict(weights(self._policy))
            self.since, self.identity = step, _identity(self._copy)

    def state(self) -> dict[str, Tensor]:
        """Return the weights of a copy that was reset, for a checkpoint; empty when the start weights do."""
        return {} if self._copy is None or self.since == 0 else dict(self._copy.model.state_dict())

    def load(self, weights: dict[str, Tensor], since: int, identity: str) -> None:
        """Take the weights of a checkpoint."""
        if self._copy is not None and weights:
            self._copy.model.load_state_dict(weights)
        self.since, self.identity = since, identity


def _frozen(policy: Policy) -> Policy:
    with torch.no_grad():
        twin = Policy(copy.deepcopy(policy.model), policy.dtype)
    twin.requires_grad_(False)
    return twin.eval()


def _identity(policy: Policy) -> str:
    """Return 16 hex digits over every weight that is not trained as an adapter."""
    seen = hashlib.sha256()
    with nullcontext():
        for name, weight in sorted(policy.model.state_dict().items()):
            if "lora_" in name:
                continue
            seen.update(name.encode())
            seen.update(weight.detach().to("cpu", torch.float32).contiguous().numpy().tobytes())
    return seen.hexdigest()[:16]
