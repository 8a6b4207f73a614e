"""The rows that a run stands on, read back from what was logged: rewinds and late rows resolved.

A line of the file is one call of the monitor: `{"step": 7, "reward": 0.5, ...}` under the trainer's own keys, so that
any reader of JSONL logs reads it too. Lines that only rlvitals understands carry one of the keys below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from rlvitals.live.course import Row, Score
from rlvitals.live.files import Place, RowFile
from rlvitals.live.transitions import Transition
from rlvitals.schema import Event, EventKind, Segment

EVAL = "rlvitals/eval"  # [set, score, standard error or null, items, metric]
VALUES = "rlvitals/values"  # canonical values: what was counted over rollouts
EVENT = "rlvitals/event"  # [kind, detail, path, complete]
REWIND = "rlvitals/rewind"  # [first step gone, last step gone, rows gone, reason]: rows from "step" on are replaced


@dataclass
class History:
    """What survives of a file's lines.

    Args:
        places: step -> its lines, in the order in which they were logged.
        scores: (set, step) -> held-out score.
    """

    places: dict[int, list[Place]] = field(default_factory=dict)
    scores: dict[tuple[str, int], Score] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    broken: int = 0


def survey(file: RowFile) -> History:
    """Return which lines of a file stand now."""
    found = History()
    for place, line in file.places():
        row = _parsed(line)
        step = None if row is None else row.get("step")
        if row is not None and EVENT in row:
            found.events.append(_event(step, row[EVENT]))
        elif row is None or not isinstance(step, int):
            found.broken += 1
        elif REWIND in row:
            first, last, gone, reason = row[REWIND]
            segment = Segment(first, last, gone, step, reason)
            found.segments.append(segment)
            found.events.append(resume_of(segment))
            found.places = {at: lines for at, lines in found.places.items() if at < step}
            found.scores = {key: score for key, score in found.scores.items() if key[1] < step}
        elif EVAL in row:
            score = _score(step, row[EVAL])
            found.scores[score[0], step] = score
        else:
            found.places.setdefault(step, []).append(place)
    return found


def rows_of(
    file: RowFile, found: History, canonical: Callable[[int, Mapping[str, Any]], Mapping[str, float]]
) -> Iterator[Row]:
    """Yield the surviving rows by step; `canonical` maps one call's raw values and may take scores out of them."""
    for step in sorted(found.places):
        values: dict[str, float] = {}
        for place in found.places[step]:
            row = _parsed(file.line(place)) or {}
            if VALUES in row:
                values = {**row[VALUES], **values}  # what the trainer logged wins over what was counted
            else:
                values |= canonical(step, {k: v for k, v in row.items() if k != "step"})
        if values:
            yield step, values


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _score(step: int, raw: list[Any]) -> Score:
    name, score, stderr, items, metric = raw
    return str(name), step, float(score), math.nan if stderr is None else float(stderr), int(items), str(metric)


def plain(values: Mapping[str, float]) -> dict[str, object]:
    """Return values as JSON keeps them: one that is not finite as text, for JSON's null would be "not logged"."""
    return {key: value if math.isfinite(value) else _word(value) for key, value in values.items()}


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def raw_of(line: bytes) -> dict[str, Any]:
    """Return the trainer's own keys of a line, none for a line of ours."""
    row = _parsed(line) or {}
    ours = row.keys() & {EVAL, VALUES, EVENT, REWIND}
    return {} if ours else {k: v for k, v in row.items() if k != "step"}


def rewind_line(segment: Segment) -> list[object]:
    return [segment.first_step, segment.last_step, segment.rows, segment.reason]


def resume_of(segment: Segment) -> Event:
    """Return the event that a rewind is, in the words of the readers of files."""
    return Event(EventKind.RESUME, segment.resumed_at, f"steps from {segment.resumed_at} on were logged again")


def event_line(event: Event) -> list[object]:
    return [event.kind.value, event.detail, event.path, event.complete]


def _event(step: int | None, raw: list[Any]) -> Event:
    kind, detail, path, complete = raw
    return Event(EventKind(kind), step, str(detail), str(path), bool(complete))


def transition_line(found: Transition) -> dict[str, object]:
    """Return a transition as it is kept in the monitor's directory."""
    onset = found.finding.onset
    return {
        "step": found.step, "kind": found.kind.value, "check": found.check, "name": found.name,
        "action": found.action.value, "confidence": found.finding.confidence.value, "summary": found.finding.summary,
        "since": [onset.first, onset.last], "verdict": found.verdict.value, "first_action": found.first_action,
        "page": found.page,
    }  # fmt: skip


def told(file: RowFile) -> dict[str, str]:
    """Return check -> action of the faults that the process before had said and not closed."""
    out: dict[str, str] = {}
    for _, line in file.places():
        row = _parsed(line) or {}
        check, kind, action = row.get("check"), row.get("kind"), row.get("action")
        if kind == "closed":
            out.pop(str(check), None)
        elif isinstance(check, str) and isinstance(action, str):
            out[check] = action
    return out
