"""Is the task learnable: success, pass@k and zero-variance groups of a base policy, with intervals and a verdict.

Rollouts of one task are no independent samples of the tasks, so every interval takes the task as its unit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlvitals import shares
from rlvitals.audit.common import made
from rlvitals.audit.load import full_marks
from rlvitals.audit.rows import Row
from rlvitals.auditresults import AtK, Learnable, Preflight, Tier
from rlvitals.errors import InputError, Problem
from rlvitals.tails import student_quantile

NEAR_ZERO = (
    0.02  # success below which a task counts as near zero: as T001 (docs/measurements.md: Base success near zero)
)
SOLVED = 0.95  # as T002 (convention: GRPO health-check runbook, near max)
MIXED = 0.25  # expected share of mixed groups: below it three of four steps teach nothing (definition, as T001)
Z = 1.96
FOLDS = 10  # of the jackknife
KS = (1, 2, 4, 8, 16, 32, 64)
GROUP_SIZES = (4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Task:
    """Outcomes of one task: `right` of `n` rollouts."""

    id: str
    family: str
    tier: str
    right: int
    n: int


def tasks_of(rows: Sequence[Row], threshold: float | None = None) -> tuple[tuple[Task, ...], int]:
    """Return the outcome of each task, and how many rollouts have neither a verdict nor a reward.

    A rollout is right when its `correct` is above 0.5, else when its reward reaches the threshold, without a given one
    the highest reward seen.

    Raises InputError when no rollout can be judged.
    """
    top = full_marks(rows, threshold)
    found: dict[str, list[Row]] = {}
    unscored = 0
    for row in rows:
        if math.isnan(row.correct) and math.isnan(row.reward):
            unscored += 1
        else:
            found.setdefault(row.task, []).append(row)
    if not found:
        raise InputError(
            Problem("no rollout has a reward", found=f"{len(rows)} rollouts", expected="a reward or correct column",
                    hint="Say it: --map reward=KEY; or score them: --reward module:function")
        )  # fmt: skip

    def right(row: Row) -> bool:
        return row.correct > 0.5 if math.isfinite(row.correct) else row.reward >= top

    out = [Task(i, g[0].family, g[0].tier, sum(map(right, g)), len(g)) for i, g in found.items()]
    return tuple(out), unscored


def examine_rollouts(
    rows: Sequence[Row],
    *,
    group_size: int = 8,
    threshold: float | None = None,
    subject: str = "rollouts",
    sources: Sequence[str] = (),
) -> Preflight:
    """Return what the base policy's rollouts say of the tasks. Raises InputError when none can be judged."""
    tasks, unscored = tasks_of(rows, threshold)
    success, low, high = rate(tasks)
    tiers = by(tasks, "tier", group_size)
    verdict, start = judge(tasks, tiers, group_size)
    return Preflight(
        made=made(subject, sources),
        verdict=verdict,
        tasks=len(tasks),
        rollouts=sum(t.n for t in tasks),
        group_size=group_size,
        success=success,
        low=low,
        high=high,
        pass_at=tuple(at_k(tasks, k, "pass") for k in KS if k <= max(t.n for t in tasks)),
        zero_variance=tuple(at_k(tasks, g, "tied") for g in sorted({*GROUP_SIZES, group_size})),
        reward_ties=reward_ties(rows),
        tiers=tiers,
        families=by(tasks, "family", group_size),
        start_with=start,
        needed=needed(tasks, group_size) if verdict is Learnable.UNSURE else 0,
        unscored=unscored,
    )


def rate(tasks: Sequence[Task]) -> tuple[float, float, float]:
    """Return success and its 95% interval: Wilson's at the number of rollouts that count, tasks as clusters."""
    n = sum(t.n for t in tasks)
    p = sum(t.right for t in tasks) / n
    low, high = shares.wilson(p * n / spread(tasks), n / spread(tasks))
    return p, low, high


