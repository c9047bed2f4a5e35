"""Starts and resumes turns as tasks of this process, and publishes what they do.

A turn is accepted when its first record is saved. Whoever asked for it may leave then: nothing but an
act or the end of the process stops it. This module must never answer a question.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from holdfast.core.errors import HoldfastError, SessionBusyError
from holdfast.core.events import Status, TurnClosed
from holdfast.core.questions import Question
from holdfast.runtime.result import Result
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.server.bound_agents import AnyAgent
from holdfast.server.event_log.encoding import encode_item
from holdfast.server.event_log.text_fold import is_event, turn_of_key
from holdfast.server.live.live_run import LiveRun
from holdfast.server.live.session_watch import SessionWatch
from holdfast.sessions.session_index import SessionIndex

_log = logging.getLogger("holdfast.server")

BeginStream: TypeAlias = Callable[[], RunStream[Any]]


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


class DrivenTurn:
    """A turn that this process drives.

    Args:
        session: its session.
        live: what readers see of it.
    """

    __slots__ = (
        "accepted",
        "has_answers",
        "has_closed",
        "is_cancelled",
        "live",
        "session",
        "stream",
        "task",
    )

    def __init__(self, session: str, live: LiveRun) -> None:
        self.session = session
        self.live = live
        self.accepted: asyncio.Future[AcceptedTurn] = asyncio.get_running_loop().create_future()
        """The turn, once its first record is saved; or why it was not accepted."""
        self.stream: RunStream[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.has_answers = False
        """Whether an answer was saved since the turn was last looked at."""
        self.has_closed = False
        """Whether the turn has ended in the journal, and only the task has not."""
        self.is_cancelled = False


class TurnRunner:
    """The turns of one tenant that this process drives.

    Args:
        journal: the journal of the tenant.
        watch: is told when a turn begins or ends.
    """

    def __init__(self, journal: SessionIndex, watch: SessionWatch) -> None:
        self._journal = journal
        self._watch = watch
        self._driven: dict[str, DrivenTurn] = {}

    def find(self, session: str) -> DrivenTurn | None:
        """Return the turn of a session that is driven here; None if there is none."""
        return self._driven.get(session)

    def find_live(self, session: str) -> LiveRun | None:
        """Return what readers see of the turn that is driven here; None if there is none."""
        turn = self._driven.get(session)
        return None if turn is None else turn.live

    @property
    def driven(self) -> tuple[DrivenTurn, ...]:
        """All turns that are driven here."""
        return tuple(self._driven.values())

    async def start(self, session: str, begin: BeginStream, agent: AnyAgent) -> AcceptedTurn:
        """Start a turn; return it once its first record is saved.

        Args:
            session: the session.
            begin: makes the stream of the turn.
            agent: the agent, bound to the journal.

        Raises:
            SessionBusyError: a turn of the session is in progress.
            HoldfastError: the turn was not accepted; an argument may be wrong.
        """
        known = self._driven.get(session)
        if known is not None and known.has_closed and known.task is not None:
            await asyncio.wait([known.task])
        turn = await self._drive(session, begin, agent)
        return await asyncio.shield(turn.accepted)

    async def resume(self, session: str, agent: AnyAgent) -> None:
        """Continue the last turn of a session, unless it is driven here already."""
        if session not in self._driven:
            await self._drive(session, lambda: agent.resume_stream(session), agent)

    async def note_answer(self, session: str, agent: AnyAgent) -> None:
        """Continue a turn after an answer was saved; a turn that is driven here looks again."""
        turn = self._driven.get(session)
        if turn is None:
            await self.resume(session, agent)
        else:
            turn.has_answers = True

    def cancel(self, session: str) -> bool:
        """Cancel the turn of a session; return whether it is driven here."""
        turn = self._driven.get(session)
        if turn is None or turn.stream is None:
            return False
        turn.is_cancelled = True
        turn.stream.cancel()
        return True

    async def wait(self, session: str, seconds: float) -> None:
        """Wait until the turn of a session is no longer driven here, at most for some seconds."""
        turn = self._driven.get(session)
        if turn is not None and turn.task is not None:
            await asyncio.wait([turn.task], timeout=seconds)

    async def _drive(self, session: str, begin: BeginStream, agent: AnyAgent) -> DrivenTurn:
        sequence = await self._count_records(session)
        if session in self._driven:
            raise SessionBusyError(session, "a turn of it is in progress")
        turn = self._driven[session] = DrivenTurn(session, LiveRun(sequence, encode_item))
        name = f"holdfast-turn-{session}"
        turn.task = asyncio.create_task(self._run(turn, begin, agent), name=name)
        self._watch.wake(session)
        return turn

    async def _count_records(self, session: str) -> int:
        for entry in await self._journal.find_runs(session, session):
            return entry.records
        return 0

    async def _run(self, turn: DrivenTurn, begin: BeginStream, agent: AnyAgent) -> None:
        session = turn.session
        try:
            result = await self._read_stream(turn, begin)
            while result is not None and await _has_new_answers(turn, result, agent):
                result = await self._read_stream(turn, lambda: agent.resume_stream(session))
        except HoldfastError as error:
            _refuse(turn, error)
        except Exception as error:  # noqa: BLE001  # REASON: an agent's own error ends its turn only
            _log.error("a turn ended with an error of its agent: %s", type(error).__name__)
            _refuse(turn, error)
        finally:
            del self._driven[session]
            if not turn.accepted.done():
                turn.accepted.cancel()
            turn.live.close()
            self._watch.wake(session)

    async def _read_stream(self, turn: DrivenTurn, begin: BeginStream) -> Result[Any] | None:
        """Publish a stream to its end; return the result, or None after a cancellation."""
        is_located = False
        async with begin() as stream:
            turn.stream = stream
            stream.leave_questions()
            async for item in stream:
                if isinstance(item, Question):
                    continue  # its event says that it was asked
                if is_event(item):
                    if not is_located:
                        is_located = True
                        await self._correct_sequence(turn, item.key)
                    turn.has_closed = isinstance(item, TurnClosed)
                    if not turn.accepted.done():
                        accepted = AcceptedTurn(
                            turn.session, turn_of_key(item.key), turn.live.sequence
                        )
                        turn.accepted.set_result(accepted)
                turn.live.publish(item)
            return None if turn.is_cancelled else stream.result

    async def _correct_sequence(self, turn: DrivenTurn, key: str) -> None:
        """Find the number of the first event, since something may have been saved before it."""
        saved = await self._journal.read(turn.session, turn.live.sequence)
        before = next((at for at, record in enumerate(saved) if record.event.key == key), 0)
        if before:
            turn.live.correct_sequence(turn.live.sequence + before)


def _refuse(turn: DrivenTurn, error: Exception) -> None:
    """Tell whoever started a turn why it was not accepted; a later failure is in the journal."""
    if not turn.accepted.done():
        turn.accepted.set_exception(error)
        turn.accepted.exception()  # it may be that nobody waits any more


async def _has_new_answers(turn: DrivenTurn, result: Result[Any], agent: AnyAgent) -> bool:
    """Whether a turn that waits was given an answer meanwhile."""
    while result.status is Status.WAITING:
        turn.has_answers = False
        still_open = {question.key for question in await agent.questions(turn.session)}
        if any(question.key not in still_open for question in result.questions):
            return True
        if not turn.has_answers:
            return False
    return False
