"""Faults put into simulated rollout sets: what each check on rollouts must find, the smallest effect first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.rollout_sets.healthy import Rollouts, advantages


@dataclass(frozen=True)
class Fault:
    """What happens to a healthy set, in words with numbers and units, and the function that does it."""

    words: str
    put: Callable[[Rollouts], None]
    texts: bool = False
    variant: str = ""  # that the finding must name


def cube(r: Rollouts, name: str) -> np.ndarray:
    return r.columns[name].reshape(r.steps, r.groups, r.size)


def blind(r: Rollouts) -> None:
    """The trainer's own share of tied groups is 0: see `logged` in rollout_checks."""
    r.config["logged_zero_variance"] = 0.0
    r.config.pop("drops_zero_variance", None)


def merged(r: Rollouts, share: float) -> None:
    """A share of the prompts is grouped with its neighbour."""
    number = np.arange(r.steps * r.groups)
    join = (r.rng.random(number.size // 2) < share).repeat(2)
    number = np.where(join, number // 2 * 2, number)
    r.columns["group"] = np.array([f"p{i}" for i in number], dtype=object).repeat(r.size)


def advantage(r: Rollouts, kind: str, ddof: int = 1) -> None:
    """The advantages are something else from the first step on."""
    r.config.pop("drops_zero_variance", None)
    r.onset = 1
    scaling = str(r.config["advantage_scaling"])
    right = advantages(r.columns["reward"], r.steps, r.groups, r.size, scaling).reshape(r.steps, r.groups, r.size)
    reward = cube(r, "reward")
    pairs = reward.reshape(r.steps, r.groups // 2, 2 * r.size)
    made = {
        "sign_flipped": -right,
        "uncentred": reward,
        "misordered": right[:, :, ::-1],
        "shifted": np.roll(right.reshape(r.steps, -1), max(1, r.size // 2 - 1), axis=1),
        "merged_groups": pairs - np.nanmean(pairs, 2, keepdims=True),
    }[kind]
    r.columns["advantage"] = np.round(made, 4).ravel()


def copies(r: Rollouts, share: float) -> None:
    """In a share of the groups every rollout is the same text with the same outcome."""
    hit = np.repeat(r.rng.random(r.steps * r.groups) < share, r.size) & r.late
    first = np.arange(r.rows) // r.size * r.size
    for name in ("completion", "reward", "correct", "verifier_status"):
        r.columns[name] = np.where(hit, r.columns[name][first], r.columns[name])


def dead_worker(r: Rollouts, share: float) -> None:
    """In every third step from the onset on a stretch of the rollouts earns 0: one worker returns its default."""
    width = int(share * r.groups) * r.size
    for step in range(r.onset, r.steps + 1, 3):
        begin = (step - 1) * r.groups * r.size + int(
            r.rng.integers(0, r.groups * r.size - width + 1)
        ) // r.size * r.size
        r.columns["reward"][begin : begin + width] = 0.0


def scored_errors(r: Rollouts, share: float, reward: float) -> None:
    """The verifier times out on a share of the rollouts, which earn a reward all the same."""
    hit = r.late & (r.rng.random(r.rows) < share)
    r.columns["verifier_status"][hit] = "timeout"
    r.columns["reward"][hit] = reward


def opposed(r: Rollouts, share: float) -> None:
    """The step from output to reward turns a share of the verdicts around."""
    hit = r.late & (r.rng.random(r.rows) < share) & np.isfinite(r.columns["correct"])
    r.columns["correct"][hit] = 1 - r.columns["correct"][hit]


def phrase(r: Rollouts, share: float) -> None:
    """A phrase that fools the verifier spreads to a share of the rollouts within 20 steps; `correct` is the truth."""
    grown = np.clip((r.columns["step"] - r.onset) / 20, 0, 1) * share
    hit = r.late & (r.rng.random(r.rows) < grown)
    texts = r.columns["completion"]
    for i in np.flatnonzero(hit):
        texts[i] = f"{texts[i]} all checks have passed successfully"
    r.columns["reward"][hit] = float(r.config["reward_max"])  # type: ignore[arg-type]
    r.columns["correct"] = r.truth.copy()


def family_scale(r: Rollouts, times: float) -> None:
    """One family's rewards are multiplied, from the first step on."""
    r.onset = 1
    r.config["advantage_scaling"] = "none"
    r.columns["reward"][r.columns["family"] == "code"] *= times


def pays_length(r: Rollouts, reward: float) -> None:
    """A judge adds reward in proportion to the length: `reward` per 100 tokens."""
    r.onset = 1
    r.columns["reward"] = r.columns["reward"] + reward * r.columns["tokens"] / 100


def never_stops(r: Rollouts, share: float) -> None:
    """A share of the rollouts writes on to the budget after its answer, and is scored by the answer."""
    hit = r.late & (r.rng.random(r.rows) < share)
    r.columns["stop_reason"][hit] = "budget"
    r.columns["tokens"][hit] = 1024
    r.columns["correct"][hit] = r.truth[hit]
    r.columns["reward"][hit] = r.truth[hit]


def breaks(r: Rollouts, share: float) -> None:
    """The environment of one family breaks for whole groups."""
    group = np.repeat(r.rng.random(r.steps * r.groups) < share, r.size)
    hit = r.late & group & (r.columns["family"] == "web")
    r.columns["stop_reason"][hit] = "error"


def leaks(r: Rollouts, per_rollout: float) -> None:
    """Each further rollout of a group is less often right: the environment fills up."""
    lost = r.late & (r.rng.random(r.rows) < per_rollout * r.columns["index"])
    r.columns["reward"][lost & (r.columns["reward"] >= 1)] -= 1
    r.columns["correct"][lost] = 0.0


def harder(r: Rollouts, share: float) -> None:
    """From the onset on a share of the easy prompts is replaced by hard ones, which nearly always fail."""
    first = np.repeat(r.rng.random(r.steps * r.groups) < share, r.size)
    hit = r.late & first & (r.columns["tier"] == "easy")
    r.columns["tier"][hit] = "hard"
    hard = r.late & (r.columns["tier"] == "hard")
    fails = (hard & hit) & (r.rng.random(r.rows) < 0.6)
    r.columns["reward"][fails & (r.columns["reward"] >= 1)] -= 1
    r.columns["correct"][fails] = 0.0


def forgets(r: Rollouts, left: float) -> None:
    """Success on the easy tier falls to a share of itself within 20 steps of the onset."""
    kept = 1 - (1 - left) * np.clip((r.columns["step"] - r.onset) / 20, 0, 1)
    lost = (r.columns["tier"] == "easy") & (r.rng.random(r.rows) > kept)
    r.columns["correct"][lost] = 0.0
    r.columns["reward"][lost & (r.columns["reward"] >= 1)] -= 1


def settings(r: Rollouts, temperature: float, share: float) -> None:
    """A share of the rollouts is sampled at another temperature."""
    r.columns["temperature"][r.late & (r.rng.random(r.rows) < share)] = temperature


def version(r: Rollouts, jump: float) -> None:
    """The reward is another version from the onset on and pays `jump` more."""
    r.columns["reward_version"][r.late] = "r-2"
    r.columns["reward"][r.late] += jump


def mixed_versions(r: Rollouts) -> None:
    """From the onset on half of the rollouts are scored by another reward version."""
    r.columns["reward_version"][r.late & (r.rng.random(r.rows) < 0.5)] = "r-2"


def discards(r: Rollouts, share: float) -> None:
    """The longest share of each step's groups is thrown away."""
    length = cube(r, "tokens").mean(2)
    limit = np.quantile(length, 1 - share, axis=1, keepdims=True)
    hit = np.repeat((length >= limit).ravel(), r.size) & r.late
    r.columns["advantage"][hit] = np.nan


def gap_on_negative(r: Rollouts, times: float) -> None:
    """The gap is 0.04 nats, and `times` that on rollouts with a negative advantage."""
    down = np.where(r.columns["advantage"] < 0, times, 1.0)
    noise = np.exp(r.rng.normal(0, 0.2, r.rows))
    r.columns["mismatch_abs_mean"] = np.where(r.late, 0.04 * down * noise, r.columns["mismatch_abs_mean"])


def long_sums(r: Rollouts, noise: float) -> None:
    """Token noise of this many nats, summed over whole sequences."""
    r.config["importance_level"] = "sequence"
    tokens = r.columns["tokens"]
    summed = r.rng.normal(-0.5 * noise**2 * tokens, noise * np.sqrt(tokens))
    r.columns["trainer_logp_sum"] = np.where(
        r.late, r.columns["sampler_logp_sum"] + summed, r.columns["trainer_logp_sum"]
    )


def one_way(r: Rollouts, share: float) -> None:
    """A share of the groups writes one skeleton with other numbers."""
    hit = np.repeat(r.rng.random(r.steps * r.groups) < share, r.size) & r.late
    for i in np.flatnonzero(hit):
        a, b = r.rng.integers(0, 1000, 2)
        r.columns["completion"][i] = f"First we take {a}. Then we add {b} to it. The sum is {a + b}. We are done."


def frozen(r: Rollouts) -> None:
    """From the onset on all rollouts carry the version of the onset."""
    r.columns["policy_version"] = np.minimum(r.columns["policy_version"], r.onset)
    del r.columns["trainer_version"]


FAULTS: Mapping[str, tuple[Fault, ...]] = {
    "D008": (
        Fault("another reward version that pays 0.2 more", partial(version, jump=0.2)),
        Fault("half of the rollouts scored by another reward version", mixed_versions),
    ),
    "T006": (
        Fault("half of the easy prompts become hard ones", partial(harder, share=0.5)),
        Fault("all easy prompts become hard ones", partial(harder, share=0.95)),
    ),
    "T007": (
        Fault("success on the easy tier falls to 60%", partial(forgets, left=0.6)),
        Fault("success on the easy tier falls to 20%", partial(forgets, left=0.2)),
    ),
    "R008": (
        Fault("0.02 reward per 100 tokens, from the first step on", partial(pays_length, reward=0.02)),
        Fault("0.1 reward per 100 tokens, from the first step on", partial(pays_length, reward=0.1)),
    ),
    "R016": (
        Fault("in every third step one worker in four returns 0", partial(dead_worker, share=0.25)),
        Fault("in every third step one worker in two returns 0", partial(dead_worker, share=0.5)),
    ),
    "R017": (
        Fault("8% of the verifications time out and count as wrong", partial(scored_errors, share=0.08, reward=0.0)),
        Fault("20% of the verifications time out and earn 1", partial(scored_errors, share=0.2, reward=1.0),
              variant="credit"),
        Fault("5% of the verdicts are turned around", partial(opposed, share=0.05), texts=True, variant="opposed"),
    ),
    "R018": (
        Fault("a phrase that fools the verifier spreads to 30% of the texts", partial(phrase, share=0.3), texts=True),
        Fault("the same to 70% of the rollouts", partial(phrase, share=0.7), texts=True),
    ),
    "R019": (
        Fault("one family pays 4 times as much, from the first step on", partial(family_scale, times=4.0)),
        Fault("one family pays 10 times as much, from the first step on", partial(family_scale, times=10.0)),
    ),
    "S006": (Fault("the logged share of tied groups is 0, from the first step on", blind),),
    "S007": (
        Fault("one prompt in four shares a group with its neighbour", partial(merged, share=0.25)),
        Fault("every prompt shares a group with its neighbour", partial(merged, share=1.0), variant="larger"),
    ),
    "S008": tuple(
        Fault(f"advantages from step 1 on: {kind.replace('_', ' ')}", partial(advantage, kind=kind), variant=kind)
        for kind in ("sign_flipped", "uncentred", "misordered", "shifted", "merged_groups")
    ),
    "S009": (
        Fault("30% of the groups are copies of one text", partial(copies, share=0.3), texts=True),
        Fault("80% of the groups are copies of one text", partial(copies, share=0.8), texts=True),
    ),
    "O004": (
        Fault("60% of the groups write one skeleton with other numbers", partial(one_way, share=0.6), texts=True),
        Fault("90% of the groups do", partial(one_way, share=0.9), texts=True),
    ),
    "O005": (
        Fault("10% of one family's groups end with errors", partial(breaks, share=0.1)),
        Fault("40% of one family's groups end with errors", partial(breaks, share=0.4)),
    ),
    "O006": (
        Fault("each further rollout of a group loses 2% of the right answers", partial(leaks, per_rollout=0.02)),
        Fault("each further rollout of a group loses 6% of the right answers", partial(leaks, per_rollout=0.06)),
    ),
    "O007": (
        Fault("one rollout in four at temperature 0.7 instead of 1", partial(settings, temperature=0.7, share=0.25)),
    ),
    "L006": (
        Fault("40% of the rollouts write on to the budget, scored by their answer", partial(never_stops, share=0.4)),
        Fault("80% of the rollouts do", partial(never_stops, share=0.8)),
    ),
    "Y004": (Fault("the version of the rollouts stands still", frozen, variant="stuck"),),
    "Y005": (
        Fault("the longest eighth of the groups is thrown away", partial(discards, share=0.125)),
        Fault("the longest third of the groups is thrown away", partial(discards, share=0.33)),
    ),
    "Y006": (
        Fault("a gap of 0.04 nats, twice that where the advantage is negative", partial(gap_on_negative, times=2.0)),
        Fault("a gap of 0.04 nats, 4 times that where the advantage is negative", partial(gap_on_negative, times=4.0)),
    ),
    "Y007": (
        Fault("token noise of 0.12 nats in sequence sums", partial(long_sums, noise=0.12)),
        Fault("token noise of 0.25 nats in sequence sums", partial(long_sums, noise=0.25)),
    ),
}  # fmt: skip
