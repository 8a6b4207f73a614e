"""The pages that preflight and the audits print: what was found, with intervals, what it means and what to do."""

from __future__ import annotations

import math

from rlvitals.audit.common import interval, percent, said
from rlvitals.auditresults import AtK, Audit, Leakage, Learnable, Preflight, Probe, Replay, Rewards, Score, Tier
from rlvitals.reference.page import Bullets, Page, Paragraph, Table, page, section
from rlvitals.report.words import clean

NAMED = 10  # tasks, episodes or disagreements named on a page
NEXT = {
    Learnable.YES: "GRPO has something to amplify here.",
    Learnable.EASIER: "Start on an easier tier or warm-start with supervised examples; more steps would not help.",
    Learnable.SOLVED: "Take harder tasks; first make sure that the verifier does not pay everything: rlvitals "
    "audit probe.",
    Learnable.UNMIXED: "Take out tasks that are always or never solved, or raise the sampling temperature.",
    Learnable.UNSURE: "The intervals still reach over a limit.",
}


def page_of(audit: Audit) -> Page:
    """Return the page of a record."""
    if isinstance(audit, Preflight):
        return _preflight(audit)
    if isinstance(audit, Probe):
        return _probe(audit)
    if isinstance(audit, Score):
        return _score(audit)
    if isinstance(audit, Replay):
        return _replay(audit)
    if isinstance(audit, Leakage):
        return _leakage(audit)
    return _rewards(audit)


def _named(items: tuple[str, ...]) -> Bullets:
    more = (f"and {len(items) - NAMED} more",) if len(items) > NAMED else ()
    return Bullets(tuple(clean(i) for i in items[:NAMED]) + more)


def _preflight(a: Preflight) -> Page:
    lead = (
        f"Verdict: {a.verdict}. {percent(a.success)} of {a.rollouts} rollouts on {a.tasks} tasks succeed (95%: "
        f"{interval(a.low, a.high)}, tasks as units). {NEXT[a.verdict]}"
    )
    if a.needed:
        lead += f" About {a.needed} more tasks, sampled as often as these, would make the verdict sure."
    if a.unscored:
        lead += f" {a.unscored} rollouts have no reward and were left out."
    graded = bool(a.reward_ties)
    ties = a.reward_ties if graded else a.zero_variance
    if graded:
        lead += " Rewards are graded: groups all right or all wrong can still carry a reward difference."
    by_k = [
        section("pass@k", _at_k(a.pass_at)),
        section("Expected share of groups without a reward difference, by group size", _at_k(ties)),
        section(
            "Expected share of groups all right or all wrong, by group size", _at_k(a.zero_variance if graded else ())
        ),
    ]
    groups = [
        section("Tiers", _groups("tier", a.tiers, a.group_size)),
        section("Families", _groups("family", a.families, a.group_size)),
    ]
    start = f"Tier {clean(a.start_with)} has the most mixed groups: start there." if a.start_with else ""
    solver = None
    if a.solver:
        solved = a.solver_tried - len(a.unsolved)
        solver = section(
            "Solver", Paragraph(f"{clean(a.solver)} solved {solved} of {a.solver_tried} tasks."), _named(a.unsolved)
        )
    return page("Is the task learnable?", lead, *by_k, *groups, section("Where to start", Paragraph(start)), solver)


def _at_k(rows: tuple[AtK, ...]) -> Table:
    cells = (
        (str(x.k), percent(x.value), interval(x.low, x.high), "extrapolated" if x.extrapolated else "") for x in rows
    )
    return Table(("k", "value", "95%", ""), tuple(cells))


def _groups(what: str, rows: tuple[Tier, ...], group_size: int) -> Table:
    cells = (
        (clean(t.name) or "-", str(t.tasks), percent(t.success), interval(t.low, t.high), percent(t.mixed))
        for t in rows
    )
    return Table((what, "tasks", "success", "95%", f"mixed groups of {group_size}"), tuple(cells))


