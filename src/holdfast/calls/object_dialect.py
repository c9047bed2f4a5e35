"""Detects the wire of an object by the names of its fields.

The class of an object does not matter, because a gateway may use the SDK of another vendor.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.codecs.anthropic.history import WIRE as ANTHROPIC
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.openai_chat.vocabulary import WIRE as CHAT
from holdfast.codecs.openai_responses.vocabulary import WIRE as RESPONSES

_OBJECTS = {"response": RESPONSES, "chat.completion": CHAT, "chat.completion.chunk": CHAT}
_GEMINI = frozenset(
    {"candidates", "promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata"}
)
_CHAT = frozenset({"choices"})
_RESPONSES = frozenset({"output", "output_text"})
_ANTHROPIC = frozenset({"stop_reason"})
_MESSAGE_EVENTS = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    }
)


def detect_wire(chunk: Mapping[str, object], fields: Mapping[str, object]) -> str:
    """Return the name of the wire, or "" if it cannot be detected.

    Args:
        chunk: the object's JSON form.
        fields: the fields that its class declares, which may be empty in the object.

    >>> detect_wire({"choices": []}, {}), detect_wire({"type": "message_start"}, {})
    ('openai_chat', 'anthropic')
    >>> detect_wire({"colour": "red"}, {})
    ''
    """
    object_name = chunk.get("object")
    if isinstance(object_name, str) and object_name in _OBJECTS:
        return _OBJECTS[object_name]
    if _has_any_field(chunk, fields, _GEMINI):
        return GEMINI
    if _has_any_field(chunk, fields, _CHAT):
        return CHAT
    kind = chunk.get("type")
    if isinstance(kind, str):
        if kind.startswith("response."):
            return RESPONSES
        if kind in _MESSAGE_EVENTS:
            return ANTHROPIC
    if _has_any_field(chunk, fields, _RESPONSES):
        return RESPONSES
    if kind == "message" or _has_any_field(chunk, fields, _ANTHROPIC):
        return ANTHROPIC
    if isinstance(chunk.get("content"), list):
        return ANTHROPIC
    # An error has the same form on all wires. A field `text` alone proves nothing: every HTTP client has it.
    return CHAT if chunk.get("error") else ""


def find_reply_id(chunk: Mapping[str, object], wire: str) -> str:
    """Return the id of the reply that this chunk begins or belongs to; "" if it does not tell.

    Only the SDKs of google-genai and anthropic give several replies in one stream.

    >>> find_reply_id({"type": "message_start", "message": {"id": "msg_1"}}, "anthropic")
    'msg_1'
    """
    value: object = None
    if wire == GEMINI:
        value = chunk.get("responseId") or chunk.get("response_id")
    elif wire == ANTHROPIC:
        message = chunk if chunk.get("type") == "message" else chunk.get("message")
        value = message.get("id") if isinstance(message, Mapping) else None
    return value if isinstance(value, str) else ""


def is_whole_response(chunk: Mapping[str, object], wire: str) -> bool:
    """Whether an object of an event wire is a whole response instead of an event."""
    if wire == RESPONSES:
        return not isinstance(chunk.get("type"), str)
    return wire == ANTHROPIC and (chunk.get("type") == "message" or "content" in chunk)


def _has_any_field(
    chunk: Mapping[str, object], fields: Mapping[str, object], names: frozenset[str]
) -> bool:
    return not (names.isdisjoint(chunk) and names.isdisjoint(fields))
