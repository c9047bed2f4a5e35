"""Encodes messages for Chat Completions.

Each message is encoded independently of the others, so that its bytes can be cached. Some parts are
translated or dropped (this list must be complete):

- A tool message becomes one wire message per result. If a provider accepts no media in a result,
  they follow in one user message, after a line that names the tool; a line of the assistant stands before
  it where roles must alternate.
- A system message keeps its position in the history, with the provider's name for the role.
- Reasoning is sent back only if `EndpointProfile.reasoning_field` names a field for it, and only if it does
  not come from another wire or from tags in a text. A message without reasoning has an empty text there
  if the provider requires it. Vendor fields of reasoning and calls are sent back if
  `EndpointProfile.state_fields` names them.
- Images and files that a model made are not sent back, because the wire has no form for them. Audio
  is sent back by its id, without its transcript, or as its transcript: see `EndpointProfile.audio_by_id`.
- Opaque blocks of other wires, annotations, references, and the results of searches and of the
  server's own tools are dropped.
- An id that is missing, repeated in its message, too long or not accepted by the provider is
  replaced by one that is derived from it, in the call and in its result.
- So is a name of a call that servers do not accept. Arguments that are not a JSON object are sent as
  `{"unparsed": text}`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeAlias

from holdfast.codecs.call_arguments import sendable_arguments
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.media import encode_base64, inline_bytes, media_type_of
from holdfast.codecs.openai_chat.vocabulary import (
    ABOUT,
    BLOCKS,
    EXECUTED,
    THINKING_TAG,
    TRANSCRIPT,
    WIRE,
)
from holdfast.codecs.request_body import to_json
from holdfast.codecs.tool_names import to_wire_name
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
from holdfast.core.transcript import Form

_Object: TypeAlias = dict[str, object]

_LONGEST_ID = 40
_SOUNDS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/(?:[a-z0-9][a-z0-9.+_-]*|\*)")
_NOT_SENT = frozenset({"annotations", BLOCKS, EXECUTED, *ABOUT})


class HistoryEncoder:
    """Encodes messages in the form of one provider.

    Args:
        profile: the provider's profile.

    Attributes:
        form: the encoding of a message, for `Transcript.encode_messages`.
    """

    __slots__ = ("_profile", "form")

    def __init__(self, profile: EndpointProfile) -> None:
        self._profile = profile
        key = "|".join(
            (
                WIRE,
                profile.system_role,
                profile.reasoning_field,
                ",".join(profile.state_fields),
                str(profile.call_id_length),
                str(profile.media_in_results),
                profile.images,
                str(profile.alternating_roles),
                str(profile.audio_by_id),
                str(profile.videos),
                str(profile.reasoning_required),
            )
        )
        self.form = Form(key, self.encode)

    def encode(self, message: Message) -> bytes:
        """Encode one message as one or several wire messages, separated by commas.

        Raises:
            ConfigurationError: this wire cannot express a part; the error names it.
        """
        match message.role:
            case "system":
                wire = [
                    {
                        "role": self._profile.system_role,
                        "content": self._encode_content(message.parts),
                    }
                ]
            case "user":
                if not message.parts:
                    raise ConfigurationError("parts", "is empty", fix="give the message a text")
                wire = [{"role": "user", "content": self._encode_content(message.parts)}]
            case "assistant":
                wire = [self._encode_assistant(message)]
            case _:
                wire = self._encode_results(message)
        if len(wire) == 1:
            return to_json("parts", wire[0])
        return b",".join([to_json("parts", entry) for entry in wire])

    def _encode_assistant(self, message: Message) -> _Object:
        wire: _Object = {"role": "assistant", "content": None}
        calls: list[ToolCall] = []
        texts: list[str] = []
        others = False
        for part in message.parts:
            if isinstance(part, ToolCall):
                calls.append(part)
            elif isinstance(part, Text):
                texts.append(part.text)
            else:
                others = True
        if others:
            self._add_content(message, wire)
        elif texts or not calls:
            wire["content"] = "".join(texts) or (None if calls else "")
        if self._profile.reasoning_required and self._profile.reasoning_field not in (
            "",
            "content",
        ):
            wire.setdefault(self._profile.reasoning_field, "")
        if calls:
            ids = self._wire_ids([call.id for call in calls])
            wire["tool_calls"] = [
                self._encode_call(call, call_id) for call, call_id in zip(calls, ids, strict=True)
            ]
        return wire

    def _add_content(self, message: Message, wire: _Object) -> None:
        """Add everything but the calls of a reply that holds more than text."""
        sound = self._find_audio_id(message)
        text: object = message.text if sound is None else _text_without_transcript(message)
        refusal = "".join(part.text for part in message.parts if isinstance(part, Refusal))
        thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
        if self._profile.reasoning_field == "content":
            text = _content_with_thoughts(message.parts)
        wire["content"] = text or (None if message.calls or refusal or sound else "")
        if refusal:
            wire["refusal"] = refusal
        if sound:
            wire["audio"] = {"id": sound}
        if thoughts:
            wire.update(self._encode_reasoning(thoughts))
        for part in message.parts:
            if isinstance(part, Opaque) and part.wire == WIRE:
                wire.update((k, v) for k, v in part.data.items() if k not in _NOT_SENT)

    def _find_audio_id(self, message: Message) -> object:
        if not self._profile.audio_by_id:
            return None
        return next((_audio_id(part) for part in message.parts if _audio_id(part)), None)

    def _encode_call(self, call: ToolCall, call_id: str) -> _Object:
        return {
            "id": call_id,
            "type": "function",
            "function": {
                "name": to_wire_name(call.name, WIRE),
                "arguments": sendable_arguments(call.arguments),
            },
            **(self._vendor_state(call.extra) if call.extra and call.wire in (None, WIRE) else {}),
        }

    def _encode_reasoning(self, thoughts: Sequence[Reasoning]) -> _Object:
        field = self._profile.reasoning_field
        own_parts = [part for part in thoughts if _is_sent_back(part)]
        wire: _Object = {}
        text = "".join(part.text for part in own_parts)
        if text and field not in ("", "content"):
            wire[field] = text
        for part in own_parts:
            for name, value in self._vendor_state(part.extra).items():
                current = wire.get(name)
                if isinstance(current, list) and isinstance(value, list):
                    wire[name] = [*current, *value]
                else:
                    wire[name] = value
        return wire

    def _vendor_state(self, extra: Extra | None) -> _Object:
        fields = self._profile.state_fields
        return {name: extra[name] for name in fields if name in extra} if extra else {}

    def _encode_results(self, message: Message) -> list[_Object]:
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        if not results:
            raise ConfigurationError("parts", "holds no tool result", fix="use tool_results(...)")
        ids = self._wire_ids([result.call_id for result in results])
        wire: list[_Object] = []
        attached: list[_Object] = []
        for result, call_id in zip(results, ids, strict=True):
            if len(result.content) == 1 and isinstance(only := result.content[0], Text):
                wire.append({"role": "tool", "tool_call_id": call_id, "content": only.text})
                continue
            media = [part for part in result.content if isinstance(part, Media)]
            content: object = result.text
            if media and self._profile.media_in_results:
                content = self._encode_content(result.content)
            elif media:
                content = content or "The result follows as media."
                attached.append(_text_block(Text(f"Media in the result of {result.name}:")))
                attached += map(self._encode_media, media)
            wire.append({"role": "tool", "tool_call_id": call_id, "content": content})
        if attached and self._profile.alternating_roles:
            wire.append({"role": "assistant", "content": "(Media of the results follow.)"})
        if attached:
            wire.append({"role": "user", "content": attached})
        return wire

    def _encode_content(self, parts: Sequence[Part]) -> object:
        """Encode a single text as a string, anything else as a list of blocks."""
        if len(parts) == 1 and isinstance(only := parts[0], Text) and not only.extra:
            return only.text
        blocks: list[_Object] = []
        for part in parts:
            if isinstance(part, Text):
                blocks.append(_text_block(part))
            elif isinstance(part, Media):
                blocks.append(self._encode_media(part))
            elif not isinstance(part, Reasoning | Opaque):
                raise ConfigurationError(
                    "parts", f"a {type(part).__name__} is not allowed in such a message"
                )
        return blocks

    def _encode_media(self, media: Media) -> _Object:
        if not self._profile.videos and media_type_of(media).startswith("video/"):
            raise ConfigurationError(
                "media", "this endpoint takes no videos", fix="send single pictures of it"
            )
        taken = self._profile.images
        if taken != "any" and media_type_of(media).startswith("image/"):
            if taken == "none":
                raise ConfigurationError(
                    "media",
                    "the profile of this endpoint says that it takes no images",
                    fix="leave them out, or use a model that takes them",
                )
            if inline_bytes(media) is None:
                raise ConfigurationError(
                    "url",
                    "the profile of this endpoint says that it takes images only inline",
                    fix="fetch it and pass the bytes as data=",
                )
        return _media_block(media)

    def _accepts_all(self, ids: Sequence[str]) -> bool:
        """Whether the ids are different, and a provider without a fixed length accepts all of them."""
        if self._profile.call_id_length or len(set(ids)) != len(ids):
            return False
        lengths = [*map(len, ids)]
        return min(lengths) > 0 and max(lengths) <= _LONGEST_ID

    def _wire_ids(self, ids: list[str]) -> list[str]:
        if len(ids) == 1:
            return [self._wire_id(ids[0], 1)]
        if self._accepts_all(ids):
            return ids
        counts: dict[str, int] = {}
        wire_ids: list[str] = []
        for call_id in ids:
            counts[call_id] = counts.get(call_id, 0) + 1
            wire_ids.append(self._wire_id(call_id, counts[call_id]))
        return wire_ids

    def _wire_id(self, call_id: str, occurrence: int) -> str:
        """Return the id unchanged if the provider accepts it, or else one that is derived from it."""
        length = self._profile.call_id_length
        if occurrence == 1 and call_id:
            if length and len(call_id) == length and call_id.isalnum() and call_id.isascii():
                return call_id
            if not length and len(call_id) <= _LONGEST_ID:
                return call_id
        digest = blake2b(f"{call_id}#{occurrence}".encode("utf-8", "replace"), digest_size=16)
        return digest.hexdigest()[:length] if length else f"call_{digest.hexdigest()[:24]}"


def _text_block(part: Text) -> _Object:
    block: _Object = {"type": "text", "text": part.text}
    if part.extra and "cache_control" in part.extra:
        block["cache_control"] = part.extra["cache_control"]
    return block


def _content_with_thoughts(parts: Sequence[Part]) -> object:
    """Return content with a block for each reasoning part; a string if there are none."""
    if not any(isinstance(part, Reasoning) and _is_sent_back(part) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, Text))
    blocks: list[_Object] = []
    for part in parts:
        if isinstance(part, Text):
            blocks.append(_text_block(part))
        elif isinstance(part, Reasoning) and _is_sent_back(part):
            block: _Object = {"type": "thinking", "thinking": [_text_block(Text(part.text))]}
            if part.signature:
                block["signature"] = part.signature
            blocks.append(block)
    return blocks


def _is_sent_back(part: Reasoning) -> bool:
    """Whether reasoning came in a field of this wire, and not in tags."""
    return part.wire in (None, WIRE) and not (part.extra and THINKING_TAG in part.extra)


def _media_block(media: Media) -> _Object:
    kind = media_type_of(media)
    data = inline_bytes(media)
    if not _MEDIA_TYPE.fullmatch(kind) or (data is not None and kind.endswith("*")):
        raise ConfigurationError(
            "media_type",
            f"{media.media_type[:80]!r} is not a media type",
            fix='for example "image/png"',
        )
    family = kind.partition("/")[0]
    if family in ("image", "video"):
        inner: _Object = {"url": _media_url(media, kind, data)}
        if media.extra and "detail" in media.extra:
            inner["detail"] = media.extra["detail"]
        return {"type": f"{family}_url", f"{family}_url": inner}
    if data is None:
        raise ConfigurationError(
            "url",
            f"this wire accepts {kind} only inline",
            fix="fetch it and pass the bytes as data=",
        )
    if family == "audio":
        return _audio_block(kind, data)
    name = media.name or f"file.{kind.rpartition('/')[2]}"
    return {"type": "file", "file": {"filename": name, "file_data": _media_url(media, kind, data)}}


def _audio_block(kind: str, data: bytes) -> _Object:
    if kind not in _SOUNDS:
        raise ConfigurationError(
            "media_type",
            f"this wire does not accept {kind}",
            fix="convert it to audio/wav or audio/mpeg",
        )
    return {
        "type": "input_audio",
        "input_audio": {"data": encode_base64(data), "format": _SOUNDS[kind]},
    }


def _media_url(media: Media, kind: str, data: bytes | None) -> str:
    if data is None:
        return media.url or ""
    return f"data:{kind};base64,{encode_base64(data)}"


def _text_without_transcript(message: Message) -> str:
    texts = (part for part in message.parts if isinstance(part, Text))
    return "".join(part.text for part in texts if not (part.extra and TRANSCRIPT in part.extra))


def _audio_id(part: Part) -> object:
    if isinstance(part, Media) and part.media_type.startswith("audio/") and part.extra:
        return part.extra.get("id")
    return None
