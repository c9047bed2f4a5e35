"""The server side of OpenAI's Chat Completions wire.

Where reasoning stands, and how a stream ends, is a matter of the dress. A part that the
wire does not support raises ConfigurationError. The texts of its errors are the provider's; account
names and numbers are invented.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

import msgspec

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    FinishReason,
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
from holdfast.testing.emulator.wires.dresses import CHAT_LIMITS
from holdfast.testing.emulator.wires.emulator_wire import EmulatedError, Rendering, split_text
from holdfast.testing.emulator.wires.openai_chat_history import (
    check_history,
    read_history,
    read_tools,
)

NAME: Final = "openai_chat"
BASE_PATH: Final = "/v1"
REQUEST_ID: Final = "x-request-id"
KEEP_ALIVE: Final = b": keep-alive\n\n"

_encode = msgspec.json.encode

_FINISH: dict[FinishReason, str] = {
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
}


def matches(path: str) -> bool:
    """Whether a POST to this path is a model call of this wire."""
    return path.endswith("/chat/completions")


def parse_request(
    path: str,  # noqa: ARG001  # other wires name the model there
    headers: Mapping[str, str],
    body: bytes,
) -> EmulatedRequest:
    """Parse a request to neutral form.

    Raises:
        MalformedRequest: the real API would respond with status 400.
    """
    parsed = parse_body(body, "you must provide a model parameter")
    check_history(parsed.get("messages"))
    options = parsed.get("stream_options") or {}
    return EmulatedRequest(
        wire=NAME,
        model=parsed["model"],
        messages=read_history(parsed["messages"]),
        tools=read_tools(parsed.get("tools") or []),
        stream=parsed.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        max_tokens=find_limit(parsed, *CHAT_LIMITS),
        headers=headers,
        body=parsed,
        size=len(body),
    )


def parse_body(body: bytes, missing_model: str) -> dict[str, Any]:
    """Parse the body of a request to an OpenAI wire.

    Raises:
        MalformedRequest: it is not JSON, or it names no model; `missing_model` is the text for that.
    """
    try:
        parsed: Any = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise MalformedRequest(
            "We could not parse the JSON body of your request. (HINT: This likely means you "
            "aren't using your HTTP library correctly.)"
        ) from None
    if not isinstance(parsed, dict) or not isinstance(parsed.get("model"), str):
        raise MalformedRequest(missing_model)
    return parsed


def render_whole(reply: Reply, rendering: Rendering) -> bytes:
    """Render the body of a reply that is not streamed."""
    field, text = rendering.dress.reasoning_field, _join_text(reply, Text)
    reasoning = _join_text(reply, Reasoning)
    if reasoning and _is_tag(field):
        text = _in_tags(field, reasoning) + text
    message: dict[str, object] = {"role": "assistant", "content": text or None}
    if refusal := _join_text(reply, Refusal):
        message["refusal"] = refusal
    if reasoning and not _is_tag(field):
        message[field] = reasoning
    if calls := [_render_call(part) for part in reply.calls]:
        message["tool_calls"] = calls
    _check_parts(reply)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        **_write_finish(reply, rendering.dress.finish_field or "finish_reason"),
    }
    return _encode(
        {
            **_build_response(reply, rendering, "chat.completion"),
            "choices": [choice] if rendering.choices else [],
            "usage": _encode_usage(rendering.usage),
        }
    )


def render_chunks(reply: Reply, rendering: Rendering) -> list[bytes]:
    """Render the events of a streamed reply."""
    _check_parts(reply)
    envelope = _build_response(reply, rendering, "chat.completion.chunk")
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}]
    calls = 0
    for part in reply.parts:
        deltas += _render_deltas(part, rendering, calls)
        calls += isinstance(part, ToolCall)
    if not rendering.choices:
        chunks = [_encode_event({**envelope, "choices": []}) for _ in deltas]
    else:
        chunks = [_encode_chunk(envelope, delta, {"finish_reason": None}) for delta in deltas]
    if not rendering.terminate:
        return chunks
    if rendering.choices and (field := rendering.dress.finish_field):
        chunks.append(_encode_chunk(envelope, {}, _write_finish(reply, field)))
    if rendering.include_usage:
        chunks.append(
            _encode_event({**envelope, "choices": [], "usage": _encode_usage(rendering.usage)})
        )
    if rendering.dress.end_marker:
        chunks.append(b"data: [DONE]\n\n")
    return chunks


def error_body(kind: ErrorKind) -> EmulatedError:
    """Return OpenAI's error response of this kind."""
    return ERRORS[kind]


def invalid_request(error: MalformedRequest) -> EmulatedError:
    """Make the error response of a refused request."""
    if error.body is not None:
        return EmulatedError(error.status, error.body)
    kind = "invalid_request_error"
    return _make_error(error.status, str(error), kind, error.code, param=error.param)


def error_event(body: bytes) -> bytes:
    """Make an error event of a stream."""
    return b"data: " + body + b"\n\n"


def error_whole(body: bytes) -> bytes:
    """Make the body of a response with status 200 that contains this error."""
    return body


def _render_deltas(part: Part, rendering: Rendering, index: int) -> list[dict[str, object]]:
    chunking = rendering.chunking
    match part:
        case Text(text=text):
            return [{"content": piece} for piece in split_text(text, chunking)]
        case Reasoning(text=text):
            field = rendering.dress.reasoning_field
            name = "content" if _is_tag(field) else field
            text = _in_tags(field, text) if _is_tag(field) else text
            return [{name: piece} for piece in split_text(text, chunking)]
        case Refusal(text=text):
            return [{"refusal": piece} for piece in split_text(text, chunking)]
        case ToolCall():
            return _call_deltas(part, rendering, index)
        case _:
            return []


