"""Sends the event log of a session as server-sent events.

A connection that ends changes nothing but its own stream.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from functools import cache

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.live_run import Entry
from holdfast.event_log.positions import START
from holdfast.event_log.stream_items import EndItem, StreamItem
from holdfast.server.access.callers import STATE, Caller
from holdfast.server.problem_body import ProblemBody

SECONDS_BETWEEN_COMMENTS = 15.0
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
COMMENT = b": still here\n\n"


class LiveResponse(StreamingResponse):
    """A stream of events that ends when its reader leaves; it takes one task besides that of the request.

    Args:
        headers: headers besides those of every stream.
    """

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        super().__init__((), media_type="text/event-stream", headers={**HEADERS, **(headers or {})})

    @abstractmethod
    def make_last_event(self, problem: ProblemBody) -> bytes:
        """Return the event that says that the caller may read no more."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        if isinstance(caller := scope.get("state", {}).get(STATE), Caller):
            caller.last_event = self.make_last_event
        request, has_left = asyncio.current_task(), False

        async def watch() -> None:
            nonlocal has_left
            await self.listen_for_disconnect(receive)
            has_left = True
            if request is not None:
                request.cancel()

        watching = asyncio.create_task(watch())
        try:
            await self.stream_response(send)
        except asyncio.CancelledError:
            if not has_left or request is None or request.uncancel():
                raise
        finally:
            watching.cancel()

    async def begin(self, send: Send) -> None:
        """Send the head."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})


class EventStreamResponse(LiveResponse):
    """A stream of the event log.

    Args:
        batches: the entries, and an empty list where a comment is due.
        headers: headers besides those of every stream.
    """

    def __init__(
        self, batches: AsyncGenerator[list[Entry]], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(headers)
        self._batches = batches
        self._position = START

    def make_last_event(self, _problem: ProblemBody) -> bytes:
        """Return the event that says that the caller may read no more."""
        item = EndItem(str(self._position), "access_ended")
        return _encode_entry(Entry(item, self._position, encode_item(item)))

    async def stream_response(self, send: Send) -> None:
        """Send entries as events whose id is the position after them, as they come."""
        await self.begin(send)
        async with aclosing(self._batches) as batches:
            async for batch in batches:
                self._position = batch[-1].position if batch else self._position
                body = b"".join(map(_encode_entry, batch)) if batch else COMMENT
                is_last = bool(batch) and type(batch[-1].item) is EndItem
                await send({"type": "http.response.body", "body": body, "more_body": not is_last})
                if is_last:
                    return
        await send({"type": "http.response.body", "body": b""})


def _encode_entry(entry: Entry) -> bytes:
    kind = _name_kind(type(entry.item))
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (str(entry.position).encode(), kind, entry.encoded)


@cache
def _name_kind(kind: type[StreamItem]) -> bytes:
    return str(kind.__struct_config__.tag).encode()


async def keep_alive(
    pieces: AsyncIterator[bytes], seconds: float = SECONDS_BETWEEN_COMMENTS
) -> AsyncIterator[bytes]:
    """Yield the pieces, and a comment after each pause of some seconds."""
    task: asyncio.Task[bytes] | None = None
    try:
        while True:
            if task is None:
                task = asyncio.ensure_future(anext(pieces))
            done, _ = await asyncio.wait([task], timeout=seconds)
            if not done:
                yield COMMENT
                continue
            try:
                piece = task.result()
            except StopAsyncIteration:
                return
            task = None
            yield piece
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
