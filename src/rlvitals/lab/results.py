"""The results of runs as files: read back whole or not at all, and what is wrong with one that is not whole."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from rlvitals.errors import InputError, Problem

RESULT = "result.json"
CRASH = "crash.json"  # in its place, of a run that its own code brought down: nothing that could be scored
Kinds = Mapping[str, type | tuple[type, ...]]
WHOLE: Kinds = {
    "case": str, "subject": str, "healthy": bool, "strength": (str, type(None)), "seed": int, "steps": int,
    "heard": dict,
}  # fmt: skip
HEARD: Kinds = {
    "verdict": str, "causes": list, "watched": list, "named": dict, "alarms": list, "stop_step": int, "rollback": int,
    "steps": int, "error": str,
}  # fmt: skip


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return every whole result below a folder, by name of its case."""
    return read_all(folder)[0]


def results_below(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return (folder it lies in, result) of every whole result below a folder."""
    found = []
    for file in sorted(folder.rglob(RESULT)):
        with suppress(InputError):
            found.append((file.parent, read_result(file)))
    return found


def read_all(folder: Path) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Return every whole result below a folder, by name of its case, and what is wrong with the others."""
    found, torn = [], list[Problem]()
    for file in sorted(folder.rglob(RESULT)):
        try:
            found.append(read_result(file))
        except InputError as error:
            torn += error.problems
    return sorted(found, key=lambda r: str(r["case"])), torn


def read_result(file: Path) -> dict[str, Any]:
    """Return a result. Raises InputError when the file holds none, or half of one."""
    expected = "a whole result of rlvitals lab run"
    try:
        content = file.read_bytes()
        found = orjson.loads(content) if content else None
    except OSError as error:
        raise InputError(Problem("no result of the lab", str(file), error.strerror or str(error), expected)) from error
    except orjson.JSONDecodeError as error:
        said = f"broken JSON: {error}"[:200]
        raise InputError(Problem("no result of the lab", str(file), said, expected)) from error
    if wrong := "an empty file" if not content else wrong_with(found):
        raise InputError(Problem("no result of the lab", str(file), wrong, expected))
    assert isinstance(found, dict)
    return found


def wrong_with(found: object) -> str:
    """Return what keeps JSON from being a result, "" for nothing."""
    if not isinstance(found, dict):
        return f"a {type(found).__name__}"
    if wrong := _lacking(found, WHOLE, ""):
        return wrong
    if not found["heard"]:
        return "no answer for any layout"
    for layout, heard in found["heard"].items():
        if not isinstance(heard, dict):
            return f"a {type(heard).__name__} as the answer for the layout {layout}"
        if wrong := _lacking(heard, HEARD, f"heard.{layout}."):
            return wrong
        if not all(isinstance(a, dict) and {"step", "check"} <= set(a) for a in heard["alarms"]):
            return f"heard.{layout}.alarms without step or check"
        if not all(isinstance(step, int) for step in heard["named"].values()):
            return f"heard.{layout}.named without steps"
    return ""


def _lacking(found: Mapping[str, Any], wanted: Kinds, at: str) -> str:
    missing = [f"{at}{name}" for name in wanted if name not in found]
    if missing:
        return f"no {', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}" if found else "{}, nothing in it"
    other = next((n for n, kind in wanted.items() if not isinstance(found[n], kind)), "")
    return f"{at}{other}: a {type(found[other]).__name__}" if other else ""


def crashes_in(folder: Path) -> list[str]:
    """Return "case: how it crashed" of every run below a folder that its own code brought down."""
    out = []
    for file in sorted(folder.rglob(CRASH)):
        try:
            found = orjson.loads(file.read_bytes())
            out.append(f"{found['case']}: {found['crash']}")
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            out.append(f"{file.parent}: crashed")
    return out
