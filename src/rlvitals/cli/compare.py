"""`rlvitals compare`: where runs part, which arm the seeds support, and whether a resume is the same experiment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlvitals.cli.answers import Format, Mapped, Out, SettingsFile, deliver, known_format
from rlvitals.cli.common import (
    Exit,
    Extras,
    leave,
    load_run,
    missing_paths,
    read_extras,
)
from rlvitals.errors import InputError, Problem

if TYPE_CHECKING:
    from rlvitals.record.arms import Interval
    from rlvitals.record.compare import Comparison
    from rlvitals.record.pair import Pair
    from rlvitals.record.resume import Resume
    from rlvitals.record.selection import Choice
    from rlvitals.reference.page import Block, Page, Section
    from rlvitals.schema import Run

MAX_PARTINGS = 12  # metrics of a pair that are shown, those that part first
RUNS_HELP = "Runs; the first is the baseline. NAME=RUN,RUN,... is an arm of several seeds."


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help=RUNS_HELP)],
    resume: Annotated[
        bool, typer.Option("--resume", help="Two runs, BEFORE and AFTER: is the resumed run the same experiment?")
    ] = False,
    format: Format = "terminal",
    out: Out = None,
    map_: Mapped = None,
    settings: SettingsFile = None,
) -> None:
    """Compare runs: the first step where they part, what parted first, and a winner only if the data names one.

    Exit code 0: compared; with --resume: the same experiment
    Exit code 1: with --resume: another experiment
    Exit code 2: wrong usage, or an input that cannot be read
    Exit code 3: with --resume: cannot say
    """
    problems: list[Problem] = []
    known_format(format, problems)
    arms = _arms(runs, problems)
    if resume and len(runs) != 2:
        problems.append(Problem("not two runs", "compare --resume", str(len(runs)), "BEFORE and AFTER"))
    if not resume and len(arms) < 2 and not problems:
        problems.append(Problem("nothing to compare", "compare", f"{len(arms)} run", "two runs or more"))
    extras = read_extras(map_, None, settings, problems)
    if problems:
        raise InputError(*problems)
    if resume:
        from rlvitals.record.resume import Answer, compare_resume

        found = compare_resume(load_run([runs[0]], extras), load_run([runs[1]], extras))
        deliver(resume_page(found, runs), found, format, out)
        codes = {Answer.SAME: Exit.OK, Answer.DIFFERENT: Exit.FINDINGS, Answer.CANNOT_SAY: Exit.CANNOT_SAY}
        leave(codes[found.answer])
        return
    from rlvitals.record.compare import compare as compare_arms

    comparison = compare_arms(_load(arms, extras))
    deliver(page(comparison), comparison, format, out)


def _arms(runs: Sequence[str], problems: list[Problem]) -> dict[str, list[str]]:
    """Return the arms: NAME=RUN,RUN, or a run under the end of its path that no other run has."""
    from rlvitals.record.names import distinct

    arms: dict[str, list[str]] = {}
    alone = [text for text in runs if not _named(text)]
    labels = iter(distinct(alone))
    for text in runs:
        name, _, paths = text.partition("=")
        named = _named(text)
        parts = [p for p in paths.split(",") if p] if named else [text]
        label = name if named else next(labels)
        if label in arms:
            problems.append(Problem("an arm is named twice", "compare", repr(text), "arms of different names"))
        if not parts:
            problems.append(Problem("an arm without runs", "compare", repr(text), "NAME=RUN,RUN"))
        problems += missing_paths(parts)
        arms.setdefault(label, []).extend(parts)
    return arms


def _named(text: str) -> bool:
    """True for NAME=RUN,RUN; a path may have an equals sign too."""
    return "=" in text and not Path(text).exists()


def _load(arms: Mapping[str, Sequence[str]], extras: Extras) -> dict[str, list[Run]]:
    """Return the arms' runs, each under a name that no other one has."""
    from rlvitals.record.names import distinct

    names = iter(distinct([path for paths in arms.values() for path in paths]))
    out: dict[str, list[Run]] = {}
    for arm, paths in arms.items():
        runs = [replace(load_run([path], extras), name=next(names)) for path in paths]
        out[arm] = [replace(runs[0], name=arm)] if len(runs) == 1 else runs
    return out


def resume_page(found: Resume, runs: Sequence[str]) -> Page:
    """Return the answer about a resume as a page."""
    from rlvitals.record.names import distinct
    from rlvitals.reference import page as p
    from rlvitals.report.words import clean

    before, after = distinct(runs)
    rows = tuple((i.state.value, clean(i.name), clean(i.text)) for i in found.items)
    return p.page(
        f"Resume of {clean(before)} by {clean(after)} at step {found.boundary}",
        clean(found.headline),
        p.section("What must carry over", p.Table(("", "what", "what was seen"), rows)),
        p.section("Look at these again, a version changed", p.Bullets(found.reopened)),
    )


