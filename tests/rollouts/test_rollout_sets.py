"""The checks on rollouts against small simulated sets: the fault that was put in is named, a healthy set is quiet."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from benchmarks.rollout_checks import JUDGED, looked
from benchmarks.rollout_sets.faults import FAULTS
from benchmarks.rollout_sets.healthy import healthy

from rlvitals.checks import CHECKS

STEPS = 60
SEED = 16  # 32 groups of 8 a step
NAMED = [
    (check_id, k, fault.variant)
    for check_id, faults in FAULTS.items()
    for k, fault in enumerate(faults)
    if not fault.texts and (fault.variant or k == len(faults) - 1) and check_id not in ("T006", "T007", "O005", "R008")
]


def test_a_healthy_set_is_quiet() -> None:
    seen, incidents = looked(healthy(7, steps=STEPS), JUDGED)
    assert [i.finding.summary for i in incidents] == []
    kinds = Counter(type(o).__name__ for o in seen.outcomes.values())
    assert kinds["Crashed"] == kinds["Fired"] == 0
    assert kinds["Clear"] >= 12


@pytest.mark.parametrize(("check_id", "k", "variant"), NAMED, ids=str)
def test_a_fault_that_was_put_in_is_found_and_named(check_id: str, k: int, variant: str) -> None:
    check = next(c for c in CHECKS if c.id == check_id)
    r = healthy(SEED, steps=STEPS)
    FAULTS[check_id][k].put(r)
    _, incidents = looked(r, (check,))
    found = [i.finding for i in incidents if i.closed is None or i.closed >= r.onset]
    assert found, FAULTS[check_id][k].words
    if variant:
        assert variant in {f.variant for f in found}


def test_every_fault_changes_the_set() -> None:
    for check_id, faults in FAULTS.items():
        for fault in faults:
            before, after = (healthy(3, steps=20, texts=fault.texts) for _ in range(2))
            fault.put(after)
            changed = before.config != after.config or any(
                n not in after.columns or not np.array_equal(c, after.columns[n], equal_nan=c.dtype != object)
                for n, c in before.columns.items()
            )
            assert changed, f"{check_id}: {fault.words}"
