"""What one trainer file declares: its keys, knobs, config paths and fingerprint. All data, no reading.

A raw key is looked up in `Adapter.keys` first, then in `Adapter.patterns`, where `{}` matches one path part or more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rlvitals.ingest.table import RawTable
from rlvitals.schema import Direction, Float64, Provenance, RunConfig, Scope, TrainerInfo


@dataclass(frozen=True, slots=True)
class Key:
    """How one raw key becomes a canonical series: `value = scale * raw + offset`.

    `metric` may hold `{}`, filled with what the pattern matched: "rewards/{}/mean" -> "reward_part/{}".
    """

    metric: str
    scale: float = 1.0
    offset: float = 0.0
    estimator: str = ""
    direction: Direction | None = None
    scope: Scope = Scope.ALL
    unit: str = ""  # "" = the metric's own unit
    transform: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class EvalKey:
    """How a raw key becomes a held-out series; `name` may hold `{}`, or `{0}` and `{1}` for single matches.

    `percent_or_fraction`: both are found in this trainer's logs; a series with values above 1 is in percent.
    `but_not`: patterns of keys that this pattern fits too and that are no scores.
    """

    pattern: str
    name: str
    scale: float = 1.0
    metric: str = "accuracy"  # or "reward"
    note: str = ""
    percent_or_fraction: bool = False
    but_not: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Derived:
    """A canonical series computed from other canonical or raw columns of the same rows."""

    metric: str
    inputs: tuple[str, ...]  # canonical names, or raw keys
    compute: Callable[..., Float64]  # one float64[N] per input -> float64[N]
    transform: str  # shown to the user, e.g. "all_good + all_bad"
    note: str = ""
    estimator: str = ""


@dataclass(frozen=True, slots=True)
class RawSum:
    """A raw column made of sparse counts: the sum of all keys that fit `pattern`.

    It is 0 where none of them was logged but `beside` was: trainers leave out counts of nothing.
    """

    name: str  # looked up like a logged key
    pattern: str
    beside: str


@dataclass(frozen=True)
class Adapter:
    """One trainer.

    Attributes:
        info: names, knobs and logging lines in the trainer's own words.
        matches: raw key set -> score 0 (not this trainer) to 100 (certain); the highest score wins, 50 or more counts.
        step_keys: raw keys of the training step, the first present wins.
        ignore: patterns of keys that are understood and deliberately unused (timings, memory ...).
        config: canonical RunConfig field -> dotted paths in the trainer's own config, the first present wins.
        refine: (raw keys, config) -> keys whose meaning depends on version or settings; overrides `keys`.
        finish: (provenance, config) -> provenance, for facts known once the config was read (e.g. placeholders).
        config_rules: flat config (dotted path -> value) -> RunConfig field -> (value, paths it came from), for
            fields that no single setting gives; overrides `config`.
        fixed: RunConfig fields that hold in every run of this trainer, with sources; the config wins over them.
        sums: raw columns to make before keys are looked up.
        prepare: table -> table, for logs whose rows must be put on one step axis first (files only).
    """

    info: TrainerInfo
    matches: Callable[[frozenset[str]], int]
    step_keys: tuple[str, ...]
    keys: Mapping[str, Key]
    patterns: tuple[tuple[str, Key], ...] = ()
    evals: tuple[EvalKey, ...] = ()
    derived: tuple[Derived, ...] = ()
    ignore: tuple[str, ...] = ()
    config: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refine: Callable[[frozenset[str], RunConfig], Mapping[str, Key]] | None = None
    finish: Callable[[Mapping[str, Provenance], RunConfig], Mapping[str, Provenance]] | None = None
    config_rules: Callable[[Mapping[str, object]], Mapping[str, tuple[object, str]]] | None = None
    fixed: RunConfig = field(default_factory=RunConfig)
    sums: tuple[RawSum, ...] = ()
    prepare: Callable[[RawTable], RawTable] | None = None
