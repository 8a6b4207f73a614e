"""rlvitals for agents: the read-only tools that `rlvitals mcp` serves."""
