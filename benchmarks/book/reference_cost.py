"""What holding a reference costs: memory and time of the same steps with and without one, each in a process of its own.

The embedded policy is too small to show it, so a random one of 11 million weights stands in.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peer.setup import forget_peak, status_mb

STEPS = 6
UNTIMED = 2
ROUNDS = 3
FILE = "reference.json"


def make_policy(folder: Path) -> int:
    """Save a random policy with the embedded tokenizer; return the bytes of its weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from rlvitals.grpo import tiny

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tiny.WORDS), hidden_size=384, intermediate_size=1024, num_hidden_layers=6,
        num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=256, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tiny.new_tokenizer().save_pretrained(folder)  # type: ignore[attr-defined]
    return sum(p.numel() * p.element_size() for p in model.parameters())


def measure(model: str, reset: int) -> dict[str, float]:
    """Train a few steps; reset -1 holds no reference, 0 does. Called in a process of its own."""
    import torch

    from rlvitals.grpo.config import Config
    from rlvitals.grpo.loop import Row, train
    from rlvitals.grpo.run import Run

    torch.set_num_threads(1)
    config = Config(recipe="ch7-tracking", model=model, steps=STEPS, prompts=2, group_size=4, eval_every=0,
                    save_every=1000, dead_steps=0, reference_reset=reset)  # fmt: skip
    cpu: list[float] = []

    def after(run: Run, row: Row, held_out: object) -> None:
        cpu.append(time.process_time())

    before = forget_peak()
    with tempfile.TemporaryDirectory() as folder:
        train(config, folder=Path(folder) / "run", watch=(after,))
    return {
        "cpu_s_per_step": (cpu[-1] - cpu[UNTIMED - 1]) / (STEPS - UNTIMED),
        "extra_mb": status_mb("VmHWM") - before,
    }


def reference_cost(work: Path) -> dict[str, Any]:
    """Return the two sets of measurements, made in turn and kept in the work folder."""
    kept = work / FILE
    if kept.is_file():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    result: dict[str, Any] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        result["weights_mb"] = make_policy(Path(folder)) / 1e6
        for _ in range(ROUNDS):
            for name, reset in (("with", 0), ("without", -1)):
                code = (
                    "import json; from benchmarks.book.reference_cost import measure; "
                    f"print('RESULT ' + json.dumps(measure({folder!r}, {reset})))"
                )
                done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
                line = next(row for row in done.stdout.splitlines() if row.startswith("RESULT "))
                result[name].append(json.loads(line.removeprefix("RESULT ")))
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(result), encoding="utf-8")
    return result
