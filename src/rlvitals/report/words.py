"""The plain words and numbers that all reports share, so that each says the same thing the same way."""

from __future__ import annotations

import math
import re
import shlex
import unicodedata
from dataclasses import dataclass

from rlvitals.check import SEVERITY, Action, Crashed, Evidence, Rollback, Threshold, Verdict, Verify
from rlvitals.checks import CHECKS
from rlvitals.diagnosis import BlindSpot, Cost, Coverage, Diagnosis, Exploit, RuledOut
from rlvitals.engine import Incident
from rlvitals.metrics import lookup
from rlvitals.rollback import unseen
from rlvitals.schema import Example, Run, SharedPhrase, Status

VERDICT_WORD: dict[Verdict, str] = {
    Verdict.HEALTHY: "HEALTHY",
    Verdict.WATCH: "WATCH",
    Verdict.ACT: "ACT",
    Verdict.STOP: "STOP",
    Verdict.CANNOT_SAY: "CANNOT SAY",
}
ACTION_WORDS: dict[Action, str] = {
    Action.STOP: "stop the run",
    Action.FIX: "fix",
    Action.ADJUST: "adjust",
    Action.FINISH: "finish",
    Action.WATCH: "watch",
    Action.NOTE: "nothing to do",
}
NO_BLIND = "no family of checks was blind"
MAX_NAME = 120  # characters of an untrusted name that a report shows (convention: a path fits)
LINE_BREAKS = frozenset("\t\n\r\x0b\x0c\x85\u2028\u2029")
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co"})  # control, format (bidi overrides), surrogate, private use


def clean(text: str, limit: int | None = None) -> str:
    """Return untrusted text on one line, with invisible and control characters shown as their escape."""
    out = []
    for c in text:
        if c in LINE_BREAKS:
            out.append(" ")
        elif unicodedata.category(c) in INVISIBLE and c != "\u200d":  # the joiner inside emoji is harmless
            out.append(c.encode("unicode_escape").decode("ascii") if not 0xD800 <= ord(c) < 0xE000 else "\ufffd")
        else:
            out.append(c)
    flat = "".join(out).strip()
    return flat if limit is None or len(flat) <= limit else flat[: limit - 1] + "…"


def block(text: str) -> str:
    """Return untrusted text of several lines, each cleaned."""
    return "\n".join(clean(line) for line in text.splitlines())


def reasons(spots: list[BlindSpot]) -> list[str]:
    """Return why checks could not look, beyond what they lack: of what there are too few values, then other reasons.

    Each reason comes once, with the names of its checks.
    """
    names: dict[str, list[str]] = {}
    for s in spots:
        rest = s.reason.removeprefix("; ".join(map(str, s.few))).removeprefix("; ")
        if rest:
            names.setdefault(clean(rest), []).append(s.name)
    return [*too_few(spots), *(f"{', '.join(of)}: {reason}" for reason, of in names.items())]


def too_few(spots: list[BlindSpot]) -> list[str]:
    """Return in one line of which series there are values, but fewer than checks need; empty where of none."""
    needed: dict[tuple[str, int], list[int]] = {}
    for few in (f for s in spots for f in s.few):
        needed.setdefault((few.metric, few.have), []).append(few.needed)
    alike: dict[str, list[str]] = {}
    for (metric, have), of in needed.items():
        most = f" to {max(of)}" if max(of) > min(of) else ""
        alike.setdefault(f"{have} of {min(of)}{most} values", []).append(clean(metric))
    return ["too few: " + "; ".join(f"{n} of {', '.join(of)}" for n, of in alike.items())] if alike else []


def blind_count(spots: list[BlindSpot]) -> str:
    """Return how many checks could not look, ending in "lack" where a list of what they lack is to follow."""
    lack = sum(bool(s.missing) for s in spots)
    little = len(spots) - lack
    if not little:
        return counted(lack, "check lacks", "checks lack")
    first = f"{counted(little, 'check has', 'checks have')} too little to judge"
    return f"{first}, {counted(lack, 'lacks', 'lack')}" if lack else first


