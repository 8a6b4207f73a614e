"""The canonical form of a training run: what every trainer's files are turned into, and all that a check may read.

A `Run` is frozen. NaN in a column means *not logged*; a value that was logged and is not finite (NaN, Infinity) is NaN
in the column and 1.0 in the companion column `nonfinite/<metric>`. Metric names are those of `metrics.METRICS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

NONFINITE_PREFIX = "nonfinite/"


class Status(StrEnum):
    """How a series came to be, and so how far it can be trusted."""

    MEASURED = "measured"  # a key whose meaning this trainer's adapter knows
    USER = "user"  # mapped or set by the user
    GUESSED = "guessed"  # an unknown trainer's key, resolved by an alias
    DERIVED = "derived"  # computed from other logged keys
    PLACEHOLDER = "placeholder"  # a constant zero written for something that is not measured: not data


class Scope(StrEnum):
    """Which groups a batch statistic is taken over."""

    ALL = "all groups"
    KEPT = "kept groups only"  # after zero-variance groups were dropped: biased towards the middle
    UNKNOWN = "unknown"


class Direction(StrEnum):
    """Between which two policies a divergence is measured."""

    TO_REFERENCE = "current policy to reference"
    OLD_NEW = "old policy to new policy"
    SAMPLER_TRAINER = "sampler to trainer"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where one canonical series came from and what was done to it."""

    metric: str
    key: str  # the trainer's own key
    file: str
    status: Status = Status.MEASURED
    estimator: str = ""  # "k1", "k2", "k3", "exact", "full vocabulary", "sampled", "group", "batch" ...
    direction: Direction | None = None
    scope: Scope = Scope.UNKNOWN
    unit: str = ""
    transform: str = ""  # "" = as logged; else e.g. "percent -> fraction", "sign flipped", "1 - x"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unrecognised:
    """A column that no adapter, alias or user map knows; kept by name and counted, never silently dropped."""

    key: str
    file: str
    values: int  # how many rows carry it
    nearest: str = ""  # the canonical metric whose name is closest, if any


class EventKind(StrEnum):
    RESUME = "resume"
    CHECKPOINT = "checkpoint"
    CONFIG_CHANGE = "config change"
    CRASH = "crash"  # traceback, OOM or signal: another matter than health
    FINISHED = "finished"  # the trainer wrote its end-of-run summary


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a step; `step` is None where the log does not say."""

    kind: EventKind
    step: int | None
    detail: str = ""
    path: str = ""  # of a checkpoint
    complete: bool = True  # False for a checkpoint that lacks files it should have


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that a rewind replaced: a restart from an earlier step closed them; they left the current series."""

    first_step: int
    last_step: int
    rows: int
    resumed_at: int  # first step of the rows that replaced them
    reason: str = "rewind"  # "rewind" | "aborted start" | "other run in the same file"


@dataclass(frozen=True, slots=True)
class Note:
    """Something the reader had to survive or decide, told to the user (broken line, guessed key, skipped rows)."""

    text: str
    file: str = ""
    line: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Example:
    """One rollout that shows something, named so that it can be looked up: by (step, group, index).

    Attributes:
        shows: the rollout fact that chose it.
        excerpt: a bounded piece of its text, untrusted: escape it in every view.
        source, row: file and row it was read from, "" and -1 for a live run.
    """

    shows: str
    step: int
    group: str
    index: int
    reward: float = float("nan")
    excerpt: str = ""
    source: str = ""
    row: int = -1


