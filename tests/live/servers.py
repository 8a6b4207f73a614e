"""Local servers that alerts are sent to in tests: HTTP that keeps what it was posted, SMTP that keeps the mail."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Posts(ThreadingHTTPServer):
    """Answers `codes` one after the other, then 200; keeps path and body of every request."""

    codes: list[int]
    posts: list[tuple[str, str]]


class _Handler(BaseHTTPRequestHandler):
    server: Posts

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.posts.append((self.path, body))
        self.send_response(self.server.codes.pop(0) if self.server.codes else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def http_server(*codes: int) -> Iterator[Posts]:
    server = Posts(("127.0.0.1", 0), _Handler)
    server.codes, server.posts = list(codes), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Mail(socketserver.StreamRequestHandler):
    """The few words of SMTP that a client needs to hand over one mail."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline().decode().strip():
            word = line.split()[0].upper()
            if word == "DATA":
                self.wfile.write(b"354 go on\r\n")
                body = []
                while (text := self.rfile.readline()) != b".\r\n":
                    body.append(text.decode())
                self.server.mails.append("".join(body))  # type: ignore[attr-defined]
            elif word == "QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            self.wfile.write(b"250 fine\r\n")


@contextmanager
def mail_server() -> Iterator[socketserver.TCPServer]:
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mail)
    server.daemon_threads = True
    server.mails = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
