"""Hooks for schemathesis: half of its requests name sessions and agents that are there."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import schemathesis

SESSIONS = ("ada", "eve", "waits", "fails")
AGENTS = ("payer", "counter")


def choose(value: object, names: tuple[str, ...]) -> str | None:
    """Return one of the names for half of all values, and None for the others."""
    number = blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=2).digest()
    return names[number[0] % len(names)] if number[1] % 2 else None


@schemathesis.hook
def map_path_parameters(_context: Any, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Name a session that is there."""
    if parameters and isinstance(parameters.get("session"), str):
        name = choose(parameters["session"], SESSIONS)
        return {**parameters, "session": name or parameters["session"]}
    return parameters


@schemathesis.hook
def map_body(_context: Any, body: Any) -> Any:
    """Name an agent that is there."""
    if isinstance(body, dict) and isinstance(body.get("agent"), str) and body["agent"]:
        return {**body, "agent": choose(body, AGENTS) or body["agent"]}
    return body


@schemathesis.serializer("application/x-ndjson")
def write_lines(_context: Any, value: Any) -> bytes:
    """Send a text as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
