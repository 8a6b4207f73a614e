"""Log-probability and entropy of tokens from hidden states, without ever holding the logits.

z = h W^T / temperature is made in tiles of at most TOKENS x ENTRIES, reduced at once in float32, and made again in the
backward pass (a third more multiplications). Peak memory beside the two gradients is a few tiles, whatever N and V are.
Gradients with z: d logp = onehot - p, d H = -p (log p + H).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from rlvitals.grpo.entropy import NEVER

TOKENS = 1024  # rows of a tile
ENTRIES = 8192  # vocabulary entries of a tile; with 1,024 rows 32 MiB of float32


def fused_logp_entropy_N(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    ids_N: Tensor,
    temperature: float = 1.0,
    *,
    keep_packed_NV8: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return log-probability of ids and entropy in nats, both float32 (float64 for float64 inputs).

    Multiplications run in the type of the inputs, every reduction and accumulation in float32 or wider. A weight
    that needs no gradient costs none. keep_packed_NV8 (uint8, V/8 rounded up, see pack_keep) restricts each row to the
    entries the sampler could choose; an id outside its row's set has log-probability about -1e30. ValueError for
    shapes that do not fit or a temperature that is not above 0.
    """
    n, h = hidden_NH.shape
    v, width = weight_VH.shape
    if h != width or ids_N.shape != (n,) or not temperature > 0.0:
        raise ValueError(
            f"fused log-probability: found hidden {tuple(hidden_NH.shape)}, weight {tuple(weight_VH.shape)}, "
            f"ids {tuple(ids_N.shape)}, temperature {temperature}; expected (N, H), (V, H), (N,), above 0"
        )
    if keep_packed_NV8 is not None and keep_packed_NV8.shape != (n, -(-v // 8)):
        raise ValueError(f"kept entries: found {tuple(keep_packed_NV8.shape)}; expected {(n, -(-v // 8))} (pack_keep)")
    out = _Fused.apply(hidden_NH, weight_VH, ids_N, float(temperature), keep_packed_NV8)  # type: ignore[no-untyped-call]
    return cast("tuple[Tensor, Tensor]", out)


def pack_keep(keep_NV: Tensor) -> Tensor:
    """Return a boolean (N, V) as bits, (N, V/8 rounded up) uint8: 19 kB per token at 151,936 entries."""
    n, v = keep_NV.shape
    padded = torch.nn.functional.pad(keep_NV, (0, -v % 8)).view(n, -1, 8).to(torch.uint8)
    return (padded << torch.arange(8, dtype=torch.uint8, device=keep_NV.device)).sum(dim=-1, dtype=torch.uint8)


def spans(size: int, step: int) -> Iterator[slice]:
    """Yield slices of at most `step` that cover 0 to size."""
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """Return the type of reductions: float32 for narrower ones."""
    return dtype if dtype.itemsize >= 4 else torch.float32


def tile(hidden: Tensor, weight: Tensor, temperature: float, keep: Tensor | None) -> Tensor:
    """Return one tile of z in float32 or wider; `keep` are the packed bits of this tile."""
    z = (hidden @ weight.T).to(wide_type(hidden.dtype))
    if temperature != 1.0:
        z.div_(temperature)
    if keep is not None:
        z.masked_fill_(unpack_keep(keep, z.shape[1]).logical_not_(), NEVER)
    return z


def unpack_keep(keep_NV8: Tensor, size: int) -> Tensor:
    """Return the mask (N, size) that `pack_keep` packed."""
    bits = keep_NV8[:, :, None].bitwise_right_shift(torch.arange(8, dtype=torch.uint8, device=keep_NV8.device)) & 1
    return bits.view(keep_NV8.shape[0], -1)[:, :size].bool()


def kept_bits(keep: Tensor | None, rows: slice, cols: slice) -> Tensor | None:
    """Return the packed bits of one tile."""
    return None if keep is None else keep[rows, cols.start // 8 : -(-cols.stop // 8)]


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float, keep: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        n, kind = hidden.shape[0], wide_type(hidden.dtype)
        top = torch.full((n,), NEVER, dtype=kind, device=hidden.device)  # running maximum of z
        mass, slope, chosen = torch.zeros_like(top), torch.zeros_like(top), torch.zeros_like(top)
        for cols in spans(weight.shape[0], ENTRIES):
            for rows in spans(n, TOKENS):
                z = tile(hidden[rows], weight[cols], temperature, kept_bits(keep, rows, cols))
                own, here = _targets(ids[rows], cols)
                chosen[rows][own] = z[own, here]
                _absorb(z, top[rows], mass[rows], slope[rows])
        log_mass = mass.log()
        lse = top + log_mass
        # with e = exp(z - top): H = log sum e - sum e (z - top) / sum e, no cancellation of two large numbers
        entropy = log_mass - slope / mass
        ctx.save_for_backward(hidden, weight, ids, lse, entropy, keep)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return chosen - lse, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        hidden, weight, ids, lse, entropy, keep = ctx.saved_tensors
        grad_logp, grad_entropy = grads

        def slope(rows: slice, cols: slice) -> Tensor:
            z = tile(hidden[rows], weight[cols], ctx.temperature, kept_bits(keep, rows, cols))
            return _logit_gradient(
                z, lse[rows], entropy[rows],
                None if grad_logp is None else grad_logp[rows],
                None if grad_entropy is None else grad_entropy[rows],
                _targets(ids[rows], cols),
            )  # fmt: skip

        return *gradients(hidden, weight, ctx.temperature, ctx.needs_input_grad, slope), None, None, None


def gradients(
    hidden: Tensor, weight: Tensor, temperature: float, needed: Sequence[bool],
    slope: Callable[[slice, slice], Tensor],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """Return the gradients with hidden states and weight, tile by tile, None for what is not needed.

    `slope` gives that with z of one tile (rows, columns).
    """
    kind = wide_type(hidden.dtype)
    d_hidden = torch.zeros_like(hidden, dtype=kind) if needed[0] else None
    d_weight = torch.empty_like(weight) if needed[1] else None
    for cols in spans(weight.shape[0], ENTRIES):
        d_cols = torch.zeros_like(weight[cols], dtype=kind) if needed[1] else None
        for rows in spans(hidden.shape[0], TOKENS):
            dz = slope(rows, cols).div_(temperature).to(hidden.dtype)
            # one product at a time: in bfloat16 each is rounded once, and all of them add up in float32
            if d_hidden is not None:
                _add_product(d_hidden[rows], dz, weight[cols])
            if d_cols is not None:
                _add_product(d_cols, dz.T, hidden[rows])
        if d_weight is not None and d_cols is not None:
            d_weight[cols] = d_cols.to(weight.dtype)
    return (None if d_hidden is None else d_hidden.to(hidden.dtype)), d_weight


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to total in place, in the type of total."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


def _targets(ids: Tensor, cols: slice) -> tuple[Tensor, Tensor]:
    """Return the rows whose id lies in these columns, and where."""
    own = ((ids >= cols.start) & (ids < cols.stop)).nonzero().flatten()
    return own, ids[own] - cols.start


def _absorb(z: Tensor, top: Tensor, mass: Tensor, slope: Tensor) -> None:
    """Update the running maximum, sum e and sum e (z - top) of a block of rows in place; z is used up."""
    new = torch.maximum(top, z.amax(dim=1))
    shift = top - new
    old = shift.exp()
    slope.add_(mass * shift).mul_(old)
    mass.mul_(old)
    top.copy_(new)
    z.sub_(new[:, None])
    e = z.exp()
    mass.add_(e.sum(dim=1))
    slope.add_(z.mul_(e).sum(dim=1))


def _logit_gradient(
    z: Tensor, lse: Tensor, entropy: Tensor, grad_logp: Tensor | None, grad_entropy: Tensor | None,
    targets: tuple[Tensor, Tensor],
) -> Tensor:  # fmt: skip
    """Return the gradient with z of one tile; z is used up."""
    p = z.sub_(lse[:, None]).exp()  # z is log p from here on
    if grad_entropy is None:
        dz = p.mul_(-grad_logp[:, None]) if grad_logp is not None else p.zero_()
    else:
        scale = z.add_(entropy[:, None]).mul_(grad_entropy[:, None])
        if grad_logp is not None:
            scale.add_(grad_logp[:, None])
        dz = p.mul_(scale).neg_()
    if grad_logp is not None:
        own, here = targets
        dz[own, here] += grad_logp[own]
    return dz
