"""Turns a chat request into messages of a history and arguments of a run, and refuses fields that are not taken.

This module must never start a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from holdfast.core.client_tools import ClientTool
from holdfast.core.json_schema import JsonSchema
from holdfast.core.messages import (
    Media,
    Message,
    Part,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    tool_results,
)
from holdfast.core.model_request import ModelSettings
from holdfast.server.protocols.chat.chat_bodies import (
    AssistantMessage,
    AudioPart,
    ChatFunctionTool,
    ChatMessage,
    ChatRequest,
    ChatTextPart,
    ChatToolChoice,
    FilePart,
    ImagePart,
    OtherMessage,
    ResponseFormat,
    Texts,
    ToolMessage,
    UserMessage,
    UserPart,
)
from holdfast.server.protocols.content_parts import (
    guess_file_type,
    make_media_from_data,
    make_media_from_url,
    refuse,
)
from holdfast.server.protocols.request_arguments import (
    JSON_OBJECT,
    TakenFields,
    check_names,
    check_tool_count,
    make_client_tool,
    make_schema,
)


def to_messages(given: Sequence[ChatMessage]) -> list[Message]:
    """Return the messages of a history. Results that follow each other are one message.

    Raises:
        ProblemError: a result has no call before it, a call has no result, or a medium is wrong.
    """
    messages: list[Message] = []
    open_calls: dict[str, str] = {}
    results: list[ToolResult] = []
    for at, message in enumerate(given):
        field = f"messages[{at}]"
        if isinstance(message, ToolMessage):
            name = open_calls.pop(message.tool_call_id, None)
            if name is None:
                raise refuse(f"{field}.tool_call_id", "no call with this id is before it")
            results.append(
                ToolResult(message.tool_call_id, name, (Text(read_text(message.content)),))
            )
            continue
        if results:
            messages.append(tool_results(results))
            results = []
        if open_calls:
            missing = ", ".join(open_calls)
            raise refuse(field, f"the calls before it have no results: {missing}")
        converted = _to_message(message, field)
        open_calls = {call.id: call.name for call in converted.calls}
        messages.append(converted)
    if open_calls:
        raise refuse("messages", f"these calls have no results: {', '.join(open_calls)}")
    if results:
        messages.append(tool_results(results))
    return messages


def _to_message(message: OtherMessage, field: str) -> Message:
    if isinstance(message, UserMessage):
        if isinstance(message.content, str):
            return Message("user", (Text(message.content),))
        parts = [
            _to_part(part, f"{field}.content[{at}]") for at, part in enumerate(message.content)
        ]
        return Message("user", tuple(parts))
    if isinstance(message, AssistantMessage):
        return Message("assistant", tuple(_to_assistant_parts(message)))
    return Message("system", (Text(read_text(message.content)),))


def _to_assistant_parts(message: AssistantMessage) -> list[Part]:
    content = message.content or ()
    parts: list[Part] = [Text(content)] if isinstance(content, str) else []
    if not isinstance(content, str):
        parts += [
            Text(part.text) if isinstance(part, ChatTextPart) else Refusal(part.refusal)
            for part in content
        ]
    if message.refusal:
        parts.append(Refusal(message.refusal))
    calls = message.tool_calls or ()
    parts += [ToolCall(one.id, one.function.name, one.function.arguments or "{}") for one in calls]
    return parts


def read_text(content: Texts) -> str:
    """Return the text of a message."""
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _to_part(part: UserPart, field: str) -> Text | Media:
    if isinstance(part, ChatTextPart):
        return Text(part.text)
    if isinstance(part, ImagePart):
        return make_media_from_url(part.image_url.url, f"{field}.image_url.url", "image/jpeg")
    if isinstance(part, AudioPart):
        audio = part.input_audio
        kind = {"mp3": "audio/mpeg"}.get(audio.format, f"audio/{audio.format}")
        return make_media_from_data(audio.data, kind, f"{field}.input_audio.data")
    return _to_file(part, field)


def _to_file(part: FilePart, field: str) -> Media:
    file = part.file
    if file.file_data is None:
        raise refuse(f"{field}.file.file_data", "is missing; there is no store of files")
    kind = guess_file_type(file.filename)
    return make_media_from_data(file.file_data, kind, f"{field}.file.file_data", file.filename)


FIELDS = TakenFields(
    refused={
        "n": ((1,), "only one choice is made"),
        "logprobs": ((False,), "log probabilities are not kept"),
        "top_logprobs": ((0,), "log probabilities are not kept"),
        "modalities": ((["text"],), "only text is written"),
        "audio": ((), "only text is written"),
        "functions": (([],), "is deprecated; use tools"),
        "function_call": ((), "is deprecated; use tool_choice"),
    },
    dropped={
        "logit_bias": (({},), "is not supported"),
        "prediction": ((), "is not supported"),
        "web_search_options": ((), "the agent has its own tools"),
    },
)
"""The fields that are not taken: which values have no effect, and why others are refused or left out."""


def make_settings(request: ChatRequest) -> ModelSettings | None:
    """Return the settings of the model that a request names; None if it names none."""
    stop = request.stop or ()
    settings = ModelSettings(
        max_tokens=request.max_completion_tokens or request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=request.seed,
        top_k=request.top_k,
        frequency_penalty=request.frequency_penalty or None,
        presence_penalty=request.presence_penalty or None,
        verbosity=request.verbosity,
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
