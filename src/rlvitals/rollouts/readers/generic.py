"""Any flat dump: JSON lines, parquet or CSV with a step, a reward and a text under usual names, or as the user maps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rlvitals.errors import InputError, Problem
from rlvitals.rollouts.readers import aliases, heads, sql
from rlvitals.rollouts.readers.base import Head, Reader, Request
from rlvitals.rollouts.readers.columnwise import hashed
from rlvitals.rollouts.readers.sql import Raw
from rlvitals.rollouts.table import BY_NAME, PART, Batch

_UID = re.compile(r"_\d+_\d+$")  # verl: <prompt>_<rollout>_<output>


def accepts(head: Head) -> bool:
    """True for records with a step, a reward and the text of one completion."""
    sets = (aliases.STEP, aliases.REWARD, aliases.COMPLETION)
    if not all(any(key in head.keys for key in keys) for keys in sets):
        return False
    texts = [head.record.get(key) for key in aliases.COMPLETION if key in head.record]
    return not head.record or any(isinstance(text, str | list) for text in texts)


def select(raw: Raw) -> Mapping[str, str | None]:
    out = aliases.flat(raw)
    for name in raw.types:  # what the table calls by its own name, beside the usual ones
        if name in BY_NAME and name not in aliases.FLAT and name != "stop_reason":
            out[name] = raw.text(name) if BY_NAME[name].kind == "text" else None
            if BY_NAME[name].kind == "number":
                out[name] = raw.number(name)
            elif BY_NAME[name].kind == "integer":
                out[name] = raw.whole(name)
            elif BY_NAME[name].kind == "tokens":
                out[name] = raw.tokens(name)
        elif name.startswith(PART):
            out[name] = raw.number(name)
    if out.get("prompt_id") is None:
        out["prompt_id"] = aliases.text_key(out["prompt"])
    if out.get("completion_id") is None:
        out["completion_id"] = aliases.text_key(out["completion"])
    return out


def row(record: Mapping[str, object]) -> dict[str, object]:
    """Return the rollout that one record holds, for records that come from no file."""
    out = aliases.flat_row(record)
    out |= {key: value for key, value in record.items() if key in BY_NAME and key not in aliases.FLAT}
    uid = record.get("uid")
    if isinstance(uid, str) and out["group"] is None:
        out["group"] = _UID.sub("", uid)
    if out["prompt_id"] is None:
        out["prompt_id"] = hashed(out["prompt"])
    out["completion_id"] = hashed(out["completion"])
    return out


def read(paths: Sequence[Path], request: Request) -> Iterator[Batch]:
    parts: list[str] = []
    if {".jsonl", ".ndjson"} & set(paths[0].suffixes):
        found = heads.numeric_keys(paths[0])
        parts = [k for k in found if k.startswith(PART)]
        lost = [f"{name}={key}" for name, key in request.mapping.items() if key not in found]
        if lost:
            known = ", ".join(sorted(found)[:12])
            where = str(paths[0])
            raise InputError(*[Problem("mapped key is not in the dump", f"{where}: {m}", expected=known) for m in lost])
    keys = [*aliases.KEYS, *BY_NAME, *parts, *request.mapping.values()]
    return sql.read(paths, keys, select, request)


READER = Reader("rollouts by their usual names", accepts, read)
