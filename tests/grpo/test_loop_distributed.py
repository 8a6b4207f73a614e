"""Two processes make the same update as one; only the sampling is divided."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from safetensors.torch import load_file

from rlvitals.grpo.loop import train
from tests.grpo.loops import PARTS, config, one_thread, rows
from tests.grpo.processes import two_processes

SCRIPT = """
import sys
from pathlib import Path
from rlvitals.grpo.loop import train
from tests.grpo.loops import PARTS, config, one_thread
one_thread()
folder, recipe, updates = sys.argv[1:]
train(config(steps=2, recipe=recipe, epochs=int(updates), minibatches=int(updates), lr=1e-3, save_every=1,
             micro_tokens=40), PARTS, folder=Path(folder))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "updates"), [("grpo", 2), ("magistral", 2), ("magistral:score_every=2", 1)])
def test_two_processes_make_the_update_of_one(tmp_path: Path, recipe: str, updates: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    two_processes(str(script), str(tmp_path / "two"), recipe, str(updates))
    one_thread()
    settings = config(steps=2, recipe=recipe, epochs=updates, minibatches=updates, lr=1e-3, save_every=1)
    train(settings, PARTS, folder=tmp_path / "one")
    for step in (1, 2):
        name = f"checkpoints/checkpoint-{step}/model.safetensors"
        one, two = load_file(tmp_path / "one" / name), load_file(tmp_path / "two" / name)
        assert max(float((one[n] - two[n]).abs().max()) for n in one) < 1e-6
    for a, b in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert b == pytest.approx(a, abs=1e-4)
    columns = '"step", "group", "index", completion, trainer_logp'
    alone, both = (
        duckdb.sql(f"SELECT {columns} FROM '{tmp_path / n}/rollouts/*.parquet' ORDER BY 1, 2, 3").fetchall()
        for n in ("one", "two")
    )
    assert [r[:4] for r in both] == [r[:4] for r in alone]
    assert all(b[4] == pytest.approx(a[4], abs=1e-4) for a, b in zip(alone, both, strict=True))
