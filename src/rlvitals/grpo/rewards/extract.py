"""Where the answer stands in a completion. One reader is chosen per task and used in training and evaluation alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

CLOSE = "</think>"
NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|-?\.\d+")
HASHES = re.compile(r"####\s*(.+)")
TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def after_thinking(text: str) -> str:
    """Return what follows the last closing tag, the whole text where there is none."""
    return text.rsplit(CLOSE, 1)[-1]


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last complete `\boxed{...}`, braces matched; None where there is none.

    A box that was begun and cut off is passed over: an answer given before it still counts.
    """
    at = len(text)
    while (at := text.rfind("\\boxed{", 0, at)) >= 0:
        depth, start = 1, at + len("\\boxed{")
        for i in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                return text[start:i].strip()
    return None


def _boxed(text: str) -> str | None:
    return last_boxed(after_thinking(text))


def _hashes(text: str) -> str | None:
    found = HASHES.findall(after_thinking(text))
    return found[-1].strip() if found else None


def _last_number(text: str) -> str | None:
    found = NUMBER.findall(after_thinking(text))
    return found[-1] if found else None


def _tagged(text: str) -> str | None:
    found = TAGGED.findall(after_thinking(text))
    return found[-1].strip() if found else None


def _whole(text: str) -> str | None:
    return after_thinking(text).strip() or None


READERS: Mapping[str, Callable[[str], str | None]] = {
    "boxed": _boxed,
    "hashes": _hashes,
    "last-number": _last_number,
    "tagged": _tagged,
    "whole": _whole,
}
"""Name -> reader of a completion; None means that no answer could be read."""
