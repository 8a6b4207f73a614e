"""T008: every step asks the same few prompts again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlvitals.check import (
    Action,
    Check,
    Clear,
    Confidence,
    Evidence,
    Family,
    Finding,
    Fired,
    Fold,
    LookAlike,
    Needs,
    NotApplicable,
    Onset,
    Outcome,
    Plan,
    Remedy,
    Rollback,
    SourceKind,
    Threshold,
    Verify,
)
from rlvitals.checks.held import trained_on, transfers
from rlvitals.view import Chunk, View

SET, COUNT = "rollouts/prompt_checksum", "rollouts/prompts_n"
HERE, TRANSFER = "docs/measurements.md: Same prompts again", "docs/measurements.md: transfer ratio"
ROWS = 10  # fewer rows tell nothing
SPANS = (40, 20, ROWS)  # recent rows that are looked at: a sampler that has just stuck shows in the short ones first
KEPT = 8  # sets remembered: as many as the longest span may hold to count as few


@dataclass(frozen=True, slots=True)
class Drawn:
    """The sets of prompts drawn so far.

    Attributes:
        sets: the last KEPT different ones, the latest last.
        new: (row, step) of the last KEPT rows whose set was none of those.
        rows: rows with a set; fresh: those of them that brought a new one.
    """

    sets: tuple[float, ...] = ()
    new: tuple[tuple[int, int], ...] = ()
    rows: int = 0
    fresh: int = 0


@dataclass(frozen=True, slots=True)
class Few:
    """What recent rows drew: different sets, in so many rows, of at most so many prompts; first and last step."""

    sets: int
    rows: int
    prompts: int
    steps: tuple[int, int]

    def __str__(self) -> str:
        one, most = ("set", "") if self.sets == 1 else ("different sets", "at most ")
        return f"{self.sets} {one} of {most}{self.prompts} prompts in {self.rows} steps"


def _step(state: Drawn, chunk: Chunk) -> Drawn:
    sets, new, rows, fresh = list(state.sets), list(state.new), state.rows, state.fresh
    for step, found in zip(chunk.steps.tolist(), chunk.col(SET).tolist(), strict=True):
        if found in sets:
            sets.remove(found)
        else:
            new.append((rows, step))
            fresh += 1
        sets.append(found)
        rows += 1
    return Drawn(tuple(sets[-KEPT:]), tuple(new[-KEPT:]), rows, fresh)


def judge(view: View, limits: Mapping[str, Threshold]) -> Outcome:
    drawn: Drawn = view.state
    limit = limits["share"]
    spans = _spans(view)
    if not spans:
        return Clear(f"fewer than {ROWS} recent steps have rollouts with prompts")
    few = next((s for s in spans if s.sets <= limit.value * s.rows), None)
    if few is None:
        return Clear(f"{spans[0]}, steps {spans[0].steps[0]}-{spans[0].steps[1]}; limit {limit}")
    first, last = drawn.new[-few.sets :][0], drawn.new[-1]
    since = f", no new set since step {last[1]}" if drawn.rows - last[0] > 1 else ""
    text = f"{few}, steps {few.steps[0]}-{few.steps[1]}{since}; limit {limit}"
    evidence = [Evidence(SET, text, few.sets / few.rows, limit.unit, few.steps, limit, "<=")]
    evidence += _others(view, first, few.sets, limits["others"])
    evidence += _not_following(view, limits)
    if few.prompts == 1 and drawn.fresh == 1 and len(evidence) == 1:
        return NotApplicable("the run has one prompt: tasks that differ in what it does not say cannot be told apart")
    action = Action.FIX if len(evidence) > 1 else Action.WATCH
    what = f"The same prompts come again: {few}"
    confidence = Confidence.HIGH if action is Action.FIX else Confidence.MEDIUM
    return Fired(Finding(what, action, confidence, Onset(first[1], last[1]), tuple(evidence)))


def _spans(view: View) -> list[Few]:
    """Return what the recent rows drew, the longest span first; none for fewer than ROWS rows."""
    rows = view.rows_of(SET)
    there = np.isfinite(rows)
    steps, sets, count = view.steps_of()[there], rows[there], view.rows_of(COUNT)[there]
    out = []
    for n in sorted({min(n, sets.size) for n in SPANS}, reverse=True) if sets.size >= ROWS else ():
        found, at = np.unique(sets[-n:], return_index=True)
        prompts = int(np.nan_to_num(count[-n:][at], nan=1.0).sum())
        out.append(Few(int(found.size), int(n), prompts, (int(steps[-n]), int(steps[-1]))))
    return out


def _others(view: View, first: tuple[int, int], few: int, limit: Threshold) -> list[Evidence]:
    """Return what shows that the run drew others before: then it is no set that was meant to be small."""
    row, step = first
    rows, others = row - KEPT, view.state.fresh - few - KEPT  # in every run the first sets are new ones
    if rows < ROWS or others < limit.value * rows:
        return []
    text = f"{others} of the {rows} steps before step {step} (the first {KEPT} apart) drew a set unlike the {KEPT} "
    text += f"different ones before it; limit {limit}"
    return [Evidence(SET, text, others / rows, limit.unit, (view.first_seen(SET), step), limit, ">=")]


def _not_following(view: View, limits: Mapping[str, Threshold]) -> list[Evidence]:
    """Return the held-out set that stands still while the reward on these prompts rises."""
    gain, limit = limits["train_gain"].value, limits["ratio"]
    for name, held in sorted(view.evals.items()):
        found = transfers(view, held, z=limits["z"].value, metric=trained_on(view, name))
        hit = next((t for t in found if t.below(limit.value, gain)), None)
        if hit is not None:
            text = (
                f"over steps {hit.first} to {hit.last} ({hit.evals} evaluations) training gained {hit.train:+.2f} of "
                f"its range and held-out {name} {hit.held:+.3f}, at most {hit.held_high:+.3f}; limit {limit}"
            )
            share = hit.held_high / hit.train_low
            return [Evidence(f"held-out/{name}", text, share, limit.unit, (hit.first, hit.last), limit, "<")]
    return []


CHECK = Check(
    id="T008",
    name="same-prompts-again",
    family=Family.TASK,
    fault="Every step draws the same few prompts.",
    why="A sampler that is seeded anew at every step, a data loader that is built again, a curriculum with one bucket "
    "left: the reward rises because these prompts are learned by heart, and held-out stands still. Few prompts alone "
    "prove no harm, one can be enough to learn from (arXiv 2504.20571): a move is asked for when held-out does not "
    "follow, or when the run drew others before.",
    needs=Needs(all_of=(SET, COUNT), rows=ROWS),
    thresholds=(
        Threshold("share", 0.2, "sets per step", SourceKind.MEASURED, HERE),
        Threshold("others", 0.5, "of the earlier steps", SourceKind.MEASURED, HERE),
        Threshold("train_gain", 0.08, "of the reward range", SourceKind.MEASURED, TRANSFER),
        Threshold("ratio", 0.25, "of the training gain", SourceKind.MEASURED, TRANSFER),
        Threshold("z", 1.96, "standard errors", SourceKind.MEASURED, TRANSFER),
    ),
    judge=judge,
    fold=Fold(Drawn(), _step, (SET,)),
    plans={
        "": Plan(
            remedies=(
                Remedy("Check the prompt sampler: is it seeded, or its loader built, anew at every step", "", "check"),
                Remedy("Check what curriculum and filters have left to draw from", "curriculum", "check"),
                Remedy("Draw from the whole set, shuffled anew for every pass", "", ""),
                Remedy("If it's meant, to see whether a batch can be learned, stop when its reward is high", "", ""),
            ),
            verify=(
                Verify("rollouts/prompt_checksum is another number at every step"),
                Verify("the held-out score does not fall", "held-out", "not falling", None, 100),
            ),
            rollback=Rollback.BEFORE_ONSET,
        )
    },
    leads_to=("H001", "H002", "H003", "R009", "T002", "S001", "S009", "O002", "O004", "E001", "K001"),
    look_alikes=(
        LookAlike("Several passes over a small set that is shuffled", "each pass puts other prompts together"),
        LookAlike("One prompt a step from a set of 30 or more", "40 steps draw about 22 different ones and more"),
        LookAlike("One batch, to see whether it can be learned", "watch only, as long as no held-out set stands still"),
        LookAlike("An environment that opens every task with the same words", "one prompt all run long says nothing"),
    ),
    sources=(HERE, "arXiv 2504.20571: one training example"),
)
