"""The canonical rollout table: one row per trajectory, in batches of numpy columns.

Every dump is turned into batches of this form by a reader (`rollouts/readers/`), our own trainer writes parquet
files with exactly these columns, and the live monitor builds a batch per step. Facts (`rollouts/facts/`) see nothing
else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from rlvitals.schema import Example

Column = npt.NDArray[np.float64] | npt.NDArray[np.int64] | npt.NDArray[np.object_]


class Kind(StrEnum):
    """How a column is held in a batch and what stands for "not there"."""

    INTEGER = "integer"  # int64; absent = MISSING
    NUMBER = "number"  # float64; absent = NaN
    TEXT = "text"  # object array of str; absent = None
    TOKENS = "tokens"  # object array of float64 arrays, one value per completion token; absent = None


MISSING = -(2**63)
ROW = "row"  # INTEGER, kept by the readers: number of the rollout in its file, from 0
FILE = "file"  # TEXT, where a batch holds rollouts of several files
EXCERPT = 600  # characters of a completion that an example carries
PART = "reward_part/"  # open family of NUMBER columns: one per reward component, unweighted where possible


@dataclass(frozen=True, slots=True)
class Field:
    """One column of the table."""

    name: str
    kind: Kind
    unit: str
    meaning: str


FIELDS: tuple[Field, ...] = (
    Field("step", Kind.INTEGER, "steps", "Training step that the rollout was used for."),
    Field("group", Kind.TEXT, "", "Group within the step: rollouts that share a baseline."),
    Field("index", Kind.INTEGER, "", "Number of the rollout in its group, from 0."),
    Field("prompt_id", Kind.TEXT, "", "Identity of the prompt over steps."),
    Field("family", Kind.TEXT, "", "Task family, data source or environment."),
    Field("tier", Kind.TEXT, "", "Difficulty tier or level."),
    Field("split", Kind.TEXT, "", '"train" or "eval"; absent counts as train.'),
    Field("segment", Kind.INTEGER, "", "Stretch between restarts, from 0."),
    Field("prompt", Kind.TEXT, "", "Prompt text, or the first messages joined."),
    Field("completion", Kind.TEXT, "", "Completion text; of several turns the assistant's, joined."),
    Field("completion_id", Kind.TEXT, "", "Hash of the completion's text: equal for the same text."),
    Field("turns", Kind.INTEGER, "turns", "Assistant turns."),
    Field("gold", Kind.TEXT, "", "Expected answer."),
    Field("reward", Kind.NUMBER, "reward", "Total reward before KL terms; NaN = no reward (verifier error)."),
    Field("correct", Kind.NUMBER, "fraction", "1 right, 0 wrong, by the verifier or accuracy column."),
    Field("raw_output", Kind.TEXT, "", "The verifier's own output before it became a reward."),
    Field("parsed", Kind.TEXT, "", "Answer that the parser read."),
    Field("verifier_status", Kind.TEXT, "", "right, wrong, no parse, error or timeout (env.VerifierStatus)."),
    Field("verifier_seconds", Kind.NUMBER, "seconds", "Time the verifier took."),
    Field("advantage", Kind.NUMBER, "advantage units", "Advantage used by the update."),
    Field("group_advantage_mean", Kind.NUMBER, "advantage units", "Mean of the advantages in its group."),
    Field("group_advantage_std", Kind.NUMBER, "advantage units", "Sample standard deviation of those."),
    Field("tokens", Kind.INTEGER, "tokens", "Completion length."),
    Field("prompt_tokens", Kind.INTEGER, "tokens", "Prompt length."),
    Field("stop_reason", Kind.TEXT, "", "eos, budget, timeout, error, tool or env (env.StopReason)."),
    Field("policy_version", Kind.INTEGER, "versions", "Version of the weights that sampled it."),
    Field("trainer_version", Kind.INTEGER, "versions", "Version of the weights that it updated."),
    Field("sampler_logp", Kind.TOKENS, "nats", "Log-probability of each token under the sampler."),
    Field("trainer_logp", Kind.TOKENS, "nats", "Log-probability of each token under the trainer, before the update."),
    Field("sampler_logp_sum", Kind.NUMBER, "nats", "Sum of the sampler's log-probabilities."),
    Field("trainer_logp_sum", Kind.NUMBER, "nats", "Sum of the trainer's log-probabilities."),
    Field("mismatch_abs_mean", Kind.NUMBER, "nats", "Mean over tokens of |trainer - sampler| log-probability."),
    Field("mismatch_k3_mean", Kind.NUMBER, "nats", "Mean over tokens of k3(trainer / sampler)."),
    Field("mismatch_abs_max", Kind.NUMBER, "nats", "Largest |trainer - sampler| log-probability of a token."),
    Field("entropy_mean", Kind.NUMBER, "nats", "Mean entropy of the policy over completion tokens."),
    Field("kl_ref", Kind.NUMBER, "nats", "Mean over tokens of k3(reference / policy), before the update."),
    Field("seed", Kind.INTEGER, "", "Seed that replays it."),
    Field("temperature", Kind.NUMBER, "", "Sampling temperature in force."),
    Field("top_p", Kind.NUMBER, "fraction", "Nucleus in force."),
    Field("token_budget", Kind.INTEGER, "tokens", "Completion budget in force."),
    Field("env_version", Kind.TEXT, "", "Environment version or hash."),
    Field("reward_version", Kind.TEXT, "", "Reward version or hash."),
    Field("sampler_version", Kind.TEXT, "", "Hash of the sampler's configuration."),
)
BY_NAME: Mapping[str, Field] = {f.name: f for f in FIELDS}
TEXT_HEAVY = frozenset({"prompt", "completion", "raw_output"})
"""Columns read only when asked for: they are most of the bytes."""


def kind_of(name: str) -> Kind:
    """Return the kind of a column. Raises KeyError for a name that is none."""
    if name in (ROW, FILE):
        return Kind.INTEGER if name == ROW else Kind.TEXT
    return Kind.NUMBER if name.startswith(PART) else BY_NAME[name].kind


def absent(kind: Kind, rows: int) -> Column:
    """Return a column that says "not there" in every row."""
    if kind is Kind.INTEGER:
        return np.full(rows, MISSING, dtype=np.int64)
    if kind is Kind.NUMBER:
        return np.full(rows, np.nan)
    return np.full(rows, None, dtype=object)


@dataclass(frozen=True)
class Batch:
    """Consecutive rollouts of one source.

    Args:
        rows: number of rollouts.
        columns: canonical name -> array[rows] of the kind of its field; a column nobody wrote is left out.
        source: file they came from; `first_row` the number of their first row in it.
        derived: what was computed of these very rows and may serve again; never copied.
    """

    rows: int
    columns: Mapping[str, Column]
    source: str = ""
    first_row: int = 0
    notes: tuple[str, ...] = field(default=())
    derived: dict[str, object] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        wrong = [f"{name}: {column.shape[0]}" for name, column in self.columns.items() if column.shape[0] != self.rows]
        if wrong:
            raise ValueError(f"columns of another length than {self.rows}: {', '.join(wrong)}")

    def has(self, name: str) -> bool:
        return name in self.columns

    def take(self, at: npt.NDArray[np.int64] | slice) -> Batch:
        """Return some of the rollouts; a slice keeps their place in the file, numbers of rows do not."""
        columns = {name: column[at] for name, column in self.columns.items()}
        if isinstance(at, slice):
            start, stop, _ = at.indices(self.rows)
            return replace(self, rows=max(stop - start, 0), columns=columns, first_row=self.first_row + start)
        if ROW not in columns:
            columns[ROW] = at + self.first_row
        return replace(self, rows=int(at.size), columns=columns)

    @classmethod
    def joined(cls, parts: Sequence[Batch]) -> Batch:
        """Return batches as one; a column that one of them lacks is absent in its rows."""
        if len(parts) == 1:
            return parts[0]
        names = dict.fromkeys(name for part in parts for name in part.columns)
        if len({part.source for part in parts}) > 1 or FILE in names:
            parts = [part.named() for part in parts]
            names[FILE] = None
        columns = {
            name: np.concatenate(
                [p.columns[name] if name in p.columns else absent(kind_of(name), p.rows) for p in parts]
            )
            for name in names
        }
        return replace(parts[0], rows=sum(p.rows for p in parts), columns=columns)

    def named(self) -> Batch:
        """Return the batch with file and row of each rollout as columns."""
        columns = dict(self.columns)
        if ROW not in columns:
            columns[ROW] = np.arange(self.first_row, self.first_row + self.rows, dtype=np.int64)
        if FILE not in columns:
            columns[FILE] = np.full(self.rows, self.source, dtype=object)
        return replace(self, columns=columns)

    def row(self, at: int) -> int:
        """Return the row of the source that a rollout was read from."""
        return int(self.columns[ROW][at]) if ROW in self.columns else self.first_row + at

    def file(self, at: int) -> str:
        """Return the file that a rollout was read from, "" for a live one."""
        return str(self.columns[FILE][at]) if FILE in self.columns else self.source

    def texts_at(self, at: int) -> str:
        """Return a bounded excerpt of a completion, "" where there is none."""
        text = self.columns["completion"][at] if "completion" in self.columns else None
        return text[:EXCERPT] if isinstance(text, str) else ""

    def example(self, shows: str, at: int) -> Example:
        """Return a rollout as an example of what a fact shows."""
        group = self.text("group")[at]
        index, step = int(self.integer("index")[at]), int(self.integer("step")[at])
        return Example(
            shows, step, "" if group is None else str(group)[:200], -1 if index == MISSING else index,
            float(self.number("reward")[at]), self.texts_at(at), self.file(at), self.row(at) if self.source else -1,
        )  # fmt: skip

    def integer(self, name: str) -> npt.NDArray[np.int64]:
        """Return an INTEGER column, MISSING where absent."""
        return np.asarray(self.columns[name] if name in self.columns else absent(Kind.INTEGER, self.rows))

    def number(self, name: str) -> npt.NDArray[np.float64]:
        """Return a NUMBER column, NaN where absent."""
        return np.asarray(self.columns[name] if name in self.columns else absent(Kind.NUMBER, self.rows))

    def text(self, name: str) -> npt.NDArray[np.object_]:
        """Return a TEXT column, None where absent."""
        return np.asarray(self.columns[name] if name in self.columns else absent(Kind.TEXT, self.rows))

    def parts(self) -> tuple[str, ...]:
        """Return the reward components, without their prefix, sorted."""
        return tuple(sorted(n.removeprefix(PART) for n in self.columns if n.startswith(PART)))
