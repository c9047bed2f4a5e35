"""The response object and its items: a segment of a turn in the form of Responses.

Everything in it comes from the journal, so a response reads the same whoever asks, whenever. The calls of every
provider have the form of OpenAI's own, so that clients of Responses know them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.codecs.citation import Citation
from holdfast.codecs.hosted_calls import HostedCall
from holdfast.core.events import QuestionAsked, Status
from holdfast.core.json_strict import dump_json
from holdfast.core.messages import FinishReason, Media, Message, Text, ToolCall, ToolResult
from holdfast.core.model_request import ModelSettings
from holdfast.core.question_log import ASKED
from holdfast.core.questions import ContinuationQuestion, PermissionQuestion
from holdfast.core.turn_options import NO_OPTIONS, TurnOptions
from holdfast.event_log.display.display_items import parse_arguments
from holdfast.hosting.turns.unread_turns import ON_DISCONNECT
from holdfast.server.protocols.openai_shapes import (
    REQUEST_KEY,
    SegmentName,
    describe_failure,
    make_call_id,
    name_error,
    to_client_call,
    to_responses_usage,
)
from holdfast.server.protocols.protocol_names import make_name
from holdfast.server.protocols.segments import (
    HostedCallEnded,
    SegmentBegun,
    SegmentedTurn,
    SegmentEnded,
    question_fields,
)

RESPONSE = "resp_"
APPROVAL = "mcpr_"

Json: TypeAlias = dict[str, object]
ResponseStatus: TypeAlias = Literal[
    "queued", "in_progress", "completed", "failed", "incomplete", "cancelled"
]

_STATUSES: dict[Status, ResponseStatus] = {
    Status.COMPLETED: "completed",
    Status.WAITING: "completed",
    Status.STOPPED: "completed",
    Status.LIMIT: "incomplete",
    Status.CANCELLED: "cancelled",
}


class ResponseHead(Struct, frozen=True):
    """The fields of a response that are known from its beginning.

    Args:
        name: the segment.
        begun: its beginning.
    """

    name: SegmentName
    begun: SegmentBegun

    @property
    def id(self) -> str:
        """The id of the response."""
        return self.name.to_id(RESPONSE)

    def build(self, status: ResponseStatus, output: list[Json], ended: Json | None = None) -> Json:
        """Return the response object.

        Args:
            status: its status.
            output: its items.
            ended: the fields that its end sets.
        """
        opened = self.begun.opened
        options = opened.options or NO_OPTIONS
        request = _read_request(options)
        fields: Json = {
            "id": self.id,
            "object": "response",
            "created_at": int(self.begun.at),
            "completed_at": None,
            "status": status,
            "background": request.get("background", False),
            "error": None,
            "incomplete_details": None,
            "instructions": options.instructions or None,
            "max_tool_calls": None,
            "model": opened.agent,
            "output": output,
            "previous_response_id": self._find_previous(request),
            "conversation": {"id": self.name.session} if request.get("conversation") else None,
            "store": request.get("store", True),
            "service_tier": "default",
            "truncation": "disabled",
            "usage": None,
            "user": None,
            "safety_identifier": None,
            "prompt_cache_key": None,
            "metadata": {
                k: v for k, v in options.metadata.items() if k not in (REQUEST_KEY, ON_DISCONNECT)
            },
            **_describe_settings(options, request),
        }
        return {**fields, **(ended or {})}

    def _find_previous(self, request: Json) -> object:
        if self.name.segment:
            name = self.name
            return SegmentName(name.session, name.turn, name.segment - 1).to_id(RESPONSE)
        return request.get("previous_response_id")


def _read_request(options: TurnOptions) -> Json:
    request = options.metadata.get(REQUEST_KEY)
    return request if isinstance(request, dict) else {}


def _describe_settings(options: TurnOptions, request: Json) -> Json:
    """Return the settings of the request as the response repeats them."""
    settings = options.settings or ModelSettings()
    parallel, choice = settings.parallel_tool_calls, settings.tool_choice or "auto"
    named = choice not in ("auto", "none", "required")
    return {
        "max_output_tokens": settings.max_tokens,
        "parallel_tool_calls": True if parallel is None else parallel,
        "reasoning": {"effort": settings.reasoning_effort, "summary": None},
        "temperature": 1.0 if settings.temperature is None else settings.temperature,
        "top_p": 1.0 if settings.top_p is None else settings.top_p,
        "top_logprobs": 0,
        "presence_penalty": settings.presence_penalty or 0.0,
        "frequency_penalty": settings.frequency_penalty or 0.0,
        "text": _describe_text(settings, options, request),
        "tool_choice": {"type": "function", "name": choice} if named else choice,
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description or None,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in options.client_tools
        ],
    }


def _describe_text(settings: ModelSettings, options: TurnOptions, request: Json) -> Json:
    verbosity = {} if settings.verbosity is None else {"verbosity": settings.verbosity}
    return {"format": _describe_format(options, request), **verbosity}


def _describe_format(options: TurnOptions, request: Json) -> Json:
    if options.output is None:
        return {"type": "text"}
    if request.get("json_object"):
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": options.output.name or "answer",
        "description": options.output.description or None,
        "schema": options.output.schema,
        "strict": options.output.strict,
    }


def make_message(name: SegmentName, key: str, text_part: Json | None = None) -> Json:
    """Return a message of the model. While it is written, its text is not in it.

    Args:
        name: the segment.
        key: the model call that writes it.
        text_part: the part with its text; None while it is written.
    """
    return {
        "id": make_name("msg_", name.session, key),
        "type": "message",
        "status": "in_progress" if text_part is None else "completed",
        "role": "assistant",
        "content": [] if text_part is None else [text_part],
    }


def make_text_part(text: str, annotations: Sequence[Json] = ()) -> Json:
    """Return the part of a message that has its text.

    Args:
        text: the text.
        annotations: the sources that it cites.
    """
    return {
        "type": "output_text",
        "text": text,
        "annotations": list(annotations),
        "logprobs": [],
    }


def make_question_item(session: str, asked: QuestionAsked) -> Json:
    """Return the item of a question for which a turn waits.

    A call of the client's own tool is a function call, a permission or a continuation is a request for
    an approval, and any other question is a call of the function `answer_question`.

    Args:
        session: the session.
        asked: the question.
    """
    key, fields = asked.key.removesuffix(ASKED), question_fields(asked)
    if asked.kind in (PermissionQuestion.__name__, ContinuationQuestion.__name__):
        is_tool = asked.kind == PermissionQuestion.__name__
        return {
            "id": make_name(APPROVAL, session, key),
            "type": "mcp_approval_request",
            "server_label": "holdfast",
            "name": str(fields["tool"]) if is_tool else "continue",
            "arguments": dump_json(fields["arguments"] if is_tool else fields),
        }
    call = to_client_call(session, asked)
    return {
        "id": make_name("fc_", session, key),
        "type": "function_call",
        "status": "completed",
        "call_id": make_call_id(session, asked),
        "name": "answer_question" if call is None else call.name,
        "arguments": dump_json(fields) if call is None else call.arguments,
    }


def describe_end(head: ResponseHead, ended: SegmentEnded) -> tuple[ResponseStatus, Json]:
    """Return the status of a response that has ended, and the fields that its end sets."""
    fields: Json = {"usage": to_responses_usage(ended.usage)}
    status = _STATUSES.get(ended.status, "failed")
    if status == "completed" and ended.error is not None:
        status = "failed"
    if status == "failed":
        message = describe_failure(ended.error, head.name)
        fields["error"] = {"code": name_error(ended.error), "message": message}
        return status, fields
    if status == "completed" and ended.finish is FinishReason.LENGTH:
        status = "incomplete"
    if status == "incomplete":
        reason = "max_output_tokens" if ended.finish is FinishReason.LENGTH else "limit"
        fields["incomplete_details"] = {"reason": reason}
    if status == "completed":
        fields["completed_at"] = int(ended.at)
    return status, fields


_TYPES = {
    "web_search": ("web_search_call", "ws_"),
    "web_fetch": ("web_search_call", "ws_"),
    "file_search": ("file_search_call", "fs_"),
    "code_execution": ("code_interpreter_call", "ci_"),
    "image_generation": ("image_generation_call", "ig_"),
}


def make_hosted_item(name: SegmentName, ended: HostedCallEnded) -> Json | None:
    """Return the item of a call that the provider ran; None if the protocol has no word for its tool.

    Args:
        name: the segment.
        ended: the call.
    """
    call = ended.call
    found = _TYPES.get(call.name)
    if found is None:
        return None
    kind, prefix = found
    place = f"{ended.key.removesuffix('.model')}.hosted.{ended.index}"
    return {
        "id": make_name(prefix, name.session, place),
        "type": kind,
        "status": "failed" if call.is_error else "completed",
        **_describe_call(ended),
    }


def _describe_call(ended: HostedCallEnded) -> Json:
    call = ended.call
    arguments = parse_arguments(call.arguments) or {}
    lines = [] if call.is_error else [line for line in call.result.splitlines() if line]
    if call.name == "web_search":
        return {"action": _describe_search(arguments, lines)}
    if call.name == "web_fetch":
        return {"action": {"type": "open_page", "url": next(iter(_find_texts(arguments)), None)}}
    if call.name == "file_search":
        found = [{"text": line} for line in lines]
        return {"queries": _find_texts(arguments), "results": found or None}
    if call.name == "code_execution":
        outputs = [{"type": "logs", "logs": call.result}] if call.result else []
        return {"code": _find_code(call, arguments), "container_id": "", "outputs": outputs}
    data = ended.image.data if ended.image is not None else None
    return {"result": None if data is None else b64encode(data).decode()}


def _describe_search(arguments: Mapping[str, object], lines: Sequence[str]) -> Json:
    queries = _find_texts(arguments)
    urls = [word for line in lines for word in line.split() if "://" in word]
    return {
        "type": "search",
        "query": queries[0] if queries else "",
        "queries": queries,
        "sources": [{"type": "url", "url": url} for url in urls],
    }


def _find_texts(arguments: Mapping[str, object]) -> list[str]:
    """Return the queries or addresses among arguments, which providers name differently."""
    values = [one if isinstance(one, list) else [one] for one in arguments.values()]
    return list(dict.fromkeys(text for one in values for text in one if isinstance(text, str)))


def _find_code(call: HostedCall, arguments: Mapping[str, object]) -> str:
    for field in ("code", "command"):
        code = arguments.get(field)
        if isinstance(code, str):
            return code
    return call.arguments


def make_annotations(citations: Sequence[Citation]) -> list[Json]:
    """Return the annotations of a text. Sources without an address have none.

    >>> [one["url"] for one in make_annotations([Citation(url="https://porto.pt"), Citation(title="a.pdf")])]
    ['https://porto.pt']
    """
    return [
        {
            "type": "url_citation",
            "start_index": one.start,
            "end_index": one.end,
            "url": one.url,
            "title": one.title,
        }
        for one in citations
        if one.url
    ]


def make_input_items(name: SegmentName, told: SegmentedTurn) -> list[Json]:
    """Return the items of the request that began a segment: its messages, or results of the caller's tools.

    Args:
        name: the segment.
        told: its turn.
    """
    if name.segment:
        asked = told.segments[name.segment - 1].questions
        keys = [(one, one.key.removesuffix(ASKED)) for one in asked]
        return [
            _describe_output(name, make_call_id(name.session, one), key, told.answers[key].text)
            for one, key in keys
            if key in told.answers
        ]
    opened = told.opened
    messages = [*opened.history, *([opened.message] if opened.message else [])]
    return [
        item
        for at, message in enumerate(messages)
        for item in _make_message_items(name, f"t{name.turn}.input.{at}", message)
    ]


def _make_message_items(name: SegmentName, place: str, message: Message) -> list[Json]:
    items: list[Json] = []
    content: list[Json] = []
    for at, part in enumerate(message.parts):
        key = f"{place}.{at}"
        if isinstance(part, ToolResult):
            items.append(_describe_output(name, part.call_id, key, part.text))
        elif isinstance(part, ToolCall):
            call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
            named = {"id": make_name("fc_", name.session, key), "type": "function_call"}
            items.append({**named, "status": "completed", **call})
        elif isinstance(part, Text) and message.role == "assistant":
            content.append(make_text_part(part.text))
        elif isinstance(part, Text):
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Media):
            content.append(_describe_media(part))
    if content:
        head: Json = {"id": make_name("msg_", name.session, place), "type": "message"}
        items.insert(0, {**head, "status": "completed", "role": message.role, "content": content})
    return items


def _describe_output(name: SegmentName, call_id: str, key: str, text: str) -> Json:
    named: Json = {"id": make_name("fco_", name.session, key), "type": "function_call_output"}
    return {**named, "status": "completed", "call_id": call_id, "output": text}


def _describe_media(part: Media) -> Json:
    url = part.url
    if url is None:
        url = f"data:{part.media_type};base64,{b64encode(part.data or b'').decode()}"
    if part.media_type.startswith("image/"):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    field = "file_url" if part.url is not None else "file_data"
    return {"type": "input_file", field: url, "filename": part.name}
