"""The tool `delegate_to_agent`: another agent does a task, with its own conversation and the same rules.

The run of the other agent is saved beside the caller's and continues with it after a crash. A delegated agent
that failed is a failed call: its error must never be returned as a result.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from typing import cast

import msgspec
from msgspec import Struct

from adh.storage.call_context import CallContext
from holdfast import ErrorInfo, HoldfastError, Tool, ToolContext, ToolError, tool
from holdfast.errors import ConflictError, JournalError

DELEGATE_TOOL = "delegate_to_agent"

DEEPEST = 2
"""How many agents may stand between the person's agent and the one that works, itself included."""

_NESTED = re.compile(r"/t\d+\.i\d+\.tool\.\d+")


class DelegatedTask(Struct, frozen=True, kw_only=True):
    """The outcome of a delegated task, as the calling model reads it.

    Args:
        agent_name: the agent.
        task_type: always "delegation".
        result: its answer; empty if it failed.
        success: whether there is an answer.
        error: why not.
        metadata: the depth, from 1.
    """

    agent_name: str
    task_type: str = "delegation"
    result: str = ""
    success: bool = False
    error: str | None = None
    metadata: dict[str, object] = {}


def make_delegate_tool(agents: Mapping[str, Tool], roles: Mapping[str, str]) -> Tool:
    """Return the tool that gives a task to one of these agents.

    Args:
        agents: the agents as tools, by name. It may be filled later.
        roles: the description of each agent.
    """
    listed = "\n".join(f"- {name}: {role}" for name, role in sorted(roles.items()))

    async def delegate_to_agent(
        agent: str, task: str, call: ToolContext[CallContext], context: str = ""
    ) -> DelegatedTask:
        """Give a task to another agent, and get its answer.

        Args:
            agent: the name of the agent.
            task: all that the agent needs to know; it sees nothing of this conversation.
            call: of the call.
            context: more material for the task.
        """
        depth = measure_depth(call.run_id) + 1
        wanted = agents.get(agent)
        if wanted is None:
            names = ", ".join(sorted(agents)) or "none"
            raise _failure(agent, depth, f"There is no agent {agent!r}. The agents are: {names}.")
        if depth > DEEPEST:
            raise _failure(
                agent, depth, "An agent at this depth cannot delegate: do the task yourself."
            )
        inner = msgspec.structs.replace(call, deps=_name_agent(call.deps, agent))
        text = f"{task}\n\nContext:\n{context}" if context.strip() else task
        try:
            result = await cast("Awaitable[object]", wanted(text, inner))
        except (JournalError, ConflictError):
            raise
        except HoldfastError as error:
            raise _failure(agent, depth, explain_failure(error)) from error
        return DelegatedTask(
            agent_name=agent, result=str(result), success=True, metadata={"depth": depth}
        )

    description = (
        "Give a task to another agent, and get its answer. It sees nothing of this conversation.\n"
        f"The agents are:\n{listed}"
    )
    # A run that continues after a crash calls it again, and the agent continues in its own journal.
    return cast(
        "Tool",
        tool(name=DELEGATE_TOOL, description=description, effect="idempotent")(delegate_to_agent),
    )


def measure_depth(run_id: str) -> int:
    """Return how many agents stand above a run.

    >>> measure_depth("20260314-1"), measure_depth("20260314-1/t1.i0.tool.2/t1.i3.tool.0")
    (0, 2)
    """
    return len(_NESTED.findall(run_id))


def explain_failure(error: HoldfastError) -> str:
    """Return why an agent failed, without the private half of any error."""
    cause = error.__cause__
    inner: ErrorInfo | None = cause.info if isinstance(cause, HoldfastError) else None
    text = error.info.safe
    return f"{text} {inner.safe}" if inner is not None and inner.safe not in text else text


def _name_agent(deps: CallContext, agent: str) -> CallContext:
    return msgspec.structs.replace(deps, agent=agent)


def _failure(agent: str, depth: int, error: str) -> ToolError:
    task = DelegatedTask(agent_name=agent, error=error, metadata={"depth": depth})
    return ToolError(msgspec.json.encode(task).decode())
