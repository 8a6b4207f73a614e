"""Which prompts a step asks: tiers by their success, prompts with mixed results again, never seen ones in order.

A prompt that is always or never solved gives no gradient. The chance of mixed results in a group is largest at a
success rate of one half, so a tier is drawn in proportion to p (1 - p), and a share of the draws goes to prompts that
gave mixed results before. Everything is drawn from the run's seed and the step: a resumed run asks the same prompts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlvitals.env import Item

REVISITED = 0.25  # share of the draws for prompts with mixed results (convention)
COOLDOWN = 10  # steps before a prompt is asked again by choice (convention)
FLOOR = 0.05  # smallest weight of a tier, so that none is forgotten; p (1 - p) is at most 0.25 (convention)
PRIOR = 2.0  # pseudo-counts, one success and one failure, of a tier's success rate (Laplace's rule)
MEMORY = 0.9  # of a tier's counts that each step keeps: the policy changes (convention)
MAX_MIXED = 4096  # prompts with mixed results that are remembered (convention)


@dataclass
class _Tier:
    """The prompts of one tier and how they fare."""

    items: Sequence[Item]
    order: list[int]
    next: int = 0
    right: float = 0.0
    tried: float = 0.0

    @property
    def rate(self) -> float:
        return (self.right + PRIOR / 2) / (self.tried + PRIOR)

    @property
    def weight(self) -> float:
        return self.rate * (1.0 - self.rate) + FLOOR


@dataclass(frozen=True)
class Tried:
    """What became of one group: its item and its share of full rewards; mixed when rewards differed."""

    item: Item
    rate: float
    mixed: bool


@dataclass
class Pool:
    """The prompts of a run and their results so far."""

    items: Sequence[Item]
    seed: int
    _tiers: dict[str, _Tier] = field(init=False)
    _by_id: dict[str, Item] = field(init=False)
    _mixed: dict[str, int] = field(init=False, default_factory=dict)  # id -> step at which it was last mixed
    drawn: int = 0  # prompts drawn so far

    def __post_init__(self) -> None:
        by_tier: dict[str, list[Item]] = {}
        for item in self.items:
            by_tier.setdefault(item.tier, []).append(item)
        self._tiers = {name: _Tier(items, self._order(name, items, 0)) for name, items in sorted(by_tier.items())}
        self._by_id = {item.id: item for item in self.items}

    @property
    def passes(self) -> float:
        """Prompts drawn over prompts there are: the epoch."""
        return self.drawn / max(len(self.items), 1)

    def draw(self, count: int, step: int, attempt: int = 0) -> list[Item]:
        """Return prompts for a step, none twice while there are enough; `attempt` counts the tries of one step."""
        rng = random.Random(f"{self.seed}/{step}/{attempt}")
        chosen: dict[str, Item] = {}
        ready = [i for i, last in self._mixed.items() if step - last >= COOLDOWN]
        rng.shuffle(ready)
        names = list(self._tiers)
        weights = [self._tiers[n].weight for n in names]
        for _ in range(count):
            while ready and ready[-1] in chosen:
                ready.pop()
            if ready and rng.random() < REVISITED:
                item = self._by_id[ready.pop()]
            else:
                item = self._fresh(rng.choices(names, weights)[0], chosen)
            # a pool smaller than a step has to repeat: the place keeps repeated prompts apart
            chosen[item.id if item.id not in chosen else f"{item.id}#{len(chosen)}"] = item
        self.drawn += count
        return list(chosen.values())

    def learn(self, groups: Sequence[Tried], step: int) -> None:
        """Take note of the results of a step."""
        for tier in self._tiers.values():
            tier.right *= MEMORY
            tier.tried *= MEMORY
        for group in groups:
            tier = self._tiers[group.item.tier]
            tier.right += group.rate
            tier.tried += 1.0
            if group.mixed:
                self._mixed.pop(group.item.id, None)
                self._mixed[group.item.id] = step
            else:
                self._mixed.pop(group.item.id, None)
        while len(self._mixed) > MAX_MIXED:
            del self._mixed[next(iter(self._mixed))]

    def state(self) -> dict[str, Any]:
        """Return everything that the next draw depends on, as JSON types."""
        tiers = {n: [t.next, t.right, t.tried] for n, t in self._tiers.items()}
        return {"tiers": tiers, "mixed": list(self._mixed.items()), "drawn": self.drawn}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over the state of a checkpoint."""
        for name, (at, right, tried) in state["tiers"].items():
            tier = self._tiers[name]
            tier.next, tier.right, tier.tried = int(at), float(right), float(tried)
            tier.order = self._order(name, tier.items, tier.next // len(tier.items))
        self._mixed = {str(i): int(s) for i, s in state["mixed"]}
        self.drawn = int(state["drawn"])

    def _fresh(self, name: str, chosen: Mapping[str, Item]) -> Item:
        """Return the tier's next prompt in its shuffled order, past those already chosen while there are others."""
        tier = self._tiers[name]
        for _ in range(len(tier.items)):
            item = self._advance(name, tier)
            if item.id not in chosen:
                return item
        return self._advance(name, tier)

    def _advance(self, name: str, tier: _Tier) -> Item:
        item = tier.items[tier.order[tier.next % len(tier.items)]]
        tier.next += 1
        if tier.next % len(tier.items) == 0:
            tier.order = self._order(name, tier.items, tier.next // len(tier.items))
        return item

    def _order(self, name: str, items: Sequence[Item], epoch: int) -> list[int]:
        order = list(range(len(items)))
        random.Random(f"{self.seed}/{name}/{epoch}").shuffle(order)
        return order
