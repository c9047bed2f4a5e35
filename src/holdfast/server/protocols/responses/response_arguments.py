"""Turns a Responses request into the arguments of a turn, and says which of its fields are not taken.

This module must never start a turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.client_tools import ClientTool
from holdfast.core.json_schema import JsonSchema
from holdfast.core.model_request import ModelSettings
from holdfast.server.protocols.content_parts import refuse
from holdfast.server.protocols.request_arguments import (
    JSON_OBJECT,
    NotTaken,
    check_names,
    check_tool_count,
    make_client_tool,
    make_schema,
)
from holdfast.server.protocols.responses.response_bodies import (
    ResponseFunctionTool,
    ResponseRequest,
    ResponseToolChoice,
    TextOptions,
)

NOT_TAKEN: NotTaken = {
    "max_tool_calls": ((), "is not supported; the agent has limits of its own"),
    "prompt": ((), "prompts are not stored; the agent has its instructions"),
    "top_logprobs": ((0,), "log probabilities are not kept"),
    "truncation": (("disabled", "auto"), "is not supported"),
    "context_management": (([],), "is not supported"),
    "frequency_penalty": ((0,), "is not supported"),
    "presence_penalty": ((0,), "is not supported"),
}
"""The fields that are not taken: which values have no effect, and why others are refused."""


def make_settings(request: ResponseRequest) -> ModelSettings | None:
    """Return the settings of the model that a request names; None if it names none."""
    choice = request.tool_choice
    if isinstance(choice, ResponseToolChoice):
        if choice.type != "function" or not choice.name:
            detail = f"the type {choice.type!r} is not taken; choose a function"
            raise refuse("tool_choice", detail, "unsupported_value")
        choice_name: str | None = choice.name
    else:
        choice_name = choice
    reasoning = request.reasoning
    settings = ModelSettings(
        max_tokens=request.max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        tool_choice=choice_name,
        parallel_tool_calls=request.parallel_tool_calls,
        reasoning_effort=None if reasoning is None else reasoning.effort,
    )
    return None if settings == ModelSettings() else settings


def make_client_tools(tools: Sequence[ResponseFunctionTool] | None) -> list[ClientTool]:
    """Return the tools of the caller. Raises ProblemError for a tool that is not a function."""
    made = []
    check_tool_count(tools or (), "tools")
    for at, tool in enumerate(tools or ()):
        if tool.type != "function":
            detail = f"a tool of the type {tool.type!r} is not taken; the agent has its own tools"
            raise refuse(f"tools[{at}]", detail, "unsupported_value")
        made.append(make_client_tool(tool.name, tool.description, tool.parameters, f"tools[{at}]"))
    check_names(made, "tools")
    return made


def make_output(text: TextOptions | None) -> JsonSchema | None:
    """Return the type of the output; None for text. Raises ProblemError or ConfigurationError."""
    form = None if text is None else text.format
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return JSON_OBJECT
    if form.schema is None:
        raise refuse("text.format.schema", "is missing")
    return make_schema(form.schema, form.name, form.description, strict=form.strict)
