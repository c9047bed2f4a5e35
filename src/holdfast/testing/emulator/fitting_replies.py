"""The replies of `holdfast emulate` to a request that offers tools or asks for an object."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.messages import ToolCall
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.schema_values import make_value
from holdfast.testing.emulator.script import ReplyLike, call, echo

_SCHEMA_PATHS = (
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("output_config", "format", "schema"),
    ("output_format", "schema"),
    ("generationConfig", "responseJsonSchema"),
    ("generationConfig", "responseSchema"),
)
"""Where the wires have the schema of the answer."""


def reply_to_fit(request: EmulatedRequest) -> ReplyLike:
    """Reply with what a program can use: a call of a tool, an object of its schema, or the text.

    The first request of a turn calls the tool that the user's text names, or else the first one, with
    valid arguments. After the results, or without tools, the answer has the requested schema; if
    none is requested, it is the results or the user's text.

    >>> reply_to_fit(EmulatedRequest())
    'You said: '
    """
    if request.tools and not request.tool_results:
        return _call_tool(request)
    schema = find_schema(request.body)
    if schema is not None:
        return msgspec.json.encode(make_value(schema)).decode()
    if request.tool_results:
        return "The results: " + " / ".join(result.text for result in request.tool_results)
    return echo(request)


def _call_tool(request: EmulatedRequest) -> ToolCall:
    named = [tool for tool in request.tools if tool.name in request.text]
    tool = (named or list(request.tools))[0]
    arguments = make_value(tool.schema)
    return call(tool.name, arguments if isinstance(arguments, dict) else {})


def find_schema(body: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the JSON Schema that a request asks the answer to have, on any wire."""
    for path in _SCHEMA_PATHS:
        found: object = body
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return None
