"""The page of a canonical metric: unit, range, healthy course, look-alikes, keys and logging lines of each trainer."""

from __future__ import annotations

from rlvitals.false_alarms import FALSE_ALARMS
from rlvitals.metrics import METRICS, Metric, lookup
from rlvitals.reference.checks import Link, checks_needing, plain_link
from rlvitals.reference.keys import false_alarm_blocks, keys_of
from rlvitals.reference.page import Bullets, Page, Paragraph, Table, page, section
from rlvitals.reference.words import logging_lines, span


def metric_page(name: str, link: Link = plain_link) -> Page:
    """Return the page of one metric.

    Raises:
        KeyError: the name is not canonical.
    """
    row = lookup(name)
    if row is None:
        raise KeyError(name)
    unmeasured = (
        "Trainers write a constant 0 for it when they do not measure it: an all-zero series is no data."
        if row.zero_may_mean_unmeasured
        else ""
    )
    return page(
        name,
        row.measures,
        section("Is this normal?", Paragraph(f"Healthy: {row.healthy}"), *false_alarm_blocks((row.name,))),
        section("Unit and range", Bullets(facts(row)), Paragraph(unmeasured)),
        section("Key in each trainer", Table(("trainer", "key"), joined_keys(row.name), running=True)),
        section("How to log it", Table(("trainer", "how"), logging_lines(row.name), running=True)),
        section("Checks that need it", Bullets(tuple(link(c) for c in checks_needing(name)))),
    )


def joined_keys(name: str) -> tuple[tuple[str, str], ...]:
    """Return (trainers, their keys) for a metric, trainers of the same keys together."""
    groups: dict[str, list[str]] = {}
    for trainer, keys in keys_of(name):
        groups.setdefault(", ".join(keys), []).append(trainer)
    return tuple((", ".join(names), keys) for keys, names in groups.items())


def facts(row: Metric) -> tuple[str, ...]:
    """Return unit, range, estimators and the two policies compared, one line each."""
    lines = [f"unit: {row.unit}", f"range: {span(row)}"]
    if row.variants:
        lines.append(f"measured in several ways, never compared with one another: {', '.join(row.variants)}")
    if row.direction is not None:
        lines.append(f"between: {row.direction.value}")
    return tuple(lines)


def vocabulary_page() -> Page:
    """Return all metrics in one table."""
    return page(
        "Metrics",
        "The names that every trainer's keys are turned into. A name ending in `/*` is an open family.",
        section(
            "Vocabulary",
            Table(
                ("metric", "unit", "range", "measures"),
                tuple((f"`{m.name}`", m.unit, span(m), m.measures) for m in METRICS),
                running=True,
            ),
        ),
    )


def false_alarms_page() -> Page:
    """Return the whole list of readings that look like a fault."""
    return page(
        "Readings that look like a fault",
        "Nothing here can be judged without the fields named; when one is missing the answer is that the log cannot "
        "decide, not that there is a fault.",
        *(
            section(
                f"{r.number}. {r.reading}",
                Bullets(
                    tuple(
                        line
                        for line in (
                            f"Normal when: {r.normal}",
                            f"A fault when: {r.fault}",
                            "Decide with: " + ", ".join(r.fields) if r.fields else "",
                            "Metrics: " + ", ".join(f"`{m}`" for m in r.metrics) if r.metrics else "",
                            "Checks: " + ", ".join(f"`{c}`" for c in r.checks)
                            if r.checks
                            else "No check decides it from a log.",
                            f"Reported in: {r.source}",
                        )
                        if line
                    )
                ),
            )
            for r in FALSE_ALARMS
        ),
    )
