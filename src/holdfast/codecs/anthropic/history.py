"""Encodes messages as entries of Anthropic's `messages`.

Each message is encoded independently of the others, so that its bytes can be cached; the server
joins consecutive entries of one role. Some parts are translated:

- A system message at the beginning goes into `system` (see `encode`). One inside the history
  becomes a user text between `<system>` and `</system>`, because only some models accept the role
  there.
- The results of one iteration are the blocks of one user entry, in call order.
- Arguments that are not a JSON object are sent as `{"unparsed": text}`. A name of a call that the
  server does not accept is replaced by one that is derived from it.
- Thinking (redacted or not), opaque blocks and citations are sent back unchanged, and only to the
  wire that they came from. Thinking without a signature, as a cut stream leaves it, is left out
  because the server rejects it.
- Images and files that a model made cannot be sent as assistant content. A line of text replaces
  them and names their type. A user message can contain them.
- Calls without a thought before them, of code or of another model, are sent as they are; `encode` then
  turns thinking off, if it has a budget.
- A refusal becomes text. Blank text is left out because the server rejects it, and so is a message
  of the assistant or the system without anything else. A user message without anything else becomes a
  line of text, and so does a failed result, which the server refuses without content.
- Calls of the server's own tools that got no result before the user went on, as of a reply that paused,
  are left out.
- A search for tools is sent back with those that the request has. The server refuses a reference to any other
  tool. A request without deferred tools has no searches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast.codecs.call_arguments import sendable_arguments
from holdfast.codecs.media import (
    IMAGES,
    encode_base64,
    inline_bytes,
    media_placeholder,
    media_type_of,
)
from holdfast.codecs.request_body import EMPTY_MESSAGE, own_extra, to_json
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

WIRE = "anthropic"
"""The name of this wire on parts that hold its data."""

Deferred: TypeAlias = frozenset[str] | None
"""The names of the tools that the server's own search finds; None if they are not known."""

_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
_HOSTED_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})


_FAILED = "(It failed without a message.)"


def encode_message(message: Message, deferred: Deferred = None) -> bytes:
    """Encode one message as one entry; as no bytes if it has no content to send.

    Args:
        message: the message.
        deferred: the names of the tools that the server's own search finds; None if it is not known, and
            then its searches are sent back unchanged.

    Raises:
        ConfigurationError: this wire cannot express a part, or a tool message has no result.
    """
    return _encode_entry(message, encode_blocks(message, deferred))


def make_cached_encoder(
    mark: Mapping[str, object], deferred: Deferred
) -> Callable[[Message], bytes]:
    """Return a function that encodes a message, and marks its end as a cache point for the server."""

    def encode(message: Message) -> bytes:
        blocks = encode_blocks(message, deferred)
        for block in reversed(blocks):
            if block.get("type") not in _UNMARKABLE:
                block["cache_control"] = mark
                break
        return _encode_entry(message, blocks)

    return encode


def find_waiting_container(messages: Sequence[Message]) -> str:
    """Return the id of the container in which the server's code waits for a result, or ""."""
    last = next((message for message in reversed(messages) if message.role != "tool"), None)
    if last is None or last.role != "assistant":
        return ""
    for part in last.parts:
        if isinstance(part, Opaque) and part.wire == WIRE:
            container = part.data.get("container")
            container_id = container.get("id") if isinstance(container, dict) else None
            if isinstance(container_id, str):
                return container_id
    return ""


def encode_blocks(message: Message, deferred: Deferred = None) -> list[dict[str, object]]:
    """Return the content blocks of one message, in order; `deferred` is as in `encode_message`."""
    blocks: list[dict[str, object]] = []
    for part in message.parts:
        if isinstance(part, Text) and not part.text and blocks and blocks[-1]["type"] == "text":
            # An empty text carries the extra fields of the text before it.
            blocks[-1].update(own_extra(part.extra, WIRE))
        elif (block := _encode_part(part, message, deferred)) is not None:
            blocks.append(block)
    if message.role == "system":
        for block in blocks:
            if block["type"] == "text":
                block["text"] = f"<system>\n{block['text']}\n</system>"
    elif message.role == "user" and not blocks:
        blocks.append({"type": "text", "text": EMPTY_MESSAGE})
    return blocks


