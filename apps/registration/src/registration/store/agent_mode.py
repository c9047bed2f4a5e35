"""How the agents of all processes call their tools that look something up: in the process, or at an MCP server."""

from __future__ import annotations

from typing import Literal, TypeAlias

from registration.store.transaction import Transaction

AgentMode: TypeAlias = Literal["local", "mcp"]


def read_mode(tx: Transaction) -> AgentMode:
    """Return the mode; "local" until somebody chooses one."""
    rows = tx.execute("SELECT mode FROM agent_mode WHERE id = 1")
    return "mcp" if rows and rows[0]["mode"] == "mcp" else "local"


def save_mode(tx: Transaction, mode: AgentMode, now: float) -> None:
    """Save the mode for every process, also after a restart."""
    tx.execute(
        "INSERT INTO agent_mode (id, mode, changed_at) VALUES (1, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET mode = excluded.mode, changed_at = excluded.changed_at",
        *(mode, now),
    )
