"""Numbers derived by hand, so that the mathematics is tested without the shared vectors too."""

from __future__ import annotations

import math

import pytest
import torch

from rlvitals.grpo import advantages as adv
from rlvitals.grpo import losses
from rlvitals.grpo.aggregation import AGGREGATIONS, Aggregation, Counts
from rlvitals.grpo.correction import (
    GEOMETRIC_GATE,
    ICEPOP,
    SEQUENCE_MIS,
    TOKEN_TIS,
    Action,
    Correction,
    Level,
    off_policy_keep_B,
    raw_weight,
    weight_BT,
)
from rlvitals.grpo.entropy import kept_logits_NV, logp_entropy_N
from rlvitals.grpo.kl import Estimator, KlTerm, Place, estimate_BT, penalised_reward_B, token_reward_BT
from rlvitals.grpo.masks import overlong_filter_BT, top_entropy_BT
from rlvitals.grpo.ratios import RATIOS, RatioLevel
from tests.grpo.batches import close, tensor

TIGHT = 1e-12
ONE_OF_FOUR, PAIRS = tensor([1.0, 0, 0, 0]), torch.zeros(4, dtype=torch.long)
MASK = torch.tensor([[True, True, True], [True, False, False]])
LN2 = math.log(2)


def test_advantages_of_one_success_in_four() -> None:
    """mu 1/4; squares about it sum to 3/4: s = 1/2 of the sample, sqrt(3)/4 of the population."""
    close(adv.group_std_B(ONE_OF_FOUR, PAIRS, eps=0.0), [1.5, -0.5, -0.5, -0.5], TIGHT)
    close(adv.group_std_B(ONE_OF_FOUR, PAIRS)[0], 0.75 / 0.5001, TIGHT)
    close(adv.group_std_B(ONE_OF_FOUR, PAIRS, ddof=0, eps=0.0)[0], math.sqrt(3), TIGHT)
    close(adv.group_mean_B(ONE_OF_FOUR, PAIRS), [0.75, -0.25, -0.25, -0.25], TIGHT)
    close(adv.leave_one_out_B(ONE_OF_FOUR, PAIRS), [1.0, -1 / 3, -1 / 3, -1 / 3], TIGHT)
    close(adv.group_rate_B(ONE_OF_FOUR, PAIRS, eps=0.0), [3.0, -1.0, -1.0, -1.0], TIGHT)
    close(adv.length_baseline_B(ONE_OF_FOUR, PAIRS, tensor([4.0, 2, 2, 2])), [0.6, -0.4, -0.4, -0.4], TIGHT)


def test_groups_may_be_mixed_and_of_any_size() -> None:
    reward_B, group_B = tensor([1.0, 5, 0, 3, 1]), torch.tensor([0, 1, 0, 1, 0])
    close(adv.group_mean_B(reward_B, group_B), [1 / 3, 1.0, -2 / 3, -1.0, 1 / 3], TIGHT)


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, 1e6 / 3])
@pytest.mark.parametrize("how", list(adv.ADVANTAGES))
def test_a_dead_group_has_exactly_no_advantage(how: adv.Advantage, reward: float) -> None:
    reward_B, group_B = tensor([reward] * 7 + [1.0, 0.0]), torch.tensor([0] * 7 + [1, 1])
    found = adv.ADVANTAGES[how](reward_B, group_B)
    assert found[:7].tolist() == [0.0] * 7
    assert found[7] > 0 > found[8]


def test_unusable_rewards_are_refused() -> None:
    with pytest.raises(ValueError, match=r"groups of one sequence: found \[1\]; expected two or more"):
        adv.group_mean_B(tensor([1.0, 0, 1]), torch.tensor([0, 0, 1]))
    with pytest.raises(ValueError, match=r"not finite: found them at sequences \[1\]"):
        adv.group_std_B(tensor([1.0, math.nan]), torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="found 0 rewards"):
        adv.group_mean_B(tensor([]), torch.tensor([], dtype=torch.long))


def test_beta_without_a_fit_has_weight_one() -> None:
    close(adv.beta_B(ONE_OF_FOUR, PAIRS), [0.75, -0.25, -0.25, -0.25], TIGHT)


