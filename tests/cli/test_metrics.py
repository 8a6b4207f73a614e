"""`rlvitals metrics`: what was recognised in a run, what was not, and the ten things to log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rlvitals.checks import data_nonfinite
from rlvitals.cli.main import app
from rlvitals.conclude import diagnose
from rlvitals.ingest.registry import by_name
from rlvitals.metrics import METRICS, lookup
from rlvitals.reference.run import _note
from rlvitals.reference.tenthings import TEN_THINGS, Have, log_line, standing
from rlvitals.schema import Evals, Run, RunConfig
from tests.cli.runs import trl_rows, write_jsonl

runner = CliRunner()
SPECIAL = ("evals", "rollouts")


@pytest.fixture
def shown(tmp_path: Path) -> str:
    log = write_jsonl(tmp_path / "log.jsonl", trl_rows())
    result = runner.invoke(app, ["metrics", str(log)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_the_vocabulary() -> None:
    result = runner.invoke(app, ["metrics"])
    assert result.exit_code == 0
    assert all(m.name in result.stdout for m in METRICS)


def test_recognised_guessed_and_not_recognised(shown: str) -> None:
    assert shown.startswith("log.jsonl TRL; 80 rows, steps 1 to 80")
    assert "zero_variance_frac · frac_reward_zero_std · fraction; misses tied groups" in shown
    assert "k3; current policy to reference" in shown
    assert "my_own_column" in shown.partition("Not recognised")[2]


def test_the_ten_things_with_lines_in_the_trainers_own_words(shown: str) -> None:
    assert "The ten things to log: 2 of 10 complete" in shown
    assert "eval_strategy='steps'" in shown.partition("Lines to add (TRL)")[2]
    assert "log_completions=True" in shown


def test_a_note_says_its_number_once() -> None:
    assert _note("read 43,360 rollouts", "a/b.parquet", 0, 43_360) == "read 43,360 rollouts (b.parquet)"
    assert _note("rows left out", "a/log.csv", 3, 1_200) == "rows left out (log.csv:3), 1,200 times"
    assert _note("guessed", "", 0, 1) == "guessed"


def test_options_without_a_run_are_refused() -> None:
    result = runner.invoke(app, ["metrics", "--map", "reward_mean=x"])
    assert result.exit_code == 2
    assert "options without a run" in result.stderr


def test_ten_things_ask_for_metrics_that_exist() -> None:
    sources = [s for t in TEN_THINGS for p in t.parts for s in p.sources]
    assert [t.number for t in TEN_THINGS] == list(range(1, 11))
    assert [s for s in sources if ":" not in s and s not in SPECIAL and lookup(s) is None] == []
    numbers = {m.what_to_log for m in METRICS} - {0}
    assert numbers <= {t.number for t in TEN_THINGS}


def _standing(run: Run) -> dict[int, tuple[Have, tuple[str, ...]]]:
    found = standing(run, diagnose(run, (data_nonfinite.CHECK,)), by_name("TRL"))
    return {s.thing.number: (s.have, tuple(m.part.label for m in s.missing)) for s in found}


def test_a_run_that_logs_everything_has_all_ten() -> None:
    rows = 30
    names = (
        "reward_mean reward_std reward_part/a reward_family/math zero_variance_frac success_tier/1 parse_failure_frac "
    )
    names += "truncated_frac length_mean length_max length_right_mean kl_ref entropy stop_frac/eos version_lag_mean"
    run = Run(
        "full",
        np.arange(1, rows + 1),
        {name: np.full(rows, 0.5) for name in names.split()},
        config=RunConfig(temperature=1.0, token_budget=512, versions={"environment": "3", "reward": "7"}),
        evals={"m": Evals("m", np.array([10, 20]), np.array([0.1, 0.2]), np.array([np.nan, np.nan]))},
        rollouts=object(),
    )
    assert {have for have, _ in _standing(run).values()} == {Have.YES}


def test_a_missing_metric_is_not_a_zero() -> None:
    run = Run("bare", np.arange(1, 31), {"reward_mean": np.full(30, 0.5), "entropy": np.full(30, np.nan)})
    found = _standing(run)
    assert found[1] == (
        Have.PARTLY,
        ("spread of the reward", "reward components", "reward per task family", "raw verifier output per rollout"),
    )
    assert found[2] == (Have.NO, ("zero-variance share",))
    assert found[6] == (Have.NO, ("KL to the reference", "entropy"))


def test_a_single_held_out_score_is_no_cadence() -> None:
    evals = {"m": Evals("m", np.array([10]), np.array([0.1]), np.array([np.nan]))}
    run = Run("one", np.arange(1, 31), {"reward_mean": np.full(30, 0.5)}, evals=evals)
    assert _standing(run)[9][0] is Have.NO


def test_the_line_for_a_metric_no_trainer_switches_on() -> None:
    assert log_line(("stop_frac/*",), None) == "log it yourself as `stop_frac/<name>`"
    assert log_line(("kl_ref",), by_name("verl")).startswith("actor_rollout_ref.actor.use_kl_loss=True")
