"""Advantages recomputed from rewards: each hypothesis is recognised, on the reference vectors and on planted faults."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlvitals.rollouts.facts import advantages
from tests.rollouts.facts.batches import batch, merges, says

GROUPS, SIZE = 24, 8


def rewards(seed: int = 0) -> np.ndarray:
    """Return float64[GROUPS, SIZE]: graded rewards of prompts of unequal difficulty, a few groups tied."""
    rng = np.random.default_rng(seed)
    out = np.round(rng.beta(2, 2, (GROUPS, 1)) + 0.2 * rng.standard_normal((GROUPS, SIZE)), 3)
    out[::6] = 1.0
    return out


def z(r: np.ndarray, ddof: int = 1) -> np.ndarray:
    return (r - r.mean(1, keepdims=True)) / (r.std(1, ddof=ddof, keepdims=True) + 1e-4)


R = rewards()
CENTRED = R - R.mean(1, keepdims=True)
MERGED = R - np.repeat(R.reshape(-1, 2 * SIZE).mean(1), 2)[:, None]
MAKE = {
    "group_z_ddof0": z(R, 0),
    "group_z_ddof1": z(R, 1),
    "centred_only": CENTRED,
    "leave_one_out": CENTRED * SIZE / (SIZE - 1),
    "batch_scaled": CENTRED / R.std(),
    "batch_baseline": (R - R.mean()) / R.std(),
    "uncentred": R,
    "sign_flipped": -z(R, 1),
    "merged_groups": MERGED,
    "misordered": z(R, 1)[:, ::-1],
    "shifted": np.roll(z(R, 1).ravel(), 3).reshape(R.shape),
    "all_zero": 0.0 * R,
}


def shares(advantage: np.ndarray, reward: np.ndarray = R) -> dict[str, float]:
    names = [f"g{i}" for i in range(len(reward)) for _ in range(reward.shape[1])]
    found = says(advantages.FACT, batch(reward=reward.ravel(), advantage=advantage.ravel(), group=names))
    return {n.partition("/")[2]: v[1] for n, v in found.items() if n.startswith("advantage_match/")}


@pytest.mark.parametrize("name", sorted(MAKE))
def test_each_kind_of_advantage_is_recognised(name: str) -> None:
    found = shares(np.round(MAKE[name], 4))
    best = max(found, key=lambda n: found[n])
    assert best == name
    assert found[name] > 0.75  # two merged groups may have equal means by chance
    assert all(v < 0.2 for n, v in found.items() if n != name)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("grpo_sample_std_eps1e4", "group_z_ddof1"),
        ("grpo_pop_std_eps0", "group_z_ddof0"),
        ("dr_grpo", "centred_only"),
        ("rloo", "leave_one_out"),
        ("trl_scale_batch", "batch_scaled"),
    ],
)
def test_the_reference_vectors_are_recognised(shared: Path, key: str, name: str) -> None:
    found = json.loads((shared / "vectors" / "advantages.json").read_text(encoding="utf-8"))
    reward = np.array(found["rewards"], dtype=float).reshape(-1, found["G"])
    advantage = np.array(found[key], dtype=float).reshape(reward.shape)
    assert shares(advantage, reward)[name] == 1.0


def test_binary_rewards_in_pairs_are_ambiguous_between_scalings_but_no_fault() -> None:
    reward = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    found = shares(z(reward, 0), reward)
    assert found["group_z_ddof0"] == found["leave_one_out"] == 1.0
    assert sum(found[n] for n in advantages.FAULTS) == 0.0


def test_the_share_is_over_groups_with_differences_and_merges() -> None:
    names = [f"g{i}" for i in range(GROUPS) for _ in range(SIZE)]
    b = batch(reward=R.ravel(), advantage=z(R).ravel(), group=names)
    assert says(advantages.FACT, b)["advantage_groups"] == {1: 20.0}
    assert merges(advantages.FACT, b, 45)
