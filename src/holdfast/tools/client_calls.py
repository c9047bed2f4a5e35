"""Makes a tool of the agent from a tool that the caller runs: its function asks for the result.

The arguments are checked here only as far as nobody could use them otherwise; the caller's tool
checks the rest. This module must never import an HTTP library.
"""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict

from holdfast.core.client_tools import CLIENT_TIMEOUT, ClientTool, ClientToolQuestion
from holdfast.core.errors import UnansweredError
from holdfast.core.json_strict import dump_json
from holdfast.tools.argument_wording import RefusedCall, describe_wanted, list_names
from holdfast.tools.arguments import parse_arguments
from holdfast.tools.checked_arguments import CheckedArguments
from holdfast.tools.context import ToolContext
from holdfast.tools.tool import Tool, ToolOptions, make_tool_with_signature
from holdfast.tools.tool_failures import ToolError
from holdfast.tools.tool_schema import Signature, Slot

_MOST_MISSING = 10


class _AnyArguments(BaseModel):
    """Arguments by name, whatever they are."""

    model_config = ConfigDict(extra="allow")


class ClientSignature(Signature):
    """The arguments of a tool that the caller runs.

    Args:
        tool: the tool.
    """

    __slots__ = ()

    def __init__(self, tool: ClientTool) -> None:
        slots = ((Slot("context", None),), 0)
        super().__init__(tool.parameters, tool.description, _AnyArguments, slots)

    def check(self, text: str, *, edited: bool = False) -> CheckedArguments | RefusedCall:  # noqa: ARG002  # REASON: there are no other names here
        """Check that the text is one JSON object with the required names."""
        parsed = parse_arguments(self, text)
        if isinstance(parsed, RefusedCall):
            return parsed
        given: dict[str, object] = json.loads(text) if text.strip() else {}
        missing = [name for name in self.required if name not in given]
        if missing:
            lines = "\n".join(
                f"- {list_names([name])}: {self._describe_missing(name)}"
                for name in missing[:_MOST_MISSING]
            )
            if len(missing) > _MOST_MISSING:
                lines += f"\n- and {len(missing) - _MOST_MISSING} more are missing"
            return RefusedCall(
                f"its arguments are invalid:\n{lines}\nCorrect them and call it again.",
                "invalid_arguments",
            )
        return CheckedArguments(parsed, dump_json(given))

    def _describe_missing(self, name: str) -> str:
        wanted = describe_wanted(self.schema, [name])
        return f"is missing; expected {wanted}" if wanted else "is missing"


def make_client_tool(client_tool: ClientTool) -> Tool:
    """Return a tool whose call asks for the result of the caller's tool."""
    options = ToolOptions(
        name=client_tool.name,
        description=client_tool.description,
        effect="idempotent",  # to ask again finds the same question
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
