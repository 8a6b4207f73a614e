"""What stands before every request: sizes, the Host header, the token, other sites, and the headers of every answer.

The page shows files of the user's machine, so it must not be readable from a web site that the user happens to visit
(DNS rebinding, cross-site requests) nor from other machines without the token.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from rlvitals.errors import Problem
from rlvitals.live.web import problems

MAX_PATH = 1024  # characters (convention: the longest address of the page has 60)
MAX_QUERY = 4096  # characters (convention: every filter filled in fits)
MAX_HEAD = 16 * 1024  # bytes of all headers
MAX_BODY = 64 * 1024  # bytes: a form with one comment
MIN_TOKEN = 16  # characters that a token of one's own must have (convention)
COOKIE = "rlvitals_token"
METHODS = frozenset({"GET", "HEAD", "POST"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{1,5})?")


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may ask.

    Attributes:
        hosts: names accepted in the Host header, lower case, without port.
        addresses: plain addresses are accepted too; a rebinding attack needs a name, so that is safe.
        token: "" where none is needed.
    """

    hosts: frozenset[str] = LOOPBACK
    addresses: bool = False
    token: str = ""


def policy_for(address: str, token: str = "", names: Iterable[str] = ()) -> Policy:
    """Return the policy for an address to bind to: beyond this machine a token is a must, made up if none is given."""
    own = frozenset(n.lower().strip("[]") for n in names)
    if is_loopback(address):
        return Policy(LOOPBACK | own | {address.strip("[]").lower()}, token=token)
    hosts = {socket.gethostname().lower(), socket.getfqdn().lower(), address.lower()}
    return Policy(LOOPBACK | own | hosts, addresses=True, token=token or secrets.token_urlsafe(24))


def is_loopback(address: str) -> bool:
    """True for an address that only this machine can reach."""
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware that refuses what the policy does not allow, and sets the headers of every answer."""

    def __init__(self, app: Starlette, policy: Policy) -> None:
        self.app = app
        self.policy = policy

    def end_streams(self) -> None:
        """Let every open event stream end at its next look."""
        self.app.state.stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets
            return
        answer = self._refusal(scope)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        if scope["method"] == "POST":
            content = await _body(receive)
            if content is None:
                await _problem(413, _too_large("body", MAX_BODY, "bytes"))(scope, receive, _with_headers(send))
                return
            receive = _replay(content, receive)
        await self.app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in METHODS:
            allowed = {"allow": ", ".join(sorted(METHODS))}
            wrong = Problem("method not allowed", found=scope["method"][:20], expected="GET or POST")
            return problems.response(405, [wrong], allowed)
        if len(scope["path"]) > MAX_PATH:
            return _problem(414, _too_large("address", MAX_PATH, "characters"))
        if len(scope["query_string"]) > MAX_QUERY:
            return _problem(414, _too_large("query", MAX_QUERY, "characters"))
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD:
            return _problem(431, _too_large("head of the request", MAX_HEAD, "bytes"))
        if int(headers.get("content-length", "0") or 0) > MAX_BODY:
            return _problem(413, _too_large("body", MAX_BODY, "bytes"))
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not allowed_host(hosts[0], self.policy):
            found = ", ".join(hosts)[:80]
            hint = "If this is how you reach the machine, start with: rlvitals serve RUN --allow-host NAME"
            return _problem(421, Problem("unknown host", "Host header", repr(found), "a name of this server", hint))
        if foreign(headers, scope["method"]):
            return _problem(403, Problem("a request from another site", expected="one from the page itself"))
        return self._token(scope, headers)

    def _token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return a refusal, or the redirect that turns a token in the address into a cookie; None where all is well."""
        if not self.policy.token:
            return None
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in pairs if name == "token"), None)
        if given is not None and scope["method"] == "GET" and same(given, self.policy.token):
            rest = urlencode([(name, value) for name, value in pairs if name != "token"])
            path = "/" + scope["path"].lstrip("/\\")  # "//x" would lead to another host
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(COOKIE, given, httponly=True, samesite="strict", path="/")
            return answer
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and same(bearer.strip(), self.policy.token):
            return None
        if same(_cookie(headers), self.policy.token):
            return None
        hint = "Open the address that rlvitals serve printed"
        found = Problem("no valid token", expected="the token of this server", hint=hint)
        return problems.response(401, [found], {"www-authenticate": "Bearer"})


def same(given: str, token: str) -> bool:
    """Compare in a time that says nothing about where two tokens differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def allowed_host(header: str, policy: Policy) -> bool:
    """True when a Host header names this server."""
    match = _HOST.fullmatch(header.strip())
    if match is None:
        return False
    name = (match["six"] or match["name"]).lower().rstrip(".")
    if name in policy.hosts:
        return True
    if not policy.addresses:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def foreign(headers: Headers, method: str) -> bool:
    """True for a request that another site made; following a link to the page is none."""
    site, mode = headers.get("sec-fetch-site", ""), headers.get("sec-fetch-mode", "")
    origin = headers.get("origin")
    if method == "POST":
        if origin is not None:
            return origin.partition("://")[2].lower() != headers.get("host", "").lower()
        return site not in ("", "same-origin")
    return site in ("cross-site", "same-site") and mode != "navigate"


def _cookie(headers: Headers) -> str:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    return jar[COOKIE].value if COOKIE in jar else ""


async def _body(receive: Receive) -> bytes | None:
    """Return the whole body; None when it is larger than MAX_BODY, whatever its headers said."""
    content = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return content
        content += bytes(message.get("body", b""))
        if len(content) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return content


def _replay(content: bytes, receive: Receive) -> Receive:
    left: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


def _problem(status: int, problem: Problem) -> Response:
    return problems.response(status, [problem])


def _too_large(what: str, most: int, unit: str) -> Problem:
    return Problem(f"the {what} is too large", expected=f"at most {most} {unit}")
