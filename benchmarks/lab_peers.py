"""Other tools on the runs of the fault lab: python benchmarks/lab_peers.py FOLDER, before `rlvitals lab score`.

FOLDER is what `rlvitals lab run` filled. The runbook's literal rules and, where `benchmarks/peers.py --setup` has
put it, rldoctor see the same files in every layout; their answers join each result.json, and what is there stays unless
`--again` is given. Scored by the same tables as on public runs (benchmarks/peers.py).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.corpus import Answer  # noqa: E402
from benchmarks.peers import literals, rldoctor, rldoctor_version  # noqa: E402
from rlvitals.errors import InputError  # noqa: E402
from rlvitals.ingest import load  # noqa: E402
from rlvitals.lab.run import LAYOUT, RESULT, RUN  # noqa: E402

FILES: Mapping[str, str] = {  # the file of each layout that a command is given
    "own": "metrics.jsonl",
    "trl": "trainer_state.json",
    "verl": "metrics.jsonl",
    "chapter7": "7_3_plus_tracking_metrics.csv",
}
Tool = Callable[[Path, str], Answer]


def folder_of(case: Path, layout: str) -> Path:
    return case / RUN if layout == "own" else case / LAYOUT / layout


def by_runbook(folder: Path, layout: str) -> Answer:
    """Return what the runbook's rules say of a folder as rlvitals reads it."""
    try:
        return literals(load(folder))
    except InputError:
        return Answer("unreadable")


def by_rldoctor(folder: Path, layout: str) -> Answer:
    """Return what rldoctor's command says of the file of a layout."""
    return rldoctor(folder / FILES[layout])


def tools() -> dict[str, Tool]:
    """Return the tools at hand by name."""
    found: dict[str, Tool] = {"runbook literals": by_runbook}
    try:
        found[rldoctor_version()] = by_rldoctor
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
    return found


def answer(result: dict[str, Any], case: Path, known: Mapping[str, Tool], *, again: bool) -> bool:
    """Add the answers of the tools to a result; return whether any was missing."""
    peers = result.setdefault("peers", {})
    missing = [tool for tool in known if again or tool not in peers]
    for tool in missing:
        found = {layout: known[tool](folder_of(case, layout), layout) for layout in FILES if layout in result["heard"]}
        peers[tool] = {name: {"verdict": a.verdict, "named": a.named, "means": a.means} for name, a in found.items()}
    return bool(missing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--again", action="store_true", help="ask the tools again where their answers are there")
    options = parser.parse_args()
    known, files = tools(), sorted(options.folder.rglob(RESULT))
    for n, file in enumerate(files, 1):
        result = orjson.loads(file.read_bytes())
        if answer(result, file.parent, known, again=options.again):
            partial = file.with_name(f"{RESULT}.part")
            partial.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
            os.replace(partial, file)
        print(f"{n}/{len(files)} {result['case']}", file=sys.stderr)


if __name__ == "__main__":
    main()
