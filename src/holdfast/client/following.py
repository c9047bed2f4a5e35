"""Follows a session, or the changes of all sessions, over lost connections, restarts and busy services.

A reader of a session comes back with its position, and the service sends the items since then: so no
item is shown twice, and text that does not count any more is withdrawn. A reader of changes has no
position: each connection begins with the advice to read everything again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from urllib.parse import unquote

from msgspec import Struct

from holdfast.client.service_connection import (
    Sending,
    ServiceConnection,
    Waits,
    decode_json,
    with_key,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, TransportError
from holdfast.core.events import TurnClosed, TurnOpened
from holdfast.event_log.stream_items import (
    EndItem,
    EventItem,
    NoticeItem,
    ReasoningItem,
    StatusItem,
    StreamItem,
    TextItem,
    WithdrawnItem,
)
from holdfast.server.api.views import (
    ChangeEvent,
    ChangeItem,
    ChangesEnd,
    EndpointsChanged,
    ListChanged,
    QueueChanged,
)

_LOCATION = re.compile(r"/sessions/(?P<session>[^/]+)/(?:turns/(?P<turn>\d+)|events)$")


class StreamBeginning(Struct, frozen=True, kw_only=True):
    """Where a stream begins: with a request that starts a turn, or at a place of a session.

    Args:
        path: the path of the events of a session; "" if `start` says it.
        position: the place of the reader; None for that of `start`.
        start: starts a turn.
        until: "turn_end" to end with the last turn.
    """

    path: str = ""
    position: str | None = None
    start: Sending | None = None
    until: str | None = None


class Following:
    """One reader of a session.

    Args:
        connection: the connection.
        beginning: where it begins.
    """

    def __init__(self, connection: ServiceConnection, beginning: StreamBeginning) -> None:
        self._connection = connection
        self._path = beginning.path
        self._start = None if beginning.start is None else with_key(beginning.start)
        self._until = beginning.until
        self._turn = 0  # the turn that ends the stream; 0 for none
        self._sequence = 0
        self._status: StatusItem | None = None
        self._is_over = False
        self._is_queued = False
        self.session = ""
        """The session, if this reader started its turn."""
        self.position = beginning.position
        """The place of the reader."""

    async def read(self) -> AsyncIterator[StreamItem]:
        """Yield the items; connect again when the connection is lost.

        Raises:
            ServiceError: the service refuses the reader.
            TransportError: the service cannot be reached for too long.
        """
        waits = Waits(self._connection.patience)
        while not self._is_over:
            try:
                async for item in self._read_once(waits):
                    waits.note_success()
                    yield item
                if not self._is_over:
                    await waits.wait_after(_lost_error())
            except HoldfastError as error:
                await waits.wait_after(error)

    async def _read_once(self, waits: Waits) -> AsyncIterator[StreamItem]:
        request = self._make_request()
        async with self._connection.stream(request, _decode_item) as (response, items):
            if request is self._start:
                for name in ("content-location", "location"):
                    self._take_location(response.headers.get(name, ""))
            async for item in items:
                waits.note_contact()
                if self._is_new(item):
                    yield item
                if self._is_over:
                    return

    def _make_request(self) -> Sending:
        accept = "text/event-stream"
        if self._start is not None and self.position is None:
            return self._start
        query = {"after": self.position, "until": self._until}
        return Sending(method="GET", path=self._path, query=query, accept=accept)

    def _take_location(self, location: str) -> None:
        """Learn the session and the turn that a request has started."""
        if found := _LOCATION.search(location):
            self.session = unquote(found["session"])
            self._path = f"/sessions/{found['session']}/events"
            self._turn = int(found["turn"] or 0)

    def _is_new(self, item: StreamItem) -> bool:
        """Whether the reader has not had this item; also note its position."""
        if isinstance(item, NoticeItem | ReasoningItem):
            return True
        if isinstance(item, StatusItem) and item.status == "queued":
            # It is no position: when the connection is lost, the request is sent again and finds the turn.
            is_new, self._is_queued = not self._is_queued, True
            return is_new
        self.position = item.position
        if isinstance(item, EndItem):
            self._is_over = item.reason == "turn_ended"
            return False
        if isinstance(item, StatusItem):
            before, self._status = self._status, item
            return before is None or (before.turn, before.status, before.questions) != (
                item.turn,
                item.status,
                item.questions,
            )
        if isinstance(item, EventItem):
            if item.sequence <= self._sequence:
                return False
            self._sequence = item.sequence
            if self._start is not None and not self._turn and isinstance(item.event, TurnOpened):
                self._turn = item.turn  # it was queued when its request was answered
            is_end = isinstance(item.event, TurnClosed) and item.turn == self._turn
            self._is_over = self._is_over or is_end
        return True


def _decode_item(data: bytes) -> StreamItem:
    item: StreamItem = decode_json(data, StreamItem)
    return item


def _decode_change(data: bytes) -> ChangeEvent:
    change: ChangeEvent = decode_json(data, ChangeEvent)
    return change


async def read_changes(connection: ServiceConnection) -> AsyncIterator[ChangeItem]:
    """Yield the changes of the tenant; connect again when the connection is lost.

    Args:
        connection: the connection.

    Raises:
        ServiceError: the service refuses the reader.
        TransportError: the service cannot be reached for too long.
    """
    waits = Waits(connection.patience)
    request = Sending(method="GET", path="/changes", accept="text/event-stream")
    while True:
        try:
            async with connection.stream(request, _decode_change) as (_, changes):
                waits.note_contact()
                for unknown in (ListChanged(), QueueChanged(), EndpointsChanged()):
                    yield unknown
                async for change in changes:
                    if isinstance(change, ChangesEnd):
                        break
                    waits.note_success()
                    yield change
            await waits.wait_after(_lost_error())
        except HoldfastError as error:
            await waits.wait_after(error)


def _lost_error() -> TransportError:
    """Return the error of a stream that ended before its last item."""
    text = "the stream ended early"
    return TransportError(text, info=ErrorInfo(category=ErrorCategory.TRANSIENT, safe=text))


class ReplyText:
    """The text of the latest reply: `reply.add(item)` for each item of a stream.

    >>> from holdfast.event_log.stream_items import TextItem, WithdrawnItem
    >>> reply = ReplyText()
    >>> reply.add(TextItem("1.3.00", "t1.i0.model", 0, "Hal"))
    'Hal'
    >>> reply.add(WithdrawnItem("1", "t1.i0.model", "The connection was lost."))
    ''
    >>> reply.add(TextItem("1.5.00", "t1.i0.model", 0, "Hello"))
    'Hello'
    """

    def __init__(self) -> None:
        self.text = ""
        """The text to show."""

    def add(self, item: StreamItem) -> str:
        """Take an item, and return the text to show now."""
        if isinstance(item, TextItem):
            self.text = self.text[: item.offset] + item.text
        elif isinstance(item, WithdrawnItem):
            self.text = ""
        return self.text
