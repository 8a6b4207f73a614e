"""The live monitor: its diagnosis after step s is the diagnosis of the prefix up to s; rewinds; light import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.simulate import COURSES, LAYOUTS, Spec, healthy

from rlvitals.conclude import diagnose
from rlvitals.diagnosis import Diagnosis
from rlvitals.errors import InputError
from rlvitals.live.monitor import Monitor
from rlvitals.report.json import to_dict
from rlvitals.schema import Run, RunConfig


def feed(monitor: Monitor, run: Run, upto: int) -> None:
    """Log the rows and held-out scores of a run up to a step, in the order in which a trainer would."""
    scores = sorted((int(s), n, float(v)) for n, e in run.evals.items() for s, v in zip(e.step, e.score, strict=True))
    for i, step in enumerate(run.step):
        if step > upto:
            break
        row = {n: float(c[i]) for n, c in run.columns.items() if np.isfinite(c[i])}
        monitor.log(int(step), row)
        while scores and scores[0][0] <= step:
            at, name, value = scores.pop(0)
            monitor.add_eval(name, at, value, items=run.evals[name].items, metric=run.evals[name].metric)


def comparable(found: Diagnosis) -> dict[str, object]:
    out = to_dict(found)
    out.pop("run")
    return out


def without_stderr(run: Run) -> Run:
    from dataclasses import replace

    evals = {n: replace(e, stderr=np.full(e.score.size, np.nan)) for n, e in run.evals.items()}
    return replace(run, evals=evals)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_live_equals_prefix_on_simulated_runs(layout: str) -> None:
    rng = np.random.default_rng(1)
    for course in COURSES[:4]:
        run = without_stderr(healthy(Spec(3, course, layout, 430, 4, 8)))
        for step in rng.choice(run.step, 2, replace=False):
            monitor = Monitor(run.config)
            monitor.adopt(run.until(int(step)))
            feed(monitor, run, int(step))
            assert comparable(monitor.diagnosis()) == comparable(diagnose(run.until(int(step)))), (course, step)


@pytest.mark.parametrize(
    "file", ["ch7_7_5_plus_kl.csv", "ch7_7_3_plus_tracking.csv", "f1_grpo.json", "uqc_v6_192.log", "chaos_economy.json"]
)
def test_live_equals_prefix_on_real_runs(shared: Path, file: str) -> None:
    from rlvitals.ingest import load

    run = without_stderr(load(shared / "corpus" / "runs" / file))
    for share in (0.3, 0.7, 1.0):
        step = int(run.step[int((run.rows - 1) * share)])
        monitor = Monitor(run.config)
        prefix = run.until(step)
        monitor.adopt(prefix)
        feed(monitor, run, step)
        assert comparable(monitor.diagnosis()) == comparable(diagnose(prefix)), step


def test_asking_changes_nothing() -> None:
    run = without_stderr(healthy(Spec(5, "steady learner", "trl", 220, 8, 8)))
    curious, quiet = Monitor(run.config), Monitor(run.config)
    for i, step in enumerate(run.step):
        row = {n: float(c[i]) for n, c in run.columns.items() if np.isfinite(c[i])}
        curious.log(int(step), row)
        quiet.log(int(step), row)
        curious.diagnosis()
    assert comparable(curious.diagnosis()) == comparable(quiet.diagnosis())


def test_a_rewind_equals_the_file_without_the_replaced_rows() -> None:
    run = without_stderr(healthy(Spec(6, "steady learner", "trl", 200, 8, 8)))
    monitor = Monitor(run.config)
    for step in range(1, 151):
        monitor.log(step, {"reward_mean": 9.0, "entropy": 5.0})
    feed(monitor, run, 200)
    found = monitor.diagnosis()
    assert found.position.rows == 200
    straight = Monitor(run.config)
    feed(straight, run, 200)
    assert found.outcomes["D001"] == straight.diagnosis().outcomes["D001"]
    assert found.position == straight.diagnosis().position


def test_rows_of_one_step_are_merged_even_after_a_look() -> None:
    monitor = Monitor(RunConfig())
    monitor.log(1, {"reward_mean": 0.5})
    monitor.log(1, {"entropy": 0.3})
    assert monitor.diagnosis().position.rows == 1
    monitor.log(1, {"grad_norm": 0.1})
    found = monitor.diagnosis()
    assert (found.position.rows, found.position.last_step) == (1, 1)


def test_unknown_trainer_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'TLR'.*one of TRL"):
        Monitor(trainer="TLR").log(1, {"reward": 1.0})


def test_nan_is_seen_at_its_step() -> None:
    monitor = Monitor(RunConfig())
    for step in range(1, 41):
        monitor.log(step, {"reward_mean": 0.5, "grad_norm": 0.1, "loss": 0.01})
    bad = {"reward_mean": 0.5, "grad_norm": float("nan"), "loss": float("nan")}
    opened = [monitor.log(s, bad) for s in range(41, 47)]
    assert monitor.diagnosis().verdict.value == "stop"
    assert any(i.check == "D001" for found in opened for i in found)


def test_incidents_are_returned_however_often_a_diagnosis_is_asked_for() -> None:
    asked, quiet = Monitor(RunConfig()), Monitor(RunConfig())
    returned: dict[Monitor, list[str]] = {asked: [], quiet: []}
    for step in range(1, 52):
        bad = float("nan") if step > 40 else 0.01
        for monitor, found in returned.items():
            found += [i.check for i in monitor.log(step, {"reward_mean": 0.5, "grad_norm": bad, "loss": bad})]
        asked.diagnosis()
    assert returned[asked] == returned[quiet] == ["R001", "D001"]


def test_a_score_of_a_step_survives_a_second_row_of_that_step() -> None:
    monitor = Monitor(RunConfig())
    monitor.log(9, {"reward_mean": 0.4})
    monitor.log(10, {"reward_mean": 0.5})
    monitor.add_eval("gsm8k", 9, 0.2)
    monitor.add_eval("gsm8k", 10, 0.3)
    monitor.diagnosis()
    monitor.log(10, {"entropy": 0.3})
    assert monitor._rows.engine.evals["gsm8k"].step.tolist() == [9, 10]
    monitor.log(9, {"reward_mean": 0.4})  # a rewind: what was measured from here on belongs to other weights
    assert "gsm8k" not in monitor._rows.engine.evals


def test_scores_that_are_not_finite_are_not_evaluated() -> None:
    monitor = Monitor(RunConfig())
    monitor.add_eval("gsm8k", 1, float("nan"))
    monitor.add_eval("gsm8k", 2, np.float32(0.5))  # type: ignore[arg-type]
    monitor.log(5, {"reward_mean": 0.5})
    monitor.log(3, {"reward_mean": 0.5})  # a rewind reads the scores back
    assert monitor._rows.engine.evals["gsm8k"].score.tolist() == [0.5]
    monitor.add_eval("gsm8k", "x", 0.5)  # type: ignore[arg-type]
    assert [(t.what, t.detail) for t in monitor.troubles] == [
        ("Monitor.add_eval: not a step", "'x'; expected a whole number, 0 or more")
    ]


def test_nested_metrics_name_the_trainer_as_flat_ones_do() -> None:
    row = {
        "actor": {"entropy": 0.3, "grad_norm": 1.0},
        "critic": {"score": {"mean": 0.3}},
        "response_length": {"mean": 9},
    }
    monitor = Monitor(RunConfig())
    monitor.log(1, row)
    assert monitor.diagnosis().trainer == "verl"


def test_odd_rows_are_no_errors() -> None:
    ring: dict[str, object] = {"reward": 0.5}
    ring["ring"] = ring
    odd = {1: 0.5, None: 0.5, "step": float("nan"), "reward_part/\ud800": 0.1, "grad_norm": np.float32(0.1)}
    monitor = Monitor(RunConfig())
    for step, row in enumerate((ring, {"reward": 0.5, **odd}, {"reward": 10**400}, {"reward": "n/a"}, {})):
        monitor.log(step, row)  # type: ignore[arg-type]
    monitor.log(1, {"reward": 0.5})
    assert (monitor.diagnosis().position.rows, monitor.diagnosis().position.last_step) == (2, 1)
    assert monitor.log(2**63, {"reward": 0.5}) == ()
    assert [(t.what, t.count) for t in monitor.troubles] == [("Monitor.log: not a step", 1)]


def test_importing_the_monitor_pulls_numpy_and_orjson_alone() -> None:
    code = (
        "import sys; import rlvitals.live.monitor; "
        "tops = {m.split('.')[0] for m in sys.modules}; "
        "print(sorted(t for t in tops if t not in sys.stdlib_module_names and not t.startswith('_')))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert set(ast.literal_eval(out)) <= {"numpy", "orjson", "rlvitals"}, out


def test_a_mean_reward_of_a_held_out_set_is_no_accuracy() -> None:
    monitor = Monitor(trainer="verl")
    for step in range(1, 7):
        monitor.log(step, {"critic/score/mean": 0.1 * step, "val/test_score/openai/gsm8k": 0.5})
    assert {n: held.metric for n, held in monitor._rows.engine.evals.items()} == {"openai/gsm8k": "reward"}
