"""The server side of Google's Gemini wire: not streamed, as events, or as one JSON array.

Thoughts are marked parts; their signature is on the first call that follows, or on the end of the
text. A refusal of the model is a finish reason with a message. This wire cannot send arguments that
are not an object: the server reports a malformed call instead, as the real one does. An opaque part
of this wire is sent unchanged. Any other part that the wire does not support raises
ConfigurationError.

The texts of its errors are the provider's; project names and numbers are invented. A wrong key has
status 400, the delay after a 429 is in the body, and a refused prompt has status 200 with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

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
from holdfast.testing.emulator.wires.emulator_wire import EmulatedError, Rendering, split_text
from holdfast.testing.emulator.wires.gemini_history import (
    call_text,
    check_contents,
    get_field,
    read_contents,
    read_tools,
)
from holdfast.testing.emulator.wires.history_parts import sign_text

NAME: Final = "gemini"
BASE_PATH: Final = "/v1beta"
REQUEST_ID: Final = ""
KEEP_ALIVE: Final = b": keep-alive\r\n\r\n"

METADATA: Final = "gemini.metadata"
"""The name on parts that hold the metadata of a reply."""

_encode = msgspec.json.encode
_Object: TypeAlias = dict[str, object]

_PLACE = re.compile(r"/(?:models|tunedModels)/([^/?]+):(g|streamG)enerateContent")
_BEFORE_3 = re.compile(r"gemini-[12]\b")
_EVENTS = re.compile(r"[?&](?:\$|%24)?alt=sse(?:&|$)")
_FINISH: dict[FinishReason, str] = {
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
    FinishReason.REFUSAL: "SAFETY",
    FinishReason.ERROR: "OTHER",
}


class _GeminiReply(Struct, frozen=True):
    """A reply in the terms of this wire."""

    parts: list[_Object]
    finish: str
    message: str = ""
    about: _Object = {}


def matches(path: str) -> bool:
    """Whether a POST to this path is a model call of this wire."""
    return _PLACE.search(path) is not None


def parse_request(path: str, headers: Mapping[str, str], body: bytes) -> EmulatedRequest:
    """Parse a request to neutral form.

    Raises:
        MalformedRequest: the real API would respond with status 400.
    """
    place = _PLACE.search(path)
    if place is None:
        raise MalformedRequest("* GenerateContentRequest.model: unexpected model name format\n")
    try:
        parsed: Any = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise MalformedRequest("Invalid JSON payload received. Unexpected token.")
    model, stream = place[1], place[2] == "streamG"
    check_contents(parsed, signed=not _BEFORE_3.match(model))
    return EmulatedRequest(
        wire=NAME,
        model=model,
        messages=read_contents(parsed),
        tools=read_tools(parsed.get("tools") or []),
        stream=stream,
        array=stream and _EVENTS.search(path) is None,
        include_usage=True,
        max_tokens=_find_limit_of(parsed),
        headers=headers,
        body=parsed,
        size=len(body),
    )


def _find_limit_of(body: Mapping[str, Any]) -> int | None:
    config = get_field(body, "generationConfig")
    if not isinstance(config, dict):
        return None
    return find_limit(config, "maxOutputTokens", "max_output_tokens")


def render_whole(reply: Reply, rendering: Rendering) -> bytes:
    """Render the body of a reply that is not streamed."""
    translated = _translate_reply(reply, rendering.model)
    endings = _build_candidate(translated.parts, translated.finish, translated.message)
    endings |= translated.about
    return _encode(
        {
            "candidates": [endings] if rendering.choices else [],
            "usageMetadata": _encode_usage(rendering.usage),
            **_build_response(reply, rendering),
        }
    )


def render_chunks(reply: Reply, rendering: Rendering) -> list[bytes]:
    """Render the events of a streamed reply."""
    translated = _translate_reply(reply, rendering.model)
    envelope = _build_response(reply, rendering)
    initial_usage = {
        "promptTokenCount": rendering.usage.input,
        "totalTokenCount": rendering.usage.input,
    }
    grown, signature = _split_parts(translated.parts, rendering)
    chunks = [
        {"candidates": [_build_candidate([part])], "usageMetadata": initial_usage, **envelope}
        for part in grown
    ]
    if rendering.terminate:
        last: _Object = {"text": "", **signature}
        ending = _build_candidate([last], translated.finish, translated.message)
        endings = [{**ending, **translated.about}]
        chunks.append(
            {"candidates": endings, "usageMetadata": _encode_usage(rendering.usage), **envelope}
        )
    if not rendering.choices:
        chunks = [{**chunk, "candidates": []} for chunk in chunks]
    return [b"data: " + _encode(chunk) + b"\r\n\r\n" for chunk in chunks]


def error_body(kind: ErrorKind) -> EmulatedError:
    """Return Google's error response of this kind."""
    return ERRORS[kind]


