"""`SyncClient`: the same client for synchronous code. It drives `Client`, and has no logic of its own.

This module is generated from the modules of `Client` by `scripts/sync_client.py`; change those instead.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Self, Unpack

from holdfast.client.client import Client
from holdfast.client.question_calls import QuestionCalls
from holdfast.client.queue_calls import QueueCalls, ScheduleCalls
from holdfast.client.session_calls import MediaCalls, SessionCalls
from holdfast.client.start_request import MessageParts, StartKeywords
from holdfast.client.turn_calls import TurnCalls
from holdfast.core.constraints import NonEmptyText, PositiveFloat
from holdfast.core.questions import Remember
from holdfast.event_log.stream_items import SessionState, StreamItem
from holdfast.journal.inbox.entries import EntryState
from holdfast.runtime.sync_bridge import iterate_blocking, run_blocking
from holdfast.server.api.queue_views import (
    EntryPage,
    EntryView,
    QueueView,
    ScheduleList,
    ScheduleView,
    TickList,
    WorkerList,
)
from holdfast.server.api.request_bodies import NewSchedule
from holdfast.server.api.views import (
    AgentList,
    AnswerView,
    ChangeItem,
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


class SyncTurnCalls:
    """The calls of `TurnCalls`, for synchronous code."""

    def __init__(self, calls: TurnCalls) -> None:
        self._calls = calls

    def start(
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
        return run_blocking(self._calls.start(agent, message, **keywords))

    def run(self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]) -> TurnView:
        """Start a turn and wait until it has ended or asks a question. Arguments as for `start`."""
        return run_blocking(self._calls.run(agent, message, **keywords))

    def read(self, session: str, turn: int) -> TurnView:
        """Read a turn, as far as it has come. Raises NotFoundError."""
        return run_blocking(self._calls.read(session, turn))

    def wait(self, session: str, turn: int) -> TurnView:
        """Wait until a turn has ended or asks a question, however long it takes."""
        return run_blocking(self._calls.wait(session, turn))

    def stream(
        self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]
    ) -> Iterator[StreamItem]:
        """Start a turn and stream its items to its end. Arguments as for `start`."""
        return iterate_blocking(self._calls.stream(agent, message, **keywords))

    def cancel(self, session: str) -> TurnState:
        """Cancel the last turn of a session, wherever it runs."""
        return run_blocking(self._calls.cancel(session))

    def resume(self, session: str) -> TurnState:
        """Continue a turn that was interrupted, or try one again that failed."""
        return run_blocking(self._calls.resume(session))

    def abandon(self, session: str) -> TurnState:
        """Give up a turn that waits for an answer or was interrupted."""
        return run_blocking(self._calls.abandon(session))


class SyncSessionCalls:
    """The calls of `SessionCalls`, for synchronous code."""

    def __init__(self, calls: SessionCalls) -> None:
        self._calls = calls

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
        """List or search sessions, the latest change first.

        Args:
            limit: how many. The first page has in addition the sessions whose first turn is queued.
            before: `next` of the page before.
            agent: only sessions whose last turn had this agent.
            status: only sessions whose last turn is in this state.
            text: only sessions that contain this text.
            min_cost: only sessions whose last turn cost at least this much.
        """
        return run_blocking(
            self._calls.list(
                limit=limit, before=before, agent=agent, status=status, text=text, min_cost=min_cost
            )
        )

    def info(self, session: str) -> SessionSummary:
        """Describe a session. Raises NotFoundError."""
        return run_blocking(self._calls.info(session))

    def create(self, title: str, *, session: str | None = None) -> SessionSummary:
        """Make an empty session. A turn makes its session itself.

        Args:
            title: its title.
            session: its name; by default a new one.
        """
        return run_blocking(self._calls.create(title, session=session))

    def rename(self, session: str, title: str) -> SessionSummary:
        """Give a session another title."""
        return run_blocking(self._calls.rename(session, title))

    def delete(self, session: str) -> None:
        """Delete a session permanently. Raises BusyError while a turn of it is in progress."""
        run_blocking(self._calls.delete(session))

    def history(self, session: str) -> HistoryView:
        """Read the messages of a session, and its turns and changes with their numbers."""
        return run_blocking(self._calls.history(session))

    def fork(self, session: str, at: int | None = None, *, to: str | None = None) -> str:
        """Copy a session; return the name of the copy.

        Args:
            session: the session.
            at: the number of the last turn or change to copy; by default all that have ended.
            to: the name of the copy; by default a new one.
        """
        return run_blocking(self._calls.fork(session, at, to=to))

    def fork_with(
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
        return run_blocking(self._calls.fork_with(session, turn, message, to=to))

    def rewind(self, session: str, to: int) -> int | None:
        """Go back to an earlier turn; return the number of the change.

        Args:
            session: the session.
            to: the number of the last turn or change that counts; 0 for none.
        """
        return run_blocking(self._calls.rewind(session, to))

    def compact(self, session: str, *, keep: int = 4, summary: str | None = None) -> int | None:
        """Replace older turns by a summary; return the number of the change, or None.

        Args:
            session: the session.
            keep: how many turns stay at the end.
            summary: the summary; by default the model of the session's agent writes it.
        """
        return run_blocking(self._calls.compact(session, keep=keep, summary=summary))

    def export(self, session: str) -> builtins.list[str]:
        """Return a session as lines of JSON, for `import_`."""
        return run_blocking(self._calls.export(session))

    def import_(self, lines: Iterable[str], *, session: str | None = None) -> SessionSummary:
        """Import a session that was exported, as history; on an error nothing is imported.

        A turn that has not ended is interrupted. The key needs the scope `import`.

        Args:
            lines: the lines.
            session: the name of the session; by default the name that was exported.
        """
        return run_blocking(self._calls.import_(lines, session=session))


class SyncMediaCalls:
    """The calls of `MediaCalls`, for synchronous code."""

    def __init__(self, calls: MediaCalls) -> None:
        self._calls = calls

    def upload(self, data: bytes, media_type: NonEmptyText) -> MediaView:
        """Store bytes for a message; pass the returned object as a part of one.

        Args:
            data: the bytes.
            media_type: such as "image/png".
        """
        return run_blocking(self._calls.upload(data, media_type))

    def download(self, media: str) -> bytes:
        """Return the uploaded bytes. Raises NotFoundError after a day."""
        return run_blocking(self._calls.download(media))


class SyncQuestionCalls:
    """The calls of `QuestionCalls`, for synchronous code."""

    def __init__(self, calls: QuestionCalls) -> None:
        self._calls = calls

    def list(
        self, *, agent: str | None = None, limit: int = 100, after: str | None = None
    ) -> QuestionPage:
        """List open questions of all sessions; those of the session that waits longest come first.

        Args:
            agent: only questions of turns with this agent.
            limit: how many; a page has some more if its last session asks several questions.
            after: the `next` of the page before.
        """
        return run_blocking(self._calls.list(agent=agent, limit=limit, after=after))

    def of(self, session: str) -> QuestionList:
        """List the open questions of a session."""
        return run_blocking(self._calls.of(session))

    def approve(
        self,
        question: QuestionView,
        *,
        arguments: Mapping[str, object] | None = None,
        remember: Remember = "once",
    ) -> AnswerView:
        """Answer yes. The turn goes on by itself.

        Args:
            question: the question.
            arguments: the tool runs with these instead.
            remember: how far the answer applies.
        """
        return run_blocking(self._calls.approve(question, arguments=arguments, remember=remember))

    def deny(
        self, question: QuestionView, reason: str | None = None, *, remember: Remember = "once"
    ) -> AnswerView:
        """Answer no.

        Args:
            question: the question.
            reason: why, in words that the model may read.
            remember: how far the answer applies.
        """
        return run_blocking(self._calls.deny(question, reason, remember=remember))

    def extend(self, question: QuestionView, iterations: int | None = None) -> AnswerView:
        """Let a turn go on beyond its limit of iterations.

        Args:
            question: the question.
            iterations: how many more; by default the number that the question offers.
        """
        return run_blocking(self._calls.extend(question, iterations))

    def answer(self, question: QuestionView, value: object) -> AnswerView:
        """Answer with a value, of the type that the question asks for."""
        return run_blocking(self._calls.answer(question, value))


class SyncQueueCalls:
    """The calls of `QueueCalls`, for synchronous code."""

    def __init__(self, calls: QueueCalls) -> None:
        self._calls = calls

    def overview(self) -> QueueView:
        """Read how many turns are queued and run, how long they wait, and their limits."""
        return run_blocking(self._calls.overview())

    def entries(
        self,
        *,
        state: EntryState | str | None = None,
        session: str | None = None,
        agent: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> EntryPage:
        """List submitted turns, the latest first.

        Args:
            state: only those in this state, such as "failed".
            session: only those of this session.
            agent: only those of this agent.
            limit: how many at most.
            before: the `next` of the page before.
        """
        return run_blocking(
            self._calls.entries(
                state=state, session=session, agent=agent, limit=limit, before=before
            )
        )

    def read(self, entry: int) -> EntryView:
        """Read a submitted turn. Raises NotFoundError."""
        return run_blocking(self._calls.read(entry))

    def retry(self, entry: int) -> EntryView:
        """Queue a turn again that failed, is parked or was dropped. Raises ServiceConflictError for any other."""
        return run_blocking(self._calls.retry(entry))

    def drop(self, entry: int) -> EntryView:
        """Take a turn out that has not begun or that failed. Raises ServiceConflictError for any other."""
        return run_blocking(self._calls.drop(entry))

    def cancel(self, entry: int) -> EntryView:
        """Cancel a submitted turn, wherever it is driven; one that has not begun is dropped."""
        return run_blocking(self._calls.cancel(entry))

    def pause(self) -> QueueView:
        """Begin no more turns; those in progress go on. It needs the scope admin."""
        return run_blocking(self._calls.pause())

    def drain(self) -> QueueView:
        """Accept no more turns; queued ones are done. It needs the scope admin."""
        return run_blocking(self._calls.drain())

    def resume(self) -> QueueView:
        """Begin and accept turns again. It needs the scope admin."""
        return run_blocking(self._calls.resume())


class SyncScheduleCalls:
    """The calls of `ScheduleCalls`, for synchronous code."""

    def __init__(self, calls: ScheduleCalls) -> None:
        self._calls = calls

    def list(self) -> ScheduleList:
        """List the schedules, by name."""
        return run_blocking(self._calls.list())

    def put(self, schedule: NewSchedule) -> ScheduleView:
        """Make a schedule, or replace the one with its name.

        Raises:
            InvalidRequestError: a field is wrong.
        """
        return run_blocking(self._calls.put(schedule))

    def pause(self, name: str) -> ScheduleView:
        """Let a schedule submit no turns."""
        return run_blocking(self._calls.pause(name))

    def resume(self, name: str) -> ScheduleView:
        """Let a schedule submit turns from now on; those of the pause are not made up for."""
        return run_blocking(self._calls.resume(name))

    def run(self, name: str, *, request: str = "") -> EntryView:
        """Submit a turn of a schedule at once.

        Args:
            name: the name of the schedule.
            request: an idempotency key; a second call with it gives the same turn.
        """
        return run_blocking(self._calls.run(name, request=request))

    def history(self, name: str, *, limit: int = 50) -> TickList:
        """List the outcomes of the latest ticks, the latest first."""
        return run_blocking(self._calls.history(name, limit=limit))

    def delete(self, name: str) -> None:
        """Delete a schedule and its history. Turns that were submitted stay."""
        run_blocking(self._calls.delete(name))


class SyncClient:
    """A client of a service, for synchronous code.

    A request that cannot be answered now is repeated: when the connection is lost, when the service
    restarts, and when it asks to wait. A repetition begins nothing twice.

    Args:
        base_url: the address of the service, with the path under which it is mounted.
        api_key: the key; None for a service of this machine without keys.
        patience: seconds for which a request is repeated without success.
        transport: the HTTP client; by default aiohttp.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> client = SyncClient("http://127.0.0.1:8000")
    >>> client.turns, client.sessions, client.questions  # doctest: +ELLIPSIS
    (<...SyncTurnCalls object at ...>, <...SyncSessionCalls object at ...>, <...SyncQuestionCalls object at ...>)
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        patience: PositiveFloat = 60.0,
        transport: Transport | None = None,
    ) -> None:
        self._calls = Client(base_url, api_key=api_key, patience=patience, transport=transport)
        self.turns = SyncTurnCalls(self._calls.turns)
        self.sessions = SyncSessionCalls(self._calls.sessions)
        self.questions = SyncQuestionCalls(self._calls.questions)
        self.media = SyncMediaCalls(self._calls.media)
        self.queue = SyncQueueCalls(self._calls.queue)
        self.schedules = SyncScheduleCalls(self._calls.schedules)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        run_blocking(self._calls.aclose())

    def agents(self) -> AgentList:
        """List the agents of the service, with their tools."""
        return run_blocking(self._calls.agents())

    def workers(self) -> WorkerList:
        """List the workers of the last hour, and the turns that they drive. It needs the scope admin."""
        return run_blocking(self._calls.workers())

    def usage(
        self, by: Literal["agent", "model", "day"] = "agent", *, since: float | None = None
    ) -> UsageView:
        """Add up tokens, also those of failed attempts.

        Args:
            by: the groups of the totals; days are in UTC.
            since: only turns that were opened after this time, in seconds since the epoch.
        """
        return run_blocking(self._calls.usage(by, since=since))

    def run(self, agent: str, message: MessageParts, **keywords: Unpack[StartKeywords]) -> TurnView:
        """Start a turn and wait until it has ended or asks a question; see `turns.start`."""
        return run_blocking(self._calls.run(agent, message, **keywords))

    def follow(
        self, session: str, *, after: str | None = None, until: Literal["turn_end"] | None = None
    ) -> Iterator[StreamItem]:
        """Follow the event log of a session: `for item in client.follow("ada")`.

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
        return iterate_blocking(self._calls.follow(session, after=after, until=until))

    def changes(self) -> Iterator[ChangeItem]:
        """Follow the changes of all sessions and of the queue: `for change in client.changes()`.

        A stream that was lost is opened again, and what changed in between is not known. Therefore each
        connection begins with `ListChanged`, `QueueChanged` and `EndpointsChanged`: read then what you show.

        Raises:
            ServiceError: the service refuses it.
            TransportError: the service cannot be reached.
        """
        return iterate_blocking(self._calls.changes())
