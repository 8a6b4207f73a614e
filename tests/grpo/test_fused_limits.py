"""The limits of the fused scoring at a real vocabulary: memory beside the gradients, and exactness against plain."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from rlvitals.grpo.entropy import logp_entropy_N  # noqa: E402
from rlvitals.grpo.fused import fused_logp_entropy_N  # noqa: E402

VOCABULARY = 151_936  # Qwen3
LIMIT_MB = 200  # beside the gradients of weight and hidden states
EXACT = 1e-5
SCRIPT = """
import json
import benchmarks.fused as bench
bench.REPEATS, bench.HIDDEN = 1, 256
print(json.dumps(bench.measure("fused", 1024, "float32")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the high-water mark is Linux's")
def test_at_most_200_mb_beside_the_gradients() -> None:
    """In a process of its own; plain holds the logits of 1,024 tokens several times over, 593 MB each."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, cwd=root)
    found = json.loads(done.stdout)
    assert found["hidden_grad_norm"] > 0.0
    assert found["extra_MB"] > 0
    assert found["beside_gradients_MB"] <= LIMIT_MB


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_exact_at_a_real_vocabulary(temperature: float) -> None:
    rng = torch.Generator().manual_seed(0)
    hidden = torch.randn(48, 64, generator=rng).requires_grad_()
    weight = torch.randn(VOCABULARY, 64, generator=rng).mul_(0.2).requires_grad_()
    ids = torch.randint(VOCABULARY, (48,), generator=rng)
    plain = logp_entropy_N(hidden @ weight.T, ids, temperature)
    fused = fused_logp_entropy_N(hidden, weight, ids, temperature)
    for a, b in zip(fused, plain, strict=True):
        assert float((a - b).detach().abs().max()) <= EXACT * float(b.detach().abs().max())
    mine, true = (torch.autograd.grad(p[0].sum() - 0.5 * p[1].sum(), (hidden, weight)) for p in (fused, plain))
    for a, b in zip(mine, true, strict=True):
        assert float((a - b).abs().max()) <= EXACT * float(b.abs().max())