def invalid_request(error: MalformedRequest) -> EmulatedError:
    """Make the error response of a refused request."""
    return make_error(error.status, "INVALID_ARGUMENT", str(error), error.details)


def error_event(body: bytes) -> bytes:
    """Make an error event of a stream."""
    return b"data: " + body + b"\r\n\r\n"


def error_whole(body: bytes) -> bytes:
    """Make the body of a response with status 200 that contains this error."""
    return body


def _translate_reply(reply: Reply, model: str) -> _GeminiReply:
    parts: list[_Object] = []
    refused: list[str] = []
    malformed = ""
    about: _Object = {}
    for part in reply.parts:
        if isinstance(part, Opaque) and part.wire == METADATA:
            about |= part.data
        elif isinstance(part, Refusal):
            refused.append(part.text)
        elif isinstance(part, ToolCall) and _parse_object(part.arguments) is None:
            malformed = f"Malformed function call: {part.name}({part.arguments}"
        elif (found := _render_part(part, old=_BEFORE_3.match(model) is not None)) is not None:
            parts.append(found)
    _attach_signature(reply, parts, old=_BEFORE_3.match(model) is not None)
    if malformed:
        return _GeminiReply(parts, "MALFORMED_FUNCTION_CALL", malformed)
    if refused:
        return _GeminiReply(parts, "SAFETY", "".join(refused))
    finish = reply.raw_finish or _FINISH.get(reply.finish, "STOP")
    return _GeminiReply(parts, finish, about=about)


def _render_part(part: Part, *, old: bool) -> _Object | None:
    match part:
        case Text(text=text):
            return {"text": text} if text else None
        case Reasoning(text=text):
            return {"text": text, "thought": True} if text else None
        case ToolCall():
            call: _Object = {"name": part.name, "args": _parse_object(part.arguments)}
            # Models before the third generation have no ids for calls.
            return {"functionCall": call if old else {**call, "id": part.id}}
        case Opaque(wire="gemini", data=data):
            return dict(data)
        case _:
            raise ConfigurationError(
                "replies", f"the wire {NAME} cannot carry {type(part).__name__} in a reply"
            )


def _attach_signature(reply: Reply, parts: list[_Object], *, old: bool) -> None:
    """Put the signature of the thoughts on the first call, or else on the last text."""
    thoughts = [part for part in reply.parts if isinstance(part, Reasoning)]
    signature_of_thoughts = next((part.signature for part in thoughts if part.signature), None)
    for part in parts:
        call = part.get("functionCall")
        if isinstance(call, dict) and (thoughts or not old):
            part["thoughtSignature"] = signature_of_thoughts or sign_text(call_text(call))
            return
    texts = [part for part in parts if "text" in part and "thought" not in part]
    if texts and thoughts:
        texts[-1]["thoughtSignature"] = signature_of_thoughts or sign_text("")


