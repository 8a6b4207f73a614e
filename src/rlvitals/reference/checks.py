"""The page of a check: fault, why, needs, limits, look-alikes, what to do, how to verify, where to roll back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rlvitals.check import Check, Needs, Plan, Rollback, Threshold, Verify
from rlvitals.checks import CHECKS
from rlvitals.false_alarms import told_apart_by
from rlvitals.reference.page import Bullets, Page, Paragraph, Section, Table, page, section
from rlvitals.reference.words import code, knobs

ROLLBACK_WORDS: dict[Rollback, str] = {
    Rollback.BEFORE_ONSET: "Resume from the newest complete checkpoint saved before the fault began.",
    Rollback.CURRENT: "Keep the current checkpoint and resume with the changed setting.",
    Rollback.NONE: "Not needed.",
}

Link = Callable[[Check], str]


def by_id(check_id: str) -> Check | None:
    """Return a check by its id (any case) or its name."""
    return next((c for c in CHECKS if check_id.upper() == c.id or check_id.lower() == c.name), None)


def plain_link(check: Check) -> str:
    return f"`{check.id}` {check.name}"


def check_page(check: Check, link: Link = plain_link, extra: Iterable[Section | None] = ()) -> Page:
    """Return the page of one check; `link` says how another check is referred to."""
    return page(
        f"{check.id} {check.name}",
        check.fault,
        section("Why it matters", Paragraph(check.why)),
        section("What it needs", *_needs(check.needs)),
        section(
            "Limits",
            Table(("name", "value", "source", "reference"), tuple(map(_limit, check.thresholds)), running=True),
        ),
        section(
            "Look-alikes",
            Table(
                ("looks the same", "told apart by"),
                tuple((la.looks_like, la.told_apart_by) for la in check.look_alikes),
            ),
            Bullets(tuple(_false_alarm(r.reading, r.normal, r.fault) for r in told_apart_by(check.id))),
        ),
        *(_plan(check, variant) for variant in check.plans),
        section("Explains", Bullets(tuple(link(c) for c in CHECKS if c.id in check.leads_to))),
        section("Explained by", Bullets(tuple(link(c) for c in CHECKS if check.id in c.leads_to))),
        *extra,
        section("Sources", Paragraph("; ".join(check.sources))),
    )


def _needs(needs: Needs) -> tuple[Paragraph | Bullets, ...]:
    if not (needs.all_of or needs.any_of or needs.config or needs.audit):
        return (Paragraph("Nothing in particular: it looks at whatever was logged."),)
    lines = []
    if needs.all_of:
        lines.append(f"{code(needs.all_of)}: {_values(needs.rows)}" + (" each" if len(needs.all_of) > 1 else ""))
    if needs.any_of:
        lines.append(f"one of {code(needs.any_of)}: {_values(needs.rows)}")
    if needs.config:
        lines.append(f"the settings {code(needs.config)}")
    if needs.audit:
        command = "preflight" if needs.audit == "preflight" else f"audit {needs.audit}"
        lines.append(f"a record in `.rlvitals/` beside the run, written by `rlvitals {command}`")
    return (Bullets(tuple(lines)), Paragraph('Without them it answers "no data" and counts as a blind spot.'))


def _values(rows: int) -> str:
    return "at least one logged value" if rows == 1 else f"at least {rows} logged values"


def _limits(limits: Iterable[Threshold]) -> Table:
    return Table(("name", "value", "source", "reference"), tuple(map(_limit, limits)), running=True)


def _limit(limit: Threshold) -> tuple[str, str, str, str]:
    return (f"`{limit.name}`", f"{limit.value:g} {limit.unit}".rstrip(), limit.source.value, limit.reference)


def _false_alarm(reading: str, normal: str, fault: str) -> str:
    return f'"{reading}" Normal when: {normal} A fault when: {fault}'


def _plan(check: Check, variant: str) -> Section | None:
    plan = check.plans[variant]
    title = f"What to do: {variant}" if variant else "What to do"
    return section(
        title,
        Bullets(_remedies(plan), numbered=True),
        Paragraph("Verify: " + "; ".join(map(verify_text, plan.verify)) + "." if plan.verify else ""),
        Paragraph(f"Rollback: {ROLLBACK_WORDS[plan.rollback]}"),
    )


def _remedies(plan: Plan) -> tuple[str, ...]:
    out = []
    for remedy in plan.remedies:
        text = remedy.text if remedy.text.endswith(("?", ".")) else remedy.text + "."
        names = knobs(remedy.knob) if remedy.knob else ()
        if names:
            text += " Setting: " + "; ".join(f"`{name}` ({who})" for who, name in names) + "."
        out.append(text)
    return tuple(out)


def verify_text(verify: Verify) -> str:
    """Return the sentence of a verification, then the same for a machine."""
    if not verify.metric or not verify.op:
        return verify.text.rstrip(".")
    value = "" if verify.value is None else f" {verify.value:g}"
    return f"{verify.text.rstrip('.')} (`{verify.metric} {verify.op}{value}` over {verify.steps} steps)"


def index_page(
    link: Link = plain_link, lead: str = "", columns: Mapping[str, Callable[[Check], str]] | None = None
) -> Page:
    """Return the list of all checks by family, in triage order; `columns` are further cells of each: head -> cell."""
    families = dict.fromkeys(c.family for c in sorted(CHECKS, key=lambda c: (c.family, c.id)))
    more = columns or {}
    return page(
        "Checks",
        "In the order of the triage: what stands further up explains what stands below it."
        + (f" {lead}" if lead else ""),
        *(
            section(
                family.label,
                Table(
                    ("check", "fault", *more),
                    tuple(
                        (link(c), c.fault, *(cell(c) for cell in more.values()))
                        for c in sorted(CHECKS, key=lambda c: c.id)
                        if c.family is family
                    ),
                    running=True,
                ),
            )
            for family in families
        ),
    )


def checks_needing(metric: str) -> tuple[Check, ...]:
    """Return the checks whose needs name a metric or its open family."""
    names = {metric}
    if "/" in metric:
        names.add(metric.partition("/")[0] + "/")
    return tuple(c for c in CHECKS if names & {*c.needs.all_of, *c.needs.any_of})
