"""Every number of the shared divergence and entropy vectors: values, and the exact expected gradient of each form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rlvitals.grpo import kl
from rlvitals.grpo.entropy import kept_logits_NV, logp_entropy_N
from rlvitals.grpo.fused import fused_logp_entropy_N, pack_keep
from rlvitals.grpo.kl import Estimator, estimate_BT
from rlvitals.grpo.ratios import detached_ratio_BT
from tests.grpo.batches import GRAD, LOSS, close, load, shared_inputs, tensor, value_and_grad


def test_per_token_estimates(shared: Path) -> None:
    x, want = shared_inputs(shared), load(shared, "kl.json")["batch"]
    for key, estimator in (
        ("k1", Estimator.K1), ("k2", Estimator.K2), ("k3", Estimator.K3), ("unbiased", Estimator.RATIO_K3),
    ):  # fmt: skip
        found_BT = estimate_BT(estimator, x.logp_BT, x.old_BT, x.ref_BT, x.mask_BT)
        close(found_BT, want[key], LOSS)
        close(found_BT.sum() / x.mask_BT.sum(), want[f"mean_{key}"], LOSS)


Form = Callable[[Tensor, Tensor, Tensor], Tensor]  # (logp, logp_old, logp_ref) of every action, as (V, 1)


def loss_of(estimator: Estimator) -> Form:
    return lambda logp, old, ref: estimate_BT(estimator, logp, old, ref, torch.ones_like(logp, dtype=torch.bool))


def reward_of(estimator: Estimator) -> Form:
    return lambda logp, old, ref: loss_of(estimator)(logp, old, ref).detach() * logp


def weighted(estimator: Estimator) -> Form:
    return lambda logp, old, ref: (
        detached_ratio_BT(logp, old, torch.ones_like(logp, dtype=torch.bool)) * loss_of(estimator)(logp, old, ref)
    )


FORMS: dict[tuple[str, str], Form] = {
    ("on_policy", "grad_k1_as_loss"): loss_of(Estimator.K1),
    ("on_policy", "grad_k2_as_loss"): loss_of(Estimator.K2),
    ("on_policy", "grad_k3_as_loss"): loss_of(Estimator.K3),
    ("on_policy", "grad_k1_in_reward"): reward_of(Estimator.K1),
    ("on_policy", "grad_k3_in_reward"): reward_of(Estimator.K3),
    ("on_policy", "grad_r_k3_unbiased"): loss_of(Estimator.RATIO_K3),
    ("off_policy", "grad_k3_as_loss"): loss_of(Estimator.K3),
    ("off_policy", "grad_k2_as_loss"): loss_of(Estimator.K2),
    ("off_policy", "grad_r_k3_unbiased"): loss_of(Estimator.RATIO_K3),
    ("off_policy", "grad_detached_r_k2"): weighted(Estimator.K2),
    ("off_policy", "grad_detached_r_k3"): weighted(Estimator.K3),
}


def expected_gradient(form: Form, logits: Tensor, old: Tensor, ref: Tensor) -> tuple[Tensor, Tensor]:
    """Return value and gradient with the logits of a form, averaged over samples of the old policy, exactly."""
    weight = old.softmax(0)

    def mean(z: Tensor) -> Tensor:
        logp = [v.log_softmax(0)[:, None] for v in (z, old, ref)]
        return (weight[:, None] * form(*logp)).sum()

    return value_and_grad(mean, logits)


@pytest.mark.parametrize(("policy", "key"), FORMS, ids="-".join)
def test_expected_gradient(shared: Path, policy: str, key: str) -> None:
    want = load(shared, "kl.json")["categorical"]
    new, ref = tensor(want["logits_new"]), tensor(want["logits_ref"])
    old = new if policy == "on_policy" else tensor(want["logits_old"])
    _, grad = expected_gradient(FORMS[policy, key], new, old, ref)
    close(grad, want[policy][key], GRAD)


def test_every_expected_gradient_is_tested(shared: Path) -> None:
    want = load(shared, "kl.json")["categorical"]
    found = {(p, k) for p in ("on_policy", "off_policy") for k in want[p] if k.startswith("grad")}
    assert found == set(FORMS)


def test_expected_values(shared: Path) -> None:
    want = load(shared, "kl.json")["categorical"]
    new, ref = tensor(want["logits_new"]), tensor(want["logits_ref"])
    for name, estimator in (("E_k1", Estimator.K1), ("E_k2", Estimator.K2), ("E_k3", Estimator.K3)):
        value, _ = expected_gradient(loss_of(estimator), new, new, ref)
        close(value, want["on_policy"][name], LOSS)
    # k3+ has k2's gradient and k3's value
    value, grad = expected_gradient(loss_of(Estimator.K3_PLUS), new, new, ref)
    close(value, want["on_policy"]["E_k3"], LOSS)
    close(grad, want["grad_reverse_kl"], GRAD)


def test_exact_divergence(shared: Path) -> None:
    want = load(shared, "kl.json")["categorical"]
    new, ref = tensor(want["logits_new"]), tensor(want["logits_ref"])
    one = torch.ones(1, 1, dtype=torch.bool)
    value, grad = value_and_grad(lambda z: kl.exact_BT(z[None, None], ref[None, None], one).sum(), new)
    close(value, want["reverse_kl"], LOSS)
    close(grad, want["grad_reverse_kl"], GRAD)
    value, grad = (
        value_and_grad(lambda z: kl.exact_BT(ref[None, None], z[None, None], one).sum(), ref * 0 + new)
        if False
        else (kl.exact_BT(ref[None, None], new[None, None], one).sum(), grad)
    )
    close(value, want["forward_kl"], LOSS)


def test_entropy_and_log_probability(shared: Path) -> None:
    want = load(shared, "entropy.json")
    logits, ids, temperature = tensor(want["logits"]), torch.tensor(want["target"]), want["temperature"]
    eye = torch.eye(logits.shape[1], dtype=torch.float64)
    for function in (
        lambda z: logp_entropy_N(z, ids, temperature),
        lambda z: fused_logp_entropy_N(z, eye, ids, temperature),
    ):
        logp, entropy = function(logits)
        close(logp, want["logp"], LOSS)
        close(entropy, want["entropy"], LOSS)
        close(value_and_grad(lambda z, f=function: f(z)[1].sum(), logits)[1], want["grad_entropy_sum"], GRAD)
        close(value_and_grad(lambda z, f=function: f(z)[0].sum(), logits)[1], want["grad_logp_sum"], GRAD)
    close(logp_entropy_N(logits, ids, temperature)[1][1], want["log_vocab"], LOSS)


def test_keep_sampling_mask(shared: Path) -> None:
    want = load(shared, "entropy.json")
    logits, ids, keep = tensor(want["logits"]), torch.tensor(want["target"]), tensor(want["keep_mask"]).bool()
    plain = logp_entropy_N(kept_logits_NV(logits, keep, ids), ids, want["temperature"])
    eye = torch.eye(logits.shape[1], dtype=torch.float64)
    packed = pack_keep(keep)
    fused = fused_logp_entropy_N(logits, eye, ids, want["temperature"], keep_packed_NV8=packed)
    close(plain[0], want["logp_keep_sampling_mask"], LOSS)
    close(fused[0], want["logp_keep_sampling_mask"], LOSS)
    close(fused[1], plain[1], LOSS)  # finite, and that of the kept set
