"""A dump that is counted again and again while it grows: what was counted is kept, and only what is new is read.

The outcome is that of counting the whole dump (`counting.count`), by the same readers and facts. The newest step waits,
since more of its rollouts may come: it is counted anew each time. Where text comes faster than it can be read, fewer
rollouts per step are sampled, and the share is told with the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlvitals.rollouts import counting
from rlvitals.rollouts.counting import ONE_PASS, Pass, Watch
from rlvitals.rollouts.dump import Rollouts
from rlvitals.rollouts.fact import Fact
from rlvitals.rollouts.facts import FACTS
from rlvitals.rollouts.fold import Folded, columns_read, fold, whole_steps
from rlvitals.rollouts.grown import Grown, Piece
from rlvitals.rollouts.sample import PER_STEP
from rlvitals.rollouts.table import MISSING, Batch

OPEN = 16  # newest steps whose sums are kept, for rollouts that come late
EXAMPLES = 5_000  # kept of one run; the oldest leave first
LEAST_TEXTS = 8  # rollouts per step whose text is read however fast they come: one group of the usual size
MAX_WAITING = 20_000  # rollouts of the newest step that wait; a larger step is counted in parts
USUAL_COST = 1e-4  # seconds per text, before any was read (docs/measurements.md, "A growing run read again")
SMOOTHING = 0.3  # weight of the newest cost per text
_BATCH = 2_000  # rollouts that are folded together
NOTHING = fold(())


@dataclass(frozen=True, slots=True)
class _Kind:
    """What makes kept counts worth nothing when it changes."""

    reader: str
    group_size: int | None
    mapping: tuple[tuple[str, str], ...]
    weights: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, rollouts: Rollouts) -> _Kind:
        mapping, weights = (tuple(sorted(m.items())) for m in (rollouts.mapping, rollouts.weights))
        return cls(rollouts.reader.name, rollouts.group_size, mapping, weights)  # type: ignore[arg-type]


class _WentBackError(Exception):
    """A rollout of a step that was settled: the dump is counted from its start."""


class Growing:
    """Counts one dump; `count` stands for `counting.count` where a run is read repeatedly.

    Args:
        text_share: share of the time between two counts that reading text may take once the dump grows.
        first: seconds that reading text may take the first time.
    """

    def __init__(self, facts: Sequence[Fact] = FACTS, *, text_share: float = math.inf, first: float = math.inf) -> None:
        self._facts = tuple(facts)
        self._columns = columns_read(self._facts)
        self.text_share = text_share
        self._left = first
        self._cost = USUAL_COST  # seconds per text, smoothed
        self._last = math.nan  # when it was counted last, monotonic seconds
        self._settles = True
        self._kind: _Kind | None = None

    def count(self, rollouts: Rollouts) -> tuple[Folded, Rollouts]:
        """Return what `counting.count` returns, at the cost of what is new. Raises InputError as it does."""
        if rollouts.reader.together:  # what a file means depends on the others
            return counting.count(rollouts, self._facts)
        kind = _Kind.of(rollouts)
        if kind != self._kind or not self._grown.still_holds(rollouts.files):
            self._settles = True
            self._begin(rollouts)
        self._kind = None  # where counting fails half-way, it begins anew
        try:
            found = self._count(rollouts)
        except _WentBackError:
            self._settles = False
            self._begin(rollouts)
            found = self._count(rollouts)
        except OSError:  # no room for what is new in the temporary folder: the whole dump is read where it stands
            return counting.count(rollouts, self._facts)
        self._kind = kind
        return found

    def _begin(self, rollouts: Rollouts) -> None:
        self._grown = Grown(by_lines=not rollouts.reader.reads_beside)
        self._watch = Watch(rollouts)
        self._parts: list[Pass] = []  # of large files, counted by themselves
        self._folded: Folded | None = None
        self._waiting: Batch | None = None
        self._before = MISSING  # steps below are settled

    def _count(self, rollouts: Rollouts) -> tuple[Folded, Rollouts]:
        now = time.monotonic()
        left = self._left
        if math.isfinite(self._last):
            left = math.inf if math.isinf(self.text_share) else self.text_share * (now - self._last)
        self._last = now
        for bundle in self._grown.new(rollouts.files):
            if bundle[0].whole and sum(p.end - p.begin for p in bundle) > ONE_PASS:
                self._take_large(rollouts, bundle)
            else:
                left -= self._take(rollouts, self._grown.read(rollouts, bundle, self._columns, self._watch.skips), left)
        return self._outcome(rollouts, left)

    def _take(self, rollouts: Rollouts, batches: list[Batch], left: float) -> float:
        """Count the whole steps of new batches; return the seconds that text took."""
        whole = list(whole_steps([*self._held(), *batches], least=_BATCH))
        if not whole:
            return 0.0
        *ready, last = whole
        *more, newest = whole_steps([last], least=1)
        ready += more
        if newest.rows > MAX_WAITING:
            ready, self._waiting = [*ready, newest], None
        else:
            self._waiting = newest.take(np.arange(newest.rows))  # a copy: a slice would keep all that was read
        part, seconds = self._fold(rollouts, ready, self._watch, left)
        self._keep(part)
        return seconds

    def _take_large(self, rollouts: Rollouts, bundle: Sequence[Piece]) -> None:
        """Count large files by themselves: their numbers first, then the text of the sample alone."""
        held, self._waiting = self._held(), None
        self._keep(self._fold(rollouts, held, self._watch, math.inf)[0])
        self._grown.done(bundle)
        files = replace(rollouts, files=tuple(piece.path for piece in bundle))
        found = counting.passed(files, self._facts, PER_STEP)
        self._keep(found.folded)
        self._parts.append(replace(found, folded=NOTHING, chosen=None))

    def _outcome(self, rollouts: Rollouts, left: float) -> tuple[Folded, Rollouts]:
        """Return everything counted, with what may still change: the newest step, and files that are being written."""
        watch = self._watch.fork()
        pieces = self._grown.unfinished(rollouts.files)
        seen = self._grown.peek(rollouts, pieces, self._columns, watch.skips) if pieces else []
        batches = list(whole_steps([*self._held(), *seen], least=_BATCH))
        part = self._fold(rollouts, batches, watch, left)[0]
        self._check(part)
        folded = part if self._folded is None else Folded.merge([self._folded, part])
        if not folded.seen.rows and self._grown.error is not None:
            raise self._grown.error
        watch.end()
        last = Pass(folded, watch.grouper, watch.skips, tuple(watch.columns))
        return folded, counting.described(rollouts, [*self._parts, last], folded)

    def _fold(self, rollouts: Rollouts, batches: Sequence[Batch], watch: Watch, left: float) -> tuple[Folded, float]:
        """Return what the facts count over whole steps, and the seconds that text took of those that are left."""
        prepared = [rollouts.prepared(batch, watch.grouper) for batch in batches]
        for batch in prepared:
            watch.take(batch)
        numbers = fold(prepared, [f for f in self._facts if not f.reads_text])
        begin = time.perf_counter()
        texts = fold(prepared, [f for f in self._facts if f.reads_text], text_sample=self._texts(prepared, left))
        seconds = time.perf_counter() - begin
        read = float(texts.seen.values["sampled"].sum()) if "sampled" in texts.seen.values else 0.0
        if read:
            self._cost = (1 - SMOOTHING) * self._cost + SMOOTHING * seconds / read
        return Folded(self._facts, {**numbers.sums, **texts.sums}, texts.seen, {**numbers.kept, **texts.kept}), seconds

    def _texts(self, batches: Sequence[Batch], left: float) -> int:
        """Return how many rollouts per step have their text read in the time that is left."""
        if math.isinf(left):
            return PER_STEP
        steps = sum(int(np.unique(batch.integer("step")).size) for batch in batches)
        return max(LEAST_TEXTS, min(PER_STEP, int(max(left, 0.0) / self._cost / max(steps, 1))))

    def _keep(self, part: Folded) -> None:
        if not part.seen.rows:
            return
        self._check(part)
        whole = part if self._folded is None else Folded.merge([self._folded, part])
        if self._settles:
            self._before = max(self._before, int(whole.seen.keys[0].max()) - OPEN)
        self._folded = whole.settle(self._before, EXAMPLES)

    def _check(self, part: Folded) -> None:
        if part.seen.rows and int(part.seen.keys[0].min()) < self._before:
            raise _WentBackError

    def _held(self) -> list[Batch]:
        return [] if self._waiting is None else [self._waiting]


__all__ = ["Growing"]
