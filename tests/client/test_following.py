"""A reader of a queued turn whose connection breaks: it sends its request again, and hears each thing once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

from holdfast.client.following import Following, StreamBeginning
from holdfast.client.service_connection import Sending
from holdfast.core.errors import ErrorCategory, ErrorInfo, TransportError
from holdfast.core.events import Status, TurnClosed, TurnOpened
from holdfast.core.messages import user
from holdfast.event_log.stream_items import EventItem, StatusItem, StreamItem

QUEUED = StatusItem("0", 0, "queued")
OPENED = EventItem("4", 4, 2, TurnOpened("t2", 0.0, user("Hi.")))
CLOSED = EventItem("5", 5, 2, TurnClosed("t2.closed", 1.0, Status.COMPLETED))
OF_QUEUE = {"location": "/queue/entries/7", "content-location": "/sessions/a%2Fb/events"}


class BreakingConnection:
    """Gives the items of one stream after another; each ends with an error but the last."""

    patience = 5.0

    def __init__(self, *streams: list[StreamItem]) -> None:
        self._streams = list(streams)
        self.sent: list[Sending] = []

    @asynccontextmanager
    async def stream(
        self, sending: Sending
    ) -> AsyncIterator[tuple[object, AsyncIterator[StreamItem]]]:
        self.sent.append(sending)
        yield SimpleNamespace(headers=OF_QUEUE), self._read(self._streams.pop(0))

    async def _read(self, items: list[StreamItem]) -> AsyncIterator[StreamItem]:
        for item in items:
            yield item
        info = ErrorInfo(category=ErrorCategory.TRANSIENT, safe="lost")
        raise TransportError("lost", info=info)


async def follow(connection: BreakingConnection) -> tuple[Following, list[StreamItem]]:
    start = Sending(method="POST", path="/turns")
    following = Following(connection, StreamBeginning(start=start))  # type: ignore[arg-type]
    return following, [item async for item in following.read()]


async def test_a_queued_turn_is_told_once_and_asked_for_by_the_same_request() -> None:
    connection = BreakingConnection([QUEUED], [QUEUED], [QUEUED, OPENED, CLOSED])
    following, items = await follow(connection)
    assert items == [QUEUED, OPENED, CLOSED]
    assert following.session == "a/b"
    assert {sending.path for sending in connection.sent} == {"/turns"}
    assert len({sending.key for sending in connection.sent}) == 1
    assert connection.sent[0].key


async def test_a_turn_that_has_begun_is_followed_in_its_session() -> None:
    connection = BreakingConnection([QUEUED, OPENED], [CLOSED])
    _, items = await follow(connection)
    assert items == [QUEUED, OPENED, CLOSED]
    again = connection.sent[1]
    assert (again.method, again.path) == ("GET", "/sessions/a%2Fb/events")
    assert again.query["after"] == "4"


async def test_a_record_that_comes_twice_is_told_once() -> None:
    connection = BreakingConnection([QUEUED, OPENED, OPENED, CLOSED])
    assert (await follow(connection))[1] == [QUEUED, OPENED, CLOSED]
