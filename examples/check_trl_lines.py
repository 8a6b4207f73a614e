"""Run the lines that `rlvitals metrics` tells a TRL user to add, and say which keys they brought into the log.

Trains the tiny model of make_trl_example.py for a few steps with every line in place, writes the run's folder and
prints one row per line. It fails when a line brought nothing. Environment: see examples/README.md.

    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python examples/check_trl_lines.py --out /tmp/trl-lines
    rlvitals metrics /tmp/trl-lines
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import make_trl_example as example
from datasets import Dataset
from trl import GRPOTrainer

SFT_STEPS = 200  # enough for some right answers
STEPS = 6
SMALL = 100  # sums below it are the easy tier
EOS = 2  # token id of <eos>

Log = Callable[[str, Any], None]


@dataclass(frozen=True)
class Line:
    """One line of advice: the thing it serves (1 to 10), the line, and the keys or files that it must bring."""

    thing: int
    text: str
    brings: tuple[str, ...]


LINES = (
    Line(1, "(always logged)", ("reward", "reward_std")),
    Line(1, "each component as its own function in reward_funcs", ("rewards/correct/mean", "rewards/format/mean")),
    Line(1, "log_metric(f'reward_family/{family}', value)", ("reward_family/small", "reward_family/large")),
    Line(1, "log_completions=True", ("file completions/",)),
    Line(1, "log_extra('verifier_output', texts)", ("column verifier_output",)),
    Line(2, "(always logged)", ("frac_reward_zero_std",)),
    Line(3, "log_metric(f'success_tier/{tier}', value)", ("success_tier/easy", "success_tier/hard")),
    Line(4, "log_metric('parse_failure_frac', value)", ("parse_failure_frac",)),
    Line(4, "(always logged)", ("completions/clipped_ratio",)),
    Line(5, "(always logged)", ("completions/mean_length", "completions/min_length", "completions/max_length")),
    Line(5, "log_metric('length_right_mean', value)", ("length_right_mean", "length_wrong_mean")),
    Line(6, "beta=0.001", ("kl",)),
    Line(6, "(always logged)", ("entropy",)),
    Line(7, "log_metric('stop_frac/eos', value)", ("stop_frac/eos", "stop_frac/budget")),
    Line(9, "eval_dataset, eval_strategy='steps', eval_steps=2", ("eval_reward", "eval_rewards/correct/mean")),
    Line(10, "json.dump(args.to_dict(), ...)", ("file training_args.json",)),
    Line(10, "save_strategy='steps', save_steps=2", ("file checkpoint-2/", "file checkpoint-4/")),
)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def log_mean(log_metric: Log, name: str, values: list[float]) -> None:
    """Log the mean of what there is; nothing where there is nothing, for missing is not 0."""
    if values:
        log_metric(name, mean(values))


def correct(
    prompts: list[str],
    completions: list[str],
    completion_ids: list[list[int]],
    answer: list[str],
    log_metric: Log,
    log_extra: Log,
    **_: object,
) -> list[float]:
    """Score the answers, and log what the ten things ask of a reward function."""
    found = [example.final_answer(text) for text in completions]
    rewards = [float(given == right) for given, right in zip(found, answer, strict=True)]
    tiers = ["easy" if int(right) < SMALL else "hard" for right in answer]
    lengths = [float(len(ids)) for ids in completion_ids]
    ended = [float(ids[-1] == EOS) for ids in completion_ids]
    for tier, family in (("easy", "small"), ("hard", "large")):
        own = [reward for reward, of in zip(rewards, tiers, strict=True) if of == tier]
        log_mean(log_metric, f"success_tier/{tier}", own)
        log_mean(log_metric, f"reward_family/{family}", own)
    log_mean(log_metric, "parse_failure_frac", [float(not given.isdigit()) for given in found])
    log_mean(log_metric, "stop_frac/eos", ended)
    log_mean(log_metric, "stop_frac/budget", [1.0 - end for end in ended])
    for name, wanted in (("length_right_mean", 1.0), ("length_wrong_mean", 0.0)):
        log_mean(log_metric, name, [n for n, reward in zip(lengths, rewards, strict=True) if reward == wanted])
    log_extra("verifier_output", [f"{given} against {right}" for given, right in zip(found, answer, strict=True)])
    return rewards


def train(out: Path) -> None:
    example.SFT_STEPS = SFT_STEPS
    words = example.tokenizer()
    model = example.new_model(seed=0)
    example.warm_start(model, words, seed=0)
    start = str(out / "start")
    model.save_pretrained(start)
    args = example.settings(str(out), STEPS, seed=7, learning_rate=3e-4)
    args.eval_steps, args.save_steps, args.log_completions, args.num_completions_to_print = 2, 2, True, 0

    def rows(*, held_out: bool, count: int, seed: int) -> Dataset:
        items = example.two_digit_sums(held_out=held_out, count=count, seed=seed)
        return Dataset.from_list([{"prompt": item.prompt, "answer": item.answer} for item in items])

    trainer = GRPOTrainer(
        model=start,
        reward_funcs=[correct, example.well_formed],
        args=args,
        train_dataset=rows(held_out=False, count=512, seed=8),
        eval_dataset=rows(held_out=True, count=128, seed=1234),
        processing_class=words,
    )
    (out / "training_args.json").write_text(json.dumps(args.to_dict(), default=str))
    trainer.train()
    trainer.save_state()


def brought(out: Path) -> set[str]:
    """Return every key that was logged with a number, and the files and columns that are there."""
    import pyarrow.parquet as parquet

    state = json.loads((out / "trainer_state.json").read_text())
    found = {key for row in state["log_history"] for key, value in row.items() if isinstance(value, int | float)}
    found |= {f"file {path.name}{'/' if path.is_dir() else ''}" for path in out.iterdir()}
    for path in sorted((out / "completions").glob("*.parquet"))[:1]:
        found |= {f"column {name}" for name in parquet.read_schema(path).names}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    train(out)
    found = brought(out)
    for line in LINES:
        absent = [name for name in line.brings if name not in found]
        print(f"{line.thing:2}  {'missing ' + ', '.join(absent) if absent else 'ok':8}  {line.text}  ->  {line.brings}")
    return int(any(name not in found for line in LINES for name in line.brings))


if __name__ == "__main__":
    sys.exit(main())
