"""The harm that a fault is labelled with is the one that was measured, or is declared with a reason."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from rlvitals.lab.damage import harm_by, mean_of
from rlvitals.lab.fault import Harm

pytest.importorskip("torch")
from rlvitals.checks import CHECKS
from rlvitals.lab.fault import Fault, Strength
from rlvitals.lab.faults import FAULTS

TABLE = Path(__file__).parents[2] / "benchmarks" / "results" / "lab_harm.json"
SEEDS = 5  # that a label rests on, at least (issue of the lab: five per fault)


@pytest.mark.parametrize(
    ("lower", "harm"),
    [
        ([0.3, 0.25, 0.2, 0.28], Harm.YES),
        ([0.3, 0.25, 0.2, 0.01], Harm.MILD),  # not in every seed
        ([0.5, 0.0, 0.03, 0.04], Harm.MILD),  # nor surely
        ([0.05, 0.06, 0.04, 0.05], Harm.MILD),
        ([0.2, -0.1, 0.05, 0.0], Harm.NONE),  # within two standard errors
        ([0.02, 0.01, 0.02, 0.02], Harm.NONE),
        ([-0.1, -0.1, -0.12, -0.09], Harm.NONE),
    ],
)
def test_harm_is_what_lies_below_the_controls(lower: list[float], harm: Harm) -> None:
    assert harm_by(lower) is harm
    assert harm_by(lower, stopped=True) is Harm.YES


def test_one_seed_proves_no_more_than_mild_harm() -> None:
    assert (harm_by([0.5]), harm_by([0.05])) == (Harm.MILD, Harm.NONE)
    assert math.isinf(mean_of([0.5])[1])
    assert math.isnan(mean_of([])[0])


@pytest.mark.parametrize("lower", [[], [math.nan, 0.3, 0.3, 0.3]])
def test_what_was_not_measured_is_no_harmless_fault(lower: list[float]) -> None:
    with pytest.raises(ValueError, match="a score is missing"):
        harm_by(lower)


ALL = [(f, s) for f in FAULTS for s in f.strengths]


@pytest.mark.parametrize(("fault", "strength"), ALL, ids=lambda x: x.name)
def test_a_label_is_the_measured_harm_or_declared(fault: Fault, strength: Strength) -> None:
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    again = "measure it: python benchmarks/lab_harm.py DIR"
    (row,) = [r for r in rows if (r["fault"], r["strength"]) == (fault.name, strength.name)] or pytest.fail(again)
    assert len(row["seeds"]) >= SEEDS
    if strength.why:
        assert row["harm"] != strength.harm, "measured as labelled: no reason is needed"
    else:
        assert row["harm"] == strength.harm, again


def test_tokens_that_are_declared_as_waste_were_counted() -> None:
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    (row,) = [r for r in rows if r["fault"] == "end-token-unknown"]
    assert row["tokens"] == pytest.approx(2.2, abs=0.1)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_names_signs_and_consequences_are_checks_and_stand_apart(fault: Fault) -> None:
    groups = (set(fault.roots), set(fault.signs), set(fault.allowed))
    assert set().union(*groups) <= {c.id for c in CHECKS}
    assert len(set().union(*groups)) == sum(len(g) for g in groups)
