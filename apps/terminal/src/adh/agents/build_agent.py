"""Builds the agents of a conversation: the person's agent, and those that it can delegate to.

All agents of a conversation share its journal, its rules and its checks. An agent that works for another one
is judged by the rules of its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TypeAlias

from msgspec import Struct

from adh.agents.agent_catalog import Catalog
from adh.agents.agent_file import ALL_TOOLS, AgentFile
from adh.agents.delegation import DELEGATE_TOOL, make_delegate_tool
from adh.agents.instructions import MessageTemplate, make_instructions
from adh.agents.model_aliases import ModelAlias, resolve_model
from adh.storage.call_context import CallContext
from adh.storage.settings import Settings
from holdfast import Agent, Limits, ModelAt, ModelSettings, OnQuestion, Skills, Tool
from holdfast.journal import Journal
from holdfast.middleware import AnyMiddleware
from holdfast.models import HostedTool, Model
from holdfast.resilience import Clock

AnyModel: TypeAlias = str | ModelAt | Model
ChatAgent: TypeAlias = Agent[str, CallContext]

LIMITS = Limits(iterations=100, seconds=3_600.0)
"""The limits of one turn."""

HOSTED_TOOLS = frozenset({"web_search", "web_fetch"})
"""The tools that a provider runs itself. An agent has one if its file names it and its provider has it."""


class AgentKit(Struct, frozen=True, kw_only=True):
    """What the agents of a conversation are made of.

    Args:
        catalog: the agents and models.
        settings: what the person set.
        tools: the tools, besides the one that delegates.
        rules: the middlewares that decide about calls; agents that work for others have those of the caller.
        guards: the middlewares that every agent has of its own, such as checks and the audit.
        session_rules: further middlewares of the person's agent, such as the limit of the session.
        open_model: returns the model of an alias, with its key; by default the library finds it.
        find_hosted: returns the tools that the provider of a model runs itself.
        today: returns the date.
        clock: the clock of the agents, for tests.
    """

    catalog: Catalog
    settings: Settings
    tools: tuple[Tool, ...]
    today: Callable[[], date]
    rules: tuple[AnyMiddleware, ...] = ()
    guards: tuple[AnyMiddleware, ...] = ()
    session_rules: tuple[AnyMiddleware, ...] = ()
    open_model: Callable[[ModelAlias], AnyModel] = lambda alias: alias.model_id
    find_hosted: Callable[[ModelAlias], tuple[HostedTool, ...]] = lambda _alias: ()
    clock: Clock | None = None


def build_agent(
    kit: AgentKit, name: str, journal: Journal, on_question: OnQuestion | None = None
) -> ChatAgent:
    """Build the person's agent, with the agents that it can delegate to.

    Args:
        kit: what agents are made of.
        name: the agent.
        journal: where the conversation is saved.
        on_question: asks the person.

    Raises:
        AgentFileError: there is no such agent, model or tool.
        ConfigurationError: a model or a skill cannot be used.
    """
    workers: dict[str, Tool] = {}
    others = [one for one in kit.catalog.agents.values() if one.name != name]
    roles = {one.name: one.description for one in others}
    delegate = make_delegate_tool(workers, roles)
    for one in others:
        agent = _build(kit, one, delegate, journal, kit.guards)
        workers[one.name] = agent.as_tool(name=one.name, description=one.description)
    middleware = (*kit.session_rules, *kit.rules, *kit.guards)
    main = kit.catalog.find(name)
    return _build(kit, main, delegate, journal, middleware, on_question)


def list_tools(kit: AgentKit, agent: AgentFile) -> tuple[str, ...]:
    """Return the names of an agent's tools. Raises AgentFileError for one that is not there.

    Tools that a provider runs are not judged by rules, so `*` does not mean them.
    """
    own = frozenset((*(one.name for one in kit.tools), DELEGATE_TOOL))
    return agent.choose_tools(own if agent.tools == (ALL_TOOLS,) else own | HOSTED_TOOLS)


def _build(  # noqa: PLR0917  # REASON: private; each argument is another part of one agent
    kit: AgentKit,
    agent: AgentFile,
    delegate: Tool,
    journal: Journal,
    middleware: Sequence[AnyMiddleware],
    on_question: OnQuestion | None = None,
) -> ChatAgent:
    by_name: Mapping[str, Tool] = {one.name: one for one in (*kit.tools, delegate)}
    names = list_tools(kit, agent)
    tools = [by_name[name] for name in names if name in by_name]
    wanted = agent.model or kit.settings.model
    alias = resolve_model(wanted, kit.catalog.aliases, agent.file if agent.model else "")
    hosted = [one for one in kit.find_hosted(alias) if one.name in names]
    template = [MessageTemplate(agent, tools, kit.today)] if agent.user_prompt else []
    own = ModelSettings(temperature=kit.settings.temperature, max_tokens=kit.settings.max_tokens)
    skills = [Skills(*kit.catalog.skill_folders)] if kit.catalog.skill_folders else []
    return Agent(
        kit.open_model(alias),
        name=agent.name,
        instructions=make_instructions(agent, tools, kit.catalog.project_instructions, kit.today),
        tools=[*tools, *hosted],
        toolsets=skills,
        deps_type=CallContext,
        settings=alias.to_settings(own),
        limits=LIMITS,
        middleware=[*middleware, *template],
        on_question=on_question,
        on_wait="suspend",
        journal=journal,
        clock=kit.clock,
    )
