"""The diagnosis as GitHub-flavoured Markdown for issues, pull requests and notebooks; untrusted text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rlvitals.check import Finding
from rlvitals.diagnosis import Cause, Diagnosis
from rlvitals.report import words
from rlvitals.schema import Example

RULED_OUT_SHOWN = 8
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_AT_START = re.compile(r"^([-+#=])")  # what makes a list, heading or rule of a line
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s)")
_LINKED = re.compile(r"(@|#(?=\d)|:(?=//)|(?<=www)(?=\.)|:(?=[\w+-]+:))")  # mention, issue, address, emoji
BREAK = "\u200b"  # zero width: keeps a name from becoming a mention, a link or an emoji


def render(diagnosis: Diagnosis) -> str:
    """Return the diagnosis in the order of the terminal report."""
    d = diagnosis
    lines = [
        f"## {words.VERDICT_WORD[d.verdict].capitalize()}: {text(words.headline(d))}",
        "",
        f"**{text(words.run_name(d))}** · " + " · ".join(text(f) for f in words.run_facts(d)),
        "",
        " · ".join(text(f) for f in words.coverage_facts(d.coverage)),
    ]
    if d.crash:
        lines += ["", text(words.crash_line(d))]
    for n, cause in enumerate(d.causes, 1):
        lines += ["", *_cause(n, cause)]
    for part in (_exploit(d), _notes(d), _recovered(d), _ruled_out(d), _blind(d), _plan(d), _ending(d)):
        found = list(part)
        lines += ["", *found] if found else []
    return "\n".join(lines) + "\n"


def text(raw: str) -> str:
    """Return text that Markdown shows as it is: no markup, HTML, mention, link or emoji comes out of it."""
    out = _SPECIAL.sub(r"\\\1", words.clean(raw))
    out = out.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    out = _AT_START.sub(r"\\\1", _NUMBERED.sub(r"\1\\\2", out))
    return _LINKED.sub(rf"\1{BREAK}", out)


def code(raw: str) -> str:
    """Return a code span; its fence is longer than any run of backticks inside."""
    flat = words.clean(raw)
    fence = "`" * (max((len(m) for m in re.findall(r"`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}" if flat else ""


def _cause(n: int, cause: Cause) -> Iterator[str]:
    f = cause.finding
    yield f"### {n}. {cause.name} ({cause.id})"
    yield ""
    yield f"**{words.ACTION_WORDS[f.action].capitalize()}** · {f.confidence.value} confidence · since {f.onset}"
    yield ""
    yield text(f.summary)
    yield ""
    yield from _evidence(f, "")
    for k in cause.consequences:
        yield f"- led to **{k.name}** ({k.id}) since {k.finding.onset}: {text(k.finding.summary)}"
        yield from _evidence(k.finding, "  ")


def _evidence(f: Finding, indent: str) -> Iterator[str]:
    for e in f.evidence:
        said = "" if words.clean(e.text) == words.clean(f.summary) else text(e.text) + "  \n" + indent + "  "
        yield f"{indent}- {said}{code(e.metric)}: {text(words.evidence_numbers(e))}"
        yield from _examples(e.examples, f"{indent}  ")


def _examples(examples: Sequence[Example], indent: str) -> Iterator[str]:
    for example in examples:
        excerpt = words.example_text(example)
        yield f"{indent}- {text(words.example_place(example))}" + (f": {code(excerpt)}" if excerpt else "")


def _exploit(d: Diagnosis) -> Iterator[str]:
    if d.exploit is None:
        return
    yield "### What pays now"
    yield ""
    yield text(words.exploit_facts(d.exploit))
    yield ""
    for phrase in d.exploit.phrases:
        yield f"- {text(words.phrase_said(phrase))}"
        yield from _examples(phrase.examples, "  ")


def _notes(d: Diagnosis) -> Iterator[str]:
    if d.notes:
        yield "### Noted, nothing to do"
        yield ""
    for note in d.notes:
        yield f"- {text(note.finding.summary)} ({note.id})"


def _recovered(d: Diagnosis) -> Iterator[str]:
    if d.incidents:
        yield "### Recovered"
        yield ""
    for r in words.recovered(d):
        yield f"- {r.name} ({r.id}), {r.when()}: {text(r.summary)}"


def _ruled_out(d: Diagnosis) -> Iterator[str]:
    if not d.ruled_out:
        return
    yield "### Ruled out"
    yield ""
    shown = words.telling(d.ruled_out, RULED_OUT_SHOWN)
    for r in shown:
        yield f"- {r.name} ({r.id}): {text(r.because)}"
    if len(d.ruled_out) > len(shown):
        yield f"- and {len(d.ruled_out) - len(shown)} more"


def _blind(d: Diagnosis) -> Iterator[str]:
    crashed = words.crashed_checks(d)
    if not d.blind_spots and not crashed:
        return
    yield "### Blind spots"
    yield ""
    for family, spots in words.blind_by_family(d.blind_spots).items():
        lacks = ", ".join(code(m) for m in words.lacking(spots))
        yield f"- **{family}**: {words.blind_count(spots)} {lacks}".rstrip()
        for reason in words.unique(words.reasons(spots)):
            yield f"  - {text(reason)}"
        for how in words.unique([h for s in spots for h in s.how_to_log]):
            yield from (f"  - {code(line)}" for line in how.splitlines())
    for check, error in crashed:
        yield f"- {check}: the check itself failed: {text(error)}"


def _plan(d: Diagnosis) -> Iterator[str]:
    if not d.plan:
        return
    yield "### Plan"
    yield ""
    for n, step in enumerate(d.plan, words.first_number(d)):
        yield f"{n}. {text(step.text)}" + (f" (for {step.cause})" if step.cause else "")
        for v in step.verify:
            yield f"   - verify: {text(words.verify_line(v))}"
    for h in d.held_back:
        yield f"- held back: {text(h.text)} ({h.cause}): {text(h.reason)}"


def _ending(d: Diagnosis) -> Iterator[str]:
    if d.causes:
        yield f"**Rollback.** {text(words.rollback_line(d))}"
    if d.cost is not None:
        yield ""
        yield f"**Cost.** {text(words.cost_line(d.cost))}"
    if d.lesson:
        yield ""
        yield f"**Record.** {text(d.lesson)}"
