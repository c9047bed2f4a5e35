"""Reads the body of a request before the application sees it: whole, bounded, and in time.

A body that is too long is refused before it is read, or as soon as it is too long. All bodies that
are arriving have a bound together, so that no number of slow callers fills the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from starlette.requests import Request

from holdfast.server.access.asgi import (
    ASGIApp,
    Message,
    Receive,
    Scope,
    Send,
    find_header,
    find_route_path,
    has_body,
    refuse,
)
from holdfast.server.access.callers import waiting
from holdfast.server.access.options import AccessLimits
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError, make_problem, make_wait_problem

TimeLimit: TypeAlias = Callable[[float], AbstractAsyncContextManager[object]]
"""Raises TimeoutError in a block that takes longer than some seconds."""

UPLOADS = ("/media", "/sessions/import")
"""The ends of the paths that take longer bodies."""


class BodyLimits:
    """A middleware that reads bodies within their limits.

    Args:
        app: the application.
        limits: the limits.
        timeout: limits the seconds of a block, as `asyncio.timeout` does.
    """

    def __init__(
        self, app: ASGIApp, limits: AccessLimits, timeout: TimeLimit = asyncio.timeout
    ) -> None:
        self._app = app
        self._limits = limits
        self._timeout = timeout
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then call the application with it."""
        try:
            with waiting(Request(scope)):
                read = await self.read(scope, receive)
        except ProblemError as error:
            await refuse(error.problem)(scope, receive, send)
            return
        if read is not None:
            await self._app(scope, read, send)

    async def read(self, scope: Scope, receive: Receive, most: int | None = None) -> Receive | None:
        """Read the body of a request; return a function that receives it again, or None if the caller left.

        Args:
            scope: the request.
            receive: receives the body.
            most: the maximum number of bytes, if it is not that of the limits.

        Raises:
            ProblemError: the body is too long, too slow, or one too many.
        """
        if not has_body(scope["headers"]):
            return receive
        body = _ArrivingBody(self._limits, is_upload=is_upload(scope))
        body.most = body.most if most is None else most
        try:
            self._check_length(scope, body.most)
            complete = await self._read(body, receive)
        finally:
            self._buffered -= len(body.data)
        return _Replay(bytes(body.data), receive) if complete else None

    def _check_length(self, scope: Scope, most: int) -> None:
        length = find_header(scope["headers"], b"content-length")
        if length.isdecimal() and int(length) > most:
            raise ProblemError(_too_large(most))

    async def _read(self, body: _ArrivingBody, receive: Receive) -> bool:
        """Read the whole body; return whether the caller stayed until its end."""
        try:
            async with self._timeout(body.seconds):
                while True:
                    message = await self._receive(receive)
                    if message["type"] == "http.disconnect":
                        return False
                    piece = message.get("body", b"")
                    self._buffered += len(piece)
                    body.data += piece
                    if len(body.data) > body.most:
                        raise ProblemError(_too_large(body.most))
                    if self._buffered > self._limits.buffered_bytes:
                        raise ProblemError(_too_busy())
                    if not message.get("more_body", False):
                        return True
        except TimeoutError:
            raise ProblemError(_too_slow(body.seconds)) from None

    async def _receive(self, receive: Receive) -> Message:
        """Receive the next piece. Raises ProblemError if the body stops for too long."""
        pause = self._limits.body_pause_seconds
        try:
            async with self._timeout(pause):
                return await receive()
        except TimeoutError:
            raise ProblemError(_stopped(pause)) from None


class _ArrivingBody:
    def __init__(self, limits: AccessLimits, *, is_upload: bool) -> None:
        self.data = bytearray()
        self.most = limits.upload_bytes if is_upload else limits.body_bytes
        self.seconds = limits.upload_seconds if is_upload else limits.body_seconds


class _Replay:
    """Receives the body that was read, then the messages of the connection."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            return await self._receive()
        return {"type": "http.request", "body": body, "more_body": False}


def is_upload(scope: Scope) -> bool:
    """Whether a request uploads a picture, a file or an exported session."""
    return scope["method"] == "POST" and find_route_path(scope).endswith(UPLOADS)


def _too_large(most: int) -> ProblemBody:
    return make_problem(
        413, "body_too_large", f"The body is longer than {most} bytes.", fix="Send a shorter one"
    )


def _too_slow(seconds: float) -> ProblemBody:
    return make_problem(
        408, "body_too_slow", f"The body did not arrive within {seconds:g} seconds.", retryable=True
    )


def _stopped(seconds: float) -> ProblemBody:
    return make_problem(
        408, "body_stopped", f"The body stopped for {seconds:g} seconds.", retryable=True
    )


def _too_busy() -> ProblemBody:
    return make_wait_problem(503, "busy", "Too many bodies are arriving at the same time.", 1.0)
