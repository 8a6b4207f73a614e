"""Which rollouts share a baseline: by the dump's own id, else by place and prompt, else by prompt; and how sure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from rlvitals.rollouts.fact import codes
from rlvitals.rollouts.table import MISSING, Batch
from rlvitals.schema import Int64

_LONGEST = 4_096  # rollouts of a group, as far as sizes are told apart
_FITTING = 0.8  # share of runs of a prompt that a group size must divide (convention)
BY_ID, BY_PLACE, BY_PROMPT, UNKNOWN = "id", "position", "prompt", "unknown"
_TEXT = {
    BY_ID: "by the id that the dump carries",
    BY_PLACE: "by position: rollouts of a group follow one another and share a prompt",
    BY_PROMPT: "by prompt within a step, since rows are shuffled: a prompt drawn twice in a step is one group",
    UNKNOWN: "not at all: neither an id nor a prompt is there",
}


@dataclass(frozen=True, slots=True)
class Grouping:
    """How the groups of a dump were found.

    Attributes:
        how: "id", "position", "prompt" or "unknown": the weakest way that was needed.
        sure: "certain", "likely" or "unknown".
        size: the group size that was used or found, 0 where groups come by id.
    """

    how: str
    sure: str
    size: int = 0
    odd: int = 0  # groups of another size

    def __str__(self) -> str:
        text = f"groups told {_TEXT[self.how]}"
        if self.how in (BY_PLACE, BY_PROMPT) and self.size:
            text += f"; group size {self.size}" + (f", {self.odd} groups of another size" if self.odd else "")
        return f"{text} ({self.sure})" if self.how != UNKNOWN else text


NOT_GROUPED = Grouping(UNKNOWN, "unknown")


@dataclass
class Grouper:
    """Gives every rollout a group and an index, and remembers how it had to.

    Args:
        size: the configured group size, None when unknown.
    """

    size: int | None = None
    ways: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)

    def add(self, batch: Batch) -> Batch:
        """Return the batch with group and index; batches hold whole steps as far as the dump does."""
        if not batch.rows:
            return batch
        if batch.has("group"):
            self.ways[BY_ID] += batch.rows
            return batch if batch.has("index") else _indexed(batch)
        if not batch.has("prompt_id"):
            self.ways[UNKNOWN] += batch.rows
            return batch
        step, prompt = batch.integer("step"), codes(batch.text("prompt_id"))[0]
        new = np.concatenate([[True], (step[1:] != step[:-1]) | (prompt[1:] != prompt[:-1])])
        starts = np.flatnonzero(new)
        lengths = np.diff(np.append(starts, batch.rows))
        pairs = np.unique(np.stack([step, prompt]), axis=1).shape[1]
        size = self.size or int(np.bincount(np.minimum(lengths, _LONGEST)).argmax())
        fits = float((lengths % size == 0).mean()) if size > 1 else 0.0
        if fits >= _FITTING or starts.size == pairs:
            self.ways[BY_PLACE] += batch.rows
            return self._by_place(batch, starts, lengths, size if fits >= _FITTING else 0)
        self.ways[BY_PROMPT] += batch.rows
        return self._by_prompt(batch)

    def _by_place(self, batch: Batch, starts: Int64, lengths: Int64, size: int) -> Batch:
        """Number the runs of a prompt within each step, cut into groups of `size` where that fits."""
        place = np.arange(batch.rows) - np.repeat(starts, lengths)
        within = np.where(np.repeat(lengths % size == 0, lengths), place % size, place) if size else place
        begins = np.flatnonzero(within == 0)
        self._note(np.diff(np.append(begins, batch.rows)))
        step = batch.integer("step")
        number = np.cumsum(within == 0) - 1
        first = np.concatenate([[True], step[1:] != step[:-1]])
        base = number[np.maximum.accumulate(np.where(first, np.arange(batch.rows), 0))]
        label = np.array([str(n) for n in range(int((number - base).max()) + 1)], dtype=object)
        return replace(
            batch, columns={**batch.columns, "group": label[number - base], "index": within.astype(np.int64)}
        )

    def _by_prompt(self, batch: Batch) -> Batch:
        known = replace(batch, columns={**batch.columns, "group": batch.text("prompt_id")})
        out = _indexed(known)
        sizes = Counter(zip(out.integer("step").tolist(), out.text("group").tolist(), strict=True))
        self._note(np.array(list(sizes.values()), dtype=np.int64))
        return out

    def _note(self, sizes: Int64) -> None:
        found, counts = np.unique(sizes, return_counts=True)
        self.sizes.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))

    def found(self) -> Grouping:
        """Return how the groups seen so far were told."""
        if not self.ways:
            return Grouping(UNKNOWN, "unknown")
        how = max(self.ways, key=(BY_ID, BY_PLACE, BY_PROMPT, UNKNOWN).index)
        if how in (BY_ID, UNKNOWN):
            return Grouping(how, "certain" if how == BY_ID else "unknown")
        size = self.size or (self.sizes.most_common(1)[0][0] if self.sizes else 0)
        odd = sum(count for length, count in self.sizes.items() if length != size)
        certain = how == BY_PLACE and self.size is not None and not odd
        return Grouping(how, "certain" if certain else "likely", size, odd)


def _indexed(batch: Batch) -> Batch:
    """Return the batch with the rollouts of each (step, group) numbered in order."""
    step = batch.integer("step")
    group = codes(batch.text("group"))[0]
    order = np.lexsort((group, step))
    s, g = step[order], group[order]
    new = np.concatenate([[True], (s[1:] != s[:-1]) | (g[1:] != g[:-1])])
    starts = np.flatnonzero(new)
    place = np.arange(order.size) - np.repeat(starts, np.diff(np.append(starts, order.size)))
    index = np.full(batch.rows, MISSING, dtype=np.int64)
    index[order] = place
    return replace(batch, columns={**batch.columns, "index": index})
