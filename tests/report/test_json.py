"""The JSON report: its schema, its keys, and what JSON cannot hold."""

from __future__ import annotations

import json as stdlib_json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from rlvitals.conclude import diagnose
from rlvitals.report import json
from rlvitals.schema import Run
from tests.report.examples import BROKEN, CHECKS, a_run, sick, too_short, well
from tests.series import series

PUBLISHED = Path(__file__).parents[2] / "docs" / "diagnosis.schema.json"
REMAKE = "python -m rlvitals.report.json_schema > docs/diagnosis.schema.json"
NAN_RUN = Run(
    "nan",
    1 + np.arange(60),
    {
        "reward_mean": series("0.4->0.5 x60 ~0.02"),
        "grad_norm": series("0.2 x40; nan x20"),
        "nonfinite/grad_norm": series("nan x40; 1 x20"),
    },
)
EXAMPLES = {
    "sick": sick(),
    "well": well(),
    "short": too_short(),
    "live": replace(sick(), run=None),
    "broken check": diagnose(a_run(), (*CHECKS, BROKEN)),
    "real checks": diagnose(NAN_RUN),
    "no rows": diagnose(Run("empty", NAN_RUN.step[:0], {})),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_diagnosis_obeys_the_schema(name: str) -> None:
    text = json.render(EXAMPLES[name])
    jsonschema.Draft202012Validator(json.json_schema()).validate(stdlib_json.loads(text))
    assert "NaN" not in stdlib_json.dumps(stdlib_json.loads(text), allow_nan=False)


def test_the_schema_is_itself_valid_and_published_as_it_is() -> None:
    jsonschema.Draft202012Validator.check_schema(json.json_schema())
    assert stdlib_json.loads(PUBLISHED.read_text()) == json.json_schema(), (
        "run: python -m rlvitals.report.json_schema > docs/diagnosis.schema.json"
    )


def test_top_level_keys() -> None:
    assert list(json.to_dict(sick())) == [
        "schema_version",
        "run",
        "verdict",
        "headline",
        "causes",
        "notes",
        "incidents",
        "outcomes",
        "coverage",
        "blind_spots",
        "ruled_out",
        "plan",
        "held_back",
        "rollback",
        "cost",
        "crash",
        "exploit",
        "lesson",
    ]


def test_a_cause_with_its_consequence() -> None:
    out = json.to_dict(sick())
    cause = out["causes"][0]
    assert (out["verdict"], cause["id"], cause["action"], cause["confidence"]) == ("act", "S001", "fix", "high")
    assert (cause["onset_step"], cause["onset"]) == (96, {"first": 96, "last": 101})
    assert cause["evidence"][0]["threshold"] == {
        "name": "share",
        "value": 0.5,
        "unit": "fraction",
        "source": "paper",
        "reference": "DAPO, section 3.2",
    }
    assert [c["id"] for c in cause["consequences"]] == ["E001"]
    assert [s["number"] for s in out["plan"]] == [0, 1, 2]
    assert out["rollback"]["path"] == "out/checkpoint-80"
    assert out["cost"]["money"] == 17.5


def test_every_check_has_an_outcome() -> None:
    out = json.to_dict(EXAMPLES["broken check"])["outcomes"]
    assert {i: o["outcome"] for i, o in out.items()} == {
        "D009": "clear",
        "R009": "clear",
        "S001": "fired",
        "E001": "fired",
        "U009": "fired",
        "K001": "clear",
        "Y001": "no_data",
        "H001": "not_applicable",
        "X001": "crashed",
    }


def test_a_value_that_is_not_finite_is_null() -> None:
    diagnosis = EXAMPLES["real checks"]
    assert math.isnan(diagnosis.causes[0].finding.evidence[0].observed)
    evidence = json.to_dict(diagnosis)["causes"][0]["evidence"][0]
    assert evidence["observed"] is None
    assert evidence["threshold"]["value"] == 0


def test_a_name_that_is_not_utf8_is_kept_readable() -> None:
    assert '"name": "run-\\\\udcff"' in json.render(sick("run-\udcff"))


def test_every_outcome_has_the_name_of_its_check() -> None:
    run = Run("r", np.arange(1, 31), {"reward_mean": np.linspace(0.1, 0.6, 30)})
    outcomes = json.to_dict(diagnose(run))["outcomes"]
    assert {o["outcome"] for o in outcomes.values()} >= {"no_data", "not_applicable"}
    assert [i for i, o in outcomes.items() if not o["name"]] == []
