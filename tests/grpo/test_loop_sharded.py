"""Two processes that shard weights, gradients and optimizer state make the update of one, and resume from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rlvitals.errors import InputError
from rlvitals.grpo import distributed
from rlvitals.grpo.loop import train
from rlvitals.grpo.remote import merged_weights
from tests.grpo.loops import PARTS, config, one_thread, rows, untrained
from tests.grpo.processes import two_processes

SETTINGS = {"lr": 1e-3, "save_every": 1, "micro_tokens": 40}
UNLIKE = ("ratio", "clip", "kl_old_new", "extra/ratio", "extra/optim")  # near 0 or 1: rounding alone


def sharded(folder: Path, how: str, **settings: object) -> None:
    """Train in two processes; how: "whole" or "resume"."""
    given = [f"{k}={v}" for k, v in settings.items()]
    two_processes("-m", "tests.grpo.sharded", str(folder), how, *given)


def apart(one: Path, two: Path, step: int) -> float:
    name = f"checkpoints/checkpoint-{step}/model.safetensors"
    a, b = load_file(one / name), load_file(two / name)
    assert a.keys() == b.keys()
    return max(float((a[n] - b[n]).abs().max()) for n in a)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sharded_processes_make_the_update_of_one_and_resume(tmp_path: Path) -> None:
    settings = {**SETTINGS, "recipe": "grpo", "reference_reset": 2}
    one, two = tmp_path / "one", tmp_path / "two"
    sharded(two, "whole", steps=2, **settings)
    sharded(two, "resume", steps=4, **settings)
    one_thread()
    train(config(steps=4, **settings), PARTS, folder=one)
    assert max(apart(one, two, step) for step in (1, 2, 3, 4)) < 1e-6
    assert [r["step"] for r in rows(two)] == [0, 1, 2, 3, 4]
    for a, b in zip(rows(one), rows(two), strict=True):
        same = [k for k in a if not k.startswith(UNLIKE)]
        assert {k: b[k] for k in same} == pytest.approx({k: a[k] for k in same}, abs=1e-4)

    # a checkpoint holds everything whole: one process goes on from it as well
    for step in (3, 4):
        (two / f"checkpoints/checkpoint-{step}/state.json").unlink()
    train(config(steps=4, **settings), PARTS, folder=two, resume=True)
    assert apart(one, two, 4) < 1e-6


def test_weights_as_they_are_held_are_those_of_the_state() -> None:
    model = untrained(config()).model
    model.register_buffer("kept", torch.ones(2))
    model.register_buffer("scratch", torch.ones(2), persistent=False)
    found, expected = distributed.weights(model), model.state_dict()
    assert found.keys() == expected.keys() == merged_weights(model).keys()
    assert all(torch.equal(found[n], expected[n]) for n in expected)


def test_the_first_version_is_refused() -> None:
    class Plugin:
        fsdp_version = 1

    class State:
        fsdp_plugin = Plugin()

    class Accelerator:
        num_processes, process_index, distributed_type, state = 2, 0, "DistributedType.FSDP", State()

    with pytest.raises(InputError, match="FSDP_VERSION"):
        distributed.Parallel(Accelerator())