def begins_calls_unthought(messages: Sequence[Message]) -> bool:
    """Whether the last message of the assistant has calls and does not begin with a thought.

    Such calls were made by code or by another model.
    """
    for message in reversed(messages):
        if message.role == "assistant" and (blocks := encode_blocks(message)):
            return bool(message.calls) and blocks[0]["type"] not in _UNMARKABLE
    return False


def is_text_alone(message: Message, deferred: Deferred = None) -> bool:
    """Whether this is a message of the assistant in which only text is sent: for the server, a reply's beginning."""
    if message.role != "assistant" or message.calls:
        return False
    blocks = encode_blocks(message, deferred)
    return bool(blocks) and all(block["type"] == "text" for block in blocks)


def find_abandoned_calls(messages: Sequence[Message], known_count: int = 0) -> frozenset[str]:
    """Return the ids of the calls of the server's own tools without a result before the user went on.

    Args:
        messages: the history.
        known_count: how many messages, from the first, are known to have none.
    """
    abandoned: set[str] = set()
    for at, message in enumerate(messages[known_count:], known_count):
        if at and message.role in ("user", "system"):
            abandoned |= _find_open_calls(messages, at)
    return frozenset(abandoned)


def _find_open_calls(messages: Sequence[Message], end: int) -> set[str]:
    """Return the ids of the calls without a result in the messages before `end`, since the user spoke."""
    calls: set[str] = set()
    results: set[str] = set()
    for at in range(end - 1, -1, -1):
        message = messages[at]
        if message.role in ("user", "system"):
            break
        for part in message.parts:
            if isinstance(part, Opaque) and part.wire == WIRE:
                results.add(str(part.data.get("tool_use_id")))
                if str(part.data.get("type")) in _HOSTED_CALLS:
                    calls.add(str(part.data.get("id")))
    return calls - results


def leave_out_calls(messages: Sequence[Message], ids: frozenset[str]) -> list[Message]:
    """Return the messages without the calls of the server's own tools that have these ids."""
    return [
        Message(message.role, tuple(part for part in message.parts if not _is_call(part, ids)))
        if message.role == "assistant"
        else message
        for message in messages
    ]


def _is_call(part: Part, ids: frozenset[str]) -> bool:
    if not isinstance(part, Opaque) or part.wire != WIRE:
        return False
    return str(part.data.get("type")) in _HOSTED_CALLS and str(part.data.get("id")) in ids


def _encode_entry(message: Message, blocks: list[dict[str, object]]) -> bytes:
    if not blocks:
        if message.role == "tool":
            raise ConfigurationError("parts", "holds no tool result", fix="use tool_results(...)")
        return b""
    role = "assistant" if message.role == "assistant" else "user"
    return to_json("parts", {"role": role, "content": blocks})


def _encode_part(part: Part, message: Message, deferred: Deferred) -> dict[str, object] | None:
    match part:
        case Text():
            return _text_block(part)
        case Reasoning():
            return _thinking_block(part)
        case ToolCall():
            return _tool_use_block(part)
        case ToolResult():
            return _tool_result_block(part)
        case Media():
            if message.role == "assistant":
                return {"type": "text", "text": media_placeholder(part)}
            return _media_block(part)
        case Refusal():
            return None if _is_blank(part.text) else {"type": "text", "text": part.text}
        case Opaque():
            if part.wire != WIRE or "type" not in part.data:
                return None
            return _opaque_block(part, deferred)


