"""Encodes messages as items of the Responses wire.

Each message is encoded independently of the others, so that its bytes can be cached. It becomes one
item or several. Some parts are translated:

- A system message keeps its position, with the provider's name for the role.
- Items that came from this wire are sent back unchanged: reasoning with its encrypted content,
  calls and messages with their ids, phases and annotations, and items that the core has no type
  for. Texts of one message item become one item again. Fields of another wire are not sent.
- A name of a call that servers do not accept is replaced by one that is derived from it. Arguments
  that are not a JSON object are sent as `{"unparsed": text}`.
- A call of a custom tool has one argument, `input`, which is sent back as plain text.
- Reasoning that no item of the same message follows is left out, as in a reply that was cut. So is a
  message of the assistant or the system without any content. One of the user has an empty text.
- Images and files that a model of another wire made cannot be sent as assistant content. A line of
  text replaces them and names their type.
- The wire has no error flag for results: the text of a failed result says so.
- A search for tools, and the namespaces of the tools that it has found, are sent back to a request that can search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.codecs.call_arguments import sendable_arguments
from holdfast.codecs.media import (
    IMAGES,
    encode_base64,
    inline_bytes,
    media_placeholder,
    media_type_of,
)
from holdfast.codecs.openai_responses.items import CUSTOM
from holdfast.codecs.openai_responses.vocabulary import WIRE
from holdfast.codecs.request_body import own_extra, to_json
from holdfast.codecs.tool_names import to_wire_name
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
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

_SEARCHES = frozenset({"tool_search_call", "tool_search_output"})


def make_message_encoder(
    system_role: str,
    *,
    stored: bool = False,
    custom: frozenset[str] = frozenset(),
    searches: bool = False,
) -> Callable[[Message], bytes]:
    """Return a function that encodes a message as items, separated by commas; as no bytes if it has none.

    Args:
        system_role: the role of system messages.
        stored: the server stores responses, so that an item's id is enough.
        custom: the ids of the calls of custom tools.
        searches: the request has a search for tools, or may have one.
    """
    form = ItemForm(system_role, stored=stored, searches=searches)

    def encode(message: Message) -> bytes:
        items = encode_items(message, form, custom)
        if not items and message.role == "tool":
            raise ConfigurationError("parts", "holds no tool result", fix="use tool_results(...)")
        return b",".join(to_json("parts", item) for item in items)

    return encode


def is_custom_call(call: ToolCall) -> bool:
    """Whether this is a call of a custom tool of this wire."""
    return call.wire == WIRE and call.extra is not None and call.extra.get("type") == CUSTOM


class ItemForm(Struct, frozen=True):
    """How the items of a request are written; the fields are as in `make_message_encoder`."""

    system_role: str
    stored: bool = False
    searches: bool = False


def encode_items(
    message: Message, form: ItemForm, custom: frozenset[str] = frozenset()
) -> list[_Object]:
    """Return the items of one message, in order."""
    match message.role:
        case "assistant":
            return _encode_reply(message.parts, form)
        case "tool":
            return [
                _encode_result(part, custom)
                for part in message.parts
                if isinstance(part, ToolResult)
            ]
        case role:
            content = _encode_content(message.parts)
            others = _opaque_items(message.parts)
            wire_role = form.system_role if role == "system" else "user"
            item: _Object = {"type": "message", "role": wire_role, "content": content or ""}
            is_sent = content or (role == "user" and not others)
            return [*([item] if is_sent else []), *others]


def _opaque_items(parts: Sequence[Part]) -> list[_Object]:
    """Return the opaque items of this wire in a user message; opaque content is part of the message item."""
    return [
        dict(part.data)
        for part in parts
        if isinstance(part, Opaque) and part.wire == WIRE and not _is_content(part)
    ]


def _encode_reply(parts: Sequence[Part], form: ItemForm) -> list[_Object]:
    items: list[_Object] = []
    content: list[_Object] | None = None
    open_item: object = None
    for part in parts:
        if isinstance(part, Text | Refusal):
            extra = own_extra(part.extra, WIRE) if isinstance(part, Text) else {}
            if isinstance(part, Text) and not part.text and not extra:
                continue
            item_fields = extra.get("item", open_item)
            if content is None or item_fields != open_item:
                content, open_item = [], item_fields
                fields = item_fields if isinstance(item_fields, dict) else {}
                items.append({"type": "message", "role": "assistant", **fields, "content": content})
            content.append(_content_part(part, extra))
        else:
            content, open_item = None, None
            if (item := _encode_part(part, form)) is not None:
                items.append(item)
    return [_simplify_item(item) for item in _leave_out_last_reasoning(items)]


def _leave_out_last_reasoning(items: list[_Object]) -> list[_Object]:
    """Return the items up to the last that is no reasoning: the server refuses one without the item that it led to."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    return items[:end]


