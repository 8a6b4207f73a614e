"""Errors of the page as JSON problems (RFC 9457), each with the parts of an `errors.Problem`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson
from starlette.responses import Response

from rlvitals.errors import Problem

MEDIA_TYPE = "application/problem+json"


class Refused(Exception):
    """A request that can't be answered; carries every problem of that request at once."""

    def __init__(self, status: int, *problems: Problem) -> None:
        self.status = status
        self.problems = problems
        super().__init__("\n".join(str(p) for p in problems))


def body(status: int, problems: Sequence[Problem]) -> dict[str, Any]:
    """Return the body of a problem answer; its title is the first problem in one sentence."""
    first = problems[0].what if problems else "the request failed"
    return {"type": "about:blank", "title": first, "status": status, "problems": [asdict(p) for p in problems]}


def response(status: int, problems: Sequence[Problem], headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem answer."""
    return Response(plain(body(status, problems)), status, dict(headers or {}), MEDIA_TYPE)


def plain(value: object) -> bytes:
    """Return JSON bytes; numpy arrays are numbers in it, NaN is null, and text that is no UTF-8 shows its escapes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:  # a lone surrogate of a file name
        return orjson.dumps(_utf8(value), option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _utf8(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_utf8(str(k)): _utf8(v) for k, v in value.items()}
    return [_utf8(v) for v in value] if isinstance(value, list | tuple) else value
