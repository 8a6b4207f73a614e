"""Call a verifier as the trainer would, in a worker process, on inputs whose right reward is known."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlvitals.audit.calling import (
    Ask,
    Convention,
    Reward,
    Signature,
    Way,
    arguments,
    describe,
    detect,
    read_rewards,
    signature_of,
    uses_gold,
)
from rlvitals.audit.common import made
from rlvitals.audit.probefindings import Heard, Stability, findings_of
from rlvitals.audit.probeinputs import TEMPLATES, Case, build_cases, fill, without_gold, wrong_answer
from rlvitals.auditresults import Probe, ProbeClass
from rlvitals.env import Item
from rlvitals.errors import InputError, Problem
from rlvitals.worker import Answer, Worker

MAX_ITEMS = 20  # tasks that are probed; each is asked about a dozen ways
TEMPLATE_ITEMS = 6  # tasks on which the form of a gold completion is chosen
REPEATS = 3  # times the same input is asked in one process
BATCH = 8  # completions per call in the test of order


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one call: seconds and MiB beyond what importing the verifier takes."""

    seconds: float = 5.0
    memory_mb: int = 1024


LIMITS = Limits()


class Verifier:
    """A reward function in a worker process, called by one convention."""

    def __init__(self, target: str, limits: Limits, *, calling: str = "", gold_key: str = "answer") -> None:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # where `module:function` is looked for, in the worker too
        self.target, self.limits = target, limits
        self.signature = self._describe()
        if calling:
            convention, self.why = Convention(calling), "as you said"
        else:
            convention, self.why = detect(self.signature, target)
        self.way = Way(convention, convention is Convention.VERIFIERS, gold_key)
        self._worker = self._fresh()

    def _describe(self) -> Signature:
        with Worker(f"{describe.__module__}:describe", seconds=120.0, memory_mb=65_536) as worker:
            answer = worker.call(self.target)
        if not answer.ok:
            raise InputError(
                Problem("the reward function can't be loaded", self.target, answer.error,
                        hint="Run the command in the folder that holds the module.")
            )  # fmt: skip
        return signature_of(answer.value)

    def _fresh(self) -> Worker:
        return Worker(self.target, self.limits.seconds, self.limits.memory_mb)

    def restart(self) -> None:
        """Begin a fresh process."""
        self._worker.close()
        self._worker = self._fresh()

    def close(self) -> None:
        self._worker.close()

    def ask(self, asks: Sequence[Ask]) -> list[Heard]:
        """Score completions one call each."""
        calls = [arguments(self.way, self.signature, [a]) for a in asks]
        answers = self._worker.call_many([(tuple(args), kwargs) for args, kwargs in calls])
        return [_heard(a, read_rewards(self.way, a.value, 1)) for a in answers]

    def ask_batch(self, asks: Sequence[Ask]) -> list[float | None]:
        """Score completions in one call; None where there is no number."""
        args, kwargs = arguments(self.way, self.signature, asks)
        answer = self._worker.call(*args, **kwargs)
        if not answer.ok:
            return [None] * len(asks)
        return [r.value for r in read_rewards(self.way, answer.value, len(asks))]


def _heard(answer: Answer, rewards: Sequence[Reward]) -> Heard:
    if not answer.ok:
        return Heard(None, answer.error, answer.timed_out, answer.seconds)
    return Heard(rewards[0].value, rewards[0].problem, False, answer.seconds)


def probe(
    target: str,
    items: Sequence[Item],
    *,
    limits: Limits = LIMITS,
    calling: str = "",
    gold_key: str = "answer",
    template: str = "",
    logged: Sequence[Case] = (),
    sources: Sequence[str] = (),
) -> Probe:
    """Ask a verifier everything and return what was found.

    Args:
        calling: a Convention by name; "" finds it from the signature.
        template: how a completion gives an answer, with {gold} in it; "" tries the usual ones.
        logged: the user's own completions, with the reward that the log holds or what a person knows of them.

    Raises InputError when there is nothing to ask or the function can't be loaded or called.
    """
    usable = [i for i in items if i.gold.strip()][:MAX_ITEMS]
    if not usable:
        raise InputError(Problem("no task has a gold answer", found=f"{len(items)} tasks", hint="--map gold=KEY"))
    verifier = Verifier(target, limits, calling=calling, gold_key=gold_key)
    try:
        return _probe(verifier, usable, template, logged, sources)
    finally:
        verifier.close()


