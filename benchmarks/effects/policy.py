"""Effects for the checks of entropy (E), leash (K), length (L) and rollouts (O)."""

from __future__ import annotations

import numpy as np

from benchmarks.effects.draft import Draft, between, drift, here, ramp, replay, shares, start, steer, to_end
from benchmarks.effects.reward import fall, flat, plain
from rlvitals.schema import Event, EventKind


def entropy_falls(d: Draft, left: float, reward_left: float | None = None) -> None:
    """Entropy falls to a share of its start within 100 rows; so does the reward, where it is given."""
    if reward_left is not None:
        fall(d, reward_left, over=100)
    steer(d, "entropy", left * start(d, "entropy"), 100)


def entropy_runs(d: Draft, factor: float, nats: float, reward_left: float | None = None) -> None:
    """Entropy rises within 100 rows to a multiple of its start, at least by a number of nats."""
    if reward_left is not None:
        fall(d, reward_left, over=100)
    begin = start(d, "entropy")
    steer(d, "entropy", max(factor * begin, begin + nats), 100)


def entropy_random(d: Draft, of_maximum: float) -> None:
    """Entropy rises within 100 rows to a share of the logarithm of the vocabulary size."""
    top = float(np.log(d.config.vocab_size or 151_936))
    noise = 0.02 * drift(d)
    target = here(d, "entropy") * (of_maximum * top / here(d, "entropy")) ** ramp(d, 100)
    d.columns["entropy"][d.at :] = np.minimum(target * np.exp(noise), top)[d.at :]


def entropy_climbs(d: Draft, factor: float) -> None:
    """Entropy climbs by the same share in every row, to a multiple of its start at the last one."""
    begin, end = here(d, "entropy"), factor * start(d, "entropy")
    steer(d, "entropy", begin * (end / begin) ** to_end(d))


def kl_grows(d: Draft, exponent: float, least: float) -> None:
    """KL grows like a power of the step, from its level of the onset, at least from `least` nats."""
    lift = max(least / max(here(d, "kl_ref"), 1e-9), 1.0)
    d.columns["kl_ref"] *= lift
    steer(d, "kl_ref", here(d, "kl_ref") * (np.maximum(d.step / d.step[d.at], 1.0)) ** exponent)


def kl_jumps(d: Draft, factor: float, least: float) -> None:
    """KL jumps to a multiple of its level, at least `least` nats."""
    steer(d, "kl_ref", max(factor * here(d, "kl_ref"), least))


def kl_pinned(d: Draft, nats: float) -> None:
    """KL stays at a level from the first step on, and the reward does not move."""
    flat(d, nats)


def kl_early(d: Draft, nats: float) -> None:
    """KL in the first row, whose learning rate is 0."""
    d.at = 0
    d.columns["learning_rate"][0] = 0.0
    d.columns["kl_ref"][0] = nats


def kl_negative_k3(d: Draft, nats: float) -> None:
    """One value of a k3 estimate is negative."""
    d.configure(kl_estimator="k3")
    d.columns["kl_ref"][d.at] = nats


def kl_negative_k1(d: Draft, nats: float, sd: float) -> None:
    """A signed estimate goes from a mean of 0.005 nats to a negative one; its noise is `sd` nats per row."""
    d.columns["kl_ref"] = between(d, 0.005, nats) + sd * drift(d)


def kl_anew(d: Draft, over: int, *, resumed: bool) -> None:
    """KL falls to 0 and grows in line, to be at its own course again `over` rows later; `resumed`: at a resume."""
    d.columns["kl_ref"][d.at :] *= np.minimum(np.arange(d.rows - d.at) / over, 1.0)
    if resumed:
        d.events = (*d.events, Event(EventKind.RESUME, int(d.step[d.at])))


def cut(d: Draft, share: float) -> None:
    """Completions cut at the token budget."""
    d.columns["truncated_frac"][d.at :] = shares(d, share)[d.at :]


def nothing_ends(d: Draft, share: float) -> None:
    """All but a few completions are cut: every length is the budget."""
    cut(d, share)
    for name, part in (("length_mean", 0.995), ("length_max", 1.0), ("length_min", 0.9)):
        d.columns[name][d.at :] = part * float(d.config.token_budget or 0)


def longer(d: Draft, factor: float, reward_left: float | None = None) -> None:
    """Length grows to a multiple of its start within 100 rows; the reward never rises, or falls where it is given."""
    if reward_left is not None:
        fall(d, reward_left, over=100)
    else:
        at = d.at
        flat(d)
        d.at = at
    steer(d, "length_mean", factor * start(d, "length_mean"), 100)


def shorter(d: Draft, left: float, reward: float) -> None:
    """Length shrinks to a share of its start within 30 rows, and the pass rate to a level."""
    plain(d)
    replay(d, d.rate + (reward - d.rate) * ramp(d, 30))
    steer(d, "length_mean", left * float(d.columns["length_mean"][:5].mean()), 30)


def surprisal_gap(d: Draft, share: float) -> None:
    """The surprisal of the sampled tokens differs from the entropy by a share of it."""
    d.columns["surprisal_mean"] = d.columns["entropy"] * (between(d, 1.0, 1 + share) + 0.03 * drift(d))


def kept_mass(d: Draft, mass: float) -> None:
    """The sampler keeps a part of the probability mass."""
    d.columns["sampler_ratio_mean"] = between(d, 1.0, mass) + 0.002 * drift(d)


def copies(d: Draft, unique: float) -> None:
    """The share of different completions in a group falls from 70%, not below 1.5 of the group size."""
    least = max(unique, 1.5 / d.spec.group)
    d.columns["unique_frac"] = shares(d, between(d, 0.7, least, 50))


def loops(d: Draft, share: float) -> None:
    """Completions that loop, from 1%."""
    d.columns["repetition_frac"] = shares(d, between(d, 0.01, share, 50))


def errored(d: Draft, share: float, reward_left: float | None = None) -> None:
    """Rollouts that end with an error, from 0.5%; the reward falls, where it is given."""
    if reward_left is not None:
        fall(d, reward_left)
    d.columns["stop_frac/error"] = shares(d, between(d, 0.005, share))


def other_end(d: Draft, by: float) -> None:
    """More rollouts end with a tool call than before, from 20%."""
    d.columns["stop_frac/tool"] = shares(d, between(d, 0.2, 0.2 + by))