@dataclass(frozen=True, slots=True)
class SharedPhrase:
    """A run of words that newly rewarded rollouts share and the old ones do not.

    Attributes:
        words: the text, untrusted: escape it in every view.
        before, after: shares of the rewarded rollouts that hold it.
        examples: up to three of the new ones.
    """

    words: str
    before: float
    after: float
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class Evals:
    """One held-out set over training.

    Args:
        name: the set's own name.
        step: int64[K], non-decreasing, training step of each evaluation.
        score: float64[K], in the set's own unit (fractions are 0..1).
        stderr: float64[K], standard error of each score, NaN where unknown.
        items: number of evaluated items, 0 where unknown.
    """

    name: str
    step: Int64
    score: Float64
    stderr: Float64
    items: int = 0
    key: str = ""
    file: str = ""
    metric: str = "accuracy"  # or "reward": a held-out mean of the training reward


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What checks need to know about how a run was set up; None = unknown, never a default.

    `sources` says for each known field where it was read: "config.yaml: actor_rollout_ref.rollout.n" or "user".
    """

    group_size: int | None = None  # rollouts per prompt (G)
    prompts_per_step: int | None = None
    updates_per_rollout: float | None = None  # optimizer steps per rollout batch (epochs x minibatches)
    clip_low: float | None = None
    clip_high: float | None = None
    kl_coef: float | None = None
    kl_estimator: str | None = None
    kl_in_reward: bool | None = None
    loads_reference: bool | None = None  # a reference model is held, whatever the coefficient
    entropy_coef: float | None = None
    reference_reset_steps: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    trainer_temperature: float | None = None  # by which the trainer divides its logits for log-probabilities
    sampler_correction: bool | None = None  # importance weights or masks for the gap between sampler and trainer
    prompt_budget: int | None = None  # max prompt tokens
    context_length: int | None = None  # max tokens of prompt and completion together
    token_budget: int | None = None  # max completion tokens
    vocab_size: int | None = None
    loss_type: str | None = None  # grpo, dapo, dr_grpo, bnpo, gspo, cispo, reinforce ...
    loss_aggregation: str | None = None  # "token mean", "sequence mean", "sequence sum", "constant length"
    importance_level: str | None = None  # "token" | "sequence" (mean of log-ratios, GSPO) | "sequence sum" (product)
    advantage_estimator: str | None = None  # grpo, rloo, reinforce++, gae ...
    advantage_scaling: str | None = None  # "group" | "batch" | "none"
    reward_aggregation: str | None = None  # "sum then normalise" | "normalise then sum"
    drops_zero_variance: bool | None = None  # dynamic sampling / filtering of tied groups
    scores_dropped: bool | None = None  # entropy and log-probabilities are measured over the dropped groups too
    masks_truncated: bool | None = None
    learning_rate: float | None = None
    lr_schedule: str | None = None
    warmup_steps: int | None = None
    planned_steps: int | None = None
    max_grad_norm: float | None = None
    logging_steps: int | None = None
    eval_items: int | None = None  # items of each held-out set
    max_version_lag: float | None = None  # the user's own tolerance, versions
    reward_min: float | None = None
    reward_max: float | None = None
    uses_lora: bool | None = None
    asynchronous: bool | None = None
    model: str | None = None
    algorithm: str | None = None  # "grpo", "ppo" (with a critic), "reinforce" ...
    gpus: float | None = None
    price_per_gpu_hour: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def known(self) -> dict[str, object]:
        """Return the fields that are known, in declaration order."""
        skip = {"versions", "sources"}
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in skip and getattr(self, f.name) is not None
        }

    def merged(self, other: RunConfig) -> RunConfig:
        """Return this config with every field that `other` knows taken from `other`."""
        return replace(
            self,
            **other.known(),  # type: ignore[arg-type]
            versions={**self.versions, **other.versions},
            sources={**self.sources, **other.sources},
        )


@dataclass(frozen=True, slots=True)
class TrainerInfo:
    """What the user's trainer calls things, so that advice comes in their own words.

    Attributes:
        name: "TRL", "verl" ...
        knobs: canonical knob -> the trainer's own setting, e.g. {"clip_high": "epsilon_high"}.
        how_to_log: canonical metric or needed thing -> the line that makes this trainer log it.
        step_base: 0 or 1, the number of the first step.
        defaults: canonical config field -> the trainer's default, as text with its version.
        sequence_means: metrics that it averages over completions, each counting once, whatever its length.
        update_means: metrics of a row that are means over all updates of its step, not those of the last one.
    """

    name: str
    knobs: Mapping[str, str] = field(default_factory=dict)
    how_to_log: Mapping[str, str] = field(default_factory=dict)
    step_base: int = 1
    defaults: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    sequence_means: tuple[str, ...] = ()
    update_means: tuple[str, ...] = ()

    def knob(self, canonical: str) -> str:
        """Return the trainer's own name of a knob, or the canonical one in words."""
        return self.knobs.get(canonical, canonical.replace("_", " "))


UNKNOWN_TRAINER = TrainerInfo(name="unknown trainer")


@dataclass(frozen=True)
class Run:
    """One training run in canonical form.

    Args:
        step: int64[N], strictly increasing training steps of the current series.
        columns: canonical metric -> float64[N]; NaN = not logged. Open families are written `reward_part/<name>`.
        segments: rows that restarts replaced, in file order.
        rollouts: lazy trajectory table, or None.
    """

    name: str
    step: Int64
    columns: Mapping[str, Float64]
    trainer: TrainerInfo = UNKNOWN_TRAINER
    config: RunConfig = field(default_factory=RunConfig)
    evals: Mapping[str, Evals] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    events: tuple[Event, ...] = ()
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    unrecognised: tuple[Unrecognised, ...] = ()
    notes: tuple[Note, ...] = ()
    sources: tuple[str, ...] = ()
    rollouts: object | None = None
    audits: tuple[object, ...] = ()
    settings: object | None = None  # user's rlvitals.toml, see settings.Settings

    def __post_init__(self) -> None:
        if self.step.size > 1 and not bool(np.all(np.diff(self.step) > 0)):
            raise ValueError("Run.step must be strictly increasing; close a segment at each rewind")
        for name, column in self.columns.items():
            if column.shape != self.step.shape:
                raise ValueError(f"column {name!r} has {column.shape[0]} rows; expected {self.step.size}")

    @property
    def rows(self) -> int:
        return int(self.step.size)

    def has(self, metric: str) -> bool:
        """True when the metric was logged at least once with a finite value and is not a placeholder."""
        column = self.columns.get(metric)
        if column is None or not bool(np.isfinite(column).any()):
            return False
        found = self.provenance.get(metric)
        return found is None or found.status is not Status.PLACEHOLDER

    def values(self, metric: str) -> Float64:
        """Return the series (float64[N]); all NaN when it is absent or only a placeholder."""
        if not self.has(metric):
            return np.full(self.rows, np.nan)
        return self.columns[metric]

    def family(self, prefix: str) -> tuple[str, ...]:
        """Return the columns of an open family, e.g. `family("reward_part/")`."""
        return tuple(name for name in self.columns if name.startswith(prefix))

    def until(self, step: int) -> Run:
        """Return the run as it stood after `step`: rows, evals, segments, checkpoints and events up to and with it."""
        n = int(np.searchsorted(self.step, step, side="right"))
        evals = {}
        for name, series in self.evals.items():
            k = int(np.searchsorted(series.step, step, side="right"))
            if k:
                evals[name] = replace(series, step=series.step[:k], score=series.score[:k], stderr=series.stderr[:k])
        return replace(
            self,
            step=self.step[:n],
            columns={name: column[:n] for name, column in self.columns.items()},
            evals=evals,
            segments=tuple(s for s in self.segments if s.resumed_at <= step),
            events=tuple(e for e in self.events if e.step is not None and e.step <= step),
        )
