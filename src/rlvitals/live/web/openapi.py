"""The OpenAPI description of the JSON side, written here by hand and held to the application by the tests."""

from __future__ import annotations

from typing import Any

from rlvitals import __version__
from rlvitals.live.web.query import MAX_STEP, MAX_TEXT
from rlvitals.live.web.rolloutquery import MAX_OFFSET, MAX_PAGE, ORDERS, PAGE
from rlvitals.live.web.series import MAX_POINTS, MIN_POINTS, POINTS

Json = dict[str, Any]
STEPS = r"^[0-9]{1,15}(-[0-9]{1,15})?$"
NO_NUL = r"^[^\u0000]*$"


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Json, *, optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(set(properties) - set(optional)),
        "additionalProperties": False,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _maybe(kind: str) -> Json:
    return {"type": [kind, "null"]}


def _whole(name: str, low: int, high: int, default: int, what: str) -> Json:
    schema = {"type": "integer", "minimum": low, "maximum": high, "default": default}
    return {"name": name, "in": "query", "description": what, "schema": schema}


def _text(name: str, what: str, **schema: Any) -> Json:
    found = {"type": "string", "maxLength": MAX_TEXT, "pattern": NO_NUL, **schema}
    return {"name": name, "in": "query", "description": what, "schema": found}


def _number(name: str, what: str) -> Json:
    return {"name": name, "in": "query", "description": what, "schema": {"type": "number"}}


def _get(summary: str, answer: str, *parameters: Json, media: str = "application/json") -> Json:
    problem = {"application/problem+json": {"schema": _ref("Problems")}}
    codes = {"400": "A parameter is wrong.", "404": "There is no such thing.", "503": "Too much is open."}
    answers: Json = {code: {"description": text, "content": problem} for code, text in codes.items()}
    answers["200"] = {"description": "The answer.", "content": {media: {"schema": _ref(answer)}}}
    answers["default"] = {"description": "The request was refused.", "content": problem}
    return {"get": {"summary": summary, "parameters": list(parameters), "responses": answers}}


ID: Json = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "Address of a run, from GET /api/runs.",
    "schema": {"type": "string", "pattern": "^[0-9a-f]{10}$"},
}
ROW: Json = {
    "name": "row",
    "in": "path",
    "required": True,
    "description": "Number of a rollout, from the list of rollouts.",
    "schema": {"type": "integer", "minimum": 0, "maximum": 2**62},
}
SUMMARY: Json = {
    "id": {"type": "string"},
    "name": {"type": "string"},
    "revision": {"type": "integer", "description": "How often it was read; 0 = not yet."},
    "changed": {"type": "number", "description": "Seconds since 1970."},
    "problems": _list({"type": "string"}),
    "trainer": _maybe("string"),
    "verdict": {"enum": ["healthy", "watch", "act", "stop", "cannot_say", None]},
    "headline": _maybe("string"),
    "first_step": _maybe("integer"),
    "last_step": _maybe("integer"),
    "spark": {"type": ["object", "null"]},
}
LINE: Json = {
    "name": {"type": "string"},
    "marks": {"type": "boolean"},
    "x": _list({"type": "integer"}),
    "y": _list({"type": "number"}),
    "sx": _list({"type": "integer"}),
    "sy": _list({"type": "number"}),
    "err": _list({"type": "number"}),
}
PANEL: Json = {
    "low": _maybe("number"),
    "high": _maybe("number"),
    "log": {"type": "boolean", "description": "A log axis makes sense."},
    "lines": _list(_object(LINE, optional=("err",))),
    "stretches": _list({"type": "object"}),
    "over": _list({"type": "object"}),
}
SCHEMAS: Json = {
    "Problems": _object(
        {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "problems": _list(_object({k: {"type": "string"} for k in ("what", "where", "found", "expected", "hint")})),
        }
    ),
    "Runs": _object(
        {"revision": {"type": "integer"}, "left_out": {"type": "integer"}, "runs": _list(_object(SUMMARY))}
    ),
    "Run": _object({**SUMMARY, "diagnosis": {"type": ["object", "null"], "description": "docs/diagnosis.schema.json"}}),
    "Series": _object(
        {
            "revision": {"type": "integer"},
            "first": {"type": "integer"},
            "last": {"type": "integer"},
            "onset": _list({"type": "number"}),
            "panels": {"type": "object", "additionalProperties": _object(PANEL)},
        }
    ),
    "Rollout": {"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]},
    "Rollouts": _object(
        {
            "total": {"type": "integer", "description": "How many fit."},
            "indexed": {"type": "integer"},
            "complete": {"type": "boolean"},
            "rollouts": _list(_ref("Rollout")),
        }
    ),
    "Events": {"type": "string", "description": "Server-sent events: one JSON object per change."},
    "Description": {"type": "object"},
}
PATHS: Json = {
    "/api/openapi.json": _get("This description", "Description"),
    "/api/runs": _get("Every run with its verdict", "Runs"),
    "/api/events": _get("Tell of every change", "Events", media="text/event-stream"),
    "/api/runs/{id}": _get("One run with its diagnosis", "Run", ID),
    "/api/runs/{id}/events": _get("Tell of every change of a run", "Events", ID, media="text/event-stream"),
    "/api/runs/{id}/series": _get(
        "The visible part of the plots, decimated",
        "Series",
        ID,
        _whole("from", 0, MAX_STEP, 0, "First step in view."),
        _whole("to", 0, MAX_STEP, MAX_STEP, "Last step in view."),
        _whole("points", MIN_POINTS, MAX_POINTS, POINTS, "Points per line."),
        _text("panels", "Keys of panels, with commas; all without it."),
        _text("with", "Address of another run to draw over this one."),
    ),
    "/api/runs/{id}/rollouts": _get(
        "Rollouts that fit filters, numbers only",
        "Rollouts",
        ID,
        _text("steps", "A step, or first-last.", pattern=STEPS),
        *(_text(n, w) for n, w in (("family", "Task family."), ("stop_reason", "Why it ended."))),
        *(_text(n, w) for n, w in (("status", "What the verifier said."), ("group", "Group within its step."))),
        _number("reward_min", "Lowest reward."),
        _number("reward_max", "Highest reward."),
        _text("order", "What comes first.", enum=list(ORDERS)),
        _whole("offset", 0, MAX_OFFSET, 0, "How many to skip."),
        _whole("limit", 1, MAX_PAGE, PAGE, "How many to return."),
    ),
    "/api/runs/{id}/rollouts/{row}": _get("One rollout with its texts", "Rollout", ID, ROW),
}
DOCUMENT: Json = {
    "openapi": "3.1.0",
    "info": {
        "title": "rlvitals serve",
        "version": __version__,
        "description": "What the page of `rlvitals serve` shows. Errors are problems (RFC 9457).",
    },
    "paths": PATHS,
    "components": {"schemas": SCHEMAS},
}
