"""The service: the agents by name, and for each tenant their sessions, turns and readers.

Every route and every protocol goes through `TenantService`. This module must never speak HTTP, and
must never decide who may do something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import AnyAnswer
from holdfast.journal.journal_names import DEFAULT_TENANT
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal, SharedJournal
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.runtime.questions.open_question import Receipt
from holdfast.runtime.sessions.session_pool import resolve_journal
from holdfast.runtime.turn_state.turn_input import Prompt
from holdfast.server.bound_agents import AnyAgent, bind_agent, journal_of, name_agents
from holdfast.server.event_log.text_fold import turn_of_key
from holdfast.server.live.last_turn import LastTurn
from holdfast.server.live.reading import SessionReader
from holdfast.server.live.session_watch import SessionWatch
from holdfast.server.turns.turn_runner import AcceptedTurn, TurnRunner
from holdfast.sessions.session_index import to_index
from holdfast.sessions.sessions import Sessions

_POLL_SECONDS = 1.0


class TenantService:
    """The agents, sessions and turns of one tenant in this process.

    Args:
        tenant: the tenant.
        agents: the agents by name.
        journal: the journal of the tenant.
    """

    def __init__(self, tenant: str, agents: dict[str, AnyAgent], journal: Journal) -> None:
        self.tenant = tenant
        self.journal = to_index(journal)
        self._agents = {name: bind_agent(agent, journal) for name, agent in agents.items()}
        self.watch = SessionWatch()
        self.runner = TurnRunner(self.journal, self.watch)
        poll = _POLL_SECONDS if isinstance(journal, SharedJournal) else None
        self.reader = SessionReader(self.journal, self.runner, self.watch, poll)

    @property
    def sessions(self) -> Sessions:
        """The sessions of the tenant: list, search, fork, rewind, compact, export and delete."""
        return next(iter(self._agents.values())).sessions

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
    def agents(self) -> tuple[str, ...]:
        """The names of the agents."""
        return tuple(self._agents)

    async def agent_of(self, session: str) -> AnyAgent:
        """Return the agent of the last turn of a session. Raises ConfigurationError."""
        for entry in await self.journal.find_runs(session, session):
            return self.agent(entry.agent)
        raise unknown_session(session)

    async def start(
        self,
        agent: str,
        message: Prompt,
        **keywords: Unpack[RunKeywords[Any]],
    ) -> AcceptedTurn:
        """Start a turn; return it once it is accepted. With a known `request`, return that turn.

        Args:
            agent: the name of the agent.
            message: the message.
            keywords: as for `Agent.run`. Without `session`, a new one is made.

        Raises:
            SessionBusyError: a turn of the session is in progress.
            ConfigurationError: an argument is wrong.
        """
        bound, request = self.agent(agent), keywords.get("request")
        if request is not None and (known := await self._find_request(request)) is not None:
            return known
        keywords["session"] = name = keywords.get("session") or new_run_id()
        return await self.runner.start(name, lambda: bound.stream(message, **keywords), bound)

    async def _find_request(self, request: str) -> AcceptedTurn | None:
        found = await self.journal.find_request(request)
        if found is None:
            return None
        session, key = found
        keys = await self.journal.keys(session)
        return AcceptedTurn(session, turn_of_key(key), list(keys).index(key))

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
                receipts.append(await agent.answer(session, answer))
        finally:
            if any(receipts):
                await self.runner.note_answer(session, agent)
        return receipts

    async def resume(self, session: str) -> None:
        """Continue the last turn of a session, as `Agent.resume` does."""
        await self.runner.resume(session, await self.agent_of(session))

    async def cancel(self, session: str) -> None:
        """Cancel the last turn of a session; one that nobody drives is closed as cancelled."""
        agent = await self.agent_of(session)
        if not self.runner.cancel(session):
            await agent.abandon(session)
            self.watch.wake(session)

    async def last_turn(self, session: str) -> LastTurn:
        """Return the last turn of a session. Raises ConfigurationError if it does not exist."""
        found = await self.reader.find_last_turn(session)
        if found is None:
            raise unknown_session(session)
        return found


def unknown_session(session: str) -> ConfigurationError:
    """Return the error for a session that does not exist, or is another tenant's."""
    return ConfigurationError("session", f"there is no session {session!r}")


class Service:
    """The agents of a service on one journal.

    Args:
        agents: one agent, or several with different names.
        journal: the journal or its address; by default that of the first agent, or memory.

    Raises:
        ConfigurationError: an argument is wrong.
    """

    def __init__(
        self, agents: AnyAgent | Iterable[AnyAgent], journal: Journal | str | None = None
    ) -> None:
        self.agents = name_agents(agents)
        first = next(iter(self.agents.values()))
        self.journal = resolve_journal(journal) or journal_of(first) or MemoryJournal()
        self._tenants: dict[str, TenantService] = {}

    def for_tenant(self, tenant: str = DEFAULT_TENANT) -> TenantService:
        """Return what a tenant sees of the service."""
        found = self._tenants.get(tenant)
        if found is None:
            journal = self.journal.for_tenant(tenant)
            found = self._tenants[tenant] = TenantService(tenant, self.agents, journal)
        return found

    @property
    def tenants(self) -> tuple[TenantService, ...]:
        """The tenants that were served by this process."""
        return tuple(self._tenants.values())
