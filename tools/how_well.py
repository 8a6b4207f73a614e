"""Section "How well it does" of a check's page, and its cells in the index: from the committed results alone.

benchmarks/results/power.json (benchmarks/power.py) and false_alarms.json (benchmarks/false_alarms.py); nothing is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlvitals.check import Check, Family
from rlvitals.reference.page import Bullets, Paragraph, Section, Table, section

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
LOW, GOOD = 0.5, 0.8  # power below which a page says "low", and from which it says nothing (convention)
HEAD = ("what happens to a healthy run", "found", "asked for a move", "median delay", "fired before it began")
# they read the records of audits, no step log
AUDITED = ("T003", "T004", "T005", "R031", "R032", "R033", "R034", "O031", "O032", "H004")


def results() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return (power, false alarms) as they were measured."""
    power, alarms = (json.loads((RESULTS / f"{n}.json").read_text(encoding="utf-8")) for n in ("power", "false_alarms"))
    return power, alarms


def how_well(check: Check) -> Section | None:
    """Return the section of one check."""
    power, alarms = results()
    healthy = _healthy(check, power, alarms)
    if check.family is Family.CONFIG:
        text = "It compares settings with each other; there is no noise, so its power is not a matter of measurement."
        return section("How well it does", Paragraph(text), Paragraph(healthy))
    if check.id in AUDITED:
        text = (
            "It reads the record of an audit and no step log: what it finds was measured there, with the "
            "intervals that the record holds. Without a record it says that nothing is known."
        )
        return section("How well it does", Paragraph(text), Paragraph(healthy))
    rows = power["checks"][check.id]
    source = (
        f"Measured {power['date']} with `{power['command']}`: simulated healthy runs of 200 to 2,000 steps with "
        "autocorrelated noise and learning transients, into which one effect is put from a random step on (from the "
        "first one where it says so). The check looks as the live monitor does. The first line is the smallest effect "
        "that it claims to see; where nothing else is said, the effect stays until the end."
    )
    return section(
        "How well it does",
        Table(HEAD, tuple(map(_row, rows))),
        Bullets(tuple(_warnings(rows))),
        Paragraph(healthy),
        Paragraph(source),
    )


def finds(check: Check) -> str:
    """Return the cell of the index: power at the smallest effect, and the delay."""
    rows = results()[0]["checks"].get(check.id)
    if check.family is Family.CONFIG or not rows:
        return "no noise"
    delay = rows[0]["median_delay_steps"]
    return _percent(rows[0]) + (f", {delay:.0f} steps" if delay is not None else "")


def false_alarms(check: Check) -> str:
    """Return the cell of the index: alarms and watches on healthy runs."""
    power, alarms = results()
    if not power["judged"][check.id]:
        return "not judged"
    return f"{alarms['by_check'].get(check.id, 0)} / {alarms['watch_runs'].get(check.id, 0)}"


def index_note() -> str:
    """Return what the two columns of the index mean."""
    power, alarms = results()
    return (
        "Finds: share of simulated runs in which the check sees the smallest effect that it claims, and the median "
        f"steps until then ({power['date']}, `{power['command']}`). False alarms: times that it asked for act or "
        f"stop / runs in which it said watch, in {alarms['runs']:,} simulated healthy runs of {alarms['steps']:,} "
        f"steps in all (`{_alarm_command(alarms)}`); not judged: none of these runs logs what it needs or "
        "is set up as it asks."
    )


def _row(r: Mapping[str, Any]) -> tuple[str, ...]:
    quiet, delay = r["quiet_at_onset"], r["median_delay_steps"]
    return (
        r["effect"],
        f"{_percent(r)} ({r['found']} of {quiet})",
        f"{r['act_or_stop']} of {quiet}",
        "" if delay is None else f"{delay:.0f} steps",
        f"{r['fired_before']} of {r['runs']}",
    )


def _percent(r: Mapping[str, Any]) -> str:
    return f"{r['found'] / r['quiet_at_onset']:.0%}" if r["quiet_at_onset"] else "none"


def _warnings(rows: list[Mapping[str, Any]]) -> list[str]:
    """Say plainly where power is low."""
    out = []
    for r in rows:
        share = r["found"] / max(r["quiet_at_onset"], 1)
        if share < GOOD:
            low = "Low power: it misses" if share < LOW else "It misses"
            out.append(f"{low} {1 - share:.0%} of the runs in which this happens: {r['effect']}.")
    if out:
        out.append("Its silence is no proof that such an effect is absent.")
    return out


def _healthy(check: Check, power: Mapping[str, Any], alarms: Mapping[str, Any]) -> str:
    acts, watched = alarms["by_check"].get(check.id, 0), alarms["watch_runs"].get(check.id, 0)
    judged, of = power["judged"][check.id], power["judged_of"]
    if not judged:
        early = [r["fired_before"] for r in power["checks"].get(check.id, ())]
        runs = [r["runs"] for r in power["checks"].get(check.id, ())]
        before = f" Before the effects above began it fired in {sum(early)} of {sum(runs)} runs." if early else ""
        why = "none of the simulated healthy runs logs what it needs or is set up as it asks"
        return f"False alarms: unknown, {why}.{before}"
    return (
        f"False alarms: in {alarms['runs']:,} simulated healthy runs ({alarms['steps']:,} steps, "
        f"`{_alarm_command(alarms)}`) it {_times(acts)} and said watch in {watched} of them. It could judge about "
        f"{judged / of:.0%} (a sample of {of})."
    )


def _times(n: int) -> str:
    return "never asked for act or stop" if n == 0 else f"asked for act or stop {'once' if n == 1 else f'{n} times'}"


def _alarm_command(alarms: Mapping[str, Any]) -> str:
    return f"python -m benchmarks.false_alarms {alarms['runs']} {alarms['first_seed']}"
