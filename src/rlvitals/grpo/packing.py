"""Trajectories as tensors: right-padded ids, which tokens count, and micro-batches of equal work.

Position t of a (B, T) tensor belongs to the token at t + 1 of its row: the one that the logits at t predict. A causal
model never looks to the right, so padding there needs no attention mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlvitals.grpo.rollout import Trajectory

SHORTEST = 2  # tokens of a row: one to predict and one before it; the width of a tensor without rows


@dataclass(frozen=True)
class Packed:
    """Trajectories of one step on one device.

    ids_BL: prompt and everything after it, padded right; mask_BT: tokens that the policy wrote (T = L - 1);
    logp_sampler_BT: nats, 0 outside the mask; length_B: tokens of each row; keep: per row the packed sets of its
    counting tokens (tokens, V/8), empty when everything could be drawn.
    """

    ids_BL: Tensor
    mask_BT: Tensor
    logp_sampler_BT: Tensor
    length_B: Tensor
    keep: tuple[Tensor, ...] = ()

    @property
    def rows(self) -> int:
        return int(self.ids_BL.shape[0])

    def select(self, rows: Tensor) -> Packed:
        """Return some rows, cut to the longest of them."""
        longest = int(self.length_B[rows].max()) if rows.numel() else SHORTEST
        return Packed(
            self.ids_BL[rows, :longest],
            self.mask_BT[rows, : longest - 1],
            self.logp_sampler_BT[rows, : longest - 1],
            self.length_B[rows],
            tuple(self.keep[i] for i in rows.tolist()) if self.keep else (),
        )

    def keep_NV8(self) -> Tensor | None:
        """Return the sets of all counting tokens in row order, None when everything could be drawn."""
        return torch.cat(self.keep).to(self.ids_BL.device) if self.keep else None


def pack(trajectories: Sequence[Trajectory], pad_id: int, device: torch.device) -> Packed:
    """Return trajectories as tensors; every token that the policy wrote counts, the end token included.

    There may be none: of several processes one may have kept no group.
    """
    longest = max((len(t.prompt_ids) + len(t.ids) for t in trajectories), default=SHORTEST)
    rows = len(trajectories)
    # filled as arrays: a tensor per row would take longer than a small model's whole pass
    ids_BL = np.full((rows, longest), pad_id, dtype=np.int64)
    mask_BT = np.zeros((rows, longest - 1), dtype=np.bool_)
    logp_BT = np.zeros((rows, longest - 1), dtype=np.float32)
    lengths = []
    for i, t in enumerate(trajectories):
        start, end = len(t.prompt_ids), len(t.prompt_ids) + len(t.ids)
        ids_BL[i, :end] = [*t.prompt_ids, *t.ids]
        mask_BT[i, start - 1 : end - 1] = t.counts
        logp_BT[i, start - 1 : end - 1] = t.logp
        lengths.append(end)
    keep = tuple(torch.cat(t.keep_packed) for t in trajectories) if all(t.keep_packed for t in trajectories) else ()
    ids, mask, logp = (torch.from_numpy(x).to(device) for x in (ids_BL, mask_BT, logp_BT))
    return Packed(ids, mask, logp, torch.tensor(lengths, dtype=torch.long, device=device), keep)


def micro_batches(length_B: Tensor, rows: Tensor, micro_tokens: int) -> list[Tensor]:
    """Return the rows in parts of at most micro_tokens padded tokens (a single row may be longer).

    Rows of like length go together: on ragged batches most padding goes away. The loss of a step does not depend on
    the cut, because every part is divided by the counts of the whole.
    """
    order = rows[torch.argsort(length_B[rows], stable=True)]
    lengths = length_B[order].tolist()
    parts: list[Tensor] = []
    start = 0
    for i, length in enumerate(lengths):  # ascending: the row at hand is the longest of its part
        padded = length * (i + 1 - start)
        wasteful = i > start and length > 2 * lengths[start] and padded > micro_tokens // 8
        if i > start and (padded > micro_tokens or wasteful):
            parts.append(order[start:i])
            start = i
    return [*parts, order[start:]] if lengths else []