def test_returns_and_overlong() -> None:
    token_BT = tensor([[1.0, 2.0, 4.0], [8.0, math.nan, math.nan]])
    close(adv.return_to_go_BT(token_BT, MASK, 0.5), [[3.0, 4.0, 4.0], [8.0, 0.0, 0.0]], TIGHT)
    close(adv.overlong_penalty_B(torch.tensor([16, 18, 20, 99]), 20, 4), [0.0, -0.5, -1.0, -1.0], TIGHT)
    # values 1, 2, 3 and 6: mean 3, unbiased variance 14/3
    white = adv.whiten_BT(tensor([[1.0, 2.0, 3.0], [6.0, 0.0, 0.0]]), MASK)
    close(white[1], [3 / math.sqrt(14 / 3), 0.0, 0.0], 1e-8)


def test_aggregations_of_six_and_two() -> None:
    """Losses 1, 2, 3 in one sequence and 6 in another; limit 4 tokens."""
    loss_BT, counts = tensor([[1.0, 2.0, 3.0], [6.0, 9.0, 9.0]]), Counts.of(MASK, 4)
    want = {
        Aggregation.SEQUENCE_MEAN: (2 + 6) / 2, Aggregation.TOKEN_MEAN: 12 / 4, Aggregation.SEQUENCE_SUM: 12 / 2,
        Aggregation.CONSTANT: 12 / (2 * 4), Aggregation.LOCAL_TOKEN_MEAN: 12 / 4,
    }  # fmt: skip
    assert set(want) == set(AGGREGATIONS)
    for how, value in want.items():
        close(AGGREGATIONS[how](loss_BT, MASK, counts), value, TIGHT)


def test_ratios_of_doubled_and_quartered_tokens() -> None:
    """log r is ln 2, ln 2, -2 ln 2 in the first sequence (sum 0) and ln 2 in the second."""
    logp, old = tensor([[LN2, LN2, -2 * LN2], [LN2, 7.0, 7.0]]), torch.zeros(2, 3, dtype=torch.float64)
    want = {
        RatioLevel.TOKEN: [[2.0, 2.0, 0.25], [2.0, 1.0, 1.0]],
        RatioLevel.SEQUENCE_MEAN: [[1.0], [2.0]],
        RatioLevel.SEQUENCE_SUM: [[1.0], [2.0]],
        RatioLevel.SEQUENCE_TOKEN: [[1.0] * 3, [2.0] * 3],
    }
    assert set(want) == set(RATIOS)
    for level, value in want.items():
        close(RATIOS[level](logp, old, MASK), value, TIGHT)


def test_divergence_estimates_at_ln2() -> None:
    """x = ln 2: k3 = 1/2 + ln 2 - 1, and r = 4 with an old policy two ln 2 below."""
    logp = tensor([[LN2]])
    old, ref, mask = logp - 2 * LN2, logp - LN2, torch.ones(1, 1, dtype=torch.bool)
    want = {Estimator.K1: LN2, Estimator.K2: LN2**2 / 2, Estimator.K3: LN2 - 0.5, Estimator.K3_PLUS: LN2 - 0.5,
            Estimator.RATIO_K3: 4 * (LN2 - 0.5)}  # fmt: skip
    for estimator, value in want.items():
        close(estimate_BT(estimator, logp, old, ref, mask), [[value]], TIGHT)
    with pytest.raises(ValueError, match="needs the logits"):
        estimate_BT(Estimator.EXACT, logp, old, ref, mask)


def test_penalty_in_the_reward() -> None:
    divergence_BT, reward_B = tensor([[0.1, 0.2, 0.3], [0.4, 9.0, 9.0]]), tensor([1.0, 0.0])
    close(penalised_reward_B(reward_B, divergence_BT, MASK, 0.5), [0.7, -0.2], TIGHT)
    close(token_reward_BT(reward_B, divergence_BT, MASK, 0.5), [[-0.05, -0.1, 0.85], [-0.2, 0, 0]], TIGHT)
    term = KlTerm(Estimator.K1, Place.REWARD, 0.5, {"math": 0.0})
    assert term.coef_B(["math", "code"], reward_B).tolist() == [0.0, 0.5]


