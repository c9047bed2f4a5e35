"""The server side of Anthropic's Messages wire.

No history is held for the client: a request with a `thread` is refused, as the real API refuses one
that it cannot hold. A refusal of the model is a stop reason with an explanation, without a block. An opaque part of this
wire is sent as its block. Any other part that the wire does not support raises ConfigurationError.

The texts of its errors are the provider's; account names and numbers are invented. An exhausted balance
and a refused prompt have status 400.
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
from holdfast.testing.emulator.wires.anthropic_history import (
    check_history,
    read_history,
    read_tools,
)
from holdfast.testing.emulator.wires.emulator_wire import EmulatedError, Rendering, split_text
from holdfast.testing.emulator.wires.history_parts import sign_text

NAME: Final = "anthropic"
BASE_PATH: Final = ""
REQUEST_ID: Final = "request-id"
KEEP_ALIVE: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

_encode = msgspec.json.encode
_Object: TypeAlias = dict[str, object]

_STOP: dict[FinishReason, str] = {
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTENT_FILTER: "refusal",
    FinishReason.REFUSAL: "refusal",
    FinishReason.PAUSE: "pause_turn",
}


def matches(path: str) -> bool:
    """Whether a POST to this path is a model call of this wire."""
    return path.endswith("/v1/messages")


def parse_request(
    path: str,  # noqa: ARG001  # other wires name the model there
    headers: Mapping[str, str],
    body: bytes,
) -> EmulatedRequest:
    """Parse a request to neutral form.

    Raises:
        MalformedRequest: the real API would respond with status 400.
    """
    if not headers.get("anthropic-version"):
        raise MalformedRequest("anthropic-version: header is required")
    try:
        parsed: Any = msgspec.json.decode(body)
    except (ValueError, RecursionError) as problem:
        raise MalformedRequest(f"The request body is not valid JSON: {problem}") from None
    if not isinstance(parsed, dict):
        raise MalformedRequest(
            "Input should be a valid dictionary or object to extract fields from"
        )
    _check_fields(parsed)
    check_history(parsed)
    return EmulatedRequest(
        wire=NAME,
        model=parsed["model"],
        messages=read_history(parsed),
        tools=read_tools(parsed.get("tools") or []),
        stream=parsed.get("stream") is True,
        include_usage=True,
        max_tokens=find_limit(parsed, "max_tokens"),
        headers=headers,
        body=parsed,
        size=len(body),
    )


def _check_fields(body: Mapping[str, Any]) -> None:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            raise MalformedRequest(f"{name}: Field required")
    if body.get("thread"):
        raise MalformedRequest(NO_THREAD)
    if not isinstance(body["model"], str):
        raise MalformedRequest("model: Input should be a valid string")
    limit = body["max_tokens"]
    if not isinstance(limit, int) or limit < 1:
        raise MalformedRequest("max_tokens: Input should be greater than or equal to 1")
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(budget, int) and budget >= limit:
        raise MalformedRequest("`max_tokens` must be greater than `thinking.budget_tokens`.")


def render_whole(reply: Reply, rendering: Rendering) -> bytes:
    """Render the body of a reply that is not streamed."""
    content = _render_content(reply, rendering)
    reason, details = _encode_stop(reply)
    message = _build_message(reply, rendering, content)
    message |= {
        "stop_reason": reason,
        "stop_details": details,
        "usage": _encode_usage(rendering.usage),
    }
    return _encode(message)


def render_chunks(reply: Reply, rendering: Rendering) -> list[bytes]:
    """Render the events of a streamed reply."""
    content = _render_content(reply, rendering)
    initial_usage = {**_encode_usage(rendering.usage), "output_tokens": 1}
    opening = {**_build_message(reply, rendering, []), "usage": initial_usage}
    events = [_encode_event("message_start", message=opening)]
    for index, block in enumerate(content):
        events += _block_events(block, index, rendering)
    if not rendering.terminate:
        return events
    reason, details = _encode_stop(reply)
    ending = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
    events.append(
        _encode_event("message_delta", delta=ending, usage=_encode_usage(rendering.usage))
    )
    events.append(_encode_event("message_stop"))
    return events


def error_body(kind: ErrorKind) -> EmulatedError:
    """Return Anthropic's error response of this kind."""
    return ERRORS[kind]


def invalid_request(error: MalformedRequest) -> EmulatedError:
    """Make the error response of a refused request."""
    details = NO_THREAD_DETAILS if str(error) == NO_THREAD else None
    return make_error(error.status, "invalid_request_error", str(error), details=details)


def error_event(body: bytes) -> bytes:
    """Make an error event of a stream."""
    return b"event: error\ndata: " + body + b"\n\n"


def error_whole(body: bytes) -> bytes:
    """Make the body of a response with status 200 that contains this error."""
    return body


def _render_content(reply: Reply, rendering: Rendering) -> list[_Object]:
    blocks = [block for part in reply.parts if (block := _render_block(part)) is not None]
    return blocks if rendering.choices else []


def _render_block(part: Part) -> _Object | None:
    match part:
        case Text(text=text):
            notes = (part.extra or {}).get("citations")
            block: _Object = {"type": "text", "text": text}
            return ({**block, "citations": notes} if notes else block) if text else None
        case Reasoning(extra=dict(extra)) if "type" in extra:
            return dict(extra)
        case Reasoning(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature or sign_text(text)}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {
                "type": "tool_use",
                "id": call_id,
                "name": name,
                "input": _parse_input(arguments),
            }
        case Opaque(wire="anthropic", data=data):
            return dict(data)
        case Refusal():
            return None
        case _:
            raise ConfigurationError(
                "replies", f"the wire {NAME} cannot carry {type(part).__name__} in a reply"
            )


