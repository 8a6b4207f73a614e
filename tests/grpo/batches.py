"""Batches and comparisons that the tests of the losses share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LOSS, GRAD, ADV = 1e-7, 1e-6, 1e-7  # tolerances of the vectors


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass(frozen=True)
class Inputs:
    """Tensors of one batch; logp_BT takes gradients."""

    logp_BT: Tensor
    old_BT: Tensor
    sampler_BT: Tensor
    ref_BT: Tensor
    mask_BT: Tensor
    reward_B: Tensor
    group_B: Tensor
    max_tokens: int


def load(folder: Path, name: str) -> Any:
    return json.loads((folder / "vectors" / name).read_text())


def shared_inputs(folder: Path) -> Inputs:
    raw = load(folder, "inputs.json")
    return Inputs(
        tensor(raw["logp_new"]).requires_grad_(), tensor(raw["logp_old"]), tensor(raw["logp_sampler"]),
        tensor(raw["logp_ref"]), tensor(raw["mask"]).bool(), tensor(raw["rewards"]),
        torch.arange(raw["B"]) // raw["G"], raw["max_completion_length"],
    )  # fmt: skip


def random_inputs(seed: int = 0, sequences: int = 8, tokens: int = 6, spread: float = 0.3) -> Inputs:
    """Return two groups of ragged sequences; the old policy differs by `spread` nats, every length is at least 1."""
    rng = torch.Generator().manual_seed(seed)

    def normal() -> Tensor:
        return torch.randn(sequences, tokens, generator=rng, dtype=torch.float64)

    old = -normal().abs() - 0.1
    length = torch.randint(1, tokens + 1, (sequences,), generator=rng)
    length[0] = tokens
    return Inputs(
        (old + spread * normal()).requires_grad_(), old, old + 0.1 * normal(), old + 0.3 * normal(),
        torch.arange(tokens) < length[:, None], tensor([1.0, 0, 0, 0, 1, 1, 0, 1])[:sequences],
        torch.arange(sequences) // 4, tokens + 1,
    )  # fmt: skip


def value_and_grad(loss: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor]:
    """Return a scalar loss and its gradient at a fresh copy of a tensor."""
    x = at.detach().clone().requires_grad_()
    value = loss(x)
    (grad,) = torch.autograd.grad(value, x)
    return value.detach(), grad


def close(found: Tensor, expected: Any, atol: float) -> None:
    wanted = expected if isinstance(expected, Tensor) else tensor(expected)
    torch.testing.assert_close(found.detach().to(wanted.dtype), wanted, atol=atol, rtol=0)