def page(found: Comparison) -> Page:
    """Return a comparison as a page."""
    from rlvitals.reference import page as p
    from rlvitals.report.words import clean, number

    several = len({a.scored_on for a in found.arms}) > 1
    arms = tuple(
        (clean(a.scored_on), clean(a.name), str(a.seeds), number(a.iqm.value), _interval(a.iqm))[not several :]
        for a in found.arms
    )
    contrasts = tuple(
        (
            f"{clean(c.a)} against {clean(c.b)}" + (f", {clean(c.scored_on)}" if several else ""),
            number(c.difference.value),
            _interval(c.difference),
            _chance(c.probability_of_improvement),
            clean(c.winner) or "none",
            str(c.seeds_needed or "unknown"),
        )
        for c in found.contrasts
    )
    choices = tuple(
        (
            clean(run), clean(c.held_out), str(c.step), number(c.score), f"{number(c.best_score)} at {c.best_step}",
            f"{number(c.low)} to {number(c.high)}" if math.isfinite(c.low) else _unknown(c),
            number(c.bias) if math.isfinite(c.bias) else _unknown(c),
        )
        for run, each in found.choices.items()
        for c in each
    )  # fmt: skip
    head = ("", "difference", "95% interval", "chance that a seed is better", "winner", "seeds per arm needed")
    chosen = ("run", "held-out", "take step", "score", "highest seen", "95% interval", "best-of-n bias")
    return p.page(
        "Comparison",
        clean(found.headline),
        p.section(
            "Arms: interquartile mean" + ("" if several else f" of the {clean(found.scored_on)}"),
            p.Table(("scored on", "arm", "seeds", "value", "95% interval")[not several :], arms),
        ),
        p.section("Contrasts", p.Table(head, contrasts)),
        *(section for pair in found.pairs for section in _pair(pair)),
        p.section("Checkpoint, by held-out score alone", p.Table(chosen, choices)),
    )


def _interval(found: Interval) -> str:
    from rlvitals.report.words import number

    return f"{number(found.low)} to {number(found.high)}" if found.low == found.low else "one seed: none"


def _chance(found: Interval) -> str:
    """Return a chance over seeds with its interval; one seed gives none."""
    from rlvitals.report.words import number

    return f"{number(found.value)} ({_interval(found)})" if math.isfinite(found.value) else "one seed: none"


def _unknown(choice: Choice) -> str:
    return f"unknown: {'one score has' if choice.evaluations == 1 else 'the scores have'} no standard error"


def _lasting(step: int) -> str:
    from rlvitals.record.pair import TOO_FEW

    return "unknown" if step == TOO_FEW else str(step) if step >= 0 else "never"


def _partings(pair: Pair) -> tuple[Block, ...]:
    """Return the metrics that part, the reward before those that part first, and how many more there are."""
    from rlvitals.record.pair import TOO_FEW, WIDTH
    from rlvitals.reference import page as p
    from rlvitals.report.words import clean, number

    found = sorted(pair.partings, key=lambda m: m.metric != "reward_mean")
    rows = tuple(
        (clean(m.metric), str(m.first), _lasting(m.lasting), number(m.a), number(m.b)) for m in found[:MAX_PARTINGS]
    )
    notes = []
    if len(found) > MAX_PARTINGS:
        notes.append(f"And {len(found) - MAX_PARTINGS} more with --format json.")
    if any(m.lasting == TOO_FEW for m in found):
        notes.append(f"Since when a difference lasts is judged from {2 * WIDTH} common values on.")
    table = p.Table(("metric", "first differs at step", "lasting from", pair.a, pair.b), rows)
    return table, p.Paragraph(" ".join(notes))


def _pair(pair: Pair) -> tuple[Section | None, ...]:
    from rlvitals.reference import page as p
    from rlvitals.report.words import clean, number

    title = f"{clean(pair.a)} and {clean(pair.b)}"
    paired = pair.differences[0] if pair.differences else None
    lead = "" if paired is None else f"{'Paired by step' if paired.paired else 'Not paired'}: {clean(paired.why)}."
    rows = tuple(
        (clean(d.metric), number(d.difference), f"{number(d.low)} to {number(d.high)}", str(d.steps))
        for d in pair.differences
    )
    findings = (
        *(f"new: {clean(n)}" for n in pair.new),
        *(f"gone: {clean(n)}" for n in pair.gone),
        *(f"same: {clean(n)}" for n in pair.same),
    )
    settings = tuple((clean(s.name), clean(s.a), clean(s.b)) for s in pair.settings)
    return (
        p.section(
            f"{title}: where they part, over {pair.common_steps} common steps",
            *_partings(pair),
        ),
        p.section(
            f"{title}: last third, {clean(pair.a)} minus {clean(pair.b)}",
            p.Paragraph(lead),
            p.Table(("metric", "difference", "95% interval", "steps"), rows),
        ),
        p.section(f"{title}: settings that differ", p.Table(("setting", pair.a, pair.b), settings)),
        p.section(f"{title}: findings of {clean(pair.b)}, seen from {clean(pair.a)}", p.Bullets(findings)),
    )
