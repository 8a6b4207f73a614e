"""The server around the application: small requests, no log of addresses, and an end that open pages don't hold up."""

from __future__ import annotations

import socket

import uvicorn

from rlvitals.live.web.security import MAX_HEAD, Guard

MAX_CONNECTIONS = 200
STOP_SECONDS = 2  # that answers under way get when the server ends


class Server(uvicorn.Server):
    """A server that ends its event streams first: they would never end by themselves."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        if isinstance(app, Guard):
            app.end_streams()
        await super().shutdown(sockets)


def server_of(app: Guard, port: int = 0) -> Server:
    """Return the server of an application; `port` counts only where no listening socket is given to `run`."""
    return Server(
        uvicorn.Config(
            app,
            port=port,
            http="h11",
            ws="none",
            lifespan="on",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )
