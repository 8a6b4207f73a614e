"""Effects for the checks of task (T), reward (R) and held-out scores (H)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.effects.draft import Draft, NoRoom, between, drift, ramp, replay, shares, standing, to_end
from benchmarks.fault_series import coloured
from rlvitals.schema import Float64

BEST = 20  # rows of the best stretch


def plain(d: Draft) -> None:
    """Pay nothing for the format: the reward is the pass rate, between 0 and 1, and the config says so."""
    replay(d, d.rate, weight=0.0)
    d.configure(reward_min=0.0, reward_max=1.0)


def rare(d: Draft, per_step: float) -> None:
    """Successes are so rare from the first step on that a step has `per_step` of them on average."""
    d.at = 0
    wins = d.rng.binomial(d.rollouts, min(per_step / d.rollouts, 0.015), size=d.rows)
    mixed = np.minimum(wins, d.spec.prompts) / d.spec.prompts
    reward = wins / d.rollouts
    d.columns |= {
        "reward_mean": reward,
        "reward_part/correct": reward.copy(),
        "zero_variance_frac": 1 - mixed,
        "all_wrong_frac": 1 - mixed,
        "all_right_frac": np.zeros(d.rows),
        "reward_max": (wins > 0).astype(float),
        "reward_min": np.zeros(d.rows),
        "reward_std": np.sqrt(reward * (1 - reward)),
    }
    d.configure(reward_min=0.0, reward_max=1.0)


def solved(d: Draft, rate: float, held_out: float) -> None:
    """Training and held-out reach a level within 50 rows."""
    _need_evals(d)
    plain(d)
    replay(d, standing(d) + (rate - standing(d)) * ramp(d, 50))
    _held_out(d, lambda before, w: before + (held_out - before) * w, over=50)


def constant(d: Draft) -> None:
    """Every rollout earns 0."""
    zero = ("reward_mean", "reward_std", "reward_max", "reward_min", "all_right_frac", "advantage_std", "advantage_max")
    for name in (*zero, "advantage_min", "advantage_mean", "reward_part/correct", "reward_part/format"):
        d.columns[name][d.at :] = 0.0
    for name in ("zero_variance_frac", "all_wrong_frac"):
        d.columns[name][d.at :] = 1.0


def fall(d: Draft, left: float, over: int = 20) -> None:
    """The reward falls to a share of the level of its best 20 rows."""
    plain(d)
    best = np.convolve(d.rate[: d.at], np.full(BEST, 1 / BEST), mode="valid").max()
    replay(d, standing(d) + (left * best - standing(d)) * ramp(d, over))


def decline(d: Draft, by: float) -> None:
    """The pass rate falls in line until the last row."""
    plain(d)
    if d.rate[d.at] < by + 0.02:
        raise NoRoom
    replay(d, standing(d) - by * to_end(d))


def parts(d: Draft, truth: Float64) -> None:
    """The format part, paid 0.5, is learned within 60 rows; the task part follows another course (float64[N])."""
    d.weight = 0.5
    d.columns["reward_part/format"] = shares(d, between(d, 0.3, 0.9, 60))
    d.columns["reward_part/correct"] = shares(d, truth)
    d.columns["reward_mean"] = d.columns["reward_part/correct"] + 0.5 * d.columns["reward_part/format"]


def truth_falls(d: Draft, by: float) -> None:
    """The task part falls by a share of its level while the format is learned."""
    parts(d, d.rate[d.at] * (1 - by * ramp(d, 60)))


def truth_flat(d: Draft) -> None:
    """The task part stands still from the first step on while the format is learned."""
    parts(d, np.full(d.rows, d.rate[0]))


def unread(d: Draft, share: float) -> None:
    """Answers that the parser cannot read, from 2%."""
    d.columns["parse_failure_frac"] = shares(d, between(d, 0.02, share))


def parsing(d: Draft, before: float, after: float) -> None:
    """Parse failures fall within 100 rows; of the answers that are read, 40% are right all along."""
    read = 1 - shares(d, between(d, before, after, 100))
    d.columns["parse_failure_frac"] = 1 - read
    d.columns["reward_mean"] = d.rng.binomial(np.maximum(np.rint(read * d.rollouts), 0).astype(int), 0.4) / d.rollouts


def dead_source(d: Draft) -> None:
    """One of three sources earns 0 in every rollout."""
    for name, ease in (("algebra", 1.0), ("code", 0.8), ("geometry", 0.6)):
        d.columns[f"reward_family/{name}"] = shares(d, d.rate * ease)
    d.columns["reward_family/geometry"][d.at :] = 0.0


def perfect(d: Draft, rate: float) -> None:
    """The pass rate from the first step on."""
    d.at = 0
    plain(d)
    replay(d, np.full(d.rows, rate))


def coupled(d: Draft, correlation: float) -> None:
    """Reward and length move together from step to step, while the length grows by half until the last row."""
    phi = float(d.rng.choice((0.0, 0.3, 0.6)))
    a, b = (coloured(d.rng, d.rows, phi) for _ in range(2))
    mixed = np.where(ramp(d) > 0, correlation * a + np.sqrt(1 - correlation**2) * b, b)
    d.columns["length_mean"] = np.median(d.columns["length_mean"]) * (1 + 0.5 * to_end(d)) * np.exp(0.05 * a)
    d.columns["reward_mean"] = standing(d) + 0.03 * mixed


def saturated(d: Draft, rate: float) -> None:
    """The pass rate reaches its end within 50 rows."""
    plain(d)
    replay(d, standing(d) + (rate - standing(d)) * ramp(d, 50))


def flat(d: Draft, kl: float | None = None) -> None:
    """The reward stands still from the first step on; the KL to the reference too, where it is given."""
    d.at = 0
    replay(d, np.full(d.rows, d.rate[0]), weight=0.0)
    d.configure(reward_min=0.0, reward_max=1.0)
    if kl is not None:
        d.columns["kl_ref"] = kl * np.exp(0.15 * drift(d))


def verifier_errors(d: Draft, share: float) -> None:
    """Rollouts on which the verifier fails, from 0.5%."""
    d.columns["verifier_error_frac"] = shares(d, between(d, 0.005, share))


def dead_part(d: Draft) -> None:
    """A third component is 0 in every row."""
    d.at = 0
    d.columns["reward_part/style"] = np.zeros(d.rows)


def gold_missed(d: Draft, share: float, *, from_start: bool) -> None:
    """Of the rollouts that give the gold answer, a share earns nothing."""
    d.at = 0 if from_start else d.at
    given = d.rng.poisson(0.1 * d.rollouts, d.rows).astype(float)
    d.columns["gold_given/code"] = given
    d.columns["gold_missed/code"] = d.rng.binomial(given.astype(int), share * ramp(d)).astype(float)


def events(d: Draft, cases: str, found: str, share: float, *, from_start: bool) -> None:
    """Of a tenth of the rollouts, counted in one column, a share is counted in another one too."""
    d.at = 0 if from_start else d.at
    n = d.rng.poisson(0.1 * d.rollouts, d.rows)
    d.columns[f"rollouts/{cases}"] = n.astype(float)
    d.columns[f"rollouts/{found}"] = d.rng.binomial(n, share * ramp(d)).astype(float)


def _need_evals(d: Draft) -> None:
    if not d.evals:
        raise NoRoom


def _held_out(d: Draft, truth, over: int = 1) -> None:  # type: ignore[no-untyped-def]
    """Draw the held-out scores after the onset anew: truth(level before, how far the effect is) is their mean."""
    for name, held in d.evals.items():
        late = held.step >= d.step[d.at]
        if late.sum() < 2 or (~late).sum() < 2:
            raise NoRoom
        before = float(held.score[~late][-3:].mean())
        far = np.clip((held.step - d.step[d.at] + 1) / over, 0.0, 1.0)
        rates = np.clip(truth(before, far), 0.005, 0.995)
        score = np.where(late, d.rng.binomial(held.items, rates) / held.items, held.score)
        d.evals[name] = replace(held, score=score, stderr=np.sqrt(score * (1 - score) / held.items))


def not_following(d: Draft, gain: float) -> None:
    """Training gains a share of its range until the last row; the held-out score stays where it is."""
    _need_evals(d)
    plain(d)
    begin = min(d.rate[d.at], 0.9 - gain)
    if begin < 0.05:
        raise NoRoom
    replay(d, begin + gain * to_end(d))
    _held_out(d, lambda before, w: before + 0 * w)


def regression(d: Draft, by: float) -> None:
    """The held-out score falls by a share of its level."""
    _need_evals(d)
    _held_out(d, lambda before, w: before * (1 - by * w))


def passed(d: Draft, errors: float) -> None:
    """The held-out score falls by a number of standard errors of a difference."""
    _need_evals(d)
    items = next(iter(d.evals.values())).items
    _held_out(d, lambda before, w: before - errors * w * np.sqrt(2 * before * (1 - before) / items))
