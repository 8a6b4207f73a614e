"""Transitions: opened, worsened, eased, closed with hysteresis; a budget never mutes news; when a run should stop."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from rlvitals.check import Action, Clear, Confidence, Evidence, Finding, Fired, Onset, Outcome, Verdict
from rlvitals.engine import Incident
from rlvitals.errors import InputError
from rlvitals.live.monitor import Monitor
from rlvitals.live.stop import StopOn, StopRequest, StopWatch, best_checkpoint
from rlvitals.live.transitions import Budget, Kind, Ledger, Told, Transition
from rlvitals.live.watcher import Watcher
from rlvitals.schema import Event, EventKind, RunConfig
from rlvitals.view import Held

EVIDENCE = (Evidence("loss", "loss is NaN", float("nan"), "", (5, 9)),)


def finding(action: Action, confidence: Confidence = Confidence.HIGH, variant: str = "") -> Finding:
    return Finding("loss is NaN", action, confidence, Onset(5, 5), EVIDENCE, variant)


def looks(*actions: Action | None) -> list[tuple[Kind, Action]]:
    """Return the changes of a check that says these actions at successive looks; None = quiet but not closed."""
    ledger, out = Ledger(), []
    for action in actions:
        outcome: Outcome = Clear("quiet") if action is None else Fired(finding(action))
        incident = Incident("D001", Onset(5, 5), None, finding(action or Action.WATCH))
        out += [(c.kind, c.finding.action) for c in ledger.after_look({"D001": outcome}, {"D001": incident})]
    out += [(c.kind, c.finding.action) for c in ledger.after_look({"D001": Clear("gone")}, {})]
    return out


def test_a_fault_opens_worsens_at_once_eases_slowly_and_closes() -> None:
    assert looks(Action.WATCH, Action.FIX, Action.STOP, Action.WATCH, Action.WATCH) == [
        (Kind.OPENED, Action.WATCH),
        (Kind.WORSENED, Action.FIX),
        (Kind.WORSENED, Action.STOP),
        (Kind.EASED, Action.WATCH),
        (Kind.CLOSED, Action.WATCH),
    ]


def test_one_milder_or_quiet_look_says_nothing() -> None:
    assert looks(Action.FIX, Action.WATCH, Action.FIX, None, Action.FIX) == [
        (Kind.OPENED, Action.FIX),
        (Kind.CLOSED, Action.FIX),
    ]


def transition(kind: Kind, action: Action, variant: str = "", check: str = "D001") -> Transition:
    found = finding(action, variant=variant)
    return Transition(kind, check, "non-finite-values", found, 10, "run", Verdict.STOP, "loss is NaN", "", "")


def test_a_budget_holds_repeats_back_and_never_news() -> None:
    budget = Budget(messages=1)
    sent = [
        budget.lets(transition(kind, action, variant, check))
        for kind, action, variant, check in (
            (Kind.OPENED, Action.WATCH, "", "D001"),  # news
            (Kind.CLOSED, Action.WATCH, "", "D001"),  # takes the only message
            (Kind.OPENED, Action.WATCH, "", "D001"),  # a repeat
            (Kind.WORSENED, Action.STOP, "", "D001"),  # worse than ever: news
            (Kind.OPENED, Action.STOP, "", "D001"),  # a repeat
            (Kind.OPENED, Action.WATCH, "other", "D001"),  # another kind: news
            (Kind.OPENED, Action.WATCH, "", "R001"),  # another check: news
        )
    ]
    assert sent == [True, True, False, True, False, True, True]
    assert budget.muted == 2


def sick(monitor: Monitor, upto: int = 120) -> list[Transition]:
    out: list[Transition] = []
    for step in range(1, upto + 1):
        bad = float("nan") if 40 < step <= 70 else 0.01
        values = {"reward_mean": 0.3 + 0.01 * (step % 5), "grad_norm": bad, "loss": bad, "entropy": 0.4}
        out += monitor.log(step, values)
    return out


def test_a_transition_carries_what_a_message_says() -> None:
    seen: list[Transition] = []

    class Keep(Watcher):
        def on_transition(self, found: Transition) -> None:
            seen.append(found)

    found = sick(Monitor(RunConfig(), name="my run", watchers=[Keep()]))
    assert seen == found
    opened = next(t for t in found if t.check == "D001")
    assert (opened.kind, opened.run, opened.verdict, opened.before) == (Kind.OPENED, "my run", Verdict.STOP, None)
    assert opened.page == "docs/checks/D001-non-finite-values.md"
    assert opened.first_action != ""
    assert opened.step == 45  # the fifth row of the fault is the next look


def test_a_stop_is_asked_for_once_and_only_at_the_wanted_confidence() -> None:
    asked = Monitor(RunConfig(), stop_on="high")
    sick(asked, 60)
    request = asked.stop_due()
    assert request is not None
    assert (request.rule, request.step) == ("stop verdict", 45)
    assert "D001" in request.reason
    assert "you asked for high" in request.reason
    assert asked.stop_due() is None
    assert asked.stop_request == request
    silent = Monitor(RunConfig())
    sick(silent, 60)
    assert silent.stop_request is None


def test_a_less_sure_stop_verdict_does_not_stop() -> None:
    open_ = {"R002": Told(finding(Action.STOP, Confidence.MEDIUM))}
    for wanted, expected in ((Confidence.HIGH, False), (Confidence.MEDIUM, True), (Confidence.LOW, True)):
        watch = StopWatch(StopOn(wanted))
        assert watch.wants_verdict(open_) is expected
        watch.look(50, Verdict.STOP, open_)
        assert (watch.request is not None) is expected
    watch = StopWatch(StopOn(Confidence.LOW))
    watch.look(50, Verdict.ACT, open_)  # explained by a cause that only asks for a repair
    assert watch.request is None


def test_the_rules_of_the_documents() -> None:
    zero = StopWatch(StopOn(zero_reward_steps=3))
    for step, reward in enumerate((0.0, 0.0, 0.1, 0.0, None, 0.0, 0.0)):
        zero.row(step, {} if reward is None else {"reward_mean": reward})
    assert zero.request == StopRequest(
        "zero reward", 6, "mean reward is exactly 0 in 3 logged steps in a row, since step 3 (your limit: 3 steps)"
    )
    falling = StopWatch(StopOn(heldout_falling=2))
    for step, score in enumerate((0.5, 0.4, 0.45, 0.44, 0.43)):
        falling.score("gsm8k", step, score)
    assert falling.request == StopRequest(
        "held-out falling", 4, "held-out gsm8k fell 2 evaluations in a row, from 0.45 to 0.43"
    )
    for rules, check, rule in (
        (StopOn(solved=True), "T002", "solved"),
        (StopOn(non_finite=True), "D001", "non-finite"),
    ):
        watch = StopWatch(rules)
        watch.look(9, Verdict.WATCH, MappingProxyType({check: Told(finding(Action.FINISH))}))
        assert watch.request is not None
        assert watch.request.rule == rule


def test_wrong_rules_are_said_before_training() -> None:
    with pytest.raises(InputError, match=r"unknown confidence; found 'sure'; expected low, medium, high"):
        Monitor(stop_on="sure")
    with pytest.raises(InputError, match=r"zero_reward_steps: not a number of repeats; found 0(.|\n)*heldout_falling"):
        StopOn(zero_reward_steps=0, heldout_falling=-1)


def test_the_best_checkpoint_is_that_of_the_best_held_out_score() -> None:
    none = np.full(3, np.nan)
    held = Held(np.array([10, 20, 30]), np.array([0.2, 0.5, 0.4]), none, 100)
    small = replace(held, score=np.array([0.9, 0.1, 0.1]), items=10)
    events = tuple(Event(EventKind.CHECKPOINT, s, path=f"/c/{s}", complete=s != 20) for s in (10, 15, 20, 30))
    best = best_checkpoint({"aime": small, "gsm8k": held}, events)
    assert best is not None
    assert (best.set, best.step, best.score, best.path) == ("gsm8k", 20, 0.5, "/c/15")
    other = best_checkpoint({"aime": small, "gsm8k": held}, (), "aime")
    assert other is not None
    assert (other.step, other.path) == (10, "")
    assert best_checkpoint({}, events) is None
    monitor = Monitor(RunConfig())
    monitor.log(1, {"reward": 1.0})
    assert monitor.best_checkpoint() is None  # training reward decides nothing
