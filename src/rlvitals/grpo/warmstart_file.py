"""The file of a warm start: demonstrations, read strictly, and refused where they would teach something else."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from rlvitals.env import Message
from rlvitals.errors import InputError, Problem
from rlvitals.grpo.chat import Tokenizer, turn_ids
from rlvitals.grpo.tasks.lines import first_few, numbered
from rlvitals.grpo.warmstart import Dialogue

FORM = '{"prompt": ..., "completion": ...} or {"messages": [...]} that ends with the assistant'
MOST_UNKNOWN = 0.1  # share of the assistant's tokens that may be unknown to the vocabulary (convention)


def read_file(path: Path) -> dict[int, Dialogue]:
    """Return the demonstrations of a JSON lines file by the number of their line, from 1.

    A line is {"prompt": text, "completion": text} or {"messages": [{"role", "content"}, ...]} with at least one message
    of the assistant, as the last one, never two in a row and none blank. InputError names the lines that are neither.
    """
    dialogues: dict[int, Dialogue] = {}
    problems: list[Problem] = []
    for number, row in numbered(path, "warm start"):
        if isinstance(row, Problem):
            problems.append(row)
            continue
        found = _dialogue(row)
        where, shown = f"{path} line {number}", f"{row!r:.60}"
        if found is None:
            problems.append(Problem("not a demonstration", where, shown, FORM))
        elif wrong := _teaches_else(found):
            problems.append(Problem(wrong, where, shown))
        else:
            dialogues[number] = found
    if not dialogues and not problems:
        problems.append(Problem("no demonstrations", str(path), "an empty file", "one JSON object a line"))
    if problems:
        raise InputError(*first_few(problems, str(path)))
    return dialogues


def _dialogue(row: Mapping[str, Any]) -> Dialogue | None:
    prompt, completion = row.get("prompt"), row.get("completion")
    if isinstance(prompt, str) and isinstance(completion, str) and prompt and completion:
        return (Message("user", prompt), Message("assistant", completion))
    turns = row.get("messages")
    if not isinstance(turns, list):
        return None
    out = [
        Message(t["role"], t["content"])
        for t in turns
        if isinstance(t, dict) and isinstance(t.get("role"), str) and isinstance(t.get("content"), str)
    ]
    fits = len(out) == len(turns) >= 2 and out[-1].role == "assistant" and out[0].role != "assistant"
    return tuple(out) if fits else None


def _teaches_else(dialogue: Dialogue) -> str:
    """Return what a demonstration would teach that nobody means, "" where nothing."""
    if any(m.role == "assistant" and not m.content.strip() for m in dialogue):
        return "the assistant says nothing: the policy would learn to end at once"
    roles = [m.role for m in dialogue]
    if ("assistant", "assistant") in pairwise(roles):
        return "two messages of the assistant in a row: the policy would learn to speak behind its end token"
    return ""


def unknown_share(tokenizer: Tokenizer, dialogues: Mapping[int, Dialogue], path: str) -> float:
    """Return the share of the assistant's tokens that the vocabulary does not know, end tokens left out.

    InputError where that is over a tenth, and for lines with an end token inside the assistant's text.
    """
    marks = {i for i in (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id) if i is not None}
    name, unknown_id = _unknown(tokenizer)
    tokens = unknown = first = 0
    problems: list[Problem] = []
    for number, dialogue in dialogues.items():
        for text in (m.content for m in dialogue if m.role == "assistant"):
            ids = turn_ids(tokenizer, text)[:-1]
            inside = next((i for i in ids if i in marks), None)
            if inside is not None:
                mark = str(tokenizer.convert_ids_to_tokens(inside))
                what = "the assistant's text has a token in it that opens or ends turns"
                problems.append(Problem(what, f"{path} line {number}", mark, "", "Take it out: ends are added"))
            tokens += len(ids)
            # the unknown token may stand in the text by its own name
            lost = 0 if unknown_id in marks else max(0, ids.count(unknown_id) - text.count(name))
            unknown += lost
            first = first or (number if lost else 0)
    if problems:
        raise InputError(*first_few(problems, path))
    share = unknown / tokens if tokens else 0.0
    if share > MOST_UNKNOWN:
        raise InputError(
            Problem("the demonstrations are outside the vocabulary of the policy", path,
                    f"{share:.0%} of the assistant's tokens unknown, the first in line {first}",
                    f"at most {MOST_UNKNOWN:.0%}", "Take a policy that knows these characters: --model")
        )  # fmt: skip
    return share


def _unknown(tokenizer: Tokenizer) -> tuple[str, int]:
    """Return the token that stands for what the vocabulary does not know, and its id: ("", -1) where none does."""
    inner = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    name = tokenizer.unk_token or getattr(inner, "unk_token", None)
    number = tokenizer.get_vocab().get(name) if name else None
    return (str(name), int(number)) if number is not None else ("", -1)
