"""Several processes as one trainer, through accelerate: shares of the prompts, sums over all, one gradient.

    torchrun --nproc-per-node 2 -m rlvitals train ...        # DDP
    accelerate launch --config_file fsdp2.yaml -m rlvitals train ... --set sampler=URL

Each process samples and scores its own share of the prompts. Losses are divided by counts of the whole step, summed
over the processes, so two processes make the update of one. The wrapper (DDP, FSDP2) comes from accelerate's own
configuration; a sharded model cannot sample in this process, so FSDP2 needs a sampling server. FSDP2 is untested.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Parallel:
    """The processes that train together: one by default.

    Args:
        accelerator: accelerate.Accelerator, None for a single process.
    """

    def __init__(self, accelerator: Any = None) -> None:
        self._accelerator = accelerator
        self.world: int = accelerator.num_processes if accelerator is not None else 1
        self.rank: int = accelerator.process_index if accelerator is not None else 0

    @property
    def main(self) -> bool:
        """True for the process that writes."""
        return self.rank == 0

    def device(self) -> torch.device:
        """Return where this process computes."""
        if self._accelerator is not None:
            return torch.device(self._accelerator.device)
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def prepare(self, policy: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Return policy and optimizer wrapped for the processes at hand."""
        if self._accelerator is None or self.world == 1:
            return policy, optimizer
        wrapped, wrapped_optimizer = self._accelerator.prepare(policy, optimizer)
        return wrapped, wrapped_optimizer

    def share(self, count: int) -> range:
        """Return which of `count` prompts are this process's: equal consecutive shares."""
        return range(self.rank * count // self.world, (self.rank + 1) * count // self.world)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over processes, elementwise."""
        if self.world == 1:
            return values
        moved = values.to(self.device())
        torch.distributed.all_reduce(moved)
        return moved.to(values.device)

    def total(self, value: int) -> int:
        """Return the sum of a count over processes."""
        return int(self.sum(torch.tensor(float(value), dtype=torch.float64)))

    def largest(self, value: int) -> int:
        """Return the largest of the processes' values."""
        if self.world == 1:
            return value
        moved = torch.tensor(value, device=self.device())
        torch.distributed.all_reduce(moved, op=torch.distributed.ReduceOp.MAX)
        return int(moved)

    def gather(self, value: Any) -> list[Any]:
        """Return what each process holds, in rank order, on every process."""
        if self.world == 1:
            return [value]
        held: list[Any] = [None] * self.world
        torch.distributed.all_gather_object(held, value)
        return held

    def clip(self, parameters: Sequence[nn.Parameter], limit: float) -> float:
        """Scale gradients to a norm of at most `limit`; return the norm before, over all shards."""
        norm = nn.utils.clip_grad_norm_(parameters, limit, foreach=True)
        full = norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # FSDP2 keeps it sharded
        return float(full)

    def wait(self) -> None:
        """Return once every process is here."""
        if self.world > 1:
            torch.distributed.barrier()


def launched() -> Parallel:
    """Return the processes that torchrun or `accelerate launch` started, one where neither did."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Parallel()
    from accelerate import Accelerator
    from accelerate.utils import DistributedDataParallelKwargs

    # buffers of a causal LM are constants: nothing to broadcast in each pass
    return Parallel(Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=False)]))
