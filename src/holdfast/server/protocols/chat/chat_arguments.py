"""Turns a chat request into the arguments of a run, and says which of its fields are not taken.

This module must never start a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from holdfast.core.client_tools import ClientTool
from holdfast.core.json_schema import JsonSchema
from holdfast.core.model_request import ModelSettings
from holdfast.server.protocols.chat.chat_bodies import (
    ChatFunctionTool,
    ChatRequest,
    ChatToolChoice,
    ResponseFormat,
)
from holdfast.server.protocols.content_parts import refuse
from holdfast.server.protocols.request_arguments import (
    JSON_OBJECT,
    NotTaken,
    check_names,
    check_tool_count,
    make_client_tool,
    make_schema,
)

NOT_TAKEN: NotTaken = {
    "n": ((1,), "only one choice is made"),
    "logprobs": ((False,), "log probabilities are not kept"),
    "top_logprobs": ((0,), "log probabilities are not kept"),
    "logit_bias": (({},), "is not supported"),
    "frequency_penalty": ((0,), "is not supported"),
    "presence_penalty": ((0,), "is not supported"),
    "modalities": ((["text"],), "only text is written"),
    "audio": ((), "only text is written"),
    "prediction": ((), "is not supported"),
    "web_search_options": ((), "the agent has its own tools"),
    "functions": (([],), "is deprecated; use tools"),
    "function_call": ((), "is deprecated; use tool_choice"),
    "verbosity": (("medium",), "is not supported"),
}
"""The fields that are not taken: which values have no effect, and why others are refused."""


def make_settings(request: ChatRequest) -> ModelSettings | None:
    """Return the settings of the model that a request names; None if it names none."""
    stop = request.stop or ()
    settings = ModelSettings(
        max_tokens=request.max_completion_tokens or request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=request.seed,
        tool_choice=_read_choice(request.tool_choice),
        parallel_tool_calls=request.parallel_tool_calls,
        reasoning_effort=request.reasoning_effort,
    )
    return None if settings == ModelSettings() else settings


def _read_choice(choice: Literal["none", "auto", "required"] | ChatToolChoice | None) -> str | None:
    if not isinstance(choice, ChatToolChoice):
        return choice
    if choice.type != "function" or choice.function is None:
        detail = f"the type {choice.type!r} is not taken; choose a function"
        raise refuse("tool_choice", detail, "unsupported_value")
    return choice.function.name


def make_client_tools(tools: Sequence[ChatFunctionTool] | None) -> list[ClientTool]:
    """Return the tools of the caller. Raises ProblemError for a tool that is not a function."""
    made = []
    check_tool_count(tools or (), "tools")
    for at, tool in enumerate(tools or ()):
        if tool.type != "function" or tool.function is None:
            detail = f"a tool of the type {tool.type!r} is not taken; the agent has its own tools"
            raise refuse(f"tools[{at}]", detail, "unsupported_value")
        made.append(
            make_client_tool(
                tool.function.name,
                tool.function.description,
                tool.function.parameters,
                f"tools[{at}].function",
            )
        )
    check_names(made, "tools")
    return made


def make_output(form: ResponseFormat | None) -> JsonSchema | None:
    """Return the type of the output; None for text. Raises ProblemError or ConfigurationError."""
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return JSON_OBJECT
    wanted = form.json_schema
    if wanted is None or wanted.schema is None:
        raise refuse("response_format.json_schema", "is missing")
    return make_schema(wanted.schema, wanted.name, wanted.description, strict=wanted.strict)
