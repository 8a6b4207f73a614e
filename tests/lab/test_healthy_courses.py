"""Each hard case is what its description says: the condition on made-up courses, and on those of building seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from rlvitals.lab.healthy import course

COURSES = Path(__file__).parent / "data" / "healthy_courses.json"
Rows = list[dict[str, float]]


def rows(held: tuple[float, ...] = (0.3, 0.6, 0.8), **columns: list[float]) -> Rows:
    """Return a log with these columns from step 1 on, and held-out scores spread over it."""
    count = max(len(c) for c in columns.values())
    out: Rows = [{"step": float(i + 1), **{n: c[i] for n, c in columns.items()}} for i in range(count)]
    for i, score in enumerate(held):
        out[round(i * (count - 1) / max(len(held) - 1, 1))]["eval/heldout"] = score
    return out


def ramp(start: float, end: float, steps: int = 120) -> list[float]:
    return [start + (end - start) * i / (steps - 1) for i in range(steps)]


def test_a_take_off_needs_a_long_time_without_reward_and_a_reward_at_the_end() -> None:
    late, early, never = [0.0] * 60 + [0.6] * 40, [0.0] * 20 + [0.6] * 80, [0.0] * 100
    assert course.takes_off_late(rows(reward_mean=late)) == ""
    assert "within 45 steps" in course.takes_off_late(rows(reward_mean=early))
    assert "ends at 0.00" in course.takes_off_late(rows(reward_mean=never))
    assert "values" in course.takes_off_late(rows(reward_mean=[0.0] * 30))


def test_a_divergence_is_high_flat_and_no_runaway() -> None:
    settled = ramp(0.0, 0.25, 40) + [0.25] * 80
    assert course.divergence_stays_high(rows(kl_ref=settled)) == ""
    assert "not in" in course.divergence_stays_high(rows(kl_ref=[0.08] * 120))
    assert "not in" in course.divergence_stays_high(rows(kl_ref=ramp(0.0, 3.0)))
    assert "moves by" in course.divergence_stays_high(rows(kl_ref=ramp(0.0, 0.4)))
    assert "values" in course.divergence_stays_high(rows(kl_ref=[math.nan] * 120))


def test_solved_is_held_in_a_row() -> None:
    assert course.stays_solved(rows(reward_mean=[0.5] * 30 + [0.98] * 60)) == ""
    assert "for 41 steps" in course.stays_solved(rows(reward_mean=[0.98] * 50))
    broken = ([0.98] * 40 + [0.2] * 2) * 3
    assert "not 50" in course.stays_solved(rows(reward_mean=broken))


def test_a_recovery_falls_and_comes_back() -> None:
    back, gone, none = [0.75] * 49 + [0.35] * 12 + [0.75] * 30, [0.75] * 49 + [0.35] * 42, [0.75] * 91
    assert course.recovers(rows(reward_mean=back), 50, 61) == ""
    assert "ends 0.40 below" in course.recovers(rows(reward_mean=gone), 50, 61)
    assert "falls by 0.00" in course.recovers(rows(reward_mean=none), 50, 61)
    assert "too short" in course.recovers(rows(reward_mean=back[:63]), 50, 61)


def measured() -> list[tuple[str, str, Mapping[str, list[float | None]]]]:
    found = json.loads(COURSES.read_text(encoding="utf-8"))
    return [(name, seed, columns) for name, seeds in found.items() for seed, columns in seeds.items()]


@pytest.mark.parametrize(("name", "seed", "columns"), measured(), ids=lambda v: v if isinstance(v, str) else "")
def test_a_hard_case_is_what_it_says(name: str, seed: str, columns: Mapping[str, list[float | None]]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from rlvitals.lab.healthy import HEALTHY

    shows = {h.name: h.shows for h in HEALTHY}
    log = [
        {"step": i, **{n: v for n, c in columns.items() if (v := c[i]) is not None}}
        for i in range(len(next(iter(columns.values()))))
    ]
    if name == "grpo":  # the usual run is none of them
        assert all(check(log) for check in shows.values() if check is not None)
        return
    check = shows[name]
    assert check is not None
    assert check(log) == "", f"{name}, seed {seed}"


def test_every_condition_was_measured() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from rlvitals.lab.healthy import HEALTHY

    assert {h.name for h in HEALTHY if h.shows} == {name for name, _, _ in measured()} - {"grpo"}
