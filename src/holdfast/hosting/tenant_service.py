"""The service as one tenant sees it: the agents by name, its sessions, turns and readers.

Every route and every protocol goes through `TenantService`. This module must never speak HTTP, and
must never decide who may do something.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Unpack
from uuid import uuid4

import msgspec
from msgspec import Struct

from holdfast.core.acts import Act
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.effects import TITLES
from holdfast.core.errors import ConfigurationError, HoldfastError, SessionBusyError, WaitingError
from holdfast.core.events import QuestionAnswered
from holdfast.core.json_schema import JsonSchema
from holdfast.core.questions import AnyAnswer
from holdfast.event_log.live.last_turn import LastTurn
from holdfast.event_log.live.process_exchange import LiveExchange
from holdfast.event_log.live.reading import SessionReader
from holdfast.event_log.live.session_follower import DrivenRuns, VisibleRuns, share_reader
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.hosting.bound_agents import AnyAgent, bind_agent, close_open_turn, plan_of
from holdfast.hosting.turn_queue import TurnQueue, refuse_resume
from holdfast.hosting.turns.act_relay import ActRelay, RelayedCancellation
from holdfast.hosting.turns.open_turns import OpenTurns
from holdfast.hosting.turns.turn_runner import (
    INTERRUPT,
    ON_BUSY,
    AcceptedTurn,
    ShuttingDownError,
    TurnRunner,
    find_accepted,
)
from holdfast.hosting.turns.unread_turns import ON_DISCONNECT, OnDisconnect, UnreadTurns
from holdfast.journal.encoding import encode_event
from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.port import CountsBytes, Journal, RunEntry, SharedJournal
from holdfast.models.prices import Prices
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.runtime.finalize import Parking
from holdfast.runtime.questions.open_question import Receipt
from holdfast.runtime.turn_state.turn_input import Prompt
from holdfast.sessions.session_index import to_index
from holdfast.sessions.sessions import Sessions
from holdfast.telemetry.observers import CALLER_TRACE

_MOST_LOOKED_AT = 100
_MOST_INTERRUPTIONS = 10
_IN_PROGRESS = ("running", "open")
_log = logging.getLogger("holdfast.hosting")

_PATIENCE = (
    10.0  # seconds to wait for somebody who still has the session of a turn that is given up
)


class TenantService:
    """The agents, sessions and turns of one tenant in this process.

    Args:
        tenant: the tenant.
        agents: the agents by name.
        journal: the journal of the tenant.
        options: how the service shows its turns.
    """

    def __init__(
        self,
        tenant: str,
        agents: dict[str, AnyAgent],
        journal: Journal,
        options: ServiceOptions | None = None,
    ) -> None:
        self.tenant = tenant
        options = options or ServiceOptions()
        self.holding = frozenset(options.hold_text)
        """The agents whose text is sent once its reply is accepted, where it cannot be withdrawn."""
        self.strict_fields = options.strict_fields
        """Whether OpenAI's protocols refuse a field that has no effect here."""
        self.journal = to_index(journal)
        self._agents = {
            name: bind_agent(agent, journal, options.prices) for name, agent in agents.items()
        }
        self.watch = SessionWatch()
        self.driven = DrivenRuns()
        """The runs that this process drives, as their readers see them."""
        self.runner = TurnRunner(self.watch, self.driven)
        self.clock = plan_of(next(iter(agents.values()))).clock
        """The clock of the agents, which sets until when a question may be answered."""
        self.open_turns = OpenTurns(self.journal, self.runner, self._agents, self.clock)
        is_shared = isinstance(journal, SharedJournal)
        self._runs = VisibleRuns(tenant, self.driven, is_shared=is_shared)
        self.reader = SessionReader(self.journal, self._runs, self.watch)
        share_reader(journal, self.reader)
        self._relay = ActRelay(self)
        self.on_disconnect = options.on_disconnect
        """What happens to the turns of an agent that nobody reads, by its name."""
        self.unread_turns = UnreadTurns(
            self.journal, self.runner, options.on_disconnect, options.unread_seconds
        )
        self._seen: dict[str, RunEntry] = {}
        self.queue: TurnQueue | None = None
        """The inbox, if turns go through it."""
        self.drives = True
        """Whether this process drives turns."""
        self._interruptions: set[asyncio.Task[None]] = set()

    @property
    def sessions(self) -> Sessions:
        """The sessions of the tenant: list, search, fork, rewind, compact, export and delete."""
        return next(iter(self._agents.values())).sessions

    @property
    def has_prices(self) -> bool:
        """Whether turns of an agent have a cost."""
        return any(plan_of(agent).prices is not None for agent in self._agents.values())

    @property
    def agents(self) -> tuple[AnyAgent, ...]:
        """The agents, in the order in which they were given."""
        return tuple(self._agents.values())

    def agent(self, name: str) -> AnyAgent:
        """Return an agent. Raises ConfigurationError if there is none with this name."""
        agent = self._agents.get(name)
        if agent is None:
            known = ", ".join(sorted(self._agents))
            raise ConfigurationError("agent", f"there is no agent {name!r}", fix=f"Use: {known}")
        return agent

    def find_agent(self, name: str) -> AnyAgent | None:
        """Return an agent; None if there is none with this name."""
        return self._agents.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the agents."""
        return tuple(self._agents)

    async def agent_of(self, session: str) -> AnyAgent:
        """Return the agent of the last turn of a session. Raises ConfigurationError."""
        return self.agent(await self._read_agent_name(session))

    async def _read_agent_name(self, session: str) -> str:
        for entry in await self.journal.find_runs(session, session):
            return entry.agent
        raise unknown_session(session)

    def queue_turns(self, inbox: Inbox, *, drives: bool) -> None:
        """Put turns into an inbox from now on, from where workers take them.

        Args:
            inbox: the inbox.
            drives: whether a worker of this process is one of them.
        """
        self.queue = TurnQueue(self.tenant, inbox, self.journal, self.watch)
        self.drives = drives

    async def start(
        self,
        agent: str,
        message: Prompt,
        output: JsonSchema | None = None,
        **keywords: Unpack[RunKeywords[Any]],
    ) -> AcceptedTurn:
        """Start a turn; return it once it has begun. With a known `request`, return that turn.

        Args:
            agent: the name of the agent.
            message: the message.
            output: the type of the output; None for that of the agent.
            keywords: as for `Agent.run`. Without `session`, a new one is made.

        Raises:
            SessionBusyError: a turn of the session is in progress, and there is no queue.
            WaitingError: the last turn of the session waits for an answer.
            QueueFullError: the queue is full or closed.
            QuotaReachedError: the tenant has used up its turns or tokens of this day.
            QueuedTurnError: the turn was dropped before it began, or cannot begin.
            ConfigurationError: an argument is wrong.

        With `ON_BUSY` in its metadata, the turn in progress ends once no writing tool is under way.
        """
        saved = await self.submit(agent, message, output, **keywords)
        if isinstance(saved, AcceptedTurn):
            return saved
        begun = await self.wait_for_begin(saved)
        if begun is None:
            raise SessionBusyError(saved.session, "the turn did not begin")
        return begun

    async def submit(
        self,
        agent: str,
        message: Prompt,
        output: JsonSchema | None = None,
        **keywords: Unpack[RunKeywords[Any]],
    ) -> AcceptedTurn | InboxEntry:
        """Save a turn in the queue and return its entry; without a queue, start it here.

        Arguments and errors are those of `start`. A turn with a known `request` is returned as it is.
        """
        if caller := CALLER_TRACE.get():
            keywords.setdefault("trace", caller)
        if policy := self.on_disconnect.get(agent):
            # It is saved with the turn, which another process may drive.
            keywords["metadata"] = {ON_DISCONNECT: policy, **(keywords.get("metadata") or {})}
        session = keywords.get("session")
        interrupts = (keywords.get("metadata") or {}).get(ON_BUSY) == INTERRUPT
        if self.queue is None:
            if interrupts and session is not None:
                return await self._begin_in_place(session, agent, message, output, keywords)
            return await self.begin(agent, message, output, **keywords)
        if self.runner.is_closing:
            raise ShuttingDownError
        bound, request = self.agent(agent), keywords.get("request")
        # Before the turn is looked for, which would otherwise interrupt itself if it begins meanwhile.
        last = None if session is None else await self.reader.find_last_turn(session)
        known = await self.find_request(request) if request is not None else None
        if known is not None:
            return known
        if session is not None and last is not None and last.status == "waiting":
            raise WaitingError(session, last.questions)
        entry = await self.queue.submit(bound, message, output, keywords)
        self.runner.report_accepted()
        if interrupts and last is not None and last.status in _IN_PROGRESS:
            # The message is saved. Should this process die now, its turn begins after the one in progress.
            self._interrupt_later(entry.session, last.turn, entry.made_by)
        return entry

    async def _begin_in_place(
        self,
        session: str,
        agent: str,
        message: Prompt,
        output: JsonSchema | None,
        keywords: RunKeywords[Any],
    ) -> AcceptedTurn:
        """Start a turn in this process in place of the one in progress; see `start`."""
        request, by = keywords.get("request"), keywords.get("by", "")
        for _ in range(_MOST_INTERRUPTIONS):
            last = await self.reader.find_last_turn(session)
            known = await self.find_request(request) if request is not None else None
            if known is not None:
                return known
            if last is not None and last.status in _IN_PROGRESS:
                await self.interrupt(session, last.turn, by=by)
            try:
                return await self.begin_new(agent, message, output, **keywords)
            except SessionBusyError:  # another message was faster
                await self.runner.wait_accepted(session)
        raise SessionBusyError(session, "other messages interrupt its turns")

    def _interrupt_later(self, session: str, turn: int, by: str) -> None:
        async def interrupt() -> None:
            try:
                await self.interrupt(session, turn, by=by)
            except HoldfastError as error:
                _log.info("a turn is not interrupted, and the next one begins after it: %s", error)

        task = asyncio.create_task(interrupt(), name="holdfast-interruption")
        self._interruptions.add(task)  # so that it is not collected
        task.add_done_callback(self._interruptions.discard)

    async def interrupt(self, session: str, turn: int, *, by: str = "") -> None:
        """End a turn in progress once no writing tool is under way, so that a message takes its place.

        What it has done so far stays in the history. A turn that waits for an answer stays, too.

        Args:
            session: the session.
            turn: the number of the turn: a later one stays.
            by: who sends the message.

        Raises:
            SessionBusyError: the process that drives the turn does not answer.
            ConfigurationError: there is no such session.
        """
        await self._end_turn(session, turn, by, after_writes=True)

    async def wait_for_begin(
        self, entry: InboxEntry, seconds: float | None = None
    ) -> AcceptedTurn | None:
        """Return a turn of the queue once it has begun; None if it has not after some seconds.

        Raises:
            QueuedTurnError: it did not begin and never will.
            ShuttingDownError: this process stops. The turn stays in the queue.
        """
        assert self.queue is not None  # noqa: S101  # REASON: it has made the entry
        return await self.queue.wait_for_begin(entry, seconds)

    async def begin(
        self,
        agent: str,
        message: Prompt,
        output: JsonSchema | None = None,
        **keywords: Unpack[RunKeywords[Any]],
    ) -> AcceptedTurn:
        """Start a turn in this process; arguments and errors are those of `start`."""
        request = keywords.get("request")
        known = await self.find_request(request) if request is not None else None
        return known or await self.begin_new(agent, message, output, **keywords)

    async def begin_new(
        self,
        agent: str,
        message: Prompt,
        output: JsonSchema | None = None,
        **keywords: Unpack[RunKeywords[Any]],
    ) -> AcceptedTurn:
        """Start a turn whose request was just looked up in vain; as `begin`."""
        bound, request = self.agent(agent), keywords.get("request")
        session = keywords.get("session")
        if session is not None:
            await self._refuse_open_turn(session, request)
        keywords["session"] = name = session or new_run_id()
        wanted: dict[str, Any] = {} if output is None else {"output": output}
        try:
            begun = await self.runner.start(
                name, lambda: bound.stream(message, **wanted, **keywords), bound
            )
        except (SessionBusyError, ConfigurationError):
            begun = await self._find_first(request, name, is_new=session is None)
            if begun is None:
                raise
        if begun is None and request is not None:  # another call with the request was first
            begun = await self.find_request(request)
        if begun is None:
            raise SessionBusyError(name, "the turn did not begin")
        return begun

    async def _find_first(
        self, request: str | None, session: str, *, is_new: bool
    ) -> AcceptedTurn | None:
        """Return the turn of another call with the same request, which was first; None if none was.

        Args:
            request: the idempotency key.
            session: the session of this call.
            is_new: whether this call did not name it.
        """
        if request is None:
            return None
        await self.runner.wait_accepted(session)
        found = await self.find_request(request)
        return found if found is not None and (is_new or found.session == session) else None

    async def _refuse_open_turn(self, session: str, request: str | None) -> None:
        """Raise SessionBusyError for a turn that nobody drives, and continue it.

        Otherwise the new message would close it. A turn that the inbox knows is left to the inbox, and
        closed if the inbox has given it up.

        Args:
            session: the session.
            request: the idempotency key of the new turn.
        """
        for entry in await self.journal.find_runs(session, session):
            if not entry.turn_open or entry.leased or self.runner.is_driven(session):
                return
            queued = await self.open_turns.find_entry(session)
            if queued is not None and queued.request != request:
                if not queued.state.is_over:
                    raise SessionBusyError(session, "its open turn is in the queue")
                await self.abandon(session)
                return
            if entry.agent not in self._agents:
                raise SessionBusyError(
                    session, "its open turn belongs to an agent that is not here"
                )
            if not await self.open_turns.waits(session):
                self.open_turns.begin(entry)
                raise SessionBusyError(session, "its last turn is being continued")

    async def find_request(self, request: str) -> AcceptedTurn | None:
        """Return the turn that was started with an idempotency key; None if none was."""
        return await find_accepted(self.journal, request)

    async def find_requests(self, first: str, last: str) -> Collection[str]:
        """Return the requests from one to another of turns that were begun or queued."""
        if self.queue is None:
            return await self.journal.find_requests(first, last)
        begun, queued = await asyncio.gather(
            self.journal.find_requests(first, last),
            self.queue.inbox.find_requests(self.tenant, first, last),
        )
        return {*begun, *queued}

    async def answer(self, session: str, answer: AnyAnswer) -> Receipt:
        """Answer a question. If the answer is accepted, the turn goes on.

        Raises:
            AnswerTypeError: the question asks for another type.
            ConfigurationError: there is no such session, or the arguments do not fit the tool.
        """
        return (await self.answer_all(session, [answer]))[0]

    async def answer_all(self, session: str, answers: Sequence[AnyAnswer]) -> list[Receipt]:
        """Answer questions. The turn goes on once all answers are saved, if one was accepted.

        Raises:
            AnswerTypeError: a question asks for another type; the answers after it are not saved.
            ConfigurationError: as for `answer`.
        """
        agent, receipts = await self.agent_of(session), list[Receipt]()
        try:
            for answer in answers:
                receipts.append(await self._give_answer(agent, session, answer))
        finally:
            if any(receipts):
                await self._continue_answered(session, agent)
                self.watch.wake(session)
        return receipts

    async def _continue_answered(self, session: str, agent: AnyAgent) -> None:
        """Let a turn go on after an answer: the journal has made its entry in the queue ready with it."""
        if (
            self.queue is None
            or self.runner.is_driven(session)
            or (self.drives and not await self.queue.has_open_turn(session))
        ):
            self.runner.note_answer(session, agent)
        else:
            self.runner.report_accepted()

    async def _give_answer(self, agent: AnyAgent, session: str, answer: AnyAnswer) -> Receipt:
        """Give an answer to the run, in whichever process it is driven."""
        if answer.act is None:
            act = new_act("answer", session, by=answer.by, key=answer.key)
            answer = msgspec.structs.replace(answer, act=act)
        receipt = await self._relay.answer(session, answer)
        if receipt is None:
            return await self._name_first(session, answer, await agent.answer(session, answer))
        return receipt

    async def _name_first(self, session: str, answer: AnyAnswer, receipt: Receipt) -> Receipt:
        """Return the receipt; of a question that is over, whether it was answered."""
        if receipt.reason in ("unknown", "late"):
            for record in await self.journal.read_by_keys(session, [answer.key]):
                if isinstance(record.event, QuestionAnswered):
                    return Receipt("answered")
        return receipt

    async def resume(self, session: str) -> None:
        """Continue the last turn of a session, as `Agent.resume` does; one in the queue by a worker.

        Raises:
            ConflictError: the turn is not in the queue, and this process drives none.
            SessionBusyError: a worker is about to save that the turn has ended.
            ConfigurationError: there is no such session.
        """
        agent = await self.agent_of(session)
        if self.queue is not None:
            if await self.queue.retry(session, await self.last_turn(session)):
                return
            if not self.drives:
                raise refuse_resume(session)
        self.runner.resume(session, agent)

    async def abandon(self, session: str, *, by: str = "") -> None:
        """Give up the last turn of a session, which waits or that nobody drives.

        If it is in the queue, its entry is over in the transaction that closes it.

        Raises:
            ConfigurationError: there is no such session.
            SessionBusyError: somebody drives it.
        """
        if self.queue is not None:
            await self.queue.cancel_active(session, by)
        # A worker may be about to close it too, since the inbox wakes it.
        await close_open_turn(await self._find_closing_agent(session), session, by, None, _PATIENCE)
        self.watch.wake(session)

    async def _find_closing_agent(self, session: str) -> AnyAgent:
        """Return the agent of a session or, if it is not here, any that can close its turn."""
        name = await self._read_agent_name(session)
        return self._agents.get(name) or next(iter(self._agents.values()))

    async def park(self, session: str, parking: Parking) -> None:
        """Close the last turn of a session, which the inbox does not let begin again.

        Raises:
            ConfigurationError: there is no such session.
            SessionBusyError: somebody drives it.
        """
        await close_open_turn(await self._find_closing_agent(session), session, parking=parking)
        self.watch.wake(session)

    async def cancel(self, session: str, *, by: str = "", turn: int = 0) -> None:
        """Cancel the last turn of a session; return when that is saved.

        A turn that waits or that nobody drives is closed as cancelled. One that has ended stays.

        Args:
            session: the session.
            by: who cancels it.
            turn: the number of the turn: a later one stays. 0 cancels whichever is the last.

        Raises:
            ConfigurationError: there is no such session.
        """
        await self._end_turn(session, turn, by, after_writes=False)

    async def _end_turn(self, session: str, turn: int, by: str, *, after_writes: bool) -> None:
        """Cancel a turn; `after_writes` finishes a writing tool first, and leaves a turn that waits."""
        driven = self.runner.find(session)
        if turn and await self._has_later_turn(session, turn):
            return
        if driven is not None and self.runner.find(session) is driven:
            if after_writes:
                await driven.cancel_after_writes(by)
            else:
                driven.cancel(by)
            await self.runner.wait(session)
        # Another process may drive it, also if this one has waited for it in order to continue it.
        if await self._relay.cancel(session, RelayedCancellation(by, turn, after_writes)):
            return
        latest = await self.last_turn(session)
        ends = ("open",) if after_writes else ("waiting", "open")
        if latest.status in ends and turn in (0, latest.turn):
            await self.abandon(session, by=by)

    async def _has_later_turn(self, session: str, turn: int) -> bool:
        latest = await self.reader.find_last_turn(session)
        return latest is not None and latest.turn > turn

    async def count_bytes(self, session: str = "") -> int:
        """Return the bytes that the journal stores of the tenant, or of one session.

        Args:
            session: the session; "" for all runs, and all that is queued.
        """
        if isinstance(self.journal, CountsBytes):
            return await self.journal.count_bytes(session)
        size = 0
        for name in [session] if session else [entry.run for entry in await self.journal.runs()]:
            records = await self.journal.read(name)
            size += sum(len(encode_event(record.event).encode()) for record in records)
        return size

    def connect(self, exchange: LiveExchange) -> None:
        """Connect the tenant with the other processes."""
        self._runs.exchange = exchange
        self._relay.connect(exchange)

    async def look_for_changes(self) -> None:
        """Wake the readers of sessions that other processes have changed, and perform their acts."""
        await self._relay.look()
        before, self._seen = self._seen, {}
        if not self.watch.sessions and not self.watch.feed.has_readers:
            return
        entries = await self.journal.recent_runs(_MOST_LOOKED_AT)
        self._seen = {entry.run: entry for entry in entries}
        first = entries[-1].changed_at if len(entries) == _MOST_LOOKED_AT else 0.0
        deleted = (one for name, one in before.items() if name not in self._seen)
        changed = [
            *(one for one in entries if before.get(one.run) != one),
            *(one for one in deleted if one.changed_at > first),
        ]
        for entry in changed:
            self.watch.wake_here(entry.run.removesuffix(TITLES))

    def close_readers(self) -> None:
        """End all streams but those of held sessions, and accept no more turns."""
        self.runner.is_closing = True
        self.open_turns.close()
        self.watch.close()

    async def leave_turns(self, grace: float, drain: float = 0.0) -> None:
        """Leave the turns open that this process drives; return when that is done.

        Args:
            grace: the longest time to wait for writing tools, in seconds.
            drain: the longest time to wait for requests that hold a session, in seconds.
        """
        leaving = asyncio.create_task(self.runner.close(grace))
        try:
            async with asyncio.timeout(drain):
                await self.watch.wait_until_released()
        except TimeoutError:
            self.watch.release_all()
        await leaving

    async def last_turn(self, session: str) -> LastTurn:
        """Return the last turn of a session. Raises ConfigurationError if it does not exist."""
        found = await self.reader.find_last_turn(session)
        if found is None:
            raise unknown_session(session)
        return found


def unknown_session(session: str) -> ConfigurationError:
    """Return the error for a session that does not exist, or is another tenant's."""
    return ConfigurationError("session", f"there is no session {session!r}")


