"""The run that ships with rlvitals, and its healthy twin: made by examples/make_trl_example.py."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from rlvitals import diagnose, load
from rlvitals.check import Verdict
from rlvitals.cli.demo import example
from rlvitals.diagnosis import Diagnosis
from rlvitals.schema import EventKind

HEALTHY = Path(__file__).parent / "data" / "trl_healthy"
MAX_BYTES = 300_000  # of the shipped folder: it travels in every wheel


@functools.cache
def failing() -> Diagnosis:
    return diagnose(load(example()))


@functools.cache
def healthy() -> Diagnosis:
    return diagnose(load(HEALTHY))


def test_example_is_read_in_full() -> None:
    run = load(example())
    assert (run.trainer.name, run.rows, run.step[0], run.step[-1]) == ("TRL", 200, 1, 200)
    assert run.columns["reward_part/correct"][[0, 59, 199]].tolist() == [0.304688, 0.648438, 0.0]
    assert run.evals["correct"].step.tolist() == list(range(0, 201, 20))
    assert run.evals["correct"].score[[0, 2, 10]].tolist() == [0.25, 0.640625, 0.0]
    checkpoints = [e.step for e in run.events if e.kind is EventKind.CHECKPOINT and e.complete]
    assert checkpoints == list(range(20, 201, 20))
    known = run.config
    assert (known.group_size, known.token_budget, known.kl_coef, known.updates_per_rollout) == (8, 48, 0.001, 1)


def test_cheap_component_is_the_cause_and_the_rest_follows() -> None:
    found = failing()
    assert found.verdict in (Verdict.ACT, Verdict.STOP)
    assert [c.id for c in found.causes][:1] == ["R003"]
    led_to = {c.id for c in found.causes[0].consequences}
    assert {"H001", "K001", "E001", "S001"} <= led_to
    assert led_to & {"L001", "L004"}


def test_nothing_downstream_is_treated_first() -> None:
    plan = failing().plan
    assert plan[0].text.startswith("Verify the verifier")
    assert plan[1].cause == "R003"
    assert not [s.text for s in plan if s.knob == "beta"]


def test_healthy_twin_raises_no_alarm() -> None:
    found = healthy()
    assert found.position.rows == 240
    assert found.verdict in (Verdict.HEALTHY, Verdict.WATCH), found.headline
    assert [i.check for i in found.incidents if i.finding.action in ("fix", "adjust", "stop")] == []


def test_example_is_small_and_holds_no_weights_and_no_paths() -> None:
    files = [p for p in example().rglob("*") if p.is_file()]
    assert sum(p.stat().st_size for p in files) < MAX_BYTES
    assert {p.suffix for p in files} == {".json", ".txt", ".safetensors"}
    for file in files:
        text = file.read_bytes().decode()
        assert "/home/" not in text
        assert "/tmp/" not in text
        if file.suffix == ".safetensors":
            assert json.loads(text[8:]) == {"__metadata__": {"note": "weights left out of the example"}}
