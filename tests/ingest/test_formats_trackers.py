"""Samples of trainers that log through TensorBoard, W&B or two processes: every entry agrees with the truth."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from rlvitals.ingest import load
from rlvitals.ingest.evals import read_evals
from rlvitals.schema import Float64, Run, RunConfig, Scope, Status
from rlvitals.settings import Settings

SHARED = Path(os.environ.get("RLVITALS_SHARED", Path(__file__).parents[3] / "shared"))
LAST_STEPS = (5, 10, 15, 16)  # of the truth's evaluations


@dataclass(frozen=True)
class Sample:
    """One sample: its entry in the key map, where it lies, and how exact it is."""

    entry: str
    path: str
    trainer: str
    first_step: int
    rtol: float = 1e-6  # float32 in TensorBoard
    atol: float = 1e-9
    config: RunConfig | None = None  # what a user says in rlvitals.toml


GROUPS = RunConfig(prompts_per_step=4)
SAMPLES: dict[str, Sample] = {
    "openrlhf": Sample("openrlhf", "openrlhf", "OpenRLHF", 1),
    "openrlhf console": Sample("openrlhf", "openrlhf/console.log", "OpenRLHF", 1),
    "nemo": Sample("nemo_rl", "nemo_rl", "NeMo-RL", 1),
    "prime-rl": Sample("prime_rl", "prime_rl", "prime-rl", 1),
    "prime-rl 0.5": Sample("prime_rl_v0.5", "prime_rl_v0.5", "prime-rl", 1),
    "skyrl": Sample("skyrl", "skyrl", "SkyRL", 1),
    "skyrl console": Sample("skyrl", "skyrl/console.log", "SkyRL", 1, atol=5.001e-5),
    "slime": Sample("slime", "slime", "slime", 0, config=GROUPS),
    "slime console": Sample("slime", "slime/console.log", "slime", 0, config=GROUPS),
    "areal": Sample("areal", "areal", "AReaL", 0),
    "areal console": Sample("areal", "areal/console.log", "AReaL", 0, rtol=5.001e-5),
}
NOT_IN_CONSOLE = {  # the sample's console holds no update rows
    "slime console": {"entropy", "clip_frac", "grad_norm", "lr", "loss", "logp_diff_mean"},
}

CANONICAL: dict[str, str] = {
    "reward_mean": "reward_mean",
    "reward_std_batch": "reward_std",
    "frac_zero_std": "zero_variance_frac",
    "frac_zero_std_01": "zero_variance_frac",
    "correct_mean": "reward_part/correct",
    "parse_fail": "parse_failure_frac",
    "len_mean": "length_mean",
    "len_min": "length_min",
    "len_max": "length_max",
    "trunc_rate": "truncated_frac",
    "kl_ref_k3": "kl_ref",
    "ppo_kl": "kl_old_new",
    "entropy": "entropy",
    "entropy_sampled": "entropy",
    "clip_frac": "clip_frac",
    "grad_norm": "grad_norm",
    "lr": "learning_rate",
    "loss": "policy_loss",
    "logp_diff_mean": "logprob_gap_mean",
    "is_ratio_mean": "sampler_ratio_mean",
    "adv_mean": "advantage_mean",
    "lag_mean": "version_lag_mean",
}
WHOLE_LOSS = {"nemo", "prime-rl"}  # they log the loss as a whole
SAMPLED_OF_FULL = 0.97  # the sample's own ratio of sampled to full entropy
HELD_OUT = {"eval_acc", "eval_reward", "eval_trunc"}
OTHERS = {"reward_std_group_mean"}  # OpenRLHF logs both; the batch's is kept


def _entries() -> list[tuple[str, str]]:
    path = SHARED / "formats/mapping.json"
    mapping = json.loads(path.read_text()) if path.is_file() else {}
    return [
        (name, truth)
        for name, sample in SAMPLES.items()
        for truth in mapping.get(sample.entry, {})
        if truth not in HELD_OUT | OTHERS | NOT_IN_CONSOLE.get(name, set())
    ]


@lru_cache(maxsize=16)
def _run(name: str) -> Run:
    sample = SAMPLES[name]
    settings = Settings(config=sample.config) if sample.config is not None else None
    return load(SHARED / "formats" / sample.path, settings=settings)


@lru_cache(maxsize=1)
def _truth() -> dict[str, Float64]:
    rows = [json.loads(line) for line in (SHARED / "formats/_truth/steps.jsonl").read_text().splitlines()]
    truth = {key: np.array([row[key] for row in rows], dtype=float) for key in rows[0]}
    truth["clip_frac"] = truth["clip_low"] + truth["clip_high"]
    truth["entropy_sampled"] = SAMPLED_OF_FULL * truth["entropy"]
    # prime-rl counts groups that are all 0 or all 1; the truth's solved groups earn 1.2
    truth["frac_zero_std_01"] = _all_zero()
    return truth


def _all_zero() -> Float64:
    rows = [json.loads(line) for line in (SHARED / "formats/_truth/rollouts.jsonl").read_text().splitlines()]
    groups: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        groups.setdefault((row["step"], row["group"]), []).append(row["reward"])
    return np.array(
        [
            np.mean([sum(r) == 0 or set(r) == {1.0} for (s, _), r in groups.items() if s == step])
            for step in range(1, 17)
        ]
    )


@lru_cache(maxsize=1)
def _held_out() -> dict[str, list[float]]:
    """Return family -> mean reward of each evaluation, and "all"."""
    rows = [json.loads(line) for line in (SHARED / "formats/_truth/eval_rollouts.jsonl").read_text().splitlines()]
    families = sorted({row["family"] for row in rows})
    return {
        family: [
            float(np.mean([r["reward"] for r in rows if r["step"] == step and family in (r["family"], "all")]))
            for step in LAST_STEPS
        ]
        for family in (*families, "all")
    }


@pytest.mark.parametrize(("name", "truth"), _entries())
def test_entry_agrees_with_the_truth(name: str, truth: str) -> None:
    sample, run = SAMPLES[name], _run(name)
    assert run.trainer.name == sample.trainer
    assert run.step.tolist() == list(range(sample.first_step, sample.first_step + 16))
    metric = "loss" if truth == "loss" and name in WHOLE_LOSS else CANONICAL[truth]
    np.testing.assert_allclose(run.columns[metric], _truth()[truth], rtol=sample.rtol, atol=sample.atol)


def test_nothing_stays_unrecognised(shared: Path) -> None:
    assert {name: [u.key for u in _run(name).unrecognised] for name in SAMPLES} == {name: [] for name in SAMPLES}


@pytest.mark.parametrize("name", ["openrlhf", "prime-rl", "skyrl", "skyrl console", "slime", "slime console"])
def test_held_out_rewards_of_each_family_agree(shared: Path, name: str) -> None:
    base = SAMPLES[name].first_step - 1
    evals = _run(name).evals
    for family in ("arith_add", "arith_mul", "format_json", "logic_zebra"):
        assert evals[family].step.tolist() == [step + base for step in LAST_STEPS]
        assert evals[family].metric == "reward"
        np.testing.assert_allclose(evals[family].score, _held_out()[family], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "own"), [("areal", "eval-rollout"), ("areal console", "eval-rollout"), ("skyrl", "all")]
)
def test_held_out_mean_reward_agrees(shared: Path, name: str, own: str) -> None:
    np.testing.assert_allclose(_run(name).evals[own].score, _held_out()["all"], rtol=1e-4)


def test_held_out_traces_of_prime_rl_agree_with_its_metrics(shared: Path) -> None:
    found = read_evals("arith_add", shared / "formats/prime_rl/outputs/my-run/rollouts")
    assert (found.step.tolist(), found.metric, found.items) == ([5, 10, 15, 16], "reward", 2)
    np.testing.assert_allclose(found.score, _held_out()["arith_add"], rtol=1e-9)


def test_conversions_are_shown(shared: Path) -> None:
    shown = {
        ("openrlhf", "dropped_group_frac"): "1 - percent / 100",
        ("nemo", "zero_variance_frac"): "1 - percent / 100",
        ("nemo", "all_wrong_frac"): "percent -> fraction",
        ("nemo", "logprob_gap_mean"): "x - 1",
        ("areal", "kl_old_new"): "sign flipped",
        ("areal", "kl_ref"): "-x / 0.04 (kl_ctl)",
        ("areal", "length_mean"): "seq_len - prompt_len",
        ("areal console", "kl_loss"): "sign flipped",
        ("slime", "surprisal_mean"): "sign flipped",
        ("slime", "zero_variance_frac"): "sum of counts / 4 prompts per step",
        ("prime-rl", "parse_failure_frac"): "1 - x",
    }
    assert {key: _run(key[0]).provenance[key[1]].transform for key in shown} == shown


def test_filtered_denominators_are_told(shared: Path) -> None:
    assert _run("openrlhf").provenance["reward_mean"].scope is Scope.KEPT  # its filter's pass rate is logged
    assert _run("prime-rl").provenance["reward_mean"].scope is Scope.ALL
    assert _run("nemo").provenance["reward_mean"].scope is Scope.ALL


def test_a_rounded_learning_rate_is_no_measurement(shared: Path) -> None:
    assert _run("skyrl console").provenance["learning_rate"].status is Status.PLACEHOLDER
    assert _run("skyrl").provenance["learning_rate"].status is Status.MEASURED


def test_configs_of_the_run_folders_are_read(shared: Path) -> None:
    nemo, prime, areal = (_run(name).config.known() for name in ("nemo", "prime-rl", "areal"))
    assert (nemo["group_size"], nemo["kl_coef"], nemo["clip_high"], nemo["token_budget"]) == (4, 0.04, 0.28, 64)
    assert (prime["group_size"], prime["prompts_per_step"], prime["max_version_lag"]) == (4, 4, 8)
    assert (areal["group_size"], areal["kl_estimator"], areal["clip_high"]) == (4, "k1", 0.28)


def test_time_of_the_step_is_the_orchestrators(shared: Path) -> None:
    np.testing.assert_allclose(_run("prime-rl").columns["step_time_s"], _truth()["step_time"], rtol=1e-9)


def test_prime_rl_step_lines_agree_with_the_truth(shared: Path) -> None:
    run = load(shared / "formats/prime_rl/outputs/my-run/logs/attempt_0/orchestrator.log")
    assert run.trainer.name == "prime-rl"
    for metric, truth, atol in (
        ("reward_mean", "reward_mean", 5.1e-5), ("zero_variance_frac", "frac_zero_std", 1e-9),
        ("truncated_frac", "trunc_rate", 5.1e-4), ("version_lag_max", "lag_max", 0.0),
        ("step_time_s", "step_time", 0.051),
    ):  # fmt: skip
        np.testing.assert_allclose(run.columns[metric], _truth()[truth], rtol=0, atol=atol)
