"""A run of our own trainer is read as it is: every metric in place, config and versions known, no key left over."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rlvitals
from rlvitals.ingest.registry import by_name, pick
from rlvitals.schema import Direction, Run, Status

FIRST = {"step": 0, "eval/heldout": 0.25}


def row(step: int) -> dict[str, float]:
    return {
        "step": step, "reward_mean": 0.25 + 0.01 * step, "reward_std": 0.5, "reward_part/correct": 0.25,
        "reward_part/format": 0.5, "reward_family/sums": 0.25, "success_frac": 0.25, "success_tier/2": 0.25,
        "parse_failure_frac": 0.0, "verifier_error_frac": 0.0, "zero_variance_frac": 0.25, "advantage_mean": 0.0,
        "advantage_std": 0.5, "length_mean": 12.0, "truncated_frac": 0.0, "stop_frac/eos": 1.0, "entropy": 0.5,
        "surprisal_mean": 0.5, "loss": -0.01, "grad_norm": 0.5, "learning_rate": 0.001, "kl_ref": 0.01,
        "logprob_gap_mean": 1e-6, "version_lag_mean": 0.0, "version_lag_max": 0.0, "extra/optimizer_steps": 2.0,
        "extra/tries": 1.0, "extra/kl_ref_k1": 0.01,
    }  # fmt: skip


CONFIG = {
    "trainer": "rlvitals train",
    "train": {"group_size": 99, "lr": 1.0},
    "recipe": {"kind": "Recipe", "kl_term": {"coef": 3.0}},
    "run": {"group_size": 8, "kl_coef": 0.04, "kl_estimator": "k3", "temperature": 1.0, "token_budget": 40,
            "loss_aggregation": "token mean", "drops_zero_variance": True, "planned_steps": 30},
    "versions": {"environment": "sums@1", "reward": "abc", "sampler": "def"},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    lines = [FIRST, *({**row(s), **({"eval/heldout": 0.5} if s == 10 else {})} for s in range(1, 21))]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "metrics.csv").write_text("step,total_steps,loss,reward_avg,avg_response_len,eval_acc\n1,20,0.1,0.2,3,\n")
    (folder / "events.jsonl").write_text('{"step": 20, "kind": "finished", "detail": "", "time": 1.0}\n')
    (folder / "evals.jsonl").write_text('{"step": 0, "set": "heldout", "item": "a", "reward": 1.0, "correct": 1.0}\n')
    (folder / "checkpoints" / "checkpoint-20").mkdir(parents=True)
    (folder / "checkpoints" / "checkpoint-20" / "model.safetensors").write_bytes(b"x")
    return rlvitals.load(folder)


def test_every_value_is_in_its_place(run: Run) -> None:
    assert run.trainer.name == "rlvitals train"
    assert run.step.tolist() == list(range(1, 21))
    np.testing.assert_allclose(run.columns["reward_mean"], 0.25 + 0.01 * np.arange(1, 21))
    wanted = {k for k in row(1) if not k.startswith("extra/") and k != "step"}
    assert wanted <= set(run.columns)
    assert run.unrecognised == ()


def test_estimators_and_directions_are_known(run: Run) -> None:
    found = run.provenance["kl_ref"]
    assert (found.estimator, found.direction, found.status) == ("k3", Direction.TO_REFERENCE, Status.MEASURED)
    assert run.provenance["entropy"].estimator == "full vocabulary"
    assert run.provenance["reward_std"].estimator == "batch"


def test_held_out_scores_and_checkpoints(run: Run) -> None:
    held_out = run.evals["heldout"]
    assert held_out.step.tolist() == [0, 10]
    assert held_out.score.tolist() == [0.25, 0.5]
    assert [(e.kind.value, e.step, e.complete) for e in run.events if e.kind.value == "checkpoint"] == [
        ("checkpoint", 20, True)
    ]


def test_the_canonical_facts_win_and_versions_are_read(run: Run) -> None:
    known = {k: getattr(run.config, k) for k in CONFIG["run"]}  # type: ignore[attr-defined]
    assert known == CONFIG["run"]
    assert run.config.learning_rate is None  # train.lr is a setting of the trainer, not a fact of the run section
    assert {k: run.config.versions[k] for k in ("environment", "reward", "sampler")} == CONFIG["versions"]


def test_the_adapter_is_found_by_its_own_keys() -> None:
    adapter = pick(frozenset(row(1)))
    assert adapter is by_name("rlvitals train")
    assert pick(frozenset(row(1)) - {"extra/tries"}).info.name == "unknown trainer"
