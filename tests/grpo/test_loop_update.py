"""The update: cut into micro-batches or padded as you like, the step is the same; the old policy stays fixed."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from rlvitals.grpo.aggregation import Counts
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.kl import Estimator, KlTerm, Place, exact_BT
from rlvitals.grpo.packing import Packed, micro_batches
from rlvitals.grpo.recipes import RECIPES, Batch, DeadGroups, Loss, Recipe, policy_loss
from rlvitals.grpo.reference import Reference
from rlvitals.grpo.run import recompute_activations
from rlvitals.grpo.score import Policy, divergence, score
from rlvitals.grpo.update import StepData, Trainer, UpdateStats, new_optimizer, update
from tests.grpo.loops import config, one_thread, untrained

LENGTHS = [5, 9, 14, 6, 14, 8, 11, 7]


def packed(extra: int = 0) -> Packed:
    """Eight rows of unequal length, two prompt tokens each, padded by `extra` more than needed."""
    generator = torch.Generator().manual_seed(3)
    width = max(LENGTHS) + extra
    ids = torch.randint(3, 28, (8, max(LENGTHS)), generator=generator)
    ids_BL = torch.zeros(8, width, dtype=torch.long)
    mask_BT = torch.zeros(8, width - 1, dtype=torch.bool)
    logp_BT = torch.zeros(8, width - 1)
    for row, length in enumerate(LENGTHS):
        ids_BL[row, :length] = ids[row, :length]
        mask_BT[row, 1 : length - 1] = True
        logp_BT[row, 1 : length - 1] = -3.2
    return Packed(ids_BL, mask_BT, logp_BT, torch.tensor(LENGTHS))


def step_data(policy: Policy, extra: int = 0) -> StepData:
    batch = packed(extra)
    adv_B = torch.tensor([1.0, -0.5, 0.0, 0.25, -1.0, 0.75, 0.0, -0.5])
    old = score(policy, batch, 1.0, 10**6).logp_BT
    ref = torch.where(batch.mask_BT, old - 0.1, 0.0)
    # a sampler that is a little off, within the bounds of every correction
    batch = replace(batch, logp_sampler_BT=torch.where(batch.mask_BT, old + 0.003, 0.0))
    return StepData(batch, torch.arange(8), 0, adv_B[:, None] * batch.mask_BT, old, ref)


def stepped(
    recipe: Recipe, *, micro_tokens: int = 10**6, extra: int = 0, **changes: int
) -> tuple[torch.Tensor, UpdateStats]:
    """Return all weights after one step, and its statistics."""
    one_thread()
    settings = config(micro_tokens=micro_tokens, minibatches=1, epochs=1, max_tokens=16, lr=1e-3)
    settings = replace(settings, **changes)
    policy = Policy(untrained(settings).model)
    # plain gradient descent: Adam would turn rounding into steps of full size where a gradient is 0
    trainer = Trainer(policy, torch.optim.SGD(policy.parameters(), lr=1.0), replace(settings, lr=1.0), Parallel())
    stats = update(trainer, recipe, step_data(policy, extra), 1, policy_loss)
    return torch.cat([p.detach().flatten() for p in policy.parameters()]), stats


NAMES = ["grpo", "dapo", "dr-grpo", "gspo", "cispo", "deepseek-v3.2", "magistral", "ch6-reinforce", "default"]


@pytest.mark.parametrize("name", NAMES)
def test_micro_batches_and_padding_change_nothing(name: str) -> None:
    whole, stats = stepped(RECIPES[name])
    for found, other in (stepped(RECIPES[name], micro_tokens=15), stepped(RECIPES[name], extra=9)):
        torch.testing.assert_close(found, whole, atol=2e-6, rtol=0)
        assert other.losses[0] == pytest.approx(stats.losses[0], abs=1e-5)
        assert other.every.count == stats.every.count
    assert stats.grad_norms[0] > 0


def test_micro_batches_of_reinforce_with_a_local_mean_may_differ() -> None:
    whole, _ = stepped(RECIPES["bnpo"])
    cut, _ = stepped(RECIPES["bnpo"], micro_tokens=15)
    assert float((whole - cut).abs().max()) > 1e-4  # it is TRL's, and TRL's depends on the cut


def test_rows_without_advantage_cost_no_pass_and_still_count() -> None:
    seen: list[tuple[int, int]] = []

    def spy(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
        seen.append((batch.logp_BT.shape[0], counts.tokens))
        return policy_loss(recipe, batch, counts)

    settings = config(minibatches=1, epochs=1, micro_tokens=10**6)
    policy = Policy(untrained(settings).model)
    trainer = Trainer(policy, new_optimizer(policy, 1e-3), settings, Parallel())
    update(trainer, RECIPES["dapo"], step_data(policy), 1, spy)
    penalised = replace(RECIPES["dapo"], kl_term=KlTerm(Estimator.K3, Place.LOSS, 0.1))
    update(trainer, penalised, step_data(policy), 1, spy)
    tokens = sum(LENGTHS) - 16
    assert seen == [(6, tokens), (8, tokens)]


def test_the_old_policy_is_fixed_over_epochs() -> None:
    first: list[float] = []

    def spy(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
        first.append(float(batch.logp_old_BT.sum()))
        return policy_loss(recipe, batch, counts)

    settings = config(minibatches=1, epochs=3, micro_tokens=10**6, lr=1e-2)
    policy = Policy(untrained(settings).model)
    trainer = Trainer(policy, new_optimizer(policy, 1e-2), settings, Parallel())
    stats = update(trainer, RECIPES["dapo"], step_data(policy), 1, spy)
    assert len(set(first)) == 1
    assert (stats.first.low, stats.first.high) == pytest.approx((1.0, 1.0), abs=1e-5)
    assert stats.last.high > 1.05
    assert (trainer.updates, trainer.version) == (3, 1)


def test_a_minibatch_without_tokens_makes_no_optimizer_step() -> None:
    settings = config(minibatches=2, epochs=1)
    policy = Policy(untrained(settings).model)
    trainer = Trainer(policy, new_optimizer(policy, 1e-2), settings, Parallel())
    before = copy.deepcopy(policy.state_dict())
    data = replace(step_data(policy), rows=torch.tensor([], dtype=torch.long))
    stats = update(trainer, RECIPES["dapo"], data, 1, policy_loss)
    assert (stats.losses, stats.grad_norms, trainer.updates, trainer.version) == ([], [], 0, 0)
    assert all(torch.equal(before[n], w) for n, w in policy.state_dict().items())


def test_a_gradient_that_is_not_finite_makes_no_step() -> None:
    settings = config(minibatches=1, epochs=1)
    policy = Policy(untrained(settings).model)
    trainer = Trainer(policy, new_optimizer(policy, 1e-2), settings, Parallel())
    before = copy.deepcopy(policy.state_dict())
    data = step_data(policy)
    broken = replace(data, adv_BT=data.adv_BT * float("inf"))
    stats = update(trainer, RECIPES["dapo"], broken, 1, policy_loss)
    assert not stats.grad_norms[0] < float("inf")
    assert all(torch.equal(before[n], w) for n, w in policy.state_dict().items())


def test_recomputed_activations_and_bfloat16_give_the_same_step() -> None:
    plain, _ = stepped(RECIPES["dapo"])
    settings = config(minibatches=1, epochs=1, lr=1.0, checkpoint_activations=True)
    model = untrained(settings).model
    recompute_activations(model)
    policy = Policy(model)
    trainer = Trainer(policy, torch.optim.SGD(policy.parameters(), lr=1.0), settings, Parallel())
    update(trainer, RECIPES["dapo"], step_data(policy), 1, policy_loss)
    found = torch.cat([p.detach().flatten() for p in policy.parameters()])
    torch.testing.assert_close(found, plain, atol=2e-6, rtol=0)
    half = Policy(untrained(settings).model, torch.bfloat16)
    assert {p.dtype for p in half.parameters()} == {torch.float32}
    data = step_data(Policy(half.model))
    scores = score(half, data.packed, 1.0, 10**6)
    torch.testing.assert_close(scores.logp_BT, data.logp_old_BT, atol=0.05, rtol=0)


def test_micro_batches_hold_every_row_once_within_the_limit() -> None:
    lengths = torch.tensor([3, 50, 4, 4, 49, 5, 3, 51])
    parts = micro_batches(lengths, torch.arange(8), 100)
    assert sorted(i for p in parts for i in p.tolist()) == list(range(8))
    assert all(int(lengths[p].max()) * len(p) <= 100 for p in parts)
    assert [sorted(p.tolist()) for p in parts] == [[0, 2, 3, 5, 6], [1, 4], [7]]


def apart(policy: Policy) -> Reference:
    """Return a reference whose weights are not the policy's."""
    reference = Reference(policy)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    return reference


