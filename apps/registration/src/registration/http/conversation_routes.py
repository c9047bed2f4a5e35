"""The routes of a whole conversation: read it again, and forget it.

This module must never touch a registration that the club keeps.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registration.http.access import find_own_session
from registration.http.bodies import read_body
from registration.http.chat_routes import SessionBody
from registration.http.forgetting import forget_conversation
from registration.http.state import state_of
from registration.http.transcript import read_transcript


def routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/sessions/{session_id}/messages", show_messages, methods=["GET"]),
        Route("/clear", clear, methods=["POST"]),
    ]


async def show_messages(request: Request) -> Response:
    """Show what was written."""
    running = state_of(request).running
    session = await find_own_session(running.parts, request, request.path_params["session_id"])
    lines = await read_transcript(running.parts, running.service, session.id)
    return JSONResponse({"messages": lines}, headers={"Cache-Control": "no-store"})


async def clear(request: Request) -> Response:
    """Forget a conversation."""
    running = state_of(request).running
    body = await read_body(request, SessionBody)
    session = await find_own_session(running.parts, request, body.session_id)
    await forget_conversation(running, session.id)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})
