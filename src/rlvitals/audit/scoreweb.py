"""The scoring form in a browser, on this machine alone: no script, nothing loaded from anywhere, all text escaped.

Every address holds a secret that is printed once; the host is checked, so that no other page can send answers.
"""

from __future__ import annotations

import hmac
import html
import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from rlvitals.audit.score import Said, Session

MAX_FORM = 1_000  # bytes
MAX_SHOWN = 100_000  # characters of one text
POLICY = "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f4f4;padding:.8rem;max-height:32rem;"
    "overflow:auto}h1{font-size:1.2rem}h2{font-size:1rem;margin:1.2rem 0 .3rem}button{font:inherit;"
    "padding:.5rem 1.4rem;"
    "margin-right:.6rem}@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}pre{background:#262626}}"
)


def make_server(session: Session, full: float, port: int = 0) -> tuple[ThreadingHTTPServer, str]:
    """Return a server that listens on this machine alone, and its address; it shuts down after the last answer."""
    secret = secrets.token_urlsafe(18)
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(session, full, secret))
    server.daemon_threads = True
    return server, f"http://127.0.0.1:{server.server_address[1]}/{secret}/"


def page(session: Session, full: float, last: int | None) -> str:
    """Return the page of the next trajectory, with what the pipeline said to the one just answered."""
    i = session.next
    before = f"<p>{_escaped(session.revealed(last, full))}</p>" if last is not None else ""
    if i is None:
        return _document(
            "All scored", f"{before}<h1>All scored</h1><p>The result is in the terminal. Close this page.</p>"
        )
    shown = session.shown(i)
    parts = [("Prompt", shown.prompt), ("Completion", shown.completion)]
    parts += [("Expected answer", shown.gold)] if shown.gold else []
    parts += [("The verifier's raw output", shown.raw)] if shown.raw else []
    body = "".join(f"<h2>{name}</h2><pre>{_escaped(text)}</pre>" for name, text in parts)
    buttons = "".join(f'<button name="said" value="{s.value}">{s.value}</button>' for s in Said)
    form = f'<form method="post" action="answer"><input type="hidden" name="i" value="{i}">{buttons}</form>'
    return _document(shown.title, f"{before}<h1>{_escaped(shown.title)}: is the completion right?</h1>{body}{form}")


def _document(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><title>{_escaped(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _escaped(text: str) -> str:
    kept = "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text[:MAX_SHOWN])
    return html.escape(kept, quote=True)


def _policy() -> str:
    import base64
    import hashlib

    return POLICY.format(hash=base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode())


def _handler(session: Session, full: float, secret: str) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30.0

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if not self._allowed(path, f"/{secret}/"):
                return
            last = parse_qs(query).get("last", [""])[0]
            number = int(last) if last.isascii() and last.isdigit() and len(last) < 9 else None
            self._send(200, page(session, full, number))

        def do_POST(self) -> None:
            if not self._allowed(self.path, f"/{secret}/answer"):
                return
            size = self.headers.get("Content-Length", "")
            if not size.isascii() or not size.isdigit() or int(size) > MAX_FORM:
                self._send(413, _document("Too large", "<p>Not an answer.</p>"))
                return
            given = parse_qs(self.rfile.read(int(size)).decode("ascii", "replace"))
            number, said = given.get("i", [""])[0], given.get("said", [""])[0]
            if not (number.isascii() and number.isdigit() and len(number) < 9 and said in set(Said)):
                self._send(400, _document("Not an answer", "<p>Not an answer.</p>"))
                return
            session.answer(int(number), Said(said))
            self.send_response(303)
            self.send_header("Location", f"/{secret}/?last={number}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _allowed(self, path: str, expected: str) -> bool:
            here = f"127.0.0.1:{self.connection.getsockname()[1]}"
            if self.headers.get("Host") == here and hmac.compare_digest(path.encode(), expected.encode()):
                return True
            self._send(404, _document("Not found", "<p>Not found.</p>"))
            return False

        def _send(self, code: int, text: str) -> None:
            body = text.encode("utf-8", "replace")
            self.send_response(code)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", _policy())
            for name, value in (
                ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
                ("Cache-Control", "no-store"),
            ):  # fmt: skip
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep the terminal quiet: the address holds the secret."""

    return Handler