def plain_divergence_BT(policy: Policy, reference: Reference, batch: Packed, temperature: float) -> torch.Tensor:
    """Return the divergence from the logits of both, all of them held at once."""
    assert reference._copy is not None
    logits = [p.model(input_ids=batch.ids_BL[:, :-1]).logits / temperature for p in (policy, reference._copy)]
    return exact_BT(logits[0], logits[1], batch.mask_BT)


@pytest.mark.parametrize("micro_tokens", [10**6, 15])
def test_the_exact_divergence_has_the_gradient_of_the_plain_one(micro_tokens: int) -> None:
    one_thread()
    settings = config(minibatches=1, epochs=1, max_tokens=16, micro_tokens=micro_tokens, temperature=0.8, lr=1.0)
    settings = replace(settings, max_grad_norm=0.0)
    policy = Policy(untrained(settings).model)
    reference = apart(policy)
    recipe = replace(RECIPES["dapo"], kl_term=KlTerm(Estimator.EXACT, Place.LOSS, 0.5))
    data = step_data(policy)
    data = replace(data, adv_BT=data.adv_BT * 0, head=reference.head)
    wanted_BT = plain_divergence_BT(policy, reference, data.packed, 0.8)
    wanted = 0.5 * wanted_BT.sum() / data.packed.mask_BT.sum()
    weights = [w for w in policy.parameters() if w.requires_grad]
    expected = [w.detach() - g for w, g in zip(weights, torch.autograd.grad(wanted, weights), strict=True)]
    trainer = Trainer(policy, torch.optim.SGD(weights, lr=1.0), settings, Parallel())
    stats = update(trainer, recipe, data, 1, policy_loss)
    assert stats.losses[0][2] == pytest.approx(float(wanted.detach()), rel=1e-4)
    for found, want in zip(weights, expected, strict=True):
        torch.testing.assert_close(found.detach(), want, atol=2e-6, rtol=0)


