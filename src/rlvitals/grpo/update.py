"""The update: minibatches under a fixed old policy, micro-batches with a backward pass each, one optimizer step per
minibatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlvitals.grpo.aggregation import Counts
from rlvitals.grpo.config import Config
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.kl import Estimator, KlTerm, Place
from rlvitals.grpo.packing import SHORTEST, Packed, micro_batches
from rlvitals.grpo.ratiostats import RatioStats
from rlvitals.grpo.recipes import Batch, Loss, Recipe
from rlvitals.grpo.rollout import seed_of
from rlvitals.grpo.score import HeadOf, Pending, spread_BT

LossOf = Callable[[Recipe, Batch, Counts], Loss]
"""`recipes.policy_loss` unless a lab replaces it."""

BETAS = (0.9, 0.95)  # AdamW; 0.95 is common in language model training (convention)


@dataclass(frozen=True)
class StepData:
    """What the update of a step is made from: `packed` holds this process's trajectories.

    rows: trajectories in the loss, numbered over all processes; first: number of this process's first one. adv_BT,
    logp_old_BT and logp_ref_BT (None without a reference) are (B, T); kl_coef_B reward per nat; head: the reference's
    whole distributions, for the exact divergence alone. pending: None after a scoring pass; without one, logp_old_BT is
    its tensor, and the forward pass of the update is what fills it.
    """

    packed: Packed
    rows: Tensor
    first: int
    adv_BT: Tensor
    logp_old_BT: Tensor
    logp_ref_BT: Tensor | None = None
    kl_coef_B: Tensor | None = None
    head: HeadOf | None = None
    pending: Pending | None = None


@dataclass
class UpdateStats:
    """Sums over the minibatches of a step.

    losses: one (total, policy, penalty, bonus) per minibatch; grad_norms before clipping; first, last, every: ratio
    statistics of the first and the last minibatch, and of all, over the rows of all processes; empty where the old
    policy is the forward pass itself: a ratio that is 1 by construction is no measurement.
    """

    losses: list[tuple[float, float, float, float]] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    first: RatioStats = field(default_factory=RatioStats)
    last: RatioStats = field(default_factory=RatioStats)
    every: RatioStats = field(default_factory=RatioStats)
    lr: float = 0.0


class Trainer:
    """The trained policy with its optimizer.

    Args:
        policy: `Policy`, possibly wrapped by accelerate.
        parallel: the processes that train together.
    """

    def __init__(self, policy: nn.Module, optimizer: torch.optim.Optimizer, config: Config, parallel: Parallel) -> None:
        self.policy, self.optimizer = policy, optimizer
        self.config, self.parallel = config, parallel
        self.updates = 0  # optimizer steps so far
        self.version = 0  # of the weights: goes up with each step that changed them

    def lr(self) -> float:
        """Return the learning rate of the next optimizer step."""
        warm = self.config.warmup_steps
        return self.config.lr * min(1.0, (self.updates + 1) / warm) if warm else self.config.lr


def new_optimizer(policy: nn.Module, lr: float) -> torch.optim.Optimizer:
    """Return AdamW over the weights that are trained; without weight decay, which RL fine-tuning rarely uses."""
    trained = [p for p in policy.parameters() if p.requires_grad]
    return torch.optim.AdamW(trained, lr=lr, betas=BETAS, weight_decay=0.0)


def update(trainer: Trainer, recipe: Recipe, data: StepData, step: int, loss_of: LossOf) -> UpdateStats:
    """Train on the rollouts of a step; the old policy stays fixed over all epochs and minibatches.

    A minibatch without any counting token, in any process, makes no optimizer step: momentum alone would still move
    the weights.
    """
    config, stats = trainer.config, UpdateStats()
    stats.lr = trainer.lr()
    parts = list(_minibatches(data, config, step))
    trainer.policy.train(config.checkpoint_activations)
    for number, rows in enumerate(parts):
        own = RatioStats()
        losses = _minibatch(trainer, recipe, data, rows, own, loss_of)
        if losses is None:
            continue
        stats.losses.append(losses)
        stats.grad_norms.append(_optimizer_step(trainer))
        stats.every.add(own)
        if number == 0:
            stats.first = own
        stats.last = own
    trainer.policy.eval()
    trainer.version += bool(stats.losses)
    if trainer.parallel.world > 1:  # the process that writes may have had no row at all
        stats.first, stats.last, stats.every = (_of_all(trainer, s) for s in (stats.first, stats.last, stats.every))
    return stats


def _of_all(trainer: Trainer, own: RatioStats) -> RatioStats:
    """Return the statistics over the rows of all processes."""
    total = RatioStats()
    for each in trainer.parallel.gather(own):
        total.add(each)
    return total


def _minibatches(data: StepData, config: Config, step: int) -> Iterator[Tensor]:
    """Yield this process's rows of each optimizer step: a fresh order per epoch, from the run's seed and the step."""
    for epoch in range(config.epochs):
        generator = torch.Generator().manual_seed(seed_of(config.seed, "minibatches", step, epoch))
        order = data.rows[torch.randperm(data.rows.numel(), generator=generator)]
        for part in order.tensor_split(config.minibatches):
            own = part[(part >= data.first) & (part < data.first + data.packed.rows)] - data.first
            yield own.to(data.packed.ids_BL.device)


def _minibatch(
    trainer: Trainer, recipe: Recipe, data: StepData, rows: Tensor, stats: RatioStats, loss_of: LossOf
) -> tuple[float, float, float, float] | None:
    """Accumulate the gradient of one minibatch; return its losses, None when no process has a token in it."""
    config, parallel = trainer.config, trainer.parallel
    mask_BT = data.packed.mask_BT[rows]
    own = torch.tensor([int(mask_BT.any(dim=1).sum()), int(mask_BT.sum())], dtype=torch.float64)
    sequences, tokens = (int(n) for n in parallel.sum(own).tolist())
    if tokens == 0:
        return None
    parts = micro_batches(data.packed.length_B, live_rows(recipe, data.adv_BT, rows), config.micro_tokens)
    passes = parallel.largest(max(len(parts), 1))
    counts = Counts(sequences, tokens, config.max_tokens, micro_batches=max(parallel.total(len(parts)), 1))
    sums = torch.zeros(4, dtype=torch.float64)
    trainer.optimizer.zero_grad(set_to_none=True)
    for number in range(passes):
        last = number + 1 == passes
        with nullcontext() if last else _no_sync(trainer.policy):
            if number < len(parts):
                sums += _micro_batch(trainer, recipe, data, parts[number], counts, stats, loss_of)
            elif parallel.world > 1 or not parts:
                _empty_pass(trainer, data)
    total, policy, penalty, bonus = parallel.sum(sums).tolist()
    return total, policy, penalty, bonus


def live_rows(recipe: Recipe, adv_BT: Tensor, rows: Tensor) -> Tensor:
    """Return those of the rows that the update passes through the policy."""
    return rows if _needs_every_row(recipe) else rows[adv_BT[rows].ne(0).any(dim=1)]


def _needs_every_row(recipe: Recipe) -> bool:
    """False when a sequence with advantage 0 adds nothing to the gradient: then it costs no pass, yet still counts."""
    in_loss = recipe.kl_term is not None and recipe.kl_term.place is Place.LOSS
    return in_loss or recipe.entropy_coef != 0.0


def _micro_batch(
    trainer: Trainer, recipe: Recipe, data: StepData, rows: Tensor, counts: Counts, stats: RatioStats, loss_of: LossOf
) -> Tensor:
    """Run forward and backward on a few rows; return (total, policy, penalty, bonus) without gradient, float64."""
    part = data.packed.select(rows)
    width = part.mask_BT.shape[1]
    ref = None if data.head is None else data.head(part)
    logp_N, entropy_N, *exact_N = trainer.policy(
        part.ids_BL, part.mask_BT, trainer.config.temperature, part.keep_NV8(), ref
    )
    logp_BT, entropy_BT = spread_BT(logp_N, part.mask_BT), spread_BT(entropy_N, part.mask_BT)
    if data.pending is not None:  # the one pass over these rows before any step: its policy is the old one
        data.pending.take(rows, logp_BT, entropy_BT, part.mask_BT)
    old_BT = data.logp_old_BT[rows, :width]
    batch = Batch(
        logp_BT,
        old_BT,
        data.adv_BT[rows, :width],
        part.mask_BT,
        logp_sampler_BT=part.logp_sampler_BT,
        logp_ref_BT=None if data.logp_ref_BT is None else data.logp_ref_BT[rows, :width],
        entropy_BT=entropy_BT,
        divergence_BT=spread_BT(exact_N[0], part.mask_BT) if exact_N else None,
        kl_coef_B=None if data.kl_coef_B is None else data.kl_coef_B[rows],
    )
    loss = loss_of(recipe, batch, counts)
    # DDP and FSDP average gradients over processes; the loss is a sum over all of them
    (loss.total * trainer.parallel.world).backward()  # type: ignore[no-untyped-call]
    if data.pending is None:
        stats.take(recipe, logp_BT.detach(), old_BT, batch.adv_BT, part.mask_BT)
    return torch.tensor([float(x.detach()) for x in (loss.total, loss.policy, loss.penalty, loss.bonus)]).double()


def _empty_pass(trainer: Trainer, data: StepData) -> None:
    """Take part in the collective operations of a pass without adding to the gradient."""
    device = data.packed.ids_BL.device
    if data.packed.rows:
        part = data.packed.select(torch.zeros(1, dtype=torch.long, device=device))
    else:  # this process kept no group: any tokens do
        part = Packed(
            torch.zeros(1, SHORTEST, dtype=torch.long, device=device),
            torch.ones(1, SHORTEST - 1, dtype=torch.bool, device=device),
            torch.zeros(1, SHORTEST - 1, device=device),
            torch.full((1,), SHORTEST, device=device),
        )
    logp_N, _ = trainer.policy(part.ids_BL, part.mask_BT, trainer.config.temperature, part.keep_NV8())
    (logp_N.sum() * 0.0).backward()


def _no_sync(policy: nn.Module) -> AbstractContextManager[Any]:
    """Leave the exchange of gradients to the last micro-batch, where the wrapper can."""
    return cast("Any", policy).no_sync() if hasattr(policy, "no_sync") else nullcontext()


def _optimizer_step(trainer: Trainer) -> float:
    """Clip, step and return the gradient norm before clipping; a norm that is not finite makes no step."""
    for group in trainer.optimizer.param_groups:
        group["lr"] = trainer.lr()
    limit = trainer.config.max_grad_norm or float("inf")
    trained = [p for p in trainer.policy.parameters() if p.requires_grad]
    norm = trainer.parallel.clip(trained, limit)
    trainer.updates += 1
    if norm == norm and norm != float("inf"):
        trainer.optimizer.step()
    trainer.optimizer.zero_grad(set_to_none=True)
    return norm


def kl_coefs(term: KlTerm | None, families: list[str], like: Tensor) -> Tensor | None:
    """Return the coefficient of each sequence, None without a term."""
    return None if term is None else term.coef_B(families, like)


def needs_distributions(term: KlTerm | None) -> bool:
    """True when the loss needs the reference's whole distributions: one more pass of it per micro-batch."""
    return term is not None and term.estimator is Estimator.EXACT and term.place is Place.LOSS
