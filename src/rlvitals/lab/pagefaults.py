"""The scoreboard's tables with a row per fault."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlvitals.lab.about import About
from rlvitals.lab.figures import Middle
from rlvitals.lab.judge import Asked, Got
from rlvitals.lab.kept import Kept, Row
from rlvitals.lab.score import Pair, grouped, judged, matrix
from rlvitals.reference.page import Table

MAX_WRONG = 200  # lines of wrong accusations (the kept results hold all)


def faults_table(kept: Kept, layouts: Sequence[str], more: str = "") -> Table | None:
    """Return fault, strength, harm, what it cost, delay and seeds right per layout."""
    found = {layout: grouped(judged(kept, layout, more), _key) for layout in layouts}
    keys = list(dict.fromkeys(k for pairs in found.values() for k in pairs))
    rows = []
    for key in keys:
        first = next(pairs[key] for pairs in found.values() if key in pairs)
        row = first[0][0]
        about = kept.subjects[row.subject]
        own = found[layouts[0]].get(key, [])
        rows.append(
            (
                row.subject,
                row.strength,
                about.place,
                _harm(about, row.strength),
                _held_out([r for r, _ in first]),
                _delay(own),
                *(right_cell(found[layout].get(key, [])) for layout in layouts),
            )
        )
    head = ("fault", "strength", "broken in", "harm", "held-out (control)", "median delay")
    return Table((*head, *layouts), tuple(rows)) if rows else None


def named_table(kept: Kept, layout: str) -> Table | None:
    """Return for each fault which checks were causes at the end, in how many seeds first."""
    counts = {k: len(p) for k, p in grouped(judged(kept, layout), _key).items()}
    rows = []
    for (fault, strength), cells in matrix(kept, layout).items():
        n, about = counts[f"{fault}\n{strength}"], kept.subjects[fault]
        ordered = sorted(cells.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
        first = [f"{check} {k[0]}/{n}" for check, k in ordered if k[0]]
        beside = [f"{check} {k[1] - k[0]}/{n}" for check, k in ordered if k[1] > k[0]]
        names = (", ".join(about.roots), ", ".join(about.signs))
        rows.append((fault, strength, *names, ", ".join(first), ", ".join(beside)))
    head = ("fault", "strength", "root cause", "its sign", "named first", "beside it")
    return Table(head, tuple(rows)) if rows else None


def wrong_table(kept: Kept, layouts: Sequence[str]) -> Table | None:
    """Return every accusation that was neither root nor consequence, with the runs in which it stood at the end."""
    counts: dict[tuple[str, str, str, str], list[int]] = {}
    for layout in layouts:
        for row, found in judged(kept, layout):
            for check in found.ever:
                cell = counts.setdefault((row.subject, row.strength, layout, check), [0, 0])
                cell[0] += 1
                cell[1] += check in found.wrong
    rows = [(*key, str(ever), str(end)) for key, (ever, end) in counts.items()]
    head = ("fault", "strength", "log", "accused", "runs, at any look", "at the end")
    return Table(head, tuple(rows[:MAX_WRONG])) if rows else None


def hidden_table(kept: Kept) -> Table | None:
    """Return why a root cause cannot be named, by fault and layout."""
    rows = []
    for about in kept.subjects.values():
        by_reason: dict[str, list[str]] = {}
        for layout, why in about.hidden.items():
            by_reason.setdefault(why, []).append(layout)
        rows += [(about.name, ", ".join(where), why) for why, where in by_reason.items()]
        if not about.named and not about.hidden and not about.is_healthy:
            rows.append((about.name, "all", about.hides("")))
    return Table(("fault", "log", "why"), tuple(rows)) if rows else None


def right_cell(pairs: Sequence[Pair]) -> str:
    """Return how many seeds came out right, how many named the cause itself where fewer, and what was asked."""
    if not pairs:
        return ""
    right, asked = sum(j.right for _, j in pairs), pairs[0][1].asked
    mark = {Asked.HIDDEN: " (h)", Asked.QUIET: " quiet"}.get(asked, "")
    exact = sum(j.got is Got.FIRST for _, j in pairs)
    itself = f", {exact} itself" if not mark and exact < right else ""
    return f"{right}/{len(pairs)}{itself}{mark}"


def _harm(about: About, strength: str) -> str:
    """Return the harm, why it is declared where it is, and whether a definition is violated."""
    why = about.why.get(strength, "")
    return about.harm_of(strength).value + (f" ({why})" if why else "") + (", invariant" if about.invariant else "")


def _key(row: Row) -> str:
    return f"{row.subject}\n{row.strength}"


def _delay(pairs: Sequence[Pair]) -> str:
    found = Middle(tuple(j.delay for _, j in pairs if j.asked in (Asked.NAME, Asked.MILD, Asked.INVARIANT)))
    if not found.values:
        return ""
    return "never" if math.isinf(found.median) else f"{found.median:.0f}"


def _held_out(rows: Sequence[Row]) -> str:
    pairs = [(r.end, r.control_end) for r in rows if not math.isnan(r.end)]
    if not pairs:
        return "not evaluated"
    own = math.fsum(e for e, _ in pairs) / len(pairs)
    beside = [c for _, c in pairs if not math.isnan(c)]
    return f"{own:.2f} ({math.fsum(beside) / len(beside):.2f})" if beside else f"{own:.2f}"
