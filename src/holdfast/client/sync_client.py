"""`SyncClient`: the same client for synchronous code. It drives `Client`, and has no logic of its own."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Literal, Self, TypeVar, Unpack

from holdfast.client.client import Client
from holdfast.client.start_request import MessageParts, StartKeywords
from holdfast.client.sync_queue_calls import SyncQueueCalls, SyncScheduleCalls
from holdfast.core.constraints import NonEmptyText, PositiveFloat
from holdfast.core.questions import Remember
from holdfast.event_log.stream_items import SessionState, StreamItem
from holdfast.runtime.sync_bridge import run_blocking
from holdfast.server.api.queue_views import WorkerList
from holdfast.server.api.views import (
    AgentList,
    AnswerView,
    HistoryView,
    MediaView,
    QuestionList,
    QuestionPage,
    QuestionView,
    SessionPage,
    SessionSummary,
    TurnState,
    TurnView,
    UsageView,
)
from holdfast.transport.port import Transport

T = TypeVar("T")


def iterate_blocking(items: AsyncIterator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous iterator; leaving the loop early ends it."""

    async def read_next() -> tuple[T] | None:
        try:
            return (await anext(items),)
        except StopAsyncIteration:
            return None

    async def close() -> None:
        end = getattr(items, "aclose", None)
        if end is not None:
            await end()

    try:
        while (found := run_blocking(read_next())) is not None:
            yield found[0]
    finally:
        run_blocking(close())


class SyncTurnCalls:
    """The calls of `Client.turns`, for synchronous code."""

    def __init__(self, client: Client) -> None:
        self._turns = client.turns

    def start(
        self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]
    ) -> TurnView:
        """Start a turn and return at once."""
        return run_blocking(self._turns.start(agent, message, **keywords))

    def run(self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]) -> TurnView:
        """Start a turn and wait until it has ended or asks a question."""
        return run_blocking(self._turns.run(agent, message, **keywords))

    def read(self, session: str, turn: int) -> TurnView:
        """Read a turn, as far as it has come."""
        return run_blocking(self._turns.read(session, turn))

    def wait(self, session: str, turn: int) -> TurnView:
        """Wait until a turn has ended or asks a question."""
        return run_blocking(self._turns.wait(session, turn))

    def stream(
        self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]
    ) -> Iterator[StreamItem]:
        """Start a turn and stream its items to its end."""
        return iterate_blocking(self._turns.stream(agent, message, **keywords))

    def cancel(self, session: str) -> TurnState:
        """Cancel the last turn of a session."""
        return run_blocking(self._turns.cancel(session))

    def resume(self, session: str) -> TurnState:
        """Continue a turn that was interrupted, or try one again that failed."""
        return run_blocking(self._turns.resume(session))

    def abandon(self, session: str) -> TurnState:
        """Give up a turn that waits for an answer or was interrupted."""
        return run_blocking(self._turns.abandon(session))


class SyncSessionCalls:
    """The calls of `Client.sessions`, for synchronous code."""

    def __init__(self, client: Client) -> None:
        self._sessions = client.sessions

    def list(
        self,
        *,
        limit: int = 50,
        before: str | None = None,
        agent: str | None = None,
        status: SessionState | None = None,
        text: str | None = None,
        min_cost: float | None = None,
    ) -> SessionPage:
        """List or search sessions, the latest change first."""
        found = self._sessions.list(
            limit=limit, before=before, agent=agent, status=status, text=text, min_cost=min_cost
        )
        return run_blocking(found)

    def info(self, session: str) -> SessionSummary:
        """Describe a session."""
        return run_blocking(self._sessions.info(session))

    def create(self, title: str, *, session: str | None = None) -> SessionSummary:
        """Make an empty session."""
        return run_blocking(self._sessions.create(title, session=session))

    def rename(self, session: str, title: str) -> SessionSummary:
        """Give a session another title."""
        return run_blocking(self._sessions.rename(session, title))

    def delete(self, session: str) -> None:
        """Delete a session permanently."""
        run_blocking(self._sessions.delete(session))

    def history(self, session: str) -> HistoryView:
        """Read the messages of a session, and its turns and changes with their numbers."""
        return run_blocking(self._sessions.history(session))

    def fork(self, session: str, at: int | None = None, *, to: str | None = None) -> str:
        """Copy a session; return the name of the copy."""
        return run_blocking(self._sessions.fork(session, at, to=to))

    def fork_with(
        self, session: str, turn: int, message: MessageParts, *, to: str | None = None
    ) -> str:
        """Copy a session and go on with another message in place of one of its turns."""
        return run_blocking(self._sessions.fork_with(session, turn, message, to=to))

    def rewind(self, session: str, to: int) -> int | None:
        """Go back to an earlier turn; return the number of the change."""
        return run_blocking(self._sessions.rewind(session, to))

    def compact(self, session: str, *, keep: int = 4, summary: str | None = None) -> int | None:
        """Replace older turns by a summary; return the number of the change, or None."""
        return run_blocking(self._sessions.compact(session, keep=keep, summary=summary))

    def export(self, session: str) -> builtins.list[str]:
        """Return a session as lines of JSON, for `import_`."""
        return run_blocking(self._sessions.export(session))

    def import_(self, lines: Iterable[str], *, session: str | None = None) -> SessionSummary:
        """Import a session that was exported, as history."""
        return run_blocking(self._sessions.import_(lines, session=session))


