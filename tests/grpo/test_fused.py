"""Fused against plain: values, gradients, tiles that do not fit evenly, narrow types, frozen weights, kept sets."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rlvitals.grpo import fused
from rlvitals.grpo.entropy import kept_logits_NV, logp_entropy_N
from rlvitals.grpo.fused import fused_logp_entropy_N, pack_keep
from tests.grpo.batches import close

N, H, V = 37, 16, 203
EXACT = 1e-5  # what the trainer asks of it


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "TOKENS", 16)  # 37 rows: 16, 16, 5
    monkeypatch.setattr(fused, "ENTRIES", 64)  # 203 entries: 64, 64, 64, 11


def tensors(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    hidden = torch.randn(N, H, generator=rng).to(dtype).requires_grad_()
    weight = torch.randn(V, H, generator=rng).to(dtype).requires_grad_()
    return hidden, weight, torch.randint(V, (N,), generator=rng)


def mixed(logp: Tensor, entropy: Tensor) -> Tensor:
    """Weigh every row differently in both outputs."""
    row = torch.linspace(-1, 2, N, dtype=logp.dtype)
    return (row * logp).sum() + (row.flip(0) * entropy).sum()


def plain(hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    return logp_entropy_N(hidden @ weight.T, ids, temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.6])
def test_values_and_gradients(temperature: float) -> None:
    hidden, weight, ids = tensors()
    found, want = fused_logp_entropy_N(hidden, weight, ids, temperature), plain(hidden, weight, ids, temperature)
    close(found[0], want[0].detach(), EXACT)
    close(found[1], want[1].detach(), EXACT)
    grads = [torch.autograd.grad(mixed(*pair), (hidden, weight)) for pair in (found, want)]
    scale = float(grads[1][1].abs().max())
    close(grads[0][0] / scale, grads[1][0] / scale, EXACT)
    close(grads[0][1] / scale, grads[1][1] / scale, EXACT)


def test_full_vocabulary_with_real_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """151,936 entries in float32 against float64: sums over many tiles lose no more than the trainer allows."""
    monkeypatch.setattr(fused, "ENTRIES", 8192)
    rng = torch.Generator().manual_seed(2)
    hidden, weight = torch.randn(4, 8, generator=rng), torch.randn(151_936, 8, generator=rng)
    ids = torch.tensor([0, 8191, 8192, 151_935])
    found, want = fused_logp_entropy_N(hidden, weight, ids), plain(hidden.double(), weight.double(), ids)
    close(found[0], want[0], EXACT)
    close(found[1], want[1], EXACT)


def test_double_precision_agrees_to_the_last_digits() -> None:
    hidden, weight, ids = tensors(torch.float64)
    found, want = fused_logp_entropy_N(hidden, weight, ids), plain(hidden, weight, ids)
    grads = [torch.autograd.grad(mixed(*pair), (hidden, weight)) for pair in (found, want)]
    close(found[1], want[1].detach(), 1e-12)
    close(grads[0][0], grads[1][0], 1e-11)
    close(grads[0][1], grads[1][1], 1e-11)


@pytest.mark.parametrize("output", [0, 1])
def test_one_output_alone(output: int) -> None:
    hidden, weight, ids = tensors(torch.float64)
    grads = [torch.autograd.grad(f(hidden, weight, ids)[output].sum(), (hidden, weight))
             for f in (fused_logp_entropy_N, plain)]  # fmt: skip
    close(grads[0][0], grads[1][0], 1e-11)
    close(grads[0][1], grads[1][1], 1e-11)


def test_frozen_weight_and_frozen_hidden_states() -> None:
    hidden, weight, ids = tensors()
    mixed(*fused_logp_entropy_N(hidden, weight.detach(), ids)).backward()
    assert weight.grad is None
    assert hidden.grad is not None
    wanted = torch.autograd.grad(mixed(*plain(hidden, weight, ids)), hidden)[0]
    close(hidden.grad, wanted, 1e-4)
    mixed(*fused_logp_entropy_N(hidden.detach(), weight, ids)).backward()
    assert weight.grad is not None


def test_bfloat16_reduces_in_float32() -> None:
    """Against float32 on the same rounded inputs: the only loss is the rounding of each product."""
    hidden, weight, ids = tensors(torch.bfloat16)
    found = fused_logp_entropy_N(hidden, weight, ids)
    want = plain(hidden.detach().float(), weight.detach().float(), ids)
    assert found[0].dtype is found[1].dtype is torch.float32
    assert float((found[0] - want[0]).detach().abs().max()) < 0.05
    mixed(*found).backward()
    assert hidden.grad is not None
    assert hidden.grad.dtype is torch.bfloat16


def test_extreme_logits_stay_finite() -> None:
    hidden = torch.tensor([[1e4], [-1e4], [0.0]]).requires_grad_()
    weight = torch.tensor([[1.0], [0.5], [-1.0]]).requires_grad_()
    logp, entropy = fused_logp_entropy_N(hidden, weight, torch.tensor([0, 2, 1]))
    close(logp, torch.tensor([0.0, 0.0, -torch.tensor(3.0).log().item()]), 1e-6)
    close(entropy, torch.tensor([0.0, 0.0, torch.tensor(3.0).log().item()]), 1e-6)
    (logp.sum() + entropy.sum()).backward()
    assert hidden.grad is not None
    assert bool(hidden.grad.isfinite().all())


def test_kept_sets() -> None:
    hidden, weight, ids = tensors(torch.float64)
    keep = torch.rand(N, V, generator=torch.Generator().manual_seed(1)) < 0.2
    keep[torch.arange(N), ids] = True
    keep[0] = False
    keep[0, ids[0]] = True  # a greedy token: its set is itself
    found = fused_logp_entropy_N(hidden, weight, ids, 0.8, keep_packed_NV8=pack_keep(keep))
    want = logp_entropy_N(kept_logits_NV(hidden @ weight.T, keep, ids), ids, 0.8)
    close(found[0], want[0].detach(), 1e-11)
    close(found[1], want[1].detach(), 1e-11)
    assert float(found[1][0].detach()) == 0.0
    grads = [torch.autograd.grad(mixed(*pair), (hidden, weight)) for pair in (found, want)]
    close(grads[0][0], grads[1][0], 1e-10)
    close(grads[0][1], grads[1][1], 1e-10)


def test_no_rows_and_wrong_shapes() -> None:
    hidden, weight, ids = tensors()
    logp, entropy = fused_logp_entropy_N(hidden[:0], weight, ids[:0])
    (logp.sum() + entropy.sum()).backward()
    assert weight.grad is not None
    assert float(weight.grad.abs().sum()) == 0.0
    with pytest.raises(ValueError, match=r"found hidden \(37, 16\), weight \(16, 203\)"):
        fused_logp_entropy_N(hidden, weight.T, ids)
    with pytest.raises(ValueError, match="temperature 0"):
        fused_logp_entropy_N(hidden, weight, ids, 0.0)
    with pytest.raises(ValueError, match=r"kept entries: found \(37, 203\); expected \(37, 26\)"):
        fused_logp_entropy_N(hidden, weight, ids, keep_packed_NV8=torch.zeros(N, V, dtype=torch.uint8))
