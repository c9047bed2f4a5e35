"""The agents of a service, each bound to the journal of a tenant.

Bound agents of one agent share its compiled plan, breakers, limiters and connections. This module
must never compile a plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from holdfast.agent import Agent
from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.journal.port import Journal
from holdfast.models.prices import Prices
from holdfast.runtime.engine import Engine, copy_on_journal
from holdfast.runtime.finalize import Parking
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.telemetry.observers import Observer, check_observers

AnyAgent: TypeAlias = Agent[Any, Any]


def name_agents(agents: AnyAgent | Iterable[AnyAgent]) -> dict[str, AnyAgent]:
    """Return agents by their names.

    Raises:
        ConfigurationError: there is none, or two have the same name.
    """
    given = (agents,) if isinstance(agents, Agent) else tuple(agents)
    check_value("agents", given, tuple[Agent, ...])
    if not given:
        raise ConfigurationError("agents", "are missing", fix="Pass at least one Agent")
    named: dict[str, AnyAgent] = {}
    for agent in given:
        name = plan_of(agent).name
        if name in named:
            raise ConfigurationError(
                "agents", f"has two with the name {name!r}", fix="Pass Agent(name=...) for each"
            )
        named[name] = agent
    return named


def bind_agent(agent: AnyAgent, journal: Journal, prices: Prices | None = None) -> AnyAgent:
    """Return the agent on another journal. A question that nobody answers suspends its run.

    Args:
        agent: the agent.
        journal: the journal.
        prices: the prices of tokens, if the agent has no prices of its own.
    """
    bound = observe_agent(agent, (), prices)
    bound._engine = _bind_engine(bound._engine, journal)  # noqa: SLF001  # REASON: the one place
    return bound


def observe_agent(
    agent: AnyAgent, observers: Iterable[Observer], prices: Prices | None = None
) -> AnyAgent:
    """Return an agent with observers besides its own, and with prices if it has none.

    Args:
        agent: the agent.
        observers: the observers.
        prices: the prices of tokens.
    """
    bound: AnyAgent = object.__new__(Agent)
    bound._engine = agent._engine.with_service(prices, check_observers(observers))  # noqa: SLF001  # REASON: as above
    return bound


def _bind_engine(engine: Engine[Any], journal: Journal) -> Engine[Any]:
    """Return an engine with the same plan on another journal.

    A question that nobody answers at once suspends its run, and a message for a busy session is
    refused, since a service must hold neither a run nor a request open for a person.

    Args:
        engine: the engine of an agent.
        journal: where the runs of the new engine are saved.
    """
    bound = copy_on_journal(engine, journal)
    bound.on_wait, bound.max_wait, bound.interrupts = "suspend", 0.0, False
    return bound


def plan_of(agent: AnyAgent) -> AgentPlan:
    """Return the compiled plan of an agent: its name, model, tools and strategies."""
    return agent._engine.plan  # noqa: SLF001  # REASON: the one place beside `bind_agent`


def journal_of(agent: AnyAgent) -> Journal | None:
    """Return the journal that an agent was made with."""
    return agent._engine.journal  # noqa: SLF001  # REASON: the one place beside `bind_agent`


def recover_stream(agent: AnyAgent, session: str) -> RunStream[Any]:
    """Continue a turn as a stream if it was interrupted; any other has no items and no result."""
    return agent._engine.recover_stream(session)  # noqa: SLF001  # REASON: as above


async def close_open_turn(
    agent: AnyAgent,
    session: str,
    by: str = "",
    parking: Parking | None = None,
    max_wait: float = 0.0,
) -> None:
    """Close the open turn of a session without driving it; a turn that has ended stays as it is.

    Args:
        agent: an agent on the journal.
        session: the session.
        by: who gives the turn up.
        parking: why a queue gives it up.
        max_wait: seconds to wait for somebody who drives it.

    Raises:
        SessionBusyError: somebody drives it.
    """
    answering = agent._engine.answering  # noqa: SLF001  # REASON: as above
    await answering.abandon(session, by, parking, max_wait)
