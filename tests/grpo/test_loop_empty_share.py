"""Of several processes one may keep no group in a step: it trains on no row and meets the others all the same."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from rlvitals.env import Item, Message, Step, VerifierStatus
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.kl import Estimator, KlTerm, Place
from rlvitals.grpo.loop import train
from rlvitals.grpo.packing import pack
from rlvitals.grpo.ratiostats import RatioStats
from rlvitals.grpo.recipes import RECIPES, policy_loss
from rlvitals.grpo.reference import Reference
from rlvitals.grpo.score import Policy, divergence, score
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.update import StepData, Trainer, live_rows, new_optimizer, update
from tests.grpo.loops import PARTS, HasSeven, config, items, one_thread, rows, untrained
from tests.grpo.processes import two_processes
from tests.grpo.sharded import shard_on_cpu

CPU = torch.device("cpu")
NEEDS = {"epochs": 1, "minibatches": 1, "steps": 3, "save_every": 3, "prompts": 2, "resample_tries": 3, "lr": 1e-3}


class Odd(HasSeven):
    """Pays for the items of odd number alone: the groups of the others are tied."""

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        self._odd = int(item.id.rpartition("-")[2]) % 2 == 1
        return item.messages

    def step(self, text: str) -> Step:
        right = self._odd and "7" in text
        return Step((), {"correct": float(right)}, text, VerifierStatus.RIGHT if right else VerifierStatus.WRONG)


def odd(settings: Any, tokenizer: Any) -> Task:
    return Task("odd", Odd.version, items(0, 24), items(100, 4), Odd, max_new_tokens=6)


class Other(Parallel):
    """One of two processes; the other one has 4 sequences of 20 tokens in 3 micro-batches."""

    def __init__(self) -> None:
        super().__init__()
        self.world = 2

    def sum(self, values: Tensor) -> Tensor:
        return values + torch.tensor([4.0, 20.0]) if values.numel() == 2 else values

    def largest(self, value: int) -> int:
        return max(value, 3)

    def gather(self, value: Any) -> list[Any]:
        return [value, RatioStats(count=2, total=2.5, low=1.0, high=1.5, tokens=2)]


def test_no_trajectories_are_packed_scored_and_selected() -> None:
    policy = Policy(untrained(config()).model)
    packed = pack([], 0, CPU)
    assert (packed.rows, packed.keep_NV8(), packed.length_B.dtype) == (0, None, torch.long)
    none = torch.zeros(0, dtype=torch.long)
    assert packed.select(none).mask_BT.shape == packed.mask_BT.shape == (0, 1)
    scores, reference = score(policy, packed, 1.0, 100), Reference(policy)
    for found in (scores.logp_BT, scores.entropy_BT, reference.score(packed, 1.0, 100),
                  divergence(policy, reference.head, packed, 1.0, 100)):  # fmt: skip
        assert found is not None
        assert found.shape == (0, 1)
    assert live_rows(RECIPES["dapo"], scores.logp_BT, none).numel() == 0


@pytest.mark.parametrize("term", [None, KlTerm(Estimator.EXACT, Place.LOSS, 0.1)])
def test_a_process_without_rows_makes_every_pass_and_adds_nothing(term: KlTerm | None) -> None:
    one_thread()
    policy = Policy(untrained(config()).model)
    passes: list[tuple[int, ...]] = []
    policy.register_forward_pre_hook(lambda _, given: passes.append(tuple(given[0].shape)))
    trainer = Trainer(policy, new_optimizer(policy, 1e-2), config(epochs=1, minibatches=1), Other())
    before = torch.cat([p.detach().flatten() for p in policy.parameters()])
    packed, empty_BT = pack([], 0, CPU), torch.zeros(0, 1)
    head = None if term is None else Reference(policy).head
    data = StepData(packed, torch.arange(4), 4, empty_BT, empty_BT, empty_BT, torch.zeros(0), head)
    stats = update(trainer, replace(RECIPES["dapo"], kl_term=term), data, 1, policy_loss)
    assert passes == [(1, 2)] * 3
    assert (stats.grad_norms, trainer.updates, trainer.version) == ([0.0], 1, 1)
    # the first step of an optimizer without momentum yet: a gradient of 0 leaves every weight where it was
    assert torch.equal(before, torch.cat([p.detach().flatten() for p in policy.parameters()]))
    assert (stats.every.count, stats.every.mean, stats.first.high) == (2, 1.25, 1.5)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "recipe"), [("replicated", "default"), ("sharded", "olmo3:kl=exact,score_every=2")])
def test_two_processes_of_which_one_keeps_nothing_make_the_run_of_one(mode: str, recipe: str, tmp_path: Path) -> None:
    two_processes(str(Path(__file__)), str(tmp_path / "two"), mode, recipe)
    one_thread()
    train(settings_of(recipe), replace(PARTS, task=odd), folder=tmp_path / "one")
    assert (tmp_path / "two" / "empty").is_file()
    last = "checkpoints/checkpoint-3/model.safetensors"
    one, two = load_file(tmp_path / "one" / last), load_file(tmp_path / "two" / last)
    assert max(float((one[n] - two[n]).abs().max()) for n in one) < 1e-6
    for a, b in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert b == pytest.approx(a, abs=1e-4)


def settings_of(recipe: str) -> Any:
    return config(recipe=recipe, kl_coef=0.1 if "kl=" in recipe else -1.0, **NEEDS)


def main(folder: str, mode: str, recipe: str) -> None:
    """Train in this process, one of two, and leave a file `empty` where a process had no row."""
    one_thread()
    if mode == "sharded":
        shard_on_cpu()

    def noting(trajectories: Any, pad_id: int, device: torch.device) -> Any:
        if not trajectories:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / "empty").touch()
        return pack(trajectories, pad_id, device)

    train(settings_of(recipe), replace(PARTS, task=odd, pack=noting), folder=Path(folder))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(*sys.argv[1:])