def _is_tag(field: str) -> bool:
    return field[:1] in ("<", "[")


def _in_tags(tag: str, text: str) -> str:
    """Return reasoning as models write it that have no field for it.

    >>> _in_tags("<think>", "Hm."), _in_tags("[THINK]", "Hm.")
    ('<think>Hm.</think>', '[THINK]Hm.[/THINK]')
    """
    return f"{tag}{text}{tag[0]}/{tag[1:]}"


def _call_deltas(part: ToolCall, rendering: Rendering, index: int) -> list[dict[str, object]]:
    opening = {
        **_render_call(part),
        "index": index,
        "function": {"name": part.name, "arguments": ""},
    }
    deltas: list[dict[str, object]] = [{"tool_calls": [opening]}]
    deltas += [
        {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
        for piece in _split_arguments(part.arguments, rendering)
    ]
    return deltas


def _split_arguments(arguments: str, rendering: Rendering) -> list[str]:
    pieces = split_text(arguments, rendering.chunking)
    if rendering.repeats == "cumulative":
        return list(accumulate(pieces))
    return [*pieces, arguments] if rendering.repeats == "again" else pieces


def _render_call(part: ToolCall) -> dict[str, object]:
    return {
        "id": part.id,
        "type": "function",
        "function": {"name": part.name, "arguments": part.arguments},
    }


def _check_parts(reply: Reply) -> None:
    for part in reply.parts:
        if not isinstance(part, Text | Reasoning | Refusal | ToolCall):
            raise ConfigurationError(
                "replies", f"the wire {NAME} cannot carry {type(part).__name__} in a reply"
            )


def _join_text(reply: Reply, kind: type[Text | Reasoning | Refusal]) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, kind))


def _write_finish(reply: Reply, field: str) -> dict[str, object]:
    """Return the fields of a choice that say why the reply ended."""
    return {"finish_reason": None, field: reply.raw_finish or _FINISH.get(reply.finish, "stop")}


def _build_response(reply: Reply, rendering: Rendering, kind: str) -> dict[str, object]:
    return {
        "id": reply.id or f"chatcmpl-emulated-{rendering.number}",
        "object": kind,
        "created": rendering.created,
        "model": reply.model or rendering.model,
        "service_tier": "default",
        "system_fingerprint": "fp_emulated",
    }


def _encode_chunk(
    envelope: dict[str, object], delta: dict[str, object], finish: dict[str, object]
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, **finish}
    return _encode_event({**envelope, "choices": [choice]})


def _encode_event(body: dict[str, object]) -> bytes:
    return b"data: " + _encode(body) + b"\n\n"


def _encode_usage(usage: Usage) -> dict[str, object]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _make_error(
    status: int,
    message: str,
    kind: str,
    code: str | None = None,
    *,
    param: str | None = None,
    headers: Mapping[str, str] = {},  # never changed
) -> EmulatedError:
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return EmulatedError(status, body, headers)


_LIMITS = {
    "retry-after": "1",
    "retry-after-ms": "1000",
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-limit-tokens": "30000",
    "x-ratelimit-remaining-requests": "499",
    "x-ratelimit-remaining-tokens": "500",
    "x-ratelimit-reset-requests": "120ms",
    "x-ratelimit-reset-tokens": "1s",
}

ERRORS: dict[ErrorKind, EmulatedError] = {
    "rate_limit": _make_error(
        429,
        "Rate limit reached for gpt-4o in organization org-emulated on tokens per min (TPM): "
        "Limit 30000, Used 29500, Requested 1000. Please try again in 1s. "
        "Visit https://platform.openai.com/account/rate-limits to learn more.",
        "tokens",
        "rate_limit_exceeded",
        headers=_LIMITS,
    ),
    "insufficient_quota": _make_error(
        429,
        "You exceeded your current quota, please check your plan and billing details. "
        "For more information on this error, read the docs: "
        "https://platform.openai.com/docs/guides/error-codes/api-errors.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "bad_key": _make_error(
        401,
        "Incorrect API key provided: sk-emula**ated. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
        "invalid_request_error",
        "invalid_api_key",
        headers={"www-authenticate": "Bearer"},
    ),
    "server_error": _make_error(
        500,
        "The server had an error while processing your request. Sorry about that! You can retry "
        "your request, or contact us through our help center at help.openai.com if the error "
        "persists. (Please include the request ID req_emulated in your message.)",
        "server_error",
    ),
    "overloaded": _make_error(
        503,
        "That model is currently overloaded with other requests. You can retry your request, or "
        "contact us through our help center at help.openai.com if the error persists.",
        "server_error",
    ),
    "context_length": _make_error(
        400,
        "This model's maximum context length is 128000 tokens. However, your messages resulted "
        "in 131072 tokens. Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
        param="messages",
    ),
    "model_not_found": _make_error(
        404,
        "The model `emulated-missing` does not exist or you do not have access to it.",
        "invalid_request_error",
        "model_not_found",
    ),
    "content_filtered": _make_error(
        400,
        "Your request was rejected as a result of our safety system. Your prompt may contain "
        "text that is not allowed by our safety system.",
        "invalid_request_error",
        "content_policy_violation",
    ),
    "invalid_request": _make_error(
        400,
        "Invalid value for 'temperature': must be at most 2.",
        "invalid_request_error",
        "invalid_value",
        param="temperature",
    ),
}
