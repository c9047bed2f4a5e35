"""Makes a tool of the agent from a tool that the caller runs: its function asks for the result.

Nobody is asked for a call whose arguments do not fit the schema of the tool. This module must never import an HTTP
library.
"""

from __future__ import annotations

from holdfast.core.client_tools import CLIENT_TIMEOUT, ClientTool, ClientToolQuestion
from holdfast.core.errors import UnansweredError
from holdfast.tools.context import ToolContext
from holdfast.tools.schema_signature import SchemaSignature
from holdfast.tools.tool import Tool, ToolOptions, make_tool_with_signature
from holdfast.tools.tool_failures import ToolError


class ClientSignature(SchemaSignature):
    """The arguments of a tool that the caller runs.

    Args:
        tool: the tool.

    Raises:
        ConfigurationError: its schema cannot be compiled; the error names the place.
    """

    __slots__ = ()

    def __init__(self, tool: ClientTool) -> None:
        where = f"tools.{tool.name}.parameters"
        super().__init__(tool.parameters, where, ("context",), skip_patterns=True)


def make_client_tool(client_tool: ClientTool) -> Tool:
    """Return a tool whose call asks for the result of the caller's tool."""
    options = ToolOptions(
        name=client_tool.name,
        description=client_tool.description,
        effect="idempotent",  # to ask again finds the same question
        strict=client_tool.strict,
    )
    return make_tool_with_signature(_ask_caller, options, ClientSignature(client_tool))


async def _ask_caller(context: ToolContext) -> str:
    question = ClientToolQuestion(
        tool=context.tool, arguments=context.arguments, call_id=context.call_id
    )
    try:
        result = await context.ask(question, timeout=CLIENT_TIMEOUT)
    except UnansweredError as error:
        if error.why != "timeout":
            raise
        late = f"The caller gave no result of '{context.tool}' within {CLIENT_TIMEOUT:g} seconds."
        raise ToolError(late) from error
    if result.is_error:
        raise ToolError(result.text)
    return result.text
