"""The body of `POST /v1/responses` and the queries of its routes, as types.

Fields of the body that are not listed are left out, or refused. Fields of items that are not listed are
ignored: clients send back the fields of other services.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from holdfast.core.model_request import ReasoningEffort, Verbosity
from holdfast.server.api.request_bodies import FileName, SessionName
from holdfast.server.protocols.openai_shapes import CallerMetadata


class InputText(Struct, frozen=True, tag_field="type", tag="input_text"):
    """A text of the user."""

    text: str


class OutputText(Struct, frozen=True, tag_field="type", tag="output_text"):
    """A text of the model."""

    text: str


class PlainText(Struct, frozen=True, tag_field="type", tag="text"):
    """A text, by its older name."""

    text: str


class RefusalText(Struct, frozen=True, tag_field="type", tag="refusal"):
    """The text with which a model declined."""

    refusal: str


class InputImage(Struct, frozen=True, tag_field="type", tag="input_image"):
    """A picture; `file_id` is refused."""

    image_url: str | None = None
    file_id: str | None = None


class InputFile(Struct, frozen=True, tag_field="type", tag="input_file"):
    """A file; `file_id` is refused."""

    file_data: str | None = None
    file_url: str | None = None
    filename: FileName | None = None
    file_id: str | None = None


class ResponseAudio(Struct, frozen=True):
    """A sound."""

    data: str
    format: str


class InputAudio(Struct, frozen=True, tag_field="type", tag="input_audio"):
    """A sound."""

    input_audio: ResponseAudio


ContentPart: TypeAlias = (
    InputText | OutputText | PlainText | RefusalText | InputImage | InputFile | InputAudio
)


class MessageItem(Struct, frozen=True, tag_field="type", tag="message"):
    """A message. Its type may be left out."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[ContentPart]


class CallItem(Struct, frozen=True, tag_field="type", tag="function_call"):
    """A call of a function."""

    call_id: str
    name: str
    arguments: str = "{}"


class CallOutputItem(Struct, frozen=True, tag_field="type", tag="function_call_output"):
    """The result of a call."""

    call_id: str
    output: str | list[ContentPart]


class ApprovalRequestItem(Struct, frozen=True, tag_field="type", tag="mcp_approval_request"):
    """A request for an approval, which the client sends back. It has no effect."""

    id: str = ""


class ApprovalItem(Struct, frozen=True, tag_field="type", tag="mcp_approval_response"):
    """The answer to a request for an approval."""

    approval_request_id: str
    approve: bool
    reason: str | None = None


class ResponseReasoning(Struct, frozen=True, tag_field="type", tag="reasoning"):
    """Reasoning of a model, which the client sends back. It has no effect."""


class SearchCallItem(Struct, frozen=True, tag_field="type", tag="web_search_call"):
    """A search of the provider, which the client sends back. It has no effect."""


class FileSearchCallItem(Struct, frozen=True, tag_field="type", tag="file_search_call"):
    """A search of the provider in files, which the client sends back. It has no effect."""


class CodeCallItem(Struct, frozen=True, tag_field="type", tag="code_interpreter_call"):
    """Code that the provider ran, which the client sends back. It has no effect."""


class ImageCallItem(Struct, frozen=True, tag_field="type", tag="image_generation_call"):
    """A picture of the provider, which the client sends back. It has no effect."""


InputItem: TypeAlias = (
    MessageItem
    | CallItem
    | CallOutputItem
    | ApprovalRequestItem
    | ApprovalItem
    | ResponseReasoning
    | SearchCallItem
    | FileSearchCallItem
    | CodeCallItem
    | ImageCallItem
)


class ConversationId(Struct, frozen=True):
    """Names a conversation."""

    id: SessionName


class ResponseFunctionTool(Struct, frozen=True):
    """A tool of the caller. Only functions are taken; the agent has tools of its own."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseToolChoice(Struct, frozen=True):
    """The choice of one function."""

    type: str
    name: str = ""


class TextFormat(Struct, frozen=True):
    """The form of the output."""

    type: Literal["text", "json_object", "json_schema"]
    name: str = "answer"
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class TextOptions(Struct, frozen=True):
    """The form of the text."""

    format: TextFormat | None = None
    verbosity: Verbosity | None = None


class ReasoningOptions(Struct, frozen=True):
    """How much the model thinks."""

    effort: ReasoningEffort | None = None
    summary: str | None = None
    generate_summary: str | None = None


class ResponseRequest(Struct, frozen=True):
    """A request. From `max_tool_calls` on, fields are taken with defaults only, or have no effect."""

    input: str | list[dict[str, Any]] | None = None
    model: str | None = None
    instructions: str | None = None
    stream: bool | None = None
    background: bool | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: SessionName | ConversationId | None = None
    tools: list[ResponseFunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ResponseToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    metadata: CallerMetadata | None = None
    max_tool_calls: int | None = None
    prompt: Any = None
    top_logprobs: int | None = None
    truncation: str | None = None
    context_management: Any = None
    include: list[str] | None = None
    stream_options: dict[str, Any] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None


class ResponseQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a request for a response.

    Args:
        stream: whether to send its events.
        starting_after: the sequence number after which they begin.
        include: has no effect.
        include_all: has no effect; `include[]` as clients write a list.
        include_obfuscation: has no effect.
    """

    stream: bool = False
    starting_after: int | None = None
    include: str = ""
    include_all: str = field(default="", name="include[]")
    include_obfuscation: bool = False


class ItemsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a list of items.

    Args:
        after: list the items after the one with this id.
        limit: how many items at most.
        order: "desc" lists the newest item first.
        include: has no effect.
        include_all: has no effect; `include[]` as clients write a list.
    """

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    include: str = ""
    include_all: str = field(default="", name="include[]")


class ConversationChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/conversations/{conversation}`.

    Args:
        metadata: takes the place of the metadata.
    """

    metadata: CallerMetadata


class NewConversation(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/conversations`; `items` are refused.

    Args:
        metadata: is saved, and can be read and changed.
        items: must be empty.
    """

    metadata: CallerMetadata | None = None
    items: list[Any] | None = None
