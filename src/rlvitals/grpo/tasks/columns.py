"""Rows of a dataset to items: which column is the question, which the answer, and what is wrong with them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from rlvitals.env import Item, Message
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.rewards.extract import HASHES, last_boxed

PROMPTS = ("prompt", "problem", "question", "query", "instruction", "input")
ANSWERS = ("answer", "gold", "expected_answer", "ground_truth", "target", "solution", "output")
FAMILIES = ("family", "subject", "type", "data_source", "source", "category")
TIERS = ("tier", "level", "difficulty")
MAX_TEXT_CHARS = 200_000  # a prompt or an answer longer than this is a broken row
SHOWN = 5  # broken rows named in one error
KEPT = ("schema", "milestones")  # further columns that verifiers look at

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns in use; family and tier may be "" for none."""

    prompt: str
    answer: str
    family: str = ""
    tier: str = ""


def choose(
    found: Sequence[str], where: str, *, prompt: str = "", answer: str = "", family: str = "", tier: str = ""
) -> Columns:
    """Return the columns: the named ones, else the first known name. InputError names every missing one at once."""
    problems: list[Problem] = []

    def pick(role: str, named: str, known: Sequence[str], *, needed: bool) -> str:
        if named:
            if named not in found:
                near = difflib.get_close_matches(named, found, n=1)
                hint = f"Nearest: {near[0]}" if near else ""
                problems.append(Problem(f"no column {named!r}", where, _listed(found), f"a column of the {role}", hint))
            return named
        for name in known:
            if name in found:
                return name
        if needed:
            hint = f"Name it: {role}=COLUMN"
            problems.append(Problem(f"no {role} column", where, _listed(found), " or ".join(known), hint))
        return ""

    columns = Columns(
        pick("prompt", prompt, PROMPTS, needed=True),
        pick("answer", answer, ANSWERS, needed=True),
        pick("family", family, FAMILIES, needed=False),
        pick("tier", tier, TIERS, needed=False),
    )
    if problems:
        raise InputError(*problems)
    return columns


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) or "no columns"


def messages_of(value: object, system: str) -> tuple[Message, ...] | None:
    """Return the first messages of a prompt cell: text, or a list of {"role", "content"}; None for anything else."""
    start = (Message("system", system),) if system else ()
    if isinstance(value, str):
        return (*start, Message("user", value)) if value.strip() else None
    if not isinstance(value, list) or not value:
        return None
    out: list[Message] = []
    for turn in value:
        if not (isinstance(turn, Mapping) and isinstance(turn.get("content"), str)):
            return None
        out.append(Message(str(turn.get("role", "user")), str(turn["content"])))
    return tuple(out) if out[0].role == "system" else (*start, *out)


def gold_of(value: object) -> str | None:
    r"""Return the expected answer in an answer cell.

    Text after `####` (GSM8K) or in the last box (solutions of MATH) comes first, then the text itself; numbers are
    written out in full. NaN and infinity are no answer.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):  # written plainly: no verifier of mathematics reads 1e-05 as a number
        return format(Decimal(repr(float(value))), "f") if math.isfinite(value) else None
    if isinstance(value, list) and len(value) == 1:
        return gold_of(value[0])
    if not isinstance(value, str) or not value.strip():
        return None
    hashes = HASHES.findall(value)
    return str(hashes[-1]).strip() if hashes else (last_boxed(value) or value.strip())


def items_of(
    rows: Sequence[Row], columns: Columns, where: str, *, system: str = "", verbatim: bool = False
) -> tuple[Item, ...]:
    """Return one item per row, in order; ids are the column `id` or, without one, the number of the row, from 0.

    Args:
        verbatim: take text in the answer column as it is, without looking for a final answer in it.

    InputError names the broken rows: no text in the prompt, no answer, a cell of more than 200,000 characters, an id
    that an earlier row has.
    """
    items: list[Item] = []
    broken: list[Problem] = []
    first: dict[str, int] = {}  # id -> number of the row that has it
    for number, row in enumerate(rows):
        own = str(number if row.get("id") is None else row["id"])
        before = first.setdefault(own, number)
        answer = row.get(columns.answer)
        messages = messages_of(row.get(columns.prompt), system)
        gold = answer if verbatim and isinstance(answer, str) and answer.strip() else gold_of(answer)
        place = f"{where} row {number + 1}"
        if messages is None:
            broken.append(Problem("no prompt text", f"{place}, {columns.prompt}", f"{row.get(columns.prompt)!r:.60}"))
        elif gold is None:
            broken.append(Problem("no answer", f"{place}, {columns.answer}", f"{row.get(columns.answer)!r:.60}"))
        elif max(len(gold), *(len(m.content) for m in messages)) > MAX_TEXT_CHARS:
            broken.append(Problem("a text is too long", place, "", f"at most {MAX_TEXT_CHARS:,} characters"))
        elif before != number:
            hint = "Prompts that are asked again, and evaluations, go by it: give each row its own, or none to any"
            broken.append(Problem("two rows with one id", f"{place} and row {before + 1}", repr(own), "", hint))
        else:
            items.append(
                Item(
                    id=own,
                    messages=messages,
                    gold=gold,
                    family=str(row.get(columns.family) or "") if columns.family else "",
                    tier=str(row.get(columns.tier) or "") if columns.tier else "",
                    extra={k: row[k] for k in KEPT if row.get(k) is not None},
                )
            )
    if broken:
        more = len(broken) - SHOWN
        rest = [Problem(f"{more} more broken rows", where)] if more > 0 else []
        raise InputError(*broken[:SHOWN], *rest)
    return tuple(items)


def repeats(items: Sequence[Item], where: str) -> tuple[str, ...]:
    """Return what is odd about items that ask the same question: told in a sentence each, none for none."""
    first: dict[tuple[Message, ...], int] = {}
    same: list[tuple[int, int]] = []
    unlike: list[tuple[int, int]] = []
    for number, item in enumerate(items):
        before = first.setdefault(item.messages, number)
        if before != number:
            (same if items[before].gold == item.gold else unlike).append((before + 1, number + 1))
    said = []
    if unlike:
        said.append(
            f"{where}: {len(unlike)} of {len(items)} rows ask the question of an earlier row and expect another answer "
            f"(rows {_rows(unlike)}): one of the two is called wrong"
        )
    if same:
        said.append(
            f"{where}: {len(same)} of {len(items)} rows repeat question and answer of an earlier row "
            f"(rows {_rows(same)}): they are asked more often than others"
        )
    return tuple(said)


def _rows(pairs: Sequence[tuple[int, int]]) -> str:
    shown = ", ".join(f"{a} and {b}" for a, b in pairs[:SHOWN])
    return shown + (", ..." if len(pairs) > SHOWN else "")
