"""The server side of OpenAI's Responses wire, without stored responses.

Reasoning is an item with a summary, and with encrypted content if the request asks for it. An opaque
part of this wire is sent as its item. Any other part that the wire does not support raises
ConfigurationError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from holdfast.core.messages import FinishReason, Reply, Usage
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.faults import ErrorKind
from holdfast.testing.emulator.wires.emulator_wire import EmulatedError, Rendering
from holdfast.testing.emulator.wires.openai_chat import parse_body
from holdfast.testing.emulator.wires.openai_responses_errors import ERRORS, make_error
from holdfast.testing.emulator.wires.openai_responses_history import (
    check_items,
    items_of,
    read_items,
    read_tools,
)
from holdfast.testing.emulator.wires.openai_responses_items import item_events, items_for

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
        stream=parsed.get("stream") is True,
        include_usage=True,
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


def invalid_request(message: str) -> EmulatedError:
    """Make an error response with status 400 and this message."""
    return make_error(400, message, None)


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
