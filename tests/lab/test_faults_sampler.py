"""Faults of sampler, synchronisation and log: each really changes what it says, seen on the piece that it replaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from rlvitals.grpo import tiny
from rlvitals.grpo.config import Config
from rlvitals.grpo.rollout import Sampler, Sampling
from rlvitals.grpo.score import Policy
from rlvitals.lab import faults
from rlvitals.lab.fault import Fault, Place
from rlvitals.lab.faults import (
    FAULTS,
    adapter_not_merged,
    end_token_unknown,
    lossy,
    lossy_sampler_stale,
    sampler_bfloat16,
    sampler_quantised,
    sampler_stale,
    sampler_temperature_off,
    sync_does_nothing,
    top_p_unaccounted,
)
from rlvitals.lab.faults.samplers import to_bits
from tests.grpo.loops import SHAPE, one_thread
from tests.lab.faulty import given, logged

PROMPTS, SEEDS = [[1, 9, 10]] * 8, list(range(8))


@pytest.fixture
def policy() -> Policy:
    one_thread()
    made = tiny.new_model(SHAPE).eval()
    with torch.no_grad():
        made.model.embed_tokens.weight.mul_(20.0)  # tied to the head: far from uniform
    return Policy(made)


def sampler_of(fault: Fault, policy: Policy, strength: int = 0) -> Sampler:
    parts = fault.inject(given(fault, strength=strength))[1]
    return parts.sampler(policy, tiny.new_tokenizer(), Config())


def drawn(sampler: Sampler, **how: Any) -> list[tuple[int, ...]]:
    made = sampler.generate(PROMPTS, SEEDS, [6] * 8, Sampling(max_tokens=6, **how))
    assert all(g.keep_packed is None for g in made)
    return [g.ids for g in made]


@pytest.mark.parametrize(
    ("fault", "strength", "really"),
    [
        (sampler_temperature_off.FAULT, 0, {"temperature": 2.0}),
        (sampler_temperature_off.FAULT, 2, {"temperature": 0.6}),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_the_sampler_has_settings_of_its_own(
    policy: Policy, fault: Fault, strength: int, really: dict[str, float]
) -> None:
    right = given(fault).parts.sampler(policy, tiny.new_tokenizer(), Config())
    assert drawn(sampler_of(fault, policy, strength)) == drawn(right, **really)
    assert drawn(sampler_of(fault, policy, strength)) != drawn(right)


def test_what_could_not_be_drawn_is_not_told(policy: Policy) -> None:
    right = given(top_p_unaccounted.FAULT).parts.sampler(policy, tiny.new_tokenizer(), Config())
    kept = right.generate(PROMPTS, SEEDS, [6] * 8, Sampling(max_tokens=6, top_p=0.7))
    assert kept[0].keep_packed is not None
    assert drawn(sampler_of(top_p_unaccounted.FAULT, policy)) == [g.ids for g in kept]


def test_nothing_ends_for_a_sampler_that_does_not_know_the_end(policy: Policy) -> None:
    sampler = sampler_of(end_token_unknown.FAULT, policy)
    made = sampler.generate(PROMPTS, SEEDS, [6] * 8, Sampling(max_tokens=6))
    assert [(g.ended, len(g.ids)) for g in made] == [(False, 6)] * 8


def weights(sampler: Sampler) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in cast("Any", sampler).model.state_dict().items()}


def moved(policy: Policy) -> None:
    with torch.no_grad():
        for weight in policy.parameters():
            weight += 0.5


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[k], b[k]) for k in a)


def test_bfloat16_and_few_bits_round_what_is_pushed(policy: Policy) -> None:
    for fault, change in (
        (sampler_bfloat16.FAULT, lambda w: w.to(torch.bfloat16).float()),
        (sampler_quantised.FAULT, to_bits(4)),
    ):
        sampler = sampler_of(fault, policy)
        sampler.push(policy.model, 3)
        wanted = {k: cast("Callable[..., Any]", change)(v) for k, v in policy.model.state_dict().items()}
        assert same(weights(sampler), wanted)
        assert not same(weights(sampler), policy.model.state_dict())


def test_few_bits_are_few_levels() -> None:
    rounded = to_bits(3)(torch.linspace(-1, 1, 101)[None, :])
    assert rounded.unique().tolist() == pytest.approx([-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1])
    assert to_bits(3)(torch.ones(4)).tolist() == [1.0] * 4


def test_a_push_that_does_nothing_takes_the_version_alone(policy: Policy) -> None:
    sampler = sampler_of(sync_does_nothing.FAULT, policy)
    sampler.push(policy.model, 0)
    before = weights(sampler)
    moved(policy)
    sampler.push(policy.model, 7)
    assert same(weights(sampler), before)
    assert sampler.generate(PROMPTS, SEEDS, [2] * 8, Sampling(max_tokens=2))[0].version == 7


@pytest.mark.parametrize(("strength", "pushed"), [(0, [0, 16, 32]), (1, [0])])
def test_weights_are_pushed_as_rarely_as_said(strength: int, pushed: list[int]) -> None:
    sync = sampler_stale.FAULT.inject(given(sampler_stale.FAULT, strength=strength))[1].sync
    seen: list[int] = []
    sampler = cast("Sampler", SimpleNamespace(push=lambda model, version: seen.append(version)))
    for step in range(40):
        sync(sampler, torch.nn.Linear(1, 1), step, step)
    assert seen == pushed


def test_the_lag_is_logged(tmp_path: Path) -> None:
    found = logged(sampler_stale.FAULT, tmp_path, strength=1, steps=4)
    assert [r["version_lag_mean"] for r in found] == [0.0, 1.0, 2.0, 3.0]


def test_the_adapter_is_not_sampled_from(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    found = logged(adapter_not_merged.FAULT, tmp_path, steps=4, lora_rank=2, lr=3e-2)
    assert found[0]["logprob_gap_mean"] == pytest.approx(0.0, abs=1e-5)
    assert found[3]["logprob_gap_mean"] > 1e-3


def test_a_lossy_log_keeps_means_over_ten_steps(tmp_path: Path) -> None:
    found = logged(lossy.FAULT, tmp_path, steps=20)
    assert [len(r) > 1 for r in found] == [s % 10 == 0 for s in range(1, 21)]
    assert {k for k in found[9] if "std" in k or "variance" in k or k.startswith("eval/")} == set()
    means = lossy.Means()
    rows = [means(s, {"reward_mean": float(s), "reward_std": 1.0}) for s in range(1, 11)]
    assert rows == [{}] * 9 + [{"reward_mean": 5.5}]


def test_a_lossy_log_lies_on_top_of_the_other_fault() -> None:
    fault = lossy_sampler_stale.FAULT
    config, parts = fault.inject(given(fault))
    assert fault.place is Place.LOGGING
    assert fault.strengths[0].value == math.inf
    assert config.eval_every == 0
    assert isinstance(parts.record, lossy.Means)
    assert parts.sync is not given(fault).parts.sync


def test_every_file_is_in_the_list() -> None:
    shared = {"__init__", "common", "samplers"}
    files = {p.stem for p in Path(next(iter(faults.__path__))).glob("*.py")} - shared
    assert len(files) == len(FAULTS) == len({f.name for f in FAULTS})
    assert all(f.name.replace("-", "_") in files or f.name.startswith("lossy-log") for f in FAULTS)
