"""Resolver: which canonical series a raw key feeds, by user map, adapter, or alias; shared by files and live rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from rlvitals.ingest.adapter import Adapter, EvalKey, Key
from rlvitals.ingest.generic import guess
from rlvitals.metrics import is_canonical
from rlvitals.schema import RunConfig, Scope, Status

SUMMARY_KEYS = frozenset({"train_runtime", "train_samples_per_second", "train_steps_per_second"})  # end-of-run record
COMMON_STEP_KEYS = (
    "step",
    "global_step",
    "train/global_step",
    "trainer/global_step",
    "training/global_step",
    "training_step",
    "Step",
    "global_step/max_steps",
    "iteration",
    "iter",
    "train_step",
    "update",
    "rollout/step",
    "train/step",
    "progress/step",
    "progress/batch",
    "batch",
    "_step",
    "episode",
    "epoch",
)  # the first that is present and counts in whole numbers wins
MAX_KEY = 300  # characters; a longer key is text that was taken for one, and is matched against no pattern
CLOCK_KEYS = frozenset({"_runtime", "_timestamp", "_wandb/runtime"})  # W&B's and trackio's own clock in their rows
STEP_METRIC = "step"  # the canonical name under which a user maps the step axis
OWN_SCORES = ("eval_", "eval/")  # where callbacks log their scores, among a trainer's own counts and timings
EVAL_PREFIX = "eval:"  # a user maps a held-out series as "eval:NAME=key"


# What no trainer logs by itself and users add under our names, in whatever prefix and suffix the trainer wraps them.
OWN_NAMES = (
    "parse_failure_frac", "verifier_error_frac", "success_frac", "truncated_frac", "zero_variance_frac",
    "length_right_mean", "length_wrong_mean",
)  # fmt: skip
OWN_FAMILIES = ("reward_family", "success_tier", "stop_frac")  # followed by / or _ and a name
_OWN = re.compile(
    rf"(?:.+/|train_)?(?:({'|'.join(OWN_NAMES)})|({'|'.join(OWN_FAMILIES)})[/_]([^/]+?))(?:[/_](?:mean|avg|reward))?"
)
_NOT_OWN = re.compile(r"(?:eval|val|validation|test|tools?)[/_-].*|.*[/_](?:std|min|max|coverage)")


class Kind(Enum):
    METRIC = "metric"
    EVAL = "eval"
    IGNORE = "ignore"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Rule:
    """What one raw key stands for."""

    kind: Kind
    metric: str = ""  # canonical metric, or the held-out set's name
    scale: float = 1.0
    offset: float = 0.0
    status: Status = Status.MEASURED
    priority: int = 0  # of several keys of one metric the lowest wins
    key: Key | None = None
    eval_key: EvalKey | None = None


UNKNOWN = Rule(Kind.UNKNOWN)
IGNORED = Rule(Kind.IGNORE)


def own_name(raw: str) -> str | None:
    """Return the canonical name that a user put into a key: environment/success_tier_easy -> success_tier/easy."""
    found = _OWN.fullmatch(raw)
    if found is None or _NOT_OWN.fullmatch(raw):
        return None
    return found[1] or f"{found[2]}/{found[3]}"


def pattern(text: str) -> re.Pattern[str]:
    """Compile an adapter pattern, in which `{}` stands for one path part or more."""
    return re.compile("(.+)".join(re.escape(part) for part in text.split("{}")))


def _fill(name: str, match: re.Match[str]) -> str:
    if "{0}" in name:  # numbered: each place takes its own part
        return name.format(*match.groups())
    return name.replace("{}", "/".join(match.groups())) if "{}" in name else name


class Resolver:
    """Finds and remembers the rule of every raw key of one run.

    Args:
        raw_keys: all keys known so far; `Adapter.refine` decides with them.
        user: canonical metric (or "eval:NAME") -> raw key.
    """

    def __init__(
        self,
        adapter: Adapter,
        raw_keys: Iterable[str] = (),
        config: RunConfig | None = None,
        user: Mapping[str, str] | None = None,
    ) -> None:
        self.adapter = adapter
        keys = dict(adapter.keys)
        if adapter.refine is not None:
            keys.update(adapter.refine(frozenset(raw_keys), config or RunConfig()))
        self._keys = keys
        self._order = {key: i for i, key in enumerate(keys)}
        self._patterns = tuple((pattern(text), key) for text, key in adapter.patterns)
        self._evals = tuple((pattern(e.pattern), e, tuple(map(pattern, e.but_not))) for e in adapter.evals)
        self._ignore = tuple(pattern(text) for text in adapter.ignore)
        self._user: dict[str, list[str]] = {}
        for canonical, raw in (user or {}).items():
            self._user.setdefault(raw, []).append(canonical)
        self._derived = frozenset(d.metric for d in adapter.derived)
        self._inputs = frozenset(name for d in adapter.derived for name in d.inputs)
        self._cache: dict[str, Rule] = {}

    def rule(self, raw: str) -> Rule:
        """Return the rule of a raw key."""
        found = self._cache.get(raw)
        if found is None:
            found = self._cache[raw] = self._resolve(raw)
        return found

    def is_step(self, raw: str) -> bool:
        return raw in self.step_keys()

    def step_keys(self) -> tuple[str, ...]:
        """Raw keys of the training step, best first."""
        mapped = tuple(raw for raw, names in self._user.items() if STEP_METRIC in names)
        return mapped + self.adapter.step_keys + tuple(k for k in COMMON_STEP_KEYS if k not in self.adapter.step_keys)

    def _resolve(self, raw: str) -> Rule:
        if len(raw) > MAX_KEY:
            return UNKNOWN
        for canonical in self._user.get(raw, ()):
            if canonical.startswith(EVAL_PREFIX):
                name = canonical[len(EVAL_PREFIX) :]
                return Rule(Kind.EVAL, name, status=Status.USER, eval_key=EvalKey(raw, name))
            if canonical != STEP_METRIC:
                return Rule(Kind.METRIC, canonical, status=Status.USER, priority=-1, key=Key(canonical))
        exact = self._keys.get(raw)
        if exact is not None:
            return self._measured(exact.metric, exact, self._order[raw])
        own = own_name(raw)
        if own is not None:
            return self._measured(own, Key(own, scope=Scope.UNKNOWN), len(self._keys))
        for i, (regex, key) in enumerate(self._patterns):
            match = regex.fullmatch(raw)
            if match:
                return self._measured(_fill(key.metric, match), key, len(self._keys) + i)
        for regex, eval_key, but_not in self._evals:
            match = regex.fullmatch(raw)
            if match and not any(other.fullmatch(raw) for other in but_not):
                return Rule(Kind.EVAL, _fill(eval_key.name, match), scale=eval_key.scale, eval_key=eval_key)
        if is_canonical(raw):  # a log in canonical names: plain loops, exports, the live monitor
            return Rule(
                Kind.METRIC, raw, priority=len(self._keys) + len(self._patterns), key=Key(raw, scope=Scope.UNKNOWN)
            )
        if raw in SUMMARY_KEYS or raw in CLOCK_KEYS or raw in self._inputs:
            return IGNORED
        if any(regex.fullmatch(raw) for regex in self._ignore):
            return self._own_score(raw)
        if self.is_step(raw):
            return IGNORED
        return self._guessed(raw)

    def _measured(self, metric: str, key: Key, priority: int) -> Rule:
        return Rule(Kind.METRIC, metric, key.scale, key.offset, Status.MEASURED, priority, key)

    def _own_score(self, raw: str) -> Rule:
        """Return the rule of an ignored key: a held-out score that the user's own code logged stays one."""
        found = self._guessed(raw) if raw.startswith(OWN_SCORES) else IGNORED
        return found if found.kind is Kind.EVAL else IGNORED

    def _guessed(self, raw: str) -> Rule:
        found = guess(raw)
        if found is None:
            return UNKNOWN
        if isinstance(found.target, EvalKey):
            return Rule(Kind.EVAL, found.target.name, status=Status.GUESSED, eval_key=found.target)
        key = found.target
        priority = 1_000_000 + found.rank
        return Rule(Kind.METRIC, key.metric, key.scale, key.offset, Status.GUESSED, priority, key)


def scope_of(rule: Rule) -> Scope:
    if rule.status is not Status.MEASURED or rule.key is None:
        return Scope.UNKNOWN
    return rule.key.scope
