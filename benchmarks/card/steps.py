"""Whole steps of our trainer: sampling, scoring and update, with and without what costs memory or time."""

from __future__ import annotations

import copy
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.card.meter import Meter, release, wait
from benchmarks.card.setup import GROUP, Shape, new_task, settings
from rlvitals.grpo import packing, update
from rlvitals.grpo import score as scoring
from rlvitals.grpo.collect import collect
from rlvitals.grpo.loop import one_step
from rlvitals.grpo.models import Policy
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.reference import Reference
from rlvitals.grpo.rollout import Trajectory
from rlvitals.grpo.run import Run, open_run

BOOK: dict[int, dict[str, Any]] = {  # completion tokens of 8 rollouts -> what chapter 7 and its companion code say
    1024: {"memory_gb": [30.50, 43.35], "tokens_per_s": 47, "step_s": 101},
    512: {"memory_gb": [20.31]},
    256: {"memory_gb": [15.60]},
}


@dataclass(frozen=True)
class Case:
    """One measured step. prompts: of 8 rollouts each; budget: completion tokens; fresh: sample anew."""

    prompts: int
    budget: int
    reference: bool = False
    checkpointing: bool = False
    micro_tokens: int = 16_384
    fresh: bool = True

    @property
    def name(self) -> str:
        more = [w for w, on in (("reference", self.reference), ("checkpointing", self.checkpointing)) if on]
        more += [f"micro {self.micro_tokens}"] if self.micro_tokens != 16_384 else []
        return " ".join([f"{self.prompts}x{GROUP}x{self.budget}", *more])


@dataclass
class Rollouts:
    """Samples each size once, and hands the same rollouts to later cases: they differ in scoring and update alone."""

    kept: dict[tuple[int, int], list[Trajectory]] = field(default_factory=dict)
    again: bool = False

    def collect(self, task: Any, items: Any, group_size: int, sampler: Any, tokenizer: Any, sampling: Any,
                seed: int, **more: Any) -> list[Trajectory]:  # fmt: skip
        key = (len(items), sampling.max_tokens)
        if self.again or key not in self.kept:
            self.kept[key] = collect(task, items, group_size, sampler, tokenizer, sampling, seed, **more)
        return [copy.copy(t) for t in self.kept[key]]


class _TimedReference(Reference):
    """The reference, whose passes count as a part."""

    meter: Meter

    def score(self, *args: Any) -> torch.Tensor | None:
        scored: torch.Tensor | None = self.meter.timed("reference", super().score)(*args)
        return scored


def opened(case: Case, policy: Policy, shape: Shape, meter: Meter, rollouts: Rollouts, folder: Path) -> Run:
    """Return a run on the policy as it is now, every part of which is timed."""
    kind = type("Timed", (_TimedReference,), {"meter": meter})
    parts = replace(
        Parts(),
        model=lambda _: policy,
        task=lambda *_: new_task(shape),
        held_out=lambda *_: new_task(shape),
        reference=kind,
        collect=meter.timed("sampling", rollouts.collect),
        pack=meter.timed("scoring", packing.pack),
        score=meter.timed("scoring", scoring.score),
        update=meter.timed("update", update.update),
    )
    config = settings(
        budget=case.budget, prompts=case.prompts, reference_reset=0 if case.reference else -1,
        checkpoint_activations=case.checkpointing, micro_tokens=case.micro_tokens,
    )  # fmt: skip
    return open_run(config, parts, folder)


def measure(case: Case, policy: Policy, shape: Shape, rollouts: Rollouts) -> dict[str, Any]:
    """Return what one step of a case took, as it ships: every log and every rollout is written."""
    device = next(policy.model.parameters()).device
    meter = Meter(device)
    rollouts.again = case.fresh
    with tempfile.TemporaryDirectory() as folder:
        run = opened(case, policy, shape, meter, rollouts, Path(folder) / "run")
        try:
            meter.clear()  # the set-up is no part of a step
            began = time.perf_counter()
            row, _ = one_step(run)
            wait(device)
            step_s = time.perf_counter() - began
        finally:
            for file in (run.log, run.rollouts):
                if file is not None:
                    file.close()
        played = rollouts.kept[(case.prompts, case.budget)]
        found = result(case, meter, played, step_s)
    found["logged_tokens_per_second"] = round(row["tokens_per_second"], 1)
    del run
    release(device)
    return found


def result(case: Case, meter: Meter, played: list[Trajectory], step_s: float) -> dict[str, Any]:
    """Return times, rates and memory of a step; rates of sampling and of the step are None where nothing was sampled.

    Completion tokens a second for sampling and the whole step; prompt tokens too for scoring and update, which read
    them.
    """
    written = sum(t.tokens for t in played)
    read = written + sum(len(t.prompt_ids) for t in played)
    seconds = {n: meter.seconds.get(n, 0.0) for n in ("sampling", "scoring", "reference", "update")}
    return {
        "case": case.name, "rollouts": len(played), "tokens": written, "length_mean": written / len(played),
        "sampled": case.fresh, "reference": case.reference, "checkpointing": case.checkpointing,
        "micro_tokens": case.micro_tokens,
        "seconds": {n: round(v, 3) for n, v in seconds.items()},
        "rest_s": round(step_s - sum(seconds.values()), 3), "step_s": round(step_s, 3),
        "tokens_per_s": round(written / step_s, 1) if case.fresh else None,
        "sampling_tokens_per_s": round(written / seconds["sampling"], 1) if case.fresh else None,
        "scoring_tokens_per_s": round(read / seconds["scoring"]),
        "update_tokens_per_s": round(read / seconds["update"]),
        **meter.memory(),
        "chapter7": BOOK.get(case.budget) if case.prompts == 1 else None,
    }  # fmt: skip
