"""Messages as the conventions for generative AI write them into attributes, redacted and cut.

They are written only if the application asks for content. This module must never change a message, and
never write a secret that redaction finds, or the bytes of a picture or a sound.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from holdfast.core.messages import (
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Reply,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.core.model_request import ModelRequest
from holdfast.core.redaction import redact

LONGEST_TEXT = 8 * 1024
"""Letters of one text; the rest is cut."""

MOST_MESSAGES = 64
"""Messages of one attribute; of more, the newest are written."""

_MODALITIES = ("image", "video", "audio")


def _encode(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate in a name
        return json.dumps(value)


def cut_text(text: str) -> str:
    """Return a text without secrets, cut to the longest length.

    >>> cut_text("Hello.")
    'Hello.'
    """
    text = redact(text[: 2 * LONGEST_TEXT])
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}… [cut]"
    return text.encode("utf-8", "replace").decode()


def _parse(text: str) -> object:
    """Return JSON as a value, so that it is no text within a text; anything else as it is."""
    text = cut_text(text)
    try:
        value: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value


def _make_part(part: Part) -> dict[str, object]:
    match part:
        case Text():
            return {"type": "text", "content": cut_text(part.text)}
        case Refusal():
            return {"type": "text", "content": cut_text(part.text)}
        case Reasoning():
            return {"type": "reasoning", "content": cut_text(part.text)}
        case ToolCall():
            called = {"id": part.id, "name": part.name, "arguments": _parse(part.arguments)}
            return {"type": "tool_call", **called}
        case ToolResult():
            return {
                "type": "tool_call_response",
                "id": part.call_id,
                "response": cut_text(part.text),
            }
        case Media():
            return _make_media(part)
        case Opaque():
            kind = part.data.get("type")
            name = kind if isinstance(kind, str) else part.wire
            return {"type": "server_tool_call", "name": name, "server_tool_call": {"type": name}}


def _make_media(part: Media) -> dict[str, object]:
    kind = part.media_type.partition("/")[0]
    modality = kind if kind in _MODALITIES else "document"
    about: dict[str, object] = {"modality": modality, "mime_type": part.media_type}
    if part.url is not None:
        return {"type": "uri", **about, "uri": cut_text(part.url)}
    return {"type": "blob", **about, "content": "", "size": len(part.data or b"")}


def _make_message(message: Message) -> dict[str, object]:
    return {"role": message.role, "parts": [_make_part(part) for part in message.parts]}


def encode_messages(messages: Iterable[Message]) -> str:
    """Return messages as the JSON text of `gen_ai.input.messages`.

    Args:
        messages: the messages; only the newest are written.

    >>> from holdfast.core.messages import user
    >>> encode_messages([user("Hello.")])
    '[{"role":"user","parts":[{"type":"text","content":"Hello."}]}]'
    """
    return _encode([_make_message(one) for one in list(messages)[-MOST_MESSAGES:]])


def encode_reply(reply: Reply) -> str:
    """Return a reply as the JSON text of `gen_ai.output.messages`.

    Args:
        reply: the reply.

    >>> encode_reply(Reply((Text("Hello."),)))
    '[{"role":"assistant","parts":[{"type":"text","content":"Hello."}],"finish_reason":"stop"}]'
    """
    return _encode([{**_make_message(reply.message), "finish_reason": reply.finish.value}])


def encode_instructions(text: str) -> str:
    """Return instructions as the JSON text of `gen_ai.system_instructions`.

    >>> encode_instructions("Be brief.")
    '[{"type":"text","content":"Be brief."}]'
    """
    return _encode([{"type": "text", "content": cut_text(text)}])


def encode_tools(request: ModelRequest) -> str:
    """Return the tools of a request as the JSON text of `gen_ai.tool.definitions`.

    Args:
        request: the request.
    """
    return _encode(
        [
            {"type": "function", "name": one.name, "description": cut_text(one.description)}
            for one in request.tools[:MOST_MESSAGES]
        ]
    )
