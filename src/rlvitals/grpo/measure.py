"""One row of the log from the rollouts and the update of a step, under the canonical names of `rlvitals.metrics`.

Reward, length and signal statistics are of every trajectory that was sampled, tries that were dropped included;
entropy, divergence and the gap to the sampler of the first draw of prompts, which no result has selected; advantages of
the trajectories whose rewards counted. What has no canonical name stands under `extra/`. A value
that was not measured is left out: missing is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from rlvitals.env import StopReason, VerifierStatus
from rlvitals.grpo.kl import KlTerm, Place
from rlvitals.grpo.rollout import Floats, Trajectory
from rlvitals.grpo.update import UpdateStats

Float64 = npt.NDArray[np.float64]

Row = dict[str, float]


def rollout_row(trajectories: Sequence[Trajectory]) -> Row:
    """Return what the trajectories themselves say: rewards, success, lengths, ends."""
    scored = [t for t in trajectories if t.scored]
    row: Row = {}
    row |= _spread("reward", [t.reward for t in scored])
    for name in dict.fromkeys(n for t in scored for n in t.parts):
        values = [t.parts[name] for t in scored if name in t.parts]
        row[f"reward_part/{name}"] = float(np.mean(values))
        row[f"reward_part_std/{name}"] = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    row |= _by("reward_family", scored, lambda t: t.item.family, lambda t: t.reward)
    judged = [t for t in trajectories if t.status in _VERDICTS]
    if judged:
        row["success_frac"] = _share(t.status is VerifierStatus.RIGHT for t in judged)
        row["parse_failure_frac"] = _share(t.status is VerifierStatus.NO_PARSE for t in judged)
    row |= _by("success_tier", judged, lambda t: t.item.tier, lambda t: float(t.status is VerifierStatus.RIGHT))
    row["verifier_error_frac"] = _share(t.status in _FAILURES for t in trajectories)
    row |= _lengths(trajectories)
    row |= _groups(scored)
    row["turns_mean"] = float(np.mean([t.turns for t in trajectories]))
    row["unique_frac"] = _unique(trajectories)
    seconds = [t.verifier_seconds for t in trajectories if math.isfinite(t.verifier_seconds)]
    row["extra/verifier_seconds_max"] = max(seconds, default=0.0)
    return row


_VERDICTS = (VerifierStatus.RIGHT, VerifierStatus.WRONG, VerifierStatus.NO_PARSE)
_FAILURES = (VerifierStatus.ERROR, VerifierStatus.TIMEOUT)


def _share(flags: Iterable[bool]) -> float:
    return float(np.mean([float(f) for f in flags]))


def _spread(name: str, values: Sequence[float]) -> Row:
    """Return mean, std (sample), min and max, nothing for no values."""
    if not values:
        return {}
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {
        f"{name}_mean": float(np.mean(values)),
        f"{name}_std": std,
        f"{name}_min": float(min(values)),
        f"{name}_max": float(max(values)),
    }


def _by(
    family: str, trajectories: Sequence[Trajectory], key: Callable[[Trajectory], str],
    value: Callable[[Trajectory], float],
) -> Row:  # fmt: skip
    found: dict[str, list[float]] = {}
    for t in trajectories:
        if key(t):
            found.setdefault(key(t), []).append(value(t))
    return {f"{family}/{name}": float(np.mean(values)) for name, values in sorted(found.items())}


def _lengths(trajectories: Sequence[Trajectory]) -> Row:
    row = _spread("length", [float(t.tokens) for t in trajectories])
    row |= {
        "prompt_length_mean": float(np.mean([len(t.prompt_ids) for t in trajectories])),
        "truncated_frac": _share(t.truncated for t in trajectories),
    }
    for name, wanted in (("right", True), ("wrong", False)):
        lengths = [t.tokens for t in trajectories if t.scored and (t.reward > 0) is wanted]
        if lengths:
            row[f"length_{name}_mean"] = float(np.mean(lengths))
    ended = [t.tokens for t in trajectories if t.stop is StopReason.EOS]
    row["terminated_length_mean"] = float(np.mean(ended)) if ended else 0.0
    for reason in StopReason:
        row[f"stop_frac/{reason.value}"] = _share(t.stop is reason for t in trajectories)
    # per task family too, where there are several
    families = sorted({t.item.family for t in trajectories})
    for family in families if len(families) > 1 else ():
        own = [t for t in trajectories if t.item.family == family]
        for reason in StopReason:
            row[f"extra/stop_frac/{family}/{reason.value}"] = _share(t.stop is reason for t in own)
    return row


def by_group(trajectories: Iterable[Trajectory]) -> dict[int, list[Trajectory]]:
    """Return the trajectories of each group, in order of first appearance."""
    found: dict[int, list[Trajectory]] = {}
    for t in trajectories:
        found.setdefault(t.group, []).append(t)
    return found


def full_reward(trajectories: Iterable[Trajectory]) -> float:
    """Return the share of trajectories that succeeded: by verdict, else by a reward above 0."""
    return _share(
        t.status is VerifierStatus.RIGHT if t.status in _VERDICTS else t.scored and t.reward > 0 for t in trajectories
    )


def _groups(scored: Sequence[Trajectory]) -> Row:
    """Return the shares of groups without reward variance, split by whether all or none of them succeeded."""
    groups = [g for g in by_group(scored).values() if len(g) > 1]
    if not groups:
        return {}
    tied = [g for g in groups if len({t.reward for t in g}) == 1]
    right = [g for g in tied if full_reward(g) == 1.0]
    wrong = [g for g in tied if full_reward(g) == 0.0]
    return {
        "zero_variance_frac": len(tied) / len(groups),
        "all_right_frac": len(right) / len(groups),
        "all_wrong_frac": len(wrong) / len(groups),
    }


def _unique(trajectories: Sequence[Trajectory]) -> float:
    shares = [len({tuple(t.ids) for t in g}) / len(g) for g in by_group(trajectories).values()]
    return float(np.mean(shares))


def advantage_row(trajectories: Sequence[Trajectory]) -> Row:
    """Return the advantages over trajectories, and their means and stds within groups."""
    judged = [t for t in trajectories if math.isfinite(t.advantage)]
    row = _spread("advantage", [t.advantage for t in judged])
    groups = [[t.advantage for t in g] for g in by_group(judged).values() if len(g) > 1]
    if groups:
        row["extra/advantage_group_mean_abs_max"] = max(abs(float(np.mean(g))) for g in groups)
        row["extra/advantage_group_std_mean"] = float(np.mean([np.std(g, ddof=1) for g in groups]))
    return row


def policy_row(trajectories: Sequence[Trajectory]) -> Row:
    """Return entropy, divergence to the reference and the gap to the sampler, before the update (nats)."""
    scored = [t for t in trajectories if t.trainer_logp is not None and t.tokens]
    if not scored:
        return {}
    logp_N = _joined([t.trainer_logp for t in scored])
    row = {
        "entropy": float(_joined([t.entropy for t in scored]).mean()),
        "surprisal_mean": -float(logp_N.mean()),
    }
    row |= _sampler_row(logp_N, _joined([t.sampler_logp for t in scored]), [t.tokens for t in scored])
    if all(t.ref_logp is not None for t in scored):
        k1_N = logp_N - _joined([t.ref_logp for t in scored])
        k3_N = np.expm1(-k1_N) + k1_N
        row |= {
            "kl_ref": float(k3_N.mean()),
            "extra/kl_ref_k1": float(k1_N.mean()),
            "extra/kl_ref_sequence_k1": float(k1_N.sum()) / len(scored),
            "extra/kl_ref_sequence_k3": float(k3_N.sum()) / len(scored),
        }
    return row


def _joined(parts: Sequence[Floats | None]) -> Float64:
    return np.concatenate([p for p in parts if p is not None]).astype(np.float64)


def _sampler_row(logp_N: Float64, sampler_N: Float64, lengths: Sequence[int]) -> Row:
    """Return the mismatch of sampler and trainer, before any truncation of weights."""
    gap_N = logp_N - sampler_N
    prob_gap_N = np.abs(np.exp(logp_N) - np.exp(sampler_N))
    weight_N = np.exp(gap_N)
    sequence_B = np.exp(np.add.reduceat(gap_N, np.cumsum([0, *lengths[:-1]])))
    # k3 of KL(sampler || trainer) on the sampler's own tokens
    return {
        "kl_sampler_trainer": float((np.expm1(gap_N) - gap_N).mean()),
        "logprob_gap_mean": float(np.abs(gap_N).mean()),
        "logprob_gap_max": float(np.abs(gap_N).max()),
        "prob_gap_mean": float(prob_gap_N.mean()),
        "prob_gap_max": float(prob_gap_N.max()),
        "sampler_ratio_mean": float(weight_N.mean()),
        "sampler_ratio_min": float(weight_N.min()),
        "sampler_ratio_max": float(weight_N.max()),
        "effective_sample_frac": float(weight_N.sum() ** 2 / (weight_N.size * np.square(weight_N).sum())),
        "extra/sampler_sequence_ratio_max": float(sequence_B.max()),
    }


def update_row(stats: UpdateStats, term: KlTerm | None, families: Sequence[str], *, clips: bool) -> Row:
    """Return losses, gradient and ratios of the update; no ratio without an optimizer step.

    families: of the trajectories in the loss, one each.
    """
    losses = np.array(stats.losses or [(0.0, 0.0, 0.0, 0.0)]).mean(axis=0)
    row: Row = {
        "loss": float(losses[0]),
        "policy_loss": float(losses[1]),
        "grad_norm": float(np.mean(stats.grad_norms)) if stats.grad_norms else 0.0,
        "learning_rate": stats.lr,
        "extra/optimizer_steps": float(len(stats.losses)),
    }
    if term is not None:
        row |= _coefficient(term, families)
        if term.place is Place.LOSS:  # one in the reward is no part of the loss: a 0 would be no measurement
            row["kl_loss"] = float(losses[2])
    every, first, last = stats.every, stats.first, stats.last
    if every.count:
        row |= {"ratio_mean": every.mean, "ratio_max": every.high, "ratio_min": every.low, "kl_old_new": every.k3_mean}
        if first.count:
            row["first_ratio_error"] = max(first.high - 1.0, 1.0 - first.low)
        row |= {f"extra/ratio_first_{n}": v for n, v in _ends(first.count, first.mean, first.low, first.high)}
        row |= {f"extra/ratio_last_{n}": v for n, v in _ends(last.count, last.mean, last.low, last.high)}
        if clips:
            row |= {
                "clip_frac": every.share("cut_low") + every.share("cut_high"),
                "clip_low_frac": every.share("cut_low"),
                "clip_high_frac": every.share("cut_high"),
                "extra/ratio_below_frac": every.share("below"),
                "extra/ratio_above_frac": every.share("above"),
            }
    return row


def _coefficient(term: KlTerm, families: Sequence[str]) -> Row:
    """Return the mean coefficient of the trajectories in the loss; with exceptions by family and none of them, none."""
    known = [term.of(name) for name in families] if term.by_family else [term.coef]
    if not known:
        return {}
    # of equal ones it is that number itself, to the bit
    return {"kl_coef": known[0] if len(set(known)) == 1 else math.fsum(known) / len(known)}


def _ends(count: int, mean: float, low: float, high: float) -> list[tuple[str, float]]:
    return [("mean", mean), ("min", low), ("max", high)] if count else []


def lag_row(versions: Sequence[int], trained: int) -> Mapping[str, float]:
    """Return how many versions older than the trained weights the samples are."""
    lags = [trained - v for v in versions]
    return {"version_lag_mean": float(np.mean(lags)), "version_lag_max": float(max(lags))}
