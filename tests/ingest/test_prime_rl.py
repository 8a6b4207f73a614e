"""prime-rl: two processes in one file, key generations, several agents, restarts, step lines."""

from __future__ import annotations

import json
from pathlib import Path

from rlvitals.ingest import load, registry
from rlvitals.ingest.prime_rl import ADAPTER
from rlvitals.ingest.readers.console import parse
from rlvitals.schema import Scope
from tests.ingest.tables import first, mapped

A = "train/agg/all/solver"


def _orchestrator(step: int, reward: float) -> dict[str, object]:
    return {"step": step, "time": 1e9 + 10 * step, f"{A}/reward/mean": reward, "time/step": 10.0}


def _trainer(step: int) -> list[dict[str, object]]:
    return [
        {"step": step, "perf/throughput": 900.0},
        {"step": step, "optim/lr": 1e-6, "optim/grad_norm": 0.5},
        {"step": step, "loss/mean": 0.01, "entropy/all/mean": 0.7, "mismatch_kl/all/mean": 1e-3},
        {"step": step, "time/step": 3.0, "time/forward_backward": 2.0},
    ]


def _write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_of_both_processes_become_one_row_per_step(tmp_path: Path) -> None:
    rows = [_orchestrator(1, 0.1), _orchestrator(2, 0.2), *_trainer(1), _orchestrator(3, 0.3), *_trainer(2)]
    run = load(_write(tmp_path / "metrics.jsonl", rows))
    assert run.step.tolist() == [1, 2, 3]  # the orchestrator is a step ahead: no restart
    assert (run.segments, run.columns["reward_mean"].tolist()) == ((), [0.1, 0.2, 0.3])
    assert run.columns["grad_norm"][:2].tolist() == [0.5, 0.5]
    assert run.columns["step_time_s"].tolist() == [10.0, 10.0, 10.0]  # the trainer's own 3 s are left out


def test_a_restart_that_appends_closes_a_segment(tmp_path: Path) -> None:
    rows = [r for s in (1, 2, 3) for r in (_orchestrator(s, 0.1 * s), *_trainer(s))]
    rows += [r for s in (2, 3, 4) for r in (_orchestrator(s, 0.5), *_trainer(s))]
    run = load(_write(tmp_path / "metrics.jsonl", rows))
    assert run.step.tolist() == [1, 2, 3, 4]
    assert run.columns["reward_mean"].tolist() == [0.1, 0.5, 0.5, 0.5]
    assert [(s.first_step, s.last_step) for s in run.segments] == [(2, 3)]


def test_what_environments_named_themselves() -> None:
    row = {"step": 1, f"{A}/reward/mean": 0.5, f"{A}/rewards/judge/mean": 0.3, f"{A}/metrics/parse_ok/mean": 0.9,
           f"{A}/metrics/correct/mean": 0.4, f"{A}/stop_condition/max_turns": 0.2, f"{A}/is_trainable/mean": 0.75,
           f"{A}/solved_none": 0.1, "train/math/all/solver/reward/mean": 0.6,
           f"{A}/metrics/other/mean": 7.0}  # fmt: skip
    assert first(mapped(ADAPTER, [row])) == {
        "reward_mean": 0.5, "reward_part/judge": 0.3, "parse_failure_frac": 0.1, "success_frac": 0.4,
        "stop_frac/max_turns": 0.2, "zero_variance_frac": 0.25, "all_wrong_frac": 0.1, "reward_family/math": 0.6,
    }  # fmt: skip


def test_zero_variance_without_is_trainable_is_derived_with_its_weakness_told() -> None:
    found = mapped(ADAPTER, [{"step": 1, f"{A}/reward/mean": 0.5, f"{A}/solved_none": 0.25, f"{A}/solved_all": 0.5}])
    assert found.columns["zero_variance_frac"].tolist() == [0.75]
    assert "missed" in found.provenance["zero_variance_frac"].note


def test_keys_of_0_3() -> None:
    row = {"step": 1, "reward/mean": 0.5, "reward/gsm8k": 0.4, "batch/solve_none": 0.1, "batch/solve_all": 0.2,
           "seq_len/mean": 90.0, "completion_len/mean": 70.0, "batch/off_policy_level/max": 2,
           "error/mean": 0.0}  # fmt: skip
    assert registry.pick(frozenset(row)) is ADAPTER
    values = first(mapped(ADAPTER, [row]))
    assert (values["reward_mean"], values["reward_family/gsm8k"], values["zero_variance_frac"]) == (0.5, 0.4, 0.3)
    assert (values["length_mean"], values["version_lag_max"]) == (70.0, 2.0)


def test_held_out_scores_of_each_generation() -> None:
    row = {"step": 5, f"{A}/reward/mean": 0.5, "eval/gsm8k/all/solver/avg@4": 0.6,
           "eval/gsm8k/effective/solver/avg@4": 0.7, "eval/gsm8k/effective/solver/pass@4": 0.8,
           "eval/aime/avg@8": 0.1}  # fmt: skip
    found = {e.name: float(e.values[0]) for e in mapped(ADAPTER, [row]).evals}
    assert found == {"gsm8k": 0.6, "gsm8k pass@4": 0.8, "aime": 0.1}


def test_step_lines_of_both_logs() -> None:
    text = (
        "10:01:00 SUCCESS Step 1 |   11.3s | Reward 0.2000 | Trainable 12/16 (75.0%) | Max Off-Policy 1 | Error 6.2%\n"
        "10:01:01 DEBUG Micro Step 1/4 | Loss 0.1 | Entropy 0.5 | Mismatch KL 0.1\n"
        "10:02:00 SUCCESS Step 2 |   11.4s | Reward 0.3000 | Trainable 8/16 (50.0%) | Max Off-Policy 2 | Error 0.0%\n"
    )
    table = parse(enumerate(text.splitlines(), start=1), "orchestrator.log")
    assert registry.pick(table.keys()) is ADAPTER
    assert {key: column.tolist() for key, column in table.columns.items()} == {
        "step": [1, 2], "Time": [11.3, 11.4], "Reward": [0.2, 0.3], "Trainable": [0.75, 0.5],
        "Max Off-Policy": [1, 2], "Error": [0.062, 0.0],
    }  # fmt: skip
    old = "Step 3 | Time: 3.20s | Loss: 0.0100 | Entropy: 0.5000 | Mismatch KL: 0.0010 | Grad. Norm: 0.2 | LR: 1.00e-06"
    row = parse([(1, old)], "trainer.log").columns
    assert (row["step"][0], row["Mismatch KL"][0], row["LR"][0]) == (3, 1e-3, 1e-6)


def test_reward_of_the_step_line_is_of_the_trained_cohort() -> None:
    rows = [{"step": 1, "Reward": 0.2, "Max Off-Policy": 0.0}]
    assert mapped(ADAPTER, rows).provenance["reward_mean"].scope is Scope.KEPT
