"""Samplers with weights or settings of their own, as a separate server has them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import local_sampler
from rlvitals.grpo.rollout import Generated, Sampling
from rlvitals.grpo.sampling import LocalSampler
from rlvitals.grpo.score import Policy

Change = Callable[[Tensor], Tensor]


def as_they_are(weight: Tensor) -> Tensor:
    """Return the weight."""
    return weight


class OwnWeights(LocalSampler):
    """A sampler with a copy of the weights, taken over at each push.

    Args:
        change: what each weight becomes on its way (rounding); copies: False takes the number of the version alone,
            from the second push on.
    """

    def __init__(self, policy: Policy, tokenizer: Any, change: Change = as_they_are, *, copies: bool = True) -> None:
        like = local_sampler(policy, tokenizer)
        super().__init__(copy.deepcopy(policy.model).eval(), like.end_id, like.pad_id, policy.autocast)
        self._change, self._copies = change, copies
        self._pushes = 0

    @torch.no_grad()
    def push(self, model: nn.Module, version: int) -> None:
        if self._copies or self._pushes == 0:
            mine = self.model.state_dict()
            for name, weight in model.state_dict().items():
                mine[name].copy_(self._change(weight))
        self._pushes += 1
        self.version = version


class OwnSettings(LocalSampler):
    """A sampler whose settings are not those that the trainer asks for, or that knows another end token.

    What it reports are the log-probabilities of the distribution that it drew from; which entries were left out, it
    does not report.
    """

    def __init__(self, policy: Policy, tokenizer: Any, end_id: int | None = None, **changes: object) -> None:
        like = local_sampler(policy, tokenizer)
        super().__init__(policy.model, like.end_id if end_id is None else end_id, like.pad_id, policy.autocast)
        self._changes = changes

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], budgets: Sequence[int], sampling: Sampling
    ) -> list[Generated]:
        mine = replace(sampling, **self._changes)  # type: ignore[arg-type]
        return [replace(g, keep_packed=None) for g in super().generate(prompts, seeds, budgets, mine)]


class WithoutAdapter(LocalSampler):
    """A sampler that serves the base weights: the adapter was never merged into them."""

    def __init__(self, policy: Policy, tokenizer: Any, config: Config) -> None:
        like = local_sampler(policy, tokenizer)
        super().__init__(policy.model, like.end_id, like.pad_id, policy.autocast)

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], budgets: Sequence[int], sampling: Sampling
    ) -> list[Generated]:
        with cast("Any", self.model).disable_adapter():
            return super().generate(prompts, seeds, budgets, sampling)


def to_bits(bits: int) -> Change:
    """Return a rounding of matrices to whole numbers of so many bits, one scale per row, zero in the middle."""
    largest = 2 ** (bits - 1) - 1

    def change(weight: Tensor) -> Tensor:
        if weight.dim() < 2:
            return weight  # norms keep their precision, as quantised servers do
        scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / largest
        rounded: Tensor = (weight / scale).round() * scale
        return rounded

    return change


def to_bfloat16(weight: Tensor) -> Tensor:
    """Return the weight rounded to bfloat16."""
    return weight.to(torch.bfloat16).to(weight.dtype)
