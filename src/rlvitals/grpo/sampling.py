"""Sampling in this process: batched, with a KV cache, equal prompts prefilled once, finished rows dropped.

The log-probability kept with each token is that of the very distribution it was drawn from, so what the trainer
recomputes can be compared with it. Each row has its own stream of random numbers: a sample depends on its prompt, its
seed and the weights, not on what else is in the batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from rlvitals.grpo.entropy import NEVER, wide
from rlvitals.grpo.fused import pack_keep
from rlvitals.grpo.rollout import Generated, Sampling, uniforms

CACHE_TOKENS = 131_072  # prompt and completion tokens that the cache of one batch may hold (convention)
DROP_BELOW = 0.8  # share of unfinished rows below which the finished ones leave the batch (convention)


def kept_BV(z_BV: Tensor, sampling: Sampling) -> Tensor:
    """Return which entries can be drawn: the top_k most likely, of these the fewest whose mass reaches top_p."""
    keep_BV = torch.ones_like(z_BV, dtype=torch.bool)
    if 0 < sampling.top_k < z_BV.shape[1]:
        # ties with the last one stay: which of equals is dropped would depend on the hardware
        keep_BV &= z_BV >= z_BV.topk(sampling.top_k, dim=1).values[:, -1:]
    if sampling.top_p < 1.0:
        probs_BV = torch.softmax(z_BV.masked_fill(~keep_BV, NEVER), dim=1)
        ordered_BV, order_BV = probs_BV.sort(dim=1, descending=True, stable=True)
        before_BV = ordered_BV.cumsum(dim=1) - ordered_BV
        keep_BV &= torch.zeros_like(keep_BV).scatter(1, order_BV, before_BV < sampling.top_p)
    return keep_BV


def draw(logits_BV: Tensor, u_B: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return ids (B), their log-probability (B, nats) and the packed set that could be drawn (B, V/8), None for all.

    u_B: numbers in [0, 1), one per row; the same number and logits give the same id.
    """
    z_BV = wide(logits_BV) / sampling.temperature
    packed = None
    if sampling.filters and not sampling.greedy:
        keep_BV = kept_BV(z_BV, sampling)
        z_BV = z_BV.masked_fill(~keep_BV, NEVER)
        packed = pack_keep(keep_BV)
    logp_BV = torch.log_softmax(z_BV, dim=1)
    if sampling.greedy:
        ids_B = logp_BV.argmax(dim=1)
    else:
        mass_BV = logp_BV.double().exp().cumsum(dim=1)
        # first entry whose cumulated mass is above u: an entry of mass 0 is never it
        ids_B = torch.searchsorted(mass_BV, u_B[:, None] * mass_BV[:, -1:], right=True)[:, 0]
        ids_B = ids_B.clamp(max=mass_BV.shape[1] - 1)
    return ids_B, logp_BV.gather(1, ids_B[:, None])[:, 0], packed


class LocalSampler:
    """Samples with the very weights that are trained.

    Args:
        model: a causal LM of transformers, adapters included.
        end_id, pad_id: token ids.
        autocast: makes the context of the forward pass (compute type).
    """

    def __init__(self, model: nn.Module, end_id: int, pad_id: int, autocast: Any = nullcontext) -> None:
        self.model = model
        self.end_id, self.pad_id = end_id, pad_id
        self.version = 0
        self._autocast = autocast

    def push(self, model: nn.Module, version: int) -> None:
        """Take note of the version: the weights are the same memory."""
        self.version = version

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], budgets: Sequence[int], sampling: Sampling
    ) -> list[Generated]:
        """Return one completion per prompt, in order; `budgets` are tokens per row."""
        was_training = self.model.training
        self.model.eval()
        try:
            out: list[Generated] = []
            for rows in _batches([len(p) for p in prompts], budgets):
                out += self._batch([prompts[i] for i in rows], [seeds[i] for i in rows], [budgets[i] for i in rows],
                                   sampling)  # fmt: skip
        finally:
            self.model.train(was_training)
        return out

    def _batch(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], budgets: Sequence[int], sampling: Sampling
    ) -> list[Generated]:
        device = next(self.model.parameters()).device
        longest = max(budgets)
        u_BT = torch.stack([uniforms(s, longest) for s in seeds]).to(device)
        state = _Decoding(self.model, prompts, self.pad_id, self._context())
        budget_B = torch.tensor(budgets, device=device)
        ids, logps, keeps = [], [], []
        live_B = torch.arange(len(prompts), device=device)  # place in the answer of each row still in the batch
        ended_B = torch.zeros(len(prompts), dtype=torch.bool, device=device)
        done_B = torch.zeros(len(prompts), dtype=torch.bool, device=device)
        for t in range(longest):
            ids_B, logp_B, packed = draw(state.logits_BV, u_BT[live_B, t], sampling)
            ids.append(_spread(ids_B, live_B, len(prompts), self.pad_id))
            logps.append(_spread(logp_B, live_B, len(prompts), 0.0))
            if packed is not None:
                keeps.append(_spread(packed, live_B, len(prompts), 0))
            ended_B[live_B] |= (ids_B == self.end_id) & ~done_B[live_B]
            done_B[live_B] |= (ids_B == self.end_id) | (budget_B[live_B] <= t + 1)
            going_B = ~done_B[live_B]
            if not bool(going_B.any()):
                break
            if float(going_B.sum()) < DROP_BELOW * live_B.numel():
                chosen = going_B.nonzero().flatten()
                state.drop(chosen)
                live_B, ids_B = live_B[chosen], ids_B[chosen]
            state.step(ids_B)
        return _collect(ids, logps, keeps, budgets, ended_B.tolist(), self.end_id, self.version)

    def _context(self) -> AbstractContextManager[Any]:
        made: AbstractContextManager[Any] = self._autocast()
        return made


