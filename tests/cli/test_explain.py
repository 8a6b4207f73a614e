"""`rlvitals explain`: checks, metrics, settings, any trainer's key, and the nearest names for the unknown."""

from __future__ import annotations

import dataclasses

import pytest
from typer.testing import CliRunner

from rlvitals.checks import CHECKS
from rlvitals.cli.main import app
from rlvitals.cli.show import render
from rlvitals.errors import InputError
from rlvitals.false_alarms import FALSE_ALARMS, about
from rlvitals.metrics import METRICS, lookup
from rlvitals.reference.fields import FIELDS
from rlvitals.reference.keys import Meaning, meanings
from rlvitals.reference.page import Page, Table, to_markdown
from rlvitals.reference.topics import pages
from rlvitals.schema import RunConfig

runner = CliRunner()


def text(topic: str | None) -> str:
    return "\n".join(to_markdown(p) for p in pages(topic))


def test_without_argument_it_lists_every_check_and_metric() -> None:
    shown = text(None)
    assert all(c.id in shown and c.name in shown for c in CHECKS)
    assert all(f"`{m.name}`" in shown for m in METRICS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.id)
def test_a_check_is_explained_in_full_by_id_and_by_name(check) -> None:  # type: ignore[no-untyped-def]
    (page,) = pages(check.id.lower())
    assert pages(check.name) == (page,)
    shown = to_markdown(page).replace("\\*", "*").replace("&lt;", "<").replace("\\|", "|")
    wanted = [check.fault, check.why, *(t.reference for t in check.thresholds), *(t.name for t in check.thresholds)]
    for plan in check.plans.values():
        wanted += [r.text.rstrip(".") for r in plan.remedies] + [v.text.rstrip(".") for v in plan.verify]
    assert [w for w in wanted if w not in shown] == []


def test_remedies_name_the_knob_of_every_trainer() -> None:
    shown = text("D001")
    assert "`learning_rate` (TRL, unsloth, ms-swift" in shown
    assert "`actor_rollout_ref.actor.optim.lr` (verl, agent-lightning)" in shown


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_every_metric_says_what_is_normal(metric) -> None:  # type: ignore[no-untyped-def]
    shown = text(metric.name)
    assert "Is this normal?" in shown
    assert metric.measures.split("*")[0] in shown


def test_a_key_of_two_meanings_shows_both() -> None:
    found = {(m.trainer, m.metric, m.direction) for m in meanings("kl")}
    assert ("TRL", "kl_ref", "current policy to reference") in found
    assert ("TRL", "kl_old_new", "old policy to new policy") in found


def test_ppo_kl_is_not_the_distance_to_the_reference() -> None:
    found = meanings("actor/ppo_kl")
    assert found[0] == Meaning(
        "verl", "kl_old_new", "k1", "old policy to new policy", note="not the distance to the reference"
    )
    assert {(m.metric, m.direction) for m in found} == {("kl_old_new", "old policy to new policy")}
    assert "knows nothing of the reference" in text("actor/ppo_kl")


def test_a_truncation_key_is_never_called_clipping() -> None:
    assert {m.metric for m in meanings("completions/clipped_ratio")} == {"truncated_frac"}
    assert "another stop token" in text("completions/clipped_ratio")


def test_a_key_of_an_unknown_trainer_is_marked_as_guessed() -> None:
    assert "(guessed)" in text("mean_episode_reward") or "(guessed)" in text("avg_reward")


def test_a_setting_of_a_trainer_leads_to_the_canonical_one() -> None:
    shown = text("epsilon_high")
    assert shown.startswith("# clip_high")
    assert "actor_rollout_ref.actor.clip_ratio_high" in shown


def test_unknown_names_get_the_nearest_and_exit_code_2() -> None:
    with pytest.raises(InputError, match=r"Nearest: .*zero_variance_frac"):
        pages("zero_varianc_frac")
    result = runner.invoke(app, ["explain", "zero_varianc_frac"])
    assert result.exit_code == 2
    assert result.stdout == ""


def test_every_setting_is_described() -> None:
    assert set(FIELDS) == {f.name for f in dataclasses.fields(RunConfig)} - {"sources"}


def test_the_forty_false_alarms_are_whole_and_name_what_exists() -> None:
    assert [r.number for r in FALSE_ALARMS] == list(range(1, 41))
    assert [m for r in FALSE_ALARMS for m in r.metrics if lookup(m) is None] == []
    ids = {c.id for c in CHECKS}
    assert [(r.number, c) for r in FALSE_ALARMS for c in r.checks if c not in ids] == []
    assert [r.number for r in FALSE_ALARMS if not (r.reading and r.normal and r.fault and r.source)] == []
    assert {r.number for r in about(["reward_part_std/format"])} == {18}
    assert "40. Rollouts are sampled" in text("false-alarms")


@pytest.mark.parametrize("width", [80, 60])
def test_pages_fit_the_terminal(width: int) -> None:
    for topic in ("D001", "kl", "clip_frac", "epsilon_high", "false-alarms", None):
        for page in pages(topic):
            shown = render(page, width)
            assert max(map(len, shown.splitlines())) <= width
            assert "\x1b" not in shown


def test_control_characters_never_reach_the_terminal() -> None:
    page = Page("run\x1b[31m", "lead\x07", (dataclasses.replace(pages("kl")[0].sections[0], title="t\x1b]0;x"),))
    table = Table(("key", "v"), (("`a\x1b[2Jb`", "1"),))
    hostile = dataclasses.replace(page, sections=(dataclasses.replace(page.sections[0], blocks=(table,)),))
    assert not {"\x1b", "\x07"} & set(render(hostile, 80))