class SyncMediaCalls:
    """The calls of `Client.media`, for synchronous code."""

    def __init__(self, client: Client) -> None:
        self._media = client.media

    def upload(self, data: bytes, media_type: NonEmptyText) -> MediaView:
        """Store bytes for a message; pass the returned object as a part of one."""
        return run_blocking(self._media.upload(data, media_type))

    def download(self, media: str) -> bytes:
        """Return what was uploaded."""
        return run_blocking(self._media.download(media))


class SyncQuestionCalls:
    """The calls of `Client.questions`, for synchronous code."""

    def __init__(self, client: Client) -> None:
        self._questions = client.questions

    def list(
        self, *, agent: str | None = None, limit: int = 100, after: str | None = None
    ) -> QuestionPage:
        """List open questions of all sessions; those of the session that waits longest come first."""
        return run_blocking(self._questions.list(agent=agent, limit=limit, after=after))

    def of(self, session: str) -> QuestionList:
        """List the open questions of a session."""
        return run_blocking(self._questions.of(session))

    def approve(
        self,
        question: QuestionView,
        *,
        arguments: Mapping[str, object] | None = None,
        remember: Remember = "once",
    ) -> AnswerView:
        """Answer yes. The turn goes on by itself."""
        return run_blocking(
            self._questions.approve(question, arguments=arguments, remember=remember)
        )

    def deny(
        self, question: QuestionView, reason: str | None = None, *, remember: Remember = "once"
    ) -> AnswerView:
        """Answer no."""
        return run_blocking(self._questions.deny(question, reason, remember=remember))

    def extend(self, question: QuestionView, iterations: int | None = None) -> AnswerView:
        """Let a turn go on beyond its limit of iterations."""
        return run_blocking(self._questions.extend(question, iterations))

    def answer(self, question: QuestionView, value: object) -> AnswerView:
        """Answer with a value, of the type that the question asks for."""
        return run_blocking(self._questions.answer(question, value))


class SyncClient:
    """A client of a service for synchronous code; see `Client`.

    Args:
        base_url: the address of the service, with the path under which it is mounted.
        api_key: the key; None for a service of this machine without keys.
        patience: seconds for which a request is repeated without success.
        transport: the HTTP client; by default aiohttp.

    >>> with SyncClient("http://127.0.0.1:8000") as client:
    ...     client.turns  # doctest: +ELLIPSIS
    <...SyncTurnCalls object at ...>
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        patience: PositiveFloat = 60.0,
        transport: Transport | None = None,
    ) -> None:
        self._client = Client(base_url, api_key=api_key, patience=patience, transport=transport)
        self.turns = SyncTurnCalls(self._client)
        self.sessions = SyncSessionCalls(self._client)
        self.questions = SyncQuestionCalls(self._client)
        self.media = SyncMediaCalls(self._client)
        self.queue = SyncQueueCalls(self._client)
        self.schedules = SyncScheduleCalls(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        run_blocking(self._client.aclose())

    def agents(self) -> AgentList:
        """List the agents of the service, with their tools."""
        return run_blocking(self._client.agents())

    def workers(self) -> WorkerList:
        """List the workers of the last hour, and the turns that they drive."""
        return run_blocking(self._client.workers())

    def usage(
        self, by: Literal["agent", "model", "day"] = "agent", *, since: float | None = None
    ) -> UsageView:
        """Add up tokens, also those of failed attempts."""
        return run_blocking(self._client.usage(by, since=since))

    def run(self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]) -> TurnView:
        """Start a turn and wait until it has ended or asks a question."""
        return run_blocking(self._client.run(agent, message, **keywords))

    def follow(
        self,
        session: str,
        *,
        after: str | None = None,
        until: Literal["turn_end"] | None = None,
    ) -> Iterator[StreamItem]:
        """Follow the event log of a session, over lost connections and restarts."""
        return iterate_blocking(self._client.follow(session, after=after, until=until))
