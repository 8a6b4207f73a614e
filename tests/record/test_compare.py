"""Comparing honestly: where two runs part, what the seeds support, what they don't, and what a resume must carry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rlvitals.cli.compare import page
from rlvitals.cli.main import app
from rlvitals.conclude import diagnose
from rlvitals.errors import InputError
from rlvitals.record import arms
from rlvitals.record.compare import compare
from rlvitals.record.names import distinct
from rlvitals.record.pair import compare as compare_pair
from rlvitals.record.resume import JUMP_Z, Answer, State, _step_change, compare_resume
from rlvitals.record.selection import choose
from rlvitals.reference.page import to_markdown
from rlvitals.schema import Evals, Run, RunConfig
from tests.cli.runs import trl_rows, write_jsonl
from tests.record.runs import healthy, with_evals
from tests.record.runs import run as made_run

runner = CliRunner()


def pair(a: Run, b: Run):  # type: ignore[no-untyped-def]
    return compare_pair(a, b, diagnose(a), diagnose(b))


def changed(found: Run, metric: str, from_step: int, by: float) -> Run:
    column = found.columns[metric].copy()
    column[found.step >= from_step] += by
    return replace(found, columns={**found.columns, metric: column})


def test_the_same_run_does_not_part() -> None:
    assert pair(healthy(), healthy()).partings == ()


def test_what_parted_first_and_when() -> None:
    a = healthy()
    b = changed(changed(a, "entropy", 40, 0.3), "reward_mean", 60, -0.3)
    found = pair(a, b)
    assert [(p.metric, p.first) for p in found.partings] == [("entropy", 40), ("reward_mean", 60)]
    assert abs(found.partings[0].lasting - 40) <= 10
    assert found.differences[0].paired


def test_noise_alone_does_not_last() -> None:
    found = pair(healthy("a"), healthy("b"))
    assert all(p.lasting < 0 for p in found.partings)
    assert not found.differences[0].paired


def test_settings_that_differ_are_listed() -> None:
    a, b = (replace(healthy(), config=RunConfig(learning_rate=lr, group_size=8)) for lr in (1e-6, 1e-5))
    assert [(s.name, s.a, s.b) for s in pair(a, b).settings] == [("learning_rate", "1e-06", "1e-05")]


def test_iqm_and_probability_of_improvement_by_their_definitions() -> None:
    scores = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert arms.iqm(scores) == 1.5
    assert arms.probability_of_improvement(scores, scores) == 0.5
    assert arms.probability_of_improvement(scores + 10, scores) == 1.0


def test_five_clear_seeds_name_a_winner_and_two_do_not() -> None:
    low, high = np.array([[0.40], [0.42], [0.41], [0.39], [0.43]]), np.array([[0.60], [0.62], [0.61], [0.59], [0.63]])
    assert arms.contrast("b", "a", {"a": low, "b": high}).winner == "b"
    few = arms.contrast("b", "a", {"a": low[:2], "b": high[:2]})
    assert few.winner == ""
    assert "at least 3" in few.because


def test_no_winner_is_named_where_seeds_overlap() -> None:
    rng = np.random.default_rng(3)
    named = sum(
        bool(arms.contrast("b", "a", {"a": rng.normal(0, 1, (5, 1)), "b": rng.normal(0, 1, (5, 1))}).winner)
        for _ in range(40)
    )
    assert named <= 8  # the percentile bootstrap of 5 seeds is narrow: about 1 in 10 under no difference


def test_seeds_needed_grows_as_the_effect_shrinks() -> None:
    base = np.array([[0.0], [1.0], [2.0]])
    assert arms.seeds_needed(base, base + 1) > arms.seeds_needed(base, base + 4) >= 3
    assert arms.seeds_needed(base[:1], base[:1]) == 0


def test_training_reward_never_names_a_winner() -> None:
    good, bad = [healthy(f"g{i}", end=0.9) for i in range(4)], [healthy(f"b{i}", end=0.4) for i in range(4)]
    found = compare({"bad": bad, "good": good})
    assert found.scored_on.startswith("training reward")
    assert found.contrasts[0].winner == ""
    scored = compare({n: [with_evals(r, [s, s + 0.01 * i]) for i, r in enumerate(runs)]
                      for n, runs, s in (("bad", bad, 0.3), ("good", good, 0.6))})  # fmt: skip
    assert scored.contrasts[0].winner == "good"
    assert scored.scored_on == "last held-out score on math"


def test_the_best_of_many_noisy_scores_overstates_itself() -> None:
    flat = Evals("math", np.arange(10) * 10, np.full(10, 0.5), np.full(10, np.nan), 100)
    found = choose(flat)
    assert found is not None
    assert found.step == 0
    assert found.bias == pytest.approx(0.077, abs=0.01)  # p 0.5, n 100, best of 10: detection by simulation
    assert found.low == pytest.approx(0.404, abs=0.005)
    assert choose(Evals("none", np.zeros(0, np.int64), np.zeros(0), np.zeros(0))) is None


def resumed(boundary: int = 61) -> tuple[Run, Run]:
    whole = healthy(rows=120)
    cut = lambda keep: replace(whole, step=whole.step[keep], columns={n: c[keep] for n, c in whole.columns.items()})  # noqa: E731
    return cut(whole.step < boundary), cut(whole.step >= boundary)


def test_an_exact_resume_is_the_same_experiment() -> None:
    found = compare_resume(*resumed())
    assert found.answer is Answer.SAME, found.headline
    assert found.boundary == 61


def test_replayed_rows_must_be_the_same_rows() -> None:
    whole = healthy(rows=120)
    _, after = resumed(51)
    before = replace(whole, step=whole.step[:60], columns={n: c[:60] for n, c in whole.columns.items()})
    assert compare_resume(before, after).answer is Answer.SAME
    other = compare_resume(before, changed(after, "reward_mean", 51, 0.01))
    assert other.answer is Answer.DIFFERENT
    assert "reward_mean" in other.headline


@pytest.mark.parametrize(
    ("metric", "by"), [("entropy", 0.5), ("grad_norm", 2.0), ("learning_rate", 1e-5), ("length_mean", 100.0)]
)
def test_a_jump_at_the_boundary_is_another_experiment(metric: str, by: float) -> None:
    before, after = resumed()
    found = compare_resume(before, changed(after, metric, 61, by))
    assert found.answer is Answer.DIFFERENT
    assert metric.replace("_", " ") in found.headline.replace("_", " ")


def test_noise_and_learning_are_no_jump() -> None:
    """Of 1,500 boundaries in healthy series, with trends and autocorrelated noise, next to none is called a jump."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(1_500):
        noise = rng.normal(0, 1, 60)
        for i in range(1, 60):
            noise[i] += 0.4 * noise[i - 1]
        y = (noise + rng.normal(0, 0.1) * np.arange(60))[20:]
        early, late, error = _step_change(np.arange(-20.0, 20.0), y, 20)
        hits += abs(late - early) > JUMP_Z * error
    assert hits <= 12  # 0.8%; a resume looks at nine metrics