def lacking(spots: list[BlindSpot]) -> list[str]:
    """Return what checks lack, each name once."""
    return unique([m for s in spots for m in s.missing])


def number(value: float) -> str:
    """Return a value with four significant digits; whole numbers stay whole."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("-Infinity" if value < 0 else "Infinity")
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    return f"{value:.4g}"


def measure(value: float, unit: str) -> str:
    """Return a value with its unit; a bare count or coefficient (unit "1") has none."""
    return number(value) if unit in ("", "1") else f"{number(value)} {unit}"


def limit(threshold: Threshold, comparison: str = "") -> str:
    """Return a limit with the comparison that was made and where the limit comes from."""
    value = measure(threshold.value, threshold.unit)
    source = (
        f"{threshold.source.value}: {clean(threshold.reference)}" if threshold.reference else threshold.source.value
    )
    return f"limit {comparison} {value} ({source})".replace("  ", " ")


def evidence_numbers(e: Evidence) -> str:
    """Return what was observed, from what to what, the limit with its source and the steps, in one line.

    The limit is left out where the sentence beside it already says it with its source.
    """
    observed = measure(e.observed, e.unit)
    parts = [f"{number(e.before)} → {observed}" if e.before is not None and in_own_unit(e) else observed]
    if e.threshold is not None and not says_limit(e):
        parts.append(limit(e.threshold, e.comparison))
    parts.append(span(*e.steps))
    return " · ".join(parts)


def example_command(e: Example) -> str:
    """Return the command that shows the rollout with its group, "" for one of a live run."""
    if not e.source:
        return ""
    quote = "'" if '"' in e.group else '"'
    where = f"step={e.step}" + (f" and group={quote}{clean(e.group, 200)}{quote}" if e.group else "")
    return f"rlvitals rollouts {shlex.quote(clean(e.source))} --where {shlex.quote(where)}"


def multiline(text: str) -> str:
    """Return untrusted text with its line breaks, every other invisible or control character as its escape."""
    return "\n".join(clean(line) for line in text.splitlines())


EXAMPLE_CHARS = 240  # of a rollout's text that a report shows


def example_place(e: Example) -> str:
    """Return where a rollout stands: step, group and number, and its reward."""
    parts = [f"step {e.step}"]
    if e.group:
        parts.append(f"group {clean(e.group, 60)}")
    if e.index >= 0:
        parts.append(f"rollout {e.index}")
    if math.isfinite(e.reward):
        parts.append(f"reward {number(e.reward)}")
    return ", ".join(parts)


def example_text(e: Example) -> str:
    """Return the excerpt of a rollout on one line, escaped; "" where the dump has no text."""
    return clean(e.excerpt, EXAMPLE_CHARS)


PHRASE_CHARS = 160  # of a shared phrase that a report shows


def exploit_facts(x: Exploit) -> str:
    """Return what was compared for the text of a suspected exploit, and why nothing is shown where nothing is."""
    sides = f"{x.new:,} rewarded rollouts from step {x.since} on against {x.old:,} of before step {x.before}"
    compared = sides + (f" ({x.name} {x.id})" if x.id else "")
    if x.phrases:
        return f"{compared}: what the new ones say and the old ones do not"
    if x.too_few:
        return f"{compared}: too few to compare"
    return f"{compared}: no phrase is new and common; the exploit may have no words of its own"


def phrase_said(p: SharedPhrase) -> str:
    """Return a shared phrase in quotes, escaped, with the shares of the rewarded rollouts that hold it."""
    return f'"{clean(p.words, PHRASE_CHARS)}": in {p.after:.0%} of the new, {p.before:.0%} of the old'


SAME_UNIT = {
    "share of groups": "fraction",
    "of completions": "fraction",
    "of rollouts": "fraction",
    "of the batch": "fraction",
    "nats": "nats/token",
}  # ways in which evidence words the unit of its metric


def in_own_unit(e: Evidence) -> bool:
    """True when the observed number is a level of the metric itself, so that it can follow the one before it."""
    row = lookup(e.metric)
    unit = SAME_UNIT.get(e.unit, e.unit)
    return row is not None and unit == SAME_UNIT.get(row.unit, row.unit)


def says_limit(e: Evidence) -> bool:
    """True when the sentence of the evidence names the limit with its source itself."""
    return e.threshold is not None and bool(e.threshold.reference) and e.threshold.reference in e.text


def span(first: int, last: int) -> str:
    """Return "step 7" or "steps 7-9"."""
    return f"step {first}" if first == last else f"steps {first}-{last}"


def counted(n: int, one: str, many: str = "") -> str:
    """Return "1 row", "3 rows"."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def run_name(d: Diagnosis) -> str:
    return clean(d.name, MAX_NAME) or "unnamed run"


