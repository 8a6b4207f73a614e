"""A KL coefficient per task family, from the command line: `--recipe grpo:kl_by=math=0+code=0.02`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import torch

import rlvitals
from rlvitals.check import Fired
from rlvitals.errors import InputError
from rlvitals.grpo.config import Config
from rlvitals.grpo.kl import Estimator, KlTerm, Place
from rlvitals.grpo.loop import train
from rlvitals.grpo.measure import update_row
from rlvitals.grpo.presets import kl_by, recipe_of
from rlvitals.grpo.tasks.base import Task
from rlvitals.grpo.update import UpdateStats
from tests.grpo.loops import PARTS, config, one_thread, rows, sevens


def by_family(recipe: str, **more: Any) -> tuple[float, dict[str, float]]:
    term = recipe_of(Config(recipe=recipe, **more)).kl_term
    assert term is not None
    return term.coef, dict(term.by_family)


def test_families_get_coefficients_of_their_own() -> None:
    assert by_family("grpo:kl_by=math=0+code=0.02") == (0.04, {"math": 0.0, "code": 0.02})
    assert by_family("grpo:kl_by=a=b=1e-3") == (0.04, {"a=b": 1e-3})
    found = recipe_of(Config(recipe="dapo:kl=k1,kl_in=reward,kl_by=math=0.5", kl_coef=0.0)).kl_term
    assert found == KlTerm(Estimator.K1, Place.REWARD, 0.0, {"math": 0.5})
    assert kl_by(Config(recipe="grpo")) == {}


def test_kl_coef_changes_the_base_alone() -> None:
    assert by_family("deepseek-v3.2") == (0.04, {"math": 0.0})
    assert by_family("deepseek-v3.2", kl_coef=0.1) == (0.1, {"math": 0.0})
    assert by_family("deepseek-v3.2:kl_by=code=0.2", kl_coef=0.1) == (0.1, {"math": 0.0, "code": 0.2})
    assert by_family("deepseek-v3.2:kl_by=math=0.3") == (0.04, {"math": 0.3})


def test_coefficients_reach_each_sequence() -> None:
    term = recipe_of(Config(recipe="grpo:kl_by=math=0+code=0.02")).kl_term
    assert term is not None
    assert term.coef_B(["math", "code", "other", ""], torch.zeros(1)).tolist() == pytest.approx([0, 0.02, 0.04, 0.04])


@pytest.mark.parametrize(
    "value", ["", "math", "math=", "=1", "math=-1", "math=nan", "math=x", "math=1+math=2", "a=1e7"]
)
def test_what_is_no_coefficient_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="not a value of the option kl_by") as caught:
        recipe_of(Config(recipe=f"grpo:kl_by={value}"))
    assert "kl_by=FAMILY=COEF+FAMILY=COEF" in str(caught.value)


def test_a_recipe_without_a_term_needs_a_base() -> None:
    with pytest.raises(
        InputError, match=r"dapo has none of its own: try --set kl_coef=0.01, or =0 for families without"
    ):
        recipe_of(Config(recipe="dapo:kl_by=math=0.1"))


def two(settings: Config, tokenizer: Any) -> Task:
    task = sevens(settings, tokenizer)
    return replace(task, train=tuple(replace(i, family=("odd", "even")[n % 2]) for n, i in enumerate(task.train)))


def test_a_family_that_the_task_does_not_have_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    settings = config(recipe="grpo:kl_by=evn=0+odd=0.1")
    with pytest.raises(InputError) as caught:
        train(settings, replace(PARTS, task=two), folder=tmp_path / "run")
    assert str(caught.value) == (
        "--recipe kl_by: no such family in the task; found 'evn'; expected even, odd. Nearest: even"
    )
    bare = replace(
        PARTS, task=lambda c, t: replace(two(c, t), train=tuple(replace(i, family="") for i in two(c, t).train))
    )
    with pytest.raises(InputError, match="this one has none"):
        train(settings, bare, folder=tmp_path / "run")
    with pytest.raises(InputError, match="a KL term without a reference"):
        train(config(recipe="grpo:kl_by=odd=0.1", kl_coef=0.0, reference_reset=-1), replace(PARTS, task=two),
              folder=tmp_path / "run")  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_it_changes_the_run_and_a_recipes_own_families_may_be_missing(tmp_path: Path) -> None:
    one_thread()
    parts = replace(PARTS, task=two)
    logged = []
    for name, recipe in (("a", "grpo"), ("b", "grpo:kl_by=odd=0.04+even=0.04"), ("c", "grpo:kl_by=odd=5")):
        train(config(recipe=recipe, steps=3), parts, folder=tmp_path / name)
        logged.append(rows(tmp_path / name))
    assert logged[0] == logged[1]
    assert logged[0][-1]["kl_loss"] != logged[2][-1]["kl_loss"]
    train(config(recipe="deepseek-v3.2", steps=1), parts, folder=tmp_path / "d")


@pytest.mark.parametrize("place", ["loss", "reward"])
def test_what_acts_is_what_is_said(place: str, tmp_path: Path) -> None:
    """One family is penalised and the base is 0; in the mirror case the base is not, and every family is free."""
    one_thread()
    for name, base, options in (("some", 0.0, "odd=0.5"), ("none", 0.1, "odd=0+even=0")):
        settings = config(recipe=f"grpo:kl_in={place},kl=k3,kl_by={options}", kl_coef=base, steps=3, eval_every=0)
        train(settings, replace(PARTS, task=two), folder=tmp_path / name)
        facts = json.loads((tmp_path / name / "config.json").read_text())["run"]
        logged = rows(tmp_path / name)
        assert facts["kl_coef"] == (0.5 if name == "some" else 0.0)
        for row in logged:
            families = [r[0] for r in duckdb.sql(
                f"SELECT family FROM '{tmp_path / name}/rollouts/*.parquet' WHERE \"step\" = {row['step']}"
            ).fetchall()]  # fmt: skip
            share = families.count("odd") / len(families)
            assert row["kl_coef"] == pytest.approx(share * 0.5 if name == "some" else 0.0, abs=1e-12)
            assert ("kl_loss" in row) is (place == "loss")
        assert any(0.0 < r["kl_coef"] < 0.5 for r in logged) is (name == "some")
        fired = isinstance(rlvitals.diagnose(rlvitals.load(tmp_path / name)).outcomes["C005"], Fired)
        assert fired is (name == "none")


def test_with_exceptions_and_no_answer_in_the_loss_there_is_no_coefficient() -> None:
    term = KlTerm(Estimator.K3, Place.LOSS, 0.1, {"math": 0.0})
    assert "kl_coef" not in update_row(UpdateStats(), term, [], clips=False)
    assert update_row(UpdateStats(), term, ["math", "code"], clips=False)["kl_coef"] == pytest.approx(0.05)
    plain = KlTerm(Estimator.K3, Place.LOSS, 0.1)
    assert update_row(UpdateStats(), plain, [], clips=False)["kl_coef"] == 0.1
    assert update_row(UpdateStats(), term, ["code"] * 7, clips=False)["kl_coef"] == 0.1
