"""Sends the problems and the streams of the service as OpenAI's APIs do, for everything below `/v1`.

A route, the keys or the limits refuse a request with a problem. This module rewrites that answer, and must
never refuse anything itself. A reader that leaves a stream changes nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.core.events import TurnOpened
from holdfast.hosting.turn_claims import HeldTurn
from holdfast.hosting.turns.turn_runner import SECONDS_TO_RESTART
from holdfast.hosting.turns.unread_turns import is_cancelled_unread
from holdfast.journal.encoding import to_json
from holdfast.server.access.callers import waiting
from holdfast.server.api.event_stream import HEADERS, keep_alive
from holdfast.server.api.idempotency import REPLAYED, read_key
from holdfast.server.api.operations import AnyCall
from holdfast.server.problem_responses import (
    ProblemError,
    make_problem,
    make_wait_problem,
    to_problem,
)
from holdfast.server.protocols.openai_shapes import SegmentName

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


DROPPED = "Holdfast-Dropped-Fields"
"""The header that names the fields of a request that were left out."""

HISTORY = "Holdfast-History"
"""The header that says "differs" if a run goes on whose history is not the one that the request has."""

_FIELD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST_NAMES = 20


def add_notes(response: Response, dropped: Sequence[str], *, differs: bool) -> None:
    """Add the headers that say which part of a request had no effect.

    Args:
        response: the response.
        dropped: the names of the fields that were left out. The caller may have invented them.
        differs: whether the run goes on with a history that is not that of the request.
    """
    if dropped:
        names = [one if _FIELD_NAME.fullmatch(one) else "?" for one in dropped[:_MOST_NAMES]]
        more = ["..."] if len(dropped) > _MOST_NAMES else []
        response.headers[DROPPED] = ", ".join([*names, *more])
    if differs:
        response.headers[HISTORY] = "differs"


RETRY_COUNT = "x-stainless-retry-count"
"""The header by which the SDKs of OpenAI and Anthropic say how often they have sent a request before."""

_SECONDS_BETWEEN_LOOKS = 1.0  # at a connection
_COUNT = re.compile(r"[1-9]\d{0,3}")


def count_tries(request: Request) -> int:
    """Return how often a client says that it has sent a request before. A wrong count is 0."""
    counts = request.headers.getlist(RETRY_COUNT)
    return int(counts[0]) if len(counts) == 1 and _COUNT.fullmatch(counts[0]) else 0


async def hold_turn(call: AnyCall) -> HeldTurn | None:
    """Return the turn that a request without an idempotency key gets: one of an earlier try, or a new one.

    None is returned if it has a key, or if the service joins no tries.

    Raises:
        ProblemError: its idempotency key cannot be one.
        JournalError: it cannot be known which turns there are.
    """
    claims, request, principal = call.service.claims, call.request, call.principal
    if read_key(request) is not None or not claims.is_on:
        return None
    sender = (request.scope["path"], principal.tenant, principal.key_id or principal.name)
    body = blake2b(await request.body(), digest_size=16)
    body.update("\0".join(sender).encode("utf-8", "surrogateescape"))
    find = call.tenant.find_requests
    is_open = partial(is_line_open, request.receive)
    return await claims.claim(body.hexdigest(), find, is_open, count_tries(request))


def is_line_open(receive: Receive) -> bool:
    """Return whether the connection of a request whose body was read is open, without waiting.

    Starlette's `Request.is_disconnected` gives the loop time in which the connection may end.
    """
    step = receive().__await__()
    try:
        next(step)
    except StopIteration as told:
        return bool(told.value["type"] != "http.disconnect")
    finally:
        step.close()
    return True


@contextmanager
def releasing(held: HeldTurn | None) -> Iterator[None]:
    """Give a turn back if the block, which answers its request, fails."""
    try:
        yield
    except (ProblemError, HoldfastError) as error:
        problem = error.problem if isinstance(error, ProblemError) else to_problem(error)
        if held is not None and problem.status < 500:
            held.drop()  # nothing has begun
        elif held is not None:
            held.leave()
        raise
    except BaseException:
        if held is not None:
            held.leave()
        raise


class HeldResponse(Response):
    """The response to a request that holds a turn: it notes whether the client got all of it.

    Args:
        response: the response.
        held: the turn.
        is_whole: whether the response was the answer, and not only a part of it, once it is sent.
    """

    def __init__(
        self, response: Response, held: HeldTurn, is_whole: Callable[[], bool] = lambda: True
    ) -> None:
        self._response = response
        self._held = held
        self._is_whole = is_whole
        self.status_code = response.status_code
        self.raw_headers = response.raw_headers
        if held.is_joined:
            self.headers[REPLAYED] = "true"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        is_sent = False

        async def send_noted(message: Message) -> None:
            nonlocal is_sent
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if is_last:
                await asyncio.sleep(0)  # a connection whose end was just received is closed then
            is_there = is_last and self._held.close_line()
            await send(message)
            is_sent = is_there

        try:
            await self._response(scope, receive, send_noted)
        finally:
            if is_sent and self._is_whole():
                self._held.finish()
            else:
                self._held.leave()


@asynccontextmanager
async def leaving(call: AnyCall, opened: TurnOpened) -> AsyncIterator[None]:
    """Let the request be ended in the block, which only waits.

    If its turn is to end once nobody reads it, the block also ends when its client leaves.

    Raises:
        ClientDisconnect: the client has left.
    """
    with waiting(call.request):
        if not is_cancelled_unread(opened, call.tenant.on_disconnect):
            yield
            return
        request, has_left = asyncio.current_task(), False

        async def watch() -> None:
            nonlocal has_left
            while is_line_open(call.request.receive):  # noqa: ASYNC110  # REASON: no event tells it
                await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            has_left = True
            if request is not None:
                request.cancel()

        watching = asyncio.create_task(watch())
        try:
            yield
        except asyncio.CancelledError:
            if not has_left or request is None or request.uncancel():
                raise
            raise ClientDisconnect from None
        finally:
            watching.cancel()


class SilentEndError(Exception):
    """A stream has no more events, and the last one was not an end. It breaks the connection."""

    def __init__(self, name: SegmentName) -> None:
        super().__init__(f"the stream of session {name.session!r}, turn {name.turn} has no end")


def refuse_cut(detail: str, *, may_repeat: bool) -> ProblemError:
    """Return the error of a request whose answer is cut off, since the service stops.

    Args:
        detail: what happened.
        may_repeat: whether the request gets the same turn if it is sent again.
    """
    if not may_repeat:
        return ProblemError(make_problem(503, "shutting_down", detail))
    return ProblemError(make_wait_problem(503, "shutting_down", detail, SECONDS_TO_RESTART))


DONE = b"data: [DONE]\n\n"


def stream_events(pieces: AsyncIterator[bytes]) -> StreamingResponse:
    """Return a response that sends encoded events as they come."""
    return StreamingResponse(keep_alive(pieces), media_type="text/event-stream", headers=HEADERS)


def encode_event(event: dict[str, object], *, is_named: bool = False) -> bytes:
    """Return an event as it is sent; a named one also has its type in a field of its own."""
    data = b"data: " + to_json(event) + b"\n\n"
    return b"event: %s\n%s" % (str(event["type"]).encode(), data) if is_named else data
