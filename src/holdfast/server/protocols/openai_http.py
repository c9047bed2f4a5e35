"""Sends the problems and the streams of the service as OpenAI's APIs do, for everything below `/v1`.

A route, the keys or the limits refuse a request with a problem. This module rewrites that answer, and must
never refuse anything itself. A reader that leaves a stream changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.journal.encoding import to_json
from holdfast.server.api.event_stream import HEADERS, keep_alive

PREFIX = "/v1"
_PROBLEM = "application/problem+json"
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
INVALID_KEY = "invalid_api_key"
_CODES = {401: INVALID_KEY, 429: "rate_limit_exceeded"}


def to_openai_error(problem: Mapping[str, Any]) -> dict[str, object]:
    """Return the body of an error for a problem.

    >>> to_openai_error({"status": 422, "detail": "is missing", "field": "model", "kind": "body"})
    {'error': {'message': 'model: is missing', 'type': 'invalid_request_error', 'param': 'model', \
'code': 'body'}}
    """
    status, field, detail = problem["status"], problem.get("field"), str(problem["detail"])
    message = f"{field}: {detail}" if field and not detail.startswith(str(field)) else detail
    if fix := problem.get("fix"):
        message = f"{message.rstrip('.')}. {fix}"
    kind = "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")
    code = _CODES.get(status, problem.get("kind"))
    return {"error": {"message": message, "type": kind, "param": field, "code": code}}


class OpenAIErrors:
    """Rewrites the problems of an application below `/v1`.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = str(scope.get("path", "")).removeprefix(str(scope.get("root_path", "")))
        if scope["type"] == "http" and path.startswith(f"{PREFIX}/"):
            send = _Rewriter(send).send
        await self._app(scope, receive, send)


class _Rewriter:
    """Sends the answer to one request, and holds it back if it is a problem, to rewrite it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body: list[bytes] = []

    async def send(self, message: Message) -> None:
        """Send one message of the answer."""
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            if kind.startswith(_PROBLEM):
                self._start = message
                return
        if self._start is None:
            await self._send(message)
            return
        self._body.append(message.get("body", b""))
        if not message.get("more_body", False):
            await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        problem = msgspec.json.decode(b"".join(self._body))
        body = msgspec.json.encode(to_openai_error(problem))
        status = 400 if start["status"] == 422 else start["status"]
        headers = MutableHeaders(raw=list(start["headers"]))
        headers["content-type"] = "application/json"
        headers["content-length"] = str(len(body))
        if not problem.get("retryable"):
            headers["x-should-retry"] = "false"
        await self._send({**start, "status": status, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": body})


DONE = b"data: [DONE]\n\n"


def stream_events(pieces: AsyncIterator[bytes]) -> StreamingResponse:
    """Return a response that sends encoded events as they come."""
    return StreamingResponse(keep_alive(pieces), media_type="text/event-stream", headers=HEADERS)


def encode_event(event: dict[str, object], *, is_named: bool = False) -> bytes:
    """Return an event as it is sent; a named one also has its type in a field of its own."""
    data = b"data: " + to_json(event) + b"\n\n"
    return b"event: %s\n%s" % (str(event["type"]).encode(), data) if is_named else data
