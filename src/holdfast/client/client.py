"""`Client`: the agents and sessions of a service, from asynchronous code.

Each method is one request, repeated where that may help. This module must never read a response.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Self, Unpack

from holdfast.client.following import Following, StreamBeginning, read_changes
from holdfast.client.question_calls import QuestionCalls
from holdfast.client.queue_calls import QueueCalls, ScheduleCalls
from holdfast.client.service_connection import ServiceConnection, call, get, session_path
from holdfast.client.session_calls import MediaCalls, SessionCalls
from holdfast.client.start_request import MessageParts, StartKeywords
from holdfast.client.turn_calls import TurnCalls
from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveFloat
from holdfast.event_log.stream_items import StreamItem
from holdfast.server.api.queue_views import WorkerList
from holdfast.server.api.views import AgentList, ChangeItem, TurnView, UsageView
from holdfast.transport.port import Transport


class Client:
    """A client of a service.

    A request that cannot be answered now is repeated: when the connection is lost, when the service
    restarts, and when it asks to wait. A repetition begins nothing twice.

    Args:
        base_url: the address of the service, with the path under which it is mounted.
        api_key: the key; None for a service of this machine without keys.
        patience: seconds for which a request is repeated without success.
        transport: the HTTP client; by default aiohttp.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> client = Client("http://127.0.0.1:8000")
    >>> client.turns, client.sessions, client.questions  # doctest: +ELLIPSIS
    (<...TurnCalls object at ...>, <...SessionCalls object at ...>, <...QuestionCalls object at ...>)
    """

    @check_arguments
    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        patience: PositiveFloat = 60.0,
        transport: Transport | None = None,
    ) -> None:
        self._connection = ServiceConnection(base_url, api_key, patience, transport)
        self.turns = TurnCalls(self._connection)
        self.sessions = SessionCalls(self._connection)
        self.questions = QuestionCalls(self._connection)
        self.media = MediaCalls(self._connection)
        self.queue = QueueCalls(self._connection)
        self.schedules = ScheduleCalls(self._connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._connection.aclose()

    async def agents(self) -> AgentList:
        """List the agents of the service, with their tools."""
        return await call(self._connection, get("/agents"), AgentList)

    async def workers(self) -> WorkerList:
        """List the workers of the last hour, and the turns that they drive. It needs the scope admin."""
        return await call(self._connection, get("/workers"), WorkerList)

    async def usage(
        self, by: Literal["agent", "model", "day"] = "agent", *, since: float | None = None
    ) -> UsageView:
        """Add up tokens, also those of failed attempts.

        Args:
            by: the groups of the totals; days are in UTC.
            since: only turns that were opened after this time, in seconds since the epoch.
        """
        return await call(self._connection, get("/usage", {"by": by, "since": since}), UsageView)

    async def run(
        self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]
    ) -> TurnView:
        """Start a turn and wait until it has ended or asks a question; see `turns.start`."""
        return await self.turns.run(agent, message, **keywords)

    def follow(
        self,
        session: str,
        *,
        after: str | None = None,
        until: Literal["turn_end"] | None = None,
    ) -> AsyncIterator[StreamItem]:
        """Follow the event log of a session: `async for item in client.follow("ada")`.

        It goes on over lost connections and restarts of the service. Nothing is shown twice: text that
        does not count any more is withdrawn, as `ReplyText` shows.

        Args:
            session: the session.
            after: the position of the last item that was read; by default the beginning.
            until: "turn_end" to end with the last turn; by default it does not end.

        Raises:
            NotFoundError: there is no such session.
            ServiceError: the service refuses it.
            TransportError: the service cannot be reached.
        """
        path = session_path(session, "/events")
        beginning = StreamBeginning(path=path, position=after, until=until)
        return Following(self._connection, beginning).read()

    def changes(self) -> AsyncIterator[ChangeItem]:
        """Follow the changes of all sessions and of the queue: `async for change in client.changes()`.

        A stream that was lost is opened again, and what changed in between is not known. Therefore each
        connection begins with `ListChanged`, `QueueChanged` and `EndpointsChanged`: read then what you show.

        Raises:
            ServiceError: the service refuses it.
            TransportError: the service cannot be reached.
        """
        return read_changes(self._connection)
