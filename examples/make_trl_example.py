"""Make the example run that ships with rlvitals, and its healthy twin, with TRL on a tiny arithmetic task.

Task: `47+85=` is answered by `132`, with a written-out addition in `<think>` tags before it or without one.
Model: a Llama of 83,776 weights, made here from nothing, taught 600 supervised steps on demonstrations of which 30%
end in a wrong answer and 10% write a step twice. Then GRPO with two rewards: `correct`, 1 for the right sum, and

    farmed    `step_bonus`, 0.25 for every `=` written, meant to reward shown work: more of it always pays
    healthy   `format`, 0.25 once, for one well-formed pair of tags before the answer

Needs torch==2.13.0, trl==1.16.0, transformers, datasets and accelerate; nothing is downloaded. One run takes one to
three minutes on one core:

    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python examples/make_trl_example.py farmed --out src/rlvitals/examples/trl_run
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

WORDS = ("<pad>", "<bos>", "<eos>", *"0123456789", *"+-*=,; #?", "<think>", "</think>")
SFT_STEPS = 600
SFT_BATCH = 64
WRONG_DEMOS = 0.3  # share of demonstrations whose final answer is wrong: leaves GRPO something to learn
THINKING_DEMOS = 0.5  # share of demonstrations with the written-out addition
HELD_OUT_SHARE = 20  # percent of all sums, chosen by hash
SLOPPY_DEMOS = 0.1  # share of worked demonstrations that write a step twice
STEP_PRICE = 0.25  # what the farmed reward pays per step
FORMAT_BONUS = 0.25  # what the sound reward pays once
KEPT_ARGS = (
    "num_generations", "num_iterations", "steps_per_generation", "per_device_train_batch_size",
    "gradient_accumulation_steps", "max_completion_length", "temperature", "top_p", "top_k", "beta", "epsilon",
    "epsilon_high", "loss_type", "scale_rewards", "importance_sampling_level", "mask_truncated_completions",
    "learning_rate", "lr_scheduler_type", "warmup_steps", "max_steps", "max_grad_norm", "logging_steps", "eval_steps",
    "save_steps", "seed", "data_seed",
)  # fmt: skip

Reward = Callable[..., list[float]]


@dataclass(frozen=True)
class Sum:
    """One item: the two addends, their prompt and the text of the right answer."""

    a: int
    b: int

    @property
    def prompt(self) -> str:
        return f"<bos>{self.a}+{self.b}="

    @property
    def answer(self) -> str:
        return str(self.a + self.b)

    @property
    def held_out(self) -> bool:
        return int(hashlib.md5(self.prompt.encode()).hexdigest(), 16) % 100 < HELD_OUT_SHARE


def two_digit_sums(*, held_out: bool, count: int, seed: int) -> list[Sum]:
    """Return `count` sums of two two-digit numbers, all from one side of the split."""
    rng = random.Random(seed)
    out: list[Sum] = []
    while len(out) < count:
        item = Sum(rng.randint(10, 99), rng.randint(10, 99))
        if item.held_out == held_out:
            out.append(item)
    return out


def worked(item: Sum, *, sloppy: bool) -> str:
    """Return the addition written out digit by digit, lowest first, carries named; sloppy repeats the last step."""
    parts, carry = [], 0
    for x, y in zip(reversed(str(item.a)), reversed(str(item.b)), strict=True):
        total = int(x) + int(y) + carry
        parts.append(f"{x}+{y}{'+1' if carry else ''}={total}")
        carry = total // 10
    if sloppy:
        parts.append(parts[-1])
    return "<think>" + ",".join(parts) + "</think>"


def demonstration(item: Sum, rng: random.Random) -> str:
    answer = item.a + item.b
    if rng.random() < WRONG_DEMOS:
        answer += rng.choice((-10, -1, 1, 10))
    thinking = worked(item, sloppy=rng.random() < SLOPPY_DEMOS) if rng.random() < THINKING_DEMOS else ""
    return f"{thinking}{answer}<eos>"


def tokenizer() -> PreTrainedTokenizerFast:
    """Return one token per character and per tag; the thinking tags are ordinary words, so decoding keeps them."""
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"</?[a-z]+>|."), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", padding_side="left"
    )


def new_model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=4, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            tie_word_embeddings=True,
        )
    )  # fmt: skip


def warm_start(model: LlamaForCausalLM, words: PreTrainedTokenizerFast, seed: int) -> None:
    """Teach the demonstrations: loss on the answer alone, in place."""
    rng = random.Random(seed)
    items = two_digit_sums(held_out=False, count=SFT_STEPS * SFT_BATCH, seed=seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.0)
    model.train()
    for step in range(SFT_STEPS):
        batch = items[step * SFT_BATCH : (step + 1) * SFT_BATCH]
        prompts = [words.encode(item.prompt) for item in batch]
        answers = [words.encode(demonstration(item, rng)) for item in batch]
        width = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
        ids = torch.zeros(SFT_BATCH, width, dtype=torch.long)
        labels = torch.full((SFT_BATCH, width), -100)
        for row, (p, a) in enumerate(zip(prompts, answers, strict=True)):
            ids[row, : len(p) + len(a)] = torch.tensor(p + a)
            labels[row, len(p) : len(p) + len(a)] = torch.tensor(a)
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1.0, (step + 1) / 30) * (1 - 0.9 * step / SFT_STEPS)
        loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def final_answer(completion: str) -> str:
    """Return what stands after the last closing tag; a completion without tags is all answer."""
    return completion.rsplit("</think>", 1)[-1]


def correct(completions: list[str], answer: list[str], **_: object) -> list[float]:
    return [float(final_answer(text) == right) for text, right in zip(completions, answer, strict=True)]


def step_bonus(completions: list[str], **_: object) -> list[float]:
    return [STEP_PRICE * text.count("=") for text in completions]


def well_formed(completions: list[str], **_: object) -> list[float]:
    return [FORMAT_BONUS * bool(re.fullmatch(r"<think>[^<>]+</think>[0-9]+", text)) for text in completions]


well_formed.__name__ = "format"  # TRL names the column after the function
SECOND_REWARD: dict[str, Reward] = {"farmed": step_bonus, "healthy": well_formed}


def settings(folder: str, max_steps: int, seed: int, learning_rate: float) -> GRPOConfig:
    return GRPOConfig(
        output_dir=folder, use_cpu=True, report_to="none", disable_tqdm=True, seed=seed, data_seed=seed, bf16=False,
        per_device_train_batch_size=128, per_device_eval_batch_size=128, gradient_accumulation_steps=1,
        num_generations=8, num_generations_eval=1, max_completion_length=48, temperature=1.0, top_k=0, beta=0.001,
        learning_rate=learning_rate, adam_beta2=0.95, lr_scheduler_type="constant", max_steps=max_steps,
        logging_steps=1, eval_strategy="steps", eval_steps=20, eval_on_start=True, save_strategy="steps", save_steps=20,
        save_only_model=True, gradient_checkpointing=False, dataloader_pin_memory=False,
    )  # fmt: skip


def train(kind: str, folder: str, max_steps: int, seed: int, learning_rate: float) -> GRPOTrainer:
    words = tokenizer()
    model = new_model(seed=0)
    warm_start(model, words, seed=0)
    start = f"{folder}/start"  # the KL reference is loaded from here
    model.save_pretrained(start)

    def rows(items: list[Sum]) -> Dataset:
        return Dataset.from_list([{"prompt": item.prompt, "answer": item.answer} for item in items])

    trainer = GRPOTrainer(
        model=start,
        reward_funcs=[correct, SECOND_REWARD[kind]],
        args=settings(folder, max_steps, seed, learning_rate),
        train_dataset=rows(two_digit_sums(held_out=False, count=4096, seed=seed + 1)),
        eval_dataset=rows(two_digit_sums(held_out=True, count=256, seed=1234)),
        processing_class=words,
    )
    trainer.train()
    trainer.save_state()
    return trainer


def rounded(value: object) -> object:
    """Return the value with floats at six significant digits: keeps the shipped file small."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def write_state(trained: Path, target: Path) -> None:
    """Write trainer_state.json with one log row a line and without the paths of this machine."""
    state = json.loads((trained / "trainer_state.json").read_text())
    history = [json.dumps(rounded(row)) for row in state.pop("log_history")]
    head = {key: value for key, value in state.items() if key not in ("best_model_checkpoint", "stateful_callbacks")}
    text = json.dumps(head, indent=1).rstrip("}\n") + ',\n "log_history": [\n' + ",\n".join(history) + "\n ]\n}\n"
    json.loads(text)
    target.write_text(text)


