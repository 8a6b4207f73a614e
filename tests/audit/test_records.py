"""Records: written, read back, refused when broken, seen by check and monitor, spoken of in plan and blind spots."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import rlvitals
from rlvitals.auditresults import (
    AtK,
    AuditKind,
    Leakage,
    Learnable,
    Made,
    Preflight,
    Probe,
    ProbeFault,
    ProbeFinding,
    Score,
    Share,
    from_mapping,
    kind_of,
    read_folder,
    write,
)
from rlvitals.check import Fired, NoData
from rlvitals.live.monitor import Monitor
from rlvitals.schema import Run

EXAMPLE = Path(__file__).parents[1] / "data" / "trl_healthy"
BROKEN = Probe(
    Made("2026-11-29T12:00:00+00:00", "rewards:correct"),
    findings=(ProbeFinding(ProbeFault.ALWAYS_ZERO, "all 48 known answers got 0", Share(48, 48, 0.9, 1.0), zero=True),),
)
AUDITED = ("T003", "T004", "T005", "R031", "R033", "R034", "R032", "O031", "O032", "H004")


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    found = Preflight(Made("2026-11-29", "a/b: c"), Learnable.YES, 3, 24, 8, 0.5, 0.4, 0.6, (AtK(1, 0.5, 0.4, 0.6),))
    path = write(found, tmp_path)
    assert path.name == "preflight-a-b-c.json"
    assert read_folder(tmp_path) == ((found,), ())
    assert kind_of(found) is AuditKind.PREFLIGHT


def test_nan_is_written_as_nothing_and_read_as_nan(tmp_path: Path) -> None:
    path = write(Score(), tmp_path)
    assert json.loads(path.read_text())["kappa"] is None
    ((record,), broken) = read_folder(tmp_path)
    assert isinstance(record, Score)
    assert np.isnan(record.kappa)
    assert broken == ()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ([], "names a kind of audit"),
        ({"audit": "other"}, "names a kind of audit"),
        ({"audit": "score", "scored": "20"}, "score.scored: expected int, found str"),
        ({"audit": "score", "scored": True}, "expected int, found bool"),
        ({"audit": "score", "wrong": [1]}, "score.wrong: expected an object"),
        ({"audit": "probe", "findings": [{"fault": "unheard of", "text": ""}]}, "unheard of"),
        ({"audit": "probe", "findings": [{"text": "x"}]}, "fault"),
    ],
)
def test_a_broken_record_is_refused(data: object, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        from_mapping(data)


def test_a_broken_file_is_a_note_and_hides_no_other(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(EXAMPLE, run)
    write(BROKEN, run / ".rlvitals")
    (run / ".rlvitals" / "score-x.json").write_text("{half")
    found = rlvitals.load(run)
    assert found.audits == (BROKEN,)
    told = [n.text[:26] for n in found.notes if "score-x.json" in n.text]
    assert told == ["score-x.json: not a record"]


def test_check_and_monitor_see_the_same_records(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(EXAMPLE, run)
    write(BROKEN, run / ".rlvitals")
    loaded = rlvitals.load(run / "trainer_state.json")
    after = rlvitals.diagnose(loaded)
    assert [c.id for c in after.causes][:1] == ["R031"]
    assert after.causes[0].finding.evidence[0].text.startswith("probe of rewards:correct on 2026-11-29: always zero")
    monitor = Monitor(loaded.config, trainer="TRL", audits=loaded.audits)
    for i, step in enumerate(loaded.step[:40]):
        monitor.log(int(step), {n: c[i] for n, c in loaded.columns.items() if np.isfinite(c[i])})
    live = monitor.diagnosis()
    assert isinstance(live.outcomes["R031"], Fired)
    assert live.causes[0].finding.summary == after.causes[0].finding.summary


def test_without_records_blind_spots_and_step_0_say_so() -> None:
    run = rlvitals.load(EXAMPLE)
    found = rlvitals.diagnose(run)
    reasons = {i: o.reason for i, o in found.outcomes.items() if isinstance(o, NoData)}
    assert {i: reasons[i].partition(":")[0] for i in ("T003", "R031", "R034", "H004", "O031")} == {
        "T003": "learnability unknown", "R031": "verifier unverified", "R034": "verifier unverified",
        "H004": "leakage unchecked", "O031": "determinism unknown",
    }  # fmt: skip
    assert set(AUDITED) <= {b.id for b in found.blind_spots}
    sick = rlvitals.diagnose(_with(run, BROKEN))
    assert (
        "The verifier is unverified: rlvitals audit score. Learnability unknown: rlvitals preflight"
        in sick.plan[0].text
    )


def test_step_0_says_what_was_verified() -> None:
    made = Made("2026-11-29T12:00:00+00:00", "x")
    run = rlvitals.load(EXAMPLE)
    scored = Score(made, 20, wrong=Share(0, 20))
    able = Preflight(made, Learnable.YES, zero_variance=(AtK(8, 0.1, 0.0, 0.2),))
    found = rlvitals.diagnose(_with(run, BROKEN, scored, able, Leakage(made)))
    assert found.plan[0].text == (
        "Verify the verifier: probed on 2026-11-29, 20 trajectories scored by hand on 2026-11-29; once more if the "
        "reward function or the answer format has changed since."
    )


def _with(run: Run, *audits: object) -> Run:
    from dataclasses import replace

    return replace(run, audits=audits)
