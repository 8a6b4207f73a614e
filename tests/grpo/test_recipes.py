"""Every row of the table: what it chooses, and the loss it gives on the shared inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlvitals.grpo.advantages import ADVANTAGES, Advantage, group_std_B
from rlvitals.grpo.aggregation import Counts
from rlvitals.grpo.kl import Estimator, KlTerm, Place
from rlvitals.grpo.losses import Clip
from rlvitals.grpo.masks import per_token_BT
from rlvitals.grpo.recipes import RECIPES, Batch, DeadGroups, Recipe, policy_loss
from tests.grpo.batches import LOSS, close, load, random_inputs, shared_inputs, tensor

ASKED = {"ch6-reinforce", "grpo", "dapo", "dr-grpo", "gspo", "cispo", "bnpo", "gdpo", "olmo3", "deepseek-v3.2",
         "magistral", "dual-clip"}  # fmt: skip
# rows whose loss is a stored vector as it is
STORED = {"grpo": "grpo_kl_k3_beta0.04", "dapo": "dapo", "dr-grpo": "dr_grpo", "gspo": "gspo", "cispo": "cispo_trl_hi5",
          "bnpo": "bnpo_trl", "dual-clip": "dual_clip_c3"}  # fmt: skip


def batch(shared: Path, recipe: Recipe) -> tuple[Batch, Counts]:
    x = shared_inputs(shared)
    adv_B = ADVANTAGES.get(recipe.advantage, group_std_B)(x.reward_B, x.group_B)
    made = Batch(x.logp_BT, x.old_BT, per_token_BT(adv_B, x.mask_BT), x.mask_BT, x.sampler_BT, x.ref_BT)
    return made, Counts.of(x.mask_BT, x.max_tokens)


def test_all_asked_rows_exist_with_a_source() -> None:
    assert set(RECIPES) >= ASKED
    assert all(recipe.source for recipe in RECIPES.values())


@pytest.mark.parametrize("name", STORED)
def test_row_gives_the_stored_loss(shared: Path, name: str) -> None:
    found = policy_loss(RECIPES[name], *batch(shared, RECIPES[name]))
    close(found.total, load(shared, "losses.json")[STORED[name]]["loss"], LOSS)
    close(found.policy + found.penalty - found.bonus, found.total.detach(), LOSS)


def test_rows_built_of_stored_parts(shared: Path) -> None:
    want = load(shared, "losses.json")
    tis = replace(RECIPES["olmo3"], advantage=Advantage.GROUP_STD, surrogate=Clip(0.2, 0.28))
    close(policy_loss(tis, *batch(shared, tis)).total, want["dapo_tis_token_c2"]["loss"], LOSS)
    v32 = replace(RECIPES["deepseek-v3.2"], advantage=Advantage.GROUP_STD)
    found = policy_loss(v32, *batch(shared, v32))
    close(found.policy, want["grpo_opsm_.1"]["loss"], LOSS)
    close(found.penalty, want["grpo_kl_unbiased_beta0.04"]["loss"] - want["grpo"]["loss"], LOSS)


def test_entropy_terms(shared: Path) -> None:
    want = load(shared, "trl_crosscheck.json")
    entropy_BT = tensor(want["entropy_bonus_0.01"]["entropy"])
    bonus, top = replace(RECIPES["dapo"], entropy_coef=0.01), replace(RECIPES["dapo"], top_entropy_share=0.2)
    for recipe, key in ((bonus, "entropy_bonus_0.01"), (top, "top_entropy_quantile_0.2")):
        made, counts = batch(shared, recipe)
        close(policy_loss(recipe, replace(made, entropy_BT=entropy_BT), counts).total, want[key]["trl_loss"], LOSS)


def test_coefficient_per_sequence_and_place_in_the_reward() -> None:
    x = random_inputs()
    recipe = RECIPES["grpo"]
    made = Batch(x.logp_BT, x.old_BT, x.old_BT * 0, x.mask_BT, logp_ref_BT=x.ref_BT)
    counts = Counts.of(x.mask_BT, x.max_tokens)
    whole = policy_loss(recipe, made, counts).penalty
    assert recipe.kl_term is not None
    same_B = recipe.kl_term.coef_B(["any"] * 8, x.old_BT)
    close(policy_loss(recipe, replace(made, kl_coef_B=same_B), counts).penalty, whole, 1e-15)
    assert policy_loss(recipe, replace(made, kl_coef_B=same_B * 0), counts).penalty == 0
    in_reward = replace(recipe, kl_term=KlTerm(Estimator.K1, Place.REWARD, 0.04))
    assert policy_loss(in_reward, made, counts).penalty == 0


def test_what_is_missing_is_named() -> None:
    x = random_inputs()
    made = Batch(x.logp_BT, x.old_BT, x.old_BT * 0, x.mask_BT)
    counts = Counts.of(x.mask_BT, x.max_tokens)
    with pytest.raises(ValueError, match="batch without logp_ref_BT: the recipe's kl_term needs it"):
        policy_loss(RECIPES["grpo"], made, counts)
    with pytest.raises(ValueError, match="batch without logp_sampler_BT: the recipe's corrections needs it"):
        policy_loss(RECIPES["olmo3"], made, counts)


def test_published_choices() -> None:
    assert RECIPES["dapo"].dead_groups is DeadGroups.RESAMPLE
    assert RECIPES["olmo3"].surrogate == Clip(0.2, 0.272)
    assert RECIPES["gdpo"].advantage is Advantage.COMPONENTS
    assert [name for name, r in RECIPES.items() if r.kl_term is not None] == ["grpo", "deepseek-v3.2"]
