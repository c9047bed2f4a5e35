"""Turns in the background for an application with routes of its own.

`create_app` serves the same tenants with the same lifetime over HTTP. This module must never speak
HTTP, and must never hold a truth that is not in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Self, Unpack

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import AnyAnswer, AnyQuestion
from holdfast.event_log.live.reading import ReadingEnd
from holdfast.event_log.positions import START, parse_position
from holdfast.event_log.stream_items import StreamItem
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.hosting.turns.turn_runner import AcceptedTurn
from holdfast.journal.port import Journal
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.runtime.questions.open_question import Receipt
from holdfast.runtime.turn_state.turn_input import Prompt
from holdfast.server.api.session_reading import read_turn
from holdfast.server.api.views import TurnView
from holdfast.sessions.sessions import Sessions


class Service:
    """Agents whose turns run in the background: `async with Service(agents, journal=...) as service`.

    A turn belongs to the process and not to whoever started it. At the begin of the block, the turns
    that a crash left open are continued. At its end, or at SIGTERM and SIGINT, no more turns are
    accepted, streams end, and turns in progress stay open for the next process. A turn begins at once in
    this process, with any journal: it passes no queue, and the limits of the queue do not count it.

    Args:
        agents: one agent, or several with different names.
        journal: the journal or its address; by default that of the first agent, or memory.
        grace: how long the end waits for writing tools, in seconds.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> import asyncio
    >>> from holdfast import Agent
    >>> from holdfast.testing import ScriptedModel
    >>> async def main():
    ...     async with Service(Agent(ScriptedModel("Hello."), name="greeter")) as service:
    ...         turn = await service.start("greeter", "Hi.", session="ada", request="m1")
    ...         return await service.wait(turn)
    >>> asyncio.run(main()).text
    'Hello.'
    """

    def __init__(
        self,
        agents: AnyAgent | Iterable[AnyAgent],
        *,
        journal: Journal | str | None = None,
        grace: float = 60.0,
    ) -> None:
        self._tenants = ServiceTenants(agents, journal)
        self._lifetime = ServiceLifetime(self._tenants, grace)
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self._lifetime.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._lifetime.__aexit__(kind, error, trace)

    @property
    def _tenant(self) -> TenantService:
        if not self._is_open:
            fix = "Use it in `async with Service(...) as service:`"
            raise ConfigurationError("Service", "is not open", fix=fix)
        return self._tenants.for_tenant()

    @property
    def sessions(self) -> Sessions:
        """The sessions: list, search, fork, rewind, compact, export and delete."""
        return self._tenant.sessions

    async def start(
        self, agent: str, message: Prompt, **keywords: Unpack[RunKeywords[Any]]
    ) -> AcceptedTurn:
        """Start a turn, and return it once its first record is saved; it goes on by itself.

        Args:
            agent: the name of the agent.
            message: the message.
            keywords: as for `Agent.run`. Without `session=`, a new one is made. With a `request=`
                that is known, nothing is started: the turn of the first call is returned.

        Raises:
            SessionBusyError: a turn of the session is in progress.
            ConfigurationError: an argument is wrong.
            HoldfastError: the process stops, or the journal cannot be written.
        """
        return await self._tenant.start(agent, message, **keywords)

    async def find_request(self, request: str) -> AcceptedTurn | None:
        """Return the turn that was started with this `request=`; None if there is none."""
        return await self._tenant.find_request(request)

    async def wait(self, turn: AcceptedTurn, *, seconds: float | None = None) -> TurnView:
        """Return a turn once it has ended or asks a question, or as it is after some seconds.

        The hooks `after_turn` have run by then, if this process drives the turn.

        Args:
            turn: the result of `start` or `find_request`.
            seconds: the longest time to wait; None waits without limit.

        Raises:
            ConfigurationError: there is no such turn.
        """
        check_value("seconds", seconds, PositiveFloat | None)
        tenant = self._tenant
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await tenant.reader.wait_for_rest(turn.session, turn.number, None)
                await tenant.runner.wait_for_hooks(turn.session)
        return await read_turn(tenant, turn.session, turn.number)

    async def read(self, session: str, turn: int) -> TurnView:
        """Return a turn as it is now. Raises ConfigurationError if it does not exist."""
        return await read_turn(self._tenant, session, turn)

    async def follow(
        self, session: str, position: str = "", *, turn: int | None = None
    ) -> AsyncGenerator[tuple[str, StreamItem]]:
        """Yield the items that a reader at a position misses, and then the new ones; each with the next position.

        A reader that comes back with the last position, in any process, misses nothing and gets
        nothing twice. The last item is an `EndItem` when the process stops or the turn has ended.

        Args:
            session: the session.
            position: the position of the reader; "" for the beginning.
            turn: the number of the turn whose end is the end; None follows the session.

        Raises:
            ConfigurationError: it is not a position.
        """
        begin = parse_position(position, "position") if position else START
        end = ReadingEnd(turn) if turn is not None else None
        async with aclosing(self._tenant.reader.follow(session, begin, end)) as entries:
            async for entry in entries:
                yield str(entry.position), entry.item

    async def questions(self, session: str) -> tuple[AnyQuestion, ...]:
        """Return the open questions of a session. Raises ConfigurationError if it does not exist."""
        return await (await self._tenant.agent_of(session)).questions(session)

    async def answer(self, session: str, answer: AnyAnswer) -> Receipt:
        """Answer a question of a turn; if the answer is accepted, the turn goes on.

        Args:
            session: the session.
            answer: the result of a method of the question.

        Raises:
            AnswerTypeError: the question asks for another type.
            ConfigurationError: there is no such session, or the arguments do not fit the tool.
        """
        return await self._tenant.answer(session, answer)

    async def cancel(self, session: str, *, by: str = "") -> None:
        """Cancel the last turn of a session, if it has not ended; return when that is saved.

        Args:
            session: the session.
            by: who cancels it, for the journal.

        Raises:
            ConfigurationError: there is no such session.
        """
        await self._tenant.cancel(session, by=by)
