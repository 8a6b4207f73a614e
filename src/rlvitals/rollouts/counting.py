"""The facts of a whole dump: numbers on every rollout, text on the same sample that any other worker would choose.

One pass counts the numbers and chooses the sample, a second reads the text of the chosen rollouts alone. Both are made
of parts that merge, so that one machine and a cluster (`cluster.py`) run the same functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rlvitals.rollouts.dump import Rollouts
from rlvitals.rollouts.fact import Fact
from rlvitals.rollouts.facts import FACTS
from rlvitals.rollouts.facts.common import excerpt
from rlvitals.rollouts.fold import Folded, columns_read, fold, training
from rlvitals.rollouts.grouping import BY_ID, UNKNOWN, Grouper
from rlvitals.rollouts.sample import PER_STEP, Chosen
from rlvitals.rollouts.skips import Skips
from rlvitals.rollouts.table import MISSING, Batch

ONE_PASS = 64 * 2**20  # bytes of a dump up to which text is read with the numbers
REPLAYED = "kept: the dump's steps go back, as after a restart: a step that stands in it twice is counted as one"
_JOIN_AT = 32  # samples that wait before they are joined
_ALWAYS = ("step", "group", "index", "reward", "split")


@dataclass(frozen=True)
class Pass:
    """What one pass over some files gave.

    Attributes:
        chosen: the sample for the text facts, None where no second pass is needed.
    """

    folded: Folded
    grouper: Grouper
    skips: Skips
    columns: tuple[str, ...]
    chosen: Chosen | None = None


def count(
    rollouts: Rollouts, facts: Sequence[Fact] = FACTS, *, text_sample: int | None = PER_STEP
) -> tuple[Folded, Rollouts]:
    """Return what the facts counted, and the rollouts with what was found on the way.

    Args:
        text_sample: rollouts per step whose text is read, None for all of them.

    Raises InputError when nothing can be read.
    """
    found = passed(rollouts, facts, text_sample)
    folded = with_excerpts(rollouts, found.folded)
    return folded, described(rollouts, [found], folded)


def with_excerpts(rollouts: Rollouts, folded: Folded) -> Folded:
    """Return the fold with the text of its examples: facts that read no text chose some without seeing it."""
    bare = [e for found in folded.kept.values() for e in found if not e.excerpt and e.source and e.row >= 0]
    if not bare:
        return folded
    rows: dict[Path, list[int]] = {}
    for example in bare:
        rows.setdefault(Path(example.source), []).append(example.row)
    chosen = {path: sorted(set(at)) for path, at in rows.items()}
    said: dict[tuple[str, int], str] = {}
    for batch in rollouts.scan(("completion",), rows=chosen, skips=Skips()):
        for i, text in enumerate(batch.text("completion")):
            said[batch.file(i), batch.row(i)] = excerpt(text)
    kept = {
        key: tuple(replace(e, excerpt=e.excerpt or said.get((e.source, e.row), "")) for e in found)
        for key, found in folded.kept.items()
    }
    return replace(folded, kept=kept)


def passed(rollouts: Rollouts, facts: Sequence[Fact], text_sample: int | None) -> Pass:
    """Count all facts in as many passes as the size of the dump asks for. Raises InputError."""
    if text_sample is None or rollouts.bytes <= ONE_PASS or not any(f.reads_text for f in facts):
        return at_once(rollouts, facts, text_sample)
    first = numbers(rollouts, facts, text_sample)
    assert first.chosen is not None
    return replace(first, folded=Folded.merge([first.folded, texts(rollouts, facts, first.chosen, first.grouper)]))


def at_once(rollouts: Rollouts, facts: Sequence[Fact], text_sample: int | None) -> Pass:
    """Count all facts in one pass; the sample is taken within each batch, which holds whole steps."""
    watch = Watch(rollouts)
    folded = fold(watch.scan(columns_read(facts)), facts, text_sample=text_sample)
    return Pass(folded, watch.grouper, watch.skips, tuple(watch.columns))


def numbers(rollouts: Rollouts, facts: Sequence[Fact], text_sample: int) -> Pass:
    """Count the facts that read no text, and choose the sample for those that do."""
    watch = Watch(rollouts)
    plain = [f for f in facts if not f.reads_text]
    folded = fold(watch.scan((*columns_read(plain), *_ALWAYS), text_sample), plain)
    return Pass(folded, watch.grouper, watch.skips, tuple(watch.columns), watch.chosen(text_sample))


def texts(rollouts: Rollouts, facts: Sequence[Fact], chosen: Chosen, grouper: Grouper) -> Folded:
    """Count the facts that read text on the chosen rollouts; every one of them counts as sampled, none anew."""
    reading = [f for f in facts if f.reads_text]
    folded = fold(_chosen(rollouts, reading, chosen, grouper), reading, text_sample=None)
    sampled = folded.seen.values["rollouts"]
    return replace(folded, seen=replace(folded.seen, values={"rollouts": 0.0 * sampled, "sampled": sampled}))


def _chosen(rollouts: Rollouts, facts: Sequence[Fact], chosen: Chosen, grouper: Grouper) -> Iterator[Batch]:
    """Read the chosen rollouts; where groups are told by place, everything is read and the chosen ones kept."""
    names = (*columns_read(facts), *_ALWAYS)
    if grouper.found().how in (BY_ID, UNKNOWN):
        rows = chosen.rows()
        mine = {path: rows[path] for path in rollouts.files if path in rows}
        yield from rollouts.scan(names, rows=mine, skips=Skips())
        return
    for batch in rollouts.scan(names, skips=Skips()):
        yield batch.take(chosen.mask(batch).nonzero()[0])


def described(rollouts: Rollouts, passes: Sequence[Pass], folded: Folded) -> Rollouts:
    """Return the rollouts with what the passes over their files found."""
    grouper, skips = Grouper(rollouts.group_size), Skips()
    for one in passes:
        grouper.ways.update(one.grouper.ways)
        grouper.sizes.update(one.grouper.sizes)
        for (reason, file), (times, row) in one.skips.found.items():
            skips.add(reason, file, row, times)
    return replace(
        rollouts,
        count=folded.rollouts,
        columns=tuple(dict.fromkeys(name for one in passes for name in one.columns)),
        grouping=grouper.found(),
        skips=skips,
        sampled_share=folded.sampled_share,
        examples=folded.examples,
    )


class Watch:
    """Notes what passes by while a dump is read: columns, groups, skips, and the sample for the second pass."""

    def __init__(self, rollouts: Rollouts) -> None:
        self.rollouts = rollouts
        self.grouper = Grouper(rollouts.group_size)
        self.skips = Skips()
        self.columns: dict[str, None] = {}
        self._chosen: list[Chosen] = []
        self._last = MISSING
        self._changes = self._backs = 0

    def scan(self, columns: Sequence[str], per_step: int | None = None) -> Iterator[Batch]:
        for batch in self.rollouts.scan(columns, grouper=self.grouper, skips=self.skips):
            self.take(batch)
            if per_step is not None:
                self._chosen.append(Chosen.of(training(batch), per_step))
                if len(self._chosen) >= _JOIN_AT:
                    self._chosen = [Chosen.merge(self._chosen, per_step)]
            yield batch
        self.end()

    def end(self) -> None:
        """Note what only the whole dump tells."""
        if 0 < self._backs <= max(1, self._changes // 20):  # more of them: the rows stand in no order
            self.skips.add(REPLAYED, str(self.rollouts.files[0]), -1, self._backs)

    def fork(self) -> Watch:
        """Return a watch that has seen the same and goes its own way from here on."""
        other = copy(self)
        other.grouper = Grouper(self.grouper.size, self.grouper.ways.copy(), self.grouper.sizes.copy())
        other.skips, other.columns = Skips(dict(self.skips.found)), dict(self.columns)
        return other

    def take(self, batch: Batch) -> None:
        """Note the columns of a batch, and where its steps go on and where they go back."""
        self.columns |= dict.fromkeys(batch.columns)
        steps = batch.integer("step")
        line = np.concatenate([[self._last], steps[steps != MISSING]])
        change = np.diff(line[line != MISSING])
        self._changes += int(np.count_nonzero(change))
        self._backs += int(np.count_nonzero(change < 0))
        self._last = int(line[-1])

    def chosen(self, per_step: int) -> Chosen:
        return Chosen.merge(self._chosen or [Chosen.none()], per_step)


__all__ = ["ONE_PASS", "Pass", "Watch", "at_once", "count", "described", "numbers", "passed", "texts"]
