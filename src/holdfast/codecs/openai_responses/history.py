"""Messages as items of the Responses wire: each encoded alone, so that its bytes can be kept.

One message becomes one item or several. What has no place on this wire is translated as follows:

- A system message keeps its place, under the role that the provider has for it.
- Items that came from this wire go back as they came: reasoning with its encrypted content, calls
  and messages with their ids, phases and annotations, and items that the core has no type for.
  Texts of one message item become one item again. Another wire's state stays at home.
- A call of a custom tool has one argument, `input`, which goes back as plain text.
- Pictures and files that a model of another wire made are not taken back from the assistant: a line
  of text says that there was one, and of which type.
- A failed result has no mark on this wire: its text says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from holdfast.codecs.media import (
    IMAGES,
    encode_base64,
    inline_bytes,
    media_placeholder,
    media_type_of,
)
from holdfast.codecs.openai_responses.items import CUSTOM
from holdfast.codecs.openai_responses.vocabulary import WIRE
from holdfast.codecs.request_body import to_json
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    Extra,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

_Object: TypeAlias = dict[str, object]
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def make_message_encoder(
    system_role: str, *, stored: bool = False, custom: frozenset[str] = frozenset()
) -> Callable[[Message], bytes]:
    """A function from a message to its items, with commas between.

    Args:
        system_role: the role of system messages.
        stored: the server keeps responses, so that an item's id is enough.
        custom: ids of the calls of custom tools.
    """

    def encode(message: Message) -> bytes:
        items = encode_items(message, system_role, stored=stored, custom=custom)
        if not items:
            raise ConfigurationError(
                "parts", "hold nothing that can be sent", fix="give the message a text"
            )
        return b",".join(to_json("parts", item) for item in items)

    return encode


def has_nothing_to_send(message: Message, *, stored: bool) -> bool:
    """Whether an assistant message has no part that this wire can take back."""
    if message.role != "assistant" or message.calls:
        return False
    return not encode_items(message, "", stored=stored)


def is_custom_call(call: ToolCall) -> bool:
    """Whether this is the call of a custom tool of this wire."""
    return call.wire == WIRE and call.extra is not None and call.extra.get("type") == CUSTOM


def encode_items(
    message: Message, system_role: str, *, stored: bool, custom: frozenset[str] = frozenset()
) -> list[_Object]:
    """The items of one message, in order."""
    match message.role:
        case "assistant":
            return _encode_reply(message.parts, stored=stored)
        case "tool":
            return [
                _encode_result(part, custom)
                for part in message.parts
                if isinstance(part, ToolResult)
            ]
        case role:
            content = _encode_content(message.parts)
            own = system_role if role == "system" else "user"
            said: _Object = {"type": "message", "role": own, "content": content}
            return [*([said] if content else []), *_opaque_items(message.parts)]


def _opaque_items(parts: Sequence[Part]) -> list[_Object]:
    """Opaque items of this wire that a user adds; opaque content stands in the message."""
    return [
        dict(part.data)
        for part in parts
        if isinstance(part, Opaque) and part.wire == WIRE and not _is_content(part)
    ]


def _encode_reply(parts: Sequence[Part], *, stored: bool) -> list[_Object]:
    items: list[_Object] = []
    said: list[_Object] | None = None
    said_by: object = None
    for part in parts:
        if isinstance(part, Text | Refusal):
            own = _own_extra(part.extra) if isinstance(part, Text) else {}
            if isinstance(part, Text) and not part.text and not own:
                continue
            by = own.get("item", said_by)
            if said is None or by != said_by:
                said, said_by = [], by
                fields = by if isinstance(by, dict) else {}
                items.append({"type": "message", "role": "assistant", **fields, "content": said})
            said.append(_content_part(part, own))
        else:
            said, said_by = None, None
            if (item := _encode_part(part, stored=stored)) is not None:
                items.append(item)
    return [_simplify_item(item) for item in items]


def _simplify_item(item: _Object) -> _Object:
    """A message that has no id, since it never came from here, holds its text as a string."""
    content = item.get("content")
    if item.get("type") != "message" or "id" in item or not isinstance(content, list):
        return item
    texts = [part.get("text", part.get("refusal")) for part in content if len(part) <= 2]
    if len(texts) < len(content) or not all(isinstance(text, str) for text in texts):
        return item
    return {**item, "content": "".join(texts)}


def _content_part(part: Text | Refusal, own: _Object) -> _Object:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    beside = own.get("part")
    return {
        "type": "output_text",
        "text": part.text,
        **(beside if isinstance(beside, dict) else {}),
    }


def _encode_part(part: Part, *, stored: bool) -> _Object | None:
    match part:
        case ToolCall():
            return _encode_call(part)
        case Reasoning():
            return _encode_reasoning(part, stored=stored)
        case Opaque():
            return dict(part.data) if part.wire == WIRE else None
        case Media():
            item = _own_extra(part.extra).get("item")
            if isinstance(item, dict) and part.data is not None:
                return {**item, "result": encode_base64(part.data)}
            return {"type": "message", "role": "assistant", "content": media_placeholder(part)}
        case _:
            return None


def _encode_reasoning(part: Reasoning, *, stored: bool) -> _Object | None:
    """An item that the server can find again, or that holds everything itself."""
    if part.wire != WIRE or not part.extra:
        return None
    item = dict(part.extra)
    return item if stored or item.get("encrypted_content") or item.get("content") else None


def _encode_call(call: ToolCall) -> _Object:
    beside = dict(call.extra) if call.wire == WIRE and call.extra else {}
    item: _Object = {"type": "function_call", "call_id": call.id, "name": call.name}
    if is_custom_call(call):
        return {**item, "input": _custom_input(call.arguments), **beside}
    return {**item, "arguments": call.arguments, **beside}


def _custom_input(arguments: str) -> str:
    try:
        value = msgspec.json.decode(arguments, type=dict[str, object]).get("input")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, str) else arguments


def _encode_result(result: ToolResult, custom: frozenset[str]) -> _Object:
    plain = all(isinstance(part, Text) for part in result.content)
    kind = "custom_tool_call_output" if result.call_id in custom else "function_call_output"
    output: object = result.text if plain else _encode_content(result.content)
    return {"type": kind, "call_id": result.call_id, "output": output}


def _encode_content(parts: Sequence[Part]) -> list[_Object]:
    content: list[_Object] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text:
                content.append({"type": "input_text", "text": part.text, **_own_extra(part.extra)})
        elif isinstance(part, Media):
            content.append({**_encode_media(part), **_own_extra(part.extra)})
        elif isinstance(part, Opaque):
            if part.wire == WIRE and _is_content(part):
                content.append(dict(part.data))
        elif not isinstance(part, Reasoning):
            raise ConfigurationError(
                "parts", f"a {type(part).__name__} has no place in such a message"
            )
    return content


def _encode_media(media: Media) -> _Object:
    kind = media_type_of(media)
    data = inline_bytes(media)
    url = media.url or ""
    if data is None and not url.startswith(("https://", "http://")):
        raise ConfigurationError(
            "media", f"{url[:80]!r} is no web address", fix="give an https URL or the bytes"
        )
    if kind in IMAGES or (data is None and kind.startswith("image/")):
        where = url if data is None else f"data:{kind};base64,{encode_base64(data)}"
        return {"type": "input_image", "image_url": where}
    if data is None:
        return {"type": "input_file", "file_url": url}
    if kind in _SOUNDS:
        sound = {"data": encode_base64(data), "format": _SOUNDS[kind]}
        return {"type": "input_audio", "input_audio": sound}
    if kind.partition("/")[0] in ("image", "audio", "video"):
        raise ConfigurationError(
            "media",
            f"the Responses wire takes no {kind}",
            fix="send PNG, JPEG, GIF, WebP, WAV, MP3 or a document",
        )
    name = media.name or f"file.{kind.rpartition('/')[2] or 'bin'}"
    encoded = f"data:{kind};base64,{encode_base64(data)}"
    return {"type": "input_file", "filename": name, "file_data": encoded}


def _is_content(part: Opaque) -> bool:
    kind = part.data.get("type")
    return isinstance(kind, str) and kind.startswith("input_")


def _own_extra(extra: Extra | None) -> _Object:
    """What this wire put on a part; another wire's state stays at home."""
    if not extra or extra.get("wire") != WIRE:
        return {}
    return {key: value for key, value in extra.items() if key != "wire"}