def test_weights_only_restart_is_caught() -> None:
    before, after = resumed()
    restarted = replace(after, step=after.step - 60)
    assert "the step counter restarted" in compare_resume(before, restarted).headline
    fresh = after.columns["kl_ref"].copy()
    fresh[:10] = np.linspace(0, 0.001, 10)
    found = compare_resume(before, replace(after, columns={**after.columns, "kl_ref": fresh}))
    assert any(i.state is State.DIFFERENT and "reference became" in i.text for i in found.items)


def test_changed_versions_reopen_the_sampler_checks() -> None:
    before, after = resumed()
    before = replace(before, config=RunConfig(versions={"vllm": "0.11"}))
    after = replace(after, config=RunConfig(versions={"vllm": "0.12"}))
    found = compare_resume(before, after)
    assert found.answer is Answer.DIFFERENT
    assert any(line.startswith("Y001") for line in found.reopened)


def test_the_command(tmp_path: Path) -> None:
    rows = trl_rows(80)
    first = str(write_jsonl(tmp_path / "a.jsonl", rows[:40]))
    second = str(write_jsonl(tmp_path / "b.jsonl", rows[40:]))
    assert runner.invoke(app, ["compare", first]).exit_code == 2
    assert runner.invoke(app, ["compare", "--resume", first, second]).exit_code == 0
    twice = runner.invoke(app, ["compare", first, first])
    assert twice.exit_code == 0
    assert "are the same on all 40 common steps" in " ".join(twice.stdout.split())
    assert "named twice" in runner.invoke(app, ["compare", f"a={first}", f"a={second}"]).stderr
    done = runner.invoke(app, ["compare", f"one={first}", f"two={second}", "-f", "json"])
    assert done.exit_code == 0, done.stderr
    assert '"contrasts":' in done.stdout
    with pytest.raises(InputError, match="nothing to compare"):
        compare({"a": [healthy()]})


