"""The names under which /metrics shows a run: one table for the exporter, the alert rules and the dashboard.

`grpo_advantage_std`, `grpo_policy_entropy` and `grpo_kl_to_reference_sum` / `_count` are the names of the runbook
"GRPO training-run health check", so that its queries work as written. The others are the canonical names after `grpo_`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlvitals.check import Family
from rlvitals.metrics import lookup

KL_SUMMARY = "grpo_kl_to_reference"  # with _sum and _count: logged values of estimators that cannot be negative
KL_SIGNED = "grpo_kl_to_reference_signed"
HELD_OUT = "grpo_held_out_score"
HELD_OUT_STEP = "grpo_held_out_step"
FINDING = "rlvitals_finding"
CHECKS = "rlvitals_checks"
STEP = "rlvitals_step"
ROWS = "rlvitals_rows"  # a counter: shown as rlvitals_rows_total
LAST_ROW = "rlvitals_last_row_timestamp_seconds"
INTERVAL = "rlvitals_row_interval_seconds"
ACTIVE = "rlvitals_run_active"
REFUSED = "rlvitals_values_refused"  # a counter: shown as rlvitals_values_refused_total

NON_NEGATIVE = frozenset({"k2", "k3", "exact"})
"""KL estimators that are never below 0: k2 is a square, k3 is x - 1 - log x, a divergence is one by definition."""
NO_ESTIMATOR = "unknown"


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge of /metrics and the canonical metric that it shows."""

    name: str
    metric: str
    family: Family  # under which the dashboard shows it

    @property
    def unit(self) -> str:
        row = lookup(self.metric)
        return row.unit if row is not None else ""

    @property
    def help(self) -> str:
        """What it measures, with its unit."""
        row = lookup(self.metric)
        return f"{row.measures} Unit: {row.unit}." if row is not None else ""


GAUGES: tuple[Gauge, ...] = (
    Gauge("grpo_reward_mean", "reward_mean", Family.REWARD),
    Gauge("grpo_reward_std", "reward_std", Family.REWARD),
    Gauge("grpo_success_frac", "success_frac", Family.TASK),
    Gauge("grpo_parse_failure_frac", "parse_failure_frac", Family.REWARD),
    Gauge("grpo_verifier_error_frac", "verifier_error_frac", Family.REWARD),
    Gauge("grpo_zero_variance_frac", "zero_variance_frac", Family.SIGNAL),
    Gauge("grpo_all_wrong_frac", "all_wrong_frac", Family.SIGNAL),
    Gauge("grpo_all_right_frac", "all_right_frac", Family.SIGNAL),
    Gauge("grpo_advantage_mean", "advantage_mean", Family.SIGNAL),
    Gauge("grpo_advantage_std", "advantage_std", Family.SIGNAL),
    Gauge("grpo_completion_length_mean", "length_mean", Family.LENGTH),
    Gauge("grpo_truncated_frac", "truncated_frac", Family.LENGTH),
    Gauge("grpo_repetition_frac", "repetition_frac", Family.ROLLOUT),
    Gauge("grpo_policy_entropy", "entropy", Family.ENTROPY),
    Gauge("grpo_grad_norm", "grad_norm", Family.UPDATE),
    Gauge("grpo_learning_rate", "learning_rate", Family.UPDATE),
    Gauge("grpo_clip_frac", "clip_frac", Family.UPDATE),
    Gauge("grpo_clip_low_frac", "clip_low_frac", Family.UPDATE),
    Gauge("grpo_clip_high_frac", "clip_high_frac", Family.UPDATE),
    Gauge("grpo_kl_sampler_trainer", "kl_sampler_trainer", Family.SYNC),
    Gauge("grpo_logprob_gap_mean", "logprob_gap_mean", Family.SYNC),
    Gauge("grpo_effective_sample_frac", "effective_sample_frac", Family.SYNC),
    Gauge("grpo_version_lag_mean", "version_lag_mean", Family.SYNC),
)
BY_METRIC = {g.metric: g for g in GAUGES}
