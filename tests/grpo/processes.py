"""Two gloo processes on this machine, as torchrun starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def two_processes(*command: str) -> None:
    """Run a script, or `-m` and a module, with its arguments in two processes that find each other."""
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "ACCELERATE_USE_CPU": "true",
    }
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
              "--rdzv-endpoint", "localhost:0"]  # fmt: skip
    done = subprocess.run([*launch, *command], env=env, cwd=ROOT, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
