"""The calls of a client that are about turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from msgspec.structs import replace

from holdfast.client.following import Following, StreamBeginning
from holdfast.client.service_connection import (
    ServiceConnection,
    call,
    get,
    post,
    session_path,
    with_key,
)
from holdfast.client.start_request import MessageParts, StartKeywords, make_start
from holdfast.event_log.stream_items import SessionState, StreamItem
from holdfast.server.api.views import TurnState, TurnView

_WAIT = 30.0  # seconds for which one request is held open
_RESTS: frozenset[SessionState] = frozenset(
    {"completed", "failed", "limit", "cancelled", "stopped", "idle", "waiting"}
)


class TurnCalls:
    """The calls of a client about turns: `client.turns`.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    async def start(
        self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]
    ) -> TurnView:
        """Start a turn and return at once. It goes on without this client.

        A turn that is queued has no number yet: its `status` is "queued", and `client.queue.read` shows
        its `entry`. The same `request` returns it again.

        Args:
            agent: the name of the agent.
            message: the message of the user.
            keywords: `session`, by default a new one; `metadata`; `settings`; lower `limits`;
                `model`, if the service allows it; `output_schema`; and `request`, an idempotency key
                of yours.

        Raises:
            BusyError: a turn of the session is in progress.
            ServiceError: the service refused it.
        """
        return await call(self._connection, make_start(agent, message, keywords), TurnView)

    async def run(
        self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]
    ) -> TurnView:
        """Start a turn and wait until it has ended or asks a question. Arguments as for `start`."""
        sending = with_key(make_start(agent, message, keywords, wait=_WAIT))
        turn = await call(self._connection, sending, TurnView)
        while turn.status == "queued":  # the same request finds the same turn
            turn = await call(self._connection, sending, TurnView)
        return await self.wait(turn.session, turn.turn) if turn.status not in _RESTS else turn

    async def read(self, session: str, turn: int) -> TurnView:
        """Read a turn, as far as it has come. Raises NotFoundError."""
        return await call(self._connection, get(_turn_path(session, turn)), TurnView)

    async def wait(self, session: str, turn: int) -> TurnView:
        """Wait until a turn has ended or asks a question, however long it takes."""
        while True:
            sending = get(_turn_path(session, turn), {"wait": _WAIT}, wait=_WAIT)
            view = await call(self._connection, sending, TurnView)
            if view.status in _RESTS:
                return view

    def stream(
        self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]
    ) -> AsyncIterator[StreamItem]:
        """Start a turn and stream its items to its end. Arguments as for `start`."""
        start = replace(make_start(agent, message, keywords), accept="text/event-stream")
        return Following(self._connection, StreamBeginning(start=start)).read()

    async def cancel(self, session: str) -> TurnState:
        """Cancel the last turn of a session, wherever it runs."""
        return await call(self._connection, post(session_path(session, "/cancel")), TurnState)

    async def resume(self, session: str) -> TurnState:
        """Continue a turn that was interrupted, or try one again that failed."""
        return await call(self._connection, post(session_path(session, "/resume")), TurnState)

    async def abandon(self, session: str) -> TurnState:
        """Give up a turn that waits for an answer or was interrupted."""
        return await call(self._connection, post(session_path(session, "/abandon")), TurnState)


def _turn_path(session: str, turn: int) -> str:
    return session_path(session, f"/turns/{turn}")
