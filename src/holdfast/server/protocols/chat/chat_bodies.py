"""The body of `POST /v1/chat/completions`, as types. Fields that are not listed are left out, or refused.

Fields of messages that are not listed are ignored: clients send back the fields of other services.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from holdfast.core.model_request import ReasoningEffort, Verbosity
from holdfast.server.api.request_bodies import FileName
from holdfast.server.protocols.openai_shapes import CallerMetadata


class ChatTextPart(Struct, frozen=True, tag_field="type", tag="text"):
    """A text."""

    text: str


class RefusalPart(Struct, frozen=True, tag_field="type", tag="refusal"):
    """The text with which a model declined."""

    refusal: str


class ImageUrl(Struct, frozen=True):
    """Where a picture is."""

    url: str


class ImagePart(Struct, frozen=True, tag_field="type", tag="image_url"):
    """A picture."""

    image_url: ImageUrl


class ChatAudio(Struct, frozen=True):
    """A sound."""

    data: str
    format: str


class AudioPart(Struct, frozen=True, tag_field="type", tag="input_audio"):
    """A sound."""

    input_audio: ChatAudio


class FileData(Struct, frozen=True):
    """A file; `file_id` is refused."""

    file_data: str | None = None
    filename: FileName | None = None
    file_id: str | None = None


class FilePart(Struct, frozen=True, tag_field="type", tag="file"):
    """A file."""

    file: FileData


UserPart: TypeAlias = ChatTextPart | ImagePart | AudioPart | FilePart
Texts: TypeAlias = str | list[ChatTextPart]


class SystemMessage(Struct, frozen=True, tag_field="role", tag="system"):
    """Instructions of the caller."""

    content: Texts


class DeveloperMessage(Struct, frozen=True, tag_field="role", tag="developer"):
    """Instructions of the caller, by their newer name."""

    content: Texts


class UserMessage(Struct, frozen=True, tag_field="role", tag="user"):
    """A message of the user."""

    content: str | list[UserPart]


class ChatFunctionCall(Struct, frozen=True):
    """The function that is called."""

    name: str
    arguments: str = "{}"


class CallPart(Struct, frozen=True):
    """A call of a tool."""

    id: str
    function: ChatFunctionCall
    type: Literal["function"] = "function"


class AssistantMessage(Struct, frozen=True, tag_field="role", tag="assistant"):
    """A message of the model."""

    content: str | list[ChatTextPart | RefusalPart] | None = None
    refusal: str | None = None
    tool_calls: list[CallPart] | None = None


class ToolMessage(Struct, frozen=True, tag_field="role", tag="tool"):
    """The result of a call."""

    tool_call_id: str
    content: Texts


OtherMessage: TypeAlias = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage
ChatMessage: TypeAlias = OtherMessage | ToolMessage


class FunctionSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A function of the caller."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatFunctionTool(Struct, frozen=True):
    """A tool of the caller. Only functions are taken; the agent has tools of its own."""

    type: str
    function: FunctionSpec | None = None


class NamedFunction(Struct, frozen=True):
    """The name of a function."""

    name: str


class ChatToolChoice(Struct, frozen=True):
    """The choice of one function."""

    type: str
    function: NamedFunction | None = None


class SchemaFormat(Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON Schema of the output."""

    name: str
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Struct, frozen=True):
    """The form of the output."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: SchemaFormat | None = None


class StreamOptions(Struct, frozen=True):
    """The options of a stream."""

    include_usage: bool | None = None


class ChatRequest(Struct, frozen=True):
    """A request. The fields from `n` on are taken with their defaults only, or have no effect."""

    model: str
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[ChatFunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChatToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    verbosity: Verbosity | None = None
    reasoning_effort: ReasoningEffort | None = None
    metadata: CallerMetadata | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, Any] | None = None
    modalities: list[str] | None = None
    audio: Any = None
    prediction: Any = None
    web_search_options: Any = None
    functions: list[Any] | None = None
    function_call: Any = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None
    store: bool | None = None
