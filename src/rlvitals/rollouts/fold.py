"""Facts over batches of rollouts: one pass that streams, parts that merge, series per step, examples that stay few.

File, cluster and live monitor call the same functions: a live step is a fold over one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rlvitals.rollouts.fact import Fact, Series, Sums
from rlvitals.rollouts.facts import FACTS
from rlvitals.rollouts.sample import PER_STEP, Chosen
from rlvitals.rollouts.settled import Settled, joined, settle, settled_in
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.schema import Example, Float64, Int64

PER_FACT_AND_STEP = 3  # examples kept
MAX_EXAMPLES = 50_000  # examples kept over a run; the oldest leave first
SHARE = "rollouts/text_sampled_frac"
_JOIN_AT = 64  # parts of one fact that wait before they are joined

Examples = Mapping[tuple[str, int], tuple[Example, ...]]
"""(fact, step) -> its rollouts, in the order of the dump."""


@dataclass(frozen=True)
class Folded:
    """What the facts counted over some rollouts.

    Args:
        facts: the facts, in order.
        sums: fact name -> its sums; a fact that no batch had columns for is left out.
        seen: keyed by step: "rollouts" of the training split, "sampled" for text.
        kept: examples by (fact, step).
        settled: fact name -> the series of steps whose sums were let go.
    """

    facts: tuple[Fact, ...]
    sums: Mapping[str, Sums]
    seen: Sums
    kept: Examples = field(default_factory=dict)
    settled: Mapping[str, Settled] = field(default_factory=dict)

    @property
    def rollouts(self) -> int:
        """Rollouts of the training split that were counted."""
        return int(self.seen.values["rollouts"].sum())

    @property
    def sampled_share(self) -> float:
        """Share of the rollouts whose text was read; NaN when no text fact ran."""
        if "sampled" not in self.seen.values or not self.rollouts:
            return float("nan")
        return float(self.seen.values["sampled"].sum() / self.rollouts)

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples in order of steps."""
        return tuple(e for _, found in sorted(self.kept.items(), key=lambda item: item[0][1]) for e in found)

    def series(self) -> Series:
        """Return metric -> (steps, values); a metric that two facts write comes from the first of them."""
        out: dict[str, tuple[Int64, Float64]] = {}
        for fact in self.facts:
            found, old = self.sums.get(fact.name), self.settled.get(fact.name)
            lines = fact.finish(found) if found is not None and found.rows else {}
            lines = joined([old.series, lines]) if old is not None else lines
            out |= {name: line for name, line in lines.items() if name not in out}
        if "sampled" in self.seen.values and self.seen.rows:
            out[SHARE] = (self._steps(), self.seen.values["sampled"] / self.seen.values["rollouts"])
        return out

    def _steps(self) -> Int64:
        return np.asarray(self.seen.keys[0], dtype=np.int64)

    @classmethod
    def merge(cls, parts: Sequence[Folded]) -> Folded:
        """Join the parts of one fold, whatever file or worker they come from. Raises ValueError without parts."""
        if not parts:
            raise ValueError("nothing to merge")
        if len(parts) == 1:
            return parts[0]
        facts = tuple({f.name: f for part in parts for f in part.facts}.values())
        sums = {
            fact.name: Sums.merge([p.sums[fact.name] for p in parts if fact.name in p.sums])
            for fact in facts
            if any(fact.name in p.sums for p in parts)
        }
        kept = _joined([p.kept for p in parts])
        return cls(facts, sums, Sums.merge([p.seen for p in parts]), kept, settled_in([p.settled for p in parts]))

    def settle(self, before: int, examples: int = MAX_EXAMPLES) -> Folded:
        """Return the same counts with the sums of the steps below `before` let go and at most so many examples.

        A later part may not hold a step below it.
        """
        sums, settled = dict(self.sums), dict(self.settled)
        for fact in self.facts:
            if fact.name in sums:
                known = settled.get(fact.name, Settled())
                sums[fact.name], settled[fact.name] = settle(fact, sums[fact.name], before, known)
        kept = dict(self.kept)
        _trim(kept, examples)
        return replace(self, sums=sums, settled=settled, kept=kept)


def fold(
    batches: Iterable[Batch],
    facts: Sequence[Fact] = FACTS,
    *,
    text_sample: int | None = PER_STEP,
    chosen: Chosen | None = None,
) -> Folded:
    """Count facts over batches; rollouts of the split "eval" and without a step are left out.

    Args:
        text_sample: rollouts per step whose text is read, None for all. Without `chosen` each batch is sampled by
            itself: right where a batch holds whole steps.
        chosen: the sample found by an earlier pass over the keys, where steps are spread over batches.
    """
    waiting: dict[str, list[Sums]] = {}
    seen: list[Sums] = []
    kept: dict[tuple[str, int], tuple[Example, ...]] = {}
    texts = any(f.reads_text for f in facts)
    for batch in batches:
        batch = training(batch)
        if not batch.rows:
            continue
        sampled = _sampled(batch, text_sample, chosen) if texts else batch
        seen.append(_seen(batch, sampled if texts else None))
        for fact in facts:
            seeing = sampled if fact.reads_text else batch
            if seeing.rows and all(seeing.has(name) for name in fact.reads):
                _take(fact, seeing, waiting, kept)
        if len(seen) >= _JOIN_AT:
            seen = [Sums.merge(seen)]
    none = Sums((np.zeros(0, np.int64),), {"rollouts": np.zeros(0)}, {})
    sums = {fact.name: Sums.merge(waiting[fact.name]) for fact in facts if fact.name in waiting}
    return Folded(tuple(facts), sums, Sums.merge(seen or [none]), kept)


