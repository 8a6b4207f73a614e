"""Hand scores against the pipeline's: a session that can be resumed, and the agreement one by one.

A session is a file of JSON lines in `.rlvitals/`: the draw first, then one line per answer. What is shown
to the person never holds a score.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import orjson

from rlvitals.audit.common import exact_share, kappa, made
from rlvitals.audit.draw import Drawn, blind
from rlvitals.auditresults import MAX_NAMED, Score
from rlvitals.errors import InputError, Problem


class Said(StrEnum):
    """A person's answer."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a person sees of one trajectory: text without any score, untrusted."""

    title: str
    prompt: str
    completion: str
    gold: str
    raw: str


class Session:
    """A draw and the answers so far, kept in a file after every answer."""

    def __init__(self, path: Path, drawn: Sequence[Drawn]) -> None:
        self.path, self.drawn = path, tuple(drawn)
        self.answers: dict[int, Said] = {}
        self._resume()

    def _resume(self) -> None:
        """Take over the answers of a file of the same draw. Raises InputError when it is of another one."""
        key = draw_key(self.drawn)
        try:
            lines = self.path.read_bytes().splitlines() if self.path.is_file() else []
            if not lines:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_bytes(orjson.dumps({"draw": key, "n": len(self.drawn)}) + b"\n")
                return
            head = orjson.loads(lines[0])
        except (OSError, ValueError) as error:
            raise InputError(Problem("the session cannot be used", str(self.path), str(error))) from error
        if not isinstance(head, dict) or head.get("draw") != key:
            raise InputError(
                Problem("this session is of another draw", str(self.path), "other rollouts, number or seed",
                        hint="Begin anew with --restart, or give the same options as before")
            )  # fmt: skip
        for line in lines[1:]:
            try:
                found = orjson.loads(line)
                self.answers[int(found["i"])] = Said(found["said"])
            except (ValueError, KeyError, TypeError):
                continue  # half a line of a session that was killed

    @property
    def next(self) -> int | None:
        """Number of the first trajectory without an answer, None when all are scored."""
        return next((i for i in range(len(self.drawn)) if i not in self.answers), None)

    def shown(self, i: int) -> Shown:
        """Return what a person may see of one trajectory."""
        row = self.drawn[i].row
        family = f" ({row.family})" if row.family else ""
        return Shown(
            f"{i + 1} of {len(self.drawn)}{family}", row.prompt, row.completion or "(empty)", row.gold or "",
            blind(row.raw),
        )  # fmt: skip

    def answer(self, i: int, said: Said) -> None:
        """Keep an answer. The first answer to a trajectory stands: after it the score has been seen."""
        if i in self.answers or not 0 <= i < len(self.drawn):
            return
        self.answers[i] = said
        with self.path.open("ab") as stream:
            stream.write(b"\n" + orjson.dumps({"i": i, "said": said.value}))

    def revealed(self, i: int, full: float) -> str:
        """Return what the pipeline said, once the person has answered; "" before."""
        if i not in self.answers:
            return ""
        row = self.drawn[i].row
        reward = "no reward" if math.isnan(row.reward) else f"reward {row.reward:g}"
        verdict = pipeline_says(self.drawn[i], full)
        word = "no verdict" if verdict is None else "right" if verdict else "wrong"
        return f"The pipeline: {word} ({reward})" + (f"; raw output: {row.raw}" if row.raw else "")


def draw_key(drawn: Sequence[Drawn]) -> str:
    """Return what tells one draw from another."""
    text = "\n".join(f"{d.row.source}:{d.row.number}" for d in drawn)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def pipeline_says(drawn: Drawn, full: float) -> bool | None:
    """Return whether the pipeline counts a trajectory as right: by its `correct`, else by half of full marks."""
    row = drawn.row
    if math.isfinite(row.correct):
        return row.correct > 0.5
    return None if math.isnan(row.reward) else row.reward >= full


def agreement(session: Session, full: float, subject: str, sources: Sequence[str] = ()) -> Score:
    """Compare the answers with the pipeline. `full` is the reward from which a trajectory counts as right."""
    table = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}  # (person, pipeline)
    unsure = errors = 0
    named: list[str] = []
    weighted = total = 0.0
    for i, said in sorted(session.answers.items()):
        drawn = session.drawn[i]
        pipeline = pipeline_says(drawn, full)
        if said is Said.UNSURE:
            unsure += 1
        elif pipeline is None:
            errors += 1
        else:
            person = said is Said.RIGHT
            table[person, pipeline] += 1
            total += drawn.weight
            if person is not pipeline:
                weighted += drawn.weight
                named.append(f"{drawn.row.name}: {'paid' if pipeline else 'not paid'}, a person says {said.value}")
    fp, fn = table[False, True], table[True, False]
    return Score(
        made=made(subject, sources),
        scored=len(session.answers),
        unsure=unsure,
        pipeline_errors=errors,
        wrong=exact_share(fp + fn, sum(table.values())),
        false_positive=exact_share(fp, fp + table[False, False]),
        false_negative=exact_share(fn, fn + table[True, True]),
        weighted_error=weighted / total if total else math.nan,
        kappa=kappa(table[True, True], fn, fp, table[False, False]),
        disagreements=tuple(named[:MAX_NAMED]),
    )
