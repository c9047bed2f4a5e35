"""Relays answers and cancellations to the process that drives the turn, and performs those of others.

Acts and their results cross processes as texts. They are saved, and the driver performs them. The
caller waits until the driver has performed its act, or until nobody drives the turn any more. This
module must never perform an act twice in one process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Protocol

import msgspec
from msgspec import Struct

from holdfast.core.acts import Act
from holdfast.core.errors import (
    AnswerTypeError,
    ConfigurationError,
    HoldfastError,
    SessionBusyError,
)
from holdfast.core.questions import Answer, AnyAnswer, AnyQuestion, plain_form, restore_answer
from holdfast.event_log.live.process_exchange import LiveExchange, TenantRuns
from holdfast.event_log.live.session_follower import DrivenRuns
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.turns.turn_runner import TurnRunner
from holdfast.journal.encoding import to_json
from holdfast.journal.live_link import DriverAct
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.questions.open_question import Receipt
from holdfast.sessions.session_index import SessionIndex

LONGEST_WAIT = 10.0
"""Seconds to wait for a driver that does not answer."""

_PAUSE = 1.0  # seconds between two looks, should a message be lost
_log = logging.getLogger("holdfast.hosting")


class ActingTenant(Protocol):
    """The tenant whose acts are relayed, as the relay uses it."""

    tenant: str
    journal: SessionIndex
    runner: TurnRunner
    watch: SessionWatch
    driven: DrivenRuns

    async def agent_of(self, session: str) -> AnyAgent:
        """Return the agent of the last turn of a session."""
        ...

    async def answer(self, session: str, answer: AnyAnswer) -> Receipt:
        """Answer a question."""
        ...

    async def cancel(self, session: str, *, by: str = "", turn: int = 0) -> None:
        """Cancel the last turn of a session."""
        ...

    async def interrupt(self, session: str, turn: int, *, by: str = "") -> None:
        """Cancel a turn once no writing tool is under way."""
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
        runs = TenantRuns(
            tenant.tenant, tenant.journal, tenant.watch, tenant.driven.find_live, look
        )
        exchange.add_tenant(runs)

    async def look(self) -> None:
        """Perform the acts that other processes ask for. Raises JournalError."""
        if self._acts is not None:
            await self._acts.look([turn.session for turn in self._tenant.runner.driven])

    async def answer(self, session: str, answer: AnyAnswer) -> Receipt | None:
        """Let the process that drives a turn accept an answer; None if this one can do it."""
        result = await self._ask(session, "answer", encode_answer(answer))
        return None if result is None else decode_result(result)

    async def cancel(self, session: str, given: RelayedCancellation) -> bool:
        """Let the process that drives a turn cancel it; return whether another one drives it."""
        body = to_json(given).decode()
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
            if given.after_writes:
                await self._tenant.interrupt(act.session, given.turn, by=given.by)
            else:
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


class DriverActs:
    """The acts of one tenant that cross processes.

    Args:
        tenant: the tenant.
        exchange: the link to the other processes.
        perform: performs an act for a run that this process drives, and returns its result as JSON.
        is_driven: whether this process drives a run.
        is_leased: whether any process drives a run.
    """

    def __init__(
        self,
        tenant: str,
        exchange: LiveExchange,
        perform: Callable[[DriverAct], Awaitable[str]],
        is_driven: Callable[[str], bool],
        is_leased: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._tenant = tenant
        self._exchange = exchange
        self._perform = perform
        self._is_driven = is_driven
        self._is_leased = is_leased
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._looks: set[asyncio.Task[None]] = set()

    async def ask(self, session: str, act: str, body: str) -> str | None:
        """Let the driver of a run perform an act; return its result, or None if nobody drives it.

        Args:
            session: the run.
            act: the name of the act.
            body: the arguments of the act, as JSON.

        Raises:
            JournalError: the act could not be saved.
            SessionBusyError: the driver did not answer in time; it may perform the act later.
        """
        asked = DriverAct(new_run_id(), session, act, body)
        link, done = self._exchange.link, self._exchange.expect_result(asked.id)
        await link.add_act(self._tenant, asked)
        self._exchange.announce_act(self._tenant, session)
        end = monotonic() + LONGEST_WAIT
        try:
            while monotonic() < end:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE):
                        await done.wait()
                result = await link.take_result(asked.id)
                if result is not None:
                    return result
                if not await self._is_leased(session):
                    await link.forget_act(asked.id)
                    return None
                done.clear()
        finally:
            self._exchange.forget_result(asked.id)
        raise SessionBusyError(session, "the process that drives its turn does not answer")

    def look_for(self, session: str) -> None:
        """Perform the acts for a run, if this process drives it."""
        if self._is_driven(session):
            task = asyncio.create_task(self.look([session]))
            self._looks.add(task)  # so that it is not collected
            task.add_done_callback(self._looks.discard)

    async def look(self, sessions: list[str]) -> None:
        """Begin to perform the acts for runs that this process drives."""
        if not sessions:
            return
        try:
            acts = await self._exchange.link.find_acts(self._tenant, sessions)
        except HoldfastError as error:
            _log.info("the acts of other processes cannot be read now: %s", error)
            return
        for act in acts:
            if act.id not in self._under_way:
                self._under_way[act.id] = asyncio.create_task(self._perform_one(act))

    async def _perform_one(self, act: DriverAct) -> None:
        try:
            result = await self._perform(act)
            await self._exchange.link.finish_act(act.id, result)
            self._exchange.announce_result(self._tenant, act.session, act.id)
        except HoldfastError as error:
            _log.warning("an act of another process failed: %s", error)
        finally:
            self._under_way.pop(act.id, None)


class RelayedAnswer(Struct, frozen=True):
    """An answer on its way to another process, as JSON values."""

    key: str
    binding: str
    value: object
    by: str
    expires_at: float | None
    act: Act | None = None

    def restore(self, question: AnyQuestion) -> AnyAnswer:
        """Return the answer in the type that its question asks for. Raises AnswerTypeError."""
        value = restore_answer(question, self.value)
        return Answer(
            self.key, value, self.binding, by=self.by, expires_at=self.expires_at, act=self.act
        )


class RelayedCancellation(Struct, frozen=True):
    """A cancellation on its way to another process: who cancels which turn, 0 for any, and whether after its writes."""

    by: str = ""
    turn: int = 0
    after_writes: bool = False


class _Result(Struct, frozen=True):
    receipt: Receipt = Receipt()
    problem: str = ""


def encode_answer(answer: AnyAnswer) -> str:
    """Return an answer as JSON, for `RelayedAnswer`."""
    relayed = RelayedAnswer(
        answer.key,
        answer.binding,
        plain_form(answer.value),
        by=answer.by,
        expires_at=answer.expires_at,
        act=answer.act,
    )
    return to_json(relayed).decode()


def encode_result(receipt: Receipt, problem: str = "") -> str:
    """Return the result of an answer as JSON; `problem` says why it does not fit its question."""
    return to_json(_Result(receipt, problem)).decode()


def decode_result(text: str) -> Receipt:
    """Return the receipt for an answer that another process was given.

    Raises:
        ConfigurationError: the answer does not fit its question.

    >>> decode_result(encode_result(Receipt("answered")))
    Receipt(reason='answered')
    """
    result = msgspec.json.decode(text, type=_Result)
    if result.problem:
        raise ConfigurationError("answer", result.problem)
    return result.receipt
