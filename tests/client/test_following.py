"""A reader whose connection breaks: it sends its request again, and hears each thing once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace

import pytest

from holdfast.client.following import Following, StreamBeginning, read_changes
from holdfast.client.service_connection import Sending
from holdfast.client.service_errors import AccessError, read_problem
from holdfast.core.errors import ErrorCategory, ErrorInfo, TransportError
from holdfast.core.events import Status, TurnClosed, TurnOpened
from holdfast.core.messages import user
from holdfast.event_log.stream_items import EventItem, StatusItem, StreamItem
from holdfast.server.api.views import (
    ChangeEvent,
    ChangeItem,
    ChangesEnd,
    DeletedSession,
    EndpointsChanged,
    ListChanged,
    QueueChanged,
    SessionsChanged,
)

QUEUED = StatusItem("0", 0, "queued")
OPENED = EventItem("4", 4, 2, TurnOpened("t2", 0.0, user("Hi.")))
CLOSED = EventItem("5", 5, 2, TurnClosed("t2.closed", 1.0, Status.COMPLETED))
OF_QUEUE = {"location": "/queue/entries/7", "content-location": "/sessions/a%2Fb/events"}


class BreakingConnection:
    """Gives the items of one stream after another; each ends with an error but the last."""

    patience = 5.0

    def __init__(self, *streams: Sequence[StreamItem | ChangeEvent]) -> None:
        self._streams = list(streams)
        self.sent: list[Sending] = []

    @asynccontextmanager
    async def stream(
        self, sending: Sending, _decode_item: object
    ) -> AsyncIterator[tuple[object, AsyncIterator[StreamItem | ChangeEvent]]]:
        self.sent.append(sending)
        yield SimpleNamespace(headers=OF_QUEUE), self._read(self._streams.pop(0))

    async def _read(
        self, items: Sequence[StreamItem | ChangeEvent]
    ) -> AsyncIterator[StreamItem | ChangeEvent]:
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


UNKNOWN = [ListChanged(), QueueChanged(), EndpointsChanged()]
GONE = SessionsChanged((), (DeletedSession("ada"),))


async def follow_changes(connection: BreakingConnection, count: int) -> list[ChangeItem]:
    found = []
    async with aclosing(read_changes(connection)) as changes:  # type: ignore[arg-type, type-var]
        async for change in changes:
            found.append(change)
            if len(found) == count:
                break
    return found


async def test_each_connection_begins_with_all_that_may_have_changed_unseen() -> None:
    connection = BreakingConnection([GONE], [QueueChanged()], [])
    found = await follow_changes(connection, 3 + 1 + 3 + 1 + 3)
    assert found == [*UNKNOWN, GONE, *UNKNOWN, QueueChanged(), *UNKNOWN]
    assert {sending.path for sending in connection.sent} == {"/changes"}


async def test_a_stream_of_changes_that_its_service_ends_is_opened_again() -> None:
    connection = BreakingConnection([ChangesEnd("shutting_down"), GONE], [GONE])
    assert await follow_changes(connection, 7) == [*UNKNOWN, *UNKNOWN, GONE]


async def test_a_refused_reader_of_changes_gets_the_error() -> None:
    class Refusing:
        patience = 5.0

        def stream(self, _sending: Sending, _decode_item: object) -> object:
            raise AccessError(read_problem(401, b""))

    with pytest.raises(AccessError):
        await follow_changes(Refusing(), 1)  # type: ignore[arg-type]
