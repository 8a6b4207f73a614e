"""Several processes as one trainer, through accelerate: shares of the prompts, sums over all, one gradient.

    torchrun --nproc-per-node 2 -m rlvitals train ...                                                    # DDP
    ACCELERATE_USE_FSDP=true FSDP_VERSION=2 torchrun --nproc-per-node 2 -m rlvitals train ...            # FSDP2

Each process samples and scores its own share of the prompts. Losses are divided by counts of the whole step, summed
over the processes, so two processes make the update of one. The wrapper (DDP, FSDP2) comes from accelerate's own
configuration. Under FSDP2 weights, gradients and optimizer state are sharded during the update; sampling and scoring
hold every weight, because processes that sample answers of unlike lengths cannot wait for each other at each token.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlvitals.errors import InputError, Problem


class Parallel:
    """The processes that train together: one by default.

    Args:
        accelerator: accelerate.Accelerator, None for a single process.
    """

    def __init__(self, accelerator: Any = None) -> None:
        self._accelerator = accelerator
        self.world: int = accelerator.num_processes if accelerator is not None else 1
        self.rank: int = accelerator.process_index if accelerator is not None else 0
        self.shards = self.world > 1 and _shards(accelerator)

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
        if self.shards:
            _meet(wrapped)
        return wrapped, wrapped_optimizer

    @contextmanager
    def whole(self, policy: nn.Module) -> Iterator[None]:
        """Hold every weight in this process for a while, so that no pass waits for another process.

        All processes enter together.
        """
        if not self.shards:
            yield
            return
        units = [cast("Any", m) for m in policy.modules() if hasattr(m, "unshard")]
        root, again = cast("Any", policy), bool(self._accelerator.state.fsdp_plugin.reshard_after_forward)
        root.set_reshard_after_forward(False)
        for unit in units:
            unit.unshard()
        try:
            yield
        finally:
            for unit in units:
                unit.reshard()
            root.set_reshard_after_forward(again)
            root.set_reshard_after_forward(False, recurse=False)  # its backward pass begins at once

    def gathered(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the optimizer's state with every shard gathered, on the CPU where there are shards.

        All processes take part; those that do not write get an empty one.
        """
        state: dict[str, Any] = optimizer.state_dict()
        if not self.shards:
            return state
        moments: dict[int, dict[str, Any]] = {}
        for number, entry in state["state"].items():
            full = {k: v.full_tensor() if hasattr(v, "full_tensor") else v for k, v in entry.items()}
            if self.main:
                moments[number] = {k: v.cpu() if isinstance(v, Tensor) else v for k, v in full.items()}
        return {**state, "state": moments} if self.main else {}

    def divided(self, state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> Mapping[str, Any]:
        """Return an optimizer's whole state cut as its parameters are; what has no shards is returned as it is."""
        if not self.shards:
            return state
        from torch.distributed.tensor import DTensor, distribute_tensor

        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        moments: dict[int, dict[str, Any]] = {}
        for number, entry in state["state"].items():
            like = parameters[number]
            cut = isinstance(like, DTensor)
            moments[number] = {
                k: distribute_tensor(v.to(self.device()), like.device_mesh, like.placements)
                if cut and isinstance(v, Tensor) and v.shape == like.shape
                else v
                for k, v in entry.items()
            }
        return {**state, "state": moments}

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

    def share_weights(self, model: nn.Module) -> None:
        """Give every process the first one's weights."""
        if self.world > 1:
            for weight in model.parameters():
                torch.distributed.broadcast(weight.data, 0)

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


def weights(module: nn.Module) -> dict[str, Tensor]:
    """Return what `state_dict` names, as it is held now: under FSDP2 `state_dict` itself gives shards at any time."""
    state = {n: p.detach() for n, p in module.named_parameters(remove_duplicate=False)}
    for prefix, part in module.named_modules():
        kept = {n: b for n, b in part.named_buffers(recurse=False) if n not in part._non_persistent_buffers_set}
        state |= {f"{prefix}.{n}" if prefix else n: b for n, b in kept.items()}
    return state


def _shards(accelerator: Any) -> bool:
    """Return whether accelerate shards the weights. Raises InputError for FSDP's first version."""
    if str(accelerator.distributed_type) != "DistributedType.FSDP":
        return False
    plugin = accelerator.state.fsdp_plugin
    if plugin.fsdp_version != 2:
        raise InputError(
            Problem("FSDP's first version flattens weights and cannot sample in this process", "FSDP_VERSION",
                    str(plugin.fsdp_version), "2", "Set FSDP_VERSION=2, or fsdp_version: 2 in accelerate's file")
        )  # fmt: skip
    plugin.cpu_ram_efficient_loading = False  # every process has loaded the weights already, tied ones included
    return True


@torch.no_grad()
def _meet(policy: nn.Module) -> None:
    """Make one pass, in which the units of a sharded model get to know the outermost one."""
    device = next(policy.parameters()).device
    policy(torch.zeros(1, 2, dtype=torch.long, device=device), torch.ones(1, 1, dtype=torch.bool, device=device), 1.0)
