"""A step without a scoring pass: the same update, the same rollout files, and no ratio where none was measured."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import torch

import rlvitals
from rlvitals.check import Clear, NoData
from rlvitals.errors import InputError
from rlvitals.grpo.config import Config
from rlvitals.grpo.distributed import Parallel
from rlvitals.grpo.kl import Estimator, KlTerm, Place
from rlvitals.grpo.loop import train
from rlvitals.grpo.packing import Packed
from rlvitals.grpo.presets import recipe_of, score_every
from rlvitals.grpo.recipes import RECIPES, Loss, Recipe, policy_loss
from rlvitals.grpo.score import Pending, Policy, Scores, score
from rlvitals.grpo.update import LossOf, StepData, Trainer, UpdateStats, live_rows, update
from tests.grpo.loops import PARTS, config, one_thread, rows, untrained
from tests.grpo.test_loop_resume import Stop, stop_after
from tests.grpo.test_loop_update import NAMES, step_data

MEASURED_WITH_A_PASS = ("ratio", "clip", "first_ratio", "kl_old_new", "extra/ratio")
"""Starts of the names that compare two passes over the same rows."""


def ran(folder: Path, recipe: str, **changes: Any) -> list[dict[str, float]]:
    one_thread()
    settings = {"epochs": 1, "minibatches": 1, "eval_every": 0, "steps": 2, "save_every": 1, **changes}
    train(config(recipe=recipe, **settings), PARTS, folder=folder)
    return rows(folder)


def pending(policy: Policy, data: StepData, recipe: Recipe) -> StepData:
    """Return the data of the same step without its scoring pass: NaN at all that the update sees."""
    live = live_rows(recipe, data.adv_BT, data.rows)
    seen_BT = torch.zeros_like(data.packed.mask_BT)
    seen_BT[live] = data.packed.mask_BT[live]
    entropy_BT = score(policy, data.packed, 1.0, 10**6).entropy_BT
    scores = Scores(*(torch.where(seen_BT, torch.nan, x) for x in (data.logp_old_BT, entropy_BT)))
    return replace(data, logp_old_BT=scores.logp_BT, pending=Pending(scores, data.packed.mask_BT & ~seen_BT))


@pytest.mark.parametrize("micro_tokens", [10**6, 15])
@pytest.mark.parametrize("penalised", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_the_update_is_that_of_a_scored_step(name: str, penalised: bool, micro_tokens: int) -> None:
    """On rows of unequal length, two of them without advantage."""
    one_thread()
    recipe = replace(RECIPES[name], kl_term=KlTerm(Estimator.RATIO_K3, Place.LOSS, 0.1) if penalised else None)
    settings = config(micro_tokens=micro_tokens, minibatches=1, epochs=1, max_tokens=16, lr=1.0)
    found: list[tuple[torch.Tensor, UpdateStats, StepData]] = []
    for scored in (True, False):
        policy = Policy(untrained(settings).model)
        data = step_data(policy) if scored else pending(policy, step_data(policy), recipe)
        trainer = Trainer(policy, torch.optim.SGD(policy.parameters(), lr=1.0), settings, Parallel())
        stats = update(trainer, recipe, data, 1, policy_loss)
        found.append((torch.cat([p.detach().flatten() for p in policy.parameters()]), stats, data))
    (with_pass, measured, before), (without, unmeasured, after) = found
    torch.testing.assert_close(without, with_pass, atol=1e-7, rtol=1e-6)
    assert unmeasured.losses[0] == pytest.approx(measured.losses[0], rel=1e-6, abs=1e-7)
    assert unmeasured.grad_norms == pytest.approx(measured.grad_norms, rel=1e-6)
    assert (measured.first.count > 0, unmeasured.first.count, unmeasured.every.count) == (True, 0, 0)
    assert after.pending is not None
    assert bool((after.pending.known_BT == after.packed.mask_BT).all())
    torch.testing.assert_close(after.logp_old_BT, before.logp_old_BT, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("grpo", {}),  # a penalty in the loss: the update sees every row
        ("dr-grpo", {"micro_tokens": 60}),  # rows without advantage are scored apart
        ("default", {"top_p": 0.8}),  # corrections, dropped tries, and answers left out of the loss
    ],
)
def test_a_run_that_scores_every_other_step_logs_the_same(recipe: str, changes: dict[str, Any], tmp_path: Path) -> None:
    every = ran(tmp_path / "every", recipe, **changes)
    other = ran(tmp_path / "other", f"{recipe}:score_every=2", **changes)
    assert other[0] == every[0]
    first, second = every[1], other[1]
    assert 0 < first["zero_variance_frac"] < 1
    gone = set(first) - set(second)
    assert gone == {n for n in first if n.startswith(MEASURED_WITH_A_PASS)}
    assert {"first_ratio_error", "ratio_mean", "clip_frac", "kl_old_new"} <= gone
    assert second == pytest.approx({n: v for n, v in first.items() if n not in gone}, rel=1e-5, abs=1e-6)
    columns = '"step", "group", "index", completion, trainer_logp, entropy_mean'
    read = [
        duckdb.sql(f"SELECT {columns} FROM '{tmp_path / n}/rollouts/*.parquet' ORDER BY 1, 2, 3").fetchall()
        for n in ("every", "other")
    ]
    assert len(read[0]) == len(read[1]) >= 32
    for a, b in zip(*read, strict=True):
        assert (b[:4], b[4] is None) == (a[:4], a[4] is None)
        assert b[4] is None or b[4] == pytest.approx(a[4], abs=1e-5)
        assert b[5] is None or b[5] == pytest.approx(a[5], abs=1e-5)


def test_a_run_that_broke_off_between_two_scoring_passes_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings = config(recipe="default:score_every=3", epochs=1, minibatches=1)
    one_thread()
    train(settings, PARTS, folder=tmp_path / "whole")
    with pytest.raises(Stop):
        train(settings, PARTS, folder=tmp_path / "run", watch=[stop_after(5)])  # goes on from step 4
    train(settings, PARTS, folder=tmp_path / "run", resume=True)
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")
    name = "checkpoints/checkpoint-6/model.safetensors"
    assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_only_the_rows_that_the_update_does_not_see_are_scored(tmp_path: Path) -> None:
    seen: list[int] = []

    def counted(policy: Policy, packed: Packed, temperature: float, micro_tokens: int) -> Scores:
        seen.append(packed.rows)
        return score(policy, packed, temperature, micro_tokens)

    one_thread()
    settings = config(recipe="dr-grpo:score_every=2", epochs=1, minibatches=1, steps=3, eval_every=0)
    train(settings, replace(PARTS, score=counted), folder=tmp_path / "run")
    tied = [r["zero_variance_frac"] for r in rows(tmp_path / "run")]
    assert seen == [16, round(16 * tied[1]), 16]
    assert 0 < tied[1] < 1


def test_what_a_replaced_update_did_not_see_is_missing_and_not_a_number(tmp_path: Path) -> None:
    """A lab that takes tokens from the loss inside the update leaves those answers unscored."""

    def halved(trainer: Trainer, recipe: Recipe, data: StepData, step: int, loss_of: LossOf) -> UpdateStats:
        mask_BT = data.packed.mask_BT.clone()
        mask_BT[::2] = False
        return update(trainer, recipe, replace(data, packed=replace(data.packed, mask_BT=mask_BT)), step, loss_of)

    one_thread()
    settings = config(recipe="grpo:score_every=2", epochs=1, minibatches=1, steps=2, eval_every=0)
    train(settings, replace(PARTS, update=halved), folder=tmp_path / "run")
    assert all(math.isfinite(v) for v in rows(tmp_path / "run")[1].values())
    query = f"SELECT \"step\", count(trainer_logp), count(*) FROM '{tmp_path / 'run'}/rollouts/*.parquet' GROUP BY 1"
    assert sorted(duckdb.sql(query).fetchall()) == [(1, 16, 16), (2, 8, 16)]


@pytest.mark.parametrize(("every", "missing"), [(3, False), (100, True)])
def test_the_check_of_the_first_ratio_judges_measured_steps_alone(every: int, missing: bool, tmp_path: Path) -> None:
    found = ran(tmp_path / "run", f"grpo:score_every={every}", steps=9)
    assert [r["step"] for r in found if "first_ratio_error" in r] == list(range(1, 10, every))
    outcome = rlvitals.diagnose(rlvitals.load(tmp_path / "run")).outcomes["U005"]
    assert isinstance(outcome, NoData if missing else Clear)


def test_a_stale_old_policy_stays_one_in_steps_without_a_pass() -> None:
    """The fault that puts scores of its own in the place of the old policy is not mended by the forward pass."""
    settings = config(minibatches=1, epochs=1, micro_tokens=10**6)
    policy = Policy(untrained(settings).model)
    recipe = RECIPES["dr-grpo"]
    data = pending(policy, step_data(policy), recipe)
    stale_BT = step_data(policy).logp_old_BT - 0.25 * data.packed.mask_BT
    seen: list[float] = []

    def spy(recipe: Recipe, batch: Any, counts: Any) -> Loss:
        seen.append(float((batch.logp_BT.detach() - batch.logp_old_BT)[batch.mask_BT].mean()))
        return policy_loss(recipe, batch, counts)

    trainer = Trainer(policy, torch.optim.SGD(policy.parameters(), lr=0.0), settings, Parallel())
    update(trainer, recipe, replace(data, logp_old_BT=stale_BT), 1, spy)
    assert seen == pytest.approx([0.25], abs=1e-4)


def test_the_interval_is_an_option_of_the_recipe() -> None:
    assert score_every(Config()) == score_every(Config(recipe="grpo:kl=k3")) == 1
    assert score_every(Config(recipe="dapo:score_every=7")) == 7
    assert recipe_of(Config(recipe="dapo:score_every=7")) == RECIPES["dapo"]
    for wrong in ("0", "-1", "2.5", "often", "", "1e3", "9" * 5000):
        with pytest.raises(InputError, match=r"not a value of the option score_every.*a whole number of steps"):
            score_every(Config(recipe=f"grpo:score_every={wrong}"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"minibatches": 2}, r"several updates.*found score_every=2 with epochs=1 and minibatches=2: 2 updates"),
        ({"epochs": 3}, r"several updates.*epochs=3 and minibatches=1: 3 updates.*--set epochs=1"),
        ({"recipe": "grpo:kl_in=reward,score_every=2"}, r"needs the scores before the advantages.*kl_in=loss"),
    ],
)
def test_it_is_refused_where_the_old_policy_is_not_that_of_the_update(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    settings = {"recipe": "grpo:score_every=2", "epochs": 1, "minibatches": 1, **changes}
    with pytest.raises(InputError, match=said):
        train(config(**settings), PARTS, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