def _parse_input(arguments: str) -> object:
    """Return the JSON object of the text unchanged, or the text itself, as some servers send it."""
    try:
        if isinstance(msgspec.json.decode(arguments or "{}"), dict):
            return msgspec.Raw((arguments or "{}").encode())
    except (ValueError, RecursionError):
        pass
    return arguments


def _block_events(block: _Object, index: int, rendering: Rendering) -> list[bytes]:
    opening, deltas = _split_block(block, rendering)
    events = [_encode_event("content_block_start", index=index, content_block=opening)]
    if not index:
        events.append(KEEP_ALIVE)
    events += [_encode_event("content_block_delta", index=index, delta=delta) for delta in deltas]
    events.append(_encode_event("content_block_stop", index=index))
    return events


def _split_block(block: _Object, rendering: Rendering) -> tuple[_Object, list[_Object]]:
    """Split a block into its start and its deltas."""
    match block["type"]:
        case "text":
            texts = split_text(str(block["text"]), rendering.chunking)
            deltas: list[_Object] = [{"type": "text_delta", "text": piece} for piece in texts]
            notes = block.get("citations")
            deltas += [
                {"type": "citations_delta", "citation": note}
                for note in (notes if isinstance(notes, list) else ())
            ]
            return {**block, "text": "", **({"citations": []} if notes else {})}, deltas
        case "thinking":
            thought = split_text(str(block["thinking"]), rendering.chunking)
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in thought]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use":
            value = block["input"]
            if isinstance(value, dict):
                value = msgspec.Raw(_encode(value))
            text = bytes(value).decode() if isinstance(value, msgspec.Raw) else str(value)
            parts = ["", *split_text("" if text == "{}" else text, rendering.chunking)]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in parts]
            return {**block, "input": {}}, deltas
        case _:
            return block, []


def _build_message(reply: Reply, rendering: Rendering, content: list[_Object]) -> _Object:
    return {
        "id": reply.id or f"msg_emulated_{rendering.number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or rendering.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
    }


def _encode_stop(reply: Reply) -> tuple[str, _Object | None]:
    """Return the stop reason, and the details of a refusal."""
    refusal = "".join(part.text for part in reply.parts if isinstance(part, Refusal))
    reason = reply.raw_finish or _STOP.get(reply.finish, "end_turn")
    if not refusal and reason != "refusal":
        return reason, None
    return "refusal", {"type": "refusal", "category": None, "explanation": refusal or None}


def _encode_event(kind: str, **fields: object) -> bytes:
    data = _encode({"type": kind, **fields})
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def _encode_usage(usage: Usage) -> _Object:
    return {
        "input_tokens": usage.input - usage.cached_input - usage.cache_write,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached_input,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        "service_tier": "standard",
    }


_ID = "req_emulated"


def make_error(
    status: int,
    kind: str,
    message: str,
    *,
    retryable: bool = False,
    headers: Mapping[str, str] = {},  # never changed
    details: Mapping[str, object] | None = None,
) -> EmulatedError:
    """Make an error response; `retryable` says whether the same request may succeed later."""
    error: dict[str, object] = {"type": kind, "message": message}
    if details is not None:
        error["details"] = details
    body = {"type": "error", "error": error, "request_id": _ID}
    own_headers = {"request-id": _ID, "x-should-retry": "true" if retryable else "false"}
    return EmulatedError(status, body, {**own_headers, **headers})


NO_THREAD = "thread: This request cannot be held in a thread"
"""The message for a request whose history the server would have to keep. The SDK then sends it all."""
NO_THREAD_DETAILS: Mapping[str, object] = {
    "error_code": "thread_unsupported_request",
    "unsupported": ["thread"],
}

_LIMITS = {
    "retry-after": "1",
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:01Z",
    "anthropic-ratelimit-input-tokens-limit": "30000",
    "anthropic-ratelimit-input-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-reset": "2026-01-01T00:00:01Z",
    "anthropic-ratelimit-output-tokens-limit": "8000",
    "anthropic-ratelimit-output-tokens-remaining": "8000",
    "anthropic-ratelimit-output-tokens-reset": "2026-01-01T00:00:01Z",
    "anthropic-ratelimit-tokens-limit": "38000",
    "anthropic-ratelimit-tokens-remaining": "8000",
    "anthropic-ratelimit-tokens-reset": "2026-01-01T00:00:01Z",
}

ERRORS: dict[ErrorKind, EmulatedError] = {
    "rate_limit": make_error(
        429,
        "rate_limit_error",
        "This request would exceed the rate limit for your organization "
        "(00000000-0000-0000-0000-000000000000) of 30,000 input tokens per minute. For details, "
        "refer to: https://docs.anthropic.com/en/api/rate-limits. You can see the response "
        "headers for current usage. Please reduce the prompt length or the maximum tokens "
        "requested, or try again later.",
        retryable=True,
        headers=_LIMITS,
    ),
    "insufficient_quota": make_error(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing "
        "to upgrade or purchase credits.",
    ),
    "bad_key": make_error(401, "authentication_error", "invalid x-api-key"),
    "server_error": make_error(500, "api_error", "Internal server error", retryable=True),
    "overloaded": make_error(529, "overloaded_error", "Overloaded", retryable=True),
    "context_length": make_error(
        400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"
    ),
    "model_not_found": make_error(404, "not_found_error", "model: emulated-missing"),
    "content_filtered": make_error(
        400, "invalid_request_error", "Output blocked by content filtering policy"
    ),
    "invalid_request": make_error(
        400, "invalid_request_error", "temperature: Input should be less than or equal to 1"
    ),
}
