"""METRICS: the canonical vocabulary. One row per metric: unit, range, what it measures, how a healthy run looks.

A name that ends in `/*` is an open family: `reward_part/*` stands for `reward_part/format`, `reward_part/correct` ...
How to log a metric in a given trainer stands in that trainer's adapter (`ingest/<trainer>.py`, `how_to_log`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlvitals.schema import Direction

INF = math.inf


@dataclass(frozen=True, slots=True)
class Metric:
    """One canonical metric.

    Attributes:
        low, high: the range of possible values, whatever the run's health.
        variants: estimators or definitions that trainers log under this name; never compared with one another.
        direction: for divergences, between which policies.
        zero_may_mean_unmeasured: trainers write a constant 0 for it when it is not measured.
        logged_as: the item of "What to log" (1-10) it belongs to, 0 for none.
    """

    name: str
    unit: str
    low: float
    high: float
    measures: str
    healthy: str
    variants: tuple[str, ...] = ()
    direction: Direction | None = None
    zero_may_mean_unmeasured: bool = False
    what_to_log: int = 0


_REF, _OLD, _SMP = Direction.TO_REFERENCE, Direction.OLD_NEW, Direction.SAMPLER_TRAINER

METRICS: tuple[Metric, ...] = (
    # reward
    Metric(
        "reward_mean",
        "reward",
        -INF,
        INF,
        "Mean total reward of the step's rollouts, before KL terms.",
        "Rises within its own noise, then flattens below the maximum; read it against the held-out score.",
        what_to_log=1,
    ),
    Metric(
        "reward_std",
        "reward",
        0,
        INF,
        "Spread of the rewards of a step.",
        "Stays above 0; the within-group form says how much signal the groups carry.",
        variants=("batch", "group"),
        what_to_log=1,
    ),
    Metric(
        "reward_min",
        "reward",
        -INF,
        INF,
        "Smallest total reward of the step.",
        "Below reward_mean.",
        what_to_log=1,
    ),
    Metric(
        "reward_max",
        "reward",
        -INF,
        INF,
        "Largest total reward of the step.",
        "Above reward_mean.",
        what_to_log=1,
    ),
    Metric(
        "reward_part/*",
        "reward",
        -INF,
        INF,
        "Mean of one reward function or component, unweighted where possible.",
        "Components move together with correctness; a cheap one that rises alone is being farmed.",
        what_to_log=1,
    ),
    Metric(
        "reward_part_std/*",
        "reward",
        0,
        INF,
        "Spread of one reward component over the step's rollouts.",
        "0 in every step means that the component says nothing.",
        what_to_log=1,
    ),
    Metric(
        "reward_family/*",
        "reward",
        -INF,
        INF,
        "Mean reward of one task family, data source or environment.",
        "Every family is above its floor; one stuck at its floor while others move has a dead verifier.",
        what_to_log=1,
    ),
    Metric(
        "gold_given/*",
        "rollouts",
        0,
        INF,
        "Rollouts of one data source whose final answer is the gold answer, letter by letter.",
        "Every one of them earns the full reward.",
        what_to_log=1,
    ),
    Metric(
        "gold_missed/*",
        "rollouts",
        0,
        INF,
        "Rollouts of one data source that give the gold answer and earn no reward.",
        "0.",
        what_to_log=1,
    ),
    Metric(
        "success_frac",
        "fraction",
        0,
        1,
        "Share of rollouts that solve their task, format and shaping left out.",
        "Rises with the reward.",
        what_to_log=3,
    ),
    Metric(
        "success_tier/*",
        "fraction",
        0,
        1,
        "Success rate of the current policy on one curriculum tier.",
        "Between 0.1 and 0.9 on the tier that is being trained.",
        what_to_log=3,
    ),
    Metric(
        "parse_failure_frac",
        "fraction",
        0,
        1,
        "Share of rollouts whose answer the parser could not read.",
        "Falls early and stays low without the reward being made of that fall.",
        what_to_log=4,
    ),
    Metric(
        "verifier_error_frac",
        "fraction",
        0,
        1,
        "Share of rollouts for which the verifier failed or timed out.",
        "0; an error is not a zero reward.",
        what_to_log=1,
    ),
    # signal
    Metric(
        "zero_variance_frac",
        "fraction",
        0,
        1,
        "Share of groups whose rewards are all the same: no learning signal.",
        "Near p^G + (1-p)^G for the pass rates p; well below half leaves most of the batch useful.",
        what_to_log=2,
    ),
    Metric(
        "all_wrong_frac",
        "fraction",
        0,
        1,
        "Share of groups in which every rollout fails.",
        "Falls as the task is learnt.",
        what_to_log=2,
    ),
    Metric(
        "all_right_frac",
        "fraction",
        0,
        1,
        "Share of groups in which every rollout succeeds.",
        "Rises as the task is learnt; near 1 the task is used up.",
        what_to_log=2,
    ),
    Metric(
        "dropped_group_frac",
        "fraction",
        0,
        1,
        "Share of groups that dynamic sampling or a filter threw away.",
        "Steady; while it is on, batch statistics describe the kept groups alone.",
    ),
    Metric(
        "advantage_mean",
        "advantage",
        -INF,
        INF,
        "Mean group-relative advantage.",
        "0 by construction over sequences; a token-weighted mean is not (it is the covariance with length).",
        variants=("sequence mean", "token mean"),
    ),
    Metric(
        "advantage_std",
        "advantage",
        0,
        INF,
        "Spread of the advantages of a step.",
        "sqrt(1 - share of tied groups) when scaled by group std; one group per step makes it 0 or 1.",
    ),
    Metric(
        "advantage_min",
        "advantage",
        -INF,
        INF,
        "Smallest advantage of the step.",
        "Below 0 when any group is mixed.",
    ),
    Metric(
        "advantage_max",
        "advantage",
        -INF,
        INF,
        "Largest advantage of the step.",
        "Above 0 when any group is mixed.",
    ),
    # length
    Metric(
        "length_mean",
        "tokens",
        0,
        INF,
        "Mean completion length.",
        "Drifts slowly; a fall or rise with falling accuracy is a symptom.",
        what_to_log=5,
    ),
    Metric(
        "length_min",
        "tokens",
        0,
        INF,
        "Shortest completion of the step.",
        "Below length_mean.",
        what_to_log=5,
    ),
    Metric(
        "length_max",
        "tokens",
        0,
        INF,
        "Longest completion of the step.",
        "Below the token budget.",
        what_to_log=5,
    ),
    Metric(
        "length_std",
        "tokens",
        0,
        INF,
        "Spread of the completion lengths of a step.",
        "Above 0.",
        what_to_log=5,
    ),
    Metric(
        "length_right_mean",
        "tokens",
        0,
        INF,
        "Mean length of completions that earned reward.",
        "Near the mean of those that did not.",
        what_to_log=5,
    ),
    Metric(
        "length_wrong_mean",
        "tokens",
        0,
        INF,
        "Mean length of completions that earned none.",
        "Near the mean of those that did.",
        what_to_log=5,
    ),
    Metric(
        "terminated_length_mean",
        "tokens",
        0,
        INF,
        "Mean length of the completions that stopped by themselves.",
        "0 means that none did.",
        what_to_log=5,
    ),
    Metric("prompt_length_mean", "tokens", 0, INF, "Mean prompt length.", "Steady for one data set."),
    Metric(
        "truncated_frac",
        "fraction",
        0,
        1,
        "Share of completions cut at the token budget.",
        "Below 0.05 for most of a run; above 0.1 it starts to decide the reward.",
        variants=("no stop token", "at budget", "finish reason"),
        what_to_log=4,
    ),
    Metric(
        "stop_frac/*",
        "fraction",
        0,
        1,
        "Share of rollouts that ended for one reason.",
        "Steady per task family.",
        what_to_log=7,
    ),
    Metric("turns_mean", "turns", 0, INF, "Mean number of model turns per rollout.", "Steady."),
    Metric(
        "tool_failure_frac",
        "fraction",
        0,
        1,
        "Share of tool calls that failed.",
        "Low and steady.",
        what_to_log=7,
    ),
    Metric("repetition_frac", "fraction", 0, 1, "Share of completions that loop.", "Near 0."),
    Metric("unique_frac", "fraction", 0, 1, "Share of different completions within groups.", "Well above 1/G."),
    # entropy
    Metric(
        "entropy",
        "nats/token",
        0,
        INF,
        "Policy entropy per completion token at the sampling temperature.",
        "Declines gradually or settles from the model's own start (0.1 to 3 nats); a cliff or a climb is a symptom.",
        variants=("full vocabulary", "sampled"),
        zero_may_mean_unmeasured=True,
        what_to_log=6,
    ),
    Metric(
        "surprisal_mean",
        "nats/token",
        0,
        INF,
        "Mean negative log-probability, under the trainer's policy, of the tokens that the sampler drew.",
        "Equal to the entropy on the same tokens; below it when the sampler was sharper than the trainer assumes.",
    ),
    # update
    Metric(
        "loss",
        "loss",
        -INF,
        INF,
        "Training loss as logged.",
        "No health signal by itself: near 0 by construction on policy.",
    ),
    Metric("policy_loss", "loss", -INF, INF, "Policy-gradient part of the loss.", "No health signal by itself."),
    Metric(
        "grad_norm",
        "norm",
        0,
        INF,
        "Gradient norm before clipping.",
        "Within a small factor of this run's own median; no universal band.",
    ),
    Metric("learning_rate", "1/step", 0, INF, "Learning rate.", "Follows the schedule."),
    Metric(
        "clip_frac",
        "fraction",
        0,
        1,
        "Share of tokens (or sequences) whose ratio was clipped.",
        "0 with one update per rollout batch; else 0.0005 to 0.02 per token, about 100 times more for sequence ratios.",
        variants=("token", "sequence", "either side"),
        zero_may_mean_unmeasured=True,
    ),
    Metric(
        "clip_low_frac",
        "fraction",
        0,
        1,
        "Share clipped at the lower bound.",
        "Small.",
        zero_may_mean_unmeasured=True,
    ),
    Metric(
        "clip_high_frac",
        "fraction",
        0,
        1,
        "Share clipped at the upper bound.",
        "Small.",
        zero_may_mean_unmeasured=True,
    ),
    Metric(
        "ratio_mean",
        "ratio",
        0,
        INF,
        "Mean importance ratio of new to old policy.",
        "Near 1; exactly 1 on policy.",
    ),
    Metric(
        "ratio_max",
        "ratio",
        0,
        INF,
        "Largest importance ratio of the step.",
        "A small multiple of the clip range.",
    ),
    Metric(
        "ratio_min",
        "ratio",
        0,
        INF,
        "Smallest importance ratio of the step.",
        "A small multiple of the clip range.",
    ),
    # leash
    Metric(
        "kl_ref",
        "nats/token",
        -INF,
        INF,
        "KL divergence of the current policy to the reference.",
        "0 before the first update, then settles or creeps like sqrt(step); the level alone means nothing.",
        variants=("k1", "k2", "k3", "exact", "sequence sum k1", "scaled"),
        direction=_REF,
        zero_may_mean_unmeasured=True,
        what_to_log=6,
    ),
    Metric("kl_coef", "1", 0, INF, "Coefficient of the KL term in force.", "As configured."),
    Metric(
        "kl_loss",
        "loss",
        -INF,
        INF,
        "KL part of the loss: coefficient times a KL estimate.",
        "Small against the policy loss.",
        zero_may_mean_unmeasured=True,
    ),
    Metric(
        "kl_old_new",
        "nats/token",
        -INF,
        INF,
        "Divergence of the old (rollout) policy to the updated one.",
        "Near 0; says nothing about the distance to the reference.",
        variants=("k1", "k2", "k3"),
        direction=_OLD,
    ),
    # sync
    Metric(
        "kl_sampler_trainer",
        "nats/token",
        -INF,
        INF,
        "Divergence between sampler and trainer on the same tokens.",
        "3e-4 to 2e-3 (k3) for dense bf16 models; 1e-2 needs a look.",
        variants=("k1", "k2", "k3"),
        direction=_SMP,
    ),
    Metric(
        "logprob_gap_mean",
        "nats",
        0,
        INF,
        "Mean absolute difference of sampler and trainer log-probabilities.",
        "0.005 to 0.03 for dense bf16 models, the same after the first update as before.",
        direction=_SMP,
    ),
    Metric(
        "logprob_gap_max",
        "nats",
        0,
        INF,
        "Largest such difference.",
        "Heavy tailed: never judged alone.",
        direction=_SMP,
    ),
    Metric(
        "prob_gap_mean",
        "probability",
        0,
        1,
        "Mean absolute difference of sampler and trainer probabilities.",
        "Below 0.005.",
        direction=_SMP,
    ),
    Metric(
        "prob_gap_max",
        "probability",
        0,
        1,
        "Largest such difference.",
        "Reaches 1 in healthy runs.",
        direction=_SMP,
    ),
    Metric(
        "sampler_corr",
        "correlation",
        -1,
        1,
        "Correlation of sampler and trainer probabilities.",
        "Above 0.99.",
        direction=_SMP,
    ),
    Metric(
        "sampler_ratio_mean",
        "ratio",
        0,
        INF,
        "Mean importance ratio of trainer to sampler.",
        "1; a token mean below 1 equals the probability mass that top-p or top-k kept.",
        variants=("token", "sequence", "after truncation"),
        direction=_SMP,
    ),
    Metric("sampler_ratio_min", "ratio", 0, INF, "Smallest such ratio.", "Above 0.", direction=_SMP),
    Metric(
        "sampler_ratio_max",
        "ratio",
        0,
        INF,
        "Largest such ratio.",
        "Bounded by the correction's cap.",
        direction=_SMP,
    ),
    Metric(
        "effective_sample_frac",
        "fraction",
        0,
        1,
        "Effective sample size of the importance weights.",
        "Above 0.5; its trend matters more than its level.",
        direction=_SMP,
    ),
    Metric(
        "version_lag_mean",
        "versions",
        0,
        INF,
        "Mean policy versions between sampling and training.",
        "Below the tolerance that was chosen on purpose.",
        what_to_log=8,
    ),
    Metric(
        "version_lag_max",
        "versions",
        0,
        INF,
        "Largest such lag of the step.",
        "Below the tolerance.",
        what_to_log=8,
    ),
    # bookkeeping
    Metric("step_time_s", "s", 0, INF, "Wall time of the step.", "Steady."),
    Metric("tokens_per_second", "tokens/s", 0, INF, "Throughput.", "Steady."),
    Metric("tokens_total", "tokens", 0, INF, "Tokens seen so far or in the step.", "Grows or stays steady."),
    Metric("epoch", "epochs", 0, INF, "Passes over the data.", "Grows."),
)

_EXACT = {m.name: m for m in METRICS if not m.name.endswith("/*")}
FAMILIES: tuple[str, ...] = tuple(m.name[:-1] for m in METRICS if m.name.endswith("/*"))
_FAMILY = {m.name[:-1]: m for m in METRICS if m.name.endswith("/*")}


def lookup(name: str) -> Metric | None:
    """Return the row of a canonical metric or of the open family that a name belongs to."""
    found = _EXACT.get(name)
    if found is not None:
        return found
    head, slash, tail = name.partition("/")
    return _FAMILY.get(head + "/") if slash and tail else None


def is_canonical(name: str) -> bool:
    """True for a name of the vocabulary, families included."""
    return lookup(name) is not None
