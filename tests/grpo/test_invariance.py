"""What must not change a loss: padding, the cut into micro-batches, the order of sequences; and ratio one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rlvitals.grpo import losses
from rlvitals.grpo.advantages import Advantage, advantage_B
from rlvitals.grpo.aggregation import Aggregation, Counts
from rlvitals.grpo.masks import per_token_BT
from rlvitals.grpo.ratios import RATIOS, RatioLevel, token_ratio_BT
from rlvitals.grpo.recipes import RECIPES, Batch, Recipe, policy_loss
from tests.grpo.batches import Inputs, close, random_inputs, value_and_grad

TIGHT = 1e-12
ALL = pytest.mark.parametrize("name", RECIPES)


def full(name: str) -> Recipe:
    """Return a recipe with an entropy bonus added, so that every term takes part."""
    return replace(RECIPES[name], entropy_coef=0.01)


def batch_of(recipe: Recipe, x: Inputs) -> Batch:
    components = torch.stack([x.reward_B, x.reward_B.flip(0)], dim=1)
    adv_B = advantage_B(recipe.advantage, components, x.group_B, x.reward_B.new_tensor([1.0, 0.5]))
    return Batch(
        logp_BT=x.logp_BT, logp_old_BT=x.old_BT, adv_BT=per_token_BT(adv_B, x.mask_BT), mask_BT=x.mask_BT,
        logp_sampler_BT=x.sampler_BT, logp_ref_BT=x.ref_BT, entropy_BT=-2 * x.logp_BT,
    )  # fmt: skip


def with_tensors(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    return Batch(**{k: None if v is None else change(v) for k, v in vars(batch).items()})


def loss_and_grad(recipe: Recipe, batch: Batch, counts: Counts, logp_BT: Tensor) -> tuple[Tensor, Tensor]:
    def loss(logp: Tensor) -> Tensor:
        return policy_loss(recipe, replace(batch, logp_BT=logp, entropy_BT=-2 * logp), counts).total

    return value_and_grad(loss, logp_BT)


@ALL
def test_padding_changes_nothing_even_if_it_is_nan(name: str) -> None:
    x, recipe = random_inputs(), full(name)
    batch, counts = batch_of(recipe, x), Counts.of(x.mask_BT, x.max_tokens)
    value, grad = loss_and_grad(recipe, batch, counts, x.logp_BT)

    def pad(t: Tensor) -> Tensor:
        if t.dtype == torch.bool:
            return torch.nn.functional.pad(t, (0, 2), value=False)
        t = t.detach().masked_fill(~x.mask_BT, torch.nan)
        return torch.nn.functional.pad(t, (0, 2), value=torch.inf)

    wide = with_tensors(batch, pad)
    value_wide, grad_wide = loss_and_grad(recipe, wide, Counts.of(wide.mask_BT, x.max_tokens), wide.logp_BT)
    close(value_wide, value, TIGHT)
    close(grad_wide[:, :-2], grad, TIGHT)
    assert float(grad_wide[:, -2:].abs().sum()) == 0.0
    assert float(grad_wide[:, :-2][~x.mask_BT].abs().sum()) == 0.0


@ALL
def test_micro_batches_add_up(name: str) -> None:
    x, recipe = random_inputs(seed=3), full(name)
    batch, counts = batch_of(recipe, x), Counts.of(x.mask_BT, x.max_tokens)
    value, grad = loss_and_grad(recipe, batch, counts, x.logp_BT)
    rows = [slice(0, 1), slice(1, 6), slice(6, 8)]
    parts = [
        loss_and_grad(recipe, with_tensors(batch, lambda t, r=r: t[r]), replace(counts, micro_batches=3), x.logp_BT[r])
        for r in rows
    ]
    same = bool(torch.isclose(sum(p[0] for p in parts), value, atol=TIGHT, rtol=0))
    assert same is (recipe.aggregation is not Aggregation.LOCAL_TOKEN_MEAN)  # that one depends on the cut
    if same:
        close(torch.cat([p[1] for p in parts]), grad, TIGHT)


@ALL
def test_order_of_sequences_is_free(name: str) -> None:
    x, recipe = random_inputs(seed=5), full(name)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    batch, counts = batch_of(recipe, x), Counts.of(x.mask_BT, x.max_tokens)
    value, grad = loss_and_grad(recipe, batch, counts, x.logp_BT)
    mixed, mixed_grad = loss_and_grad(recipe, with_tensors(batch, lambda t: t[order]), counts, x.logp_BT[order])
    close(mixed, value, TIGHT)
    close(mixed_grad, grad[order], TIGHT)


Function = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # logp, old, adv_B, mask: loss


def by(level: RatioLevel, choice: losses.Surrogate) -> Function:
    return lambda logp, old, adv, mask: losses.surrogate(choice, RATIOS[level](logp, old, mask), logp, adv[:, None])


CLIP = losses.Clip(0.2, 0.28)
AT_ONE: dict[str, Function] = {
    "reinforce": by(RatioLevel.TOKEN, losses.Reinforce()),
    "clip": by(RatioLevel.TOKEN, CLIP),
    "dual clip": by(RatioLevel.TOKEN, losses.DualClip(0.2, 0.2, 3.0)),
    "two-sided": by(RatioLevel.TOKEN, losses.TwoSided(0.2, 0.2, 4.0)),
    "cispo": by(RatioLevel.TOKEN, losses.Cispo(5.0)),
    "gspo-token": by(RatioLevel.SEQUENCE_TOKEN, CLIP),
    "sapo": lambda logp, old, adv, mask: losses.sapo(token_ratio_BT(logp, old, mask), adv[:, None]),
    "vespo": losses.vespo,
    "dppo": lambda logp, old, adv, mask: losses.dppo(logp, old, adv[:, None], mask),
    "prime-rl": lambda logp, old, adv, mask: losses.prime_rl(logp, old, adv[:, None], mask),
    "dro": lambda logp, old, adv, mask: losses.dro(logp, old, adv[:, None], mask),
    "clip-cov": lambda logp, old, adv, mask: losses.clip_cov(
        token_ratio_BT(logp, old, mask), adv[:, None], torch.zeros_like(logp), 0.2, 0.2, band=(1.0, 5.0)
    ),
    "kl-cov": lambda logp, old, adv, mask: losses.kl_cov(logp, old, adv[:, None], mask, share=0.2),
}
PER_SEQUENCE: dict[str, tuple[Function, bool]] = {  # and whether its gradient is that of the sum or the mean of tokens
    "gspo": (lambda *a: by(RatioLevel.SEQUENCE_MEAN, CLIP)(*a)[:, 0], False),
    "gmpo": (losses.gmpo_B, False),
    "luspo": (losses.luspo_B, True),
    "rloo": (lambda *a: by(RatioLevel.SEQUENCE_SUM, CLIP)(*a)[:, 0], True),
    "kimi": (losses.kimi_B, True),
}


def at_ratio_one(function: Function) -> tuple[Tensor, Tensor, Inputs]:
    x = random_inputs(seed=1, spread=0.0)
    adv_B = torch.linspace(-1.5, 2.0, 8, dtype=torch.float64)

    def loss(logp: Tensor) -> Tensor:
        out = function(logp, x.old_BT, adv_B, x.mask_BT)
        return out.sum() if out.dim() == 1 else (out * x.mask_BT).sum()

    return value_and_grad(loss, x.old_BT)[1], -per_token_BT(adv_B, x.mask_BT), x


@pytest.mark.parametrize("name", AT_ONE)
def test_ratio_one_is_reinforce(name: str) -> None:
    found, reinforce, _ = at_ratio_one(AT_ONE[name])
    close(found, reinforce, TIGHT)


@pytest.mark.parametrize("name", PER_SEQUENCE)
def test_ratio_one_is_reinforce_per_sequence(name: str) -> None:
    function, summed = PER_SEQUENCE[name]
    found, reinforce, x = at_ratio_one(function)
    close(found, reinforce if summed else reinforce / x.mask_BT.sum(dim=1, keepdim=True), TIGHT)


def test_nothing_to_learn_gives_zero_and_no_nan() -> None:
    x = random_inputs()
    empty = torch.zeros_like(x.mask_BT)
    for name in RECIPES:
        batch = replace(batch_of(full(name), x), mask_BT=empty)
        value, grad = loss_and_grad(full(name), batch, Counts.of(empty, x.max_tokens), x.logp_BT)
        assert value == 0.0
        assert float(grad.abs().sum()) == 0.0


def test_advantages_need_no_gradient_and_get_none() -> None:
    x = random_inputs()
    adv_BT = per_token_BT(torch.linspace(-1, 1, 8, dtype=torch.float64), x.mask_BT).requires_grad_()
    recipe = RECIPES["dapo"]
    batch = replace(batch_of(recipe, x), adv_BT=adv_BT)
    policy_loss(recipe, batch, Counts.of(x.mask_BT, x.max_tokens)).total.backward()
    assert adv_BT.grad is None
    assert recipe.advantage is Advantage.GROUP_STD
