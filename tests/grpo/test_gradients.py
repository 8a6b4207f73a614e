"""Finite differences: the gradient is that of the value; where a formula stops a gradient, it is stated instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rlvitals.grpo import losses
from rlvitals.grpo.kl import Estimator, estimate_BT
from rlvitals.grpo.masks import per_token_BT
from rlvitals.grpo.ratios import RATIOS, RatioLevel, token_ratio_BT
from tests.grpo.batches import Inputs, close, random_inputs, value_and_grad

STEP = 1e-6  # nats; central differences of smooth functions are then good to about 1e-9
X = random_inputs(seed=7)
ADV_B = torch.linspace(-1.5, 2.0, 8, dtype=torch.float64)
ADV = ADV_B[:, None]

Loss = Callable[[Inputs, Tensor], Tensor]
SMOOTH: dict[str, Loss] = {
    **{
        f"{type(choice).__name__} {level.value}": lambda x, lp, c=choice, level=level: losses.surrogate(
            c, RATIOS[level](lp, x.old_BT, x.mask_BT), lp, ADV
        )
        for choice in (
            losses.Reinforce(), losses.Clip(0.2, 0.28), losses.DualClip(0.2, 0.2, 1.5), losses.TwoSided(0.2, 0.2, 1.5),
        )
        for level in (RatioLevel.TOKEN, RatioLevel.SEQUENCE_MEAN, RatioLevel.SEQUENCE_SUM)
    },
    "gmpo": lambda x, lp: losses.gmpo_B(lp, x.old_BT, ADV_B, x.mask_BT)[:, None],
    "luspo": lambda x, lp: losses.luspo_B(lp, x.old_BT, ADV_B, x.mask_BT, low=0.2, high=0.28)[:, None],
    "kimi": lambda x, lp: losses.kimi_B(lp, x.old_BT, ADV_B, x.mask_BT)[:, None],
    "sapo": lambda x, lp: losses.sapo(token_ratio_BT(lp, x.old_BT, x.mask_BT), ADV),
    "dro": lambda x, lp: losses.dro(lp, x.old_BT, ADV, x.mask_BT),
    "prime-rl": lambda x, lp: losses.prime_rl(lp, x.sampler_BT, ADV, x.mask_BT),
    "kl-cov": lambda x, lp: losses.kl_cov(lp, x.old_BT, ADV, x.mask_BT, share=0.3),
    "luffy": lambda x, lp: losses.luffy(lp, lp, ADV, torch.arange(8) % 2 == 0),
    **{
        estimator.value: lambda x, lp, e=estimator: estimate_BT(e, lp, x.old_BT, x.ref_BT, x.mask_BT)
        for estimator in (Estimator.K1, Estimator.K2, Estimator.K3, Estimator.RATIO_K3)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_finite_differences(name: str) -> None:
    def total(logp: Tensor) -> Tensor:
        return torch.where(X.mask_BT, SMOOTH[name](X, logp), 0.0).sum()

    _, grad = value_and_grad(total, X.logp_BT)
    at, numeric = X.logp_BT.detach(), torch.zeros_like(grad)
    for i, j in X.mask_BT.nonzero().tolist():
        step = torch.zeros_like(at)
        step[i, j] = STEP
        numeric[i, j] = (total(at + step) - total(at - step)) / (2 * STEP)
    close(grad, numeric, 1e-7)


def test_constants_carry_no_gradient() -> None:
    """Where a formula stops a gradient, what is left is weight times -A: stated instead of differenced."""
    ratio_BT = token_ratio_BT(X.logp_BT, X.old_BT, X.mask_BT).detach()
    want = -per_token_BT(ADV_B, X.mask_BT)
    cases: list[tuple[Callable[[Tensor], Tensor], Tensor]] = [
        (
            lambda lp: losses.cispo(token_ratio_BT(lp, X.old_BT, X.mask_BT), lp, ADV, 1.28, 0.8),
            ratio_BT.clamp(0.8, 1.28) * want,
        ),
        (
            lambda lp: losses.vespo(lp, X.old_BT, ADV_B, X.mask_BT),
            losses.vespo_weight_B1(X.logp_BT, X.old_BT, ADV_B, X.mask_BT) * want,
        ),
        (
            lambda lp: losses.dppo(lp, X.old_BT, ADV, X.mask_BT, width=9.0),
            ratio_BT.clamp(max=20.0) * want,
        ),
    ]
    for loss, expected in cases:
        close(value_and_grad(lambda lp, f=loss: (f(lp) * X.mask_BT).sum(), X.logp_BT)[1], expected, 1e-12)


def test_gspo_and_gspo_token_agree_when_a_sequence_has_one_advantage() -> None:
    grads = [
        value_and_grad(
            lambda lp, level=level: (
                losses.clipped(RATIOS[level](lp, X.old_BT, X.mask_BT), ADV, 0.2, 0.28) * X.mask_BT
            ).sum(),
            X.logp_BT,
        )
        for level in (RatioLevel.SEQUENCE_MEAN, RatioLevel.SEQUENCE_TOKEN)
    ]
    close(grads[0][0], grads[1][0], 1e-12)
    close(grads[0][1], grads[1][1], 1e-12)
