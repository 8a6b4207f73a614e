"""Every healthy run can be set up: its settings are known to the trainer and its options to the task."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from rlvitals.grpo import tiny
from rlvitals.lab.cases import Case
from rlvitals.lab.fault import Healthy
from rlvitals.lab.healthy import HEALTHY


@pytest.mark.parametrize("healthy", HEALTHY, ids=lambda h: h.name)
def test_a_healthy_run_can_be_set_up(healthy: Healthy) -> None:
    config, parts = Case(healthy, None, 0).setup()
    task = parts.task(config, tiny.new_tokenizer())
    assert task.train
    assert task.held_out or not config.eval_every
