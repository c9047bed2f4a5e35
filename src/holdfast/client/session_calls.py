"""The calls of a client that are about sessions, and about the media of their messages."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from urllib.parse import quote

from msgspec import UNSET

from holdfast.client.service_connection import (
    Sending,
    ServiceConnection,
    call,
    encode,
    get,
    post,
    session_path,
)
from holdfast.client.start_request import MessageParts, make_message
from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import NonEmptyText
from holdfast.event_log.stream_items import SessionState
from holdfast.server.api.request_bodies import (
    Compact,
    Fork,
    ForkEdit,
    NewSession,
    Rewind,
    SessionChange,
)
from holdfast.server.api.views import (
    ChangeView,
    ForkView,
    HistoryView,
    MediaView,
    SessionPage,
    SessionSummary,
)


class SessionCalls:
    """The calls of a client about sessions: `client.sessions`.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        limit: int = 50,
        before: str | None = None,
        agent: str | None = None,
        status: SessionState | None = None,
        text: str | None = None,
        min_cost: float | None = None,
    ) -> SessionPage:
        """List or search sessions, the latest change first.

        Args:
            limit: how many. The first page has in addition the sessions whose first turn is queued.
            before: `next` of the page before.
            agent: only sessions whose last turn had this agent.
            status: only sessions whose last turn is in this state.
            text: only sessions that contain this text.
            min_cost: only sessions whose last turn cost at least this much.
        """
        query = {
            "limit": limit,
            "before": before,
            "agent": agent,
            "status": status,
            "q": text,
            "min_cost": min_cost,
        }
        return await call(self._connection, get("/sessions", query), SessionPage)

    async def info(self, session: str) -> SessionSummary:
        """Describe a session. Raises NotFoundError."""
        return await call(self._connection, get(session_path(session)), SessionSummary)

    async def create(self, title: str, *, session: str | None = None) -> SessionSummary:
        """Make an empty session. A turn makes its session itself.

        Args:
            title: its title.
            session: its name; by default a new one.
        """
        body = NewSession(title=title, session=session or UNSET)
        return await call(self._connection, post("/sessions", body), SessionSummary)

    async def rename(self, session: str, title: str) -> SessionSummary:
        """Give a session another title."""
        body = encode(SessionChange(title=title))
        sending = Sending(method="PATCH", path=session_path(session), body=body)
        return await call(self._connection, sending, SessionSummary)

    async def delete(self, session: str) -> None:
        """Delete a session permanently. Raises BusyError while a turn of it is in progress."""
        await self._connection.send(Sending(method="DELETE", path=session_path(session)))

    async def history(self, session: str) -> HistoryView:
        """Read the messages of a session, and its turns and changes with their numbers."""
        return await call(self._connection, get(session_path(session, "/history")), HistoryView)

    async def fork(self, session: str, at: int | None = None, *, to: str | None = None) -> str:
        """Copy a session; return the name of the copy.

        Args:
            session: the session.
            at: the number of the last turn or change to copy; by default all that have ended.
            to: the name of the copy; by default a new one.
        """
        body = Fork(at=at or UNSET, to=to or UNSET)
        made = await call(self._connection, post(session_path(session, "/fork"), body), ForkView)
        return made.session

    async def fork_with(
        self, session: str, turn: int, message: MessageParts, *, to: str | None = None
    ) -> str:
        """Copy a session and go on with another message in place of one of its turns.

        Args:
            session: the session.
            turn: the number of the turn.
            message: the other message.
            to: the name of the copy; by default a new one.

        Returns:
            The name of the copy, whose last turn is in progress.
        """
        edit = ForkEdit(turn=turn, message=make_message(message))
        body = Fork(to=to or UNSET, edit=edit)
        made = await call(self._connection, post(session_path(session, "/fork"), body), ForkView)
        return made.session

    async def rewind(self, session: str, to: int) -> int | None:
        """Go back to an earlier turn; return the number of the change.

        Args:
            session: the session.
            to: the number of the last turn or change that counts; 0 for none.
        """
        sending = post(session_path(session, "/rewind"), Rewind(to=to))
        return (await call(self._connection, sending, ChangeView)).number

    async def compact(
        self, session: str, *, keep: int = 4, summary: str | None = None
    ) -> int | None:
        """Replace older turns by a summary; return the number of the change, or None.

        Args:
            session: the session.
            keep: how many turns stay at the end.
            summary: the summary; by default the model of the session's agent writes it.
        """
        body = Compact(keep=keep, summary=UNSET if summary is None else summary)
        sending = post(session_path(session, "/compact"), body)
        return (await call(self._connection, sending, ChangeView)).number

    async def export(self, session: str) -> builtins.list[str]:
        """Return a session as lines of JSON, for `import_`."""
        sending = Sending(
            method="GET", path=session_path(session, "/export"), accept="application/x-ndjson"
        )
        received = await self._connection.send(sending)
        return received.body.decode().removesuffix("\n").split("\n")

    async def import_(self, lines: Iterable[str], *, session: str | None = None) -> SessionSummary:
        """Import a session that was exported, as history; on an error nothing is imported.

        A turn that has not ended is interrupted. The key needs the scope `import`.

        Args:
            lines: the lines.
            session: the name of the session; by default the name that was exported.
        """
        sending = Sending(
            method="POST",
            path="/sessions/import",
            query={"session": session},
            body="".join(f"{line}\n" for line in lines).encode(),
            content_type="application/x-ndjson",
        )
        return await call(self._connection, sending, SessionSummary)


class MediaCalls:
    """The calls of a client about media: `client.media`.

    Args:
        connection: the connection.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        self._connection = connection

    @check_arguments
    async def upload(self, data: bytes, media_type: NonEmptyText) -> MediaView:
        """Store bytes for a message; pass the returned object as a part of one.

        Args:
            data: the bytes.
            media_type: such as "image/png".
        """
        sending = Sending(method="POST", path="/media", body=data, content_type=media_type)
        return await call(self._connection, sending, MediaView)

    async def download(self, media: str) -> bytes:
        """Return the uploaded bytes. Raises NotFoundError after a day."""
        path = f"/media/{quote(media, safe='')}"
        return (await self._connection.send(Sending(method="GET", path=path, accept="*/*"))).body
