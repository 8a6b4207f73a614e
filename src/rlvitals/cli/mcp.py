"""`rlvitals mcp`: serve the read-only tools to an agent over stdin and stdout."""

from __future__ import annotations


def mcp() -> None:
    """Serve check, explain, rollouts, verify and compare to an agent: read-only, over stdin and stdout (MCP).

    Exit code 0: the client closed the connection
    Exit code 2: the extra "mcp" of rlvitals is not installed
    """
    from rlvitals.agents.server import serve

    serve()
