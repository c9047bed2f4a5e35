"""The routes for those who watch the service: health, readiness, metrics, and how the agents run.

This module must never show personal data.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registration.flow.parts import Parts
from registration.http.access import check_admin, limit_address
from registration.http.bodies import read_body
from registration.http.health import check_parts, list_breakers
from registration.http.metrics import write_metrics
from registration.http.problems import Problem
from registration.http.state import state_of
from registration.store.agent_mode import AgentMode, read_mode, save_mode

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_NEEDED = ("database", "journal")  # without these, no message can be answered


class ModeBody(Struct):
    """How the agents are to run."""

    mode: AgentMode


def routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/agent/status", show_status, methods=["GET"]),
        Route("/agent/mode", set_mode, methods=["POST"]),
    ]


async def health(request: Request) -> Response:
    """Say how each part is; the process answers, so the status is 200."""
    parts = await check_parts(state_of(request).running)
    status = "healthy" if all(part.is_ok for part in parts.values()) else "degraded"
    return JSONResponse({"status": status, "parts": msgspec.to_builtins(parts)})


async def ready(request: Request) -> Response:
    """Say whether messages can be answered; 503 if not."""
    parts = await check_parts(state_of(request).running)
    missing = [name for name in _NEEDED if not parts[name].is_ok]
    if missing:
        body = {"status": "not ready", "missing": missing}
        return JSONResponse(body, 503, {"Retry-After": "1"})
    return JSONResponse({"status": "ready"})


async def metrics(request: Request) -> Response:
    """Return the metrics."""
    text = await write_metrics(state_of(request).running, request.app.state.requests)
    return Response(text, headers={"Content-Type": _TEXT})


async def show_status(request: Request) -> Response:
    """Say which agents run, and with which model. For the admin."""
    parts = _admit_admin(request)
    return JSONResponse(
        {
            "mode": await parts.database.read(read_mode),
            "modes": ["local"] if parts.mcp_addresses is None else ["local", "mcp"],
            "model": parts.settings.model,
            "breakers": list_breakers(),
        }
    )


async def set_mode(request: Request) -> Response:
    """Choose how the agents of all processes look something up. For the admin."""
    parts = _admit_admin(request)
    mode = (await read_body(request, ModeBody)).mode
    if mode == "mcp" and parts.mcp_addresses is None:
        raise Problem("not_available", "No MCP server is known: set REGISTRATION_MCP_ADDRESS.")
    now = parts.now()
    await parts.database.transact(lambda tx: save_mode(tx, mode, now))
    return JSONResponse({"mode": mode})


def _admit_admin(request: Request) -> Parts:
    """Let the admin through, and whoever guesses only so often. Raises Problem."""
    parts = state_of(request).running.parts
    try:
        check_admin(parts, request)
    except Problem:
        limit_address(request, "admin")
        raise
    return parts
