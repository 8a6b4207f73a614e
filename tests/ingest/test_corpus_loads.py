"""Every public run loads, shows a reward series and the number of rows that its label states."""

from __future__ import annotations

import csv
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from rlvitals.errors import NotATrainingRun
from rlvitals.ingest import load
from rlvitals.schema import EventKind, Run, Status

SHARED = Path(os.environ.get("RLVITALS_SHARED", Path(__file__).parents[3] / "shared"))

# Rows by label that differ for a stated reason: the label counts summary rows, both tables or all restarts.
OTHER_ROWS = {
    "chaos_economy_log": 50,  # the label counts lines that mention a reward, printed by the environment
    "hotpot_v1": 93,  # and the end-of-run summary
    "hotpot_v3": 46,  # and the end-of-run summary
    "smallrlvr_full": 214,  # and the end-of-run summary
    "datasage_answer": 192,  # the first table shows the first 132 steps of a run that the second replaces
    "rook_restarts": 2,
}


def _labels() -> list[dict[str, str]]:
    path = SHARED / "corpus/LABELS.csv"
    return list(csv.DictReader(path.open(encoding="utf-8"))) if path.is_file() else []


@lru_cache(maxsize=128)
def _run(path: Path) -> Run:
    return load(path)


@pytest.mark.parametrize("label", _labels(), ids=lambda label: label["id"])
def test_run_loads_with_its_reward_and_rows(shared: Path, label: dict[str, str]) -> None:
    path = shared / "corpus/runs" / label["file"]
    if label["expected"] == "refuse":
        with pytest.raises(NotATrainingRun, match="supervised"):
            load(path)
        return
    run = _run(path)
    assert run.has("reward_mean")
    key = label["reward_key"]
    assert run.provenance["reward_mean"].key == key
    rows = OTHER_ROWS.get(label["id"], int(label["n_steps"]))
    replaced = sum(s.rows for s in run.segments)
    repeated = sum(n.count for n in run.notes if "more than once" in n.text)
    assert rows in (run.rows, run.rows + replaced, run.rows + replaced + repeated)
    assert not [n for n in run.notes if "no JSON" in n.text]
    if label["reward_first_third"] and not run.segments and "fair" not in label["id"]:
        third = max(run.rows // 3, 1)
        got = float(np.nanmean(run.columns["reward_mean"][:third]))
        assert got == pytest.approx(float(label["reward_first_third"]), abs=0.03 + 0.1 * abs(got))


def test_console_log_and_trainer_state_of_one_run_agree(shared: Path) -> None:
    runs = shared / "corpus/runs"
    for a, b in (("chaos_economy.json", "chaos_economy_log.log"), ("xling_rs2.json", "xling_rs2_log.log"),
                 ("gemma3rl_250.json", "gemma3rl_nb.ipynb")):  # fmt: skip
        one, other = _run(runs / a), _run(runs / b)
        assert one.step.tolist() == other.step.tolist()
        for name in ("reward_mean", "length_mean", "kl_ref"):
            np.testing.assert_allclose(one.columns[name], other.columns[name], rtol=2e-3, atol=1e-5)


def test_endings_are_told_apart(shared: Path) -> None:
    runs = shared / "corpus/runs"
    kinds = {
        name: [e.kind for e in _run(runs / name).events if e.kind in (EventKind.CRASH, EventKind.FINISHED)]
        for name in ("hotpot_v2.log", "hotpot_v3.log", "uqc_n4_700.log", "chaos_economy_log.log")
    }
    assert kinds == {
        "hotpot_v2.log": [EventKind.CRASH],
        "hotpot_v3.log": [EventKind.FINISHED],
        "uqc_n4_700.log": [EventKind.CRASH],
        "chaos_economy_log.log": [EventKind.FINISHED],
    }


def test_constant_zeros_are_placeholders(shared: Path) -> None:
    run = _run(shared / "corpus/runs/countdown_custom.jsonl")
    assert run.provenance["entropy"].status is Status.PLACEHOLDER
    assert run.provenance["kl_old_new"].status is not Status.MEASURED
    assert not run.has("entropy")
    np.testing.assert_allclose(run.columns["truncated_frac"][:2], [0.25, 0.15])


def test_forward_filled_rows_keep_the_first_of_each_block(shared: Path) -> None:
    run = _run(shared / "corpus/runs/fair_rlvr.json")
    reward = run.columns["reward_mean"]
    assert np.flatnonzero(~np.isnan(reward))[:4].tolist() == [0, 10, 20, 30]
    assert int(np.isfinite(reward).sum()) == 99
