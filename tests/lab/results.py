"""Results of the lab made by hand: what `rlvitals lab run` would have written, small enough to score in the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlvitals.lab.about import About
from rlvitals.lab.kept import Kept, keep

LAYOUTS = ("own", "trl")
BROKEN = About(
    name="broken",
    says="It is broken.",
    place="reward",
    fix="Mend it.",
    harm={"much": "yes", "a bit": "mild", "barely": "none"},
    roots=("R001",),
    signs=("T001",),
    allowed=("S001",),
    hidden={"trl": "not logged"},
)
LATE = About(
    name="late", says="It breaks.", place="sync", fix="Mend it.", start=21, invariant=True, harm={"on": "yes"},
    roots=("Y001",),
)  # fmt: skip
HARD = About(name="hard", says="It is noisy.", watch=("R010",))
NOW = {a.name: a for a in (BROKEN, LATE, HARD)}


def heard(causes: Sequence[str] = (), **changes: Any) -> dict[str, Any]:
    """Return what was said of a run: each cause opened an alarm, and the first one led, at step 10."""
    return {
        "verdict": "act" if causes else "healthy", "headline": "", "first": causes[0] if causes else "",
        "causes": list(causes), "consequences": [], "watched": [],
        "alarms": [{"step": 10, "check": c, "action": "fix"} for c in causes],
        "named": {causes[0]: 10} if causes else {}, "stop_step": 10 if causes else -1, "rollback": -1,
        "rollback_kind": "none", "onset": [1, 1], "steps": 100, "error": "", "blind": [], **changes,
    }  # fmt: skip


def result(subject: str, strength: str | None, seed: int, said: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a result of 100 steps whose held-out score stays at 0.4; its control's rises to 0.9."""
    about = NOW[subject]
    return {
        "case": f"{subject}/{strength}/seed-{seed}", "subject": subject, "healthy": about.is_healthy,
        "control": False, "against": "" if about.is_healthy else f"control/default/seed-{seed}",
        "strength": strength, "seed": seed, "more": {}, "start": about.start, "steps": 100, "eval_items": 128,
        "crash": "", "held_out": [[s, 0.4] for s in range(0, 101, 10)], "heard": dict(said), **changes,
    }  # fmt: skip


def control(seed: int, **changes: Any) -> dict[str, Any]:
    """Return a control whose held-out score rises from 0.4 at step 20 to 0.9 at step 40."""
    score = {0: 0.4, 10: 0.4, 20: 0.4, 30: 0.7}
    quiet = {layout: heard() for layout in LAYOUTS}
    return result(
        "broken", None, seed, quiet, case=f"control/default/seed-{seed}", control=True,
        held_out=[[s, score.get(s, 0.9)] for s in range(0, 101, 10)], **changes,
    )  # fmt: skip


def both(own: Mapping[str, Any], trl: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what was said in our own layout and in TRL's."""
    return {"own": own, "trl": heard() if trl is None else trl}


def kept(*results: Mapping[str, Any]) -> Kept:
    """Return what is kept of results, with the controls of the seeds 0 and 1."""
    return keep([*results, control(0), control(1)], {"rlvitals": "0"}, NOW)