def _parse_object(arguments: str) -> object | None:
    try:
        value = msgspec.json.decode(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _split_parts(parts: list[_Object], rendering: Rendering) -> tuple[list[_Object], _Object]:
    """Split the parts into chunks; also return the text's signature, for the end of the stream."""
    grown: list[_Object] = []
    signature: _Object = {}
    for part in parts:
        text = part.get("text")
        if not isinstance(text, str):
            grown.append(part)
            continue
        beside = {name: value for name, value in part.items() if name != "text"}
        if signed := beside.pop("thoughtSignature", None):
            signature = {"thoughtSignature": signed}
        grown += [{"text": piece, **beside} for piece in split_text(text, rendering.chunking)]
    return grown, signature


def _build_candidate(parts: list[_Object], finish: str = "", message: str = "") -> _Object:
    content: _Object = {"parts": parts, "role": "model"} if parts else {"role": "model"}
    candidate: _Object = {"content": content}
    if finish:
        candidate["finishReason"] = finish
    if message:
        candidate["finishMessage"] = message
    return {**candidate, "index": 0}


def _build_response(reply: Reply, rendering: Rendering) -> _Object:
    return {
        "modelVersion": reply.model or rendering.model,
        "responseId": reply.id or f"emulated-{rendering.number}",
    }


def _encode_usage(usage: Usage) -> _Object:
    counts: _Object = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "totalTokenCount": usage.total,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
    }
    if usage.reasoning:
        counts["thoughtsTokenCount"] = usage.reasoning
    if usage.cached_input:
        counts["cachedContentTokenCount"] = usage.cached_input
    return counts


_RPC = "type.googleapis.com/google.rpc."
_HEADERS = {"content-type": "application/json; charset=UTF-8"}


def make_error(
    code: int, status: str, message: str, details: Sequence[Mapping[str, object]] = ()
) -> EmulatedError:
    """Make an error response with this message."""
    error: dict[str, object] = {"code": code, "message": message, "status": status}
    if details:
        error["details"] = list(details)
    return EmulatedError(code, {"error": error}, _HEADERS)


def _make_quota_error(wait: str, window: str, value: str) -> EmulatedError:
    name = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    violation = {
        "quotaMetric": name,
        "quotaId": f"GenerateRequestsPer{window}PerProjectPerModel-FreeTier",
        "quotaDimensions": {"location": "global", "model": "gemini-2.5-flash"},
        "quotaValue": value,
    }
    help_link = {
        "description": "Learn more about Gemini API quotas",
        "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
    }
    return make_error(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. For more "
        "information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n"
        f"* Quota exceeded for metric: {name}, limit: {value}, model: gemini-2.5-flash\n"
        f"Please retry in {wait}.",
        (
            {"@type": f"{_RPC}Help", "links": [help_link]},
            {"@type": f"{_RPC}QuotaFailure", "violations": [violation]},
            {"@type": f"{_RPC}RetryInfo", "retryDelay": wait},
        ),
    )


_KEY_DETAILS: tuple[dict[str, object], ...] = (
    {
        "@type": f"{_RPC}ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    },
    {
        "@type": f"{_RPC}LocalizedMessage",
        "locale": "en-US",
        "message": "API key not valid. Please pass a valid API key.",
    },
)

ERRORS: dict[ErrorKind, EmulatedError] = {
    "rate_limit": _make_quota_error("1s", "Minute", "10"),
    "insufficient_quota": _make_quota_error("31425s", "Day", "250"),
    "bad_key": make_error(
        400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", _KEY_DETAILS
    ),
    "server_error": make_error(500, "INTERNAL", "Internal error encountered."),
    "overloaded": make_error(
        503, "UNAVAILABLE", "The model is overloaded. Please try again later."
    ),
    "context_length": make_error(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "model_not_found": make_error(
        404,
        "NOT_FOUND",
        "models/emulated-missing is not found for API version v1beta, or is not supported for "
        "generateContent. Call ListModels to see the list of available models and their supported "
        "methods.",
    ),
    "content_filtered": EmulatedError(
        200,
        {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
            "modelVersion": "emulated-model",
            "responseId": "emulated-blocked",
        },
        _HEADERS,
    ),
    "invalid_request": make_error(
        400,
        "INVALID_ARGUMENT",
        "* GenerateContentRequest.generation_config.temperature: value must be in the range [0, 2]",
    ),
}
