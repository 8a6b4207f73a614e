"""The scoreboard as one static page: figures, the matrix of faults and checks, and every run."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from rlvitals.lab.about import About
from rlvitals.lab.figures import steps
from rlvitals.lab.kept import Kept
from rlvitals.lab.page import BY_VALUE, COUNTED, RANGES, figures, healthy_table, size, title
from rlvitals.lab.pagefaults import right_cell
from rlvitals.lab.score import grouped, judged, layouts_of, matrix, peer_scores, variant_names
from rlvitals.lab.targets import targets

TEMPLATE = "scoreboard.html.j2"


def html(kept: Kept) -> str:
    """Return the whole page; it opens from disk and asks nothing of the network."""
    from jinja2 import BaseLoader, Environment

    text = (files("rlvitals.lab") / "templates" / TEMPLATE).read_text(encoding="utf-8")
    environment = Environment(loader=BaseLoader(), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    layouts = layouts_of(kept)
    return environment.from_string(text).render(
        made=kept.made,
        size=size(kept),
        ranges=RANGES,
        by_value=BY_VALUE,
        counted=COUNTED,
        healthy=healthy_table(kept, layouts),
        targets=targets(kept),
        layouts=[(name, title(name)) for name in layouts],
        tables=[(m, called, _table(kept, m, layouts)) for m, called in {"": "", **variant_names(kept)}.items()],
        peers=peer_scores(kept),
        matrices=[_matrix(kept, name) for name in layouts],
        runs=_runs(kept, layouts),
    )


def _table(kept: Kept, more: str, layouts: list[str]) -> list[tuple[str, list[str]]]:
    """Return (figure, its value in each layout)."""
    columns = [dict(figures(kept, layout, more)) for layout in layouts]
    names = list(dict.fromkeys(name for column in columns for name in column))
    return [(name, [column.get(name, "") for column in columns]) for name in names]


def _matrix(kept: Kept, layout: str) -> dict[str, Any]:
    """Return the matrix of a layout: columns in the order of their ids, cells with what a reader needs to judge."""
    cells = matrix(kept, layout)
    checks = sorted({check for row in cells.values() for check in row})
    pairs = grouped(judged(kept, layout), lambda r: f"{r.subject}\n{r.strength}")
    rows = []
    for (fault, strength), row in cells.items():
        about, own = kept.subjects[fault], pairs[f"{fault}\n{strength}"]
        line = []
        for check in checks:
            first, found = row.get(check, (0, 0))
            kind = _kind(check, about)
            line.append({"check": check, "first": first, "found": found, "kind": kind, "of": len(own)})
        rows.append(
            {"fault": fault, "strength": strength, "says": about.says, "right": right_cell(own), "cells": line,
             "ok": all(j.right for _, j in own)}
        )  # fmt: skip
    return {"layout": layout, "title": title(layout), "checks": checks, "rows": rows}


def _kind(check: str, about: About) -> str:
    if check in about.roots:
        return "root"
    return "sign" if check in about.signs else "allowed" if check in about.allowed else "wrong"


def _runs(kept: Kept, layouts: list[str]) -> list[dict[str, Any]]:
    """Return one line per broken run and layout that came out wrong, or in which something else was accused."""
    out = []
    for layout in layouts:
        for row, found in judged(kept, layout):
            if found.right and not found.ever:
                continue
            said = row.said[layout]
            out.append(
                {
                    "fault": row.subject, "strength": row.strength, "seed": row.seed, "layout": title(layout),
                    "asked": found.asked.value, "verdict": said.verdict, "causes": ", ".join(said.causes),
                    "got": (found.told or found.got).value, "right": found.right, "wrong": ", ".join(found.ever),
                    "delay": steps(found.delay) if said.named else "never",
                    "back": "" if said.rollback < 0 else str(said.rollback),
                    "damage": "" if row.damage < 0 else str(row.damage),
                }
            )  # fmt: skip
    return out
