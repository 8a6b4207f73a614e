"""The trainer beside TRL's GRPOTrainer: python -m benchmarks.train [--rounds 3] [--seeds 0 1 2]

Same model, task, batch and loss (clip 0.2, token mean, advantages divided by the group's spread, no penalty), one
thread, 16 prompts x 8 rollouts, one optimizer step per batch. Every measurement runs in a process of its own, the two
trainers in turn, so that what else the machine does falls on both. CPU seconds and wall time, first steps left out.
Ours runs twice: as it is set by default (ours), and with a scoring pass in every tenth step only (once), because TRL
makes none where a batch is used once.

  equal     a policy that writes every sum out, cut at 16 tokens: all completions are of one length
  ragged    sums of 3 digits, some of them answered at once and others written out, up to 52 tokens
  large     a random policy of 2.6 million weights, whose answers end at random, up to 96 tokens: arithmetic, not the
            overhead of small operations, takes the time; 8 x 8, paid by a hash of the answer
  learning  held-out accuracy against CPU seconds of training, evaluations left out

Needs trl==1.16.0 beside the extra [train]. Writes benchmarks/results/train.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.peer.setup import Work

RESULTS = Path(__file__).parent / "results" / "train.json"
TRAINERS = ("ours", "trl", "once")
SCORE_EVERY = 10
KINDS = ("equal", "ragged", "large", "learning")
TIMED_STEPS = 15
LARGE_STEPS = 11
LEARNING_STEPS = 50


def child(trainer: str, work: Work) -> dict[str, Any]:
    """Measure one trainer here; called in a process of its own."""
    import torch

    torch.set_num_threads(1)
    if trainer == "trl":
        from benchmarks.peer.trl import measure
    else:
        from benchmarks.peer.ours import measure
    return measure(replace(work, score_every=SCORE_EVERY) if trainer == "once" else work)


def in_own_process(trainer: str, work: Work) -> dict[str, Any]:
    """Run `child` in a fresh process and return what it measured."""
    code = (
        "import json; from benchmarks.peer.setup import Work; from benchmarks.train import child; "
        f"print('RESULT ' + json.dumps(child({trainer!r}, Work(**{asdict(work)!r}))))"
    )
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=quiet, check=False)
    if done.returncode:
        raise SystemExit(f"{trainer} failed:\n{done.stderr[-3000:]}")
    line = next(row for row in done.stdout.splitlines() if row.startswith("RESULT "))
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return {**found, "trainer": trainer, "seed": work.seed, "load": os.getloadavg()[0]}


def trained_policy(folder: Path) -> str:
    """Return a policy that writes every sum out: the tiny one after 60 steps of training."""
    from rlvitals.grpo.checkpoint import FOLDER
    from rlvitals.grpo.config import Config
    from rlvitals.grpo.loop import train

    train(Config(steps=60, prompts=8, eval_every=0, save_every=60), folder=folder / "run")
    return str(folder / "run" / FOLDER / "checkpoint-60")


def large_policy(folder: Path) -> str:
    """Return a random policy of 2.6 million weights with the embedded tokenizer."""
    import torch
    from transformers import LlamaForCausalLM

    from rlvitals.grpo import tiny

    shape = tiny.new_model(tiny.Recipe(hidden=256, layers=4, heads=4, ff=512)).config
    torch.manual_seed(0)
    LlamaForCausalLM(shape).save_pretrained(folder / "large")
    tiny.new_tokenizer().save_pretrained(folder / "large")  # type: ignore[attr-defined]
    return str(folder / "large")


def works(kinds: Sequence[str], folder: Path) -> dict[str, Work]:
    """Return the timed work of each kind that is asked for."""
    found: dict[str, Work] = {}
    if "equal" in kinds:
        found["equal"] = Work("arithmetic", trained_policy(folder), budget=16, steps=TIMED_STEPS, lr=1e-6)
    if "ragged" in kinds:
        found["ragged"] = Work("arithmetic:tiers=3", "tiny", budget=52, steps=TIMED_STEPS, lr=1e-6)
    if "large" in kinds:
        found["large"] = Work("arithmetic", large_policy(folder), budget=96, steps=LARGE_STEPS, prompts=8, lr=1e-6,
                              coin=True)  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--only", nargs="*", default=list(KINDS), choices=KINDS, help="the others keep their results")
    args = parser.parse_args()
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    found |= {"about": about(), **{kind: [] for kind in args.only}}
    with tempfile.TemporaryDirectory() as folder:
        timed = works(args.only, Path(folder))
        for number in range(args.rounds):
            for name, work in timed.items():
                for trainer in TRAINERS if number % 2 == 0 else TRAINERS[::-1]:
                    found[name].append(in_own_process(trainer, work))
                    show(name, found[name][-1])
    for seed in args.seeds if "learning" in args.only else ():
        work = Work("arithmetic", "tiny", budget=40, steps=LEARNING_STEPS, seed=seed, eval_every=10)
        for trainer in TRAINERS[:2]:
            found["learning"].append(in_own_process(trainer, work))
            show("learning", found["learning"][-1])
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def show(name: str, result: dict[str, Any]) -> None:
    print(
        f"{name} {result['trainer']}: {result['trajectories_per_cpu_s']:.0f} trajectories per CPU s, "
        f"{result['trajectories_per_s']:.0f} per s, {result['length_mean']:.1f} tokens, "
        f"peak {result['peak_mb']:.0f} MB, "
        f"{json.dumps({k: round(v, 4) for k, v in result['parts_cpu_s_per_step'].items()})} "
        f"{[(s, round(c, 1), round(a, 3)) for s, c, a in result['held_out']]}",
        file=sys.stderr, flush=True,
    )  # fmt: skip


def about() -> dict[str, Any]:
    """Return the versions, the date and the load of the machine."""
    import torch
    import transformers
    import trl

    return {
        "date": datetime.date.today().isoformat(), "torch": torch.__version__, "transformers": transformers.__version__,
        "trl": trl.__version__, "python": platform.python_version(), "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }  # fmt: skip


if __name__ == "__main__":
    main()
