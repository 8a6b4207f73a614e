"""The trainer on one graphics card: python -m benchmarks.gpu [--only PART ...] [--small] [--seconds 300] [--out FILE]

A random model of the shape of Qwen3-0.6B, bfloat16 over float32 weights, trained by rlvitals.grpo as it ships, with 8
rollouts per prompt whose random text runs to the full budget. Every part waits for the card before its clock is read.

  sampler   one more token for 1, 8, 64 and 256 rows
  steps     whole steps of 8 rollouts of 1024, 512 and 256 tokens, as in chapter 7, and of 8 and 32 prompts; with and
            without a reference and recomputed activations, on the same rollouts
  fused     log-probability and entropy at 151,936 entries beside the plain form
  trl       TRL's GRPOTrainer 1.16.0 on the same model, batch and loss
  learning  held-out gain on the embedded task; resume: a broken run beside an unbroken one
  long      what is left to do when time is: 32 x 8 rollouts of 1024 tokens, repetitions

A part that fails keeps its traceback and the others go on; what would not fit into the time is skipped and named. The
file is written after each measurement. `--small` is the same on a CPU in a shape of no meaning.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from benchmarks.card import course, fused, peer, sampler, steps
from benchmarks.card.meter import release
from benchmarks.card.setup import QWEN3, SMALL, Shape, new_policy
from rlvitals.grpo.models import Policy

RESULTS = Path(__file__).parent / "results" / "gpu.json"
PARTS = ("sampler", "steps", "fused", "trl", "learning", "long")
TOKEN_S = 0.035  # one more token of a batch, until it is measured
REFERENCE: dict[str, Any] = {"reference": True}
RECOMPUTED: dict[str, Any] = {"checkpointing": True}
SETUP_S = 4.0  # of a measurement beside its tokens, for what fits


@dataclass(frozen=True)
class Work:
    """One measurement; tokens: decoded one after the other, for the time that it will take."""

    part: str
    name: str
    measure: Callable[[], dict[str, Any]]
    tokens: int = 0


@dataclass
class Book:
    """What was found so far, on disk after each measurement."""

    out: Path
    seconds: float
    device: torch.device
    found: dict[str, Any]
    token_s: float = TOKEN_S
    began: float = field(default_factory=time.perf_counter)

    def do(self, work: Work) -> None:
        """Make one measurement; a failure is kept and ends nothing."""
        elapsed = time.perf_counter() - self.began
        due = SETUP_S + work.tokens * self.token_s
        if elapsed + due > self.seconds:
            why = f"{elapsed:.0f} s are gone and about {due:.0f} more are due, of {self.seconds:.0f}"
            self._keep("skipped", {"part": work.part, "case": work.name, "why": why})
            return
        try:
            result = work.measure()
        except Exception as error:
            text = traceback.format_exc()
            self._keep("failed", {"part": work.part, "case": work.name, "error": str(error)[:500], "traceback": text})
            print(text, flush=True)
            del error  # its frames hold tensors
            release(self.device)
            return
        if work.part == "sampler" and result["rows"] > 1:
            self.token_s = 1.2e-3 * result["ms_per_token"]
        taken = round(time.perf_counter() - self.began - elapsed, 1)
        self._keep(work.part, {**result, "taken_s": taken})

    def _keep(self, name: str, row: dict[str, Any]) -> None:
        self.found.setdefault(name, []).append(row)
        shown = {k: v for k, v in row.items() if k != "traceback"}
        print(f"[{time.perf_counter() - self.began:5.0f} s] {name} {json.dumps(shown)}", flush=True)
        draft = self.out.with_suffix(".draft")
        draft.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        draft.replace(self.out)


class Lab:
    """The model of our own parts, made when it is first asked for and let go of before TRL's."""

    def __init__(self, shape: Shape, device: torch.device) -> None:
        self.shape, self.device = shape, device
        self.rollouts = steps.Rollouts()
        self._policy: Policy | None = None

    @property
    def policy(self) -> Policy:
        if self._policy is None:
            self._policy = new_policy(self.shape, self.device)
            self.step(steps.Case(1, 4))  # first allocations, library handles
        return self._policy

    def free(self) -> None:
        """Let go of the model, and of the rollouts, which are its own."""
        self._policy, self.rollouts = None, steps.Rollouts()
        release(self.device)

    def step(self, case: steps.Case) -> dict[str, Any]:
        return steps.measure(case, self.policy, self.shape, self.rollouts)

    def sampled(self, rows: int, tokens: int, copied: bool) -> dict[str, Any]:
        return sampler.measure(self.policy, self.shape, rows, tokens, copied=copied)

    def peer(self, count: int, budget: int) -> dict[str, Any]:
        self.free()
        return peer.measure(self.shape, self.device, count, budget)


