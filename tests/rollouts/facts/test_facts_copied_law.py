"""The copies that a policy makes by itself: p ** (G - 1) of each rollout, averaged, and it matches what is drawn."""

from __future__ import annotations

import numpy as np

from rlvitals.rollouts.fact import Sums
from rlvitals.rollouts.facts import copied_law, copies
from rlvitals.rollouts.table import Batch


def drawn(p: float, groups: int, size: int, seed: int) -> Batch:
    """Two texts, the first of probability p, drawn independently."""
    rng = np.random.default_rng(seed)
    first = rng.random((groups, size)) < p
    text = np.where(first, "a", "b").astype(object).ravel()
    logp = np.where(first, np.log(p), np.log(1 - p)).ravel()
    rows = groups * size
    names = np.repeat(np.array([f"g{i}" for i in range(groups)], dtype=object), size)
    columns = {
        "step": np.ones(rows, dtype=np.int64),
        "group": names,
        "completion": text,
        "reward": np.zeros(rows),
        "sampler_logp_sum": logp,
    }
    return Batch(rows, columns)


def value(fact, batch: Batch, metric: str) -> float:  # type: ignore[no-untyped-def]
    return float(fact.finish(fact.fold(batch))[metric][1][0])


def test_independent_draws_make_as_many_copies_as_the_law_says() -> None:
    batch = drawn(0.8, 4_000, 4, seed=1)
    expected = 0.8**4 + 0.2**4
    law = value(copied_law.FACT, batch, "rollouts/copied_law_frac")
    assert abs(law - expected) < 0.01
    assert abs(value(copies.FACT, batch, "rollouts/copied_group_frac") - expected) < 0.02


def test_a_fixed_seed_makes_more_copies_than_the_law() -> None:
    batch = drawn(0.5, 500, 4, seed=2)
    stuck = Batch(batch.rows, {**batch.columns, "completion": np.repeat(batch.text("completion")[::4], 4)})
    assert value(copies.FACT, stuck, "rollouts/copied_group_frac") == 1.0
    assert value(copied_law.FACT, stuck, "rollouts/copied_law_frac") < 0.2


def test_parts_merge_to_the_whole_and_unknown_logps_count_nothing() -> None:
    batch = drawn(0.7, 50, 4, seed=3)
    half = batch.rows // 2
    parts = [Batch(half, {n: c[at] for n, c in batch.columns.items()}) for at in (slice(None, half), slice(half, None))]
    merged = copied_law.FACT.finish(Sums.merge([copied_law.FACT.fold(p) for p in parts]))
    whole = copied_law.FACT.finish(copied_law.FACT.fold(batch))
    np.testing.assert_allclose(merged["rollouts/copied_law_frac"][1], whole["rollouts/copied_law_frac"][1], rtol=1e-12)
    blind = Batch(batch.rows, {**batch.columns, "sampler_logp_sum": np.full(batch.rows, np.nan)})
    assert not np.isfinite(copied_law.FACT.finish(copied_law.FACT.fold(blind))["rollouts/copied_law_frac"][1]).any()