def spread(tasks: Sequence[Task]) -> float:
    """Return the design effect: how many rollouts of these tasks count as one, at least 1 and at most all of a task's.

    With no success or no failure anywhere the spread over tasks can't be seen; a task then counts as one rollout when
    it was sampled more than once.
    """
    n = sum(t.n for t in tasks)
    p = sum(t.right for t in tasks) / n
    size = sum(t.n * t.n for t in tasks) / n
    if len(tasks) < 2 or p in (0.0, 1.0):
        return max(size, 1.0)
    k = len(tasks)
    clustered = sum((t.right - p * t.n) ** 2 for t in tasks) * k / (k - 1)
    return min(max(clustered / (n * p * (1 - p)), 1.0), max(size, 1.0))


def by(tasks: Sequence[Task], what: str, group_size: int) -> tuple[Tier, ...]:
    """Return success per tier or family, in order of name; empty when there is but one without a name."""
    found: dict[str, list[Task]] = {}
    for t in tasks:
        found.setdefault(getattr(t, what), []).append(t)
    if set(found) <= {""}:
        return ()
    out = []
    for name in sorted(found, key=_natural):
        part = found[name]
        mixed = 1.0 - at_k(part, group_size, "tied").value
        out.append(Tier(name, len(part), sum(t.n for t in part), *rate(part), mixed))
    return tuple(out)


def _natural(name: str) -> tuple[float, str]:
    digits = "".join(c for c in name if c.isdigit())
    return (float(digits) if digits and len(digits) < 10 else math.inf, name)


def at_k(tasks: Sequence[Task], k: int, what: str) -> AtK:
    """Return the mean over tasks of pass@k ("pass") or of the chance that a group of k is tied ("tied").

    Unbiased from the rollouts of a task where it has k of them; else the expectation under a beta-binomial fit over
    all tasks, marked as extrapolated.
    """
    direct = all(t.n >= k for t in tasks)
    values = _values(tasks, k, what, direct)
    if direct or len(values) < 2 or min(values) == max(values):
        return AtK(k, *_mean_interval(values), not direct)
    mean = sum(values) / len(values)
    half = student_quantile(Z, max(min(FOLDS, len(tasks)) - 1, 1)) * _jackknife(tasks, k, what)
    return AtK(k, mean, max(mean - half, 0.0), min(mean + half, 1.0), True)


def reward_ties(rows: Sequence[Row]) -> tuple[AtK, ...]:
    """Return the share of groups whose rewards are all equal, by the rewards' own values; empty for yes or no.

    Unbiased, for the group sizes that every task has rollouts for: ties of graded rewards have no fit to extrapolate.
    """
    counts: dict[str, Counter[float]] = {}
    for row in rows:
        if math.isfinite(row.reward):
            counts.setdefault(row.task, Counter())[row.reward] += 1
    if len({value for found in counts.values() for value in found}) <= 2:
        return ()
    least = min(found.total() for found in counts.values())
    out = []
    for k in (k for k in KS if 2 <= k <= least):
        values = [sum(_chosen(n, found.total(), k) for n in found.values()) for found in counts.values()]
        out.append(AtK(k, *_mean_interval(values), False))
    return tuple(out)


def _mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean over tasks with its 95% interval, that of a proportion over tasks where all are alike."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0, 1.0
    if min(values) == max(values):
        return mean, *shares.wilson(mean * len(values), len(values))
    sd = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    half = Z * sd / math.sqrt(len(values))
    return mean, max(mean - half, 0.0), min(mean + half, 1.0)


def _values(tasks: Sequence[Task], k: int, what: str, direct: bool) -> list[float]:
    prior = None if direct else beta_binomial(tasks)
    return [_of_task(t, k, what, prior) for t in tasks]


def _jackknife(tasks: Sequence[Task], k: int, what: str) -> float:
    """Return the standard error of an extrapolated mean: the fit is made anew without one tenth of the tasks each."""
    folds = min(FOLDS, len(tasks))
    means = []
    for fold in range(folds):
        kept = [t for i, t in enumerate(tasks) if i % folds != fold]
        values = _values(kept, k, what, direct=False)
        means.append(sum(values) / len(values))
    centre = sum(means) / folds
    return math.sqrt((folds - 1) / folds * sum((m - centre) ** 2 for m in means))


