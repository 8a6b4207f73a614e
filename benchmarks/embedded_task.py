"""What GRPO learns on the embedded tasks: python benchmarks/embedded_task.py [--task SPEC] [--seeds 0 1 2]

Held-out accuracy, greedy and at temperature 1, before and during training. On sums it is split into those with a carry,
which the warm start's demonstrations say nothing about, and those without. CPU seconds are those of training alone, one
thread; the warm start is timed apart. `--recipe '{"carry_shown": 0.5}'` changes the warm start.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from rlvitals.env import VerifierStatus
from rlvitals.grpo import tiny
from rlvitals.grpo.collect import collect
from rlvitals.grpo.config import Config
from rlvitals.grpo.loop import Row, train
from rlvitals.grpo.models import Policy
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.run import Run, open_run
from rlvitals.grpo.tasks.options import name_of

LOOK_AT = (10, 20, 40, 60, 80, 120, 160, 200)
SEED = 999  # of the samples at temperature 1


@dataclass(frozen=True, slots=True)
class Shares:
    """Right answers, as shares, of items with and without a carry and of all of them."""

    carry: float
    plain: float
    every: float


def shares(run: Run, *, greedy: bool) -> Shares:
    """Return the accuracy on all held-out items, one sample each."""
    sampling = replace(run.sampling, greedy=greedy)
    made = collect(run.held_out, run.held_out.held_out, 1, run.eval_sampler, run.tokenizer, sampling, SEED)

    def share(kept: list[bool]) -> float:
        return sum(kept) / len(kept) if kept else float("nan")

    right = [(t.status is VerifierStatus.RIGHT, bool(t.item.extra.get("carries"))) for t in made]
    return Shares(
        share([r for r, c in right if c]), share([r for r, c in right if not c]), share([r for r, _ in right])
    )


class Looks:
    """Evaluates at fixed steps and keeps the CPU time of that out of the training time."""

    def __init__(self) -> None:
        self.began = time.process_time()
        self.away = 0.0

    def __call__(self, run: Run, row: Row, held_out: object) -> None:
        if run.step in LOOK_AT:
            self.show(run, row.get("reward_mean", float("nan")))

    def show(self, run: Run, reward: float) -> None:
        now = time.process_time()
        greedy, sampled = shares(run, greedy=True), shares(run, greedy=False)
        print(
            f"{run.step:4d} {now - self.began - self.away:7.1f} {reward:7.3f}"
            f" {greedy.every:7.3f} {greedy.carry:7.3f} {greedy.plain:7.3f}"
            f" {sampled.every:9.3f} {sampled.carry:7.3f} {sampled.plain:7.3f}",
            flush=True,
        )
        self.away += time.process_time() - now


def one_seed(config: Config, recipe: tiny.Recipe) -> None:
    model, tokenizer = tiny.load(recipe)
    parts = Parts(model=lambda _: Policy(model, tokenizer, identity=f"tiny-{recipe.key}"))
    with tempfile.TemporaryDirectory() as folder:
        before = Looks()
        before.show(open_run(config, parts, Path(folder) / "before"), float("nan"))
        train(config, parts, folder=Path(folder) / "run", watch=(Looks(),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="arithmetic")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--recipe", default="{}", help="fields of the warm start's recipe, JSON")
    parser.add_argument("--set", default="{}", help="fields of the training config, JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    recipe = replace(tiny.recipe_for(args.task), **json.loads(args.recipe))
    fresh = time.process_time()
    tiny.load(recipe)
    print(f"{name_of(args.task)}, warm start made or read in {time.process_time() - fresh:.1f} CPU s, {recipe}")
    for seed in args.seeds:
        print(f"seed {seed}: step, CPU s, reward, greedy (all, carry, none), temperature 1 (all, carry, none)")
        base = Config(task=args.task, steps=args.steps, seed=seed, eval_every=0, save_every=10_000)
        one_seed(replace(base, **json.loads(args.set)), recipe)


if __name__ == "__main__":
    main()
