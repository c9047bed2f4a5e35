"""The parts that the routes work with, and where they find them.

This module must never hold a part of one request.
"""

from __future__ import annotations

from typing import Self

from msgspec import Struct
from starlette.requests import Request

from registration.http.admission import OpenStreams, RequestWindow
from registration.http.chat import Chat
from registration.http.running import Running


class AppState(Struct, frozen=True, kw_only=True):
    """The parts that the routes work with.

    Args:
        running: the service.
        chat: answers messages.
        window: counts the requests of each session.
        addresses: counts the acts of an address without a session.
        streams: counts the event streams that are open.
    """

    running: Running
    chat: Chat
    window: RequestWindow
    addresses: RequestWindow
    streams: OpenStreams

    @classmethod
    def of(cls, running: Running) -> Self:
        """Return the state of a service that runs."""
        settings = running.parts.settings
        return cls(
            running=running,
            chat=Chat(running.parts, running.service),
            window=RequestWindow(settings.requests_per_window, settings.window_seconds),
            addresses=RequestWindow(settings.sessions_per_window, settings.window_seconds),
            streams=OpenStreams(settings.event_streams, settings.session_event_streams),
        )


def state_of(request: Request) -> AppState:
    """Return the parts that the routes work with."""
    state: AppState = request.app.state.registration
    return state
