"""The driver: looks at fixed row counts, patience, incidents, and the same answer live and after the fact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Crashed,
    Evidence,
    Family,
    Finding,
    Fired,
    Fold,
    Needs,
    NoData,
    Onset,
    Outcome,
    Plan,
    Remedy,
    SourceKind,
    Threshold,
    Verify,
    tally,
)
from rlvitals.engine import CLOSE_AFTER, Engine, Track, is_look, look_interval, next_look, run_engine
from rlvitals.schema import UNKNOWN_TRAINER, Event, EventKind, Run, RunConfig, Segment
from rlvitals.view import View

LIMIT = Threshold("limit", 0.5, "reward", SourceKind.DEFINITION, "test")


def make(action: Action = Action.FIX, *, patience: int = 1, source: SourceKind = SourceKind.DEFINITION) -> Check:
    """Make a check that fires while the last reward is above its limit."""

    def judge(view: View, limits: dict[str, Threshold]) -> Outcome:
        steps, values = view.recent("reward_mean", 1)
        if values[-1] <= limits["limit"].value:
            return Clear(f"reward {values[-1]:g}")
        at = int(steps[-1])
        evidence = Evidence("reward_mean", "high", float(values[-1]), "reward", (at, at), limits["limit"], ">")
        return Fired(Finding("too high", action, Confidence.HIGH, Onset(at, at), (evidence,)))

    return Check(
        id="X001",
        name="too-high",
        family=Family.REWARD,
        fault="f",
        why="w",
        needs=Needs(("reward_mean",)),
        thresholds=(Threshold("limit", 0.5, "reward", source, "test"),),
        judge=judge,
        plans={"": Plan((Remedy("do"),), (Verify("see"),))},
        patience=patience,
    )


def run_of(values: list[float]) -> Run:
    return Run("r", np.arange(1, len(values) + 1), {"reward_mean": np.array(values, dtype=float)})


def test_looks_are_fixed_by_the_row_count() -> None:
    assert [n for n in range(1, 26) if is_look(n)] == [5, 10, 15, 20, 25]
    assert (look_interval(499), look_interval(500), look_interval(1000), look_interval(100_000)) == (5, 10, 20, 1280)
    n, looks = 0, []
    while n < 20_000:
        n = next_look(n)
        looks.append(n)
    assert looks == [k for k in range(1, looks[-1] + 1) if is_look(k)]


def test_needs_answer_with_what_is_missing() -> None:
    outcome = run_engine(Run("r", np.arange(1, 4), {"loss": np.ones(3)}), (make(),)).examine().outcomes["X001"]
    assert outcome == NoData(("reward_mean",))


def test_a_crashing_check_is_an_outcome_not_an_error() -> None:
    broken = make()
    object.__setattr__(broken, "judge", lambda view, limits: 1 / 0)
    assert isinstance(run_engine(run_of([1.0] * 5), (broken,)).examine().outcomes["X001"], Crashed)


def test_a_crashing_fold_is_an_outcome_of_its_check_alone() -> None:
    broken = replace(make(), id="X002", fold=Fold(0, lambda state, chunk: 1 / 0))
    outcomes = run_engine(run_of([1.0] * 5), (broken, make())).examine().outcomes
    assert outcomes["X002"] == Crashed("ZeroDivisionError: division by zero")
    assert isinstance(outcomes["X001"], Fired)


def test_a_look_knows_no_event_or_segment_of_later_steps() -> None:
    seen: list[tuple[int, int, int]] = []

    def judge(view: View, limits: dict[str, Threshold]) -> Outcome:
        seen.append((view.step, len(view.events), len(view.segments)))
        return Clear("")

    events = (Event(EventKind.RESUME, 8), Event(EventKind.CHECKPOINT, 12), Event(EventKind.CONFIG_CHANGE, None))
    run = replace(run_of([0.0] * 10), events=events, segments=(Segment(8, 9, 2, 8),))
    engine = run_engine(run, (replace(make(), judge=judge),))
    assert seen == [(5, 1, 0), (10, 2, 1)]
    engine.examine()
    assert seen[-1] == (10, 3, 1)  # what lies on disk now counts now
    assert run.until(7).segments == ()


def test_held_out_scores_may_come_in_any_order() -> None:
    engine = Engine((make(),), config=RunConfig(), trainer=UNKNOWN_TRAINER)
    for step, score in ((10, 0.1), (30, 0.3), (20, 0.0), (20, 0.2)):
        engine.add_eval("gsm8k", step, score, 0.01 * step, 100, "accuracy")
    held = engine.evals["gsm8k"]
    assert (held.step.tolist(), held.score.tolist()) == ([10, 20, 30], [0.1, 0.2, 0.3])
    assert (held.step.dtype, held.stderr.tolist()) == (np.dtype(np.int64), [0.1, 0.2, 0.3])


def test_convention_alone_is_capped_at_watch() -> None:
    outcome = run_engine(run_of([1.0] * 5), (make(Action.STOP, source=SourceKind.CONVENTION),)).examine()
    assert isinstance(outcome.outcomes["X001"], Fired)
    assert outcome.outcomes["X001"].finding.action is Action.WATCH


def test_patience_needs_consecutive_looks() -> None:
    check = make(patience=2)
    twice = run_engine(run_of([0.0] * 4 + [1.0] * 6), (check,)).examine().outcomes["X001"]
    assert isinstance(twice, Fired)
    for rows in (5, 8):  # at the one look that saw it, and between looks, before any look did
        once = run_engine(run_of([0.0] * (rows - 1) + [1.0]), (check,)).examine().outcomes["X001"]
        assert isinstance(once, Clear)
        assert once.because.startswith("seen at one look only")
    thrice = run_engine(run_of([0.0] * 4 + [1.0] * 6), (make(patience=3),)).examine().outcomes["X001"]
    assert thrice == Clear("seen at 2 looks only: too high")


def test_an_incident_opens_and_closes_after_two_quiet_looks() -> None:
    run = run_of([0.0] * 9 + [1.0] * 10 + [0.0] * 30)
    (incident,) = run_engine(run, (make(),)).examine().incidents
    assert (incident.onset.first, incident.closed) == (10, 15 + 5 * CLOSE_AFTER)


def test_the_user_may_move_a_limit_and_it_shows() -> None:
    engine = Engine((make(),), config=RunConfig(), trainer=UNKNOWN_TRAINER, limits={"X001.limit": 2.0})
    assert engine.limits["X001"]["limit"].source is SourceKind.USER


def test_track_keeps_the_worst_finding() -> None:
    evidence = (Evidence("m", "t", 1.0, "u", (1, 1), LIMIT, ">"),)
    mild = Fired(Finding("mild", Action.WATCH, Confidence.LOW, Onset(1, 1), evidence))
    bad = Fired(Finding("bad", Action.STOP, Confidence.LOW, Onset(3, 3), evidence))
    track = Track().after(mild, make(), 5).after(bad, make(), 10).after(mild, make(), 15)
    assert track.open is not None
    assert track.open.finding.summary == "bad"
    assert track.open.onset == Onset(1, 1)


def test_a_finding_without_evidence_cannot_exist() -> None:
    with pytest.raises(ValueError, match="without evidence"):
        Finding("x", Action.FIX, Confidence.HIGH, Onset(1, 1), ())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, float("nan")]), min_size=1, max_size=60), st.data())
def test_tally_does_not_depend_on_chunking(values: list[float], data: st.DataObject) -> None:
    def test(chunk):  # type: ignore[no-untyped-def]
        v = chunk.col("m")
        return np.isfinite(v), v == 1.0, v

    from rlvitals.view import Chunk

    fold = tally(test)
    array, steps = np.array(values), np.arange(1, len(values) + 1)
    whole = fold.step(fold.start, Chunk(steps, {"m": 0}, array[None], RunConfig()))
    state, begin = fold.start, 0
    while begin < array.size:
        end = begin + data.draw(st.integers(1, 7))
        state = fold.step(state, Chunk(steps[begin:end], {"m": 0}, array[None, begin:end], RunConfig()))
        begin = end
    assert repr(state) == repr(whole)
    bad = [s for s, v in zip(steps, values, strict=True) if v == 1.0]
    assert (state.failed, state.first, state.last) == (len(bad), bad[0] if bad else None, bad[-1] if bad else None)