def _probe(a: Probe) -> Page:
    form = a.template.replace("`", "")
    lead = f"{clean(a.made.subject)} called as {clean(a.convention)}; gold answers written as `{form!r}`."
    if math.isfinite(a.full_marks):
        lead += f" Full marks {a.full_marks:g}, floor {a.floor:g}."
    rows = tuple(
        (c.name, str(c.calls), "-" if math.isnan(c.mean) else f"{c.mean:.3g}", str(c.paid), str(c.errors),
         str(c.timeouts), f"{c.slowest_s * 1e3:.3g}")
        for c in a.classes
    )  # fmt: skip
    table = Table(("input", "calls", "mean reward", "paid", "errors", "time-outs", "slowest ms"), rows)
    found = tuple(f"{f.fault}: {clean(f.text)} (95%: {interval(f.shown.low, f.shown.high)})" for f in a.findings)
    none = Paragraph("Nothing wrong was found. A reward can still be wrong where no known answer was given.")
    shown = Bullets(found) if found else none
    return page(
        "Is the verifier right?",
        lead,
        section("Findings", shown),
        section("Inputs", table),
        section("Notes", Bullets(a.notes)),
    )


def _score(a: Score) -> Page:
    lead = (
        f"{a.scored} trajectories scored, {a.unsure} unsure, {a.pipeline_errors} without a reward. The "
        "pipeline is wrong on "
        f"{said(a.wrong)}; kappa {a.kappa:.2f}."
    )
    rows = (
        ("paid although wrong (false positives)", said(a.false_positive)),
        ("not paid although right (false negatives)", said(a.false_negative)),
        ("error rate with each stratum at its share", percent(a.weighted_error)),
    )
    return page(
        "Does the reward agree with a person?",
        lead,
        section("Errors, with exact 95% intervals", Table(("kind", "share"), rows)),
        section("Disagreements", _named(a.disagreements)),
    )


def _replay(a: Replay) -> Page:
    lead = f"{a.replayed} episodes replayed twice; {a.same} come out as logged. {a.skipped} could not be replayed."
    parts = [
        section(
            f.fault.capitalize(),
            Paragraph(f"{f.text} (95%: {interval(f.shown.low, f.shown.high)})."),
            _named(f.episodes),
        )
        for f in a.findings
    ]
    return page("Do episodes replay?", lead, *parts)


def _leakage(a: Leakage) -> Page:
    lead = (
        f"{said(a.leaked)} of the held-out items are among {a.training} training items. {a.same_template} "
        "share a template "
        f"with other numbers, which is no leak; {a.duplicates} training items repeat an earlier one. A copy "
        "reworded in "
        "every sentence is not seen."
    )
    ways = tuple((o.path, o.how, said(o.held_out), clean(o.examples[0]) if o.examples else "") for o in a.overlaps)
    families = tuple(
        (clean(f.family) or "-", str(f.held_out), str(f.trained), str(f.instances), str(f.answer_keys))
        for f in a.families
    )
    shared = (
        Paragraph("Meant to be held out and trained on: " + ", ".join(map(clean, a.shared_families)))
        if a.shared_families
        else None
    )
    return page(
        "Has held-out data leaked?",
        lead,
        section("Where", Table(("training path", "how", "held-out items", "first"), ways)),
        section(
            "Families",
            Table(("family", "held out", "trained", "shared instances", "shared long answers"), families),
            shared,
        ),
    )


def _rewards(a: Rewards) -> Page:
    lead = (
        f"{a.trajectories} trajectories recorded; {said(a.errors)} raised or gave no number, {a.none} "
        "abstained. Median "
        f"{a.median_s * 1e3:.3g} ms, slowest {a.slowest_s:.3g} s; {a.broken_lines} broken lines were skipped."
    )
    return page("What the reward function did in training", lead, section("Errors by type", _named(a.error_types)))