def run_facts(d: Diagnosis) -> tuple[str, ...]:
    """Return trainer, steps and rows of the run, and what was read of it where that is known."""
    p = d.position
    version = d.run.trainer.version if d.run is not None else ""
    facts = [clean(f"{d.trainer} {version}", MAX_NAME)]
    if p.rows == 0:
        return (*facts, "no rows")
    facts += [span(p.first_step, p.last_step), counted(p.rows, "row")]
    if p.usable_rows != p.rows:
        facts.append(f"{p.usable_rows} with a reward")
    return (*facts, *(_read(d.run) if d.run is not None else ()))


def _read(run: Run) -> tuple[str, ...]:
    """Return how much was recognised, guessed and not recognised."""
    named = [n for n in run.columns if not n.startswith("nonfinite/")]
    facts = [counted(sum(run.has(n) for n in named), "metric")]
    for status, word in ((Status.GUESSED, "guessed"), (Status.PLACEHOLDER, "placeholder series")):
        count = sum(1 for p in run.provenance.values() if p.status is status)
        facts += [f"{count} {word}"] if count else []
    facts += [counted(len(run.evals), "held-out set")] if run.evals else ["no held-out set"]
    facts += ["config read" if run.config.known() else "no config"]
    facts += [counted(len(run.segments), "restart")] if run.segments else []
    facts += [counted(len(run.unrecognised), "column") + " not recognised"] if run.unrecognised else []
    return tuple(facts)


def headline(d: Diagnosis) -> str:
    """Return the diagnosis in one sentence, without repeating the verdict that stands before it."""
    text = clean(d.headline)
    if d.verdict is Verdict.CANNOT_SAY and text.lower().startswith("cannot say: "):
        text = text[len("cannot say: ") :]
    first = text.split(" ", 1)[0]
    return text if "_" in first or "/" in first else text[:1].upper() + text[1:]  # a metric keeps its spelling


def coverage_facts(c: Coverage) -> tuple[str, ...]:
    """Return how many checks could look, and which families are blind."""
    looked = f"{c.ran} of {counted(c.applicable, 'check')} that apply could look"
    if not c.applicable:
        looked = "no check applies"
    return looked, "blind: " + ", ".join(c.blind_families) if c.blind_families else NO_BLIND


def crash_line(d: Diagnosis) -> str:
    return f"The process died: {clean(d.crash).rstrip('.')}. That is another matter than the run's health."


def rollback_line(d: Diagnosis) -> str:
    """Return where to resume and why."""
    r = d.rollback
    reason, why_not_known = clean(r.reason), unseen(d)
    if why_not_known:
        return f"Cannot say: {clean(why_not_known)}."
    if r.kind is Rollback.NONE:
        return f"Not needed: {reason}."
    where = f"to step {r.step}" if r.step is not None else "stay at the current checkpoint"
    if r.kind is Rollback.CURRENT and r.step is not None:
        where = f"stay at the newest checkpoint, step {r.step}"
    path = f" ({clean(r.path)})" if r.path else ""
    return f"{where[0].upper()}{where[1:]}{path}: {reason}."


