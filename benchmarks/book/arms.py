"""ARMS: every setup of the experiments: a recipe of `rlvitals train`, its settings and, where needed, another part.

What an arm shares with all others stands in `SHARED`. The arms whose reward stops are the book's collapsed run taken
apart: from step `STOPS` on every answer is scored 0, so that whatever happens then is the penalty's doing alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from rlvitals.env import Env, Item, Message, Step, VerifierStatus
from rlvitals.grpo.aggregation import AGGREGATIONS, Aggregation, Counts
from rlvitals.grpo.config import Config, with_settings
from rlvitals.grpo.kl import k1_BT
from rlvitals.grpo.packing import Packed, pack
from rlvitals.grpo.parts import Parts, sync, task_of
from rlvitals.grpo.presets import config_of
from rlvitals.grpo.ratios import token_ratio_BT
from rlvitals.grpo.recipes import Batch, Loss, Recipe, policy_loss
from rlvitals.grpo.rewards.form import CLOSE, OPEN
from rlvitals.grpo.rewards.plan import Completion, Part
from rlvitals.grpo.rollout import Sampler
from rlvitals.grpo.tasks.base import Task

STEPS = 60
STOPS = 20  # last step that is paid in the arms whose reward stops
SEEDS = (0, 1, 2, 3, 4)
SHARED: Mapping[str, str] = MappingProxyType(
    {"steps": str(STEPS), "prompts": "8", "eval_every": "20", "eval_items": "256", "save_every": "1000",
     "dead_steps": "0"}
)  # fmt: skip
Change = Callable[[Parts], Parts]


def as_it_is(parts: Parts) -> Parts:
    """Leave every part as it is."""
    return parts


@dataclass(frozen=True)
class Arm:
    """One setup: its settings beyond `SHARED`, and the parts of the loop that it replaces.

    core: belongs to a section's own claim, so it is run first.
    """

    name: str
    recipe: str
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    parts: Change = as_it_is
    core: bool = True

    def config(self, seed: int) -> Config:
        """Return the config of one seed."""
        return with_settings(config_of(self.recipe), {**SHARED, **self.settings, "seed": str(seed)})

    def command(self, seed: int = 0) -> str:
        """Return the command line that makes the same run, replaced parts left out."""
        chosen = {**SHARED, **self.settings}
        own = " ".join(f"--set {k}={v}" for k, v in chosen.items() if k != "steps")
        return f"rlvitals train --recipe {self.recipe} --steps {chosen['steps']} --seed {seed} {own}"


class _Unpaid:
    """An environment that scores every answer 0 once the run is past a step; without a verdict it would be an error."""

    def __init__(self, env: Env, now: Callable[[], int]) -> None:
        self.version, self._env, self._now = env.version, env, now

    def reset(self, item: Item, seed: int) -> tuple[Message, ...]:
        return self._env.reset(item, seed)

    def step(self, text: str) -> Step:
        true = self._env.step(text)
        if self._now() < STOPS:
            return true
        return replace(true, rewards=dict.fromkeys(true.rewards, 0.0), status=VerifierStatus.WRONG)


def reward_stops(parts: Parts) -> Parts:
    """Return the parts with a reward that is 0 after step `STOPS`; what is held out stays the true task."""
    done = [0]

    def ticking(sampler: Sampler, model: nn.Module, version: int, step: int) -> None:
        sync(sampler, model, version, step)
        done[0] = step

    def task(config: Config, tokenizer: Any) -> Task:
        true = task_of(config, tokenizer)
        return replace(true, new_env=lambda: _Unpaid(true.new_env(), lambda: done[0]))

    return replace(parts, task=task, sync=ticking)


def _tags_in_order(completion: Completion) -> float:
    """Return 1 when the first opening tag stands before the first closing one, whatever else there is."""
    head, closed, _ = completion.text.partition(CLOSE)
    return float(bool(closed) and OPEN in head)


def lenient_format(parts: Parts) -> Parts:
    """Return the parts with the chapter's own format reward, weight 1: empty thinking and tags at the end pass too."""

    def task(config: Config, tokenizer: Any) -> Task:
        true = task_of(config, tokenizer)
        plan = replace(true.plan, parts=(*true.plan.parts, Part("format", 1.0, _tags_in_order)))
        return replace(true, plan=plan)

    return replace(parts, task=task)