def _opaque_block(part: Opaque, deferred: Deferred) -> dict[str, object] | None:
    block = dict(part.data)
    if deferred is not None and _is_tool_search(block):
        if not deferred:
            return None
        content = block.get("content")
        if isinstance(content, dict) and "tool_references" in content:
            names = [name for name in list_references(content) if name in deferred]
            found = [{"type": "tool_reference", "tool_name": name} for name in names]
            block["content"] = {**content, "tool_references": found}
    if isinstance(arguments := block.get("input"), str):
        # The call of a hosted tool, cut by the output limit.
        block["input"] = _raw_arguments(arguments)
    return block


def _is_tool_search(block: Mapping[str, object]) -> bool:
    """Whether a block is the call or the result of the server's search for tools."""
    kind = block["type"]
    is_call = kind == "server_tool_use" and str(block.get("name")).startswith("tool_search_tool_")
    return is_call or kind == "tool_search_tool_result"


def list_references(content: object) -> list[str]:
    """Return the names of the tools in the result of a search."""
    references = content.get("tool_references") if isinstance(content, dict) else None
    found = [
        one.get("tool_name")
        for one in (references if isinstance(references, list) else ())
        if isinstance(one, dict)
    ]
    return [name for name in found if isinstance(name, str)]


def _text_block(part: Text) -> dict[str, object] | None:
    if _is_blank(part.text):
        return None
    return {"type": "text", "text": part.text, **own_extra(part.extra, WIRE)}


def _thinking_block(part: Reasoning) -> dict[str, object] | None:
    if part.wire != WIRE:
        return None
    extra = part.extra or {}
    if "type" in extra:
        return dict(extra)
    if not part.signature:
        return None
    return {"type": "thinking", "thinking": part.text, "signature": part.signature, **extra}


def _tool_use_block(call: ToolCall) -> dict[str, object]:
    extra = call.extra if call.wire == WIRE and call.extra else {}
    return {
        "type": "tool_use",
        "id": call.id,
        "name": to_wire_name(call.name, WIRE),
        "input": _raw_arguments(call.arguments),
        **extra,
    }


def _raw_arguments(arguments: str) -> msgspec.Raw:
    """Return the text as JSON, so that no digit changes."""
    return msgspec.Raw(sendable_arguments(arguments).encode())


def _tool_result_block(result: ToolResult) -> dict[str, object]:
    block: dict[str, object] = {"type": "tool_result", "tool_use_id": result.call_id}
    pieces = [
        _media_block(part) if isinstance(part, Media) else _text_block(part)
        for part in result.content
    ]
    content = [piece for piece in pieces if piece is not None]
    if len(content) == 1 and content[0]["type"] == "text":
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    if result.is_error:
        block["is_error"] = True
        block.setdefault("content", _FAILED)
    return block


def _media_block(media: Media) -> dict[str, object]:
    kind = media_type_of(media)
    if kind in IMAGES or (kind.startswith("image/") and media.url):
        block: dict[str, object] = {"type": "image", "source": _media_source(media, kind)}
    elif kind == "application/pdf" or kind.startswith("text/"):
        block = {"type": "document", "source": _media_source(media, kind)}
        if media.name:
            block["title"] = media.name
    else:
        raise ConfigurationError(
            "media",
            f"the Anthropic wire does not accept {media.media_type[:80]!r}",
            fix="send JPEG, PNG, GIF, WebP, PDF or plain text",
        )
    return {**block, **own_extra(media.extra, WIRE)}


def _media_source(media: Media, kind: str) -> dict[str, object]:
    data = inline_bytes(media)
    if data is None:
        url = media.url or ""
        if not url.startswith(("https://", "http://")):
            raise ConfigurationError(
                "media", f"{url[:80]!r} is not an http(s) URL", fix="pass an https URL or the bytes"
            )
        return {"type": "url", "url": url}
    if not kind.startswith("text/"):
        return {"type": "base64", "media_type": kind, "data": encode_base64(data)}
    try:
        return {"type": "text", "media_type": "text/plain", "data": data.decode()}
    except UnicodeDecodeError:
        raise ConfigurationError("media", "its text is not UTF-8") from None


def _is_blank(text: str) -> bool:
    return not text or text.isspace()