def cost_line(c: Cost, currency: str = "") -> str:
    """Return what ran after the onset."""
    text = f"{counted(c.steps_after_onset, 'step')} ({100 * c.share_after_onset:.0f}% of the run) came after the onset"
    if c.gpu_hours is not None:
        text += f": {c.gpu_hours:.3g} GPU-hours"
    if c.money is not None:
        text += f", {c.money:,.2f} {currency or 'at your price per GPU-hour'}"
    return text + "."


def verify_line(v: Verify) -> str:
    """Return how to see that a step worked: the sentence, then the same for a machine."""
    text = clean(v.text)
    if not v.metric or not v.op:
        return text
    value = "" if v.value is None else f" {number(v.value)}"
    return f"{text} ({v.metric} {v.op}{value} over {counted(v.steps, 'step')})"


def check_names(d: Diagnosis) -> dict[str, str]:
    """Return check id -> name, for every check there is and every one that the diagnosis names."""
    names = {c.id: c.name for c in CHECKS} | {c.id: c.name for c in (*d.causes, *d.notes)}
    names |= {k.id: k.name for c in d.causes for k in c.consequences}
    names |= {r.id: r.name for r in d.ruled_out}
    return names | {b.id: b.name for b in d.blind_spots}


def first_number(d: Diagnosis) -> int:
    """Return the number of the first plan step: 0 for the standing one that comes before every remedy."""
    return 0 if d.causes and d.plan and not d.plan[0].cause else 1


@dataclass(frozen=True, slots=True)
class Recovered:
    """All incidents of one check that are over: when each was, and what the most severe of them said."""

    id: str
    name: str
    times: tuple[str, ...]
    summary: str

    def when(self, most: int = 6) -> str:
        """Return the steps, e.g. "steps 5-9, 20-31 and 2 more times"."""
        shown = [self.times[0], *(t.split(" ", 1)[1] for t in self.times[1:most])]
        rest = len(self.times) - most
        return ", ".join(shown) + (f" and {counted(rest, 'more time')}" if rest > 0 else "")


def recovered(d: Diagnosis) -> tuple[Recovered, ...]:
    """Return the incidents that are over, one entry per check, in order of the first onset."""
    names = check_names(d)
    groups: dict[str, list[Incident]] = {}
    for i in d.incidents:
        groups.setdefault(i.check, []).append(i)
    out = []
    for check, group in groups.items():
        times = tuple(span(i.onset.first, i.closed if i.closed is not None else i.onset.last) for i in group)
        worst = max(group, key=lambda i: SEVERITY.index(i.finding.action))
        out.append(Recovered(check, names.get(check, ""), times, clean(worst.finding.summary)))
    return tuple(out)


def telling(ruled_out: tuple[RuledOut, ...], most: int) -> tuple[RuledOut, ...]:
    """Return the ruled-out faults worth showing, in triage order.

    Those that name a number go first, and of them the first of each family.
    """
    numbered = [r for r in ruled_out if re.search(r"\d", r.because)]
    first = list({r.id[:1]: r for r in reversed(numbered)}.values())
    keep = sorted(ruled_out, key=lambda r: (r not in first, r not in numbered))[:most]
    return tuple(r for r in ruled_out if r in keep)


def blind_by_family(spots: tuple[BlindSpot, ...]) -> dict[str, list[BlindSpot]]:
    """Return blind spots grouped by family, in their order."""
    groups: dict[str, list[BlindSpot]] = {}
    for s in spots:
        groups.setdefault(s.family, []).append(s)
    return groups


def unique(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items))


def crashed_checks(d: Diagnosis) -> tuple[tuple[str, str], ...]:
    """Return the checks that failed themselves: (id, error)."""
    return tuple((i, o.error) for i, o in d.outcomes.items() if isinstance(o, Crashed))
