"""The ASGI application of the service: its routes, and the common parts of every answer.

This module must never decide anything about a registration.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.errors import HoldfastError
from registration.http import (
    chat_routes,
    conversation_routes,
    page_files,
    payment_routes,
    photo_routes,
    watch_routes,
)
from registration.http.admission import BodyLimits, RequestCounts, RequestWatch
from registration.http.office import routes as office_routes
from registration.http.problems import Kind, Problem, unavailable
from registration.http.running import REAL_TIME, Running, Time, open_service
from registration.http.state import AppState
from registration.photos.object_store import ObjectStoreError
from registration.settings import Settings
from registration.store import DatabaseUnavailable

_log = logging.getLogger("registration")


def create_app(settings: Settings, time: Time = REAL_TIME) -> Starlette:
    """Return the application.

    Args:
        settings: the settings.
        time: the clock, and how to wait.
    """
    routes, counts = list_routes(), RequestCounts()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with open_service(settings, time) as running:
            app.state.registration = make_state(running)
            app.state.requests = counts
            yield

    return Starlette(
        routes=routes,
        middleware=[
            Middleware(
                RequestWatch,
                routes=routes,
                counts=counts,
                is_secure=settings.public_address.startswith("https:"),
            ),
            Middleware(BodyLimits, most=settings.body_bytes),
        ],
        lifespan=lifespan,
        exception_handlers={
            Problem: _respond_problem,
            HTTPException: _respond_http,
            DatabaseUnavailable: _respond_unavailable,
            ObjectStoreError: _respond_unavailable,
            HoldfastError: _respond_unavailable,
        },
    )


def list_routes() -> list[Route]:
    """Return all routes."""
    return [
        *chat_routes.routes(),
        *conversation_routes.routes(),
        *payment_routes.routes(),
        *photo_routes.routes(),
        *page_files.routes(),
        *office_routes.routes(),
        *watch_routes.routes(),
    ]


def make_state(running: Running) -> AppState:
    """Return the parts that the routes work with."""
    return AppState.of(running)


async def _respond_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101  # REASON: registered for it above
    return error.respond()


async def _respond_http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # REASON: registered for it above
    kind: Kind = "not_found" if error.status_code == 404 else "bad_request"
    response = Problem(kind, f"{error.detail}.").respond()
    response.status_code = error.status_code
    response.headers.update(error.headers or {})
    return response


async def _respond_unavailable(_request: Request, error: Exception) -> Response:
    # The class says enough: the text may hold a parent's words.
    _log.warning("a request was not answered: %s", type(error).__name__)
    return unavailable().respond()
