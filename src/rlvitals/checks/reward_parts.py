"""Which reward components stand for the task and which can be had without solving it, told from their names."""

from __future__ import annotations

from dataclasses import dataclass

from rlvitals.checks.common import words_in
from rlvitals.view import View

TRUTH = (
    "correct", "accura", "acc", "answer", "solv", "success", "pass", "exact_match", "unit_test", "win", "env", "task",
    "true",
)  # fmt: skip
"""Words in the names of components that stand for the task itself (convention of public reward functions)."""
CHEAP = (
    "format", "xml", "tag", "json", "length", "len", "lang", "style", "pars", "compil", "syntax", "int_reward", "_int",
    "think", "repet", "penal", "bonus", "count", "approx", "strict", "soft", "exactly",
)  # fmt: skip
"""Words in the names of components that can be had without solving the task."""
FORMAT = ("format", "xml", "tag", "json", "think", "strict", "soft", "approx", "exactly", "pars")
"""Words of components that a healthy run learns first, before correctness can follow: they get a longer grace."""
AGAINST = ("incorrect", "inaccura", "wrong", "error", "fail", "miss", "un", "not_")
"""Words that turn a name around: such a component rightly counts negative."""
SHORT_ROWS = 3  # a short log counts only when everything in it moves the same way at every step


@dataclass(frozen=True, slots=True)
class Parts:
    truth: tuple[str, ...]
    cheap: tuple[str, ...]
    other: tuple[str, ...]


def split(view: View) -> Parts:
    """Sort the logged components into task, cheap and unknown ones by their names."""
    names = [n for n in view.family("reward_part/") if view.count(n) >= SHORT_ROWS]
    cheap = tuple(n for n in names if words_in(n, CHEAP))
    truth = tuple(n for n in names if n not in cheap and words_in(n, TRUTH))
    other = tuple(n for n in names if n not in cheap and n not in truth)
    if view.has("success_frac", SHORT_ROWS):
        truth = ("success_frac", *truth)
    return Parts(truth, cheap, other)
