"""The diagnosis as versioned JSON for scripts and agents: lossless, stable ids, null where a number is not finite."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import orjson

from rlvitals.check import Clear, Crashed, Evidence, Finding, Fired, NoData, NotApplicable, Outcome
from rlvitals.diagnosis import Cause, Consequence, Diagnosis
from rlvitals.engine import Incident
from rlvitals.report.json_schema import SCHEMA_VERSION, json_schema
from rlvitals.report.words import check_names, first_number
from rlvitals.schema import Run

__all__ = ["SCHEMA_VERSION", "json_schema", "render", "to_dict"]


def render(diagnosis: Diagnosis, *, indent: bool = True) -> str:
    """Return the diagnosis as JSON text, UTF-8, with a final newline."""
    options = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if indent else 0)
    return orjson.dumps(to_dict(diagnosis), option=options).decode()


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as plain dicts, lists, strings, numbers and None, as `json_schema` describes it."""
    d = diagnosis
    names = check_names(d)
    out = {
        "schema_version": SCHEMA_VERSION,
        "run": _run(d),
        "verdict": d.verdict.value,
        "headline": d.headline,
        "causes": [_cause(c) for c in d.causes],
        "notes": [_cause(c) for c in d.notes],
        "incidents": [_incident(i, names) for i in d.incidents],
        "outcomes": {i: _outcome(o, names.get(i, "")) for i, o in d.outcomes.items()},
        "coverage": asdict(d.coverage) | {"applicable": d.coverage.applicable},
        "blind_spots": [asdict(b) for b in d.blind_spots],
        "ruled_out": [asdict(r) for r in d.ruled_out],
        "plan": [
            {"number": n, "text": s.text, "cause": s.cause, "knob": s.knob, "move": s.move}
            | {"verify": [asdict(v) for v in s.verify]}
            for n, s in enumerate(d.plan, first_number(d))
        ],
        "held_back": [asdict(h) for h in d.held_back],
        "rollback": asdict(d.rollback),
        "cost": None if d.cost is None else asdict(d.cost),
        "crash": d.crash,
        "exploit": None if d.exploit is None else asdict(d.exploit),
        "lesson": d.lesson,
    }
    done: dict[str, Any] = plain(out)
    return done


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: no NaN, no lone surrogates, no numpy scalars, no tuples, no enums."""
    if isinstance(value, dict):
        return {plain(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return str.__str__(value).encode("utf-8", "backslashreplace").decode("utf-8")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if hasattr(value, "item"):  # a numpy scalar
        return plain(value.item())
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    raise TypeError(f"a diagnosis holds a {type(value).__name__}, which the JSON report does not know")


def _run(d: Diagnosis) -> dict[str, Any]:
    return {
        "name": d.name,
        "trainer": d.trainer,
        **asdict(d.position),
        "source": None if d.run is None else _source(d.run),
    }


def _source(run: Run) -> dict[str, Any]:
    """Return what was read: files, trainer version, config with where each field stood, metrics, what was survived."""
    return {
        "trainer_version": run.trainer.version,
        "files": list(run.sources),
        "config": run.config.known(),
        "config_sources": dict(run.config.sources),
        "versions": dict(run.config.versions),
        "metrics": {m: asdict(p) for m, p in run.provenance.items()},
        "held_out": {
            n: {"evaluations": int(e.step.size), "items": e.items, "metric": e.metric} for n, e in run.evals.items()
        },
        "unrecognised": [asdict(u) for u in run.unrecognised],
        "segments": [asdict(s) for s in run.segments],
        "events": [asdict(e) for e in run.events],
        "reader_notes": [asdict(n) for n in run.notes],
    }


def _finding(f: Finding) -> dict[str, Any]:
    return {
        "summary": f.summary,
        "action": f.action.value,
        "confidence": f.confidence.value,
        "variant": f.variant,
        "onset_step": f.onset.first,
        "onset": asdict(f.onset),
        "evidence": [_evidence(e) for e in f.evidence],
    }


def _evidence(e: Evidence) -> dict[str, Any]:
    return {
        "metric": e.metric,
        "text": e.text,
        "observed": e.observed,
        "unit": e.unit,
        "before": e.before,
        "steps": {"first": e.steps[0], "last": e.steps[1]},
        "comparison": e.comparison,
        "threshold": None if e.threshold is None else asdict(e.threshold),
        "examples": [asdict(x) for x in e.examples],
    }


def _cause(c: Cause) -> dict[str, Any]:
    return {
        "id": c.id,
        "name": c.name,
        **_finding(c.finding),
        "consequences": [_consequence(k) for k in c.consequences],
    }


def _consequence(c: Consequence) -> dict[str, Any]:
    return {"id": c.id, "name": c.name, **_finding(c.finding)}


def _incident(i: Incident, names: dict[str, str]) -> dict[str, Any]:
    own = {"onset_step": i.onset.first, "onset": asdict(i.onset), "closed_step": i.closed}
    return {"id": i.check, "name": names.get(i.check, ""), **own, "finding": _finding(i.finding)}


def _outcome(o: Outcome, name: str) -> dict[str, Any]:
    """Return one check's answer; `outcome` says which kind it is and so which other keys there are."""
    if isinstance(o, Fired):
        return {"outcome": "fired", "name": name, "finding": _finding(o.finding)}
    if isinstance(o, Clear):
        return {"outcome": "clear", "name": name, "because": o.because}
    if isinstance(o, NoData):
        return {"outcome": "no_data", "name": name, "missing": list(o.missing), "reason": o.reason}
    if isinstance(o, NotApplicable):
        return {"outcome": "not_applicable", "name": name, "reason": o.reason}
    if isinstance(o, Crashed):
        return {"outcome": "crashed", "name": name, "error": o.error}
    raise TypeError(f"unknown outcome {type(o).__name__}")
