"""The slice of the lab that CI trains again: python benchmarks/lab_slice.py writes what is said of it now.

One fault for each place where a run can break, as many steps as it takes to be named there, and one healthy run, on a
building seed. `benchmarks/results/lab_slice.json` holds what was said in every layout; tests/lab/test_committed.py
trains the same runs and fails where the answers drift. About 110 CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from rlvitals.lab.cases import Case  # noqa: E402
from rlvitals.lab.find import subject_of  # noqa: E402
from rlvitals.lab.run import run_case  # noqa: E402

OUT = ROOT / "benchmarks" / "results" / "lab_slice.json"
SEED = 0  # one to build with: nothing that is scored is shown
LOOKS = 10  # steps by which naming may differ between machines: two looks, as rounding moves curves a little
SAVED = 20  # steps by which a rollback target may: one checkpoint
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Short:
    """A run of the slice; without a strength it is a healthy one."""

    subject: str
    strength: str
    steps: int

    @property
    def case(self) -> Case:
        found = subject_of(self.subject, "", healthy=not self.strength)
        strengths = {s.name: s for s in getattr(found, "strengths", ())}
        return Case(found, strengths[self.strength] if self.strength else None, SEED, self.steps)


SLICE = (
    Short("tasks-too-hard", "4 digits", 25),  # task
    Short("parser-changed", "from step 1 on", 25),  # reward
    Short("sampler-temperature-off", "temperature 2", 30),  # sampler
    Short("nan-from-one-step", "from step 60 on", 66),  # trainer, and a target before the fault
    Short("sampler-stale", "never", 25),  # sync
    Short("tool-fails", "every call", 70),  # environment, and a target before the fault
    Short("lossy-log-learning-rate-too-high", "3e-3", 40),  # logging: cannot say
    Short("grpo", "", 45),  # healthy
)


def said(short: Short, folder: Path) -> dict[str, Answer]:
    """Train a run of the slice and return what is compared, layout by layout."""
    return {layout: _answer(heard) for layout, heard in run_case(short.case, folder)["heard"].items()}


def _answer(heard: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "verdict": heard["verdict"],
        "causes": list(heard["causes"]),
        "alarms": sorted({a["check"] for a in heard["alarms"]}),
        "named": dict(heard["named"]),
        "rollback": heard["rollback"],
        "rollback_kind": heard["rollback_kind"],
        "error": heard["error"],
    }


def drift(then: Answer, now: Answer) -> list[str]:
    """Return what differs by more than machines do: answers are the same, steps within two looks or one checkpoint."""
    found = [
        f"{what}: {then[what]} then, {now[what]} now"
        for what in ("verdict", "alarms", "rollback_kind", "error")
        if then[what] != now[what]
    ]
    if then["causes"][:1] != now["causes"][:1]:
        found.append(f"first cause: {then['causes'][:1]} then, {now['causes'][:1]} now")
    if set(then["causes"]) != set(now["causes"]):
        found.append(f"causes: {then['causes']} then, {now['causes']} now")
    if abs(then["rollback"] - now["rollback"]) > SAVED:
        found.append(f"rollback to {then['rollback']} then, {now['rollback']} now")
    for check in sorted({*then["named"], *now["named"]}):
        steps = then["named"].get(check), now["named"].get(check)
        if None in steps or abs(steps[0] - steps[1]) > LOOKS:
            found.append(f"{check} led first at step {steps[0]} then, {steps[1]} now")
    return found


def read(path: Path = OUT) -> dict[str, dict[str, Answer]]:
    """Return what was committed: subject -> layout -> answer."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return dict(found["runs"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--date", default="", help="of the runs, kept in the file")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = {short.subject: said(short, Path(folder)) for short in SLICE}
    lines = ",\n".join(f'"{name}": {json.dumps(answers)}' for name, answers in runs.items())
    made = json.dumps({"date": options.date, "seed": SEED})
    options.out.write_text(f'{{"made": {made},\n"runs": {{\n{lines}\n}}}}\n', encoding="utf-8")
    print(f"{len(runs)} runs: {options.out}")


if __name__ == "__main__":
    main()
