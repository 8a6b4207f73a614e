"""TRL's GRPOTrainer on the same model, batch and loss on the card; what costs and can be off is off."""

from __future__ import annotations

import itertools
import tempfile
import time
from typing import Any

import torch

from benchmarks.card.meter import Meter, release, wait
from benchmarks.card.setup import GROUP, Shape, new_policy, prompts

PASS_ROWS = 32  # rollouts of one forward pass at most: near the 16,384 padded tokens of ours at 256 + 128 tokens


def settings(count: int, budget: int, folder: str, *, cpu: bool, checkpointing: bool) -> Any:
    """Return TRL's names for our settings; mixed precision over float32 weights on a card."""
    from trl import GRPOConfig

    rollouts = count * GROUP
    size = min(rollouts, PASS_ROWS)
    return GRPOConfig(
        output_dir=folder, use_cpu=cpu, report_to="none", disable_tqdm=True, seed=0, bf16=not cpu,
        per_device_train_batch_size=size, gradient_accumulation_steps=rollouts // size, num_generations=GROUP,
        max_completion_length=budget, temperature=1.0, top_p=1.0, top_k=0, beta=0.0, epsilon=0.2, loss_type="bnpo",
        learning_rate=1e-6, adam_beta1=0.9, adam_beta2=0.95, weight_decay=0.0, max_grad_norm=1.0,
        lr_scheduler_type="constant", max_steps=1, logging_steps=1, save_strategy="no",
        gradient_checkpointing=checkpointing, dataloader_pin_memory=False,
    )  # fmt: skip


def by_turns(completions: list[str], **_: object) -> list[float]:
    """Return 0 and 1 in turn, as our task pays."""
    return [float(i % 2) for i in range(len(completions))]


def measure(
    shape: Shape, device: torch.device, count: int, budget: int, *, checkpointing: bool = False
) -> dict[str, Any]:
    """Return what one step of `count` prompts took, the set-up left out."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    meter, policy = Meter(device), new_policy(shape, device)
    marks: dict[str, Any] = {}

    class Watch(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            wait(device)
            meter.clear()
            marks["began"] = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            wait(device)
            marks["seconds"] = time.perf_counter() - marks["began"]

        def on_log(self, *args: Any, logs: Any = None, **_: Any) -> None:
            marks["length"] = logs.get("completions/mean_length", marks.get("length"))

    rows = [{"prompt": p} for p in prompts(shape, max(count, 4))]
    with tempfile.TemporaryDirectory() as folder:
        trainer: Any = GRPOTrainer(
            model=policy.model, reward_funcs=[by_turns], processing_class=policy.tokenizer, callbacks=[Watch()],
            args=settings(count, budget, folder, cpu=device.type == "cpu", checkpointing=checkpointing),
            train_dataset=Dataset.from_list(rows),
        )  # fmt: skip
        whole = meter.timed("scoring", trainer._generate_and_score_completions)
        trainer._generate_and_score_completions = whole
        trainer._generate = meter.timed("sampling", trainer._generate)
        # memory of a step is that of its passes: each resets the peak at its start
        trainer.training_step = _training_step(meter, trainer.training_step)
        trainer.train()
    found = result(meter, marks, count, budget, checkpointing)
    del trainer, policy
    release(device)
    return found


def _training_step(meter: Meter, inner: Any) -> Any:
    """Count the peak after the rollouts of a training step; they are made inside it and have reset it."""
    numbers = itertools.count()

    def outer(*args: Any, **more: Any) -> Any:
        if meter.on_card and next(numbers):  # later passes of a step sample nothing
            torch.cuda.reset_peak_memory_stats(meter.device)
        out = inner(*args, **more)
        wait(meter.device)
        meter._note("update", 0.0)
        return out

    return outer


def result(meter: Meter, marks: dict[str, Any], count: int, budget: int, checkpointing: bool) -> dict[str, Any]:
    """Return times, rates and memory of a step in the words of `steps.result`."""
    step_s, sampling = marks["seconds"], meter.seconds["sampling"]
    scoring = meter.seconds["scoring"] - sampling
    written = count * GROUP * marks["length"]
    return {
        "case": f"TRL {count}x{GROUP}x{budget}" + (" checkpointing" if checkpointing else ""),
        "rollouts": count * GROUP, "tokens": round(written), "length_mean": marks["length"],
        "checkpointing": checkpointing,
        "seconds": {"sampling": round(sampling, 3), "scoring": round(scoring, 3),
                    "update": round(step_s - sampling - scoring, 3)},
        "step_s": round(step_s, 3), "tokens_per_s": round(written / step_s, 1),
        "sampling_tokens_per_s": round(written / sampling, 1), **meter.memory(),
    }  # fmt: skip
