"""The server side of OpenAI's Responses wire, without stored responses.

Reasoning is an item with a summary, and with encrypted content if the request asks for it. An opaque
part of this wire is sent as its item. Any other part that the wire does not support raises
ConfigurationError. Most errors are those of Chat Completions; those with other texts are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    FinishReason,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Text,
    ToolCall,
    Usage,
)
from holdfast.testing.emulator.emulated_request import (
    EmulatedRequest,
    MalformedRequest,
    find_limit,
)
from holdfast.testing.emulator.faults import ErrorKind
from holdfast.testing.emulator.wires.emulator_wire import (
    Chunking,
    EmulatedError,
    Rendering,
    split_text,
)
from holdfast.testing.emulator.wires.history_parts import sign_text
from holdfast.testing.emulator.wires.openai_chat import ERRORS as CHAT
from holdfast.testing.emulator.wires.openai_chat import parse_body
from holdfast.testing.emulator.wires.openai_responses_history import (
    WIRE,
    check_items,
    find_namespaces,
    items_of,
    read_items,
    read_tools,
    thought_of,
)

NAME: Final = "openai_responses"
BASE_PATH: Final = "/v1"
REQUEST_ID: Final = "x-request-id"
KEEP_ALIVE: Final = b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n'

_encode = msgspec.json.encode
_Object: TypeAlias = dict[str, object]

_INCOMPLETE: dict[FinishReason, str] = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}


def matches(path: str) -> bool:
    """Whether a POST to this path is a model call of this wire."""
    return path.endswith("/responses")


def parse_request(
    path: str,  # noqa: ARG001  # other wires name the model there
    headers: Mapping[str, str],
    body: bytes,
) -> EmulatedRequest:
    """Parse a request to neutral form.

    Raises:
        MalformedRequest: the real API would respond with status 400.
    """
    parsed = parse_body(body, "Missing required parameter: 'model'.")
    items = items_of(parsed)
    check_items(items, stored=parsed.get("store") is not False)
    return EmulatedRequest(
        wire=NAME,
        model=parsed["model"],
        messages=read_items(parsed, items),
        tools=read_tools(parsed.get("tools") or []),
        namespaces=find_namespaces(parsed.get("tools") or []),
        stream=parsed.get("stream") is True,
        include_usage=True,
        max_tokens=find_limit(parsed, "max_output_tokens"),
        include_state=_includes_reasoning(parsed.get("include")),
        headers=headers,
        body=parsed,
        size=len(body),
    )


def _includes_reasoning(wanted: object) -> bool:
    return isinstance(wanted, list) and "reasoning.encrypted_content" in wanted


def render_whole(reply: Reply, rendering: Rendering) -> bytes:
    """Render the body of a reply that is not streamed."""
    items = items_for(reply, rendering)
    return _encode(_build_final(reply, rendering, items))


def render_chunks(reply: Reply, rendering: Rendering) -> list[bytes]:
    """Render the events of a streamed reply."""
    items = items_for(reply, rendering)
    initial = _build_response(reply, rendering, "in_progress", [])
    bodies: list[_Object] = [
        {"type": "response.created", "response": initial},
        {"type": "response.in_progress", "response": initial},
    ]
    for index, item in enumerate(items):
        bodies += item_events(item, index, rendering.chunking)
    if rendering.terminate:
        ended = _build_final(reply, rendering, items)
        bodies.append({"type": f"response.{ended['status']}", "response": ended})
    return [_encode_event({**body, "sequence_number": at}) for at, body in enumerate(bodies)]


def error_body(kind: ErrorKind) -> EmulatedError:
    """Return OpenAI's error response of this kind."""
    return ERRORS[kind]


def invalid_request(error: MalformedRequest) -> EmulatedError:
    """Make the error response of a refused request."""
    return make_error(error.status, str(error), error.code, error.param)


def error_event(body: bytes) -> bytes:
    """Make an error of a stream: an error event and a failed response."""
    error = _extract_error(body)
    first = {"type": "error", "sequence_number": 2, "error": error}
    failed = {"type": "response.failed", "sequence_number": 3, "response": _build_failed(error)}
    return _encode_event(first) + _encode_event(failed)


def error_whole(body: bytes) -> bytes:
    """Make a failed response."""
    return _encode(_build_failed(_extract_error(body)))


def _extract_error(body: bytes) -> object:
    value = msgspec.json.decode(body)
    return value.get("error", value) if isinstance(value, dict) else value


def _build_failed(error: object) -> _Object:
    fields = error if isinstance(error, dict) else {}
    code = fields.get("code") or fields.get("type") or "server_error"
    response = _build_response(Reply(()), Rendering(model="emulated-model"), "failed", [])
    return response | {"error": {"code": code, "message": fields.get("message", "")}}


def _build_final(reply: Reply, rendering: Rendering, items: list[_Object]) -> _Object:
    reason = _INCOMPLETE.get(reply.finish)
    status = reply.raw_finish or ("completed" if reason is None else "incomplete")
    response = _build_response(reply, rendering, status, items)
    response["usage"] = _encode_usage(rendering.usage)
    if reason is not None:
        response["incomplete_details"] = {"reason": reason}
    return response


def _build_response(
    reply: Reply, rendering: Rendering, status: str, items: list[_Object]
) -> _Object:
    return {
        "id": reply.id or f"resp_emulated_{rendering.number}",
        "object": "response",
        "created_at": rendering.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": reply.model or rendering.model,
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
    }


def _encode_event(body: _Object) -> bytes:
    return b"event: " + str(body["type"]).encode() + b"\ndata: " + _encode(body) + b"\n\n"


