"""Copies within groups: how many completions of a group differ, and whether tied groups are groups of copies.

Rewards alone can't tell duplicates from prompts that are always or never solved; the texts can.
"""

from __future__ import annotations

import zlib

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts.common import Mask, by_label, present, ratio, shown, steps_of
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example

LEAST_GROUP = 3  # rollouts: two may well be equal by chance
LEAST_TIED = 2  # tied groups of a step behind a share


def digest(text: str) -> int:
    """Return a 64-bit number that equal texts share, the same in every process."""
    data = text.encode("utf-8", "replace")
    return (zlib.crc32(data) << 31) ^ zlib.adler32(data)


def _fold(batch: Batch) -> Sums:
    text, reward, group = batch.text("completion"), batch.number("reward"), batch.text("group")
    keep = present(text) & present(group) & np.isfinite(reward)
    number = np.fromiter((digest(t) if t else 0 for t in text), dtype=np.int64, count=batch.rows)
    r = np.where(keep, reward, 0.0)
    values = {"n": np.ones(batch.rows), "r": r, "rr": r * r, "least": reward, "most": reward}
    return by_label(batch, keep, group, values, {"least": "min", "most": "max"}, more=(number,))


def _finish(sums: Sums) -> Series:
    v = sums.values
    how = {"least": "min", "most": "max"}
    groups = Sums.of(sums.keys[:2], dict(v) | {"texts": np.ones(sums.rows)}, how)
    g = groups.values
    full = g["n"] >= LEAST_GROUP
    tied, copied = full & (g["least"] == g["most"]), full & (g["texts"] == 1)
    per = Sums.of(
        (steps_of(groups),),
        {
            "groups": full.astype(float),
            "unique": np.where(full, g["texts"] / g["n"], 0.0),
            "copied": copied.astype(float),
            "tied": tied.astype(float),
            "tied_copied": (tied & copied).astype(float),
            "n": g["n"], "r": g["r"], "rr": g["rr"], "least": g["least"], "most": g["most"],
        },
        how,
    )  # fmt: skip
    return {
        "rollouts/unique_frac": ratio(per, "unique", "groups"),
        "rollouts/copied_group_frac": ratio(per, "copied", "groups"),
        "rollouts/tied_copied_share": ratio(per, "tied_copied", "tied", least=LEAST_TIED),
        "rollouts/tied_sample_frac": ratio(per, "tied", "groups"),
        "rollouts/tied_law_frac": _law(groups, per),
    }


def _law(groups: Sums, per: Sums) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of groups tied by chance at the step's own pass rate, where rewards have two values."""
    s, g = per.values, groups.values
    low, high = s["least"], s["most"]
    # (r - low)(high - r) summed over the rollouts is 0 exactly when every reward is one of the two
    off = (low + high) * s["r"] - s["rr"] - low * high * s["n"]
    two = (high > low) & (np.abs(off) <= 1e-9 * np.maximum(s["rr"], 1.0))
    rate = np.where(two, (s["r"] / s["n"] - low) / np.where(high > low, high - low, 1.0), np.nan)
    at = np.searchsorted(per.keys[0], groups.keys[0])
    p, n = rate[at], g["n"]
    full = (n >= LEAST_GROUP) & np.isfinite(p)
    p = np.clip(np.where(full, p, 0.5), 0.0, 1.0)
    law = np.where(full, p**n + (1 - p) ** n, 0.0)
    found = Sums.of((steps_of(groups),), {"law": law, "n": full.astype(float)})
    return ratio(found, "law", "n")


def _copied(batch: Batch, sums: Sums) -> Mask:
    """Return bool[rows]: every completion of the rollout's group is the same."""
    groups = Sums.of(sums.keys[:2], {"n": sums.values["n"], "texts": np.ones(sums.rows)})
    hit = (groups.values["texts"] == 1) & (groups.values["n"] >= LEAST_GROUP)
    names = set(zip(groups.keys[0][hit].tolist(), groups.keys[1][hit].tolist(), strict=True))
    rows = zip(batch.integer("step").tolist(), batch.text("group").tolist(), strict=True)
    return np.fromiter((row in names for row in rows), dtype=bool, count=batch.rows)


def _examples(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    return tuple(shown(batch, int(i), "copies") for i in np.flatnonzero(_copied(batch, sums))[:12])


FACT = Fact(
    name="copies",
    reads=("group", "completion", "reward"),
    fold=_fold,
    finish=_finish,
    metrics=(
        "rollouts/unique_frac",
        "rollouts/copied_group_frac",
        "rollouts/tied_copied_share",
        "rollouts/tied_sample_frac",
        "rollouts/tied_law_frac",
    ),
    reads_text=True,
    examples=_examples,
)
