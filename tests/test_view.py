"""The store ends in the same state, bit for bit, however the rows are cut into chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvitals.schema import UNKNOWN_TRAINER, RunConfig
from rlvitals.store import BASE, HEAD, MAX_BLOCKS, WINDOW, Store
from rlvitals.view import View

SCALARS = ("head", "finite", "nonzero", "low", "high", "low_step", "high_step", "first_seen", "last_seen", "changed_at")


def rows(n: int, metrics: int = 5, seed: int = 0) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=(metrics, n)), 1)
    values[1, ::3] = np.nan
    values[2] = 0.0
    values[3, : n // 2] = np.nan
    values[4] = np.inf
    return np.arange(1, n + 1), tuple(f"m{i}" for i in range(metrics)), values


def fill(store: Store, steps: np.ndarray, names: tuple[str, ...], values: np.ndarray, cuts: list[int]) -> Store:
    at, begin = store.index(names), 0
    for end in [*sorted(set(cuts)), steps.size]:
        store.append(steps[begin:end], at, values[:, begin:end])
        begin = end
    return store


def same(a: Store, b: Store, metrics: int) -> None:
    for key in SCALARS:
        assert np.array_equal(getattr(a, key)[:metrics], getattr(b, key)[:metrics], equal_nan=True), key
    assert (a.n, a.blocks, a.block_rows, a.last_step) == (b.n, b.blocks, b.block_rows, b.last_step)
    for name in a.names:
        assert np.array_equal(a.block_sums(name), b.block_sums(name))
        assert np.array_equal(a.recent(name, WINDOW)[1], b.recent(name, WINDOW)[1], equal_nan=True)
    assert np.array_equal(a.block_first[: a.blocks], b.block_first[: b.blocks])
    assert np.array_equal(a.block_last[: a.blocks], b.block_last[: b.blocks])


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 3000), cuts=st.lists(st.integers(1, 2999), max_size=30))
def test_any_chunking_gives_the_same_state(n: int, cuts: list[int]) -> None:
    steps, names, values = rows(n)
    whole = fill(Store(), steps, names, values, [])
    parts = fill(Store(), steps, names, values, [c for c in cuts if c < n])
    same(whole, parts, 5)


def test_row_by_row_equals_at_once_beyond_a_merge() -> None:
    n = BASE * MAX_BLOCKS * 2 + 37
    steps, names, values = rows(n)
    same(fill(Store(), steps, names, values, []), fill(Store(), steps, names, values, list(range(1, n))), 5)


def test_window_blocks_and_head_hold_what_they_promise() -> None:
    n = 5000
    steps, names, values = rows(n)
    view = View(fill(Store(), steps, names, values, []), RunConfig(), UNKNOWN_TRAINER, {})
    assert np.array_equal(view.rows_of("m0"), values[0, -WINDOW:])
    assert np.array_equal(view.head("m1"), values[1][np.isfinite(values[1])][:HEAD])
    assert view.count("m1") == np.isfinite(values[1]).sum()
    assert view.extremes("m0") == (
        values[0].min(),
        1 + int(values[0].argmin()),
        values[0].max(),
        1 + int(values[0].argmax()),
    )
    trace = view.trace("m0")
    assert trace.size <= MAX_BLOCKS
    covered = int(trace.count.sum())
    assert covered == n - n % BASE
    assert (trace.value * trace.count).sum() == pytest.approx(values[0, :covered].sum())
    assert not view.has("m4")  # infinite values are not numbers to compare with
    assert not view.has("absent")


def test_a_constant_zero_is_no_measurement_until_it_moves() -> None:
    store = Store()
    at = store.index(("kl_ref",))
    store.append(np.array([1, 2]), at, np.zeros((1, 2)))
    view = View(store, RunConfig(), UNKNOWN_TRAINER, {})
    assert view.placeholder("kl_ref")
    assert not view.has("kl_ref")
    assert view.count("kl_ref", raw=True) == 2
    store.append(np.array([3]), at, np.array([[0.001]]))
    assert View(store, RunConfig(), UNKNOWN_TRAINER, {}).count("kl_ref") == 3


def test_frozen_since_is_the_last_change() -> None:
    store = Store()
    at = store.index(("reward_mean",))
    for begin, part in ((1, [0.1, 0.2, 0.2]), (4, [0.2, np.nan, 0.2])):
        store.append(np.arange(begin, begin + 3), at, np.array([part]))
    assert View(store, RunConfig(), UNKNOWN_TRAINER, {}).frozen_since("reward_mean") == 2
