"""The chapter-6 and 7 scripts: header variants, one group per step, percent or fraction, KL as a scaled sum."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvitals.ingest import load
from rlvitals.ingest.chapter7 import ADAPTER
from rlvitals.metrics import is_canonical
from rlvitals.schema import RunConfig, Status
from tests.ingest.tables import finished, first, mapped

CH06 = "step,total_steps,loss,reward_avg,tokens_per_sec,avg_response_len,eval_acc"
V73 = "step,total_steps,loss,reward_avg,tokens_per_sec,avg_response_len,adv_avg,adv_std,entropy_avg,eval_acc"
V74 = V73.replace("eval_acc", "policy_ratio,eval_acc")
V75 = (
    "step,total_steps,loss,kl_loss,policy_ratio,reward_avg,tokens_per_sec,avg_response_len,adv_avg,adv_std,entropy_avg,"
    "eval_acc"
)
V76 = V75.replace("reward_avg,", "reward_avg,format_reward_avg,")
VALUES = {
    "step": 1.0, "total_steps": 500.0, "loss": -0.5, "kl_loss": -0.1, "policy_ratio": 0.9, "reward_avg": 0.125,
    "format_reward_avg": 0.75, "tokens_per_sec": 40.0, "avg_response_len": 300.0, "adv_avg": 0.0, "adv_std": 0.9997,
    "entropy_avg": 1.25, "eval_acc": 15.6,
}  # fmt: skip


@pytest.mark.parametrize(("header", "more"), [
    (CH06, {}),
    (V73, {"entropy": 1.25, "advantage_mean": 0.0, "advantage_std": 0.9997, "zero_variance_frac": 0.0}),
    (V74, {"entropy": 1.25, "advantage_mean": 0.0, "advantage_std": 0.9997, "zero_variance_frac": 0.0,
           "ratio_mean": 0.9}),
    (V75, {"entropy": 1.25, "advantage_mean": 0.0, "advantage_std": 0.9997, "zero_variance_frac": 0.0,
           "ratio_mean": 0.9, "kl_loss": -0.1}),
    (V76, {"entropy": 1.25, "advantage_mean": 0.0, "advantage_std": 0.9997, "zero_variance_frac": 0.0,
           "ratio_mean": 0.9, "kl_loss": -0.1, "reward_part/format": 0.75}),
])  # fmt: skip
def test_header_variants(header: str, more: dict[str, float]) -> None:
    row = {name: VALUES[name] for name in header.split(",")}
    assert ADAPTER.matches(frozenset(row)) == 95
    result = mapped(ADAPTER, [row])
    base = {"loss": -0.5, "reward_mean": 0.125, "tokens_per_second": 40.0, "length_mean": 300.0}
    assert first(result) == base | more
    assert result.unrecognised == ()


def test_console_and_txt_names() -> None:
    row = {"step": 1, "loss": 0.1, "kl": 0.02, "reward_avg": 0.5, "tok/sec": 30.0, "avg_resp_len": 90.0}
    assert ADAPTER.matches(frozenset(row)) == 95
    assert first(mapped(ADAPTER, [row])) == {
        "loss": 0.1, "kl_loss": 0.02, "reward_mean": 0.5, "tokens_per_second": 30.0, "length_mean": 90.0,
    }  # fmt: skip


def test_tied_steps_are_zero_variance() -> None:
    rows = [VALUES | {"step": float(i), "adv_std": std} for i, std in enumerate((0.0, 0.9997, 0.0, 0.0), start=1)]
    assert mapped(ADAPTER, rows).columns["zero_variance_frac"].tolist() == [1.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_eval_accuracy_in_percent_or_fraction(scale: float) -> None:
    rows = [VALUES | {"step": float(i), "eval_acc": scale * acc} for i, acc in enumerate((0.152, 0.46, 0.0), start=1)]
    (evals,) = mapped(ADAPTER, rows).evals
    assert evals.name == "math500"
    assert evals.values.tolist() == pytest.approx([0.152, 0.46, 0.0])


def test_kl_loss_is_a_scaled_sum_and_a_placeholder_without_coefficient() -> None:
    result = mapped(ADAPTER, [VALUES])
    kl = result.provenance["kl_loss"]
    assert (kl.estimator, kl.unit) == ("sequence sum k1", "nats/sequence x coefficient")
    assert finished(ADAPTER, result, RunConfig(kl_coef=0.0))["kl_loss"].status is Status.PLACEHOLDER
    assert finished(ADAPTER, result, RunConfig(kl_coef=0.02))["kl_loss"].status is Status.MEASURED


def test_facts_of_every_script() -> None:
    assert ADAPTER.fixed.prompts_per_step == 1
    assert set(ADAPTER.fixed.known()) == set(ADAPTER.fixed.sources)


def test_words_name_canonical_things() -> None:
    others = {"evals", "checkpoints", "rollouts", "config"}
    assert [n for n in ADAPTER.info.how_to_log if not is_canonical(n) and n not in others] == []


def test_txt_log_with_evaluation_lines(tmp_path: Path) -> None:
    line = "[Step {}/2] loss=0.01 reward_avg={} tokens_per_sec=45.1 avg_response_len=35.6 adv_avg=0.00 adv_std={}"
    log = tmp_path / "7_4_plus_clip_ratio_metrics.txt"
    log.write_text(
        f"{line.format(1, 0.125, '1.00')}\n[Eval step 1] math500_acc=0.15 (75/500)\n{line.format(2, 1.0, '0.00')}\n"
    )
    run = load(log)
    assert run.values("reward_mean").tolist() == [0.125, 1.0]
    assert run.values("zero_variance_frac").tolist() == [0.0, 1.0]
    assert (run.evals["math500"].step.tolist(), run.evals["math500"].score.tolist()) == ([1], [0.15])
    assert run.config.prompts_per_step == 1


def test_real_logs(shared: Path) -> None:
    run = load(shared / "corpus" / "runs" / "ch7_7_5_plus_kl.csv")
    assert run.rows == 500
    assert run.evals["math500"].score[:3].tolist() == pytest.approx([0.156, 0.408, 0.0])
    assert run.values("entropy")[-1] == pytest.approx(11.928205)
    assert run.values("zero_variance_frac")[99:].min() == 1.0
