"""Encodes messages as Gemini's `contents`: one content for each message.

Each message is encoded independently of the others, so that its bytes can be cached. Some parts are
translated (this list must be complete):

- A system message inside the history becomes a user content, because the wire has no such role.
- Results of parallel calls are the parts of one user content, in call order, matched by name and
  by id if there is one. Media of the results follow after all responses of that content, because
  only newer models accept media inside a response.
- A result whose text is a JSON object of at most 64 levels is sent as that object; other text as
  `{"output": text}`; a failed result as `{"error": text}`.
- Arguments that are not a JSON object are sent as `{"unparsed": text}`. A name of a call that the
  server does not accept is replaced by one that is derived from it, also in the result. Such a call
  loses its signature.
- Thoughts, signatures and opaque blocks are sent back only to the wire that they came from.
- A refusal becomes text. A message without any content to send becomes one space.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.codecs.call_arguments import is_plain_object, sendable_arguments
from holdfast.codecs.gemini.calls import FUNCTION
from holdfast.codecs.gemini.vocabulary import WIRE
from holdfast.codecs.media import inline_bytes, media_type_of
from holdfast.codecs.request_body import to_json
from holdfast.codecs.tool_names import to_wire_name
from holdfast.core.messages import (
    Extra,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
)

Json: TypeAlias = dict[str, object]

_ROLES: dict[Role, str] = {"assistant": "model", "user": "user", "tool": "user", "system": "user"}

# The fields of a part beside its data. `extra` may hold fields of other wires too.
BESIDE = frozenset(
    [
        "thoughtSignature",
        "videoMetadata",
        "mediaResolution",
        "mediaProcessing",
        "partMetadata",
        "audioTranscription",
        "speechMetadata",
        "documentMetadata",
        "spreadsheetMetadata",
        "audioMetadata",
    ]
)
# Sound without a header: only the parameters of the type have its rate.
_RAW_AUDIO = frozenset({"audio/l16", "audio/l24", "audio/pcm", "audio/basic"})

JOINED = "joined"
"""Marks an empty text that carries only the signature of the text before it."""

UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""Google's placeholder for the signature of a call that another model made."""


def encode_message(message: Message) -> bytes:
    """Encode one message as one content."""
    return to_json("parts", {"role": _ROLES[message.role], "parts": _encode_parts(message)})


def encode_message_for_signers(message: Message) -> bytes:
    """Encode one message for models that reject a content whose first call has no signature."""
    parts = _encode_parts(message)
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", UNSIGNED)
    return to_json("parts", {"role": _ROLES[message.role], "parts": parts})


def _encode_parts(message: Message) -> list[Json]:
    parts: list[Json] = []
    attached: list[Json] = []
    from_model = message.role == "assistant"
    for part in message.parts:
        if isinstance(part, Text):
            _add_text(parts, part)
        elif isinstance(part, ToolResult):
            parts.append(_encode_result(part))
            attached.extend(
                _encode_media(media) for media in part.content if isinstance(media, Media)
            )
        elif (encoded := _encode_part(part, from_model=from_model)) is not None:
            parts.append(encoded)
    return parts + attached or [{"text": " "}]


def _add_text(parts: list[Json], part: Text) -> None:
    siblings = _sibling_fields(part.extra)
    if siblings and part.extra and part.extra.get(JOINED) and parts and "text" in parts[-1]:
        parts[-1].update(siblings)
    elif part.text or siblings:
        # The server rejects an empty text without a signature.
        parts.append({"text": part.text, **siblings})


def _encode_part(part: Part, *, from_model: bool) -> Json | None:
    if isinstance(part, ToolCall):
        return _encode_call(part)
    if isinstance(part, Media):
        return {**_encode_media(part, verify=not from_model), **_sibling_fields(part.extra)}
    if isinstance(part, Reasoning):
        return _encode_thought(part)
    if isinstance(part, Opaque):
        return dict(part.data) if part.wire == WIRE and part.data else None
    return {"text": part.text} if isinstance(part, Refusal) and part.text else None


def _encode_thought(part: Reasoning) -> Json | None:
    if part.wire != WIRE:
        return None
    signed = {"thoughtSignature": part.signature} if part.signature else {}
    return {"text": part.text, "thought": True, **_sibling_fields(part.extra), **signed}


def _encode_call(call: ToolCall) -> Json:
    name, args = to_wire_name(call.name, WIRE), sendable_arguments(call.arguments)
    function: Json = {"name": name, "args": msgspec.Raw(args.encode())}
    if call.id:
        function["id"] = call.id
    extra = call.extra if call.wire in (None, WIRE) else None
    if extra and isinstance(unknown := extra.get(FUNCTION), dict):
        function.update(unknown)
    fields = _sibling_fields(extra)
    if name != call.name or args != (call.arguments if call.arguments.strip() else "{}"):
        fields.pop("thoughtSignature", None)  # the model signed another call
    return {"functionCall": function, **fields}


def _encode_result(result: ToolResult) -> Json:
    text = result.text
    response: object
    if result.is_error:
        response = {"error": text}
    elif (value := _raw_json_object(text)) is not None:
        response = value
    else:
        response = {"output": text or _empty_result_text(result)}
    function: Json = {"name": to_wire_name(result.name, WIRE), "response": response}
    if result.call_id:
        function["id"] = result.call_id
    return {"functionResponse": function}


def _empty_result_text(result: ToolResult) -> str:
    attached = any(isinstance(part, Media) for part in result.content)
    return "The result is attached below." if attached else ""


def _raw_json_object(text: str) -> msgspec.Raw | None:
    """Return the text unchanged if it is a JSON object that the server reads, so that no digit changes."""
    if text.lstrip()[:1] != "{" or not is_plain_object(text):
        return None
    return msgspec.Raw(text.encode())


def _encode_media(media: Media, *, verify: bool = True) -> Json:
    """Encode media as inline bytes or a URL.

    Media that the model sent are not checked, and keep the parameters of their type.
    """
    data = inline_bytes(media) if verify or media.data is None else media.data
    if data is not None:
        kind = media_type_of(media)
        if media.media_type and (not verify or kind in _RAW_AUDIO):
            kind = media.media_type
        return {"inlineData": {"mimeType": kind, "data": data}}
    file: Json = {"fileUri": media.url}
    if media.media_type:
        file["mimeType"] = media.media_type
    return {"fileData": file}


def _sibling_fields(extra: Extra | None) -> Json:
    return {name: extra[name] for name in extra if name in BESIDE} if extra else {}
