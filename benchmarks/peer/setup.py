"""What both trainers get, and what is measured of either: one place, so that neither is given anything of its own."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvitals.grpo.collect import collect
from rlvitals.grpo.config import Config
from rlvitals.grpo.distributed import launched
from rlvitals.grpo.evaluate import evaluate
from rlvitals.grpo.models import Policy, load_policy
from rlvitals.grpo.parts import local_sampler
from rlvitals.grpo.rollout import Sampling
from rlvitals.grpo.score import Policy as Scored
from rlvitals.grpo.tasks.base import Task

MB = 1e6
UNTIMED = 3  # first steps of a run that are not timed: lazy imports, first allocations


@dataclass(frozen=True)
class Work:
    """One piece of work. model: "tiny" or a folder; budget: tokens of a completion; eval_every: steps, 0 for none."""

    task: str
    model: str
    budget: int
    steps: int
    prompts: int = 16
    group_size: int = 8
    lr: float = 3e-4
    seed: int = 0
    eval_every: int = 0
    score_every: int = 1  # steps from one scoring pass of ours to the next; TRL makes none on this work
    coin: bool = False  # pay by a hash of the answer: a policy that knows nothing still has groups with mixed rewards

    @property
    def config(self) -> Config:
        """Our settings: clip 0.2, token mean, one optimizer step per batch, no reference (recipe bnpo, as TRL's)."""
        recipe = "bnpo" if self.score_every == 1 else f"bnpo:score_every={self.score_every}"
        return Config(
            recipe=recipe, task=self.task, model=self.model, steps=self.steps, seed=self.seed, prompts=self.prompts,
            group_size=self.group_size, max_tokens=self.budget, minibatches=1, lr=self.lr, reference_reset=-1,
            eval_every=0, save_every=100_000, dead_steps=0,
        )  # fmt: skip


def coin(text: str) -> float:
    """Return 0 or 1, the same for the same text."""
    return float(zlib.crc32(text.encode()) & 1)


@dataclass
class Marks:
    """Times of the steps, evaluations left out, and the parts of a step in seconds of CPU."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    lengths: list[float] = field(default_factory=list)
    held_out: list[tuple[int, float, float]] = field(default_factory=list)  # (step, CPU s of training, score)
    away: tuple[float, float] = (0.0, 0.0)  # CPU and wall seconds of evaluations so far
    began: float = 0.0  # CPU time at the start of training

    def step(self, length: float) -> None:
        """Note the end of a step; length is the mean of its completions in tokens."""
        self.cpu.append(time.process_time() - self.away[0])
        self.wall.append(time.perf_counter() - self.away[1])
        self.lengths.append(length)
        if len(self.cpu) == UNTIMED:
            self.parts.clear()

    def timed(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose CPU time counts for a part."""

        def outer(*args: Any, **more: Any) -> Any:
            began = time.process_time()
            try:
                return inner(*args, **more)
            finally:
                self.parts[name] = self.parts.get(name, 0.0) + time.process_time() - began

        return outer

    def look(self, step: int, model: Any, tokenizer: Any, task: Task, budget: int) -> None:
        """Score all held-out items once at temperature 1; its time is no training time."""
        cpu, wall = time.process_time(), time.perf_counter()
        found = evaluate(task, 256, local_sampler(Scored(model), tokenizer), tokenizer, Sampling(max_tokens=budget),
                         launched(), collect)  # fmt: skip
        self.held_out.append((step, cpu - self.away[0] - self.began, found.score))
        self.away = (self.away[0] + time.process_time() - cpu, self.away[1] + time.perf_counter() - wall)

    def start(self) -> None:
        """Note the start of training."""
        self.began = time.process_time() - self.away[0]

    def result(self, work: Work, before_mb: float) -> dict[str, Any]:
        """Return what was measured, per step and per trajectory."""
        timed = len(self.cpu) - UNTIMED
        cpu, wall = self.cpu[-1] - self.cpu[UNTIMED - 1], self.wall[-1] - self.wall[UNTIMED - 1]
        rollouts = work.prompts * work.group_size
        return {
            "trajectories_per_cpu_s": rollouts * timed / cpu,
            "trajectories_per_s": rollouts * timed / wall,
            "cpu_s_per_step": cpu / timed,
            "length_mean": sum(self.lengths[UNTIMED:]) / timed,
            "parts_cpu_s_per_step": {n: v / timed for n, v in self.parts.items()},
            "peak_mb": status_mb("VmHWM"),
            "extra_mb": status_mb("VmHWM") - before_mb,
            "held_out": self.held_out,
        }


def load(work: Work) -> Policy:
    """Return the policy that both start from."""
    return load_policy(work.model, task=work.task)


def status_mb(key: str) -> float:
    """Return a line of this process's memory in MB (10**6 bytes): VmRSS now, VmHWM the peak."""
    line = next(
        row for row in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if row.startswith(key)
    )
    return int(line.split()[1]) * 1024 / MB


def forget_peak() -> float:
    """Reset the peak of resident memory; return what is held now, MB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return status_mb("VmRSS")
