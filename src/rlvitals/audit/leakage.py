"""Compare every training path with the held-out set, and say what is in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rlvitals.audit.common import made, share
from rlvitals.audit.overlap import How, Match, find_overlaps, normalised, repeats, words
from rlvitals.audit.rows import Row
from rlvitals.auditresults import MAX_NAMED, FamilyOverlap, Leakage, Overlap

LONG_ANSWER = 3  # words: shorter ones ("7", "yes") are shared by chance


def examine_leakage(
    training: Mapping[str, Sequence[Row]],
    held_out: Sequence[Row],
    *,
    families: Sequence[str] = (),
    subject: str = "held-out",
    sources: Sequence[str] = (),
) -> Leakage:
    """Return the overlap of each training path ("train", "sft", "few-shot" ...) with the held-out rows.

    Args:
        families: families that are meant to be wholly held out.

    Raises InputError when datasketch is not installed.
    """
    asked = [r.prompt for r in held_out]
    overlaps: list[Overlap] = []
    leaked: set[int] = set()
    template: set[int] = set()
    matches: dict[str, tuple[Match, ...]] = {}
    for path, rows in training.items():
        golds = ([r.gold or "" for r in rows], [r.gold or "" for r in held_out])
        found = find_overlaps([r.prompt for r in rows], asked, golds)
        template |= set(found.same_template)
        matches[path] = found.matches
        leaked |= {m.held_out for m in found.matches}
        for how in How:
            of_kind = [m for m in found.matches if m.how is how]
            if of_kind:
                named = tuple(
                    f"held-out {_at(held_out[m.held_out])} is {path} {_at(rows[m.training])}"
                    for m in of_kind[:MAX_NAMED]
                )
                overlaps.append(Overlap(path, how.value, share(len(of_kind), len(held_out)), named))
    trained = [r for rows in training.values() for r in rows]
    return Leakage(
        made=made(subject, sources),
        training=len(trained),
        held_out=len(held_out),
        leaked=share(len(leaked), len(held_out)),
        overlaps=tuple(overlaps),
        families=_families(training, held_out, matches),
        shared_families=tuple(sorted({r.family for r in trained} & set(families))),
        same_template=len(template - leaked),
        duplicates=sum(repeats([r.prompt for r in rows]) for rows in training.values()),
    )


def _at(row: Row) -> str:
    return f"{Path(row.source).name} row {row.number + 1}"


def _families(
    training: Mapping[str, Sequence[Row]], held_out: Sequence[Row], matches: Mapping[str, tuple[Match, ...]]
) -> tuple[FamilyOverlap, ...]:
    """Return what each family shares: instances with the same answer, and long answers, in either direction."""
    names = sorted({r.family for r in held_out})
    instances: dict[str, set[int]] = {n: set() for n in names}
    for path, found in matches.items():
        for m in found:
            mine, other = held_out[m.held_out], training[path][m.training]
            if mine.gold is None or other.gold is None or normalised(mine.gold) == normalised(other.gold):
                instances[mine.family].add(m.held_out)
    keys = {normalised(r.gold) for rows in training.values() for r in rows if r.gold and _long(r.gold)}
    counts: dict[str, int] = {}
    for rows in training.values():
        for r in rows:
            counts[r.family] = counts.get(r.family, 0) + 1
    return tuple(
        FamilyOverlap(
            name,
            sum(r.family == name for r in held_out),
            len(instances[name]),
            sum(r.family == name and bool(r.gold) and normalised(r.gold or "") in keys for r in held_out),
            counts.get(name, 0),
        )
        for name in names
    )


def _long(answer: str) -> bool:
    return len(words(answer)) >= LONG_ANSWER
