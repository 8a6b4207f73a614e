"""Fused against plain, forward and backward: python -m benchmarks.fused [score|divergence] [TOKENS ...].

score is log-probability and entropy, divergence the exact one between two policies (KL of whole distributions).

Every measurement runs in a process of its own, the two methods in turn. The first pass gives the peak of resident
memory beyond what was held before it (the kernel's high-water mark, reset by the process), later ones the processor
time (best of all; one thread under OMP_NUM_THREADS=1). "beside gradients" subtracts the gradients of weight and hidden
states. Plain is log_softmax, gather and the sum of p log p, or of p (log p - log q), with what autograd keeps of them.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "fused.json"
VOCABULARY = 151_936  # Qwen3
HIDDEN = 1024  # Qwen3-0.6B
REPEATS = 2  # timed passes of one process
ROUNDS = 2  # processes of each method, in turn
MB = 1024 * 1024
PAIRS = {"score": ("plain", "fused"), "divergence": ("plain-kl", "fused-kl")}


def status_mb(key: str) -> float:
    line = next(row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith(key))
    return int(line.split()[1]) * 1024 / MB


def measure(method: str, tokens: int, kind: str) -> dict[str, float]:
    """Run one method on random inputs; called in a process of its own."""
    import torch

    from rlvitals.grpo.entropy import logp_entropy_N
    from rlvitals.grpo.fused import fused_logp_entropy_N
    from rlvitals.grpo.fused_kl import fused_kl_N
    from rlvitals.grpo.kl import exact_BT

    rng = torch.Generator().manual_seed(0)
    dtype = getattr(torch, kind)
    hidden = torch.randn(tokens, HIDDEN, generator=rng).to(dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, HIDDEN, generator=rng).mul_(0.05).to(dtype).requires_grad_()
    ids = torch.randint(VOCABULARY, (tokens,), generator=rng)
    ref_hidden = (hidden.detach() + 0.3 * torch.randn(tokens, HIDDEN, generator=rng)).to(dtype)
    ref_weight, every = weight.detach(), torch.ones(1, tokens, dtype=torch.bool)

    def scored(both: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return both[0].sum() - 0.5 * both[1].sum()

    methods: dict[str, Callable[[], torch.Tensor]] = {
        "plain": lambda: scored(logp_entropy_N(hidden @ weight.T, ids)),
        "fused": lambda: scored(fused_logp_entropy_N(hidden, weight, ids)),
        "plain-kl": lambda: exact_BT((hidden @ weight.T)[None], (ref_hidden @ ref_weight.T)[None], every).sum(),
        "fused-kl": lambda: fused_kl_N(hidden, weight, ref_hidden, ref_weight).sum(),
    }

    def step() -> tuple[float, float]:
        hidden.grad = weight.grad = None
        gc.collect()
        begin = time.process_time()
        loss = methods[method]()
        middle = time.process_time()
        loss.backward()  # type: ignore[no-untyped-call]
        return middle - begin, time.process_time() - begin

    torch.mm(torch.randn(64, 64), torch.randn(64, 64))  # the library's own buffers
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = status_mb("VmRSS")
    step()
    extra = status_mb("VmHWM") - before
    gradients = (hidden.numel() + weight.numel()) * hidden.element_size() / MB
    times = [step() for _ in range(REPEATS)]
    assert hidden.grad is not None
    return {
        "forward_cpu_s": round(min(t[0] for t in times), 2), "total_cpu_s": round(min(t[1] for t in times), 2),
        "extra_MB": round(extra), "beside_gradients_MB": round(extra - gradients),
        "hidden_grad_norm": float(hidden.grad.float().norm()),
    }  # fmt: skip


def in_own_process(method: str, tokens: int, kind: str) -> dict[str, float]:
    call = f"measure({method!r}, {tokens}, {kind!r})"
    code = f"import json; from benchmarks.fused import measure; print(json.dumps({call}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the least time and the largest memory over the rounds of one method."""
    return {key: (min if key.endswith("_s") else max)(r[key] for r in rounds) for key in rounds[0]}


def main(what: str, sizes: list[int]) -> None:
    kept = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    made = []
    for tokens in sizes:
        for kind in ("float32", "bfloat16"):
            rounds = [[in_own_process(m, tokens, kind) for m in PAIRS[what]] for _ in range(ROUNDS)]
            plain, fused = (best(list(column)) for column in zip(*rounds, strict=True))
            case = {"what": what, "tokens": tokens, "vocabulary": VOCABULARY, "hidden": HIDDEN, "type": kind}
            ratio = round(fused["total_cpu_s"] / plain["total_cpu_s"], 2)
            made.append({**case, "plain": plain, "fused": fused, "time_ratio": ratio})
            print(json.dumps(made[-1]), flush=True)
    rows = [r for r in kept if r.get("what", "score") != what] + made
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words.pop(0) if words and words[0] in PAIRS else "score", [int(n) for n in words] or [1024])
