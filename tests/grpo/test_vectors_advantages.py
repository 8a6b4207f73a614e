"""Every number of the shared advantage vectors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlvitals.grpo import advantages as adv
from rlvitals.grpo.kl import k1_BT, token_reward_BT
from tests.grpo.batches import ADV, close, load, shared_inputs, tensor

SIMPLE = {
    "grpo_sample_std_eps1e4": adv.group_std_B,
    "grpo_pop_std_eps1e4": lambda r, g: adv.group_std_B(r, g, ddof=0),
    "grpo_sample_std_eps1e6": lambda r, g: adv.group_std_B(r, g, eps=1e-6),
    "grpo_pop_std_eps0": lambda r, g: adv.group_std_B(r, g, ddof=0, eps=0.0),
    "dr_grpo": adv.group_mean_B,
    "trl_scale_batch": adv.batch_std_B,
    "magistral_std_of_centered": adv.centred_batch_std_B,
    "rloo": adv.leave_one_out_B,
    "maxrl": adv.group_rate_B,
}
OTHERS = {"rewards", "G", "opo", "gpg_paper", "gpg_verl", "gpg_rewards", "reinforce_pp", "reinforce_pp_baseline",
          "gdpo", "bnpo_beta", "overlong"}  # fmt: skip


def test_every_vector_is_tested(shared: Path) -> None:
    assert set(load(shared, "advantages.json")) == set(SIMPLE) | OTHERS


@pytest.mark.parametrize("name", SIMPLE)
def test_group_advantages(shared: Path, name: str) -> None:
    x = shared_inputs(shared)
    close(SIMPLE[name](x.reward_B, x.group_B), load(shared, "advantages.json")[name], ADV)


def test_length_baseline(shared: Path) -> None:
    x = shared_inputs(shared)
    found = adv.length_baseline_B(x.reward_B, x.group_B, x.mask_BT.sum(dim=1))
    close(found, load(shared, "advantages.json")["opo"], ADV)


def test_rescaled_for_dead_groups(shared: Path) -> None:
    want = load(shared, "advantages.json")
    reward_B, group_B = tensor(want["gpg_rewards"]), torch.arange(16) // 4
    close(adv.rescaled_by_nonzero_B(reward_B, group_B), want["gpg_verl"], ADV)
    # stored with alpha = 16/8 = 2 and scale 1
    close(adv.rescaled_group_mean_B(reward_B, group_B), want["gpg_paper"], ADV)


def test_reinforce_plus_plus(shared: Path) -> None:
    x, all_wanted = shared_inputs(shared), load(shared, "advantages.json")
    want = all_wanted["reinforce_pp"]
    k1 = k1_BT(x.old_BT, x.ref_BT, x.mask_BT)
    token_BT = token_reward_BT(x.reward_B, k1, x.mask_BT, want["beta"])
    close(token_BT, want["token_rewards_with_kl"], ADV)
    return_BT = adv.return_to_go_BT(token_BT, x.mask_BT, want["gamma"])
    close(return_BT, want["returns"], ADV)
    close(adv.whiten_BT(return_BT, x.mask_BT), want["advantages"], ADV)
    found = adv.whitened_group_mean_BT(x.reward_B, x.group_B, x.mask_BT)
    close(found, all_wanted["reinforce_pp_baseline"], ADV)


def test_components(shared: Path) -> None:
    x, want = shared_inputs(shared), load(shared, "advantages.json")["gdpo"]
    reward_BK, weight_K = tensor(want["rewards"]), tensor(want["weights"])
    sum_B = sum(w * adv.group_std_B(r, x.group_B) for r, w in zip(reward_BK.unbind(1), weight_K, strict=True))
    close(sum_B, want["weighted_sum"], ADV)
    close(adv.components_B(reward_BK, x.group_B, weight_K), want["final_sample_std"], ADV)
    close(adv.components_B(reward_BK, x.group_B, weight_K, ddof=0), want["final_pop_std"], ADV)
    close(adv.advantage_B(adv.Advantage.COMPONENTS, reward_BK, x.group_B, weight_K), want["final_sample_std"], ADV)
    close(adv.advantage_B(adv.Advantage.GROUP_STD, reward_BK, x.group_B, weight_K), want["grpo_on_sum"], ADV)


def test_beta(shared: Path) -> None:
    want = load(shared, "advantages.json")["bnpo_beta"]
    close(adv.beta_B(tensor(want["rewards"]), torch.arange(12) // 4), want["advantages"], ADV)


def test_overlong(shared: Path) -> None:
    want = load(shared, "advantages.json")["overlong"]
    close(adv.overlong_penalty_B(torch.tensor(want["L"]), want["Lmax"], want["Lcache"]), want["penalty"], ADV)
