"""What is kept of every run of the lab: answers and steps, small enough to commit; logs are not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from rlvitals.check import Rollback
from rlvitals.errors import InputError, Problem
from rlvitals.lab.about import About, from_json
from rlvitals.lab.damage import damage_of, end_of

MAX_BYTES = 64_000_000  # of a file of results
FAILED = "rlvitals failed: "  # start of an error that is ours, not one of the log
DIGITS = 4  # of a score, after the point


class Kind(StrEnum):
    """What kind of run it is."""

    FAULT = "fault"
    CONTROL = "control"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of a run in one layout.

    Attributes:
        verdict: at the end; causes: what asked for a move then, the first one first; watched: what did not.
        named: check -> step at which it first led the causes; alarms: (step, check) of each opening of a move.
        stop: first step with the verdict act or stop, -1 for never.
        rollback: step to go back to, -1 where the current state is kept or nothing is asked for; back: the kind of move
            that the plan asks for.
        blind: of the checks that name the cause, those that could not look and said what would let them.
        error: why the layout could not be read, "" when it could.
    """

    verdict: str
    causes: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    named: Mapping[str, int] = field(default_factory=dict)
    alarms: tuple[tuple[int, str], ...] = ()
    stop: int = -1
    rollback: int = -1
    back: str = ""
    blind: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Peer:
    """What another tool said at the end: its verdict, the finding it names first, the checks that this amounts to."""

    verdict: str
    named: str = ""
    means: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One run.

    Attributes:
        more: settings that differ from the lab's own, as text: another task, another model; "" for none.
        steps: planned; last: the last one that was logged; start: first broken step.
        end: held-out score at the end, of its control beside it (NaN: not evaluated).
        damage: last evaluation that was not yet lastingly below the control, -1 where none was.
    """

    case: str
    kind: Kind
    subject: str
    strength: str
    seed: int
    more: str
    steps: int
    last: int
    start: int
    end: float
    control_end: float
    damage: int
    crash: str
    said: Mapping[str, Said]
    peers: Mapping[str, Mapping[str, Peer]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kept:
    """All that the scoreboard is made from."""

    made: Mapping[str, str]
    subjects: Mapping[str, About]
    rows: tuple[Row, ...]


def keep(results: Sequence[Mapping[str, Any]], made: Mapping[str, str], now: Mapping[str, About]) -> Kept:
    """Return what is kept of results.

    Args:
        now: descriptions as the code has them; those of other subjects (a user's own) come from the results.
    """
    by_case = {str(r["case"]): r for r in results}
    rows, subjects = [], {}
    for result in by_case.values():
        name = str(result["subject"])
        found = now.get(name) or (from_json(result["about"]) if "about" in result else None)
        if found is not None:
            subjects[name] = found
            rows.append(_row(result, by_case.get(str(result.get("against", ""))), found))
    return Kept(dict(made), {n: subjects[n] for n in sorted(subjects)}, tuple(sorted(rows, key=lambda r: r.case)))


def _row(result: Mapping[str, Any], control: Mapping[str, Any] | None, found: About) -> Row:
    kind = Kind.HEALTHY if result["healthy"] else Kind.FAULT if result["strength"] is not None else Kind.CONTROL
    held = result.get("held_out", [])
    beside = [] if control is None else control.get("held_out", [])
    start, items = int(result.get("start", 1)), int(result.get("eval_items", 0))
    return Row(
        case=str(result["case"]),
        kind=kind,
        subject=str(result["subject"]),
        strength=str(result["strength"] or ""),
        seed=int(result["seed"]),
        more=", ".join(f"{k}={v}" for k, v in sorted(result.get("more", {}).items())),
        steps=int(result["steps"]),
        last=max((int(h["steps"]) for h in result["heard"].values()), default=0),
        start=start,
        end=round(end_of(held), DIGITS),
        control_end=round(end_of(beside), DIGITS) if kind is Kind.FAULT else math.nan,
        damage=damage_of(held, beside, start, items) if kind is Kind.FAULT else -1,
        crash=str(result.get("crash", ""))[:200],
        said={name: _said(h, found) for name, h in result["heard"].items()},
        peers={
            tool: {layout: _peer(answer) for layout, answer in answers.items()}
            for tool, answers in result.get("peers", {}).items()
        },
    )


def _said(heard: Mapping[str, Any], found: About) -> Said:
    kind = str(heard.get("rollback_kind", ""))
    asked = kind == Rollback.BEFORE_ONSET.value
    return Said(
        verdict=str(heard["verdict"]),
        causes=tuple(heard["causes"]),
        watched=tuple(heard["watched"]),
        named={str(k): int(v) for k, v in heard["named"].items()},
        alarms=tuple((int(a["step"]), str(a["check"])) for a in heard["alarms"]),
        stop=int(heard["stop_step"]),
        rollback=int(heard["rollback"]) if asked else -1,
        back=kind if kind != Rollback.NONE.value else "",
        blind=tuple(check for check in heard.get("blind", ()) if check in found.roots),
        error=str(heard["error"])[:200],
    )


def _peer(answer: Mapping[str, Any]) -> Peer:
    return Peer(str(answer["verdict"]), str(answer.get("named", "")), tuple(answer.get("means", ())))


def write(kept: Kept, path: Path) -> None:
    """Write it as JSON, one line per run, defaults left out. Raises InputError when that fails."""
    rows = b",\n".join(orjson.dumps(_slim(asdict(r)), option=orjson.OPT_SORT_KEYS) for r in kept.rows)
    about = b",\n".join(orjson.dumps(_slim(asdict(a)), option=orjson.OPT_SORT_KEYS) for a in kept.subjects.values())
    head = orjson.dumps(dict(kept.made), option=orjson.OPT_SORT_KEYS)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'{"made":%b,\n"subjects":[\n%b\n],\n"runs":[\n%b\n]}\n' % (head, about, rows))
    except OSError as error:
        raise InputError(Problem("cannot write", str(path), error.strerror or str(error))) from error


def _slim(value: Any) -> Any:
    """Return JSON types without what is empty or the default of a step."""
    if isinstance(value, dict):
        return {k: _slim(v) for k, v in value.items() if v not in ("", -1, (), {}, None) and v == v}
    if isinstance(value, list | tuple):
        return [_slim(v) for v in value]
    return value


def read(path: Path) -> Kept:
    """Return what was written. Raises InputError for another form."""
    hint = "Make it: rlvitals lab score --out FOLDER --json FILE"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(Problem("too large for results of the lab", str(path), expected=f"{MAX_BYTES} bytes"))
        found = orjson.loads(path.read_bytes())
        subjects = {a["name"]: from_json(a) for a in found["subjects"]}
        return Kept(found["made"], subjects, tuple(_row_back(r) for r in found["runs"]))
    except OSError as error:
        raise InputError(Problem("cannot read", str(path), error.strerror or str(error), hint=hint)) from error
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"[:200]
        raise InputError(Problem("no results of the lab", str(path), said, hint=hint)) from error


def _row_back(found: Mapping[str, Any]) -> Row:
    plain = {"strength": "", "more": "", "end": math.nan, "control_end": math.nan, "damage": -1, "crash": ""}
    said = {layout: _said_back(s) for layout, s in found["said"].items()}
    peers = {tool: {k: _peer(a) for k, a in answers.items()} for tool, answers in found.get("peers", {}).items()}
    return Row(**{**plain, **found, "kind": Kind(found["kind"]), "said": said, "peers": peers})


def _said_back(found: Mapping[str, Any]) -> Said:
    lists = {k: tuple(found[k]) for k in ("causes", "watched", "blind") if k in found}
    alarms = tuple((int(step), str(check)) for step, check in found.get("alarms", ()))
    return Said(**{**found, **lists, "alarms": alarms})