def works(lab: Lab) -> Iterator[Work]:
    """Yield every measurement, in order of what matters."""
    cut = lab.shape.scale
    short = 64 // min(cut, 8)
    for rows, copied in ((1, False), (8, False), (8, True), (64, False), (256, False)):
        yield Work("sampler", f"{rows} rows", partial(lab.sampled, rows, short, copied), short)
    for case in cases(cut):
        yield Work("steps", case.name, partial(lab.step, case), case.budget if case.fresh else 0)
    yield from fused_works(lab.shape, lab.device)
    yield Work("trl", "TRL warm-up", lambda: {**lab.peer(1, 4), "case": "TRL warm-up"}, 4)
    for count, budget in ((1, 1024), (8, 256)):
        yield Work("trl", f"TRL {count}x8x{budget}", partial(lab.peer, count, budget // cut), budget // cut)
    small = lab.device.type == "cpu"
    count = 4 if small else 60
    items = 16 if small else 256
    yield Work("learning", "learning float32", partial(course.learning, count, "float32", items), 800 // cut)
    yield Work("learning", "resume float32", partial(course.resume, "float32"), 100 // cut)
    for number in range(2):
        again = steps.Case(1, 1024 // cut)
        yield Work("long", f"{again.name} again {number}", partial(lab.step, again), again.budget)
    yield Work("learning", "learning bfloat16", partial(course.learning, count, "bfloat16", items), 800 // cut)
    last = steps.Case(32, 1024 // cut)
    yield Work("long", last.name, partial(lab.step, last), 3 * last.budget)  # three batches of the sampler's cache


def cases(cut: int) -> list[steps.Case]:
    """Return the steps: each size sampled once, then the same rollouts in other ways."""
    out = []
    for prompts, budget, more in (
        (1, 1024, [REFERENCE, RECOMPUTED, {**REFERENCE, **RECOMPUTED}, {"micro_tokens": 1}]),
        (1, 512, [RECOMPUTED]),
        (1, 256, [RECOMPUTED]),
        (8, 1024, [REFERENCE, RECOMPUTED, {"micro_tokens": 2048}, {"micro_tokens": 65_536, **RECOMPUTED}]),
        (32, 256, [RECOMPUTED]),
    ):  # fmt: skip
        size = steps.Case(prompts, budget // cut)
        out += [size, *(replace(size, fresh=False, **changes) for changes in more)]
    return out


def fused_works(shape: Shape, device: torch.device) -> Iterator[Work]:
    """Yield the measurements of the fused function."""
    cut = shape.scale
    sizes = [(4096, 8192), (8192, 8192), (2048, 16_384), (8192, 32_768)]
    for kind in ("bfloat16", "float32"):
        near = 1024 // cut
        yield Work("fused", f"difference {kind}", partial(fused.difference, shape, near, kind, device))
        far = 8192 // cut
        yield Work("fused", f"{far} tokens {kind}", partial(fused.measure, shape, far, kind, device, sizes))


def about(device: torch.device, shape: Shape) -> dict[str, Any]:
    """Return the date, the machine and the versions."""
    found: dict[str, Any] = {"date": datetime.date.today().isoformat(), "python": platform.python_version(),
                             "cores": os.cpu_count(), "device": device.type, "shape": vars(shape)}  # fmt: skip
    if device.type == "cuda":
        found |= {"card": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
    for package in ("torch", "transformers", "accelerate", "trl", "rlvitals"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=PARTS, help="the others keep their results")
    parser.add_argument("--seconds", type=float, default=300.0, help="what would end later is skipped")
    parser.add_argument("--small", action="store_true", help="a shape of no meaning, to try the script")
    args = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not args.small:
        parser.error("no graphics card was found: --small runs the same on a CPU in a small shape")
    shape = SMALL if args.small else QWEN3
    args.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(args.out.read_text(encoding="utf-8")) if args.out.is_file() else {}
    mine = {*args.only, "failed", "skipped"}
    found = {"about": about(device, shape), **{k: v for k, v in kept.items() if k not in {*mine, "about"}}}
    book = Book(args.out, args.seconds, device, found)
    for work in works(Lab(shape, device)):
        if work.part in args.only:
            book.do(work)
    return 1 if "failed" in book.found else 0


if __name__ == "__main__":
    raise SystemExit(main())
