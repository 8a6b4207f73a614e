"""What explains what, what comes first, one plan without contradictions: on small made-up checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlvitals.check import (
    Action,
    Check,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    Needs,
    NoData,
    Onset,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verdict,
    Verify,
)
from rlvitals.conclude import conclude
from rlvitals.diagnosis import Diagnosis
from rlvitals.engine import run_engine
from rlvitals.plan import VERIFY_THE_VERIFIER
from rlvitals.schema import Event, EventKind, Run, RunConfig, TrainerInfo

LIMIT = Threshold("limit", 0.0, "reward", SourceKind.DEFINITION, "test")
TRAINER = TrainerInfo("TRL", knobs={"clip_high": "epsilon_high"}, how_to_log={"kl_ref": "set beta > 0"})

FIRST = (
    f"{VERIFY_THE_VERIFIER} The verifier is unverified: rlvitals audit score and rlvitals audit probe. Learnability "
    "unknown: rlvitals preflight; leakage unchecked: rlvitals audit leakage."
)


def fault(
    check_id: str,
    family: Family,
    onset: tuple[int, int],
    *,
    action: Action = Action.FIX,
    leads_to: tuple[str, ...] = (),
    remedies: tuple[Remedy, ...] = (Remedy("mend it"),),
    rollback: Rollback = Rollback.NONE,
) -> Check:
    """Make a check that always fires with this onset."""
    evidence = Evidence("reward_mean", "seen", 1.0, "reward", onset, LIMIT, ">")
    finding = Finding(f"{check_id} is there", action, Confidence.HIGH, Onset(*onset), (evidence,))
    return Check(
        id=check_id, name=check_id.lower(), family=family, fault="f", why="w", needs=Needs(), thresholds=(LIMIT,),
        judge=lambda view, limits: Fired(finding), plans={"": Plan(remedies, (Verify("see"),), rollback)},
        leads_to=leads_to,
    )  # fmt: skip


def diagnosed(
    *checks: Check,
    rows: int = 100,
    events: tuple[Event, ...] = (),
    config: RunConfig | None = None,
    first: int = 1,
    base: int = 1,
) -> Diagnosis:
    run = Run(
        "r", np.arange(first, first + rows),
        {"reward_mean": np.linspace(0, 1, rows), "step_time_s": np.full(rows, 36.0)},
        trainer=replace(TRAINER, step_base=base), events=events, config=config or RunConfig(),
    )  # fmt: skip
    return conclude(run_engine(run, checks).examine(), checks, name="r")


def names(found: Diagnosis) -> list[tuple[str, list[str]]]:
    return [(c.id, [q.id for q in c.consequences]) for c in found.causes]


def test_an_upstream_fault_explains_what_it_leads_to_through_checks_that_did_not_fire() -> None:
    truncation = fault("L1", Family.LENGTH, (10, 20), leads_to=("M1",))
    middle = fault("M1", Family.SIGNAL, (0, 0), leads_to=("E1",))
    object.__setattr__(middle, "judge", lambda view, limits: NoData(("x",)))
    entropy = fault("E1", Family.ENTROPY, (40, 50))
    assert names(diagnosed(truncation, middle, entropy)) == [("L1", ["E1"])]


def test_what_certainly_began_first_is_no_consequence() -> None:
    late = fault("L1", Family.LENGTH, (60, 70), leads_to=("E1",))
    early = fault("E1", Family.ENTROPY, (10, 20))
    assert names(diagnosed(late, early)) == [("E1", []), ("L1", [])]


def test_no_update_explains_what_the_rollouts_of_the_first_step_showed() -> None:
    update = fault("U1", Family.UPDATE, (1, 1), leads_to=("S1",))
    at_once, later = fault("S1", Family.SIGNAL, (1, 1)), fault("S1", Family.SIGNAL, (1, 4))
    assert [c.id for c in diagnosed(update, at_once).causes] == ["S1", "U1"]
    assert [c.id for c in diagnosed(update, later).causes] == ["U1"]


@pytest.mark.parametrize(
    ("first", "base", "start"), [(1, 1, 1), (0, 1, 0), (0, 0, 0), (1, 0, 0), (50, 1, 1), (50, 0, 0)]
)
def test_the_first_step_is_counted_as_the_run_counts_it(first: int, base: int, start: int) -> None:
    update = fault("U1", Family.UPDATE, (start + 1, start + 1), leads_to=("S1",))
    at_once = fault("S1", Family.SIGNAL, (start, start))
    between = fault("S1", Family.SIGNAL, (start, start + 1))
    assert names(diagnosed(update, between, first=first, base=base)) == [("U1", ["S1"])]
    early = fault("U1", Family.UPDATE, (start, start), leads_to=("S1",))
    assert names(diagnosed(early, at_once, first=first, base=base)) == [("S1", []), ("U1", [])]


def test_overlapping_onsets_leave_the_graph_to_decide() -> None:
    upstream = fault("L1", Family.LENGTH, (15, 40), leads_to=("E1",))
    downstream = fault("E1", Family.ENTROPY, (10, 20))
    assert names(diagnosed(downstream, upstream)) == [("L1", ["E1"])]


def test_what_is_only_to_be_watched_explains_no_move() -> None:
    upstream = fault("K3", Family.DATA, (1, 1), action=Action.WATCH, leads_to=("L1",))
    assert names(diagnosed(upstream, fault("L1", Family.LENGTH, (10, 20)))) == [("L1", []), ("K3", [])]


def test_two_that_lead_to_each_other_are_split_by_the_triage() -> None:
    a = fault("K1", Family.LEASH, (10, 10), leads_to=("R1",))
    b = fault("R1", Family.REWARD, (10, 10), leads_to=("K1",))
    assert names(diagnosed(a, b)) == [("R1", ["K1"])]


def test_moves_come_before_watches_then_onset_then_triage() -> None:
    watch = fault("A1", Family.DATA, (1, 1), action=Action.WATCH)
    later = fault("R1", Family.REWARD, (50, 60))
    same_low = fault("S1", Family.SIGNAL, (5, 20))
    same_high = fault("L1", Family.LENGTH, (10, 12))
    assert [c for c, _ in names(diagnosed(watch, later, same_high, same_low))] == ["S1", "L1", "R1", "A1"]


def test_the_verdict_is_the_worst_action_of_now() -> None:
    assert diagnosed(fault("A1", Family.DATA, (1, 1), action=Action.FINISH)).verdict is Verdict.WATCH
    assert diagnosed(fault("A1", Family.DATA, (1, 1), action=Action.STOP)).verdict is Verdict.STOP
    assert diagnosed(fault("A1", Family.DATA, (1, 1), action=Action.NOTE)).verdict is Verdict.HEALTHY


def test_too_short_cannot_say_unless_a_fault_is_proven() -> None:
    assert diagnosed(fault("A1", Family.DATA, (1, 1), action=Action.WATCH), rows=10).verdict is Verdict.CANNOT_SAY
    assert diagnosed(fault("A1", Family.DATA, (1, 1)), rows=10).verdict is Verdict.ACT


def test_the_plan_starts_with_the_verifier_and_never_contradicts_itself() -> None:
    harder = fault("S1", Family.SIGNAL, (5, 5), remedies=(Remedy("raise it", "curriculum", "raise"),))
    easier = fault("R1", Family.HELD_OUT, (5, 5), remedies=(Remedy("lower it", "curriculum", "lower"), Remedy("look")))
    found = diagnosed(harder, easier)
    assert [s.text for s in found.plan] == [FIRST, "raise it [curriculum]", "look"]
    assert [(h.text, h.reason) for h in found.held_back] == [
        ("lower it [curriculum]", "contradicts the step for s1, which comes first")
    ]


def test_a_setting_that_was_moved_twice_is_still_not_moved_back() -> None:
    first = fault("S1", Family.SIGNAL, (5, 5), remedies=(Remedy("up", "curriculum", "raise"),))
    second = fault("L1", Family.LENGTH, (5, 5), remedies=(Remedy("mix", "curriculum", "set"),))
    third = fault("H1", Family.HELD_OUT, (5, 5), remedies=(Remedy("down", "curriculum", "lower"),))
    assert [h.cause for h in diagnosed(first, second, third).held_back] == ["H1"]


def test_two_checks_of_one_thing_are_two_steps_and_the_same_move_is_one() -> None:
    first = fault("S1", Family.SIGNAL, (5, 5), remedies=(Remedy("try gold", "verifier", "check"),))
    reads = (Remedy("read", "verifier", "check"), Remedy("try empty", "verifier", "check"))
    second = fault("L1", Family.LENGTH, (5, 5), remedies=(*reads, Remedy("slower", "learning_rate", "lower")))
    third = fault("E1", Family.ENTROPY, (5, 5), remedies=(Remedy("lower", "learning_rate", "lower"),))
    texts = [s.text for s in diagnosed(first, second, third).plan]
    assert texts == [
        FIRST,
        *(f"{t} [verifier]" for t in ("try gold", "read", "try empty")),
        "slower [learning rate]",
    ]


def test_how_to_verify_stays_when_the_first_remedy_is_held_back() -> None:
    kl = (Remedy("less KL", "kl_coef", "lower"), Remedy("read rollouts"))
    found = diagnosed(fault("S1", Family.SIGNAL, (5, 5)), fault("K1", Family.LEASH, (5, 5), remedies=kl))
    (step,) = [s for s in found.plan if s.cause == "K1"]
    assert (step.text, step.verify) == ("read rollouts", (Verify("see"),))


def test_what_is_only_to_be_watched_undoes_no_steps() -> None:
    held = fault("H2", Family.HELD_OUT, (45, 60), action=Action.WATCH, rollback=Rollback.BEFORE_ONSET)
    assert diagnosed(held, events=checkpoints(20, 40)).rollback.kind is Rollback.NONE


def test_a_ring_of_faults_is_no_consequence_of_a_cause_that_cannot_reach_it() -> None:
    alone = fault("A1", Family.CONFIG, (5, 5))
    ring = [
        fault(i, family, (10, 10), leads_to=(then,))
        for i, family, then in (
            ("R1", Family.REWARD, "L1"), ("L1", Family.LENGTH, "E1"), ("E1", Family.ENTROPY, "R1"),
        )
    ]  # fmt: skip
    assert names(diagnosed(alone, *ring)) == [("A1", []), ("R1", ["L1", "E1"])]


def test_a_crash_that_a_restart_survived_is_not_how_the_run_ended() -> None:
    died = Event(EventKind.CRASH, 40, "out of memory")
    assert diagnosed(fault("A1", Family.DATA, (1, 1)), events=(died,)).crash == ""
    assert diagnosed(fault("A1", Family.DATA, (1, 1)), events=(replace(died, step=100),)).crash == "out of memory"


def test_no_kl_tuning_before_reward_and_signal_are_cleared() -> None:
    leash = fault("K1", Family.LEASH, (5, 5), remedies=(Remedy("raise the KL coefficient", "kl_coef", "raise"),))
    assert any("KL coefficient" in s.text for s in diagnosed(leash).plan)
    found = diagnosed(leash, fault("S1", Family.SIGNAL, (50, 50)))
    assert not any("KL coefficient" in s.text for s in found.plan)
    assert found.held_back[0].reason == "the KL coefficient comes only after s1 is cleared"


def test_knobs_are_shown_in_the_trainers_words() -> None:
    found = diagnosed(
        fault("E1", Family.ENTROPY, (5, 5), remedies=(Remedy("Raise the upper clip bound", "clip_high", "raise"),))
    )
    assert found.plan[1].text == "Raise the upper clip bound [epsilon_high]"


def checkpoints(*steps: int, broken: int = -1) -> tuple[Event, ...]:
    return tuple(Event(EventKind.CHECKPOINT, s, path=f"checkpoint-{s}", complete=s != broken) for s in steps)


def test_rollback_is_the_newest_complete_checkpoint_before_the_onset_interval() -> None:
    hacked = fault("H1", Family.HELD_OUT, (45, 60), action=Action.STOP, rollback=Rollback.BEFORE_ONSET)
    found = diagnosed(hacked, events=checkpoints(20, 30, 40, 50, broken=40))
    assert (found.rollback.step, found.rollback.path) == (30, "checkpoint-30")
    assert diagnosed(hacked).rollback.step == 44
    none_before = diagnosed(hacked, events=checkpoints(50, 60))
    assert (none_before.rollback.step, none_before.rollback.path) == (44, "")


def test_collapse_keeps_the_current_checkpoint() -> None:
    collapse = fault("E1", Family.ENTROPY, (45, 60), rollback=Rollback.CURRENT)
    assert diagnosed(collapse, events=checkpoints(20, 90)).rollback.step == 90


def test_cost_counts_steps_after_onset_and_hours_only_when_gpus_are_known() -> None:
    broken = fault("R1", Family.REWARD, (51, 51))
    cost = diagnosed(broken).cost
    assert cost is not None
    assert (cost.steps_after_onset, cost.share_after_onset, cost.gpu_hours) == (50, 0.5, None)
    priced = diagnosed(broken, config=RunConfig(gpus=8, price_per_gpu_hour=2.0)).cost
    assert priced is not None
    assert (priced.gpu_hours, priced.money) == (4.0, 8.0)


def test_blind_spots_say_how_to_log_in_this_trainer() -> None:
    blind = fault("K1", Family.LEASH, (5, 5))
    object.__setattr__(blind, "needs", Needs(("kl_ref",)))
    found = diagnosed(blind)
    assert found.blind_spots[0].how_to_log == ("set beta > 0",)
    assert found.coverage.blind_families == ("leash",)


def rows_wanted(found: np.ndarray, step: np.ndarray | None = None) -> str:
    run = Run(
        "r", np.arange(1, found.size + 1) if step is None else step, {"reward_mean": found, "loss": found * 0 + 1}
    )
    run = replace(run, columns={**run.columns, "loss": np.ones(found.size)})
    return conclude(run_engine(run, ()).examine(), (), name="r").plan[0].text


def test_the_steps_still_needed_go_by_the_rows_that_have_a_reward() -> None:
    tenth = np.full(120, np.nan)
    tenth[9::10] = 0.4
    assert rows_wanted(tenth) == (
        "Let it train for 80 more steps: 12 rows have a reward, one row in 10, and 20 are needed."
    )
    third = np.full(30, np.nan)
    third[::3] = 0.4
    assert rows_wanted(third).startswith("Let it train for 30 more steps: 10 rows have a reward, one row in 3,")
    assert rows_wanted(np.full(12, 0.4)) == "Let it train for 8 more steps: 12 rows have a reward, and 20 are needed."
    assert rows_wanted(np.r_[np.full(30, np.nan), np.full(12, 0.4)]).startswith("Let it train for 8 more steps")
    assert rows_wanted(np.r_[np.full(14, np.nan), 0.4]).startswith(
        "Let it train for 285 more steps: 1 row has a reward"
    )
    sparse = rows_wanted(tenth, np.arange(5, 605, 5))
    assert sparse.startswith("Log every step: this log has one row per 5 steps; 12 rows have a reward, one row in 10,")
    rare = np.full(1500, np.nan)
    rare[::100] = 0.4
    assert rows_wanted(rare).startswith("Let it train for 500 more steps: 15 rows have a reward, one row in 100,")
