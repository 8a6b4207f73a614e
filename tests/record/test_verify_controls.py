"""A healthy run, cut anywhere, is never "not fixed" (controls of the lab's building seeds); a broken one is."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlvitals.check import Onset, Verify
from rlvitals.checks import CHECKS
from rlvitals.record.level import Earlier
from rlvitals.record.parts import view_of
from rlvitals.record.statements import statement
from rlvitals.record.verify import Answer, verify
from rlvitals.record.vitals import Item, State, runbook_items
from rlvitals.schema import Evals, Run, TrainerInfo
from tests.record.runs import healthy, run, tied, with_evals

CONTROLS = Path(__file__).parent / "controls.jsonl"  # series of rlvitals lab run, three digits
PREFIXES = (40, 55, 70, 90, 120)  # rows after the fix
OTHER_SETTINGS = {"C003", "C006"}  # speak of a cap on weights that these controls do not have


@functools.cache
def controls() -> dict[str, Run]:
    found = {}
    for line in CONTROLS.read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        columns = {name: np.array(values, float) for name, values in kept["columns"].items()}
        step, score, error = (np.array(part, float) for part in zip(*kept["held_out"], strict=True))
        held = Evals("heldout", step.astype(np.int64), score, error, kept["items"])
        rows = next(iter(columns.values())).size
        trainer = TrainerInfo("rlvitals train")
        found[kept["name"]] = Run(kept["name"], np.arange(1, rows + 1), columns, trainer, evals={"heldout": held})
    return found


def wanted() -> list[tuple[str, Verify]]:
    plans = [(c.id, plan) for c in CHECKS for plan in c.plans.values()]
    return [(i, v) for i, plan in plans for v in plan.verify if v.metric and i not in OTHER_SETTINGS]


@pytest.mark.parametrize("name", controls())
def test_no_statement_of_any_check_fails_on_a_run_that_is_well(name: str) -> None:
    for rows in PREFIXES:
        view = view_of(controls()[name].until(rows))
        items = [(i, statement(v, view)) for i, v in wanted()]
        assert [(rows, i, item.text) for i, item in items if item.state is State.FAILS] == []


@pytest.mark.parametrize("name", controls())
def test_no_item_of_the_runbook_fails_on_a_run_that_is_well(name: str) -> None:
    for rows in PREFIXES:
        found = controls()[name]
        items = runbook_items(view_of(found.until(rows)), view_of(found.until(16)))
        assert [(rows, item.text) for item in items if item.state is State.FAILS] == []


@pytest.mark.parametrize("rows", [40, 90])
def test_a_mended_run_is_fixed_or_too_early(rows: int) -> None:
    found = verify(tied(), controls()["default, seed 100"].until(rows))
    assert found.answer in (Answer.FIXED, Answer.TOO_EARLY), found.headline


def judged(later: Run, metric: str, op: str, value: float | None = None, steps: int = 20) -> Item:
    return statement(Verify("it", metric, op, value, steps), view_of(later))


def test_ties_count_unless_they_are_all_right() -> None:
    right = run(zero_variance_frac="0.8 x60", all_right_frac="0.75 x60")
    wrong = run(zero_variance_frac="0.8 x60", all_right_frac="0.1 x60")
    untold = run(zero_variance_frac="0.8 x60", reward_mean="0.2->0.9 x60 ~0.02")
    assert judged(right, "zero_variance_frac", "<", 0.5).state is State.HOLDS
    assert judged(wrong, "zero_variance_frac", "<", 0.5).state is State.FAILS
    assert judged(untold, "zero_variance_frac", "<", 0.5).state is State.FAILS  # it never held


def test_a_limit_passed_as_the_held_out_score_rises_is_a_task_being_solved() -> None:
    later = run(zero_variance_frac="0.2->0.8 x60 ~0.02", reward_mean="0.2->0.9 x60 ~0.02")
    assert judged(with_evals(later, [0.2, 0.5, 0.9]), "zero_variance_frac", "<", 0.5).state is State.HOLDS
    assert judged(with_evals(later, [0.5, 0.5, 0.5]), "zero_variance_frac", "<", 0.5).state is State.FAILS
    open_ = judged(later, "zero_variance_frac", "<", 0.5)
    assert (open_.state, "without a held-out score" in open_.text) == (State.NO_DATA, True)


@pytest.mark.parametrize(
    ("metric", "course", "op", "state"),
    [
        ("kl_ref", "0.001->0.1 x80 ~5%", "not rising", State.HOLDS),  # leaves 0, and stays small
        ("kl_ref", "0.05->2.0 x80 ~5%", "not rising", State.FAILS),
        ("length_mean", "200->215 x80 ~1", "not rising", State.HOLDS),  # beyond its noise, and no matter
        ("length_mean", "200->400 x80 ~1", "not rising", State.FAILS),
        ("entropy", "0.5->0.05 x80 ~1%", "not falling", State.FAILS),
        ("reward_mean", "0.6->0.5 x80 ~0.005", "not falling", State.FAILS),
    ],
)
def test_a_direction_counts_where_it_is_material(metric: str, course: str, op: str, state: State) -> None:
    assert judged(run(**{metric: course}), metric, op, steps=60).state is state


def test_kl_that_grows_fails_where_it_is_far_or_nothing_is_learnt() -> None:
    grows = replace(healthy(), columns={**healthy().columns, **run(kl_ref="0.02=>0.5 x100 ~5%").columns})
    far = replace(healthy(), columns={**healthy().columns, **run(kl_ref="0.02=>5 x100 ~5%").columns})
    at = 2  # the runbook's item on KL
    assert runbook_items(view_of(with_evals(grows, [0.2, 0.5, 0.9])), view_of(healthy()))[at].state is State.HOLDS
    assert runbook_items(view_of(grows), view_of(healthy()))[at].state is State.FAILS
    assert runbook_items(view_of(with_evals(far, [0.2, 0.5, 0.9])), view_of(healthy()))[at].state is State.FAILS


def test_what_speaks_of_the_first_step_is_asked_of_the_first_rows() -> None:
    assert judged(run(kl_ref="0 x1; 0.2 x40"), "kl_ref", "first <", 0.01, 1).state is State.HOLDS
    assert judged(run(kl_ref="0.5 x1; 0 x40"), "kl_ref", "first <", 0.01, 1).state is State.FAILS
    assert judged(run("later", 50, kl_ref="0.5 x40"), "kl_ref", "first <", 0.01, 1).state is State.NO_DATA


def test_some_is_enough_where_most_rows_are_zero() -> None:
    assert judged(run(clip_frac="0 x30; 0.01 x2; 0 x18"), "clip_frac", "some >", 0.0, 50).state is State.HOLDS
    assert judged(run(clip_frac="0 x50"), "clip_frac", "some >", 0.0, 50).state is State.FAILS


@pytest.mark.parametrize(("first", "base", "state"), [(1, 1, State.HOLDS), (0, 1, State.HOLDS), (1, 0, State.NO_DATA)])
def test_the_first_row_of_a_run_is_the_one_where_its_trainer_begins(first: int, base: int, state: State) -> None:
    part = replace(run("part", first, kl_ref="0 x1; 0.2 x40"), trainer=TrainerInfo("t", step_base=base))
    assert judged(part, "kl_ref", "first <", 0.01, 1).state is state
    from_zero = Earlier(view_of(run("whole", 0, kl_ref="0 x41")), Onset(0, 0))
    later = statement(Verify("it", "kl_ref", "first <", 0.01, 1), view_of(run("part", 1, kl_ref="0.2 x40")), from_zero)
    assert later.state is State.NO_DATA, "cut from a run that counts from 0"


@pytest.mark.parametrize("name", controls())
def test_a_control_is_as_before_at_any_of_its_later_steps(name: str) -> None:
    whole = controls()[name]
    for cut in (30, 50, 70):
        if cut + 30 <= whole.rows:
            earlier = Earlier(view_of(whole.until(cut)), Onset(cut - 5, cut))
            later = replace(whole, step=whole.step[cut:], columns={n: c[cut:] for n, c in whole.columns.items()})
            item = statement(Verify("it", "reward_mean", "as before"), view_of(later.until(cut + 30)), earlier)
            assert item.state in (State.HOLDS, State.NO_DATA), (cut, item.text)


def test_without_rows_before_the_fault_there_is_no_level_to_be_back_at() -> None:
    wanted = Verify("it", "reward_mean", "as before")
    later = view_of(run("later", 50, reward_mean="0.5 x40"))
    assert statement(wanted, later).state is State.NO_DATA
    few = Earlier(view_of(run(reward_mean="0.5 x40")), Onset(3, 3))
    assert statement(wanted, later, few).state is State.NO_DATA
    known = Earlier(view_of(run(reward_mean="0.5 x40")), Onset(30, 30))
    assert statement(wanted, later, known).state is State.HOLDS
