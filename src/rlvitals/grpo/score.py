"""Scoring: log-probability and entropy of every counting token under a policy, at the temperature it samples with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from rlvitals.grpo.entropy import kept_logits_NV, logp_entropy_N, wide
from rlvitals.grpo.fused import fused_logp_entropy_N, unpack_keep
from rlvitals.grpo.fused_kl import fused_kl_N
from rlvitals.grpo.kl import exact_BT
from rlvitals.grpo.packing import Packed, micro_batches


@dataclass(frozen=True)
class Scores:
    """What the trainer makes of sampled tokens: both (B, T) in nats, 0 outside the mask."""

    logp_BT: Tensor
    entropy_BT: Tensor


@dataclass(frozen=True)
class Pending:
    """Scores of a step without a scoring pass of its own: the forward pass of its only update gives what is missing.

    scores: NaN at counting tokens that have none yet; known_BT: tokens that have theirs.
    """

    scores: Scores
    known_BT: Tensor

    def take(self, rows: Tensor, logp_BT: Tensor, entropy_BT: Tensor, mask_BT: Tensor) -> None:
        """Note the scores of some rows, cut to the longest of them."""
        width = mask_BT.shape[1]
        self.scores.logp_BT[rows, :width] = logp_BT.detach().float()
        self.scores.entropy_BT[rows, :width] = entropy_BT.detach().float()
        self.known_BT[rows, :width] = mask_BT


class Head(NamedTuple):
    """The next-token distributions of N tokens, not yet multiplied out: logits are hidden_NH times weight_VH.

    Where the head is more than a matrix, weight_VH is None and hidden_NH are the logits themselves.
    """

    hidden_NH: Tensor
    weight_VH: Tensor | None


HeadOf = Callable[[Packed], Head]
"""The distributions of the counting tokens of some rows: `Reference.head`."""


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
        self._no_split_modules = getattr(model, "_no_split_modules", None)  # accelerate's units under FSDP2

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def head(self, ids_BL: Tensor, mask_BT: Tensor) -> Head:
        """Return the distributions of the counting tokens, row by row."""
        causal = cast("Any", self.model)
        inner = causal.get_base_model() if hasattr(causal, "peft_config") else causal
        with self.autocast():
            if not _plain_head(inner):
                return Head(causal(input_ids=ids_BL[:, :-1], use_cache=False).logits[mask_BT], None)
            hidden_BTH = inner.base_model(input_ids=ids_BL[:, :-1], use_cache=False).last_hidden_state
        return Head(hidden_BTH[mask_BT].to(self.dtype), inner.get_output_embeddings().weight.to(self.dtype))

    def forward(
        self, ids_BL: Tensor, mask_BT: Tensor, temperature: float, keep_NV8: Tensor | None = None,
        ref: Head | None = None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Return log-probability and entropy (N) of the counting tokens, row by row; with `ref` the divergence too.

        keep_NV8: the sets that the sampler could draw from; scores are then of the same restricted distributions.
        ref: the reference's distributions of the same tokens, for the exact divergence to them (nats).
        """
        targets_N = ids_BL[:, 1:][mask_BT]
        head = self.head(ids_BL, mask_BT)
        if head.weight_VH is not None:
            hidden_NH, weight_VH = head.hidden_NH, head.weight_VH
            both = fused_logp_entropy_N(hidden_NH, weight_VH, targets_N, temperature, keep_packed_NV8=keep_NV8)
            if ref is None or ref.weight_VH is None:
                return both
            exact_N = fused_kl_N(
                hidden_NH, weight_VH, ref.hidden_NH, ref.weight_VH, temperature, keep_packed_NV8=keep_NV8
            )
            return *both, exact_N
        logits_NV = _kept(wide(head.hidden_NH) / temperature, keep_NV8, targets_N)
        both = logp_entropy_N(logits_NV, targets_N)
        if ref is None:
            return both
        ref_NV = _kept(wide(ref.hidden_NH) / temperature, keep_NV8, targets_N)
        return *both, exact_BT(logits_NV[None], ref_NV[None], torch.ones_like(targets_N, dtype=torch.bool)[None])[0]


def _plain_head(model: Any) -> bool:
    """True when logits are hidden states times a matrix and nothing else."""
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear or head.bias is not None:
        return False
    config = model.config.get_text_config()
    odd = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
    return not any(getattr(config, name, None) not in (None, 1, 1.0) for name in odd)


def _kept(logits_NV: Tensor, keep_NV8: Tensor | None, targets_N: Tensor) -> Tensor:
    """Return logits within the kept sets, all of them without any."""
    if keep_NV8 is None:
        return logits_NV
    return kept_logits_NV(logits_NV, unpack_keep(keep_NV8, logits_NV.shape[1]), targets_N)


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


@torch.no_grad()
def divergence(policy: nn.Module, ref: HeadOf, packed: Packed, temperature: float, micro_tokens: int) -> Tensor:
    """Return the exact divergence to the reference (B, T) in nats, without gradient, one micro-batch at a time."""
    out_BT = torch.zeros(packed.mask_BT.shape, device=packed.mask_BT.device)
    every = torch.arange(packed.rows, device=packed.mask_BT.device)
    for rows in micro_batches(packed.length_B, every, micro_tokens):
        part = packed.select(rows)
        exact_N = policy(part.ids_BL, part.mask_BT, temperature, part.keep_NV8(), ref(part))[2]
        out_BT[rows, : part.mask_BT.shape[1]] = spread_BT(exact_N.float(), part.mask_BT)
    return out_BT