def of_step(
    step: int, batch: Batch, facts: Sequence[Fact] = FACTS, *, text_sample: int | None = PER_STEP
) -> tuple[dict[str, float], tuple[Example, ...]]:
    """Return (metric -> value, examples) of the rollouts of one step: what the live monitor adds to its row.

    Whatever the batch says of steps, its rollouts count to `step`. Values are finite or left out.
    """
    columns = {**batch.columns, "step": np.full(batch.rows, step, dtype=np.int64)}
    folded = fold([replace(batch, columns=columns)], facts, text_sample=text_sample)
    values = {name: float(v[-1]) for name, (_, v) in folded.series().items() if v.size and np.isfinite(v[-1])}
    return values, folded.examples


def training(batch: Batch) -> Batch:
    """Return the rollouts of the training split that have a step."""
    keep = batch.integer("step") != MISSING
    if batch.has("split"):
        keep &= ~np.asarray(batch.text("split") == "eval", dtype=bool)
    return batch if keep.all() else batch.take(np.flatnonzero(keep))


def whole_steps(batches: Iterable[Batch], least: int = 20_000, most: int = 400_000) -> Iterator[Batch]:
    """Yield the same rollouts in batches that end where a step ends, as far as a step's rows stand together.

    Facts that look at a whole group (a rank, a z-score, duplicates) need its rollouts in one batch. Small batches are
    joined up to `least` rows; a step of more than `most` rows is cut.
    """
    waiting: list[Batch] = []
    for batch in batches:
        if batch.rows:
            waiting.append(batch)
        rows = sum(b.rows for b in waiting)
        if rows < least:
            continue
        held = Batch.joined(waiting)
        step = held.integer("step")
        begin = int(step.size - np.argmax(step[::-1] != step[-1])) if (step != step[-1]).any() else 0
        if rows > most and not begin:
            begin = rows
        waiting = [held.take(slice(begin, rows))] if begin < rows else []
        if begin:
            yield held.take(slice(0, begin))
    if waiting:
        yield Batch.joined(waiting)


def _sampled(batch: Batch, per_step: int | None, chosen: Chosen | None) -> Batch:
    if per_step is None:
        return batch
    mask = (chosen or Chosen.of(batch, per_step)).mask(batch)
    return batch if mask.all() else batch.take(np.flatnonzero(mask))


def _seen(batch: Batch, sampled: Batch | None) -> Sums:
    step = batch.integer("step")
    if sampled is None:
        return Sums.of((step,), {"rollouts": np.ones(batch.rows)})
    keys = np.concatenate([step, sampled.integer("step")])
    count = np.concatenate([np.ones(batch.rows), np.zeros(sampled.rows)])
    return Sums.of((keys,), {"rollouts": count, "sampled": 1.0 - count})


def _take(
    fact: Fact, batch: Batch, waiting: dict[str, list[Sums]], kept: dict[tuple[str, int], tuple[Example, ...]]
) -> None:
    parts = waiting.setdefault(fact.name, [])
    sums = fact.fold(batch)
    parts.append(sums)
    if len(parts) > _JOIN_AT:
        waiting[fact.name] = [Sums.merge(parts)]
    if fact.examples is None:
        return
    for example in fact.examples(batch, sums):
        at = (fact.name, example.step)
        if len(kept.get(at, ())) < PER_FACT_AND_STEP:
            kept[at] = (*kept.get(at, ()), example)
    _trim(kept)


def _trim(kept: dict[tuple[str, int], tuple[Example, ...]], most: int = MAX_EXAMPLES) -> None:
    """Drop the examples of the oldest steps where there are too many."""
    if len(kept) * PER_FACT_AND_STEP <= most:
        return
    oldest = sorted(kept, key=lambda at: at[1])
    for at in oldest[: len(kept) - most // (2 * PER_FACT_AND_STEP)]:
        del kept[at]


def _joined(parts: Sequence[Examples]) -> Examples:
    out: dict[tuple[str, int], tuple[Example, ...]] = {}
    for part in parts:
        for at, found in part.items():
            both = sorted((*out.get(at, ()), *found), key=lambda e: (e.source, e.row, e.group, e.index))
            out[at] = tuple(both[:PER_FACT_AND_STEP])
    _trim(out)
    return out


def columns_read(facts: Sequence[Fact], *, text: bool | None = None) -> tuple[str, ...]:
    """Return the columns that facts read beside the keys; `text` picks those with or without text."""
    seen = [f for f in facts if text is None or f.reads_text is text]
    return tuple(dict.fromkeys(name for f in seen for name in (*f.reads, *f.also)))