def _encode_usage(usage: Usage) -> _Object:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached_input},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def make_error(
    status: int, message: str, code: str | None, param: str | None = None
) -> EmulatedError:
    """Make an error response with this message."""
    kind = "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return EmulatedError(status, body)


ERRORS: dict[ErrorKind, EmulatedError] = {
    **CHAT,
    "context_length": make_error(
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
        "context_length_exceeded",
        "input",
    ),
    "model_not_found": make_error(
        400, "The requested model 'emulated-missing' does not exist.", "model_not_found", "model"
    ),
    "content_filtered": make_error(
        400,
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please "
        "try again with a different prompt: "
        "https://platform.openai.com/docs/guides/reasoning#advice-on-prompting",
        "invalid_prompt",
    ),
    "invalid_request": make_error(
        400,
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 "
        "instead.",
        "decimal_above_max_value",
        "temperature",
    ),
}


_Item: TypeAlias = dict[str, Any]
_Event: TypeAlias = dict[str, object]


def items_for(reply: Reply, rendering: Rendering) -> list[_Item]:
    """Convert a reply to items; successive texts and refusals are one message."""
    items: list[_Item] = []
    for part in reply.parts:
        if not isinstance(part, Text | Refusal):
            items.append(_render_item(part, f"{rendering.number}_{len(items)}", rendering))
            continue
        if not part.text:
            continue
        if not items or items[-1]["type"] != "message":
            own = f"msg_emulated_{rendering.number}_{len(items)}"
            fields = {"status": "completed", "role": "assistant", "content": []}
            items.append({"type": "message", "id": own, **fields})
        items[-1]["content"].append(_render_text(part))
    return items if rendering.choices else []


def _render_text(part: Text | Refusal) -> _Item:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    own = (part.extra or {}).get("part")
    notes = own.get("annotations", []) if isinstance(own, dict) else []
    return {"type": "output_text", "text": part.text, "annotations": notes, "logprobs": []}


def _render_item(part: Part, name: str, rendering: Rendering) -> _Item:
    match part:
        case Reasoning():
            return _render_reasoning(part, name, sealed=rendering.include_state)
        case ToolCall():
            space = rendering.namespaces.get(part.name)
            return {
                "type": "function_call",
                "id": f"fc_emulated_{name}",
                "status": "completed",
                "call_id": part.id,
                "name": part.name,
                "arguments": part.arguments,
                **({"namespace": space} if space else {}),
            }
        case Opaque(wire="openai_responses", data=data):
            return dict(data)
        case _:
            raise ConfigurationError(
                "replies", f"the wire {WIRE} cannot carry {type(part).__name__} in a reply"
            )


def _render_reasoning(part: Reasoning, name: str, *, sealed: bool) -> _Item:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item = {"type": "reasoning", "id": f"rs_emulated_{name}", "summary": summary}
    state = part.signature or sign_text(thought_of(item))
    return {**item, "encrypted_content": state if sealed else None}


def item_events(item: _Item, index: int, chunking: Chunking) -> list[_Event]:
    """Return the events of an item, from its start to its end, without sequence numbers."""
    place: _Event = {"item_id": item.get("id"), "output_index": index}
    initial, events = item, []
    match item["type"]:
        case "message":
            initial = {**item, "status": "in_progress", "content": []}
            for at, part in enumerate(item["content"]):
                events += _content_events(part, {**place, "content_index": at}, chunking)
        case "reasoning":
            initial = {**item, "summary": []}
            for at, part in enumerate(item["summary"]):
                events += _summary_events(part, {**place, "summary_index": at}, chunking)
        case "function_call":
            initial = {**item, "status": "in_progress", "arguments": ""}
            kind = "response.function_call_arguments"
            events = [
                {"type": f"{kind}.delta", **place, "delta": piece}
                for piece in split_text(item["arguments"], chunking)
            ]
            events.append({"type": f"{kind}.done", **place, "arguments": item["arguments"]})
        case "web_search_call" | "file_search_call" | "code_interpreter_call" as kind:
            initial = {"type": kind, "id": item["id"], "status": "in_progress"}
            step = "interpreting" if kind == "code_interpreter_call" else "searching"
            events = [
                {"type": f"response.{kind}.{state}", **place}
                for state in ("in_progress", step, "completed")
            ]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": initial},
        *events,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _content_events(part: _Item, place: _Event, chunking: Chunking) -> list[_Event]:
    field = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if field == "refusal" else "response.output_text"
    beside: _Event = {} if field == "refusal" else {"logprobs": []}
    notes: list[_Event] = [
        {"type": "response.output_text.annotation.added", **place, "annotation": note}
        for note in part.get("annotations", [])
    ]
    return [
        {"type": "response.content_part.added", **place, "part": {**part, field: ""}},
        *(
            {"type": f"{kind}.delta", **place, "delta": piece, **beside}
            for piece in split_text(part[field], chunking)
        ),
        *notes,
        {"type": f"{kind}.done", **place, field: part[field], **beside},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def _summary_events(part: _Item, place: _Event, chunking: Chunking) -> list[_Event]:
    kind = "response.reasoning_summary_part"
    text = "response.reasoning_summary_text"
    return [
        {"type": f"{kind}.added", **place, "part": {**part, "text": ""}},
        *(
            {"type": f"{text}.delta", **place, "delta": piece}
            for piece in split_text(part["text"], chunking)
        ),
        {"type": f"{text}.done", **place, "text": part["text"]},
        {"type": f"{kind}.done", **place, "part": part},
    ]
