"""TRL's GRPOTrainer on the same piece of work: transformers' generate, everything that costs and can be off is off."""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.peer.setup import Marks, Work, coin, forget_peak, load
from rlvitals.env import VerifierStatus
from rlvitals.grpo.chat import prompt_ids
from rlvitals.grpo.tasks.arithmetic import judge
from rlvitals.grpo.tasks.load import load_task


def correct(completions: list[str], gold: list[str], **_: object) -> list[float]:
    """Return 1 for a right sum, by the very judge of our task."""
    return [float(judge(c, g) is VerifierStatus.RIGHT) for c, g in zip(completions, gold, strict=True)]


def by_coin(completions: list[str], **_: object) -> list[float]:
    """Return 0 or 1 by a hash of the answer."""
    return [coin(c) for c in completions]


def settings(work: Work, folder: str) -> Any:
    """Return TRL's names for the work: recipe bnpo, one optimizer step per batch."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=folder, use_cpu=True, report_to="none", disable_tqdm=True, seed=work.seed, data_seed=work.seed,
        bf16=False, per_device_train_batch_size=work.prompts * work.group_size, gradient_accumulation_steps=1,
        num_generations=work.group_size, max_completion_length=work.budget, temperature=1.0, top_p=1.0, top_k=0,
        beta=0.0, epsilon=0.2, loss_type="bnpo", learning_rate=work.lr, adam_beta1=0.9, adam_beta2=0.95,
        weight_decay=0.0, max_grad_norm=1.0, lr_scheduler_type="constant", max_steps=work.steps, logging_steps=1,
        save_strategy="no", gradient_checkpointing=False, dataloader_pin_memory=False,
    )  # fmt: skip


def measure(work: Work) -> dict[str, Any]:
    """Return the times and the memory of a run."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    marks, policy = Marks(), load(work)
    task = load_task(work.task, policy.tokenizer)
    rows = [
        {"prompt": "".join(policy.tokenizer.convert_ids_to_tokens(prompt_ids(policy.tokenizer, i.messages))),
         "gold": i.gold}
        for i in task.train
    ]  # fmt: skip

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "completions/mean_length" not in logs:
                return
            marks.step(logs["completions/mean_length"])
            if work.eval_every and state.global_step % work.eval_every == 0:
                training = policy.model.training
                marks.look(state.global_step, policy.model.eval(), policy.tokenizer, task, work.budget)
                policy.model.train(training)

    before = forget_peak()
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=policy.model, reward_funcs=[by_coin if work.coin else correct], args=settings(work, folder),
            train_dataset=Dataset.from_list(rows), processing_class=policy.tokenizer, callbacks=[Watch()],
        )  # fmt: skip
        whole = marks.timed("sampling and scoring", trainer._generate_and_score_completions)
        trainer._generate_and_score_completions = whole
        trainer._generate = marks.timed("sampling", trainer._generate)
        marks.start()
        trainer.train()
    found = marks.result(work, before)
    parts = found["parts_cpu_s_per_step"]
    parts["scoring"] = parts.pop("sampling and scoring") - parts["sampling"]
    parts["update"] = found["cpu_s_per_step"] - parts["sampling"] - parts["scoring"]
    return found