class _Decoding:
    """The cache and the next logits of the rows still being decoded."""

    def __init__(
        self, model: nn.Module, prompts: Sequence[Sequence[int]], pad_id: int, context: AbstractContextManager[Any]
    ) -> None:
        self._model, self._context = model, context
        device = next(model.parameters()).device
        distinct = list(dict.fromkeys(tuple(p) for p in prompts))
        place = {p: i for i, p in enumerate(distinct)}
        rows = torch.tensor([place[tuple(p)] for p in prompts], device=device)
        width = max(len(p) for p in distinct)
        ids = torch.tensor([[pad_id] * (width - len(p)) + list(p) for p in distinct], device=device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in distinct], device=device)
        self._padded = bool((mask == 0).any())
        self._position = mask.sum(dim=1)[rows]
        self._cache = DynamicCache(config=cast("Any", model).config)
        self._cache_name = _cache_argument(model)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        # one prefill per distinct prompt, then its cache is repeated for each rollout of it
        logits = self._forward(ids, mask, positions)
        self.logits_BV = logits[rows]
        self._mask = mask[rows]
        if rows.numel() != len(distinct):
            self._cache.batch_select_indices(rows)

    def step(self, ids_B: Tensor) -> None:
        """Feed one token per row."""
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self.logits_BV = self._forward(ids_B[:, None], self._mask, self._position[:, None])
        self._position = self._position + 1

    def drop(self, rows: Tensor) -> None:
        """Keep these rows alone."""
        self._cache.batch_select_indices(rows)
        self._mask, self._position, self.logits_BV = self._mask[rows], self._position[rows], self.logits_BV[rows]

    def _forward(self, ids: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        with self._context:
            out = self._model(
                input_ids=ids,
                attention_mask=mask if self._padded else None,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{self._cache_name: self._cache},
            )
        logits: Tensor = out.logits[:, -1]
        return logits


def _cache_argument(model: nn.Module) -> str:
    """Return what this release of transformers calls the cache: `cache` from 5.24 on."""
    inner = cast("Any", model).get_base_model() if hasattr(model, "peft_config") else model
    return "cache" if "cache" in inspect.signature(type(inner).forward).parameters else "past_key_values"


def _batches(lengths: Sequence[int], budgets: Sequence[int]) -> list[range]:
    """Cut rows into consecutive batches whose cache fits; one row alone may be larger."""
    out: list[range] = []
    start, width = 0, 0
    for i, (length, budget) in enumerate(zip(lengths, budgets, strict=True)):
        width = max(width, length + budget)
        if i > start and width * (i + 1 - start) > CACHE_TOKENS:
            out.append(range(start, i))
            start, width = i, length + budget
    return [*out, range(start, len(lengths))] if lengths else []


def _spread(x: Tensor, live_B: Tensor, rows: int, fill: float) -> Tensor:
    """Return values of the rows in the batch at their place among all rows."""
    if x.shape[0] == rows:
        return x
    out = torch.full((rows, *x.shape[1:]), fill, dtype=x.dtype, device=x.device)
    out[live_B] = x
    return out


def _collect(
    ids: list[Tensor], logps: list[Tensor], keeps: list[Tensor], budgets: Sequence[int], ended: list[bool],
    end_id: int, version: int,
) -> list[Generated]:  # fmt: skip
    """Cut each row at its end token or its budget."""
    ids_BT = torch.stack(ids, dim=1).cpu()
    logp_BT = torch.stack(logps, dim=1).cpu()
    keep_BTV8 = torch.stack(keeps, dim=1).cpu() if keeps else None
    out = []
    for row, budget in enumerate(budgets):
        tokens = ids_BT[row, :budget].tolist()
        n = tokens.index(end_id) + 1 if ended[row] else min(len(tokens), budget)
        keep = None if keep_BTV8 is None else keep_BTV8[row, :n].clone()
        out.append(Generated(tuple(tokens[:n]), tuple(logp_BT[row, :n].tolist()), ended[row], version, keep))
    return out
