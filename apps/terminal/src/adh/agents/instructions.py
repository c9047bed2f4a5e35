"""The instructions of an agent for a turn, and the template of the person's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from adh.agents.agent_file import MESSAGE_VARIABLE, AgentFile, fill_variables
from holdfast import Message, Middleware, Text, Tool
from holdfast.middleware import BeforeIteration, Patch

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
