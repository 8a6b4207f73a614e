"""A task and a policy that nothing was ever chosen on: python benchmarks/other_task.py DIR

Five digits to sort, by insertion written out digit by digit, or at once:

    #52917=   <think>5,25,259,1259,12579</think>12579

DIR gets items.jsonl and a model with its tokenizer, warm-started on demonstrations that put a digit in the right place
most of the time: the policy knows how sorting is written, and sorts a good part of the items. The same call makes the
same files on one machine, in half a minute of CPU time, and says which faults can be put into it and with which
command. Faults that change the arithmetic task itself cannot (`ELSEWHERE`).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from rlvitals.env import Message
from rlvitals.grpo import tiny
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.tasks.load import load_task
from rlvitals.grpo.warmstart import Dialogue, Settings, warm_start
from rlvitals.lab.faults import FAULTS

TASK = "dataset:path={path},verifier=exact,system=no,max_tokens=40"  # the longest right answer takes 28 tokens
ITEMS = "items.jsonl"
DIGITS = 5
SEED = 11
PLACED_RIGHT = 0.75  # chance that a demonstration puts a digit where it belongs; chosen for the success at the start
THINKING_SHOWN = 0.7  # share of demonstrations that are written out, as in the embedded task

ELSEWHERE: Mapping[str, str] = {
    "tasks-too-hard": "trains on sums of four digits",
    "tasks-too-easy": "trains on sums of one digit",
    "difficulty-drifts": "mixes sums of four digits in",
    "parser-broken-for-one-family": "breaks one of two tiers of sums",
    "group-key-wrong": "trains on two tiers of sums",
    "tool-fails": "breaks the calculator of a task of several turns",
    "lossy-log-tasks-too-hard": "trains on sums of four digits",
}
"""Fault of the lab -> why it says nothing about this task."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How much the policy is shown: optimizer steps, demonstrations of each, peak learning rate."""

    steps: int = 800
    batch: int = 32
    learning_rate: float = 3e-3


def items() -> list[dict[str, str]]:
    """Return a question and its answer for each of the 2,002 multisets of five digits, in one random order each.

    No two items share their digits, so what is held out by a hash of the question is no reordering of what is trained.
    """
    rng = random.Random(SEED)
    out = []
    for chosen in combinations_with_replacement("0123456789", DIGITS):
        mixed = "".join(rng.sample(chosen, DIGITS))
        out.append({"id": mixed, "prompt": f"#{mixed}=", "answer": "".join(chosen)})
    rng.shuffle(out)
    return out


def inserted(digits: str, rng: random.Random, placed_right: float = PLACED_RIGHT) -> list[str]:
    """Return the list after each digit; one that is misplaced goes to any other place."""
    so_far, out = "", []
    for digit in digits:
        right = bisect_left(so_far, digit)
        others = [at for at in range(len(so_far) + 1) if at != right]
        at = right if not others or rng.random() < placed_right else rng.choice(others)
        so_far = so_far[:at] + digit + so_far[at:]
        out.append(so_far)
    return out


def demonstration(digits: str, rng: random.Random, placed_right: float = PLACED_RIGHT) -> Dialogue:
    """Return question and answer; the answer follows from the insertions, right or wrong."""
    lists = inserted(digits, rng, placed_right)
    thinking = f"<think>{','.join(lists)}</think>" if rng.random() < THINKING_SHOWN else ""
    return (Message("user", f"#{digits}="), Message("assistant", thinking + lists[-1]))


def demonstrations(task: Task, count: int) -> list[Dialogue]:
    """Return demonstrations of training-side digits, reordered each time."""
    rng = random.Random(SEED)
    golds = [item.gold for item in task.train]
    return [demonstration("".join(rng.sample(rng.choice(golds), DIGITS)), rng) for _ in range(count)]


def write_items(folder: Path) -> Path:
    """Write items.jsonl and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ITEMS
    path.write_text("".join(json.dumps(row) + "\n" for row in items()), encoding="utf-8")
    return path


def policy(task: Task, shown: Shown = Shown()) -> Any:
    """Return the warm-started model, in eval mode."""
    model = tiny.new_model(tiny.Recipe(seed=SEED))
    settings = Settings(steps=shown.steps, batch=shown.batch, learning_rate=shown.learning_rate, seed=SEED)
    with tiny.one_thread():
        warm_start(model, tiny.new_tokenizer(), demonstrations(task, shown.steps * shown.batch), settings)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the items and the model")
    folder: Path = parser.parse_args().folder
    began = time.process_time()
    task = load_task(TASK.format(path=write_items(folder)))
    policy(task).save_pretrained(folder)
    tiny.new_tokenizer().save_pretrained(folder)
    print(
        f"{folder}: {len(task.train)} items to train on, {len(task.held_out)} held out, a model; "
        f"{time.process_time() - began:.0f} CPU s\nfrom the folder that holds it:\n{command(folder.name)}"
    )


def command(folder: str) -> str:
    """Return what trains every fault that can be put into this task, but for seeds and output."""
    names = ",".join(fault.name for fault in FAULTS if fault.name not in ELSEWHERE)
    spec = TASK.format(path=f"{folder}/{ITEMS}")
    return f"rlvitals lab run --faults {names} --set model={folder} --set task={spec}"


if __name__ == "__main__":
    main()
