"""The divergence of whole distributions from hidden states, without ever holding the logits of either policy.

KL(p || q) = sum_v p (z - y) - lse z + lse y with z of the policy and y of the reference, over the tiles of fused.py:
two products per tile forward, two and two more backward. The reference is a constant; the gradient with z is
p (log p - log q - KL).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from rlvitals.grpo import fused
from rlvitals.grpo.entropy import NEVER
from rlvitals.grpo.fused import gradients, kept_bits, spans, tile, wide_type


def fused_kl_N(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    ref_hidden_NH: Tensor,
    ref_weight_VH: Tensor,
    temperature: float = 1.0,
    *,
    keep_packed_NV8: Tensor | None = None,
) -> Tensor:
    """Return KL(policy || reference) of each row in nats, float32 (float64 for float64 inputs).

    Both distributions are at `temperature` and, with keep_packed_NV8, of the same kept entries (`fused.pack_keep`).
    Gradients go to hidden_NH and weight_VH. ValueError for shapes that do not fit or a temperature that is not above 0.
    """
    n, v = hidden_NH.shape[0], weight_VH.shape[0]
    fits = hidden_NH.shape[1] == weight_VH.shape[1] and ref_hidden_NH.shape[1] == ref_weight_VH.shape[1]
    if not fits or ref_hidden_NH.shape[0] != n or ref_weight_VH.shape[0] != v or not temperature > 0.0:
        raise ValueError(
            f"fused divergence: found hidden {tuple(hidden_NH.shape)} and {tuple(ref_hidden_NH.shape)}, weight "
            f"{tuple(weight_VH.shape)} and {tuple(ref_weight_VH.shape)}, temperature {temperature}; expected (N, H), "
            "(V, H) twice, above 0"
        )
    if keep_packed_NV8 is not None and keep_packed_NV8.shape != (n, -(-v // 8)):
        raise ValueError(f"kept entries: found {tuple(keep_packed_NV8.shape)}; expected {(n, -(-v // 8))} (pack_keep)")
    reference = ref_hidden_NH.detach(), ref_weight_VH.detach()
    out = _FusedKl.apply(hidden_NH, weight_VH, *reference, float(temperature), keep_packed_NV8)  # type: ignore[no-untyped-call]
    return cast("Tensor", out)


class _FusedKl(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, ref_hidden: Tensor, ref_weight: Tensor, temperature: float,
        keep: Tensor | None,
    ) -> Tensor:  # fmt: skip
        n, kind = hidden.shape[0], wide_type(hidden.dtype)
        top = torch.full((n,), NEVER, dtype=kind, device=hidden.device)  # running maximum of z
        ref_top = top.clone()  # and of y
        mass, ref_mass, apart = torch.zeros_like(top), torch.zeros_like(top), torch.zeros_like(top)
        for cols in spans(weight.shape[0], fused.ENTRIES):
            for rows in spans(n, fused.TOKENS):
                kept = kept_bits(keep, rows, cols)
                z = tile(hidden[rows], weight[cols], temperature, kept)
                y = tile(ref_hidden[rows], ref_weight[cols], temperature, kept).to(kind)
                _absorb(z, y, top[rows], ref_top[rows], mass[rows], ref_mass[rows], apart[rows])
        # both maxima are taken off before anything is added: no difference of two large numbers
        divergence = apart / mass - mass.log() + ref_mass.log()
        lse, ref_lse = top + mass.log(), ref_top + ref_mass.log()
        ctx.save_for_backward(hidden, weight, ref_hidden, ref_weight, lse, ref_lse, divergence, keep)
        ctx.temperature = temperature
        return divergence

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None, None]:
        hidden, weight, ref_hidden, ref_weight, lse, ref_lse, divergence, keep = ctx.saved_tensors
        (grad,) = grads
        kind = wide_type(hidden.dtype)

        def slope(rows: slice, cols: slice) -> Tensor:
            kept = kept_bits(keep, rows, cols)
            logp = tile(hidden[rows], weight[cols], ctx.temperature, kept).sub_(lse[rows, None])
            logq = tile(ref_hidden[rows], ref_weight[cols], ctx.temperature, kept).to(kind).sub_(ref_lse[rows, None])
            scale = logq.neg_().add_(logp).sub_(divergence[rows, None])
            return logp.exp_().mul_(scale).mul_(grad[rows, None])

        needed = ctx.needs_input_grad
        return *gradients(hidden, weight, ctx.temperature, needed, slope), None, None, None, None


def _absorb(z: Tensor, y: Tensor, top: Tensor, ref_top: Tensor, mass: Tensor, ref_mass: Tensor, apart: Tensor) -> None:
    """Update both running maxima and masses and sum e^(z - top) ((z - top) - (y - ref_top)) in place; z, y are used up.

    When a maximum rises the sums so far are moved to the new one.
    """
    new, ref_new = torch.maximum(top, z.amax(dim=1)), torch.maximum(ref_top, y.amax(dim=1))
    shift, ref_shift = top - new, ref_top - ref_new
    old = shift.exp()
    apart.add_(mass * (shift - ref_shift)).mul_(old)
    mass.mul_(old)
    ref_mass.mul_(ref_shift.exp())
    top.copy_(new)
    ref_top.copy_(ref_new)
    z.sub_(new[:, None])
    y.sub_(ref_new[:, None])
    e = z.exp()
    mass.add_(e.sum(dim=1))
    apart.add_(z.sub_(y).mul_(e).sum(dim=1))
    ref_mass.add_(y.exp_().sum(dim=1))
