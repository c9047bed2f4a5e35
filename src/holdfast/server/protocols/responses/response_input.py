"""Turns a Responses request into messages, answers and arguments of a turn, and refuses fields that are not taken.

This module must never start a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.client_tools import ClientTool, ClientToolResult
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
    user,
)
from holdfast.core.model_request import ModelSettings
from holdfast.server.problem_responses import ProblemError
from holdfast.server.protocols.content_parts import (
    guess_file_type,
    make_media_from_data,
    make_media_from_url,
    refuse,
)
from holdfast.server.protocols.openai_shapes import read_call_id
from holdfast.server.protocols.request_arguments import (
    JSON_OBJECT,
    TakenFields,
    check_names,
    check_tool_count,
    make_client_tool,
    make_schema,
)
from holdfast.server.protocols.responses.response_bodies import (
    ApprovalItem,
    CallItem,
    CallOutputItem,
    ContentPart,
    InputFile,
    InputImage,
    InputItem,
    InputText,
    MessageItem,
    OutputText,
    PlainText,
    RefusalText,
    ResponseFunctionTool,
    ResponseRequest,
    ResponseToolChoice,
    TextOptions,
)


class ResponseInput(Struct, frozen=True):
    """The content of a request.

    Args:
        messages: the messages, without the answers at the end.
        results: the results of tools at the end, by the ids of their calls.
        approvals: the answers to requests for an approval at the end.
        fault: why the messages before the answers cannot be read; a run that goes on needs none of them.
    """

    messages: tuple[Message, ...]
    results: dict[str, ClientToolResult] = {}
    approvals: tuple[ApprovalItem, ...] = ()
    fault: ProblemError | None = None

    @property
    def has_answers(self) -> bool:
        """Whether the input ends with answers for a turn that waits."""
        return bool(self.results or self.approvals)


def read_input(
    given: str | Sequence[dict[str, Any]] | None, *, is_new: bool = False
) -> ResponseInput:
    """Return the content of the input of a request. Raises ProblemError that names the item.

    Args:
        given: the input.
        is_new: whether the request names no response and no conversation. Results of calls that are not ours are then
            the end of a history that began elsewhere, and no answers.
    """
    if isinstance(given, str):
        return ResponseInput((user(given),))
    if not given:
        raise refuse("input", "is missing", "missing_required_parameter")
    items = [_read_item(item, f"input[{at}]") for at, item in enumerate(given)]
    end = len(items)
    while end and isinstance(items[end - 1], CallOutputItem | ApprovalItem):
        end -= 1
    if is_new and not any(_is_ours(item) for item in items[end:]):
        end = len(items)
    results: dict[str, ClientToolResult] = {}
    approvals: list[ApprovalItem] = []
    for at, item in enumerate(items[end:], end):
        if isinstance(item, ApprovalItem):
            approvals.append(item)
        elif isinstance(item, CallOutputItem):
            text = _read_output(item, f"input[{at}].output")
            results[item.call_id] = ClientToolResult(text)
    try:
        messages, fault = tuple(_to_messages(items[:end])), None
    except ProblemError as error:
        if end == len(items):
            raise
        messages, fault = (), error
    return ResponseInput(messages, results, tuple(approvals), fault)


def _is_ours(item: InputItem) -> bool:
    """Whether an item at the end of an input answers something that a run has asked for."""
    return not isinstance(item, CallOutputItem) or read_call_id(item.call_id) is not None


def _read_item(item: dict[str, Any], field: str) -> InputItem:
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "item_reference":
        raise refuse(
            field, "is a reference, which is not taken; send the item", "unsupported_value"
        )
    try:
        read: InputItem = msgspec.convert({**item, "type": kind}, InputItem)
    except msgspec.ValidationError as error:
        raise refuse(field, str(error)) from error
    return read


def _to_messages(items: Sequence[InputItem]) -> list[Message]:
    """Return the messages of a history; calls and results that follow each other are one message."""
    messages: list[Message] = []
    names: dict[str, str] = {}
    for at, item in enumerate(items):
        field = f"input[{at}]"
        if isinstance(item, MessageItem):
            messages.append(_to_message(item, field))
        elif isinstance(item, CallItem):
            names[item.call_id] = item.name
            call = ToolCall(item.call_id, item.name, item.arguments or "{}")
            _join(messages, Message("assistant", (call,)))
        elif isinstance(item, CallOutputItem):
            if item.call_id not in names:
                raise refuse(f"{field}.call_id", "no call with this id is before it")
            text = Text(_read_output(item, f"{field}.output"))
            result = ToolResult(item.call_id, names[item.call_id], (text,))
            _join(messages, tool_results([result]))
        elif isinstance(item, ApprovalItem):
            raise refuse(field, "an approval must be at the end of the input")
    return messages


def _join(messages: list[Message], message: Message) -> None:
    """Add a message, or its parts to the last one if that has the same role."""
    if messages and messages[-1].role == message.role:
        messages[-1] = Message(message.role, (*messages[-1].parts, *message.parts))
    else:
        messages.append(message)


def _to_message(item: MessageItem, field: str) -> Message:
    role = "system" if item.role == "developer" else item.role
    if isinstance(item.content, str):
        return Message(role, (Text(item.content),))
    parts = [_to_part(part, f"{field}.content[{at}]") for at, part in enumerate(item.content)]
    return Message(role, tuple(parts))


def _to_part(part: ContentPart, field: str) -> Part:
    if isinstance(part, InputText | OutputText | PlainText):
        return Text(part.text)
    if isinstance(part, RefusalText):
        return Refusal(part.refusal)
    if isinstance(part, InputImage):
        if part.image_url is None:
            raise refuse(f"{field}.image_url", "is missing; there is no store of files")
        return make_media_from_url(part.image_url, f"{field}.image_url", "image/jpeg")
    if isinstance(part, InputFile):
        return _to_file(part, field)
    audio = part.input_audio
    kind = {"mp3": "audio/mpeg"}.get(audio.format, f"audio/{audio.format}")
    return make_media_from_data(audio.data, kind, f"{field}.input_audio.data")


def _to_file(part: InputFile, field: str) -> Media:
    kind, name = guess_file_type(part.filename), part.filename
    if part.file_data is not None:
        return make_media_from_data(part.file_data, kind, f"{field}.file_data", name)
    if part.file_url is not None:
        return make_media_from_url(part.file_url, f"{field}.file_url", kind, name)
    raise refuse(f"{field}.file_data", "is missing; there is no store of files")


def _read_output(item: CallOutputItem, field: str) -> str:
    if isinstance(item.output, str):
        return item.output
    texts = []
    for at, part in enumerate(item.output):
        if not isinstance(part, InputText | OutputText | PlainText):
            raise refuse(f"{field}[{at}]", "is not a text; a result is a text", "unsupported_value")
        texts.append(part.text)
    return "".join(texts)


FIELDS = TakenFields(
    refused={
        "prompt": ((), "prompts are not stored; the agent has its instructions"),
        "top_logprobs": ((0,), "log probabilities are not kept"),
    },
    dropped={
        "max_tool_calls": ((), "is not supported; the agent has limits of its own"),
        "truncation": (("disabled", "auto"), "is not supported"),
        "context_management": (([],), "is not supported"),
    },
)
"""The fields that are not taken: which values have no effect, and why others are refused or left out."""


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
        top_k=request.top_k,
        frequency_penalty=request.frequency_penalty or None,
        presence_penalty=request.presence_penalty or None,
        verbosity=None if request.text is None else request.text.verbosity,
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
