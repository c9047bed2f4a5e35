"""Builds the agents of a conversation, with their instructions: the person's agent, and those that it delegates to.

All agents of a conversation share its journal, its rules and its checks. An agent that works for another one
is judged by the rules of its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, TypeAlias

from msgspec import Struct

from adh.agents.agent_catalog import Catalog
from adh.agents.agent_file import ALL_TOOLS, MESSAGE_VARIABLE, AgentFile, fill_variables
from adh.agents.delegation import DELEGATE_TOOL, make_delegate_tool
from adh.agents.model_aliases import ModelAlias, resolve_model
from adh.storage.call_context import CallContext
from adh.storage.settings import Settings
from holdfast import (
    Agent,
    Limits,
    Message,
    Middleware,
    ModelAt,
    ModelSettings,
    OnQuestion,
    Skills,
    Text,
    Tool,
)
from holdfast.journal import Journal
from holdfast.middleware import AnyMiddleware, BeforeIteration, Patch
from holdfast.models import HostedTool, Model
from holdfast.resilience import Clock

AnyModel: TypeAlias = str | ModelAt | Model
ChatAgent: TypeAlias = Agent[str, CallContext]

LIMITS = Limits(iterations=100, seconds=3_600.0)
"""The limits of one turn."""

HOSTED_TOOLS = frozenset({"web_search", "web_fetch"})
"""The tools that a provider runs itself. An agent has one if its file names it and its provider has it."""


class AgentKit(Struct, frozen=True, kw_only=True):
    """The parts that the agents of a conversation share.

    Args:
        catalog: the agents and models.
        settings: the settings of the person.
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
        kit: the parts that all agents share.
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


PROJECT_HEADING = "# Instructions of this project"


def describe_tools(tools: Sequence[Tool]) -> str:
    """Return a line for each tool: its name and the first line of its description."""
    return "\n".join(f"- {one.name}: {one.description.strip().splitlines()[0]}" for one in tools)


def make_instructions(
    agent: AgentFile,
    tools: Sequence[Tool],
    project_instructions: str,
    today: Callable[[], date],
) -> Callable[[], str]:
    """Return the function that writes the instructions of each new turn.

    Args:
        agent: the agent.
        tools: its tools.
        project_instructions: the text of a trusted project; empty for none.
        today: returns the date.
    """
    described = describe_tools(tools)

    def write_instructions() -> str:
        text = fill_variables(agent.system_prompt, _values(agent, described, today()))
        if project_instructions.strip():
            text += f"\n\n{PROJECT_HEADING}\n\n{project_instructions.strip()}"
        return text

    return write_instructions


class MessageTemplate(Middleware):
    """Shows the model each message of the person in the template of the agent. The saved message stays.

    Args:
        agent: the agent.
        tools: its tools.
        today: returns the date.
    """

    def __init__(self, agent: AgentFile, tools: Sequence[Tool], today: Callable[[], date]) -> None:
        self._agent = agent
        self._described = describe_tools(tools)
        self._today = today

    async def before_iteration(self, context: BeforeIteration[Any]) -> Patch:
        """Put the messages of the person into the template."""
        values = _values(self._agent, self._described, self._today())
        return Patch(messages=tuple(self._fill(one, values) for one in context.messages))

    def _fill(self, message: Message, values: dict[str, str]) -> Message:
        if message.role != "user" or not message.text:
            return message
        filled = fill_variables(self._agent.user_prompt, {**values, MESSAGE_VARIABLE: message.text})
        others = tuple(part for part in message.parts if not isinstance(part, Text))
        return Message("user", (Text(filled), *others))


def _values(agent: AgentFile, described_tools: str, today: date) -> dict[str, str]:
    return {
        **agent.variables,
        "tool_descriptions": described_tools,
        "current_date": today.isoformat(),
        "agent_role": agent.description,
    }
