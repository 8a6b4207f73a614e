"""One fault per place, trained for six steps with the embedded policy, and heard in every layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlvitals.lab.cases import Case
from rlvitals.lab.fault import Place
from rlvitals.lab.faults import FAULTS
from rlvitals.lab.layouts import LAYOUTS
from rlvitals.lab.run import run_case

ONE_EACH = [next(f for f in FAULTS if f.place is place) for place in Place]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ONE_EACH, ids=lambda f: f.place.value)
def test_six_steps_of_a_fault_per_place(fault: object, tmp_path: Path) -> None:
    assert isinstance(fault, type(FAULTS[0]))
    steps = 30 if fault.place is Place.LOGGING else 6  # a lossy log has a row every ten steps
    short = replace(fault, steps=steps, settings={**fault.settings, "prompts": 4})
    result = run_case(Case(short, short.strengths[0], 0), tmp_path)
    assert result["crash"] == ""
    assert result["ended"] == "all planned steps are done"
    assert set(result["heard"]) == set(LAYOUTS)
    assert {h["error"] for h in result["heard"].values()} == {""}
