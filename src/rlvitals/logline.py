"""What to write down so that a check can look: this trainer's own line, or how to add it by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlvitals.blind import AUDIT, CONFIG, HELD_OUT, ROLLOUTS, SETTINGS, STEP, rollouts_read
from rlvitals.metrics import lookup
from rlvitals.view import View

BY_HAND: Mapping[str, str] = {
    "rollouts": "write one JSON line per rollout: step, prompt id, group id, reward, raw verifier output, tokens, "
    "stop reason, policy version, text",
    "evals": "evaluate a fixed held-out set every 20 to 50 steps, or pass `--evals NAME=FILE`",
    "config": "keep the config file beside the log, or set it in rlvitals.toml under `[config]`",
}
"""Where a trainer has no line of its own."""


def log_lines(missing: Sequence[str], view: View, *, settings: bool = False) -> tuple[str, ...]:
    """Return the lines that make this trainer log what is missing; where it has none for any of it, how to add it.

    `settings`: names that are both a setting and a metric are meant as settings.
    """
    named = [f"{CONFIG}{m}" if settings and m in SETTINGS else m for m in missing]
    wanted = tuple(dict.fromkeys(_source(m) for m in named if not _nothing_to_log(m, view)))
    lines = view.trainer.how_to_log
    told = tuple(dict.fromkeys(lines[m] for m in wanted if m in lines))
    return told or _by_hand(wanted)


def _nothing_to_log(name: str, view: View) -> bool:
    """An audit is run, the step is no metric, and a dump that was read holds all rollout facts that it can."""
    return name == STEP or name.startswith(AUDIT) or (name.startswith(ROLLOUTS) and rollouts_read(view))


def _source(name: str) -> str:
    """Return what lines are kept by: all rollout facts come from one dump, all members of a family from one line."""
    if name.startswith(ROLLOUTS):
        return ROLLOUTS.rstrip("/")
    if name == HELD_OUT:
        return "evals"
    if name.startswith(CONFIG) or (name in SETTINGS and lookup(name) is None):
        return "config"
    return f"{name}*" if name.endswith("/") else name


def _by_hand(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return how to add it without a line of the trainer: a file, or the first metric, named with what it measures."""
    files = tuple(BY_HAND[m] for m in wanted if m in BY_HAND)
    metric = next((found for m in wanted if (found := lookup(m)) is not None), None)
    if metric is None:
        return files
    name, what = metric.name.replace("/*", "/<name>"), metric.measures.rstrip(".")
    what = what if what[:2].isupper() else f"{what[:1].lower()}{what[1:]}"
    return (*files, f"where no setting of the trainer does, log it from your own code as `{name}`: {what}")