def test_sampler_weights_by_hand() -> None:
    """w is 4, 1, 1/4 in the first sequence (product 1) and 4 in the second."""
    old, sampler = tensor([[2 * LN2, 0.0, -2 * LN2], [2 * LN2, 5.0, 5.0]]), torch.zeros(2, 3, dtype=torch.float64)
    close(raw_weight(Level.GEOMETRIC, old, sampler, MASK), [[1.0], [4.0]], TIGHT)
    close(weight_BT((), old, sampler, MASK), torch.ones(2, 3, dtype=torch.float64), 0)
    close(weight_BT((TOKEN_TIS,), old, sampler, MASK)[0], [2.0, 1.0, 0.25], TIGHT)
    close(weight_BT((ICEPOP,), old, sampler, MASK)[0], [4.0, 1.0, 0.0], TIGHT)
    close(weight_BT((SEQUENCE_MIS,), old, sampler, MASK), [[1.0] * 3, [0.0] * 3], TIGHT)
    close(weight_BT((TOKEN_TIS, GEOMETRIC_GATE), old, sampler, MASK), [[2.0, 1.0, 0.25], [0.0] * 3], TIGHT)
    nothing = tensor([[math.nan]])
    one = torch.ones(1, 1, dtype=torch.bool)
    assert weight_BT((ICEPOP,), nothing, nothing, one).tolist() == [[0.0]]
    assert bool(weight_BT((TOKEN_TIS,), nothing, nothing, one).isnan().all())  # never silently a number
    with pytest.raises(ValueError, match="expected 0 <= low <= 1 <= high"):
        Correction(Level.TOKEN, Action.MASK, 0.5, math.nan)


def test_off_policy_sequences_go_only_when_pushed_down() -> None:
    logp, sampler = tensor([[-1.0, -1.0]] * 3), tensor([[-0.8, -0.8], [-0.8, -0.8], [-0.95, -0.95]])
    keep_B = off_policy_keep_B(logp, sampler, tensor([-1.0, 1.0, -1.0]), torch.ones(3, 2, dtype=torch.bool), 0.1)
    assert keep_B.tolist() == [False, True, True]


def test_masks() -> None:
    assert overlong_filter_BT(MASK, torch.tensor([True, False])).tolist() == [[False] * 3, [True, False, False]]
    entropy_BT = tensor([[0.1, 0.4, 0.2], [0.3, 99.0, 99.0]])
    # of 0.1 to 0.4 the 0.5 quantile is 0.25
    assert top_entropy_BT(entropy_BT, MASK, 0.5).tolist() == [[False, True, False], [True, False, False]]


def test_entropy_of_two_and_of_a_kept_set() -> None:
    ids = torch.tensor([0])
    logp, entropy = logp_entropy_N(tensor([[0.0, math.log(3)]]), ids)  # 1/4 and 3/4
    close(logp, [math.log(0.25)], TIGHT)
    close(entropy, [2 * LN2 - 0.75 * math.log(3)], TIGHT)
    keep = torch.tensor([[True, False, True]])
    logp, entropy = logp_entropy_N(kept_logits_NV(tensor([[1.0, 50.0, 1.0]]), keep, ids), ids)
    close(logp, [-LN2], TIGHT)
    close(entropy, [LN2], TIGHT)
    with pytest.raises(ValueError, match="outside the sampler's kept set"):
        kept_logits_NV(tensor([[1.0, 50.0, 1.0]]), ~keep, ids)


def test_losses_by_hand() -> None:
    """One sequence of two tokens, log r = ln 2 each, A = 1 (and -1): numbers from the formulas."""
    logp, old, mask = tensor([[LN2, LN2]]), torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.bool)
    up, down = tensor([1.0]), tensor([-1.0])
    close(losses.gmpo_B(logp, old, up, mask), [-math.exp(0.4)], TIGHT)  # ln 2 is cut to 0.4 for A > 0 only
    close(losses.gmpo_B(logp, old, down, mask), [2.0], TIGHT)
    close(losses.luspo_B(logp, old, up, mask, low=0.2, high=0.28), [-2 * 1.28], TIGHT)
    close(losses.sapo(tensor([[2.0]]), up), [[-4 / (1 + math.exp(-1))]], TIGHT)
    close(losses.vespo_weight_B1(logp, old, up, mask), [[math.exp(3 + 4 * LN2 - 12)]], TIGHT)
    close(losses.dro(logp, old, up, mask), [[-LN2 + 0.05 * LN2**2] * 2], TIGHT)
    close(losses.kimi_B(logp, old, up, mask), [(1 - 0.2 * LN2) ** 2 / 0.2], TIGHT)
    half = tensor([[-LN2, -LN2]])  # pi = 1/2, old 1/4: moved by 1/4 > 0.2, cut for A > 0
    assert losses.dppo(half, half - LN2, up, mask).tolist() == [[0.0, 0.0]]
    close(losses.dppo(half, half - LN2, down, mask), [[-2 * LN2] * 2], TIGHT)
    close(losses.prime_rl(half, half - LN2, up, mask), [[1e-3 * LN2**2] * 2], TIGHT)
    close(losses.luffy(half, half, up[:, None], torch.tensor([True])), [[-0.5 / 0.6] * 2], TIGHT)
