"""The reference of `--task`, written from the tasks themselves; docs/tasks.md holds it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rlvitals.grpo.rewards.shaping import SHAPING
from rlvitals.grpo.tasks.load import KINDS
from rlvitals.grpo.tasks.options import Option

HEAD = """\
# Tasks of `rlvitals train`

`--task NAME` or `--task NAME:key=value,key=value`. Lists are joined by `+`.

Every answer gets one of five verdicts: right, wrong, no parse, error, timeout. Right pays 1, wrong and no parse pay 0.
An error or a timeout of the verifier pays nothing and costs nothing: the rollout has no reward, is left out of baseline
and update, and is counted. Verifiers run in a process of their own with limits on time and memory; none evaluates what
the policy wrote. The verdicts on the embedded tasks compare digits and need no process.
"""
CODE = """\
The task `code` runs what the policy writes and is off unless `allow=yes`. Each program runs in a process of its own,
in an empty folder, with an empty environment and limits on CPU time, memory and file size, and in a network namespace
of its own where the system grants one. **This contains accidents and is no security boundary**: who trains on hostile
data runs the whole trainer in a container or a virtual machine.

Nine puzzles of reasoning-gym score answers by evaluating them as Python. Answers to those are screened first: what
holds anything but the numbers, signs and names that a right answer can hold is no parse.
"""
SHAPED = """\
Each part is logged unweighted as `reward_part/<name>`; the total is their weighted sum, or with `rule=gated` the
correctness alone where that is below 1. `rule=gdpo` normalises each part within its group before weighting. The format
reward wants exactly one pair of `<think>` tags around some thinking and an answer behind it; it looks at token ids
where the tokenizer has each tag as one token, else at the text.
"""


def _table(options: Iterable[Option]) -> str:
    rows = [f"| `{o.name}` | {o.meaning}{_range(o)} | {f'`{o.default}`' if o.default else ''} |" for o in options]
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows]) if rows else "No options of its own."


def _range(option: Option) -> str:
    """Return the values that a number may have."""
    return f"; {option.low:g} to {option.high:,.0f}" if math.isfinite(option.high) else ""


def tasks_page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for kind in KINDS:
        parts += [f"## {kind.name}\n", f"{kind.says}\n", f"{_table(kind.options)}\n"]
    parts += [CODE, "## Rewards beside correctness, for every task\n", f"{_table(SHAPING)}\n", SHAPED]
    return "\n".join(parts)
