"""Groups that were sampled and not trained on although their rewards differ: how many, and how long they are.

A rollout without an advantage in a step whose other rollouts have one was thrown away. Tied groups are left out: they
teach nothing, and filters drop them on purpose.
"""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import by_label, pick, present, ratio, series, steps_of
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.schema import Example


def _fold(batch: Batch) -> Sums:
    reward, tokens, advantage = batch.number("reward"), batch.integer("tokens"), batch.number("advantage")
    keep = np.isfinite(reward) & (tokens != MISSING) & present(batch.text("group"))
    values = {
        "n": np.ones(batch.rows),
        "used": np.isfinite(advantage).astype(float),
        "tokens": np.where(keep, tokens, 0).astype(float),
        "least": reward,
        "most": reward,
    }
    return by_label(batch, keep, batch.text("group"), values, {"least": "min", "most": "max"})


def _finish(sums: Sums) -> Series:
    v = sums.values
    live = v["most"] > v["least"]
    used = live & (v["used"] > 0)
    lost = live & (v["used"] == 0)
    length = v["tokens"] / v["n"]
    per = Sums.of(
        (steps_of(sums),),
        {
            "live": live.astype(float),
            "used": used.astype(float),
            "lost": lost.astype(float),
            "used_length": np.where(used, length, 0.0),
            "lost_length": np.where(lost, length, 0.0),
        },
    )
    s = per.values
    kept, dropped = ratio(per, "used_length", "used"), ratio(per, "lost_length", "lost")
    both, i, j = np.intersect1d(kept[0], dropped[0], return_indices=True)
    known = s["used"] > 0  # a step in which nothing has an advantage does not log it
    return {
        "rollouts/discarded_frac": series(steps_of(per)[known], (s["lost"] / np.maximum(s["live"], 1.0))[known]),
        "rollouts/discarded_length_ratio": (both, dropped[1][j] / kept[1][i]),
    }


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    advantage, tokens = batch.number("advantage"), batch.integer("tokens").astype(float)
    if not np.isfinite(advantage).any():
        return ()
    return pick(batch, ~np.isfinite(advantage) & (tokens > 0), "trained", rank=tokens)


FACT = Fact(
    name="trained",
    reads=("group", "reward", "tokens", "advantage"),
    fold=_fold,
    finish=_finish,
    metrics=("rollouts/discarded_frac", "rollouts/discarded_length_ratio"),
    examples=_examples,
)