def _of_task(t: Task, k: int, what: str, prior: tuple[float, float] | None) -> float:
    wrong = t.n - t.right
    if prior is None:
        none, every = _chosen(wrong, t.n, k), _chosen(t.right, t.n, k)
    else:
        a, b = prior[0] + t.right, prior[1] + wrong
        none, every = math.exp(_log_rise(b, k) - _log_rise(a + b, k)), math.exp(_log_rise(a, k) - _log_rise(a + b, k))
    return 1.0 - none if what == "pass" else none + every


def _chosen(of: int, n: int, k: int) -> float:
    """Return C(of, k) / C(n, k)."""
    return math.comb(of, k) / math.comb(n, k)


def _log_rise(a: float, k: int) -> float:
    """Return the log of a (a+1) ... (a+k-1)."""
    return math.lgamma(a + k) - math.lgamma(a)


def beta_binomial(tasks: Sequence[Task]) -> tuple[float, float]:
    """Return the beta distribution of success over tasks, by moments."""
    n = sum(t.n for t in tasks)
    p = sum(t.right for t in tasks) / n
    if p in (0.0, 1.0) or len(tasks) < 2:
        mean = (sum(t.right for t in tasks) + 0.5) / (n + 1)  # none of n: half of one, as Jeffreys
        return (mean, 1.0 - mean)
    size = n / len(tasks)
    if size <= 1.0:
        return (p, 1.0 - p)  # one rollout each: their spread can't be seen, so the widest with this mean
    deff = sum((t.right - p * t.n) ** 2 for t in tasks) / (n * p * (1 - p)) * len(tasks) / (len(tasks) - 1)
    within = min(max((deff - 1.0) / (size - 1.0), 1e-3), 0.999)  # intra-task correlation
    total = 1.0 / within - 1.0
    return (p * total, (1.0 - p) * total)


def judge(tasks: Sequence[Task], tiers: Sequence[Tier], group_size: int) -> tuple[Learnable, str]:
    """Return the verdict, sure at 95%, and the tier with the most mixed groups that is surely not at zero."""
    _, low, high = rate(tasks)
    tied = at_k(tasks, group_size, "tied")
    able = [t for t in tiers if t.low > NEAR_ZERO and t.high < 1.0 and t.mixed >= MIXED]
    start = max(able, key=lambda t: t.mixed).name if able else ""
    if low >= SOLVED:
        return Learnable.SOLVED, start
    if high < NEAR_ZERO or (1.0 - tied.low < MIXED and high < 0.5):
        return Learnable.EASIER, start
    if 1.0 - tied.high >= MIXED and low > 0.0:
        return Learnable.YES, start
    if 1.0 - tied.low < MIXED:
        return (Learnable.SOLVED if low >= 0.5 else Learnable.UNMIXED), start
    return Learnable.UNSURE, start


def needed(tasks: Sequence[Task], group_size: int) -> int:
    """Return how many further tasks, sampled as often as these, would make the verdict sure if the shares stay.

    Two ways out: success surely on one side of its limit, or the share of mixed groups surely on one side of its own.
    """
    k = len(tasks)
    n = sum(t.n for t in tasks)
    p = sum(t.right for t in tasks) / n
    per_task = n / k
    if p == 0.0:  # the upper bound with no success is about 3.84 / n
        return max(math.ceil(Z * Z * (1 / NEAR_ZERO - 1) * spread(tasks) / per_task) - k, 1)
    tied = at_k(tasks, group_size, "tied")
    distance = abs((1.0 - tied.value) - MIXED)
    half = max((tied.high - tied.low) / 2, 1e-3)
    by_groups = math.inf if distance < 1e-3 else k * (half / distance) ** 2
    far = min(abs(p - NEAR_ZERO), abs(p - SOLVED))
    by_success = math.inf if far < 1e-3 else Z * Z * p * (1 - p) / far**2 * spread(tasks) / per_task
    best = by_groups if math.isfinite(by_groups) else by_success
    return 10_000 if not math.isfinite(best) else max(math.ceil(best) - k, 1)


def with_solver(found: Preflight, solver: str, solved: Mapping[str, bool]) -> Preflight:
    """Return the record with what a solver did through the environment."""
    unsolved = tuple(i for i, ok in solved.items() if not ok)
    return replace(found, solver=solver, solver_tried=len(solved), unsolved=unsolved)
