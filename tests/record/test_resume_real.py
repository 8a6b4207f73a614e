"""Resume validation on real runs: that of our own trainer passes, one from weights alone is caught."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rlvitals.grpo.loop import train
from rlvitals.grpo.presets import config_of
from rlvitals.ingest import load
from rlvitals.record.resume import Answer, State, compare_resume

SHORT = replace(config_of("grpo"), prompts=2, eval_every=0, save_every=12, steps=24)


@pytest.mark.slow
def test_our_own_resume_passes_and_weights_alone_do_not(tmp_path: Path) -> None:
    before, after, anew = (tmp_path / name for name in ("before", "after", "anew"))
    train(SHORT, folder=before)
    shutil.copytree(before, after)
    train(replace(SHORT, steps=36), folder=after, resume=True)
    found = compare_resume(load(before), load(after))
    assert found.answer is Answer.SAME, found.headline
    assert found.boundary == 25

    weights = str(before / "checkpoints" / "checkpoint-24")
    train(replace(SHORT, model=weights, steps=12), folder=anew)
    other = compare_resume(load(before), load(anew))
    assert other.answer is Answer.DIFFERENT
    different = {item.name for item in other.items if item.state is State.DIFFERENT}
    assert {"steps go on", "replayed steps give the same rows (RNG, data, optimizer)"} <= different
