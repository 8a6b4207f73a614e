"""What the audits found, as frozen dated records: written to `.rlvitals/` beside a run, read back by `load`.

A record is plain data. `write` and `read_folder` are the only ways to a file: JSON of bounded size, every value checked
against the type of its field; a record that cannot be read is reported, never guessed.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import orjson

from rlvitals.errors import InputError, Problem

FOLDER = ".rlvitals"
MAX_BYTES = 8 << 20  # of one record
MAX_RECORDS = 64  # of one run
MAX_NAMED = 50  # episodes, tasks or overlaps named in one record


class AuditKind(StrEnum):
    """The audits that leave a record."""

    PREFLIGHT = "preflight"
    SCORE = "score"
    PROBE = "probe"
    REPLAY = "replay"
    LEAKAGE = "leakage"
    REWARDS = "rewards"


class Learnable(StrEnum):
    """What the base policy's rollouts say of the tasks."""

    YES = "learnable"
    EASIER = "start easier or warm-start with SFT"
    SOLVED = "already solved"
    UNMIXED = "some tasks always solved, the others never: change the mixture, or raise sampling diversity"
    UNSURE = "more samples are needed"


class ProbeFault(StrEnum):
    """What can be wrong with a verifier, found by calling it."""

    ALWAYS_ZERO = "always zero"
    ALWAYS_ONE = "always one"
    CONSTANT = "always the same"
    MISSES_GOLD = "gold answers are not paid"
    PAYS_WRONG = "wrong answers are paid"
    RAISES = "raises"
    HANGS = "hangs"
    NON_DETERMINISTIC = "non-deterministic"
    ORDER_DEPENDENT = "order-dependent"
    DEFAULT_ON_ERROR = "default on error"
    DISAGREES_WITH_LOG = "logged rewards are not reproduced"


