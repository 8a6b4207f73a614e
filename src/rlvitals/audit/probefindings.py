"""What the answers of a verifier show: each fault its own finding, with the share of calls behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rlvitals.audit.common import exact_share
from rlvitals.audit.probeinputs import Case
from rlvitals.auditresults import ProbeFault, ProbeFinding


@dataclass(frozen=True, slots=True)
class Heard:
    """What one call gave: a reward, or None with the error that says why."""

    value: float | None
    error: str = ""
    timed_out: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Stability:
    """Of `asked` inputs, how many got another reward when asked again, and how many in another order or batch."""

    asked: int = 0
    unstable: int = 0
    moved: int = 0


def findings_of(
    asked: Sequence[tuple[Case, Heard]], invented: Sequence[Heard], stability: Stability, full: float, floor: float
) -> tuple[ProbeFinding, ...]:
    """Return every fault that the answers show, the most telling first."""
    known = [(c, h) for c, h in asked if h.value is not None and c.right is not None and c.kind != "hostile"]
    out: list[ProbeFinding] = []
    same = {h.value for _, h in known} | {h.value for c, h in asked if c.kind == "gold" and h.value is not None}
    constant = len(same) == 1 and any(c.right for c, _ in known) and any(not c.right for c, _ in known)
    if constant:
        out.append(_constant(known, same.pop() or 0.0))
    else:
        out += _misjudged(known, full, floor)
    out += _failures(asked)
    if stability.unstable:
        shown = exact_share(stability.unstable, stability.asked)
        text = f"{shown.count} of {shown.of} inputs got different rewards when the very same input was scored again"
        out.append(ProbeFinding(ProbeFault.NON_DETERMINISTIC, text, shown))
    if stability.moved:
        shown = exact_share(stability.moved, stability.asked)
        text = f"{shown.count} of {shown.of} inputs got another reward in another order or beside other completions"
        out.append(ProbeFinding(ProbeFault.ORDER_DEPENDENT, text, shown))
    out += [] if constant else _defaults(invented, full, floor)
    out += _against_log(asked)
    return tuple(out)


def _constant(known: Sequence[tuple[Case, Heard]], value: float) -> ProbeFinding:
    shown = exact_share(len(known), len(known))
    text = f"all {len(known)} known answers, right and wrong, got the reward {value:g}"
    fault = {0.0: ProbeFault.ALWAYS_ZERO, 1.0: ProbeFault.ALWAYS_ONE}.get(value, ProbeFault.CONSTANT)
    return ProbeFinding(fault, text, shown, zero=value <= 0.0)


def _misjudged(known: Sequence[tuple[Case, Heard]], full: float, floor: float) -> list[ProbeFinding]:
    middle = 0.5 * (full + floor)
    right = [(c, h.value) for c, h in known if c.right and h.value is not None]
    wrong = [(c, h.value) for c, h in known if not c.right and h.value is not None]
    missed = [c for c, v in right if v <= middle]
    paid = [c for c, v in wrong if v > middle]
    out = []
    if missed:
        shown = exact_share(len(missed), len(right))
        text = f"{shown.count} of {shown.of} right answers got less than half marks; first: {_excerpt(missed[0])}"
        out.append(ProbeFinding(ProbeFault.MISSES_GOLD, text, shown, zero=True))
    if paid:
        shown = exact_share(len(paid), len(wrong))
        kinds = ", ".join(f"{kind} {n}" for kind, n in Counter(c.kind for c in paid).most_common())
        text = (
            f"{shown.count} of {shown.of} wrong answers got more than half marks ({kinds}); first: {_excerpt(paid[0])}"
        )
        out.append(ProbeFinding(ProbeFault.PAYS_WRONG, text, shown))
    return out


def _excerpt(case: Case) -> str:
    return repr(case.ask.completion[:80]) + f" for the gold answer {str(case.ask.gold)[:40]!r}"


def _failures(asked: Sequence[tuple[Case, Heard]]) -> list[ProbeFinding]:
    out = []
    raised = [(c, h) for c, h in asked if h.error and not h.timed_out]
    hung = [(c, h) for c, h in asked if h.timed_out]
    right = [(c, h) for c, h in asked if c.right]
    silent = [c for c, h in right if h.value is None and not h.error and not h.timed_out]
    if silent:
        shown = exact_share(len(silent), len(right))
        text = f"{shown.count} of {shown.of} right answers got no reward (None); first: {_excerpt(silent[0])}"
        out.append(ProbeFinding(ProbeFault.RAISES, text, shown))
    if raised:
        shown = exact_share(len(raised), len(asked))
        kinds = ", ".join(f"{kind} {n}" for kind, n in Counter(c.kind for c, _ in raised).most_common())
        text = f"{shown.count} of {shown.of} calls gave no reward ({kinds}); first: {raised[0][1].error[:160]}"
        out.append(ProbeFinding(ProbeFault.RAISES, text, shown))
    if hung:
        shown = exact_share(len(hung), len(asked))
        kinds = ", ".join(dict.fromkeys(f"{c.kind} ({c.detail})" if c.detail else c.kind for c, _ in hung))
        text = f"{shown.count} of {shown.of} calls took longer than {hung[0][1].seconds:.2g} s: {kinds[:200]}"
        out.append(ProbeFinding(ProbeFault.HANGS, text, shown))
    return out


def _defaults(invented: Sequence[Heard], full: float, floor: float) -> list[ProbeFinding]:
    """A task without a gold answer has no right reward: a number for it is a default that hides an error."""
    given = [h.value for h in invented if h.value is not None]
    if not given:
        return []
    shown = exact_share(len(given), len(invented))
    zero = max(given) <= 0.5 * (full + floor)
    text = (
        f"{shown.count} of {shown.of} tasks without a gold answer got the reward {max(given):g}: an error is "
        "turned into " + ("a failure" if zero else "full marks")
    )
    return [ProbeFinding(ProbeFault.DEFAULT_ON_ERROR, text, shown, zero=zero)]


def _against_log(asked: Sequence[tuple[Case, Heard]]) -> list[ProbeFinding]:
    pairs = [(c, c.logged, h.value) for c, h in asked if c.logged is not None and h.value is not None]
    other = [(c, logged, now) for c, logged, now in pairs if abs(logged - now) > 1e-6]
    if not other:
        return []
    case, logged, now = other[0]
    shown = exact_share(len(other), len(pairs))
    text = (
        f"{shown.count} of {shown.of} logged completions score differently now; first: logged {logged:g}, now {now:g} "
        f"for {_excerpt(case)}"
    )
    return [ProbeFinding(ProbeFault.DISAGREES_WITH_LOG, text, shown)]
