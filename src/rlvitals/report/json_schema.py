"""The JSON Schema of the JSON report; `docs/diagnosis.schema.json` is made from it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from rlvitals.check import Action, Confidence, Rollback, SourceKind, Verdict
from rlvitals.schema import Direction, EventKind, Scope, Status

SCHEMA_VERSION = 1
"""Raised when a key is removed or changes its meaning; new keys may appear within a version."""

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
STEP: Schema = {"type": "integer"}
NUMBER: Schema = {"type": ["number", "null"]}
BOOLEAN: Schema = {"type": "boolean"}
OPTIONAL_STEP: Schema = {"type": ["integer", "null"]}


def json_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of what `report.json.to_dict` gives."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rlvitals diagnosis",
        "description": "One ordered diagnosis of one RL training run. null stands for a number that is unknown or not "
        'finite; "" for a text that does not apply.',
        **_object(_top()),
        "$defs": _definitions(),
    }


def _top() -> dict[str, Schema]:
    return {
        "schema_version": {"const": SCHEMA_VERSION},
        "run": _ref("run"),
        "verdict": _one_of(Verdict, "The state of the run now."),
        "headline": TEXT | {"description": "The diagnosis in one sentence."},
        "causes": _list(_ref("cause"), "Faults that nothing else found explains, in the order to treat them."),
        "notes": _list(_ref("cause"), "Findings that explain something normal."),
        "incidents": _list(_ref("incident"), "Faults that are over."),
        "outcomes": _map(_ref("outcome"), "What every check says, by check id."),
        "coverage": _ref("coverage"),
        "blind_spots": _list(_ref("blind_spot"), "Checks that could not look, and what would let them."),
        "ruled_out": _list(_ref("ruled_out"), "Faults that were looked for and are not there."),
        "plan": _list(_ref("plan_step"), "What to do, in order, without contradictions."),
        "held_back": _list(_ref("held_back"), "Remedies that wait for, or contradict, an upstream one."),
        "rollback": _ref("rollback"),
        "cost": _or_null(_ref("cost"), "What ran after the root cause began."),
        "crash": TEXT | {"description": "How the process ended, where the log says that it died."},
        "exploit": _or_null(_ref("exploit"), "The text of a suspected exploit, from the rollouts; untrusted."),
        "lesson": TEXT | {"description": "The last finding and fix recorded for the same task and model."},
    }


def _definitions() -> dict[str, Schema]:
    return {
        "run": _object(_run()),
        "source": _object(_source()),
        "onset": _object({"first": STEP, "last": STEP}, "The interval of steps in which something began."),
        "threshold": _object(_threshold()),
        "evidence": _object(_evidence()),
        "example": _object(_example()),
        "finding": _object(_finding()),
        "consequence": _object(_named() | _finding()),
        "cause": _object(_named() | _finding() | {"consequences": _list(_ref("consequence"))}),
        "incident": _object(_incident()),
        "outcome": {"oneOf": [_object(o) for o in _outcomes()]},
        "coverage": _object(
            {"ran": COUNT, "blind": COUNT, "not_applicable": COUNT, "crashed": COUNT, "applicable": COUNT}
            | {"blind_families": _list(TEXT, "Families of which no applicable check could look.")}
        ),
        "blind_spot": _object(
            _named()
            | {"family": TEXT, "missing": _list(TEXT), "how_to_log": _list(TEXT), "reason": TEXT}
            | {"few": _list(_ref("few"), "Series of which fewer values were logged than the check needs.")}
        ),
        "few": _object({"metric": TEXT, "have": COUNT, "needed": COUNT}),
        "ruled_out": _object(_named() | {"because": TEXT}),
        "verify": _object({"text": TEXT, "metric": TEXT, "op": TEXT, "value": NUMBER, "steps": COUNT}),
        "plan_step": _object(
            {"number": COUNT, "text": TEXT, "cause": TEXT, "knob": TEXT, "move": TEXT, "verify": _list(_ref("verify"))}
        ),
        "held_back": _object({"text": TEXT, "cause": TEXT, "reason": TEXT}),
        "rollback": _object({"kind": _one_of(Rollback), "step": OPTIONAL_STEP, "path": TEXT, "reason": TEXT}),
        "exploit": _object(_exploit()),
        "shared_phrase": _object(
            {"words": TEXT, "before": NUMBER, "after": NUMBER, "examples": _list(_ref("example"))},
            "Words that newly rewarded rollouts share; shares of the rewarded rollouts that hold them.",
        ),
        "cost": _object(
            {"steps_after_onset": COUNT, "share_after_onset": NUMBER, "gpu_hours": NUMBER, "money": NUMBER}
        ),
    }


def _named() -> dict[str, Schema]:
    return {"id": {"type": "string", "pattern": "^[A-Z]+[0-9]{3}$"}, "name": TEXT}


def _run() -> dict[str, Schema]:
    return {
        "name": TEXT,
        "trainer": TEXT,
        "rows": COUNT,
        "first_step": STEP,
        "last_step": STEP,
        "usable_rows": COUNT | {"description": "Rows with a finite reward."},
        "source": _or_null(_ref("source"), "What was read; null in live use."),
    }


def _source() -> dict[str, Schema]:
    plain = {"type": ["string", "number", "boolean", "null"]}
    held_out = _object({"evaluations": COUNT, "items": COUNT, "metric": TEXT})
    unrecognised = {"key": TEXT, "file": TEXT, "values": COUNT, "nearest": TEXT}
    segment = {"first_step": STEP, "last_step": STEP, "rows": COUNT, "resumed_at": STEP, "reason": TEXT}
    event = {"kind": _one_of(EventKind), "step": OPTIONAL_STEP, "detail": TEXT, "path": TEXT, "complete": BOOLEAN}
    return {
        "trainer_version": TEXT,
        "files": _list(TEXT),
        "config": _map(plain, "Known settings, canonical names."),
        "config_sources": _map(TEXT, "Where each setting was read."),
        "versions": _map(TEXT),
        "metrics": _map(_object(_provenance()), "Canonical metric -> the key, file and estimator that it came from."),
        "held_out": _map(held_out),
        "unrecognised": _list(_object(unrecognised)),
        "segments": _list(_object(segment), "Rows that a restart replaced."),
        "events": _list(_object(event)),
        "reader_notes": _list(_object({"text": TEXT, "file": TEXT, "line": COUNT, "count": COUNT})),
    }


def _provenance() -> dict[str, Schema]:
    return {
        "metric": TEXT,
        "key": TEXT,
        "file": TEXT,
        "status": _one_of(Status),
        "estimator": TEXT,
        "direction": {"enum": [*(d.value for d in Direction), None]},
        "scope": _one_of(Scope),
        "unit": TEXT,
        "transform": TEXT,
        "note": TEXT,
    }


def _threshold() -> dict[str, Schema]:
    return {"name": TEXT, "value": NUMBER, "unit": TEXT, "source": _one_of(SourceKind), "reference": TEXT}


def _evidence() -> dict[str, Schema]:
    return {
        "metric": TEXT,
        "text": TEXT,
        "observed": NUMBER | {"description": "null where the observation is itself a value that is not finite."},
        "unit": TEXT,
        "before": NUMBER,
        "steps": _ref("onset"),
        "comparison": TEXT,
        "threshold": _or_null(_ref("threshold"), "The very limit that was compared with."),
        "examples": _list(_ref("example"), "Rollouts that show it; their text is untrusted."),
    }


def _example() -> dict[str, Schema]:
    return {
        "shows": TEXT | {"description": "The rollout fact that chose it."},
        "step": STEP,
        "group": TEXT,
        "index": {"type": "integer", "description": "-1 where the dump does not say."},
        "reward": NUMBER,
        "excerpt": TEXT,
        "source": TEXT,
        "row": {"type": "integer", "description": "Row of the source, from 0; -1 for a live run."},
    }


def _exploit() -> dict[str, Schema]:
    return {
        **_named(),
        "before": STEP | {"description": "Old rollouts are of steps below it."},
        "since": STEP | {"description": "New rollouts are of this step or later."},
        "old": COUNT | {"description": "Old rollouts, the rewarded ones where there are enough, that were compared."},
        "new": COUNT | {"description": "Newly rewarded rollouts that were compared."},
        "phrases": _list(_ref("shared_phrase"), "The most common first."),
        "too_few": BOOLEAN | {"description": "There were too few texts to compare."},
    }


def _finding() -> dict[str, Schema]:
    return {
        "summary": TEXT,
        "action": _one_of(Action),
        "confidence": _one_of(Confidence),
        "variant": TEXT,
        "onset_step": STEP,
        "onset": _ref("onset"),
        "evidence": _list(_ref("evidence")) | {"minItems": 1},
    }


def _incident() -> dict[str, Schema]:
    own = {"onset_step": STEP, "onset": _ref("onset"), "closed_step": OPTIONAL_STEP, "finding": _ref("finding")}
    return _named() | own


def _outcomes() -> tuple[dict[str, Schema], ...]:
    def kind(word: str) -> dict[str, Schema]:
        return {"outcome": {"const": word}, "name": TEXT}

    return (
        kind("fired") | {"finding": _ref("finding")},
        kind("clear") | {"because": TEXT},
        kind("no_data") | {"missing": _list(TEXT), "reason": TEXT},
        kind("not_applicable") | {"reason": TEXT},
        kind("crashed") | {"error": TEXT},
    )


def _object(properties: dict[str, Schema], description: str = "") -> Schema:
    """Return the schema of an object that has exactly these keys."""
    said = {"description": description} if description else {}
    shape = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return shape | said


def _list(items: Schema, description: str = "") -> Schema:
    return {"type": "array", "items": items} | ({"description": description} if description else {})


def _map(values: Schema, description: str = "") -> Schema:
    said = {"description": description} if description else {}
    return {"type": "object", "additionalProperties": values} | said


def _or_null(schema: Schema, description: str) -> Schema:
    return {"anyOf": [schema, {"type": "null"}], "description": description}


def _one_of(values: Iterable[StrEnum], description: str = "") -> Schema:
    return {"enum": [v.value for v in values]} | ({"description": description} if description else {})


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def main() -> None:
    """Print the schema as it is published in docs/diagnosis.schema.json."""
    import orjson

    print(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()