def _per_token(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
    """Return the loss of the recipes with a KL term without that term: an answer's ratio counts once per token."""
    return policy_loss(replace(recipe, aggregation=Aggregation.SEQUENCE_SUM), batch, counts)


def _token_mean(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
    """Return the loss divided by tokens: no sum over the answer is left."""
    return policy_loss(replace(recipe, aggregation=Aggregation.TOKEN_MEAN), batch, counts)


def _ratio_k1(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
    """Return the loss with r k1 in place of k1, r differentiated: the book's reweighting of its own penalty."""
    assert recipe.kl_term is not None
    assert batch.logp_ref_BT is not None
    base = policy_loss(replace(recipe, kl_term=None), batch, counts)
    ratio_BT = token_ratio_BT(batch.logp_BT, batch.logp_old_BT, batch.mask_BT)
    nats_BT = ratio_BT * k1_BT(batch.logp_BT, batch.logp_ref_BT, batch.mask_BT)
    penalty = recipe.kl_term.coef * AGGREGATIONS[recipe.aggregation](nats_BT, batch.mask_BT, counts)
    return replace(base, total=base.total + penalty, penalty=penalty.detach())


def _end_left_out(recipe: Recipe, batch: Batch, counts: Counts) -> Loss:
    """Return the loss without the last token of each answer: how to stop is not trained, as in the book's own runs."""
    places_BT = torch.arange(batch.mask_BT.shape[1], device=batch.mask_BT.device).expand(batch.mask_BT.shape)
    last_B1 = torch.where(batch.mask_BT, places_BT, -1).amax(dim=1, keepdim=True)
    return policy_loss(recipe, replace(batch, mask_BT=batch.mask_BT & (places_BT != last_B1)), counts)


def scored_over_all(parts: Parts) -> Parts:
    """Return the parts with scores over the whole vocabulary whatever the sampler could draw, as in the book's runs."""

    def packed(*given: Any) -> Packed:
        return replace(pack(*given), keep=())

    return replace(parts, pack=packed)


def as_the_book_ran_it(parts: Parts) -> Parts:
    """Return the parts with all three: the reward stops, the end token is not trained, scoring ignores the sampler."""
    return replace(scored_over_all(reward_stops(parts)), loss=_end_left_out)


def _stops_with(loss: Callable[[Recipe, Batch, Counts], Loss]) -> Change:
    return lambda parts: replace(reward_stops(parts), loss=loss)


_ONCE = MappingProxyType({"epochs": "1", "minibatches": "1"})
_TOP_P = MappingProxyType({"top_p": "0.9"})

ARMS: tuple[Arm, ...] = (
    # 7.2, 7.3: the baseline
    Arm("tracking", "ch7-tracking"),
    # 7.4: a fixed old policy, with and without the clip
    Arm("clip", "ch7-clip"),
    Arm("no-clip", "ch7-no-clip"),
    # 7.5: the penalty while the reward works
    Arm("kl-none", "ch7-clip", parts=lambda parts: replace(parts, loss=_per_token)),
    Arm("kl-k1", "ch7-kl"),
    Arm("kl-k2", "ch7-kl-k2"),
    Arm("kl-k3", "ch7-kl-k3"),
    Arm("kl-ratio-k3", "ch7-kl-ratio-k3"),
    # 7.5: the penalty alone
    Arm("stops-none", "ch7-clip", parts=_stops_with(_per_token)),
    Arm("stops-k1", "ch7-kl", parts=reward_stops),
    Arm("stops-k2", "ch7-kl-k2", parts=reward_stops),
    Arm("stops-k3", "ch7-kl-k3", parts=reward_stops),
    Arm("stops-ratio-k3", "ch7-kl-ratio-k3", parts=reward_stops),
    # 7.5: each suspected cause taken away from the summed k1
    Arm("stops-k1-token-mean", "ch7-kl", parts=_stops_with(_token_mean)),
    Arm("stops-k1-small", "ch7-kl", MappingProxyType({"kl_coef": "0.001"}), reward_stops),
    Arm("stops-k1-on-policy", "ch7-kl", _ONCE, reward_stops),
    Arm("stops-ratio-k1", "ch7-kl", parts=_stops_with(_ratio_k1)),
    # 7.5: and what the book's run had besides: an end token that is not trained, sampling that scoring ignores
    Arm("stops-k1-no-end", "ch7-kl", parts=_stops_with(_end_left_out)),
    Arm("stops-k1-top-p", "ch7-kl", _TOP_P, lambda parts: scored_over_all(reward_stops(parts))),
    Arm("stops-k1-as-run", "ch7-kl", MappingProxyType({**_ONCE, **_TOP_P}), as_the_book_ran_it),
    # 7.6.2: a reward for the form; and a loss that is 0 by construction
    Arm("format", "ch7-format"),
    Arm("format-conditional", "ch7-format-conditional"),
    Arm("format-lenient", "ch7-tracking", parts=lenient_format),
    Arm("gdpo", "ch7-gdpo"),
    Arm("clip-once", "ch7-clip", _ONCE),
    # 7.6.3: each modification; those about the sampler where sampler and trainer differ
    Arm("drop-dead-groups", "ch7-drop-dead-groups", core=False),
    Arm("active-sampling", "ch7-active-sampling", core=False),
    Arm("token-loss", "ch7-token-loss", core=False),
    Arm("clip-higher", "ch7-clip-higher", core=False),
    Arm("no-std", "ch7-no-std", core=False),
    Arm("off-policy-mask", "ch7-off-policy-mask", core=False),
    Arm("gspo", "ch7-gspo", core=False),
    Arm("cispo", "ch7-cispo", core=False),
    Arm("top-p", "ch7-tracking", _TOP_P, scored_over_all, core=False),
    Arm("top-p-keep-mask", "ch7-keep-mask", _TOP_P, core=False),
    Arm("top-p-truncated-is", "ch7-truncated-is", _TOP_P, scored_over_all, core=False),
)  # fmt: skip


def one_thread() -> None:
    """Use one thread: a run is then the same bit for bit, and fair to whoever shares the machine."""
    torch.set_num_threads(1)
