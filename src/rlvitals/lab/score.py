"""The scoreboard: how often the root cause is named first, what is accused wrongly, how late, at what price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rlvitals.lab.figures import Mean, Middle, Rate, Share, mean, share
from rlvitals.lab.judge import Asked, Back, Got, Judged, Told, judge
from rlvitals.lab.kept import Kept, Kind, Row

LONG = 1000  # steps of a healthy run that counts as long (issue: at least 20 of them)
ACCUSES = ("act", "stop")


@dataclass(frozen=True, slots=True)
class LayoutScore:
    """Figures of one layout.

    Attributes:
        named: harmful and visible runs with the cause or its direct sign first at the end; exact: the cause itself.
        heard: was the first that ever led; found: among the causes; all_seeds: strengths whose every seed has it first.
        mild, mild_exact, invariants: the same of mild faults and of harmless ones that violate a definition.
        quiet: harmless runs in which nothing asked for a move at the end; quiet_ever: at any look.
        excused: the moves there that name the fault, its sign or a consequence, check -> runs.
        hidden: harmful runs whose log cannot show the cause and that say so; told: what was said of all of them.
        wrong: broken runs with a cause at the end that is neither root, sign nor consequence; ever: with such an alarm.
        early: alarms before the first broken step, per healthy steps before it.
        delay_invariant, delay_trend: steps from the first broken one, in runs where naming is asked for.
        after_damage: steps from the last undamaged evaluation.
        saved: share of the planned steps saved; savable: what stopping at the first broken step would have saved.
        rollback: targets at or before the last undamaged evaluation; at_onset: at or before the state that the first
            broken step began from; at_late_onset: of those the runs that break after their first step.
        backs: of the damaged runs of harmful and visible faults, what kind of target they got.
        unread: runs whose log in this layout could not be read.
    """

    layout: str
    named: Share
    exact: Share
    heard: Share
    found: Share
    all_seeds: Share
    mild: Share
    mild_exact: Share
    invariants: Share
    quiet: Share
    quiet_ever: Share
    excused: Mapping[str, int]
    hidden: Share
    told: Mapping[Told, int]
    wrong: Share
    ever: Share
    early: Rate
    delay_invariant: Middle
    delay_trend: Middle
    after_damage: Middle
    saved: Mean
    savable: float
    rollback: Share
    at_onset: Share
    at_late_onset: Share
    backs: Mapping[Back, int]
    unread: int


@dataclass(frozen=True, slots=True)
class HealthyScore:
    """False alarms of one layout on runs with nothing broken, controls included."""

    layout: str
    runs: Share
    alarms: Rate
    long_runs: Share
    long_alarms: Rate
    unasked_watch: Share


@dataclass(frozen=True, slots=True)
class PeerScore:
    """What another tool made of the same runs: sick ones whose cause it names, well ones that it accuses."""

    tool: str
    layout: str
    read: Share
    named: Share
    accused: Share
    ours_named: Share
    ours_accused: Share


Pair = tuple[Row, Judged]


def rows_of(kept: Kept, more: str, *kinds: Kind) -> list[Row]:
    """Return the runs of some kinds with these further settings ("" for the lab's own)."""
    return [r for r in kept.rows if r.kind in kinds and r.more == more]


def judged(kept: Kept, layout: str, more: str = "") -> list[Pair]:
    """Return every broken run that has the layout, with its judgement."""
    rows = (r for r in rows_of(kept, more, Kind.FAULT) if layout in r.said)
    return [(r, judge(r, layout, kept.subjects[r.subject])) for r in rows]


def layouts_of(kept: Kept) -> list[str]:
    """Return the layouts that occur, in the order of their first occurrence, our own first."""
    found = list(dict.fromkeys(name for r in kept.rows for name in r.said))
    return sorted(found, key=lambda name: (name != "own", found.index(name)))


def variants_of(kept: Kept) -> list[str]:
    """Return the further settings that runs were made with, the lab's own ("") left out."""
    return sorted({r.more for r in kept.rows} - {""})


def variant_names(kept: Kept) -> dict[str, str]:
    """Return what a heading calls each variant: its settings, without a task's options where that tells them apart."""
    brief = {more: ", ".join(_brief(part) for part in more.split(", ")) for more in variants_of(kept)}
    taken = list(brief.values())
    return {more: name if taken.count(name) == 1 else more for more, name in brief.items()}


def _brief(setting: str) -> str:
    return setting.partition(":")[0] if setting.startswith("task=") else setting


def layout_score(kept: Kept, layout: str, more: str = "") -> LayoutScore:
    """Return the figures of one layout."""
    pairs = judged(kept, layout, more)
    asked = {a: [(r, j) for r, j in pairs if j.asked is a] for a in Asked}
    named, quiet, hidden = asked[Asked.NAME], asked[Asked.QUIET], asked[Asked.HIDDEN]
    invariant = [(r, j) for r, j in [*named, *asked[Asked.INVARIANT]] if kept.subjects[r.subject].invariant]
    trend = [(r, j) for r, j in named if not kept.subjects[r.subject].invariant]
    excused = Counter(c for r, j in quiet for c in j.ever_moves if c in kept.subjects[r.subject].fine)
    return LayoutScore(
        layout=layout,
        named=_right(named),
        exact=_exact(named),
        heard=share(j.first_heard for _, j in named),
        found=share(j.got in (Got.FIRST, Got.SIGN, Got.BESIDE) for _, j in named),
        all_seeds=share(all(j.right for j in group) for group in _by_strength(named).values()),
        mild=_right(asked[Asked.MILD]),
        mild_exact=_exact(asked[Asked.MILD]),
        invariants=_right(asked[Asked.INVARIANT]),
        quiet=share(not j.moves for _, j in quiet),
        quiet_ever=share(not j.ever_moves for _, j in quiet),
        excused=dict(sorted(excused.items())),
        hidden=_right(hidden),
        told={told: n for told in Told if (n := sum(j.told is told for _, j in hidden))},
        wrong=share(bool(j.wrong) for _, j in pairs),
        ever=share(bool(j.ever) for _, j in pairs),
        early=Rate(sum(j.early for _, j in pairs), sum(max(r.start - 1, 0) for r, _ in pairs)),
        delay_invariant=Middle(tuple(j.delay for _, j in invariant)),
        delay_trend=Middle(tuple(j.delay for _, j in trend)),
        after_damage=Middle(tuple(j.after_damage for _, j in named)),
        saved=Mean(tuple(j.saved for _, j in named)),
        savable=mean([(r.steps - r.start + 1) / r.steps for r, _ in named]),
        rollback=share(j.rollback for _, j in named if j.rollback is not None),
        at_onset=share(j.at_onset for _, j in named if j.at_onset is not None),
        at_late_onset=share(j.at_onset for r, j in named if j.at_onset is not None and r.start > 1),
        backs={back: sum(j.back is back for r, j in named if r.damage >= 0) for back in Back},
        unread=sum(bool(r.said[layout].error) for r, _ in pairs),
    )


def healthy_score(kept: Kept, layout: str, more: str = "") -> HealthyScore:
    """Return the false alarms of one layout."""
    rows = [r for r in rows_of(kept, more, Kind.HEALTHY, Kind.CONTROL) if layout in r.said]
    long = [r for r in rows if r.last >= LONG]
    unasked = [r for r in rows if r.kind is Kind.HEALTHY]
    return HealthyScore(
        layout=layout,
        runs=share(bool(r.said[layout].alarms) for r in rows),
        alarms=_alarms(rows, layout),
        long_runs=share(bool(r.said[layout].alarms) for r in long),
        long_alarms=_alarms(long, layout),
        unasked_watch=share(
            bool(set(r.said[layout].watched) - set(kept.subjects[r.subject].watch)) for r in unasked
        ),
    )  # fmt: skip


def peer_scores(kept: Kept) -> list[PeerScore]:
    """Return what the other tools made of the runs that they were given, beside ours on the very same runs."""
    pairs = dict.fromkeys((tool, layout) for r in kept.rows for tool in r.peers for layout in r.peers[tool])
    return [_peer(kept, tool, layout) for tool, layout in pairs]


def _peer(kept: Kept, tool: str, layout: str) -> PeerScore:
    rows = [r for r in kept.rows if layout in r.peers.get(tool, {}) and not r.more]
    sick = [(r, judge(r, layout, kept.subjects[r.subject])) for r in rows if r.kind is Kind.FAULT]
    sick = [(r, j) for r, j in sick if j.asked is Asked.NAME]
    well = [r for r in rows if r.kind is not Kind.FAULT]

    def theirs(row: Row) -> bool:
        answer = row.peers[tool][layout]
        return answer.verdict in ACCUSES and bool(set(answer.means) & set(kept.subjects[row.subject].named))

    return PeerScore(
        tool=tool,
        layout=layout,
        read=share(r.peers[tool][layout].verdict != "unreadable" for r in rows),
        named=share(theirs(r) for r, _ in sick),
        accused=share(r.peers[tool][layout].verdict in ACCUSES for r in well),
        ours_named=_right(sick),
        ours_accused=share(r.said[layout].verdict in ACCUSES for r in well),
    )


def matrix(kept: Kept, layout: str, more: str = "") -> dict[tuple[str, str], dict[str, tuple[int, int]]]:
    """Return (fault, strength) -> check -> (seeds in which it came first, seeds in which it was a cause) at the end."""
    out: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for row, _ in judged(kept, layout, more):
        cells = out.setdefault((row.subject, row.strength), {})
        for n, check in enumerate(row.said[layout].causes):
            first, found = cells.get(check, (0, 0))
            cells[check] = (first + (n == 0), found + 1)
    return out


def grouped(pairs: Iterable[Pair], key: Callable[[Row], str]) -> Mapping[str, list[Pair]]:
    """Return the runs by a key, in the order of their first occurrence."""
    out: dict[str, list[Pair]] = {}
    for row, found in pairs:
        out.setdefault(key(row), []).append((row, found))
    return out


def _by_strength(pairs: Sequence[Pair]) -> dict[tuple[str, str], list[Judged]]:
    out: dict[tuple[str, str], list[Judged]] = {}
    for row, found in pairs:
        out.setdefault((row.subject, row.strength), []).append(found)
    return out


def _right(pairs: Sequence[Pair]) -> Share:
    return share(j.right for _, j in pairs)


def _exact(pairs: Sequence[Pair]) -> Share:
    return share(j.got is Got.FIRST for _, j in pairs)


def _alarms(rows: Sequence[Row], layout: str) -> Rate:
    return Rate(sum(len(r.said[layout].alarms) for r in rows), sum(r.last for r in rows))
