"""Fused log-probability and entropy beside the plain form at a vocabulary of 151,936: time, memory, difference."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.card.meter import GB, release, wait
from benchmarks.card.setup import Shape
from rlvitals.grpo import fused
from rlvitals.grpo.entropy import logp_entropy_N

REPEATS = 5  # timed passes, after one that is not
Method = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def plain(hidden: Tensor, weight: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy from logits that are all held."""
    return logp_entropy_N(hidden @ weight.T, ids)


@contextmanager
def tiles(tokens: int, entries: int) -> Iterator[None]:
    """Work in tiles of this size for a while."""
    before = fused.TOKENS, fused.ENTRIES
    fused.TOKENS, fused.ENTRIES = tokens, entries
    try:
        yield
    finally:
        fused.TOKENS, fused.ENTRIES = before


def inputs(shape: Shape, tokens: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return hidden states, weight and ids whose distributions are neither flat nor sharp."""
    rng = torch.Generator(device).manual_seed(0)
    hidden = torch.randn(tokens, shape.hidden, generator=rng, device=device).to(dtype)
    weight = torch.randn(shape.vocabulary, shape.hidden, generator=rng, device=device).mul_(0.05).to(dtype)
    ids = torch.randint(shape.vocabulary, (tokens,), generator=rng, device=device)
    return hidden.requires_grad_(), weight.requires_grad_(), ids


def both_ways(method: Method, given: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Run forward and backward, the gradients left in the inputs."""
    hidden, weight, _ = given
    hidden.grad = weight.grad = None
    logp, entropy = method(*given)
    (logp.sum() - 0.5 * entropy.sum()).backward()  # type: ignore[no-untyped-call]
    return logp.detach(), entropy.detach()


def cost(method: Method, given: tuple[Tensor, Tensor, Tensor]) -> dict[str, Any]:
    """Return the median milliseconds and the peak beside inputs, and beside inputs and their gradients, in GB."""
    hidden, weight, _ = given
    device = hidden.device
    hidden.grad = weight.grad = None
    release(device)
    peak = None
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        both_ways(method, given)
        peak = torch.cuda.max_memory_allocated(device) - before
    else:
        both_ways(method, given)
    times = []
    for _ in range(REPEATS):
        wait(device)
        began = time.perf_counter()
        both_ways(method, given)
        wait(device)
        times.append(1e3 * (time.perf_counter() - began))
    gradients = (hidden.numel() + weight.numel()) * hidden.element_size()
    return {
        "ms": round(median(times), 2),
        "peak_gb": None if peak is None else round(peak / GB, 3),
        "beside_gradients_gb": None if peak is None else round((peak - gradients) / GB, 3),
    }


def measure(shape: Shape, tokens: int, kind: str, device: torch.device, sizes: list[tuple[int, int]]) -> dict[str, Any]:
    """Return the cost of plain and fused, fused again in tiles of other sizes (tokens, entries)."""
    given = inputs(shape, tokens, getattr(torch, kind), device)
    found: dict[str, Any] = {"case": f"{tokens} tokens {kind}", "tokens": tokens, "vocabulary": shape.vocabulary,
                             "plain": cost(plain, given), "fused": cost(fused.fused_logp_entropy_N, given)}  # fmt: skip
    found["time_ratio"] = round(found["fused"]["ms"] / found["plain"]["ms"], 2)
    found["tiles"] = {}
    for rows, entries in sizes:
        with tiles(rows, entries):
            found["tiles"][f"{rows}x{entries}"] = cost(fused.fused_logp_entropy_N, given)
    return found


def difference(shape: Shape, tokens: int, kind: str, device: torch.device) -> dict[str, Any]:
    """Return the largest distance of plain and fused from each other and from the same inputs in float64.

    Values in nats; gradients by the norm of the distance over the norm of the float64 gradient.
    """
    given = inputs(shape, tokens, getattr(torch, kind), device)
    exact = tuple(x.detach().double().requires_grad_() if x.is_floating_point() else x for x in given)
    answers: dict[str, list[Tensor]] = {}
    runs: tuple[tuple[str, Method, Any], ...] = (
        ("exact", plain, exact), ("plain", plain, given), ("fused", fused.fused_logp_entropy_N, given)
    )  # fmt: skip
    for name, method, tensors in runs:
        values = both_ways(method, tensors)
        grads = [x.grad.double().clone() for x in tensors[:2] if x.grad is not None]
        answers[name] = [*(v.double() for v in values), *grads]
    out: dict[str, Any] = {"case": f"difference {tokens} tokens {kind}", "tokens": tokens}
    for one, other in (("fused", "plain"), ("fused", "exact"), ("plain", "exact")):
        a, b = answers[one], answers[other]
        out[f"{one} - {other}"] = {
            "logp": float((a[0] - b[0]).abs().max()),
            "entropy": float((a[1] - b[1]).abs().max()),
            "hidden_gradient": float((a[2] - b[2]).norm() / answers["exact"][2].norm()),
            "weight_gradient": float((a[3] - b[3]).norm() / answers["exact"][3].norm()),
        }
    return out
