"""What counts as right, late, wrongly accused and a false alarm; the figures of small results made by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rlvitals.errors import InputError
from rlvitals.lab.damage import damage_of, end_of
from rlvitals.lab.figures import Mean, Middle, Rate, Share, share
from rlvitals.lab.html import html
from rlvitals.lab.judge import Asked, Back, Got, Told, judge
from rlvitals.lab.kept import Kept, Kind, read, write
from rlvitals.lab.page import markdown
from rlvitals.lab.score import healthy_score, layout_score, matrix, peer_scores, variant_names, variants_of
from rlvitals.lab.targets import targets
from tests.lab.results import NOW, both, heard, kept, result


def judged(made: Kept, layout: str = "own") -> Any:
    row = next(r for r in made.rows if r.kind is Kind.FAULT)
    return judge(row, layout, made.subjects[row.subject])


@pytest.mark.parametrize(
    ("causes", "watched", "got", "right", "wrong"),
    [
        (["R001", "S001"], [], Got.FIRST, True, ()),
        (["T001", "R001"], [], Got.SIGN, True, ()),  # counted, and counted apart
        (["S001", "R001"], [], Got.BESIDE, False, ()),
        (["K001"], ["R001"], Got.WATCHED, False, ("K001",)),
        (["K001", "S001"], [], Got.OTHER, False, ("K001",)),
        (["S001", "K001"], [], Got.CONSEQUENCE, False, ("K001",)),
        (["S001"], [], Got.CONSEQUENCE, False, ()),
        ([], [], Got.SILENT, False, ()),
    ],
)
def test_a_harmful_fault_is_right_when_its_root_comes_first(
    causes: list[str], watched: list[str], got: Got, right: bool, wrong: tuple[str, ...]
) -> None:
    found = judged(kept(result("broken", "much", 0, both(heard(causes, watched=watched)))))
    assert (found.asked, found.got, found.right, found.wrong) == (Asked.NAME, got, right, wrong)


@pytest.mark.parametrize(
    ("said", "told", "right"),
    [
        (heard(verdict="cannot_say"), Told.CANNOT_SAY, True),
        (heard(["T001"]), Told.NAMED, True),
        (heard(watched=["S001"], verdict="watch", blind=["R001"]), Told.WATCH_BLIND, True),
        (heard(watched=["S001"], verdict="watch", blind=["R004", "T001"]), Told.WATCH, False),  # not that of the cause
        (heard(blind=["R001"]), Told.HEALTHY_BLIND, False),  # a harmed run is not healthy
        (heard(), Told.HEALTHY, False),
        (heard(["S001"], blind=["R001"]), Told.CONSEQUENCE, False),
        (heard(["K001"], blind=["R001"]), Told.ELSE, False),
    ],
)
def test_what_a_log_hides_is_right_when_that_is_said(said: dict[str, Any], told: Told, right: bool) -> None:
    made = kept(result("broken", "much", 0, both(heard(["R001"]), said)))
    found = judged(made, "trl")
    assert (found.asked, found.told, found.right) == (Asked.HIDDEN, told, right)
    score = layout_score(made, "trl")
    assert (score.hidden, score.told) == (Share(int(right), 1), {told: 1})


@pytest.mark.parametrize(
    ("said", "end", "ever", "excused"),
    [
        (heard(), 1, 1, {}),
        (heard(["S001"]), 0, 0, {"S001": 1}),  # a consequence excuses nothing, and is listed
        (heard(["R001"]), 0, 0, {"R001": 1}),
        (heard(["K001"]), 0, 0, {}),  # something else
        (heard(alarms=[{"step": 50, "check": "R001", "action": "fix"}]), 1, 0, {"R001": 1}),
    ],
)
def test_a_harmless_fault_asks_for_no_move(said: dict[str, Any], end: int, ever: int, excused: dict[str, int]) -> None:
    made = kept(result("broken", "barely", 0, both(said)))
    found, score = judged(made), layout_score(made, "own")
    assert (found.asked, found.right) == (Asked.QUIET, bool(ever))
    assert (score.quiet, score.quiet_ever, score.excused) == (Share(end, 1), Share(ever, 1), excused)


def test_a_harmless_invariant_is_to_be_named() -> None:
    about = {**NOW, "late": NOW["late"].__class__(**{**_fields("late"), "harm": {"on": "none"}})}
    made = kept(result("late", "on", 0, both(heard(["Y001"], named={"Y001": 30}))))
    row = next(r for r in made.rows if r.kind is Kind.FAULT)
    found = judge(row, "own", about["late"])
    assert (found.asked, found.right, found.delay) == (Asked.INVARIANT, True, 10.0)


def _fields(name: str) -> dict[str, Any]:
    return {f: getattr(NOW[name], f) for f in NOW[name].__dataclass_fields__}


def test_delay_saving_and_rollback_of_a_fault_that_begins_late() -> None:
    said = heard(["Y001"], named={"K001": 5, "Y001": 30}, stop_step=30, rollback=20, rollback_kind="before onset")
    said["alarms"] = [{"step": 5, "check": "K001", "action": "fix"}, {"step": 40, "check": "K002", "action": "fix"}]
    found = judged(kept(result("late", "on", 0, both(said))))
    assert (found.delay, found.saved, found.early) == (10.0, 0.7, 1)
    assert (found.ever, found.wrong, found.first_heard) == (("K002",), (), True)
    # the control leaves it between the evaluations at 20 and 30, and only from the first broken step on
    assert (found.after_damage, found.rollback, found.at_onset) == (10.0, True, True)


@pytest.mark.parametrize(
    ("target", "kind", "back", "damage", "onset"),
    [
        (30, "before onset", Back.TARGET, False, False),  # the control leaves it after step 20
        (20, "before onset", Back.TARGET, True, False),  # before the damage, but broken from the first step on
        (0, "before onset", Back.START, True, True),
        (100, "current checkpoint", Back.CURRENT, None, None),
        (-1, "none", Back.NONE, None, None),
    ],
)
def test_a_target_against_the_damage_and_the_first_broken_step(
    target: int, kind: str, back: Back, damage: bool | None, onset: bool | None
) -> None:
    made = kept(result("broken", "much", 0, both(heard(["K001"], rollback=target, rollback_kind=kind))))
    found, score = judged(made), layout_score(made, "own")
    assert (found.back, found.rollback, found.at_onset) == (back, damage, onset)
    assert {b: n for b, n in score.backs.items() if n} == {back: 1}
    assert (score.at_onset.of, score.at_late_onset.of) == (int(onset is not None), 0)


def test_a_root_that_never_leads_is_late_for_ever() -> None:
    found = judged(kept(result("broken", "much", 0, both(heard(["K001"])))))
    assert (found.delay, found.saved) == (math.inf, 0.9)


def test_figures_of_a_layout() -> None:
    made = kept(
        result("broken", "much", 0, both(heard(["R001"]))),
        result("broken", "much", 1, both(heard(["K001"]))),
        result("broken", "a bit", 0, both(heard(["R001"]))),
        result("late", "on", 0, both(heard(["Y001"], named={"Y001": 25}, stop_step=25))),
    )
    own = layout_score(made, "own")
    assert (own.named, own.heard, own.all_seeds) == (Share(2, 3), Share(2, 3), Share(1, 2))
    assert (own.mild, own.wrong, own.ever) == (Share(1, 1), Share(1, 4), Share(1, 4))
    assert (own.delay_invariant.values, sorted(own.delay_trend.values)) == ((5.0,), [10.0, math.inf])
    assert own.saved.value == pytest.approx((0.9 + 0.9 + 0.75) / 3)
    assert own.exact == Share(2, 3)
    assert own.savable == pytest.approx((1 + 1 + 0.8) / 3)
    assert own.early == Rate(1, 20)  # the alarm of the late fault at step 10
    trl = layout_score(made, "trl")
    assert (trl.named, trl.hidden) == (Share(0, 1), Share(0, 3))
    assert matrix(made, "own")["broken", "much"] == {"R001": (1, 1), "K001": (1, 1)}


def test_every_alarm_on_a_healthy_run_or_a_control_is_false() -> None:
    noisy = heard(["K001"], watched=["R010", "E001"])
    noisy["alarms"] = [{"step": s, "check": "K001", "action": "fix"} for s in (10, 60)]
    long = {"own": heard(steps=1000), "trl": heard(steps=1000)}
    made = kept(result("hard", None, 0, both(noisy)), result("hard", None, 1, long, steps=1000))
    found = healthy_score(made, "own")
    assert (found.alarms, found.runs) == (Rate(2, 100 + 1000 + 200), Share(1, 4))
    assert (found.long_alarms, found.long_runs, found.unasked_watch) == (Rate(0, 1000), Share(0, 1), Share(1, 2))


def test_targets_say_what_was_met_and_what_could_not_be_judged() -> None:
    found = targets(kept(result("broken", "much", 0, both(heard(["R001"])))))
    assert [t.verdict for t in found] == ["met", "not run", "not run", "met", "not run", "not run", "not met"]
    assert "200 steps" in found[-1].found
    assert found[-1].found.endswith("what is not met: 200 of the 60,000 steps, 0 of the 20 runs")


def test_a_target_says_which_of_its_conditions_is_not_met() -> None:
    long = {"own": heard(steps=1000)}
    loud = {"own": heard(steps=1000, alarms=[{"step": s, "check": "K001", "action": "fix"} for s in (10, 60, 90)])}
    runs = [result("hard", None, s, long, steps=1000) for s in range(21)]
    assert targets(kept(*runs))[-1].found.endswith("; 21 such runs; what is not met: 21,200 of the 60,000 steps")
    enough = [result("hard", None, s, long, steps=1000) for s in range(60)]
    met = targets(kept(*enough))[-1]
    assert (met.verdict, met.found) == ("met", "0.00 (0 in 60,200 steps; 0.00-0.61); 60 such runs")
    noisy = targets(kept(*enough[:-3], *(result("hard", None, s, loud, steps=1000) for s in (90, 91, 92))))[-1]
    assert (noisy.verdict, noisy.found.partition("what is not met: ")[2]) == ("not met", "more than 1 per 10,000 steps")


def test_the_pages_say_how_they_count_and_what_healthy_runs_were_made() -> None:
    lengths = [1000, 1000, 1000, 300]
    made = kept(
        *(result("hard", None, i, both(heard(steps=n), heard(steps=n)), steps=n) for i, n in enumerate(lengths))
    )
    text, shown = markdown(made), html(made)
    for page in (text, shown):
        assert "3 x 1,000, 1 x 300" in page
        assert "Met and not met go by the value itself" in page
        for words in ("mild ones are left out", "Nine in ten: ", "Possible: ", "a consequence named is"):
            assert words in page
    assert "docs/scoreboard.md" not in shown


def test_a_healthy_run_without_one_of_the_layouts_costs_no_page() -> None:
    made = kept(result("hard", None, 0, both(heard())), result("hard", None, 1, {"own": heard()}))
    assert "| hard | It is noisy. | 2 x 100 |" in markdown(made)


def test_other_settings_are_scored_apart() -> None:
    other = result("broken", "much", 0, both(heard(["K001"])), case="x", more={"task": "calculator"})
    made = kept(result("broken", "much", 0, both(heard(["R001"]))), other)
    assert variants_of(made) == ["task=calculator"]
    assert (layout_score(made, "own").named, layout_score(made, "own", "task=calculator").named) == (
        Share(1, 1),
        Share(0, 1),
    )


def test_a_heading_leaves_out_the_options_of_a_task_unless_they_tell_variants_apart() -> None:
    def other(seed: int, task: str, model: str = "sorting") -> dict[str, Any]:
        settings = {"task": task, "model": model}
        return result("broken", "much", seed, both(heard(["R001"])), case=f"x{seed}", more=settings)

    spec = "dataset:path=sorting/items.jsonl,verifier=exact"
    full = f"model=sorting, task={spec}"
    assert variant_names(kept(other(0, spec))) == {full: "model=sorting, task=dataset"}
    assert variant_names(kept(other(0, spec, "a:tags=unused"))).popitem()[1] == "model=a:tags=unused, task=dataset"
    two = variant_names(kept(other(0, spec), other(1, "dataset:path=other.jsonl")))
    assert all(more == called for more, called in two.items())
    page = markdown(kept(other(0, spec)))
    own = page.split("## With model=sorting, task=dataset\n")[1].split("\n## ")[0]
    assert f"Settings: {full}." in own.replace("\\", "")
    assert "| broken | much | reward | yes |" in own  # which fault came out right there, and what it cost
    shown = html(kept(other(0, spec)))
    assert "<h2>By log layout, model=sorting, task=dataset</h2>" in shown
    assert f"Settings: {full}." in shown


def test_other_tools_are_scored_on_the_same_runs() -> None:
    def peer(verdict: str, *means: str) -> dict[str, Any]:
        return {"ruler": {"own": {"verdict": verdict, "named": "x", "means": list(means)}}}

    made = kept(
        result("broken", "much", 0, both(heard(["R001"])), peers=peer("act", "R001")),
        result("broken", "much", 1, both(heard(["R001"])), peers=peer("unreadable")),
        result("hard", None, 0, both(heard()), peers=peer("act", "K001")),
    )
    (found,) = peer_scores(made)
    assert (found.tool, found.layout, found.read) == ("ruler", "own", Share(2, 3))
    assert (found.named, found.accused) == (Share(1, 2), Share(1, 1))
    assert (found.ours_named, found.ours_accused) == (Share(2, 2), Share(0, 1))


def test_what_is_kept_survives_a_file(tmp_path: Path) -> None:
    made = kept(
        result("broken", "much", 0, both(heard(["R001"])), peers={"r": {"own": {"verdict": "act", "means": ["R001"]}}}),
        result("hard", None, 0, both(heard()), held_out=[]),
    )
    write(made, tmp_path / "lab.json")
    back = read(tmp_path / "lab.json")
    assert (back.subjects, back.made) == (made.subjects, made.made)
    assert [repr(r) for r in back.rows] == [repr(r) for r in made.rows]  # by their text: NaN is not equal to itself
    assert len((tmp_path / "lab.json").read_text(encoding="utf-8").splitlines()) == 2 + 2 + 2 + 4 + 1


@pytest.mark.parametrize("text", ["", "[]", "{", '{"made": {}}', '{"made":{},"subjects":[{"x":1}],"runs":[]}'])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="no results of the lab"):
        read(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("own", "start", "step"),
    [
        ([0.5, 0.5, 0.5, 0.5, 0.5], 1, 10),
        ([0.5, 0.5, 0.5, 0.9, 0.9], 1, -1),  # it came back
        ([0.5, 0.5, 0.9, 0.9, 0.5], 1, -1),  # one evaluation is too few
        ([0.5, 0.5, 0.9, 0.5, 0.5], 1, 20),
        ([0.9, 0.1, 0.1, 0.1, 0.1], 21, 20),  # what lies below before the fault is not its doing
        ([0.86, 0.86, 0.86, 0.86, 0.86], 1, -1),  # within two standard errors
    ],
)
def test_damage_is_what_lasts(own: list[float], start: int, step: int) -> None:
    steps = [0, 10, 20, 30, 40]
    better = [0.5, 0.5, 0.9, 0.9, 0.9]
    assert damage_of(list(zip(steps, own, strict=True)), list(zip(steps, better, strict=True)), start, 128) == step
    assert end_of(list(zip(steps, own, strict=True))) == pytest.approx(sum(own[-3:]) / 3)
    assert math.isnan(end_of([]))


def test_shares_rates_and_medians_in_words() -> None:
    assert str(share([True, False, True, True])) == "75.0% (3 of 4; 30-95%)"
    assert str(share([])) == "none to judge"
    assert str(Rate(2, 40_000)) == "0.50 (2 in 40,000 steps; 0.06-1.81)"
    assert Rate(0, 10_000).interval == pytest.approx((0.0, 3.69), abs=0.03)  # exact: 3.689
    assert str(Rate(0, 0)) == "no steps to judge"
    assert str(Middle((5.0, 10.0, math.inf, math.nan))) == (
        "10 steps (5 to never; nine in ten: never; 3 runs, never in 1)"
    )
    assert str(Middle((5.0,))) == "5 steps (one run)"
    assert str(Middle((math.inf, math.nan))) == "never (one run)"
    assert str(Mean((0.375,))) == "38% (one run)"
    assert math.isnan(Middle(()).median)
    assert str(Mean(())) == "none to judge"


def test_a_bootstrap_over_runs_covers_the_mean_and_is_the_same_every_time() -> None:
    found = Mean(tuple(i / 99 for i in range(100)))  # standard error 0.029
    assert found.interval == pytest.approx((0.443, 0.557), abs=0.01)
    assert found.interval == Mean(found.values).interval
