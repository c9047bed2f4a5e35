"""Starts and continues turns as tasks of this process, and publishes their items.

A turn is accepted when its first record is saved. Whoever asked for it may leave then: nothing but an
act or the end of the process stops it. This module must never answer a question.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, Landed, SessionBusyError
from holdfast.core.events import Event, Status, TurnClosed, TurnOpened
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, BreakerChanged, Notice
from holdfast.core.questions import Question
from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.live_run import LiveRun
from holdfast.event_log.live.session_follower import DrivenRuns
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.event_log.text_fold import is_event, turn_of_key
from holdfast.hosting.bound_agents import AnyAgent, plan_of, recover_stream
from holdfast.runtime.result import Result
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.sessions.session_index import SessionIndex

_log = logging.getLogger("holdfast.hosting")

TASK_PREFIX: Final = "holdfast-turn of "
"""Before the name of an agent, this is the name of the tasks of its turns. It is not personal, as a session may be."""

_ENDPOINT_NOTICES: Final = frozenset({AttemptStarted, AttemptAbandoned, BreakerChanged})
"""The notices after which more, or something else, is known of an endpoint."""

BeginStream: TypeAlias = Callable[[], RunStream[Any]]

Observe: TypeAlias = Callable[[str, Event | Notice], None]
"""Called with the name of an agent and an item of its turn; it must be fast."""

NoteWaiting: TypeAlias = Callable[[str, Sequence[str]], None]
"""Called with a session whose turn waits, and the keys of its questions; with none if it must be looked at."""

SECONDS_TO_RESTART = 2.0
"""After how many seconds a client is asked to come back."""


ON_BUSY: Final = "holdfast.on_busy"
"""The name of the value in the metadata of a turn whose request says what happens to a turn in progress."""

INTERRUPT: Final = "interrupt"
"""The turn in progress ends, and this one takes its place."""


class AcceptedTurn(Struct, frozen=True):
    """A turn whose first record is saved.

    Args:
        session: its session.
        number: its number in the session.
        sequence: the number of records of the session before it.
    """

    session: str
    number: int
    sequence: int


async def find_accepted(journal: SessionIndex, request: str) -> AcceptedTurn | None:
    """Return the turn that was started with an idempotency key; None if none was."""
    found = await journal.find_request(request)
    if found is None:
        return None
    session, key = found
    keys = await journal.keys(session)
    return AcceptedTurn(session, turn_of_key(key), list(keys).index(key))


class DrivenTurn:
    """A turn that this process drives.

    Args:
        session: its session.
        agent: the name of its agent.
    """

    __slots__ = (
        "accepted",
        "agent",
        "cancelled_by",
        "has_answers",
        "has_closed",
        "is_cancelled",
        "is_left",
        "is_unfinished",
        "live",
        "opened",
        "session",
        "stream",
        "task",
    )

    def __init__(self, session: str, agent: str) -> None:
        self.session = session
        self.agent = agent
        self.accepted: asyncio.Future[AcceptedTurn | None]
        self.accepted = asyncio.get_running_loop().create_future()
        """The new turn once its first record is saved, why it was not accepted, or None."""
        self.live: LiveRun | None = None
        """Its items as readers see them, from the first one on."""
        self.opened: TurnOpened | None = None
        """The event that opened it, if it was opened or looked for here."""
        self.stream: RunStream[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.has_answers = False
        """Whether an answer was saved since the turn was last looked at."""
        self.has_closed = False
        """Whether the turn has ended in the journal, and only the task has not."""
        self.is_cancelled = False
        self.cancelled_by = ""
        self.is_left = False
        """Whether the turn is to stay open, since the process stops."""
        self.is_unfinished = False
        """Whether the turn stopped without its end in the journal."""

    def cancel(self, by: str = "") -> None:
        """Cancel the turn, also before it has begun. `by` is who does it."""
        self.is_cancelled, self.cancelled_by = True, by
        if self.stream is not None:
            self.stream.cancel(by=by)

    async def cancel_after_writes(self, by: str) -> None:
        """Cancel the turn once no writing tool is under way. `by` is who does it."""
        self.is_cancelled, self.cancelled_by = True, by
        if self.stream is not None:
            await self.stream.cancel_after_writes(by=by)

    async def leave(self, grace: float) -> None:
        """Stop driving the turn and leave it open; return when that is done.

        Args:
            grace: the longest time to wait for writing tools, in seconds.
        """
        self.is_left = True
        if self.live is not None:
            self.live.close()
        if self.stream is not None:
            await self.stream.leave_open(grace=grace)
        if self.task is not None:
            await asyncio.wait([self.task])


class TurnRunner:
    """The turns of one tenant that this process drives.

    Args:
        watch: wakes the readers of a session when a turn begins or ends.
        runs: shows the runs to their readers.
    """

    def __init__(self, watch: SessionWatch, runs: DrivenRuns) -> None:
        self._watch = watch
        self._runs = runs
        self._driven: dict[str, DrivenTurn] = {}
        self.is_closing = False
        self.observe: Observe | None = None
        self.note_item: Callable[[DrivenTurn, Event | Notice], None] | None = None
        """Called with each item of a turn but its text; it must be fast."""
        self.note_waiting: NoteWaiting | None = None
        self.note_accepted: Callable[[], None] | None = None
        """Called by the task whose turn is accepted, or whose answer is saved."""
        self.note_unfinished: Callable[[str], None] | None = None
        """Called with the session of a turn whose end could not be saved."""

    def find(self, session: str) -> DrivenTurn | None:
        """Return the turn of a session that is driven here; None if there is none."""
        return self._driven.get(session)

    @property
    def driven_sessions(self) -> tuple[str, ...]:
        """The sessions whose last turn this process drives."""
        return tuple(self._driven)

    def is_driven(self, session: str) -> bool:
        """Whether this process drives the last turn of a session."""
        return session in self._driven

    @property
    def driven(self) -> tuple[DrivenTurn, ...]:
        """All turns that are driven here."""
        return tuple(self._driven.values())

    async def start(self, session: str, begin: BeginStream, agent: AnyAgent) -> AcceptedTurn | None:
        """Start a turn; return it once its first record is saved, or None if it was not needed.

        Args:
            session: the session.
            begin: makes the stream of the turn.
            agent: the agent, bound to the journal.

        Raises:
            SessionBusyError: a turn of the session is in progress.
            ShuttingDownError: this process stops.
            HoldfastError: the turn was not accepted; an argument may be wrong.
        """
        await self.wait_for_hooks(session)
        if session in self._driven:
            raise SessionBusyError(session, "a turn of it is in progress")
        turn = self._drive(session, begin, agent)
        accepted = await asyncio.shield(turn.accepted)
        self.report_accepted()
        return accepted

    def resume(self, session: str, agent: AnyAgent) -> None:
        """Continue or try again the last turn of a session, unless it is driven here already."""
        if session not in self._driven:
            self._drive(session, lambda: agent.resume_stream(session), agent)

    def recover(self, session: str, agent: AnyAgent) -> None:
        """Continue the turn of a session if it was interrupted and is not driven here already."""
        if session not in self._driven:
            self._drive(session, lambda: recover_stream(agent, session), agent)

    def note_answer(self, session: str, agent: AnyAgent) -> None:
        """Continue a turn after an answer was saved; a turn that is driven here looks again."""
        self.report_accepted()
        turn = self._driven.get(session)
        if turn is not None:
            turn.has_answers = True
        elif not self.is_closing:
            self.recover(session, agent)

    def report_accepted(self) -> None:
        """Note that the request of the current task is saved, and happens without it."""
        if self.note_accepted is not None:
            self.note_accepted()

    async def wait_accepted(self, session: str) -> None:
        """Wait until the turn of a session that is driven here is accepted or refused."""
        turn = self._driven.get(session)
        if turn is not None:
            await asyncio.wait([turn.accepted])

    async def wait(self, session: str, seconds: float | None = None) -> None:
        """Wait until the turn of a session is no longer driven here, at most for some seconds."""
        turn = self._driven.get(session)
        if turn is not None and turn.task is not None:
            await asyncio.wait([turn.task], timeout=seconds)

    async def wait_for_hooks(self, session: str) -> None:
        """Wait for the last hooks after the end of a turn that was driven here."""
        turn = self._driven.get(session)
        if turn is not None and turn.has_closed and turn.task is not None:
            await asyncio.wait([turn.task])

    async def close(self, grace: float) -> None:
        """Accept no more turns, and leave those open that are driven here; one that is held, later.

        Args:
            grace: the longest time to wait for writing tools, in seconds.
        """
        self.is_closing = True
        await asyncio.gather(*[self._leave(turn, grace) for turn in self.driven])

    async def _leave(self, turn: DrivenTurn, grace: float) -> None:
        """Leave a turn open once nobody holds its session. It may have ended by then."""
        await self._watch.wait_until_free(turn.session)
        await turn.leave(grace)

    def _drive(self, session: str, begin: BeginStream, agent: AnyAgent) -> DrivenTurn:
        if self.is_closing:
            raise ShuttingDownError
        turn = self._driven[session] = DrivenTurn(session, plan_of(agent).name)
        self._runs.show(session)
        name = f"{TASK_PREFIX}{turn.agent}"
        turn.task = asyncio.create_task(self._run(turn, begin, agent), name=name)
        self._watch.wake(session)
        return turn

    async def _run(self, turn: DrivenTurn, begin: BeginStream, agent: AnyAgent) -> None:
        session, result = turn.session, None
        is_known = False  # the questions of the turn
        try:
            result = await self._read_stream(turn, begin)
            while result is not None and await _has_new_answers(turn, result, agent):
                result = await self._read_stream(turn, lambda: recover_stream(agent, session))
            is_known = True
        except HoldfastError as error:
            turn.is_unfinished = turn.accepted.done() and not turn.has_closed
            _refuse(turn, error)
        except Exception as error:  # noqa: BLE001  # REASON: an agent's own error ends its turn only
            _log.error("a turn ended with an error of its agent: %s", type(error).__name__)
            _refuse(turn, error)
        finally:
            del self._driven[session]
            self._runs.remove(session)
            if not turn.accepted.done():
                _end_unaccepted(turn)
            self._watch.wake(session)
            if turn.is_unfinished and self.note_unfinished is not None:
                self.note_unfinished(session)
            if result is not None and result.questions and self.note_waiting is not None:
                questions = result.questions if is_known else ()
                self.note_waiting(session, [question.key for question in questions])

    async def _read_stream(self, turn: DrivenTurn, begin: BeginStream) -> Result[Any] | None:
        """Publish a stream to its end; return the result, or None if it was cut short."""
        async with begin() as stream:
            turn.stream = stream
            stream.leave_questions()
            stream.deliver_live_while(lambda: turn.live is not None and turn.live.readers > 0)
            if turn.is_cancelled:
                stream.cancel(by=turn.cancelled_by)
            elif turn.is_left:
                await stream.leave_open(grace=0)
            try:
                async for item in stream:
                    if type(item) is TextDelta and turn.live is not None:  # most items
                        turn.live.publish(item)
                    elif not isinstance(item, Question):  # its event says that it was asked
                        self._publish(turn, stream, item)
            finally:
                turn.stream = None
                if turn.live is not None:
                    turn.live.close()
                    turn.live = None
                    self._runs.show(turn.session)
            return None if turn.is_cancelled or turn.is_left else stream.result

    def _publish(self, turn: DrivenTurn, stream: RunStream[Any], item: Event | Notice) -> None:
        live = turn.live
        if live is None:
            # The lease is held from now on, so nobody else saves anything in between.
            live = turn.live = LiveRun(stream.saved_before, encode_item)
            self._runs.show(turn.session, live)
            self._watch.wake(turn.session)
        if is_event(item):
            turn.has_closed = isinstance(item, TurnClosed)
            if isinstance(item, TurnOpened):
                turn.opened = item
            if isinstance(item, TurnOpened) and not turn.accepted.done():
                number = turn_of_key(item.key)
                turn.accepted.set_result(AcceptedTurn(turn.session, number, live.sequence))
            self._watch.note_record(turn.session)
        elif type(item) in _ENDPOINT_NOTICES:
            self._watch.feed.note_topic("endpoints")
        live.publish(item)
        if self.observe is not None:
            self.observe(turn.agent, item)
        if self.note_item is not None:
            self.note_item(turn, item)


def _refuse(turn: DrivenTurn, error: Exception) -> None:
    """Give whoever started a turn the error for which it was not accepted; a later failure is in the journal."""
    if not turn.accepted.done():
        turn.accepted.set_exception(error)
        turn.accepted.exception()  # it may be that nobody waits any more


def _end_unaccepted(turn: DrivenTurn) -> None:
    """Let whoever started a turn know that it did not begin."""
    if turn.is_left:
        _refuse(turn, ShuttingDownError())
    else:
        turn.accepted.set_result(None)


async def _has_new_answers(turn: DrivenTurn, result: Result[Any], agent: AnyAgent) -> bool:
    """Whether a turn that waits was given an answer meanwhile."""
    while result.status is Status.WAITING and not turn.is_left:
        turn.has_answers = False
        still_open = {question.key for question in await agent.questions(turn.session)}
        if any(question.key not in still_open for question in result.questions):
            return True
        if not turn.has_answers:
            return False
    return False


class ShuttingDownError(HoldfastError):
    """The process stops and accepts no more turns; another process, or the next one, does."""

    default_category = ErrorCategory.TRANSIENT

    def __init__(self) -> None:
        safe = "The service is shutting down and accepts no more turns."
        info = ErrorInfo(
            category=ErrorCategory.TRANSIENT,
            landed=Landed.NO,
            retry_after=SECONDS_TO_RESTART,
            safe=safe,
            code="shutting_down",
        )
        super().__init__(safe, info=info)
