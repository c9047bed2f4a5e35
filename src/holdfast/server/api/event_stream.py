"""Sends the event log of a session as server-sent events.

A connection that ends changes nothing but its own stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from starlette.responses import StreamingResponse

from holdfast.server.live.live_run import Entry

SECONDS_BETWEEN_COMMENTS = 15.0
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def stream_entries(
    entries: AsyncIterator[Entry], headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """Return a response that sends entries as they come, and a comment while none comes.

    Args:
        entries: the entries.
        headers: headers besides those of every stream.
    """
    return StreamingResponse(
        keep_alive(map_entries(entries)),
        media_type="text/event-stream",
        headers={**HEADERS, **(headers or {})},
    )


async def map_entries(entries: AsyncIterator[Entry]) -> AsyncIterator[bytes]:
    """Yield entries as events whose id is the position after them."""
    async for entry in entries:
        kind = entry.item.__struct_config__.tag
        yield b"id: %s\nevent: %s\ndata: %s\n\n" % (
            str(entry.position).encode(),
            str(kind).encode(),
            entry.encoded,
        )


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
                yield b": still here\n\n"
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
