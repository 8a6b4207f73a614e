"""Facts are counted the same however the rollouts are divided; samples and examples are the same everywhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rlvitals.rollouts.fact import Fact, Sums
from rlvitals.rollouts.facts import FACTS, families, groups, rewards
from rlvitals.rollouts.fold import MAX_EXAMPLES, SHARE, Folded, fold, of_step, whole_steps
from rlvitals.rollouts.sample import Chosen, priorities
from rlvitals.rollouts.table import Batch
from rlvitals.schema import Example

FIRST = (rewards.FACT, groups.FACT, families.FACT)
STEPS, PER_STEP, SIZE = 6, 40, 4


def made(seed: int = 0, *, text: bool = False) -> Batch:
    rng = np.random.default_rng(seed)
    rows = STEPS * PER_STEP
    at = np.arange(rows)
    group = np.array([str(n // SIZE) for n in at % PER_STEP], dtype=object)
    columns = {
        "step": at // PER_STEP + 1,
        "group": group,
        "index": at % SIZE,
        "reward": rng.integers(0, 2, rows).astype(float),
        "family": np.array(["a" if (n // SIZE) % 2 else "b" for n in at], dtype=object),
    }
    if text:
        columns["completion"] = np.array([f"text {n}" for n in at], dtype=object)
    return Batch(rows, columns, "dump.jsonl")


def pieces(batch: Batch, rows: int) -> list[Batch]:
    return [batch.take(slice(i, i + rows)) for i in range(0, batch.rows, rows)]


def same(a: Folded, b: Folded) -> bool:
    left, right = a.series(), b.series()
    return left.keys() == right.keys() and all(
        np.array_equal(left[k][0], right[k][0]) and np.array_equal(left[k][1], right[k][1], equal_nan=True)
        for k in left
    )


@pytest.mark.parametrize("rows", [1, 7, 40, 1000])
def test_any_division_gives_the_same_counts(rows: int) -> None:
    whole = made()
    assert same(fold([whole], FIRST), Folded.merge([fold([p], FIRST) for p in pieces(whole, rows)]))
    assert same(fold([whole], FIRST), fold(pieces(whole, rows), FIRST))


def test_order_of_the_parts_does_not_matter() -> None:
    parts = [fold([p], FIRST) for p in pieces(made(), 33)]
    assert same(Folded.merge(parts), Folded.merge(parts[::-1]))


def test_known_values() -> None:
    columns = {
        "step": np.array([1, 1, 1, 1, 2, 2]),
        "group": np.array(["x", "x", "y", "y", "x", "x"], dtype=object),
        "reward": np.array([0.0, 1.0, 1.0, 1.0, 0.0, np.nan]),
    }
    found = {k: v.tolist() for k, (_, v) in fold([Batch(6, columns)], FIRST).series().items()}
    assert found["rollouts/count"] == [4, 2]
    assert found["rollouts/reward_mean"] == [0.75, 0.0]
    assert found["rollouts/reward_std"][0] == 0.5
    assert found["rollouts/reward_missing_frac"] == [0.0, 0.5]
    assert found["rollouts/zero_variance_frac"][0] == 0.5
    assert np.isnan(found["rollouts/zero_variance_frac"][1])  # one rollout shows no group
    assert found["rollouts/all_right_frac"][0] == 0.5
    assert found["rollouts/all_wrong_frac"][0] == 0.0


def test_held_out_rollouts_and_rollouts_without_a_step_are_left_out() -> None:
    split = np.array(["train", "eval", None, "train"], dtype=object)
    step = np.array([1, 1, 1, -(2**63)])
    folded = fold([Batch(4, {"step": step, "split": split, "reward": np.ones(4)})], FIRST)
    assert folded.rollouts == 2


def test_a_live_step_says_what_the_file_says() -> None:
    whole = made(text=True)
    series = fold(whole_steps(pieces(whole, 25), least=1), FACTS).series()
    for step in range(1, STEPS + 1):
        values, _ = of_step(step, whole.take(slice((step - 1) * PER_STEP, step * PER_STEP)), FACTS)
        told = {name: float(v[s == step][0]) for name, (s, v) in series.items() if (s == step).any()}
        assert {k: v for k, v in told.items() if np.isfinite(v)} == values


def _words(batch: Batch) -> Sums:
    return Sums.of((batch.integer("step"),), {"n": np.ones(batch.rows)})


def _shown(batch: Batch, sums: Sums) -> tuple[Example, ...]:
    return tuple(batch.example("words", i) for i in range(batch.rows))


WORDS = Fact(
    "words", ("completion",), _words, lambda s: {"rollouts/x": (np.asarray(s.keys[0]), s.values["n"])}, ("rollouts/x",),
    reads_text=True, examples=_shown,
)  # fmt: skip


def test_text_is_sampled_per_step_and_the_share_is_kept() -> None:
    folded = fold([made(text=True)], (WORDS,), text_sample=10)
    assert folded.series()["rollouts/x"][1].tolist() == [10.0] * STEPS
    assert folded.series()[SHARE][1].tolist() == [0.25] * STEPS
    assert folded.sampled_share == 0.25
    assert fold([made(text=True)], (WORDS,), text_sample=None).sampled_share == 1.0


def test_the_sample_is_the_same_in_any_order_and_keeps_groups_together() -> None:
    batch = made(text=True)
    mask = Chosen.of(batch, 8).mask(batch)
    shuffled = batch.take(np.random.default_rng(1).permutation(batch.rows))
    again = Chosen.merge([Chosen.of(p, 8) for p in pieces(shuffled, 13)], 8).mask(batch)
    assert mask.tolist() == again.tolist()
    names = list(zip(batch.integer("step")[mask], batch.text("group")[mask], strict=True))
    assert sorted(names.count(n) for n in set(names)) == [4] * (2 * STEPS)  # two whole groups of each step


def test_priorities_differ_between_rollouts_without_a_group() -> None:
    batch = Batch(100, {"step": np.ones(100, dtype=np.int64)}, "x")
    assert np.unique(priorities(batch)).size == 100


def test_examples_are_few_per_step_and_named() -> None:
    folded = fold([made(text=True)], (WORDS,), text_sample=None)
    assert len(folded.examples) == 3 * STEPS
    first = folded.examples[0]
    assert (first.step, first.group, first.index, first.source, first.row) == (1, "0", 0, "dump.jsonl", 0)
    assert first.excerpt == "text 0"


def test_examples_of_a_long_run_are_bounded_and_the_latest_stay() -> None:
    rows = MAX_EXAMPLES
    columns = {"step": np.arange(rows), "completion": np.full(rows, "x", dtype=object)}
    folded = fold(pieces(Batch(rows, columns, "x"), 5000), (WORDS,))
    assert len(folded.examples) <= MAX_EXAMPLES
    assert folded.examples[-1].step == rows - 1


def test_steps_are_not_cut_by_batches() -> None:
    found = list(whole_steps(pieces(made(), 17), least=50))
    assert sum(b.rows for b in found) == STEPS * PER_STEP
    ends = [set(b.integer("step").tolist()) for b in found]
    assert all(not (a & b) for a, b in itertools.pairwise(ends))