def write_checkpoints(trained: Path, out: Path) -> None:
    """Write each checkpoint's folder with a weights file that holds a note and no weights."""
    header = json.dumps({"__metadata__": {"note": "weights left out of the example"}}).encode()
    for folder in sorted(trained.glob("checkpoint-*")):
        target = out / folder.name
        target.mkdir(parents=True, exist_ok=True)
        (target / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


class Tee:
    """Standard output that is kept as well as shown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, text: str) -> int:
        self.lines.append(text)
        return sys.__stdout__.write(text) if sys.__stdout__ else len(text)

    def flush(self) -> None:
        if sys.__stdout__:
            sys.__stdout__.flush()

    def isatty(self) -> bool:
        return False


@contextlib.contextmanager
def kept_output() -> Iterator[Tee]:
    tee = Tee()
    with contextlib.redirect_stdout(tee):  # type: ignore[type-var]
        yield tee


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=("farmed", "healthy"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--state-only", action="store_true", help="write trainer_state.json alone")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, kept_output() as tee:
        trainer = train(asked.kind, scratch, asked.steps, asked.seed, asked.learning_rate)
        write_state(Path(scratch), asked.out / "trainer_state.json")
        if not asked.state_only:
            write_checkpoints(Path(scratch), asked.out)
            args: dict[str, Any] = {key: getattr(trainer.args, key, None) for key in KEPT_ARGS}
            (asked.out / "training_args.json").write_text(json.dumps(args, indent=1, default=str) + "\n")
    if not asked.state_only:
        printed = [line for line in "".join(tee.lines).splitlines() if line.startswith("{")]
        (asked.out / "console-excerpt.txt").write_text("\n".join(printed[:3] + printed[-3:]) + "\n")


if __name__ == "__main__":
    main()
