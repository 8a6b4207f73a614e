"""FSDP2 on CPU processes, for tests: accelerate itself shards on graphics cards alone and takes DDP on a CPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import accelerate

from rlvitals.grpo.config import with_settings
from rlvitals.grpo.loop import train
from rlvitals.grpo.update import Trainer, UpdateStats, update
from tests.grpo.loops import CONFIG, PARTS, one_thread


def shard_on_cpu() -> None:
    """Make `launched` see what accelerate would choose on cards under ACCELERATE_USE_FSDP=true FSDP_VERSION=2."""
    from accelerate.state import AcceleratorState
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    new = accelerate.Accelerator

    def made(*args: Any, **more: Any) -> accelerate.Accelerator:
        found = new(*args, **more)
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="transformer_based_wrap")
        AcceleratorState._shared_state.update(distributed_type=DistributedType.FSDP, fsdp_plugin=plugin)
        return found

    accelerate.Accelerator = made


def checked_update(trainer: Trainer, *args: Any) -> UpdateStats:
    """Make the update and see that weights and the optimizer's moments are cut in two."""
    found = update(trainer, *args)
    parameters = list(trainer.policy.parameters())
    whole = sum(p.numel() for p in parameters)
    held = sum(p.to_local().numel() for p in parameters)
    moments = sum(entry["exp_avg"].to_local().numel() for entry in trainer.optimizer.state_dict()["state"].values())
    assert 0.4 * whole < held == moments < 0.6 * whole, (whole, held, moments)
    assert sum(hasattr(m, "unshard") for m in trainer.policy.modules()) > 1  # each layer is a unit of its own
    return found


def main(folder: str, how: str, *settings: str) -> None:
    """Train with settings, "whole" or as a "resume"."""
    one_thread()
    shard_on_cpu()
    planned = with_settings(CONFIG, dict(s.split("=") for s in settings))
    train(planned, replace(PARTS, update=checked_update), folder=Path(folder), resume=how == "resume")


if __name__ == "__main__":
    main(*sys.argv[1:])
