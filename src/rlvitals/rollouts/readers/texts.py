"""Texts of a dump as the table holds them: messages joined, length bounded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import orjson

MAX_TEXT = 1_000_000  # characters of one prompt or completion that are kept


def spoken(column: npt.NDArray[np.object_]) -> tuple[npt.NDArray[np.object_], int]:
    """Return texts with JSON lists of messages joined, and how many were cut at MAX_TEXT."""
    out = column.copy()
    cut = 0
    for i, text in enumerate(column):
        if not isinstance(text, str):
            continue
        if len(text) > MAX_TEXT:
            cut += 1
            out[i] = text[:MAX_TEXT]
        elif text.startswith('[{"') and '"content"' in text:
            out[i] = joined(_loaded(text)) or text
    return out, cut


def joined(value: object, roles: Sequence[str] = ()) -> str:
    """Return the text of a string, a message or a list of them; `roles` picks the speakers, all when empty."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        if roles and value.get("role") not in roles:
            return ""
        content = value.get("content")
        if isinstance(content, list):  # parts: text, images ...
            return "\n".join(str(p["text"]) for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
        return content if isinstance(content, str) else ""
    if isinstance(value, list):
        return "\n".join(filter(None, (joined(v, roles) for v in value)))
    return ""


def _loaded(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