class ReplayFault(StrEnum):
    """What a replay can show."""

    NON_DETERMINISTIC = "nondeterminism"
    NOT_REPRODUCED = "log not reproduced"
    CRASH_AS_FAILURE = "crash recorded as failure"
    HANG_AS_TRUNCATION = "hang recorded as truncation"


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`, with a 95% interval for the share behind it."""

    count: int = 0
    of: int = 0
    low: float = 0.0
    high: float = 1.0

    @property
    def value(self) -> float:
        return self.count / self.of if self.of else math.nan


@dataclass(frozen=True, slots=True)
class Made:
    """When and from what a record was made: `at` is ISO 8601 in UTC, `subject` what was audited."""

    at: str = ""
    subject: str = ""
    sources: tuple[str, ...] = ()
    version: str = ""  # of rlvitals


@dataclass(frozen=True, slots=True)
class Tier:
    """Success of one tier, family or task under the base policy.

    Attributes:
        success: mean over its tasks, 0..1, with a 95% interval low..high whose units are tasks.
        mixed: expected share of groups with a reward difference at the planned group size, 0..1.
    """

    name: str
    tasks: int
    rollouts: int
    success: float
    low: float
    high: float
    mixed: float


@dataclass(frozen=True, slots=True)
class AtK:
    """pass@k or the expected zero-variance share at group size k; `extrapolated` beyond the rollouts per task."""

    k: int
    value: float
    low: float
    high: float
    extrapolated: bool = False


@dataclass(frozen=True, slots=True)
class Preflight:
    """Is the task learnable: success of the base policy, with intervals, and what follows from it."""

    made: Made = Made()
    verdict: Learnable = Learnable.UNSURE
    tasks: int = 0
    rollouts: int = 0
    group_size: int = 8
    success: float = math.nan
    low: float = 0.0
    high: float = 1.0
    pass_at: tuple[AtK, ...] = ()
    zero_variance: tuple[AtK, ...] = ()  # groups all right or all wrong, by group size
    reward_ties: tuple[AtK, ...] = ()  # groups without a reward difference, where rewards have more than two values
    tiers: tuple[Tier, ...] = ()
    families: tuple[Tier, ...] = ()
    start_with: str = ""  # tier
    needed: int = 0  # further tasks to sample until the verdict is sure, 0 = none
    unscored: int = 0  # rollouts without a reward: verifier errors, left out
    solver: str = ""  # who tried the tasks through the environment, "" = nobody
    solver_tried: int = 0
    unsolved: tuple[str, ...] = ()  # ids of tasks that the solver could not solve


@dataclass(frozen=True, slots=True)
class Score:
    """Hand scores against the pipeline's, one by one."""

    made: Made = Made()
    scored: int = 0
    unsure: int = 0
    pipeline_errors: int = 0  # trajectories without a reward; they are no answer to compare
    wrong: Share = Share()  # disagreements, Clopper-Pearson
    false_positive: Share = Share()  # of those a person calls wrong, paid
    false_negative: Share = Share()  # of those a person calls right, not paid
    weighted_error: float = math.nan  # each stratum at its share of all rollouts
    kappa: float = math.nan
    disagreements: tuple[str, ...] = ()  # "step 3, group g1, rollout 4: paid 1, person says wrong"


@dataclass(frozen=True, slots=True)
class ProbeClass:
    """One kind of input given to the verifier."""

    name: str
    calls: int = 0
    paid: int = 0  # got full marks
    mean: float = math.nan
    errors: int = 0
    timeouts: int = 0
    slowest_s: float = 0.0
    example: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """One fault of a verifier, with the share of calls that show it."""

    fault: ProbeFault
    text: str
    shown: Share = Share()
    zero: bool = False  # the default or the missed mark is the floor of the reward


@dataclass(frozen=True, slots=True)
class Probe:
    """How a verifier answers known inputs in a worker process."""

    made: Made = Made()
    convention: str = ""
    template: str = ""  # how a gold answer was written as a completion
    full_marks: float = math.nan
    floor: float = math.nan
    classes: tuple[ProbeClass, ...] = ()
    findings: tuple[ProbeFinding, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplayFinding:
    fault: ReplayFault
    text: str
    shown: Share = Share()
    episodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replay:
    """Episodes played again from their seeds."""

    made: Made = Made()
    replayed: int = 0
    skipped: int = 0  # without a task, a seed or their turns
    same: int = 0
    findings: tuple[ReplayFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Overlap:
    """Held-out items that were found in one training path."""

    path: str  # "train", "sft", "few-shot"
    how: str  # "exact", "normalised", "n-gram", "near-duplicate"
    held_out: Share = Share()
    examples: tuple[str, ...] = ()  # "held-out row 3 = train row 17"


@dataclass(frozen=True, slots=True)
class FamilyOverlap:
    """Instances (prompt and answer) and answer keys that one family shares between training and held-out."""

    family: str
    held_out: int
    instances: int
    answer_keys: int  # held-out items whose long answer is an answer of a training item too
    trained: int = 0  # training items of this family


@dataclass(frozen=True, slots=True)
class Leakage:
    """Overlap of every training path with the held-out set; a held-out item counts once, by the strictest match."""

    made: Made = Made()
    training: int = 0
    held_out: int = 0
    leaked: Share = Share()
    overlaps: tuple[Overlap, ...] = ()
    families: tuple[FamilyOverlap, ...] = ()
    shared_families: tuple[str, ...] = ()  # declared wholly held out, and in training
    same_template: int = 0  # held-out items that differ from a training one in their numbers alone: no leak
    duplicates: int = 0  # training items that repeat an earlier one


@dataclass(frozen=True, slots=True)
class Rewards:
    """What `reward_probe` recorded: calls of the reward function inside training."""

    made: Made = Made()
    trajectories: int = 0
    errors: Share = Share()
    none: int = 0
    error_types: tuple[str, ...] = ()
    slowest_s: float = 0.0
    median_s: float = math.nan
    broken_lines: int = 0


Audit = Preflight | Score | Probe | Replay | Leakage | Rewards
CLASSES: Mapping[AuditKind, type[Any]] = {
    AuditKind.PREFLIGHT: Preflight,
    AuditKind.SCORE: Score,
    AuditKind.PROBE: Probe,
    AuditKind.REPLAY: Replay,
    AuditKind.LEAKAGE: Leakage,
    AuditKind.REWARDS: Rewards,
}
UNKNOWN: Mapping[AuditKind, str] = {
    AuditKind.PREFLIGHT: "learnability unknown: no base-policy rollouts were examined (rlvitals preflight)",
    AuditKind.PROBE: "verifier unverified: it was never given known answers (rlvitals audit probe)",
    AuditKind.SCORE: "verifier unverified: no trajectory was scored by hand (rlvitals audit score)",
    AuditKind.REPLAY: "determinism unknown: no episode was replayed (rlvitals audit replay)",
    AuditKind.LEAKAGE: "leakage unchecked: training and held-out data were not compared (rlvitals audit leakage)",
    AuditKind.REWARDS: "verifier errors unknown: the reward function is not wrapped (rlvitals.reward_probe)",
}
T = TypeVar("T")


def kind_of(audit: Audit) -> AuditKind:
    """Return the kind of a record."""
    return next(kind for kind, cls in CLASSES.items() if type(audit) is cls)


def folder_of(run: Path) -> Path:
    """Return where the records of a run lie: `.rlvitals` in its folder, or beside its file."""
    return (run if run.is_dir() else run.parent) / FOLDER


def write(audit: Audit, folder: Path) -> Path:
    """Write a record, the newest of one subject in place of the one before. Raises InputError."""
    kind = kind_of(audit)
    subject = re.sub(r"[^A-Za-z0-9._-]+", "-", audit.made.subject).strip("-.")[:60] or "run"
    path = folder / f"{kind}-{subject}.json"
    body = {"audit": kind.value, **dataclasses.asdict(audit)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".tmp")
        whole.write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n")
        whole.replace(path)
    except OSError as error:
        raise InputError(Problem("cannot write", str(path), error.strerror or str(error))) from error
    return path


def read_folder(folder: Path) -> tuple[tuple[Audit, ...], tuple[str, ...]]:
    """Return the records of a folder, oldest first, and what could not be read of it."""
    found: list[Audit] = []
    broken: list[str] = []
    if not folder.is_dir():
        return (), ()
    paths = sorted(p for kind in CLASSES for p in folder.glob(f"{kind.value}-*.json"))
    for path in paths[:MAX_RECORDS]:
        try:
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
            found.append(from_mapping(orjson.loads(path.read_bytes())))
        except (OSError, ValueError) as error:
            broken.append(f"{path.name}: not a record of an audit: {error}")
    if len(paths) > MAX_RECORDS:
        broken.append(f"{len(paths) - MAX_RECORDS} records beyond the first {MAX_RECORDS} were left out")
    return tuple(sorted(found, key=lambda a: a.made.at)), tuple(broken)


def from_mapping(data: object) -> Audit:
    """Return the record that a mapping holds. Raises ValueError naming the field that has another type."""
    if not isinstance(data, dict) or data.get("audit") not in set(AuditKind):
        raise ValueError('no "audit" field that names a kind of audit')
    body = {k: v for k, v in data.items() if k != "audit"}
    record: Audit = _decode(CLASSES[AuditKind(data["audit"])], body, str(data["audit"]))
    return record


def _decode(kind: Any, value: Any, where: str) -> Any:
    """Return a JSON value as a value of the annotated type. Raises ValueError."""
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, value, where)
    origin = typing.get_origin(kind)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where}: expected a list")
        return tuple(_decode(typing.get_args(kind)[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is types.UnionType:
        return None if value is None else _decode(typing.get_args(kind)[0], value, where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    if kind is float:
        if value is None:
            return math.nan  # JSON has no NaN
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(kind, type) and type(value) is kind:
        return value
    raise ValueError(f"{where}: expected {getattr(kind, '__name__', kind)}, found {type(value).__name__}")


def _decode_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object")
    hints = typing.get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    try:
        return kind(**{k: _decode(hints[k], v, f"{where}.{k}") for k, v in value.items() if k in known})
    except TypeError as error:  # a field without a default is missing
        raise ValueError(f"{where}: {error}") from error


def newest(audits: tuple[object, ...], kind: type[T]) -> tuple[T, ...]:
    """Return the records of one kind, newest first."""
    return tuple(a for a in reversed(audits) if isinstance(a, kind))