def _simplify_item(item: _Object) -> _Object:
    """Write the content of a message without an id, which did not come from this wire, as a string."""
    content = item.get("content")
    if item.get("type") != "message" or "id" in item or not isinstance(content, list):
        return item
    texts = [
        part.get("text", part.get("refusal"))
        for part in content
        if len(part) - ("annotations" in part and not part["annotations"]) <= 2
    ]
    if len(texts) < len(content) or not all(isinstance(text, str) for text in texts):
        return item
    return {**item, "content": "".join(texts)}


def _content_part(part: Text | Refusal, extra: _Object) -> _Object:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    fields = extra.get("part")
    fields = fields if isinstance(fields, dict) else {}
    if "type" in fields:
        # A spoken text: its part is sent back as it came.
        return dict(fields)
    # Strict servers refuse a text without this list: vLLM, and Azure for some models.
    return {"type": "output_text", "text": part.text, "annotations": [], **fields}


def _encode_part(part: Part, form: ItemForm) -> _Object | None:
    match part:
        case ToolCall():
            return _encode_call(part, form)
        case Reasoning():
            return _encode_reasoning(part, stored=form.stored)
        case Opaque():
            is_sent = form.searches or str(part.data.get("type")) not in _SEARCHES
            return dict(part.data) if part.wire == WIRE and is_sent else None
        case Media():
            item = own_extra(part.extra, WIRE).get("item")
            if isinstance(item, dict) and part.data is not None:
                return {**item, "result": encode_base64(part.data)}
            return {"type": "message", "role": "assistant", "content": media_placeholder(part)}
        case _:
            return None


def _encode_reasoning(part: Reasoning, *, stored: bool) -> _Object | None:
    """Return an item that the server has stored, or that holds all its content; None for any other."""
    if part.wire != WIRE or not part.extra:
        return None
    item = dict(part.extra)
    return item if stored or item.get("encrypted_content") or item.get("content") else None


def _encode_call(call: ToolCall, form: ItemForm) -> _Object:
    extra = dict(call.extra) if call.wire == WIRE and call.extra else {}
    if not form.searches:
        extra.pop("namespace", None)
    name = to_wire_name(call.name, WIRE)
    item: _Object = {"type": "function_call", "call_id": call.id, "name": name}
    if is_custom_call(call):
        return {**item, "input": _custom_input(call.arguments), **extra}
    return {**item, "arguments": sendable_arguments(call.arguments), **extra}


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
                content.append(
                    {"type": "input_text", "text": part.text, **own_extra(part.extra, WIRE)}
                )
        elif isinstance(part, Media):
            content.append({**_encode_media(part), **own_extra(part.extra, WIRE)})
        elif isinstance(part, Opaque):
            if part.wire == WIRE and _is_content(part):
                content.append(dict(part.data))
        elif not isinstance(part, Reasoning):
            raise ConfigurationError(
                "parts", f"a {type(part).__name__} is not allowed in such a message"
            )
    return content


def _encode_media(media: Media) -> _Object:
    kind = media_type_of(media)
    data = inline_bytes(media)
    url = media.url or ""
    if data is None and not url.startswith(("https://", "http://")):
        raise ConfigurationError(
            "media", f"{url[:80]!r} is not an http(s) URL", fix="pass an https URL or the bytes"
        )
    if kind in IMAGES or (data is None and kind.startswith("image/")):
        image_url = url if data is None else f"data:{kind};base64,{encode_base64(data)}"
        # vLLM refuses a picture without the detail, whose default is this.
        return {"type": "input_image", "image_url": image_url, "detail": "auto"}
    if kind.partition("/")[0] in ("image", "audio", "video"):
        raise ConfigurationError(
            "media",
            f"the Responses wire does not accept {kind}",
            fix="send PNG, JPEG, GIF, WebP or a document, or use another wire for sound",
        )
    if data is None:
        return {"type": "input_file", "file_url": url}
    name = media.name or f"file.{kind.rpartition('/')[2] or 'bin'}"
    encoded = f"data:{kind};base64,{encode_base64(data)}"
    return {"type": "input_file", "filename": name, "file_data": encoded}


def _is_content(part: Opaque) -> bool:
    kind = part.data.get("type")
    return isinstance(kind, str) and kind.startswith("input_")
