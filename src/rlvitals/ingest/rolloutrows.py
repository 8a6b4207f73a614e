"""A rollout dump read as a step log: one row per rollout becomes one row per step, with means per family."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlvitals.ingest.table import RawTable, TableBuilder
from rlvitals.ingest.values import number
from rlvitals.schema import Note

TEXT_KEYS = ("output", "completion", "response")  # the model's text, which no step log carries
REWARD_KEYS = ("score", "reward", "total_reward")
SUCCESS_KEYS = ("acc", "correct", "is_correct")
FAMILY_KEYS = ("data_source", "dataset", "env", "task", "domain", "family")
GROUP_KEYS = ("group_id", "prompt_id", "prompt_idx", "group_idx", "uid", "input", "prompt")
GOLD_KEYS = ("gts", "ground_truth", "gold", "answer", "solution", "label")
_ANSWER = re.compile(r"\\boxed\{([^{}]{1,200})\}|<answer>([^<]{1,200})</answer>|####[ \t]*(\S[^\n]{0,199})")
_TAIL = 4_000  # characters from the end of a completion in which its final answer is looked for
_VERL_UID = re.compile(r"_\d+_\d+$")  # <prompt>_<rollout>_<output>
MAX_FAMILIES = 64  # distinct families that get a series of their own


def is_rollout(row: Mapping[str, object]) -> bool:
    """True for a record with a step, a score and the text of one completion."""
    texts = any(isinstance(row.get(key), str) for key in TEXT_KEYS)
    return texts and "step" in row and any(number(row.get(key)) is not None for key in REWARD_KEYS)


@dataclass
class _Step:
    line: int
    rewards: list[float] = field(default_factory=list)
    successes: list[float] = field(default_factory=list)
    families: dict[str, list[float]] = field(default_factory=dict)
    groups: dict[str, list[float]] = field(default_factory=dict)
    gold_given: dict[str, int] = field(default_factory=dict)  # rollouts whose final answer is the gold text
    gold_missed: dict[str, int] = field(default_factory=dict)  # of these, the ones that earned nothing


class RolloutRows:
    """Collects rollouts by step; text is not kept."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.rows = 0
        self._steps: dict[int, _Step] = {}

    def add(self, row: Mapping[str, object], line: int) -> None:
        step = number(row.get("step"), "step")
        reward = next((v for v in (number(row.get(key)) for key in REWARD_KEYS) if v is not None), None)
        if step is None or reward is None or not math.isfinite(step):
            return
        self.rows += 1
        found = self._steps.setdefault(int(step), _Step(line))
        found.rewards.append(reward)
        success = next((v for v in (number(row.get(key)) for key in SUCCESS_KEYS) if v is not None), None)
        if success is not None:
            found.successes.append(success)
        family = next((str(row[key])[:80] for key in FAMILY_KEYS if isinstance(row.get(key), str)), None)
        if family is not None and (family in found.families or len(found.families) < MAX_FAMILIES):
            found.families.setdefault(family, []).append(reward)
        if gives_gold(row):
            name = family or "all"
            found.gold_given[name] = found.gold_given.get(name, 0) + 1
            found.gold_missed[name] = found.gold_missed.get(name, 0) + int(reward <= 0)
        group = next((str(row[key]) for key in GROUP_KEYS if isinstance(row.get(key), str | int)), None)
        if group is not None and "uid" in row:
            group = _VERL_UID.sub("", group)
        if group is not None:
            found.groups.setdefault(group, []).append(reward)

    def build(self, notes: tuple[Note, ...]) -> RawTable:
        """Return one row per step in canonical names."""
        builder = TableBuilder(self.source)
        for step, found in self._steps.items():
            builder.add(_row(step, found), found.line)
        text = f"a rollout dump: {self.rows} rollouts averaged per step"
        return builder.build((Note(text, self.source, 0, self.rows), *notes))


def gives_gold(row: Mapping[str, object]) -> bool:
    """True when the final answer of a completion is the gold answer, letter by letter."""
    gold = next((str(row[key]).strip() for key in GOLD_KEYS if isinstance(row.get(key), str | int | float)), "")
    text = next((row[key] for key in TEXT_KEYS if isinstance(row.get(key), str)), "")
    if not gold or not isinstance(text, str):
        return False
    answers = _ANSWER.findall(text[-_TAIL:])
    return bool(answers) and next(filter(None, answers[-1])).strip() == gold


def _row(step: int, found: _Step) -> dict[str, object]:
    rewards = found.rewards
    row: dict[str, object] = {
        "step": step,
        "reward_mean": statistics.fmean(rewards),
        "reward_min": min(rewards),
        "reward_max": max(rewards),
    }
    if len(rewards) > 1:
        row["reward_std"] = statistics.stdev(rewards) if all(map(math.isfinite, rewards)) else math.nan
    if found.successes:
        row["success_frac"] = statistics.fmean(found.successes)
    if len(found.families) > 1:
        row.update({f"reward_family/{name}": statistics.fmean(values) for name, values in found.families.items()})
    row.update({f"gold_given/{name}": count for name, count in found.gold_given.items()})
    row.update({f"gold_missed/{name}": count for name, count in found.gold_missed.items()})
    groups = list(found.groups.values())
    if groups and min(len(group) for group in groups) > 1:  # a prompt that stands once shows no group
        row["zero_variance_frac"] = statistics.fmean(float(max(group) == min(group)) for group in groups)
    return row
