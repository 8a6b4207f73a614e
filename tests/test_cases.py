"""Every check against its case file: tests/cases/<ID>.toml. The file reads like a table; see tests/series.py.

[[case]]
name = "fires: ..."            # what it shows
expect = "fired"               # fired | clear | no_data | not_applicable
action = "act"                 # optional: the verdict that the finding gives
variant = "all wrong"          # optional
confidence = "medium"          # optional
onset = [40, 60]               # optional: the onset interval must overlap this one
step_from = 1                  # optional, first step (default 1); step_every (default 1)
steps = "1..40, 50..300/10"    # optional, in place of both: ranges of steps, with their spacing
config = { group_size = 8 }    # optional RunConfig fields
trainer = "TRL"                # optional name of the trainer
sequence_means = ["..."]       # optional: metrics that it averages over completions; update_means: over updates
series = { reward_mean = "0.2 x50" }
audits = [{ audit = "probe", ... }]  # optional records beside the run, see auditresults.py
evals = { math = { step = [10, 20], score = [0.2, 0.3], items = 500 } }
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvitals.auditresults import from_mapping
from rlvitals.check import VERDICT_OF, Clear, Crashed, Fired, NoData, NotApplicable
from rlvitals.checks import CHECKS
from rlvitals.engine import run_engine
from rlvitals.schema import UNKNOWN_TRAINER, Evals, Event, EventKind, Run, RunConfig, Segment, TrainerInfo
from tests.series import series

CASES = Path(__file__).parent / "cases"
KINDS = {"fired": Fired, "clear": Clear, "no_data": NoData, "not_applicable": NotApplicable}
BY_ID = {c.id: c for c in CHECKS}
ALL = [(path.stem, case) for path in sorted(CASES.glob("*.toml")) for case in tomllib.loads(path.read_text())["case"]]


def steps_of(text: str) -> np.ndarray:
    """Return int64[rows] for ranges like "1..40, 50..300/10"."""
    parts = [re.fullmatch(r"(\d+)\.\.(\d+)(?:/(\d+))?", part.strip()) for part in text.split(",")]
    return np.concatenate([np.arange(int(m[1]), int(m[2]) + 1, int(m[3] or 1)) for m in parts if m])


def build(case: dict[str, Any]) -> Run:
    """Make the run that a case describes."""
    columns = {
        name: series(text, seed=f"{case.get('seed', '')}{name}") for name, text in case.get("series", {}).items()
    }
    rows = max((c.size for c in columns.values()), default=0)
    columns = {n: np.pad(c, (0, rows - c.size), constant_values=np.nan) for n, c in columns.items()}
    start, every = case.get("step_from", 1), case.get("step_every", 1)
    evals = {
        name: Evals(
            name,
            np.array(e["step"]),
            np.array(e["score"], dtype=float),
            np.array(e.get("stderr", [np.nan] * len(e["step"])), dtype=float),
            e.get("items", 0),
            metric=e.get("metric", "accuracy"),
        )
        for name, e in case.get("evals", {}).items()
    }
    return Run(
        name=case["name"],
        step=steps_of(case["steps"]) if "steps" in case else start + every * np.arange(rows),
        columns=columns,
        trainer=TrainerInfo(
            name=case.get("trainer", UNKNOWN_TRAINER.name),
            sequence_means=tuple(case.get("sequence_means", ())),
            update_means=tuple(case.get("update_means", ())),
        ),
        config=RunConfig(**case.get("config", {})),
        evals=evals,
        segments=tuple(Segment(**s) for s in case.get("segments", [])),
        audits=tuple(from_mapping(a) for a in case.get("audits", [])),
        events=tuple(Event(EventKind(e.pop("kind")), **e) for e in [dict(e) for e in case.get("events", [])]),
    )


@pytest.mark.parametrize(("check_id", "case"), ALL, ids=[f"{i}-{c['name']}" for i, c in ALL])
def test_case(check_id: str, case: dict[str, Any]) -> None:
    check = BY_ID[check_id]
    outcome = run_engine(build(case), (check,)).examine().outcomes[check_id]
    assert not isinstance(outcome, Crashed), outcome
    assert isinstance(outcome, KINDS[case["expect"]]), outcome
    if isinstance(outcome, Fired):
        finding = outcome.finding
        if "action" in case:
            assert VERDICT_OF[finding.action].value == case["action"], finding
        if "variant" in case:
            assert finding.variant == case["variant"], finding
        if "confidence" in case:
            assert finding.confidence.value == case["confidence"], finding
        if "onset" in case:
            low, high = case["onset"]
            assert finding.onset.first <= high, finding.onset
            assert finding.onset.last >= low, finding.onset


def test_every_check_has_the_four_kinds_of_case() -> None:
    """Each check shows a case that fires and a look-alike that stays quiet; and what it says when it cannot look."""
    for check in CHECKS:
        path = CASES / f"{check.id}.toml"
        assert path.is_file(), f"{check.id} has no case file"
        kinds = {c["expect"] for c in tomllib.loads(path.read_text())["case"]}
        assert {"fired", "clear"} <= kinds, f"{check.id} lacks {sorted({'fired', 'clear'} - kinds)}"
        if check.needs.all_of or check.needs.any_of or check.needs.config or check.needs.audit:
            assert "no_data" in kinds, f"{check.id} lacks a no_data case"
