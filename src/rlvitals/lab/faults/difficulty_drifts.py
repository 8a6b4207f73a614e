"""The difficulty of the prompts rises unseen, until nothing is solved any more."""

from __future__ import annotations

from dataclasses import replace

from rlvitals.env import Item
from rlvitals.grpo.config import Config
from rlvitals.grpo.parts import Parts
from rlvitals.grpo.tasks.arithmetic import item_of, sums
from rlvitals.lab.fault import Fault, Injection, Place, Strength
from rlvitals.lab.faults.common import answering, chance


def inject(given: Injection) -> tuple[Config, Parts]:
    harder = [item_of(s) for s in sums(4, held_out=False, count=512, seed=3)]

    def change(item: Item, now: int) -> Item:
        """Swap a growing share of the sums for ones of four digits, under the same name and tier."""
        share = min(max(now - given.start, 0) / given.value, 1.0)
        if chance("drift", item.id, now) >= share:
            return item
        other = harder[int(chance("which", item.id) * len(harder))]
        return replace(other, id=item.id, tier=item.tier)

    return answering(given, item=change)


FAULT = Fault(
    name="difficulty-drifts",
    broken="From the start step on, a growing share of the prompts is beyond the policy, still named as before.",
    place=Place.TASK,
    inject=inject,
    strengths=(Strength("all hard after 40 steps", 40.0),),
    roots=("T006",),
    signs=("R014", "R002"),
    allowed=("S001", "R010", "H003", "R001", "K001", "L002", "R004"),
    start=30,
    fix="Pin the item set, and log tier and item id with every rollout.",
)