def test_the_exact_divergence_before_the_update_is_that_of_the_logits() -> None:
    policy = Policy(untrained(config()).model)
    reference = apart(policy)
    batch = packed()
    found = divergence(policy, reference.head, batch, 0.7, 15)
    with torch.no_grad():
        torch.testing.assert_close(found, plain_divergence_BT(policy, reference, batch, 0.7), atol=1e-5, rtol=0)
    assert float(found[batch.mask_BT].min()) > 0


@pytest.mark.parametrize("dead", [DeadGroups.KEEP, DeadGroups.DROP])
def test_tied_groups_move_weights_by_momentum_where_they_are_kept(dead: DeadGroups) -> None:
    """The decision of docs/decisions/0026: KEEP makes the step, as TRL and verl do; DROP and RESAMPLE make none."""
    settings = config(minibatches=1, epochs=1)
    policy = Policy(untrained(settings).model)
    trainer = Trainer(policy, new_optimizer(policy, 1e-2), settings, Parallel())
    recipe = replace(RECIPES["ch6-reinforce"], dead_groups=dead)
    data = step_data(policy)
    update(trainer, recipe, data, 1, policy_loss)
    before = copy.deepcopy(policy.state_dict())
    # what credit() makes of a step of tied groups: no advantage, and under DROP no row either
    rows = data.rows if dead is DeadGroups.KEEP else data.rows[:0]
    stats = update(trainer, recipe, replace(data, adv_BT=data.adv_BT * 0, rows=rows), 2, policy_loss)
    moved = any(not torch.equal(before[n], w) for n, w in policy.state_dict().items())
    if dead is DeadGroups.KEEP:
        assert (moved, stats.grad_norms, trainer.updates) == (True, [0.0], 2)
    else:
        assert (moved, stats.grad_norms, trainer.updates) == (False, [], 1)
