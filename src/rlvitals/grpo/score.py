"""Scoring: log-probability and entropy of every counting token under a policy, at the temperature it samples with."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlvitals.grpo.entropy import kept_logits_NV, logp_entropy_N
from rlvitals.grpo.fused import fused_logp_entropy_N
from rlvitals.grpo.packing import Packed, micro_batches


@dataclass(frozen=True)
class Scores:
    """What the trainer makes of sampled tokens: both (B, T) in nats, 0 outside the mask."""

    logp_BT: Tensor
    entropy_BT: Tensor


class Policy(nn.Module):
    """A causal LM as a function from ids to log-probabilities; one module, so that DDP and FSDP2 can wrap it whole.

    Args:
        model: a causal LM of transformers or its PEFT wrapper.
        dtype: of the forward pass; the weights keep their own.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.model = model
        self.dtype = dtype

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def forward(
        self, ids_BL: Tensor, mask_BT: Tensor, temperature: float, keep_NV8: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probability and entropy (N) of the counting tokens, row by row.

        keep_NV8: the sets that the sampler could draw from; scores are then of the same restricted distributions.
        """
        causal = cast("Any", self.model)
        inner = causal.get_base_model() if hasattr(causal, "peft_config") else causal
        targets_N = ids_BL[:, 1:][mask_BT]
        if _plain_head(inner):
            with self.autocast():
                hidden_BTH = inner.base_model(input_ids=ids_BL[:, :-1], use_cache=False).last_hidden_state
            weight_VH = inner.get_output_embeddings().weight
            hidden_NH = hidden_BTH[mask_BT].to(self.dtype)
            return fused_logp_entropy_N(
                hidden_NH, weight_VH.to(self.dtype), targets_N, temperature, keep_packed_NV8=keep_NV8
            )
        with self.autocast():
            logits_NV = causal(input_ids=ids_BL[:, :-1], use_cache=False).logits[mask_BT]
        if keep_NV8 is not None:
            logits_NV = kept_logits_NV(logits_NV / temperature, _unpack(keep_NV8, logits_NV.shape[1]), targets_N)
            return logp_entropy_N(logits_NV, targets_N)
        return logp_entropy_N(logits_NV, targets_N, temperature)


def _plain_head(model: Any) -> bool:
    """True when logits are hidden states times a matrix and nothing else."""
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear or head.bias is not None:
        return False
    config = model.config.get_text_config()
    odd = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
    return not any(getattr(config, name, None) not in (None, 1, 1.0) for name in odd)


def _unpack(keep_NV8: Tensor, size: int) -> Tensor:
    bits = keep_NV8[:, :, None].bitwise_right_shift(torch.arange(8, dtype=torch.uint8, device=keep_NV8.device)) & 1
    return bits.view(keep_NV8.shape[0], -1)[:, :size].bool()


def spread_BT(values_N: Tensor, mask_BT: Tensor) -> Tensor:
    """Return per-token values at their places, 0 elsewhere."""
    return torch.zeros(mask_BT.shape, dtype=values_N.dtype, device=values_N.device).masked_scatter(mask_BT, values_N)


@torch.no_grad()
def score(policy: nn.Module, packed: Packed, temperature: float, micro_tokens: int) -> Scores:
    """Return the scores of a step, without gradient, one micro-batch at a time."""
    logp_BT = torch.zeros(packed.mask_BT.shape, device=packed.mask_BT.device)
    entropy_BT = torch.zeros_like(logp_BT)
    every = torch.arange(packed.rows, device=packed.mask_BT.device)
    for rows in micro_batches(packed.length_B, every, micro_tokens):
        part = packed.select(rows)
        logp_N, entropy_N = policy(part.ids_BL, part.mask_BT, temperature, part.keep_NV8())
        width = part.mask_BT.shape[1]
        logp_BT[rows, :width] = spread_BT(logp_N.float(), part.mask_BT)
        entropy_BT[rows, :width] = spread_BT(entropy_N.float(), part.mask_BT)
    return Scores(logp_BT, entropy_BT)
