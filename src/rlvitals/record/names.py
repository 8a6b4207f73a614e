"""Names that tell runs apart: the shortest end of each path that no other one has."""

from __future__ import annotations

import os
from collections.abc import Sequence


def distinct(paths: Sequence[str]) -> list[str]:
    """Return a name for each path, its shortest end that no other path has; equal paths are numbered."""
    parts = [_parts(path) for path in paths]
    out: list[str] = []
    for own in parts:
        others = [other for other in parts if other != own]
        size = next((n for n in range(1, len(own)) if all(other[-n:] != own[-n:] for other in others)), len(own))
        name = "/".join(own[-size:]).replace("//", "/") or "run"
        again = sum(other == own for other in parts[: len(out)])
        out.append(f"{name} ({again + 1})" if again else name)
    return out


def _parts(path: str) -> tuple[str, ...]:
    """Return the parts of a path: from the root where it is one of this machine's."""
    whole = path if "://" in path or path == "-" else os.path.abspath(os.path.expanduser(path))
    return tuple(whole.rstrip("/").replace(os.sep, "/").split("/"))
