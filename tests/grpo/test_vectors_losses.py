"""Every value, per-token loss and gradient of the shared loss vectors, and what two frameworks give on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rlvitals.grpo import losses
from rlvitals.grpo.advantages import group_mean_B, group_std_B, leave_one_out_B
from rlvitals.grpo.aggregation import AGGREGATIONS, Aggregation, Counts
from rlvitals.grpo.correction import (
    GEOMETRIC_MASK,
    ICEPOP,
    SEQUENCE_MIS,
    SEQUENCE_TIS,
    TOKEN_TIS,
    Correction,
    Level,
    bounded,
    off_policy_keep_B,
    raw_weight,
)
from rlvitals.grpo.kl import Estimator, estimate_BT
from rlvitals.grpo.losses import Cispo, Clip, DualClip, Reinforce, Surrogate, TwoSided
from rlvitals.grpo.masks import top_entropy_BT
from rlvitals.grpo.ratios import RATIOS, RatioLevel, token_ratio_BT
from tests.grpo.batches import GRAD, LOSS, Inputs, close, load, shared_inputs, tensor, value_and_grad

Case = Callable[[Inputs, Tensor], tuple[Tensor, Aggregation]]  # (B, T), (B, 1) or (B,) losses, and how to reduce them
SEQ, TOK = Aggregation.SEQUENCE_MEAN, Aggregation.TOKEN_MEAN
TOKEN, MEAN, SUM, PER_TOKEN = (
    RatioLevel.TOKEN,
    RatioLevel.SEQUENCE_MEAN,
    RatioLevel.SEQUENCE_SUM,
    RatioLevel.SEQUENCE_TOKEN,
)
PAPER, GSPO = Clip(0.2, 0.2), Clip(3e-4, 4e-4)
HIGHER = Clip(0.2, 0.28)


def axes(
    choice: Surrogate, how: Aggregation, level: RatioLevel = TOKEN, adv: Callable[..., Tensor] = group_std_B
) -> Case:
    def case(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
        ratio = RATIOS[level](logp_BT, x.old_BT, x.mask_BT)
        return losses.surrogate(choice, ratio, logp_BT, adv(x.reward_B, x.group_B)[:, None]), how

    return case


def penalised(estimator: Estimator) -> Case:
    def case(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
        loss, how = axes(PAPER, SEQ)(x, logp_BT)
        return loss + 0.04 * estimate_BT(estimator, logp_BT, x.old_BT, x.ref_BT, x.mask_BT), how

    return case


def corrected(choice: Correction) -> Case:
    def case(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
        loss, how = axes(HIGHER, TOK)(x, logp_BT)
        return loss * bounded(choice, raw_weight(choice.level, x.old_BT, x.sampler_BT, x.mask_BT)), how

    return case


def own(function: Callable[..., Tensor], how: Aggregation = TOK, *, mean: bool = False, **settings: float) -> Case:
    def case(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
        adv_B = (group_mean_B if mean else group_std_B)(x.reward_B, x.group_B)
        adv = adv_B if function.__name__.endswith("_B") or function is losses.vespo else adv_B[:, None]
        return function(logp_BT, x.old_BT, adv, x.mask_BT, **settings), how

    return case


def prime(**settings: float) -> Case:
    def case(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
        adv = group_std_B(x.reward_B, x.group_B)[:, None]
        return losses.prime_rl(logp_BT, x.sampler_BT, adv, x.mask_BT, **settings), TOK

    return case


def luffy(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
    adv = group_mean_B(x.reward_B, x.group_B)[:, None]
    clipped = losses.clipped(token_ratio_BT(logp_BT, x.old_BT, x.mask_BT), adv, 0.2, 0.2)
    demo_B = torch.zeros(8, dtype=torch.bool)
    demo_B[[0, 4]] = True
    return losses.luffy(logp_BT, clipped, adv, demo_B), TOK


def sapo(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
    adv = group_std_B(x.reward_B, x.group_B)[:, None]
    return losses.sapo(token_ratio_BT(logp_BT, x.old_BT, x.mask_BT), adv), SEQ


def clip_cov(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
    adv = group_std_B(x.reward_B, x.group_B)[:, None]
    cov_BT = losses.covariance_BT(logp_BT, adv, x.mask_BT)
    ratio_BT = token_ratio_BT(logp_BT, x.old_BT, x.mask_BT)
    return losses.clip_cov(ratio_BT, adv, cov_BT, 0.2, 0.2, band=(0.05, 5.0)), TOK


def off_policy(x: Inputs, logp_BT: Tensor) -> tuple[Tensor, Aggregation]:
    loss, how = axes(PAPER, SEQ)(x, logp_BT)
    keep_B = off_policy_keep_B(logp_BT, x.sampler_BT, group_std_B(x.reward_B, x.group_B), x.mask_BT, 0.1)
    return loss * keep_B[:, None], how


CASES: dict[str, Case] = {
    "grpo": axes(PAPER, SEQ),
    "grpo_kl_k3_beta0.04": penalised(Estimator.K3),
    "grpo_kl_unbiased_beta0.04": penalised(Estimator.RATIO_K3),
    "grpo_kl_k2_beta0.04": penalised(Estimator.K2),
    "grpo_kl_k3plus_beta0.04": penalised(Estimator.K3_PLUS),
    "dapo": axes(HIGHER, TOK),
    "bnpo_trl": axes(PAPER, Aggregation.LOCAL_TOKEN_MEAN),
    "dr_grpo": axes(PAPER, Aggregation.CONSTANT, adv=group_mean_B),
    "dr_grpo_seq_sum": axes(PAPER, Aggregation.SEQUENCE_SUM, adv=group_mean_B),
    "two_sided_delta4": axes(TwoSided(0.2, 0.2, 4.0), SEQ),
    "dual_clip_c3": axes(DualClip(0.2, 0.2, 3.0), TOK),
    "gspo": axes(GSPO, SEQ, MEAN),
    "gspo_wide": axes(HIGHER, SEQ, MEAN),
    "gspo_token_wide": axes(HIGHER, SEQ, PER_TOKEN),
    "gmpo": own(losses.gmpo_B, SEQ),
    "cispo_trl_hi5": axes(Cispo(5.0), TOK),
    "cispo_minimax": axes(Cispo(1.28), TOK),
    "cispo_two_sided": axes(Cispo(1.28, 0.8), TOK),
    "gpg": axes(Reinforce(), TOK, adv=group_mean_B),
    "rloo_seq_clip": axes(PAPER, SEQ, SUM, adv=leave_one_out_B),
    "rloo_reinforce": axes(Reinforce(), Aggregation.SEQUENCE_SUM, adv=leave_one_out_B),
    "sapo": sapo,
    "vespo": own(losses.vespo),
    "luspo": own(losses.luspo_B, SEQ),
    "luspo_wide": own(losses.luspo_B, SEQ, low=0.2, high=0.28),
    "dppo_tv": own(losses.dppo),
    "dppo_tv_0.05": own(losses.dppo, width=0.05),
    "prime_rl_0.05": prime(width=0.05),
    "prime_rl_default": prime(),
    "dro_beta0.1": own(losses.dro, beta=0.1),
    "kimi_k1.5_tau0.1": own(losses.kimi_B, SEQ, mean=True, tau=0.1),
    "luffy_gamma0.1": luffy,
    "kl_cov": own(losses.kl_cov, share=0.25),
    "clip_cov_all_band": clip_cov,
    "dapo_tis_token_c2": corrected(TOKEN_TIS),
    "dapo_tis_seq_c2": corrected(SEQUENCE_TIS),
    "dapo_mis_seq_c3_trl_default": corrected(SEQUENCE_MIS),
    "dapo_icepop_.5_5": corrected(ICEPOP),
    "dapo_geo_mask_.99_1.01_weight": corrected(GEOMETRIC_MASK),
    "grpo_opsm_.1": off_policy,
}


def reduced(x: Inputs, loss: Tensor, how: Aggregation) -> Tensor:
    loss = loss[:, None] if loss.dim() == 1 else loss
    return AGGREGATIONS[how](loss.expand(x.mask_BT.shape), x.mask_BT, Counts.of(x.mask_BT, x.max_tokens))


def test_every_vector_has_a_case(shared: Path) -> None:
    assert {name for name in load(shared, "losses.json") if not name.startswith("_")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_loss_vector(shared: Path, name: str) -> None:
    x, want = shared_inputs(shared), load(shared, "losses.json")[name]
    value, grad = value_and_grad(lambda logp: reduced(x, *CASES[name](x, logp)), x.logp_BT)
    close(value, want["loss"], LOSS)
    close(grad, want["grad_logp"], GRAD)
    if name == "rloo_reinforce":  # stored summed over the sequence
        return
    loss, _ = CASES[name](x, x.logp_BT)
    wanted = tensor(want["per_token_loss"])
    close(loss if loss.shape != x.mask_BT.shape else loss * x.mask_BT, wanted_like(wanted, loss, x), LOSS)


def wanted_like(wanted: Tensor, loss: Tensor, x: Inputs) -> Tensor:
    if wanted.numel() == loss.numel():
        return wanted.view_as(loss)
    assert wanted.shape == x.mask_BT.shape  # one ratio per sequence, stored repeated over its tokens
    return wanted[:, :1]


def test_sampler_weights(shared: Path) -> None:
    x, want = shared_inputs(shared), load(shared, "losses.json")["_is"]
    for key, level in (("token", Level.TOKEN), ("sequence", Level.SEQUENCE), ("geometric", Level.GEOMETRIC)):
        close(raw_weight(level, x.old_BT, x.sampler_BT, x.mask_BT), want[key], LOSS)
    chosen = {"tis_token": TOKEN_TIS, "tis_seq": SEQUENCE_TIS, "mis_seq": SEQUENCE_MIS, "icepop": ICEPOP,
              "geo": GEOMETRIC_MASK}  # fmt: skip
    for key, choice in chosen.items():
        close(bounded(choice, raw_weight(choice.level, x.old_BT, x.sampler_BT, x.mask_BT)), want[key], LOSS)
    adv_B = group_std_B(x.reward_B, x.group_B)
    keep_B = off_policy_keep_B(x.logp_BT, x.sampler_BT, adv_B, x.mask_BT, 0.1)
    assert keep_B.tolist() == [bool(row[0]) for row in want["opsm_mask"]]


def test_ratios_and_clip_regions(shared: Path) -> None:
    x, want = shared_inputs(shared), load(shared, "losses.json")["_ratios"]
    ratio_BT, adv = token_ratio_BT(x.logp_BT, x.old_BT, x.mask_BT), group_std_B(x.reward_B, x.group_B)[:, None]
    close(ratio_BT * x.mask_BT, want["ratio"], LOSS)
    region = torch.logical_or(*losses.clip_regions(ratio_BT, adv, 0.2, 0.2)) & x.mask_BT
    close(region, want["clip_region_02"], 0)
    close(region.sum() / x.mask_BT.sum(), want["clip_frac_02"], LOSS)
    higher = torch.logical_or(*losses.clip_regions(ratio_BT, adv, 0.2, 0.28)) & x.mask_BT
    close(higher.sum() / x.mask_BT.sum(), want["clip_frac_02_028"], LOSS)


def test_trl_losses_and_clip_fractions(shared: Path) -> None:
    x, seen = shared_inputs(shared), 0
    for name, want in load(shared, "trl_crosscheck.json").items():
        if name not in CASES:
            continue
        close(reduced(x, *CASES[name](x, x.logp_BT)), want["trl_loss"], LOSS)
        seen += 1
        low_high = {"grpo": (0.2, 0.2), "dapo": (0.2, 0.28), "gspo": (3e-4, 4e-4), "gspo_wide": (0.2, 0.28)}.get(name)
        if low_high is None:
            continue
        level = MEAN if name.startswith("gspo") else TOKEN
        ratio, adv = RATIOS[level](x.logp_BT, x.old_BT, x.mask_BT), group_std_B(x.reward_B, x.group_B)[:, None]
        mask = x.mask_BT if level is TOKEN else torch.ones_like(ratio, dtype=torch.bool)
        below, above = losses.clip_regions(ratio, adv, *low_high)
        close((below & mask).sum() / mask.sum(), want["trl_metrics"]["clip_ratio/low_mean"], LOSS)
        close((above & mask).sum() / mask.sum(), want["trl_metrics"]["clip_ratio/high_mean"], LOSS)
    assert seen == 20


def test_trl_divergence_and_weight_metrics(shared: Path) -> None:
    x, want = shared_inputs(shared), load(shared, "trl_crosscheck.json")
    adv_B, tokens = group_std_B(x.reward_B, x.group_B), x.mask_BT.sum()
    for name, estimator in (("grpo_kl_k3_beta0.04", Estimator.K3), ("grpo_kl_unbiased_beta0.04", Estimator.RATIO_K3)):
        mean = estimate_BT(estimator, x.logp_BT, x.old_BT, x.ref_BT, x.mask_BT).sum() / tokens
        close(mean, want[name]["trl_metrics"]["kl"], LOSS)
    ratio_BT = token_ratio_BT(x.logp_BT, x.old_BT, x.mask_BT)
    cut = ((ratio_BT > 1.28) & (adv_B[:, None] > 0) & x.mask_BT).sum() / tokens
    close(cut, want["cispo_minimax"]["trl_metrics"]["cispo_clip_ratio"], LOSS)
    phi = losses.vespo_weight_B1(x.logp_BT, x.old_BT, adv_B, x.mask_BT).mean()
    close(phi, want["vespo"]["trl_metrics"]["vespo/phi_seq_mean"], LOSS)


def test_trl_entropy_terms(shared: Path) -> None:
    x, want = shared_inputs(shared), load(shared, "trl_crosscheck.json")
    entropy_BT = tensor(want["entropy_bonus_0.01"]["entropy"])
    loss_BT, how = CASES["dapo"](x, x.logp_BT)
    mean = AGGREGATIONS[TOK](entropy_BT, x.mask_BT, Counts.of(x.mask_BT, x.max_tokens))
    close(mean, want["entropy_bonus_0.01"]["mean_entropy"], LOSS)
    close(reduced(x, loss_BT, how) - 0.01 * mean, want["entropy_bonus_0.01"]["trl_loss"], LOSS)
    kept_BT = loss_BT * top_entropy_BT(entropy_BT, x.mask_BT, 0.2)
    close(reduced(x, kept_BT, how), want["top_entropy_quantile_0.2"]["trl_loss"], LOSS)


def test_verl_gspo_under_its_old_aggregation(shared: Path) -> None:
    x, want = shared_inputs(shared), load(shared, "verl_crosscheck.json")
    loss, _ = CASES["gspo_wide"](x, x.logp_BT)
    close(reduced(x, loss, TOK), want["gspo_token_mean_value_0.9.1"], LOSS)
    assert max(v for v in want.values() if isinstance(v, float) and v > 0) < LOSS  # the vectors agree with verl


def test_a_sequence_without_tokens_counts_or_not_by_choice(shared: Path) -> None:
    """TRL divides by all eight sequences, verl by the seven that have tokens; the counts decide, nothing else."""
    x = shared_inputs(shared)
    mask_BT = x.mask_BT.clone()
    mask_BT[7] = False
    loss_BT = axes(PAPER, SEQ)(x, x.logp_BT)[0]
    own_counts, trl = Counts.of(mask_BT, x.max_tokens), Counts(8, int(mask_BT.sum()), x.max_tokens)
    close(AGGREGATIONS[SEQ](loss_BT, mask_BT, own_counts), 0.224773, 1e-6)
    close(AGGREGATIONS[SEQ](loss_BT, mask_BT, trl), 0.196677, 1e-6)