def new_act(
    act: str, session: str, *, by: str, act_id: str = "", digest: str = "", **details: object
) -> Act:
    """Return an act that is done now.

    Args:
        act: the name of the act.
        session: the session.
        by: who does it.
        act_id: its id; "" makes one. An act with the id of a saved one is refused.
        digest: the digest of the request for it.
        details: JSON values.

    >>> new_act("rewind", "ada", by="ann", act_id="a1", to=2).read_details()
    {'to': 2}
    """
    made = Act(
        id=act_id or uuid4().hex, act=act, session=session, by=by, at=time.time(), digest=digest
    )
    return made.with_details(**details) if details else made


class ServiceOptions(Struct, frozen=True, kw_only=True):
    """How a service shows its turns.

    Args:
        hold_text: the names of agents whose text OpenAI's protocols send once its reply is accepted.
            These protocols cannot withdraw text that was sent.
        prices: the prices of tokens, for agents that have no prices of their own. With prices, turns and
            totals of usage have a cost.
        on_disconnect: what happens to the turns of an agent that nobody reads any more, by its name:
            "continue" or "cancel". The header `Holdfast-On-Disconnect` of a request changes it.
        unread_seconds: after how many seconds without a reader such a turn is cancelled.
        strict_fields: whether OpenAI's protocols refuse a field that has no effect here. Otherwise they
            leave it out, and name it in the header `Holdfast-Dropped-Fields`.
        retry_window: seconds in which a request of OpenAI's protocols that is sent again gets the turn
            of the first try, if nobody got its answer; 0 for never.
        drain: after SIGTERM, for how many seconds requests are served whose client cannot come back for
            the answer: those of OpenAI's protocols without `background`, and those with `wait`.

    Raises:
        ConfigurationError: a setting is wrong.

    >>> ServiceOptions(prices=Prices({"gpt-5.2": {"input": "1.25", "output": "10"}})).hold_text
    ()
    """

    hold_text: Collection[str] = ()
    prices: Prices | None = None
    on_disconnect: Mapping[str, OnDisconnect] = {}
    unread_seconds: Annotated[float, between(0, 86_400)] = 10.0
    strict_fields: bool = False
    retry_window: Annotated[float, between(0, 86_400)] = 600.0
    drain: Annotated[float, between(0, 86_400)] = 30.0

    def __post_init__(self) -> None:
        check_value("hold_text", self.hold_text, Collection[str])
        check_value("prices", self.prices, Prices | None)
        check_value("on_disconnect", self.on_disconnect, Mapping[str, OnDisconnect])
        check_value("unread_seconds", self.unread_seconds, Annotated[float, between(0, 86_400)])
        check_value("strict_fields", self.strict_fields, bool)
        check_value("retry_window", self.retry_window, Annotated[float, between(0, 86_400)])
        check_value("drain", self.drain, Annotated[float, between(0, 86_400)])
