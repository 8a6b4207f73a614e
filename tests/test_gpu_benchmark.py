"""The benchmark of a graphics card, on a CPU in a small shape: what it counts, what it keeps when a part fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from benchmarks import gpu
from benchmarks.card import fused, sampler, steps
from benchmarks.card.meter import Meter
from benchmarks.card.setup import GROUP, QWEN3, SMALL, new_policy, new_task, settings

from rlvitals.env import VerifierStatus
from rlvitals.grpo.models import Policy

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def policy() -> Policy:
    return new_policy(SMALL, CPU)


def test_the_shape_is_that_of_qwen3() -> None:
    tied = QWEN3.vocabulary * QWEN3.hidden
    attention = 2 * QWEN3.hidden * QWEN3.head_dim * (QWEN3.heads + QWEN3.kv_heads)
    layer = attention + 3 * QWEN3.hidden * QWEN3.ff
    assert round((tied + QWEN3.layers * layer) / 1e9, 2) == 0.60


def test_random_ids_become_words_and_words_ids(policy: Policy) -> None:
    ids = [2, 17, SMALL.vocabulary - 1]
    assert policy.tokenizer.encode(policy.tokenizer.decode(ids), add_special_tokens=False) == ids


def test_every_second_rollout_is_paid() -> None:
    task = new_task(SMALL)
    seen = [task.new_env().step("w3") for _ in range(GROUP)]
    assert sum(s.rewards["correct"] for s in seen) == GROUP / 2
    assert {s.status for s in seen} == {VerifierStatus.RIGHT, VerifierStatus.WRONG}


def test_later_cases_take_the_rollouts_of_the_first(policy: Policy) -> None:
    rollouts = steps.Rollouts()
    first = steps.Case(2, 5)
    one = steps.measure(first, policy, SMALL, rollouts)
    kept = [t.ids for t in rollouts.kept[(2, 5)]]
    two = steps.measure(
        replace(first, fresh=False, reference=True, checkpointing=True, micro_tokens=30), policy, SMALL, rollouts
    )
    assert [t.ids for t in rollouts.kept[(2, 5)]] == kept
    assert one["rollouts"] == two["rollouts"] == 2 * GROUP
    assert one["tokens"] == two["tokens"] == sum(len(ids) for ids in kept)
    assert one["tokens_per_s"] == pytest.approx(one["tokens"] / one["step_s"], rel=0.05)
    assert one["seconds"]["reference"] == 0.0 < two["seconds"]["reference"]
    assert two["tokens_per_s"] is None  # nothing was sampled
    assert one["peak_allocated_gb"] is None  # missing, not 0
    assert two["case"] == "2x8x5 reference checkpointing micro 30"


def test_a_step_changes_the_weights(policy: Policy) -> None:
    before = {n: p.detach().clone() for n, p in policy.model.named_parameters()}
    steps.measure(steps.Case(1, 4), policy, SMALL, steps.Rollouts())
    assert any(not torch.equal(p, before[n]) for n, p in policy.model.named_parameters())


def test_parts_add_up_over_calls() -> None:
    meter = Meter(CPU)
    work = meter.timed("update", lambda x: x + 1)
    assert [work(1), work(2)] == [2, 3]
    assert meter.seconds["update"] > 0.0
    meter.clear()
    assert meter.seconds == {}


def test_the_sampler_alone_and_on_a_copy(policy: Policy) -> None:
    kinds = {p.dtype for p in policy.model.parameters()}
    for copied in (False, True):
        found = sampler.measure(policy, SMALL, 9, 3, copied=copied)
        assert 9 <= found["tokens"] <= 27
    assert {p.dtype for p in policy.model.parameters()} == kinds == {torch.float32}


def test_fused_is_the_plain_form() -> None:
    found = fused.difference(SMALL, 12, "float32", CPU)
    assert max(found["fused - plain"].values()) < 1e-5
    cost = fused.measure(SMALL, 12, "bfloat16", CPU, [(8, 64)])
    assert cost["plain"]["peak_gb"] is None
    assert cost["time_ratio"] > 0.0
    assert list(cost["tiles"]) == ["8x64"]


def test_settings_are_those_of_the_other_trainer() -> None:
    pytest.importorskip("trl")
    from benchmarks.card.peer import settings as theirs

    ours, other = settings(budget=256, prompts=8), theirs(8, 256, "unused", cpu=True, checkpointing=False)
    assert ours.rollouts == other.per_device_train_batch_size * other.gradient_accumulation_steps
    assert ours.max_tokens == other.max_completion_length
    assert (ours.group_size, ours.lr, ours.recipe) == (other.num_generations, other.learning_rate, other.loss_type)


def book(out: Path, seconds: float = 60.0) -> gpu.Book:
    return gpu.Book(out, seconds, CPU, {})


def test_a_failure_is_kept_and_what_does_not_fit_is_named(tmp_path: Path) -> None:
    def broken() -> dict[str, Any]:
        raise RuntimeError("out of memory")

    out = tmp_path / "gpu.json"
    kept = book(out)
    kept.do(gpu.Work("steps", "too large", broken))
    kept.do(gpu.Work("steps", "too long", lambda: {"case": "never"}, tokens=10_000))
    kept.do(gpu.Work("steps", "fits", lambda: {"case": "fits"}))
    found = json.loads(out.read_text())
    assert found["failed"][0]["error"] == "out of memory"
    assert "RuntimeError" in found["failed"][0]["traceback"]
    assert "of 60" in found["skipped"][0]["why"]
    assert [r["case"] for r in found["steps"]] == ["fits"]


def test_the_whole_script_keeps_what_other_parts_found(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    out.write_text(json.dumps({"trl": [{"case": "kept"}], "sampler": [{"case": "old"}]}))
    assert gpu.main(["--small", "--only", "sampler", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["trl"] == [{"case": "kept"}]
    assert [r["rows"] for r in found["sampler"]] == [1, 8, 8, 64, 256]
    assert found["about"]["device"] == "cpu"


def test_a_machine_without_a_card_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main(["--out", str(tmp_path / "gpu.json")])
