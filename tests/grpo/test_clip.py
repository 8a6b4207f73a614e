"""Where each surrogate gives gradient: every sign of the advantage in every region of the ratio, by hand."""

from __future__ import annotations

import pytest
import torch

from rlvitals.grpo.losses import Cispo, Clip, DualClip, Reinforce, Surrogate, TwoSided, clip_regions, surrogate
from tests.grpo.batches import close, tensor, value_and_grad

LOW, HIGH, BOUND = 0.2, 0.28, 3.0
BELOW, INSIDE, ABOVE, FAR = 0.5, 1.1, 2.0, 4.0  # of [0.8, 1.28], and beyond the bound of 3

# (surrogate, ratio, A): loss, and gradient with log r (of a loss -r A it is -r A)
PPO = Clip(LOW, HIGH)
TABLE: list[tuple[Surrogate, float, float, float, float]] = [
    # PPO: cut only where the ratio has already gone the way A asks
    (PPO, BELOW, +2.0, -1.0, -1.0),  # -r A
    (PPO, INSIDE, +2.0, -2.2, -2.2),
    (PPO, ABOVE, +2.0, -2.56, 0.0),  # -1.28 A
    (PPO, FAR, +2.0, -2.56, 0.0),
    (PPO, BELOW, -2.0, 1.6, 0.0),  # 0.8 |A|
    (PPO, INSIDE, -2.0, 2.2, 2.2),
    (PPO, ABOVE, -2.0, 4.0, 4.0),  # kept: it must come down
    (PPO, FAR, -2.0, 8.0, 8.0),
    (PPO, BELOW, 0.0, 0.0, 0.0),
    (PPO, INSIDE, 0.0, 0.0, 0.0),
    (PPO, ABOVE, 0.0, 0.0, 0.0),
    # dual clip and the two-sided clip differ from it in one cell: far above with A < 0
    (DualClip(LOW, HIGH, BOUND), FAR, -2.0, 6.0, 0.0),
    (DualClip(LOW, HIGH, BOUND), FAR, +2.0, -2.56, 0.0),
    (DualClip(LOW, HIGH, BOUND), ABOVE, -2.0, 4.0, 4.0),
    (DualClip(LOW, HIGH, BOUND), BELOW, -2.0, 1.6, 0.0),
    (DualClip(LOW, HIGH, BOUND), BELOW, +2.0, -1.0, -1.0),
    (TwoSided(LOW, HIGH, BOUND), FAR, -2.0, 6.0, 0.0),
    (TwoSided(LOW, HIGH, BOUND), FAR, +2.0, -2.56, 0.0),
    (TwoSided(LOW, HIGH, BOUND), ABOVE, -2.0, 4.0, 4.0),
    (TwoSided(LOW, HIGH, BOUND), BELOW, -2.0, 1.6, 0.0),
    (TwoSided(LOW, HIGH, BOUND), BELOW, +2.0, -1.0, -1.0),
]


@pytest.mark.parametrize(("choice", "ratio", "adv", "loss", "grad"), TABLE)
def test_sign_by_region(choice: Surrogate, ratio: float, adv: float, loss: float, grad: float) -> None:
    """With old = 0, logp is log r, so the gradient with logp is that with log r."""
    logp = tensor([[ratio]]).log()
    value, found = value_and_grad(lambda x: surrogate(choice, x.exp(), x, tensor([[adv]])).sum(), logp)
    close(value, loss, 1e-12)
    close(found, [[grad]], 1e-12)


@pytest.mark.parametrize("adv", [-2.0, 2.0])
@pytest.mark.parametrize("ratio", [BELOW, INSIDE, ABOVE, FAR])
def test_cispo_and_reinforce_are_never_cut(ratio: float, adv: float) -> None:
    logp = tensor([[ratio]]).log()
    for choice, weight in ((Reinforce(), 1.0), (Cispo(BOUND), min(ratio, 3.0)), (Cispo(1.28, 0.8), None)):
        bounded = weight if weight is not None else min(max(ratio, 0.8), 1.28)
        _, grad = value_and_grad(lambda x, c=choice: surrogate(c, x.exp(), x, tensor([[adv]])).sum(), logp)
        close(grad, [[-bounded * adv]], 1e-12)


def test_regions_name_the_cells_without_gradient() -> None:
    ratio = tensor([BELOW, INSIDE, ABOVE, BELOW, INSIDE, ABOVE, BELOW, ABOVE])
    adv = tensor([2.0, 2.0, 2.0, -2.0, -2.0, -2.0, 0.0, 0.0])
    below, above = clip_regions(ratio, adv, LOW, HIGH)
    assert below.tolist() == [False, False, False, True, False, False, False, False]
    assert above.tolist() == [False, False, True, False, False, False, False, False]


def test_a_ratio_on_the_edge_keeps_its_gradient() -> None:
    edge = torch.log(tensor([[1 + 0.25]]))  # exact in binary: 1.25
    _, grad = value_and_grad(lambda x: surrogate(Clip(0.25, 0.25), x.exp(), x, tensor([[1.0]])).sum(), edge)
    assert abs(float(grad)) > 0.6