def _probe(
    verifier: Verifier, items: Sequence[Item], template: str, logged: Sequence[Case], sources: Sequence[str]
) -> Probe:
    notes: list[str] = []
    form, chat = choose_form(verifier, items, (template,) if template else TEMPLATES)
    verifier.way = replace(verifier.way, chat=chat)
    cases = [*build_cases(items, form), *logged]
    heard = verifier.ask([c.ask for c in cases])
    asked = list(zip(cases, heard, strict=True))
    invented: list[Heard] = []
    if uses_gold(verifier.way, verifier.signature):
        invented = verifier.ask([c.ask for c in without_gold(items[:3], form)])
    else:
        notes.append("the function is not given the gold answer")
    stability = examine_stability(verifier, [c for c, h in asked if c.kind in ("gold", "wrong") and not h.error])
    golds = [h.value for c, h in asked if c.kind == "gold" and h.value is not None]
    every = [h.value for h in heard if h.value is not None]
    full = max(golds, default=max(every, default=math.nan))
    floor = min(every, default=math.nan)
    return Probe(
        made=made(verifier.target, sources),
        convention=f"{verifier.way} ({verifier.why})",
        template=form,
        full_marks=full,
        floor=floor,
        classes=classes_of(asked, full, floor),
        findings=findings_of(asked, invented, stability, full, floor),
        notes=tuple(notes),
    )


def choose_form(verifier: Verifier, items: Sequence[Item], templates: Sequence[str]) -> tuple[str, bool]:
    """Return the template and the form of completions (messages or text) that tell gold from wrong answers best.

    The first of equals wins; text goes before messages, for verifiers messages before text.
    """
    few = items[:TEMPLATE_ITEMS]
    first = verifier.way.chat
    both = verifier.way.convention in (Convention.TRL, Convention.VERIFIERS)
    best: tuple[tuple[float, int, float], str, bool] | None = None
    for chat in (first, not first) if both else (first,):
        verifier.way = replace(verifier.way, chat=chat)
        right = [Ask.of(i, fill(t, i.gold)) for t in templates for i in few]
        wrong = [Ask.of(i, fill(t, wrong_answer(i.gold))) for t in templates for i in few]
        heard = verifier.ask(right + wrong)
        for k, template in enumerate(templates):
            golds = heard[k * len(few) : (k + 1) * len(few)]
            others = heard[len(right) + k * len(few) : len(right) + (k + 1) * len(few)]
            level = _mean(golds)
            rank = (level - _mean(others), -sum(bool(h.error) for h in golds), level)
            if best is None or rank > best[0]:
                best = (rank, template, chat)
        if best is not None and best[0][0] > 0:
            break  # this form tells them apart: the other one need not be tried
    if best is None:
        raise InputError(Problem("no template given", "--template"))
    return best[1], best[2]


def _mean(heard: Sequence[Heard]) -> float:
    values = [h.value for h in heard if h.value is not None]
    return sum(values) / len(values) if values else 0.0


def examine_stability(verifier: Verifier, cases: Sequence[Case]) -> Stability:
    """Ask the same inputs again: in one process, in a fresh one, in the other order, in batches."""
    asks = [c.ask for c in cases][: 2 * BATCH]
    if not asks:
        return Stability()
    verifier.restart()
    once = [h.value for h in verifier.ask(asks)]
    repeated = [[h.value for h in verifier.ask([a] * REPEATS)] for a in asks]
    unstable = sum(len({*map(_key, values)}) > 1 for values in repeated)
    verifier.restart()
    fresh = [h.value for h in verifier.ask(asks)]
    between = sum(_key(a) != _key(b) for a, b in zip(once, fresh, strict=True))
    if unstable or between:
        return Stability(len(asks), max(unstable, between), 0)
    verifier.restart()
    backwards = [h.value for h in verifier.ask(asks[::-1])][::-1]
    moved = {i for i, (a, b) in enumerate(zip(once, backwards, strict=True)) if _key(a) != _key(b)}
    if verifier.way.batched:
        for order in (range(len(asks)), range(len(asks) - 1, -1, -1)):
            together = verifier.ask_batch([asks[i] for i in order])
            moved |= {i for i, value in zip(order, together, strict=True) if _key(value) != _key(once[i])}
    return Stability(len(asks), 0, len(moved))


def _key(value: float | None) -> str:
    return repr(value)


def classes_of(asked: Sequence[tuple[Case, Heard]], full: float, floor: float) -> tuple[ProbeClass, ...]:
    """Return what each kind of input got."""
    found: dict[str, list[tuple[Case, Heard]]] = {}
    for case, heard in asked:
        found.setdefault(case.kind, []).append((case, heard))
    out = []
    for kind, pairs in found.items():
        values = [h.value for _, h in pairs if h.value is not None]
        bad = next((f"{c.detail}: {h.error}" if c.detail else h.error for c, h in pairs if h.error), "")
        out.append(
            ProbeClass(
                kind,
                len(pairs),
                sum(v > 0.5 * (full + floor) for v in values) if full > floor else 0,
                sum(values) / len(values) if values else math.nan,
                sum(bool(h.error) and not h.timed_out for _, h in pairs),
                sum(h.timed_out for _, h in pairs),
                max((h.seconds for _, h in pairs if math.isfinite(h.seconds)), default=0.0),
                bad[:200],
            )
        )
    return tuple(out)
