"""Sends the events of a protocol as server-sent events. A reader that leaves changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from holdfast.journal.encoding import to_json
from holdfast.server.api.event_stream import HEADERS, keep_alive

DONE = b"data: [DONE]\n\n"


def stream_events(pieces: AsyncIterator[bytes]) -> StreamingResponse:
    """Return a response that sends encoded events as they come."""
    return StreamingResponse(keep_alive(pieces), media_type="text/event-stream", headers=HEADERS)


def encode_event(event: dict[str, object], *, is_named: bool = False) -> bytes:
    """Return an event as it is sent; a named one also has its type in a field of its own."""
    data = b"data: " + to_json(event) + b"\n\n"
    return b"event: %s\n%s" % (str(event["type"]).encode(), data) if is_named else data
