"""How many event streams are open at once, for a session and in this process.

This module must never wait: a stream that is one too many is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from registration.http.problems import Problem, unavailable

_RETRY_AFTER = 5.0
_TOO_MANY = "This conversation is open in too many places. Please close some of them."


class OpenStreams:
    """Counts the event streams that are open; for the event loop's thread.

    Args:
        most: the most streams in this process.
        most_of_session: the most streams of one session.
    """

    def __init__(self, most: int, most_of_session: int) -> None:
        self._most = most
        self._most_of_session = most_of_session
        self._open: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of streams that are open."""
        return self._open.total()

    def add(self, session: str) -> None:
        """Count a stream that begins.

        Args:
            session: whose stream it is.

        Raises:
            Problem: there are too many.
        """
        if self._open[session] >= self._most_of_session:
            raise Problem("too_many_requests", _TOO_MANY, _RETRY_AFTER)
        if self.count >= self._most:
            raise unavailable(_RETRY_AFTER)
        self._open[session] += 1

    def remove(self, session: str) -> None:
        """Count a stream that ended."""
        self._open[session] -= 1
        if self._open[session] <= 0:
            del self._open[session]


class EventStream(StreamingResponse):
    """A stream of events, which is counted until it ends.

    Args:
        streams: counts it.
        session: whose stream it is.
        content: the stream.
        headers: of the response.

    Raises:
        Problem: there are too many.
    """

    def __init__(
        self,
        streams: OpenStreams,
        session: str,
        content: AsyncIterator[bytes],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self._streams = streams
        self._session = session
        streams.add(session)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.remove(self._session)
