"""The fused divergence against the plain one: values, gradients, finite differences, kept sets, narrow types."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rlvitals.grpo import fused
from rlvitals.grpo.entropy import NEVER
from rlvitals.grpo.fused import pack_keep
from rlvitals.grpo.fused_kl import fused_kl_N
from rlvitals.grpo.kl import exact_BT
from tests.grpo.batches import close

N, H, V = 37, 16, 203


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "TOKENS", 16)  # 37 rows: 16, 16, 5
    monkeypatch.setattr(fused, "ENTRIES", 64)  # 203 entries: 64, 64, 64, 11


def tensors(dtype: torch.dtype = torch.float64, rows: int = N) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(rows, H, generator=rng), torch.randn(V, H, generator=rng)
    ref_hidden = hidden + 0.3 * torch.randn(rows, H, generator=rng)
    ref_weight = weight + 0.1 * torch.randn(V, H, generator=rng)
    made = [x.to(dtype) for x in (hidden, weight, ref_hidden, ref_weight)]
    return made[0].requires_grad_(), made[1].requires_grad_(), made[2], made[3]


def plain(
    hidden: Tensor, weight: Tensor, ref_hidden: Tensor, ref_weight: Tensor, temperature: float = 1.0,
    keep: Tensor | None = None,
) -> Tensor:  # fmt: skip
    z, y = hidden @ weight.T / temperature, ref_hidden @ ref_weight.T / temperature
    if keep is not None:
        z, y = z.masked_fill(~keep, NEVER), y.masked_fill(~keep, NEVER)
    return exact_BT(z[None], y[None], torch.ones(1, z.shape[0], dtype=torch.bool))[0]


def weighed(divergence_N: Tensor) -> Tensor:
    return (torch.linspace(-1, 2, divergence_N.numel(), dtype=divergence_N.dtype) * divergence_N).sum()


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.6])
@pytest.mark.parametrize("kept", [False, True])
def test_values_and_gradients(temperature: float, kept: bool) -> None:
    given = tensors()
    keep = None
    if kept:
        keep = torch.rand(N, V, generator=torch.Generator().manual_seed(1)) < 0.2
        keep[:, 200] = True
        keep[0] = torch.arange(V) == 130  # one entry alone, none in the first tiles: no divergence, no gradient
    packed = None if keep is None else pack_keep(keep)
    found = fused_kl_N(*given, temperature, keep_packed_NV8=packed)
    want = plain(*given, temperature, keep)
    close(found, want.detach(), 1e-12)
    assert float(found.detach().min()) >= -1e-12
    grads = [torch.autograd.grad(weighed(x), given[:2]) for x in (found, want)]
    close(grads[0][0], grads[1][0], 1e-12)
    close(grads[0][1], grads[1][1], 1e-11)


def test_finite_differences() -> None:
    hidden, weight, ref_hidden, ref_weight = tensors(rows=5)
    grads = torch.autograd.grad(weighed(fused_kl_N(hidden, weight, ref_hidden, ref_weight, 0.8)), (hidden, weight))
    step = 1e-6
    for number, (i, j) in ((0, (0, 3)), (0, (4, 15)), (1, (0, 0)), (1, (64, 7)), (1, (202, 15))):
        ends = []
        for sign in (1.0, -1.0):
            moved = [hidden.detach().clone(), weight.detach().clone()]
            moved[number][i, j] += sign * step
            ends.append(float(weighed(fused_kl_N(moved[0], moved[1], ref_hidden, ref_weight, 0.8))))
        assert float(grads[number][i, j]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_the_same_policy_has_no_divergence_and_no_gradient() -> None:
    hidden, weight, _, _ = tensors(torch.float32)
    found = fused_kl_N(hidden, weight, hidden.detach(), weight.detach())
    assert float(found.detach().abs().max()) < 1e-6
    found.sum().backward()
    assert hidden.grad is not None
    assert float(hidden.grad.abs().max()) < 1e-5


def test_far_apart_stays_finite() -> None:
    hidden, ref = torch.tensor([[1e3], [-1e3], [0.0]]).requires_grad_(), torch.tensor([[-1e3], [1e3], [0.0]])
    weight = torch.tensor([[1.0], [0.5], [-1.0]]).requires_grad_()
    found = fused_kl_N(hidden, weight, ref, weight.detach())
    assert found.tolist() == pytest.approx([2000.0, 2000.0, 0.0], abs=1e-3)
    found.sum().backward()
    assert hidden.grad is not None
    assert bool(hidden.grad.isfinite().all())


def test_full_vocabulary_with_real_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """151,936 entries in float32 against float64."""
    monkeypatch.setattr(fused, "ENTRIES", 8192)
    rng = torch.Generator().manual_seed(2)
    hidden, weight = torch.randn(4, 8, generator=rng), torch.randn(151_936, 8, generator=rng)
    ref_hidden = hidden + 0.2 * torch.randn(4, 8, generator=rng)
    found = fused_kl_N(hidden, weight, ref_hidden, weight)
    close(found, plain(hidden.double(), weight.double(), ref_hidden.double(), weight.double()), 1e-5)


def test_bfloat16_reduces_in_float32_and_frozen_parts_cost_nothing() -> None:
    hidden, weight, ref_hidden, ref_weight = tensors(torch.bfloat16)
    found = fused_kl_N(hidden, weight.detach(), ref_hidden, ref_weight)
    want = plain(*(x.detach().float() for x in (hidden, weight, ref_hidden, ref_weight)))
    assert found.dtype is torch.float32
    assert float((found.detach() - want).abs().max()) < 0.1
    found.sum().backward()
    assert (hidden.grad is not None, weight.grad) == (True, None)


def test_no_rows_and_wrong_shapes() -> None:
    hidden, weight, ref_hidden, ref_weight = tensors()
    fused_kl_N(hidden[:0], weight, ref_hidden[:0], ref_weight).sum().backward()
    assert weight.grad is not None
    assert float(weight.grad.abs().sum()) == 0.0
    with pytest.raises(ValueError, match=r"found hidden \(37, 16\) and \(36, 16\)"):
        fused_kl_N(hidden, weight, ref_hidden[:36], ref_weight)
    with pytest.raises(ValueError, match="temperature 0"):
        fused_kl_N(hidden, weight, ref_hidden, ref_weight, 0.0)
    with pytest.raises(ValueError, match=r"kept entries: found \(37, 203\); expected \(37, 26\)"):
        fused_kl_N(hidden, weight, ref_hidden, ref_weight, keep_packed_NV8=torch.zeros(N, V, dtype=torch.uint8))
