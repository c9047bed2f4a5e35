"""Ends open streams and held requests when their caller may no longer call.

A key is revoked or expires, and a person signs out, while a stream is open or a request waits. The turn
goes on, because a connection only reads. This module must never end a request that is doing something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from holdfast.core.errors import HoldfastError
from holdfast.server.access.asgi import Message, Receive, Scope, Send, find_header, refuse
from holdfast.server.access.callers import Caller, make_key_problem
from holdfast.server.access.key_ring import Credential

SECONDS_BETWEEN_LOOKS = 0.5
"""Seconds between two checks of the callers of open requests."""

_SECONDS_TO_SAY = 1.0
_ENDED = "The key was revoked or has expired, or the person has signed out."


class _AlreadyEndedError(OSError):
    """A request was answered while its route went on; as if the caller had left."""


class OpenRequest:
    """A request in progress.

    Args:
        caller: who sends it.
        scope: the request.
        receive: receives its body.
        send: sends its answer.
    """

    def __init__(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        self._caller = caller
        self._scope, self._receive, self._send = scope, receive, send
        self._task = asyncio.current_task()
        self._has_begun = self._is_stream = self._is_complete = False
        self._is_cancelled = False
        self._refusal: asyncio.Task[None] | None = None

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if self._refusal is not None:
            raise _AlreadyEndedError
        if message["type"] == "http.response.start":
            self._has_begun = True
            kind = find_header(message.get("headers", ()), b"content-type")
            self._is_stream = kind.startswith(("text/event-stream", "application/x-ndjson"))
        elif not message.get("more_body", False):
            self._is_complete = True
        await self._send(message)

    def end(self) -> None:
        """End the request if it only waits or reads; one that does something else is left alone.

        A request that waits and reads is cancelled. The act of a held request goes on, without an answer.
        """
        if self._is_complete or self._is_cancelled or self._refusal is not None:
            return
        use = self._caller.use
        if self._caller.is_waiting or self._is_stream:
            if self._task is not None:
                self._is_cancelled = True
                self._task.cancel()
        elif use is not None and use.has_stream and not self._has_begun:
            self._refusal = asyncio.ensure_future(self._say_end())

    async def perform(self, answer: Callable[[], Awaitable[None]]) -> None:
        """Let the request be answered, and let its caller know if it is ended before."""
        try:
            await answer()
        except asyncio.CancelledError:
            if not self._is_cancelled or self._task is None or self._task.uncancel():
                raise
            await self._say_end()
        except Exception:
            if self._refusal is None:
                raise
        finally:
            if self._refusal is not None:
                await self._refusal

    async def _say_end(self) -> None:
        """Say why the request ends, if the caller reads it soon. A stream without words breaks off."""
        problem = make_key_problem(_ENDED)
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(_SECONDS_TO_SAY):
                if not self._has_begun:
                    await refuse(problem)(self._scope, self._receive, self._send)
                elif self._caller.last_event is not None:
                    body = self._caller.last_event(problem)
                    await self._send({"type": "http.response.body", "body": body})


class OpenRequests:
    """The requests in progress of callers with a key or a sign-in.

    Args:
        is_valid: whether somebody may still call. It may raise HoldfastError: then nothing is known.
    """

    def __init__(self, is_valid: Callable[[Credential], Awaitable[bool]]) -> None:
        self._is_valid = is_valid
        self._requests: dict[Credential, set[OpenRequest]] = {}
        self._checking: dict[Credential, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def watching(self, credential: Credential, request: OpenRequest) -> Iterator[None]:
        """End the request during the block as soon as its caller may no longer call."""
        requests = self._requests.setdefault(credential, set())
        requests.add(request)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SECONDS_BETWEEN_LOOKS, self._look_again)
        try:
            yield
        finally:
            requests.discard(request)
            if not requests and self._requests.get(credential) is requests:
                del self._requests[credential]
            if not self._requests and self._timer is not None:
                self._timer.cancel()  # the next request may come in another event loop
                self._timer = None

    def _look_again(self) -> None:
        self._timer = None
        if self._requests:
            self.look()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SECONDS_BETWEEN_LOOKS, self._look_again)

    def look(self) -> None:
        """Check the callers of all open requests now."""
        for credential in self._requests:
            if credential not in self._checking:
                task = asyncio.ensure_future(self._check(credential))
                self._checking[credential] = task
                task.add_done_callback(partial(self._end_check, credential))

    def _end_check(self, credential: Credential, _done: asyncio.Task[None]) -> None:
        del self._checking[credential]

    async def _check(self, credential: Credential) -> None:
        # While the store cannot be read, nothing new is known, and streams stay open.
        with suppress(HoldfastError):
            if not await self._is_valid(credential):
                for request in list(self._requests.get(credential, ())):
                    request.end()
