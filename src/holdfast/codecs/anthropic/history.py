"""Messages as Anthropic's `messages`: one message, one entry, whatever the other messages are.

Each message is encoded alone, so that its bytes can be kept; the server joins neighbours of one
role. What has no place on this wire is translated as follows:

- A system message at the beginning belongs to `system` (see `encode`). One inside the history
  becomes text of a user entry between `<system>` and `</system>`: only some models take the role
  there, and all take this.
- The results of one iteration are the blocks of one user entry, in call order.
- Arguments that are no JSON object (a model can write such) are sent as `{"unparsed": text}`.
- Thinking, redacted or not, opaque blocks and citations go back untouched, and only to the wire
  that they came from. Thinking without a signature, which is what a cut stream leaves, is left out,
  since the server refuses it.
- Pictures and files that a model made are not taken back from the assistant: a line of text says
  that there was one, and of which type. A user message can show them.
- A refusal becomes text. Text that is blank is left out, since the server refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.codecs.media import (
    IMAGES,
    encode_base64,
    inline_bytes,
    media_placeholder,
    media_type_of,
)
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

WIRE = "anthropic"
"""The name of this wire on parts that only it understands."""

CACHED: dict[str, object] = {"type": "ephemeral"}

_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


def encode_message(message: Message) -> bytes:
    """One message as one entry.

    Raises:
        ConfigurationError: a part has no form on this wire, or nothing is left of the message.
    """
    return _encode_entry(message, encode_blocks(message))


def encode_cached_message(message: Message) -> bytes:
    """The same, with a mark that the server may cache everything up to its end."""
    blocks = encode_blocks(message)
    for block in reversed(blocks):
        if block.get("type") not in _UNMARKABLE:
            block["cache_control"] = CACHED
            break
    return _encode_entry(message, blocks)


def find_waiting_container(messages: Sequence[Message]) -> str:
    """The id of the container in which the server's code waits for this request, or ""."""
    last = next((one for one in reversed(messages) if one.role != "tool"), None)
    if last is None or last.role != "assistant":
        return ""
    for part in last.parts:
        if isinstance(part, Opaque) and part.wire == WIRE:
            container = part.data.get("container")
            found = container.get("id") if isinstance(container, dict) else None
            if isinstance(found, str):
                return found
    return ""


def has_nothing_to_send(message: Message) -> bool:
    """Whether an assistant message has no part that this wire can take back."""
    if message.role != "assistant" or message.calls:
        return False
    return not encode_blocks(message)


def encode_blocks(message: Message) -> list[dict[str, object]]:
    """The content blocks of one message, in order."""
    blocks: list[dict[str, object]] = []
    for part in message.parts:
        if isinstance(part, Text) and not part.text and blocks and blocks[-1]["type"] == "text":
            # It carries what belongs to the text before it, which was shown as it came.
            blocks[-1].update(_own_extra(part.extra))
        elif (block := _encode_part(part, message)) is not None:
            blocks.append(block)
    if message.role == "system":
        for block in blocks:
            block["text"] = f"<system>\n{block['text']}\n</system>"
    return blocks


def _encode_entry(message: Message, blocks: list[dict[str, object]]) -> bytes:
    if not blocks:
        raise ConfigurationError(
            "parts",
            "hold nothing that can be sent",
            fix="give the message a text that is not blank",
        )
    role = "assistant" if message.role == "assistant" else "user"
    return to_json("parts", {"role": role, "content": blocks})


def _encode_part(part: Part, message: Message) -> dict[str, object] | None:
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
            return dict(part.data) if part.wire == WIRE and "type" in part.data else None


def _text_block(part: Text) -> dict[str, object] | None:
    if _is_blank(part.text):
        return None
    return {"type": "text", "text": part.text, **_own_extra(part.extra)}


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
    beside = call.extra if call.wire == WIRE and call.extra else {}
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": _raw_arguments(call.arguments),
        **beside,
    }


def _raw_arguments(arguments: str) -> object:
    """The text itself when it is a JSON object, so that no digit and no blank of it changes."""
    if not arguments or arguments.isspace():
        return {}
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return msgspec.Raw(arguments.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    return {"unparsed": arguments}


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
            f"the Anthropic wire takes no {media.media_type[:80]!r}",
            fix="send JPEG, PNG, GIF, WebP, PDF or plain text",
        )
    return {**block, **_own_extra(media.extra)}


def _media_source(media: Media, kind: str) -> dict[str, object]:
    data = inline_bytes(media)
    if data is None:
        url = media.url or ""
        if not url.startswith(("https://", "http://")):
            raise ConfigurationError(
                "media", f"{url[:80]!r} is no web address", fix="give an https URL or the bytes"
            )
        return {"type": "url", "url": url}
    if not kind.startswith("text/"):
        return {"type": "base64", "media_type": kind, "data": encode_base64(data)}
    try:
        return {"type": "text", "media_type": "text/plain", "data": data.decode()}
    except UnicodeDecodeError:
        raise ConfigurationError("media", "its text is not UTF-8") from None


def _own_extra(extra: Extra | None) -> dict[str, object]:
    """What this wire put on a part; another wire's state stays at home."""
    if not extra or extra.get("wire") != WIRE:
        return {}
    return {key: value for key, value in extra.items() if key != "wire"}


def _is_blank(text: str) -> bool:
    return not text or text.isspace()
