"""Relays answers and cancellations to the process that drives the turn, and performs those of others."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.core.errors import AnswerTypeError, ConfigurationError
from holdfast.core.questions import AnyAnswer
from holdfast.event_log.live.process_exchange import LiveExchange, TenantRuns
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.turns.driver_acts import DriverActs
from holdfast.hosting.turns.relayed_acts import (
    RelayedAnswer,
    RelayedCancellation,
    decode_result,
    encode_answer,
    encode_result,
)
from holdfast.hosting.turns.turn_runner import TurnRunner
from holdfast.journal.encoding import to_json
from holdfast.journal.live_link import DriverAct
from holdfast.runtime.questions.open_question import Receipt
from holdfast.sessions.session_index import SessionIndex


class ActingTenant(Protocol):
    """What the relay needs of the tenant whose acts it relays."""

    tenant: str
    journal: SessionIndex
    runner: TurnRunner
    watch: SessionWatch

    async def agent_of(self, session: str) -> AnyAgent:
        """Return the agent of the last turn of a session."""
        ...

    async def answer(self, session: str, answer: AnyAnswer) -> Receipt:
        """Answer a question."""
        ...

    async def cancel(self, session: str, *, by: str = "", turn: int = 0) -> None:
        """Cancel the last turn of a session."""
        ...


class ActRelay:
    """The way of the acts of one tenant between the processes of its journal.

    Args:
        tenant: performs the acts for the turns that this process drives.
    """

    def __init__(self, tenant: ActingTenant) -> None:
        self._tenant = tenant
        self._acts: DriverActs | None = None

    def connect(self, exchange: LiveExchange) -> None:
        """Connect the tenant with the other processes."""
        tenant, runner = self._tenant, self._tenant.runner
        self._acts = DriverActs(
            tenant.tenant, exchange, self._perform, runner.is_driven, self._is_leased
        )
        look = self._acts.look_for
        runs = TenantRuns(tenant.tenant, tenant.journal, tenant.watch, runner.find_live, look)
        exchange.add_tenant(runs)

    async def look(self) -> None:
        """Perform the acts that other processes ask for. Raises JournalError."""
        if self._acts is not None:
            await self._acts.look([turn.session for turn in self._tenant.runner.driven])

    async def answer(self, session: str, answer: AnyAnswer) -> Receipt | None:
        """Let the process that drives a turn accept an answer; None if this one can do it."""
        result = await self._ask(session, "answer", encode_answer(answer))
        return None if result is None else decode_result(result)

    async def cancel(self, session: str, by: str, turn: int) -> bool:
        """Let the process that drives a turn cancel it; return whether another one drives it."""
        body = to_json(RelayedCancellation(by, turn)).decode()
        return await self._ask(session, "cancel", body) is not None

    async def _ask(self, session: str, act: str, body: str) -> str | None:
        if self._acts is None or self._tenant.runner.is_driven(session):
            return None
        return await self._acts.ask(session, act, body) if await self._is_leased(session) else None

    async def _is_leased(self, session: str) -> bool:
        entries = await self._tenant.journal.find_runs(session, session)
        return any(entry.leased for entry in entries)

    async def _perform(self, act: DriverAct) -> str:
        """Perform an act that another process asked for; return its result as JSON."""
        if act.act == "cancel":
            given = msgspec.json.decode(act.body, type=RelayedCancellation)
            await self._tenant.cancel(act.session, by=given.by, turn=given.turn)
            return "{}"
        try:
            answer = await self._restore_answer(act)
            receipt = Receipt("unknown")
            if answer is not None:
                receipt = await self._tenant.answer(act.session, answer)
        except (AnswerTypeError, ConfigurationError) as error:
            return encode_result(Receipt("mismatch"), str(error))
        return encode_result(receipt)

    async def _restore_answer(self, act: DriverAct) -> AnyAnswer | None:
        given = msgspec.json.decode(act.body, type=RelayedAnswer)
        agent = await self._tenant.agent_of(act.session)
        for question in await agent.questions(act.session):
            if question.key == given.key:
                return given.restore(question)
        return None
