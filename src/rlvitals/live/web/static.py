"""The files that the pages load: a fixed list, so that no address can lead to any other file."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from rlvitals.errors import Problem
from rlvitals.live.web.problems import Refused

FILES: dict[str, tuple[str, str, str]] = {  # name -> package, path in it, media type
    "plotly.js": ("plotly", "package_data/plotly.min.js", "text/javascript; charset=utf-8"),
    "report.css": ("rlvitals.report", "templates/report.css", "text/css; charset=utf-8"),
    "page.css": ("rlvitals.live.web", "static/page.css", "text/css; charset=utf-8"),
    "plots.css": ("rlvitals.live.web", "static/plots.css", "text/css; charset=utf-8"),
    "live.js": ("rlvitals.live.web", "static/live.js", "text/javascript; charset=utf-8"),
    "plots.js": ("rlvitals.live.web", "static/plots.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("rlvitals.live.web", "static/icon.svg", "image/svg+xml"),
}
FOREVER = "public, max-age=31536000, immutable"  # an address carries the hash of the file


async def serve(request: Request) -> Response:
    """Return one of FILES."""
    name = request.path_params["name"]
    if name not in FILES:
        raise Refused(404, Problem("there is no such file"))
    content, digest = _content(name)
    tag = f'"{digest}"'
    cache = {"cache-control": FOREVER if request.query_params.get("v") == digest else "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=cache)
    return Response(content, headers=cache, media_type=FILES[name][2])


def address(name: str) -> str:
    """Return the address of one of FILES; it changes with its content."""
    return f"/static/{name}?v={_content(name)[1]}"


@lru_cache(maxsize=1)
def map_style_id() -> str:
    """Return the id of the element under which plotly.js keeps the styles of its maps, "" where it has none.

    It writes them into the page when it loads; an element that is there already keeps it from trying what the policy
    forbids.
    """
    found = re.search(rb'getElementById\("([0-9a-f]{64})"\)', _content("plotly.js")[0])
    return found[1].decode() if found else ""


@lru_cache(maxsize=len(FILES))
def _content(name: str) -> tuple[bytes, str]:
    package, path, _ = FILES[name]
    content = files(package).joinpath(path).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:12]
