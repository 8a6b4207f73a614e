"""The inputs made from user reports, each with the right verdict, the root cause first and what must not be raised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvitals.check import Verdict
from rlvitals.conclude import diagnose
from rlvitals.diagnosis import Diagnosis
from rlvitals.ingest import load

ROOT = {
    "truncation_starves_reward": {"L001", "L004"},
    "rollout_weights_stale": {"Y001", "Y003", "Y004"},
    "nan_onset": {"D001"},
    "component_divergence": {"R003"},
    "signal_without_gradient": {"U001"},
    "onpolicy_ratio_not_one": {"U005"},
    "verifier_dead_by_source": {"R015", "R006"},
    "entropy_runaway": {"E002"},
    "kl_nonzero_before_update": {"K003"},
}
"""Finding ids of the reports -> the checks that say the same."""

WRONG = {
    "loss_zero_as_fault": {"U007"},
    "no_gradient": {"U001"},
    "all_groups_tied": {"S001"},
    "kl_too_low": {"K002", "U008"},
    "entropy_collapsed": {"E001"},
    "kl_blowup": {"K001"},
    "lr_is_zero": {"D007"},
    "clip_zero_as_fault": {"U004"},
    "loss_zero_expected": {"U007"},
    "task_too_hard": {"T001"},
    "policy_drift": {"K001"},
    "kl_missing_as_fault": set(),
    "numerics_only": {"Y002"},
}
"""What must not be raised at all; names that end in _as_root_cause must only not come first."""

FIRST = {
    "task_too_hard_as_root_cause": {"T001"},
    "verifier_broken_as_root_cause": {"R001", "R015"},
    "all_groups_tied_as_root_cause": {"S001"},
    "truncation_starves_reward": {"L001", "L004"},
}
ADVICE = {
    "learning_rate_too_high": "lower the learning rate",
    "learning_rate_too_low": "raise the learning rate",
    "raise_beta": "raise the kl coefficient",
    "reward_improving": "reward is improving",
}
ALARM = {Verdict.ACT, Verdict.STOP}


def cases() -> list[str]:
    folder = Path(__file__).parents[2] / "shared" / "cases"
    return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else ["none"]


def raised(found: Diagnosis) -> list[str]:
    return [i for cause in found.causes for i in (cause.id, *(c.id for c in cause.consequences))]


def check_one(found: Diagnosis, verdict: str, expected: dict[str, object]) -> None:
    if verdict == "fault":
        assert found.verdict in ALARM, (found.verdict, found.headline)
        roots = [f["id"] for f in expected["findings"] if f["role"] == "root_cause"]  # type: ignore[attr-defined]
        wanted = set().union(*(ROOT[r] for r in roots))
        assert found.causes[0].id in wanted, [(c.id, c.finding.summary) for c in found.causes]
    else:
        assert found.verdict not in ALARM, [(c.id, c.finding.summary) for c in found.causes]
    plan = " ".join(step.text for step in found.plan).lower()
    for name in expected["must_not_flag"]:  # type: ignore[attr-defined]
        assert not set(raised(found)) & WRONG.get(name, set()), (name, raised(found))
        assert not (found.causes and found.causes[0].id in FIRST.get(name, set())), name
        assert ADVICE.get(name, "\0") not in plan, name
        assert name in {*WRONG, *FIRST, *ADVICE}, f"no check is known for {name}"


@pytest.mark.parametrize("name", cases())
def test_reported_case(shared: Path, name: str) -> None:
    folder = shared / "cases" / name
    expected = json.loads((folder / "expected.json").read_text())
    per_file = expected.get("per_file", {})
    for path in sorted((*folder.glob("input.*"), *folder.glob("control.*"))):
        check_one(diagnose(load(path)), per_file.get(path.name, expected["verdict"]), expected)