def held(found: Run, name: str, score: float, metric: str) -> Run:
    scored = with_evals(found, [score], name=name)
    return replace(scored, evals={**scored.evals, name: replace(scored.evals[name], metric=metric, items=0)})


def test_scores_of_two_scales_are_not_averaged() -> None:
    runs = {n: [held(held(held(healthy(n), "a", s, "accuracy"), "b", s + 0.2, "accuracy"), "reward", 9 * s, "reward")]
            for n, s in (("one", 0.2), ("two", 0.4))}  # fmt: skip
    found = compare(runs)
    on = ["last held-out score on a, b"] * 2 + ["last held-out score on reward"] * 2
    assert [a.scored_on for a in found.arms] == on
    assert [a.iqm.value for a in found.arms] == pytest.approx([0.3, 0.5, 1.8, 3.6])
    assert [round(c.difference.value, 6) for c in found.contrasts] == [0.2, 1.8]
    shown = to_markdown(page(found))
    assert "NaN" not in shown
    assert "unknown: one score has no standard error" in shown


def test_the_reward_leads_what_is_left_out_is_counted_and_too_few_steps_are_no_never() -> None:
    rows = 16
    columns = {f"extra_{i}": f"{i} x{rows} ~0.01" for i in range(20)}
    one, two = (made_run(n, reward_mean=f"{r} x{rows} ~0.01", **columns) for n, r in (("one", 0.7), ("two", 0.2)))
    shown = to_markdown(page(compare({"one": [one], "two": [two]})))
    table = next(line for line in shown.splitlines() if line.startswith("| reward_mean"))
    assert "| 1 | unknown |" in table
    assert shown.index("| reward_mean") < shown.index("| extra_")
    assert "And 9 more with --format json. Since when a difference lasts is judged from 20 common values on." in shown
    assert "| never |" not in shown


def test_a_difference_lasts_from_no_step_before_the_first_that_differs() -> None:
    a = healthy()
    for step in (3, 7, 40):
        found = pair(a, changed(a, "entropy", step, 0.3)).partings[0]
        assert (found.first, found.lasting) == (step, step)


def test_one_seed_gives_no_chance() -> None:
    low, high = with_evals(healthy("a"), [0.2, 0.3]), with_evals(healthy("b"), [0.5, 0.7])
    one = compare({"low": [low], "high": [high]})
    assert np.isnan(one.contrasts[0].probability_of_improvement.value)
    shown = to_markdown(page(one))
    assert "| one seed: none | one seed: none |" in shown
    two = compare({"low": [low, low], "high": [high, high]})
    assert two.contrasts[0].probability_of_improvement.value == 1.0


def test_names_are_the_ends_of_paths_that_differ() -> None:
    assert distinct(["x/fault/seed-0/run", "x/control/seed-0/run"]) == ["fault/seed-0/run", "control/seed-0/run"]
    assert distinct(["a/run", "b/run", "c/other"]) == ["a/run", "b/run", "other"]
    assert distinct(["run", "b/run/"]) == [f"{Path.cwd().name}/run", "b/run"]
    assert distinct(["a", "./a"]) == ["a", "a (2)"]
    assert distinct(["wandb://e/p/1", "wandb://e/p/2"]) == ["1", "2"]


def test_runs_in_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "fault" / "run", tmp_path / "control" / "run"
    write_jsonl(one / "log.jsonl", trl_rows(nan_from=40))
    write_jsonl(other / "log.jsonl", trl_rows())
    shown = runner.invoke(app, ["compare", str(one), str(other)]).stdout
    for line in ("control/run against fault/run", "last third, fault/run minus control/run", "findings of control/run"):
        assert line in " ".join(shown.split())
    assert "run and run" not in shown
    said = runner.invoke(app, ["compare", f"bad={one},{one}", f"good={other}"]).stdout
    assert "good against bad" in " ".join(said.split())
    resumed_by = runner.invoke(app, ["compare", "--resume", str(one), str(other)]).stdout
    assert resumed_by.startswith("Resume of fault/run by control/run")
