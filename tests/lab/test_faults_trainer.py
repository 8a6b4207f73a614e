"""Faults of the trainer: each really changes what it says, seen on the piece that it replaces."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from rlvitals.grpo.advantages import Advantage, group_mean_B
from rlvitals.grpo.aggregation import Counts
from rlvitals.grpo.recipes import RECIPES, Batch, policy_loss
from rlvitals.lab.fault import Fault
from rlvitals.lab.faults import (
    accumulation_misscaled,
    advantage_sign_flipped,
    baseline_missing,
    baseline_missing_scaled,
    clip_wrong_for_negative,
    end_token_untrained,
    entropy_bonus_sign,
    entropy_bonus_too_large,
    gradient_cut_off,
    group_key_wrong,
    group_of_one,
    kl_coefficient_huge,
    learning_rate_too_high,
    nan_from_one_step,
    old_policy_stale,
    reference_other,
    resumed_with_weights_only,
    summed_kl,
    summed_kl_no_reward,
    temperature_near_zero,
)
from tests.grpo.batches import Inputs, random_inputs
from tests.lab.faulty import given, healthy, logged

REWARDS = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
GROUPS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])


def advantages(fault: Fault, strength: int = 0) -> list[float]:
    parts = fault.inject(given(fault, strength=strength))[1]
    made = parts.advantage(Advantage.GROUP_MEAN, torch.tensor(REWARDS)[:, None], GROUPS, torch.ones(1))
    return [round(x, 4) for x in made.tolist()]


@pytest.mark.parametrize(
    ("fault", "strength", "expected"),
    [
        (baseline_missing.FAULT, 0, REWARDS),
        (baseline_missing.FAULT, 1, [r - 1 for r in REWARDS]),
        (baseline_missing_scaled.FAULT, 0, [1.9996, 0.0, 0.0, 0.0, 1e4, 1e4, 1e4, 1e4]),
        # every second rollout: the means are 3/4 and 1/2
        (group_key_wrong.FAULT, 0, [0.25, -0.5, -0.75, -0.5, 0.25, 0.5, 0.25, 0.5]),
        (group_of_one.FAULT, 0, [0.0] * 8),
        (advantage_sign_flipped.FAULT, 0, [-0.75, 0.25, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0]),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_advantages_are_wrong_as_said(fault: Fault, strength: int, expected: list[float]) -> None:
    right = group_mean_B(torch.tensor(REWARDS), GROUPS).tolist()
    assert advantages(fault, strength) == pytest.approx(expected)
    assert advantages(fault, strength) != pytest.approx(right)


@pytest.mark.parametrize(
    ("fault", "setting", "value"),
    [
        (temperature_near_zero.FAULT, "temperature", 0.05),
        (learning_rate_too_high.FAULT, "lr", 3e-3),
        (kl_coefficient_huge.FAULT, "kl_coef", 20.0),
        (summed_kl.FAULT, "recipe", "ch7-kl"),
        (summed_kl_no_reward.FAULT, "recipe", "ch7-kl"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_one_setting_is_another(fault: Fault, setting: str, value: object) -> None:
    before = given(fault)
    after = fault.inject(before)[0]
    assert getattr(after, setting) == value
    assert getattr(before.config, setting) != value


def batch_of(inputs: Inputs) -> Batch:
    adv_B = group_mean_B(inputs.reward_B, inputs.group_B)
    return Batch(
        inputs.logp_BT, inputs.old_BT, adv_B[:, None].expand_as(inputs.old_BT), inputs.mask_BT,
        logp_sampler_BT=inputs.sampler_BT, logp_ref_BT=inputs.ref_BT, entropy_BT=-inputs.logp_BT,
    )  # fmt: skip


def gradient(fault: Fault | None, inputs: Inputs) -> tuple[float, torch.Tensor]:
    loss = policy_loss if fault is None else fault.inject(given(fault))[1].loss
    made = loss(RECIPES["dapo"], batch_of(inputs), Counts.of(inputs.mask_BT, inputs.max_tokens))
    (grad_BT,) = torch.autograd.grad(made.total, inputs.logp_BT)
    return float(made.total.detach()), grad_BT


def test_a_cut_gradient_is_zero_and_its_loss_is_the_same() -> None:
    inputs = random_inputs()
    right, _ = gradient(None, inputs)
    value, grad_BT = gradient(gradient_cut_off.FAULT, inputs)
    assert value == pytest.approx(right)
    assert not grad_BT.any()


def test_the_last_token_gets_no_gradient() -> None:
    inputs = random_inputs(spread=0.05)
    grad_BT = gradient(end_token_untrained.FAULT, inputs)[1]
    last_B = inputs.mask_BT.sum(dim=1) - 1
    assert gradient(None, inputs)[1].gather(1, last_B[:, None]).any()
    assert not grad_BT.gather(1, last_B[:, None]).any()
    assert grad_BT.any()


@pytest.mark.parametrize(("fault", "sign"), [(entropy_bonus_sign.FAULT, -1), (entropy_bonus_too_large.FAULT, 1)])
def test_the_bonus_has_its_sign(fault: Fault, sign: int) -> None:
    inputs = random_inputs()
    mean = float((-inputs.logp_BT.detach())[inputs.mask_BT].mean())
    added = gradient(fault, inputs)[0] - gradient(None, inputs)[0]
    assert added == pytest.approx(-sign * fault.strengths[0].value * mean)


def test_nothing_stops_a_token_from_being_pushed_down() -> None:
    ratio = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64).requires_grad_()
    wrong_BT = clip_wrong_for_negative.wrong_BT(ratio, torch.tensor([-1.0, -1.0, -1.0]), 0.2, 0.2)
    (grad,) = torch.autograd.grad(wrong_BT.sum(), ratio)
    assert wrong_BT.tolist() == [0.5, 1.0, 1.2]
    assert grad.tolist()[0] == 1.0  # below the range the right clip has no gradient
    assert grad.tolist()[2] == 0.0


def test_positive_advantages_are_clipped_rightly() -> None:
    inputs = random_inputs()
    right, wrong = gradient(None, inputs)[1], gradient(clip_wrong_for_negative.FAULT, inputs)[1]
    positive_B = group_mean_B(inputs.reward_B, inputs.group_B) > 0
    torch.testing.assert_close(wrong[positive_B], right[positive_B])
    assert not torch.allclose(wrong[~positive_B], right[~positive_B])


def test_each_micro_batch_counts_as_the_whole() -> None:
    inputs = random_inputs()
    loss = accumulation_misscaled.FAULT.inject(given(accumulation_misscaled.FAULT))[1].loss
    own = Counts.of(inputs.mask_BT, inputs.max_tokens)
    whole = Counts(4 * own.sequences, 4 * own.tokens, own.max_tokens)
    right = policy_loss(RECIPES["dapo"], batch_of(inputs), whole)
    wrong = loss(RECIPES["dapo"], batch_of(inputs), whole)
    assert float(wrong.total.detach()) == pytest.approx(4 * float(right.total.detach()))


def test_the_loss_is_no_number_from_the_start_step_on(tmp_path: Path) -> None:
    found = logged(nan_from_one_step.FAULT, tmp_path, start=3, steps=4)
    assert [math.isnan(r["loss"]) for r in found] == [False, False, True, True]


def test_the_first_ratio_is_not_one_when_the_old_policy_is_stale(tmp_path: Path) -> None:
    found = logged(old_policy_stale.FAULT, tmp_path / "sick", steps=3)
    right = healthy(tmp_path / "well", steps=3)
    assert [r["extra/ratio_first_max"] for r in right] == pytest.approx([1.0] * 3, abs=1e-5)
    assert found[0]["extra/ratio_first_max"] == pytest.approx(1.0, abs=1e-5)  # its weights are still those of the start
    assert found[2]["extra/ratio_first_max"] > 1.001


def test_the_divergence_is_not_zero_before_the_first_update(tmp_path: Path) -> None:
    assert logged(reference_other.FAULT, tmp_path / "sick", steps=1)[0]["kl_ref"] > 1e-4
    assert healthy(tmp_path / "well", steps=1)[0]["kl_ref"] == pytest.approx(0.0, abs=1e-6)


def test_a_restart_forgets_the_optimizer_and_takes_a_new_reference(tmp_path: Path) -> None:
    found = logged(resumed_with_weights_only.FAULT, tmp_path, start=4, steps=5, warmup_steps=8)
    assert found[2]["kl_ref"] > 1e-6
    assert found[3]["kl_ref"] == pytest.approx(0.0, abs=1e-6)
    assert found[3]["learning_rate"] == found[0]["learning_rate"] < found[2]["learning_rate"]


def test_a_group_of_one_leaves_no_advantage(tmp_path: Path) -> None:
    found = logged(group_of_one.FAULT, tmp_path, steps=2)
    assert [(r["advantage_std"], r["advantage_max"]) for r in found] == [(0.0, 0.0)] * 2
    assert found[0]["reward_std"] > 0
