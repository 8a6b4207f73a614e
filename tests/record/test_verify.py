"""Did the fix work: fixed, not fixed, too early, something else worse; each item of the runbook by its number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlvitals.cli.main import app
from rlvitals.conclude import diagnose
from rlvitals.errors import InputError
from rlvitals.ingest import load
from rlvitals.record.parts import after, before, joined, view_of
from rlvitals.record.verify import Answer, verify
from rlvitals.record.vitals import State, runbook_items
from rlvitals.schema import Run
from tests.cli.runs import trl_rows, write_jsonl
from tests.record.runs import healthy, run, tied, with_evals
from tests.series import series

runner = CliRunner()


def states(earlier: Run, later: Run) -> list[State]:
    return [item.state for item in runbook_items(view_of(later), view_of(earlier))]


def test_a_run_that_learns_after_the_fix_is_fixed() -> None:
    later = with_evals(healthy(first=101), [0.3, 0.4, 0.5, 0.6])
    found = verify(tied(), later)
    assert found.causes, "the broken half must have a cause to fix"
    assert found.answer is Answer.FIXED, found.headline
    assert {i.state for i in found.items} <= {State.HOLDS, State.NO_DATA}
    assert found.worse == ()


def test_a_run_that_stays_tied_is_not_fixed() -> None:
    found = verify(tied(), tied(first=101))
    assert found.answer is Answer.NOT_FIXED
    assert "advantage std is materially above 0 across most groups" in found.headline


def test_few_rows_are_too_early_and_it_says_how_many_more() -> None:
    found = verify(tied(), healthy(rows=12, first=101))
    assert found.answer is Answer.TOO_EARLY
    assert found.steps_needed >= 8
    assert f"{found.steps_needed} more rows" in found.headline


def test_a_new_fault_after_the_fix_is_named() -> None:
    later = healthy(first=101)
    broken = run("broken", 101, **{"nonfinite/grad_norm": "0 x50; 1 x50"})
    columns = {**later.columns, **broken.columns}
    columns["grad_norm"] = columns["grad_norm"].copy()
    columns["grad_norm"][50:] = float("nan")
    found = verify(tied(), Run("later", later.step, columns, later.trainer))
    assert found.answer is Answer.WORSE
    assert any(name.startswith("D001") for name in found.worse)


def test_nothing_to_fix_before_and_after() -> None:
    assert verify(healthy(), healthy(first=101)).answer is Answer.NOTHING_TO_FIX


@pytest.mark.parametrize(
    ("column", "text", "at"),
    [
        ("zero_variance_frac", "0.9 x100 ~0.01", 0),
        ("entropy", "0.8=>0.05 x100 ~3%", 1),
        ("entropy", "3.0 x100 ~0.01", 1),
        ("kl_ref", "0.02=>0.5 x100 ~5%", 2),
    ],
)
def test_each_item_fails_on_its_own_fault(column: str, text: str, at: int) -> None:
    good = healthy(first=101)
    bad = Run("bad", good.step, {**good.columns, **run("bad", 101, **{column: text}).columns}, good.trainer)
    assert states(healthy(), good)[at] is State.HOLDS
    assert states(healthy(), bad)[at] is State.FAILS


def test_entropy_may_fall_where_the_held_out_score_rises() -> None:
    good = healthy(first=101)
    solved = Run("solved", good.step, {**good.columns, **run("solved", 101, entropy="0.8=>0.05 x100 ~3%").columns})
    assert states(healthy(), with_evals(solved, [0.3, 0.5, 0.7, 0.9]))[1] is State.HOLDS
    assert states(healthy(), with_evals(solved, [0.3, 0.3, 0.3, 0.3]))[1] is State.FAILS
    rising = Run("random", good.step, {**good.columns, **run("random", 101, entropy="3.0 x100 ~0.01").columns})
    assert states(healthy(), with_evals(rising, [0.3, 0.5, 0.7, 0.9]))[1] is State.FAILS


def test_held_out_falling_while_reward_rises_fails() -> None:
    apart = with_evals(healthy(first=101), [0.6, 0.5, 0.4, 0.3])
    assert states(healthy(), apart)[3] is State.FAILS
    assert states(healthy(), with_evals(healthy(first=101), [0.3, 0.4]))[3] is State.TOO_EARLY
    assert states(healthy(), healthy(first=101))[3] is State.NO_DATA


def test_parts_and_their_errors() -> None:
    whole = joined(tied(rows=30), healthy(rows=30, first=31))
    assert (whole.rows, int(whole.step[-1])) == (60, 60)
    assert int(before(whole, 31).step[-1]) == 30
    assert int(after(whole, 31).step[0]) == 31
    with pytest.raises(InputError, match="nothing after it"):
        after(whole, 61)
    with pytest.raises(InputError, match="nothing before it"):
        before(whole, 1)


def test_the_command_and_its_exit_codes(tmp_path: Path) -> None:
    log = str(write_jsonl(tmp_path / "log.jsonl", trl_rows(80, nan_from=20, nan_until=40)))
    assert runner.invoke(app, ["verify", log]).exit_code == 2
    assert runner.invoke(app, ["verify", log, "--since", "500"]).exit_code == 2
    two = runner.invoke(app, ["verify", log, str(tmp_path)])
    assert two.exit_code == 2
    assert f"Say which is which: rlvitals verify --before {log} --after {tmp_path}" in two.stderr
    assert "--before RUN --after RUN" in runner.invoke(app, ["verify", log, log, log]).stderr
    done = runner.invoke(app, ["verify", log, "--since", "41", "-f", "json"])
    assert done.exit_code in (0, 1)
    assert '"answer":' in done.stdout
    fixed = str(write_jsonl(tmp_path / "fixed.jsonl", trl_rows(80)))  # started anew after the fix
    text = runner.invoke(app, ["verify", "--before", log, "--after", fixed])
    assert "Verify" in text.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["RUN"],
            "found RUN; expected RUN --since STEP, or both --before RUN and --after RUN. Say when the fix was made",
        ),
        (["RUN", "--before", "OLD"], "found RUN and --before; expected RUN --since STEP, or both --before RUN and"),
        (["RUN", "--before", "OLD"], "Try: rlvitals verify --before OLD --after RUN"),
        (["RUN", "--after", "OLD"], "Try: rlvitals verify --before RUN --after OLD"),
        (["--before", "OLD"], "Name the run after it too: rlvitals verify --before OLD --after RUN"),
        ([], "found neither;"),
        (["--before", "nowhere", "--after", "RUN"], "--before nowhere: no such file or directory"),
        (["--before", "note.txt", "--after", "RUN"], "--before note.txt: no metric rows found; found console content"),
        (["--before", "note.txt", "--after", "RUN"], "in one run: rlvitals verify RUN --since STEP"),
        (["--before", "note.txt", "--after", "note.txt"], "2 problems"),
        (["--before", "RUN", "--after", "RUN"], "--before RUN: it is the same run as --after; found the same 40 rows"),
        (
            ["--before", "RUN", "--after", "COPY"],
            "it is the same run as --after; found the same 40 rows, steps 41 to 80",
        ),
        (["--before", "RUN", "--after", "OLD"], "it is not older than --after; found steps 41 to 80; --after OLD has"),
        (["--before", "RUN", "--after", "OLD"], "The other way round: rlvitals verify --before OLD --after RUN"),
    ],
)
def test_what_is_no_earlier_run_is_refused(
    args: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = trl_rows(80)
    for name, part in (("OLD", rows[:40]), ("RUN", rows[40:]), ("COPY", rows[40:])):
        write_jsonl(tmp_path / name, part)
    (tmp_path / "note.txt").write_text("hello\n")
    monkeypatch.chdir(tmp_path)
    found = runner.invoke(app, ["verify", *args])
    assert found.exit_code == 2, found.output
    assert said in found.stderr
    assert found.stdout == ""


def copied(found: Run, scores: list[float]) -> Run:
    """Return the run with a held-out copy of its reward, evaluated as often."""
    out = with_evals(found, scores, name="copy")
    return replace(out, evals={**out.evals, "copy": replace(out.evals["copy"], metric="reward")})


def test_held_out_accuracy_is_judged_and_not_a_copy_of_the_reward() -> None:
    paid = [0.3, 0.5, 0.7, 0.9]
    good = healthy(first=101)
    fallen = copied(with_evals(good, [0.6, 0.5, 0.4, 0.3]), paid)
    assert states(healthy(), fallen)[3] is State.FAILS
    assert states(healthy(), copied(good, paid))[3] is State.HOLDS, "where there is nothing else"
    solved = Run("solved", good.step, {**good.columns, **run("solved", 101, entropy="0.8=>0.05 x100 ~3%").columns})
    assert states(healthy(), copied(with_evals(solved, [0.3] * 4), paid))[1] is State.FAILS


def test_held_out_that_stays_below_its_best_before_the_fix_fails() -> None:
    early = with_evals(healthy(), [0.3, 0.5, 0.6])
    flat = healthy(first=101, start=0.6, end=0.6)
    assert states(early, with_evals(flat, [0.1, 0.1, 0.1]))[3] is State.FAILS
    assert states(early, with_evals(flat, [0.6, 0.59, 0.61]))[3] is State.HOLDS
    assert states(early, with_evals(flat, [0.1, 0.2, 0.4]))[3] is State.HOLDS, "it recovers"
    anew = with_evals(healthy(start=0.6, end=0.6), [0.1, 0.1, 0.1])
    assert states(early, anew)[3] is State.HOLDS, "started anew, it has not got so far yet"


def test_the_example_run_is_judged_by_its_held_out_accuracy() -> None:
    whole = load(Path("src/rlvitals/examples/trl_run"))
    found = verify(before(whole, 100), after(whole, 100))
    assert found.answer is Answer.NOT_FIXED
    failed = {i.name for i in found.items if i.state is State.FAILS}
    assert "the held-out score moves with the training reward" in failed
    assert "entropy no longer falls sharply and lies in this model's own band" in failed
    assert [a.split()[0] for a in found.active] == ["R003", "L004"]
    assert found.worse == (), "L004 began before step 100"


def drifting() -> Run:
    """A run whose KL to the reference rose early and stays high: no part after it shows the rise."""
    good = healthy(rows=200)
    kl = run("drifting", 1, kl_ref="0.002=>2.5 x40 ~5%; 2.5 x160 ~5%").columns
    spiked = good.columns["grad_norm"].copy()
    spiked[[130, 150]] = 100.0  # the second signal, without which it is only watched
    return Run("drifting", good.step, {**good.columns, **kl, "grad_norm": spiked}, good.trainer)


@pytest.mark.parametrize("since", [15, 100])
def test_a_cause_of_the_whole_run_is_never_nothing_to_fix(since: int) -> None:
    whole = drifting()
    assert any(c.asks_for_a_move for c in diagnose(whole).causes), "it must ask for a fix"
    found = verify(before(whole, since), after(whole, since))
    assert found.answer in (Answer.NOT_FIXED, Answer.WORSE), found.headline
    assert "K001 kl-runaway" in found.headline


def test_what_could_not_be_looked_at_before_is_not_new() -> None:
    good = healthy(rows=40)
    unread = run("unread", 1, parse_failure_frac="0.8 x40 ~0.01").columns
    whole = Run("unread", good.step, {**good.columns, **unread}, good.trainer)
    early = verify(before(whole, 10).until(9), after(whole, 10).until(22))
    assert (early.answer, early.worse) == (Answer.TOO_EARLY, ())
    assert any(a.startswith("R004") for a in early.active)
    later = verify(before(whole, 10), after(whole, 10))
    assert (later.answer, later.worse) == (Answer.NOT_FIXED, ())


def test_what_was_to_be_watched_before_and_still_is_is_named() -> None:
    good = healthy(rows=200, start=0.3, end=0.3)
    found = verify(good.until(100), after(good, 101))
    assert found.answer is Answer.NOTHING_TO_FIX
    assert found.watch, found.headline
    assert f"to watch before and still there: {', '.join(found.watch)}" in found.headline


def test_too_little_before_the_step_is_said() -> None:
    good = healthy()
    found = verify(good.until(5), after(good, 6))
    assert found.answer is Answer.NOTHING_TO_FIX
    assert found.headline.startswith("Too little was seen before that step to ask for a fix (5 rows)")


@pytest.mark.parametrize(
    ("scores", "items", "state"),
    [
        ([0.40, 0.392, 0.409], 0, State.FAILS),  # three scores whose noise nobody knows
        ([0.2, 0.5, 0.9], 0, State.FAILS),
        ([0.2, 0.5, 0.9], 500, State.HOLDS),
        ([0.2013, 0.3027, 0.4011, 0.5033, 0.6007, 0.7021, 0.8003, 0.8119, 0.8207], 0, State.HOLDS),
        ([0.2, 0.8, 0.81, 0.82, 0.4, 0.41], 500, State.FAILS),  # above its start, and far below its best
    ],
)
def test_only_a_held_out_score_that_surely_rises_excuses(scores: list[float], items: int, state: State) -> None:
    good = healthy(first=101)
    bad = run("bad", 101, entropy="0.8=>0.05 x100 ~3%", kl_ref="0.02=>0.5 x100 ~5%")
    later = with_evals(Run("bad", good.step, {**good.columns, **bad.columns}, good.trainer), scores, items=items)
    assert states(healthy(), later)[1:3] == [state, state]


def test_few_scores_of_unknown_error_accuse_nothing_either() -> None:
    good = healthy(first=101)
    assert states(healthy(), with_evals(good, [0.41, 0.40, 0.39], items=0))[3] is State.TOO_EARLY
    assert states(healthy(), with_evals(good, [0.39, 0.40, 0.41], items=0))[3] is State.HOLDS
    flat = [0.4013, 0.4127, 0.3911, 0.4003, 0.4217, 0.3809]
    early = with_evals(healthy(), flat, items=0)
    assert states(early, with_evals(good, flat[::-1], items=0))[3] is State.HOLDS
    assert states(early, with_evals(good, [0.1013, 0.1127, 0.1011, 0.1103, 0.1017, 0.1009], items=0))[3] is State.FAILS
    risen = with_evals(healthy(), [0.2, 0.4, 0.5, 0.6, 0.6], items=0)
    assert states(risen, with_evals(good, [0.0] * 5, items=0))[3] is State.FAILS, "all below all before"


@pytest.mark.parametrize(
    ("ties", "right", "std", "state"),
    [
        ("0.12", "0.05", "0.08", State.FAILS),  # ties never were the failure
        ("0.8", "0.78", "0.2", State.HOLDS),  # a fifth of the groups has signal, a fifth of the spread is there
        ("0.8", "0.78", "0.02", State.FAILS),
        ("0.8", "0.1", "0.2", State.FAILS),  # tied, and wrong
    ],
)
def test_solved_groups_excuse_a_small_spread_only_as_far_as_they_explain_it(
    ties: str, right: str, std: str, state: State
) -> None:
    good = healthy(first=101)
    now = run("x", 101, zero_variance_frac=f"{ties} x100", all_right_frac=f"{right} x100", advantage_std=f"{std} x100")
    later = Run("x", good.step, {**good.columns, **now.columns}, good.trainer)
    assert states(healthy(), later)[0] is state
    broken = healthy()
    wild = Run("wild", broken.step, {**broken.columns, "advantage_std": broken.columns["advantage_std"] * 4000})
    assert states(wild, good)[0] is State.HOLDS, "no scaled advantages are so large: no start to compare with"


def fallen(after: str, first: int = 101) -> Run:
    """A run whose reward fell from .7 to .02 within a step (first = 1), or what came after that was mended."""
    good = healthy(rows=100, first=first)
    return Run("r", good.step, {**good.columns, "reward_mean": series(after, seed=f"fallen/{first}")}, good.trainer)


@pytest.mark.parametrize(
    ("after", "answer"),
    [
        ("0.66 x100 ~0.01", Answer.FIXED),
        ("0.31 x100 ~0.01", Answer.NOT_FIXED),
        ("0.05->0.35 x100 ~0.01", Answer.TOO_EARLY),
        ("0.66 x50 ~0.01; 0.3 x50 ~0.01", Answer.NOT_FIXED),
    ],
)
def test_back_at_the_earlier_level_is_held_against_that_level(after: str, answer: Answer) -> None:
    earlier = fallen("0.5->0.7 x60 ~0.01; 0.02 x40 ~0.01", first=1)
    assert any(c.id == "R002" for c in diagnose(earlier).causes)
    found = verify(earlier, fallen(after))
    assert found.answer is answer, found.headline
    if answer is Answer.TOO_EARLY:
        assert 30 <= found.steps_needed <= 120


def test_a_run_started_anew_is_held_against_the_steps_that_it_has_reached() -> None:
    earlier = fallen("0.1->0.7 x60 ~0.01; 0.02 x40 ~0.01", first=1)
    anew = fallen("0.1->0.7 x60 ~0.01; 0.7 x40 ~0.01", first=1).until(30)
    back = next(i for i in verify(earlier, anew).items if "back near" in i.name)
    assert (back.state, "up to step 30" in back.text) == (State.HOLDS, True)


def test_low_and_level_entropy_of_a_run_that_learned_is_open_without_a_held_out_score() -> None:
    good = healthy(first=101)
    low = Run("low", good.step, {**good.columns, **run("low", 101, entropy="0.3->0.25 x100 ~0.005").columns})
    item = runbook_items(view_of(low), view_of(healthy()))[1]
    assert item.state is State.NO_DATA
    assert item.text.endswith("no held-out score of known error tells whether tasks are solved by it")
    assert states(healthy(), with_evals(low, [0.3, 0.5, 0.7, 0.9]))[1] is State.HOLDS
    assert states(healthy(), with_evals(low, [0.5, 0.5, 0.5, 0.5]))[1] is State.FAILS
    unpaid = Run("unpaid", low.step, {**low.columns, **run("unpaid", 101, reward_mean="0.3 x100 ~0.02").columns})
    assert states(healthy(), unpaid)[1] is State.FAILS


def test_a_lower_bound_of_ties_says_nothing_of_few_ties() -> None:
    good = healthy(first=101)
    left = {k: v for k, v in good.columns.items() if k not in ("advantage_std", "zero_variance_frac")}
    spread = run("largest", 101, advantage_max="1.5 x100 ~0.1", advantage_min="-1.5 x100 ~0.1").columns
    assert states(healthy(), Run("largest", good.step, {**left, **spread}, good.trainer))[0] is State.NO_DATA


def test_a_divergence_that_scatters_says_that_it_has_no_trend() -> None:
    good = healthy(first=101)
    noisy = run("noisy", 101, kl_ref="0.2 x15; 0.03 x35; 0.06 x50 ~5%").columns
    later = Run("noisy", good.step, {**good.columns, **noisy}, good.trainer)
    item = runbook_items(view_of(later), view_of(healthy()))[2]
    assert item.state is State.HOLDS
    assert item.text.endswith("that is no steady rise: these rows have no trend")
