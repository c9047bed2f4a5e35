"""Turns output items into deltas.

An item begins once, grows in pieces, and ends with its final form. Ending it again changes nothing.
This module never raises on any JSON.
"""

from __future__ import annotations

import binascii
from typing import TypeAlias

from msgspec import Struct

from holdfast.codecs.call_arguments import arguments_text
from holdfast.codecs.json_text import dump_json, string_or_empty
from holdfast.codecs.openai_responses.vocabulary import WIRE
from holdfast.core.deltas import (
    Delta,
    PartReceived,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
)
from holdfast.core.messages import Media, Opaque, Text

Key: TypeAlias = int | str
"""An item's `output_index`, or its id if it has no index."""

CUSTOM = "custom_tool_call"

_Object: TypeAlias = dict[str, object]
_CALL_FIELDS = frozenset({"type", "call_id", "name", "arguments", "input"})
_MESSAGE_FIELDS = frozenset({"type", "role", "content"})
_PART_FIELDS = frozenset({"type", "text"})


class Track(Struct, gc=False):
    """One open text: the index of its part, and the pieces so far."""

    index: int
    pieces: list[str]


class Item(Struct, gc=False):
    """One output item."""

    key: Key
    kind: str
    id: str
    index: int
    fields: _Object
    thought: int | None = None
    ended: bool = False


class ItemReader:
    """Turns items into deltas, and numbers their parts in the order in which they begin.

    Attributes:
        open_tracks: the open texts, by item, section and part.
    """

    __slots__ = ("_count", "open_tracks")

    def __init__(self) -> None:
        self._count = 0
        self.open_tracks: dict[tuple[Key, str, int], Track] = {}

    def begin_item(self, key: Key, fields: _Object, out: list[Delta]) -> Item:
        """Begin an item. Texts that it already holds are read at its end."""
        kind = kind_of_item(fields)
        item = Item(key, kind, string_or_empty(fields.get("id")), self._next_index(), fields)
        if kind in ("function_call", CUSTOM):
            out.append(
                ToolCallDelta(item.index, _call_id(fields), string_or_empty(fields.get("name")))
            )
        return item

    def add_text(self, item: Item, section: str, part: int, text: str, out: list[Delta]) -> None:
        """Add a piece to one of the item's texts."""
        key = (item.key, section, part)
        track = self.open_tracks.get(key)
        if track is None:
            track = self.open_tracks[key] = self._begin_track(item, section, out)
        if text:
            track.pieces.append(text)
            out.append(_section_delta(section, track.index, text))

    def complete_text(
        self, item: Item, section: str, part: int, text: str, out: list[Delta]
    ) -> None:
        """Complete one of the item's texts: emit the rest that was not emitted yet."""
        track = self.open_tracks.get((item.key, section, part))
        if rest := text if track is None else _remaining_text(text, track.pieces):
            self.add_text(item, section, part, rest, out)

    def end_item(self, item: Item, fields: _Object, out: list[Delta]) -> None:
        """End an item with its final form."""
        if item.ended:
            return
        item.ended = True
        match item.kind:
            case "message":
                self._end_message(item, fields, out)
            case "reasoning":
                self._end_reasoning(item, fields, out)
            case "function_call":
                self._end_call(item, "arguments", fields, out)
            case "custom_tool_call":
                self._end_call(item, "input", fields, out)
            case _:
                out.append(PartReceived(_opaque_part(fields), item.index))

    def leave(self, item: Item, out: list[Delta]) -> None:
        """End a call without a final form; it has the arguments that were streamed.

        The delta repeats its name, which makes the finish reason before it invalid.
        """
        item.ended = True
        extra = {name: v for name, v in item.fields.items() if name not in _CALL_FIELDS}
        out.append(
            ToolCallDelta(item.index, name=string_or_empty(item.fields.get("name")), extra=extra)
        )

    def _next_index(self) -> int:
        self._count += 1
        return self._count - 1

    def _begin_track(self, item: Item, section: str, out: list[Delta]) -> Track:
        if section == "input":
            out.append(ToolCallDelta(item.index, arguments=_OPENING))
        elif section == "text" or section in _THOUGHTS:
            track = Track(self._next_index(), [])
            if section != "text" and item.thought is None:
                item.thought = track.index
            return track
        return Track(item.index, [])

    def _end_message(self, item: Item, fields: _Object, out: list[Delta]) -> None:
        item_fields = {
            name: v for name, v in fields.items() if name not in _MESSAGE_FIELDS and v is not None
        }
        unknown = []
        content = fields.get("content")
        if isinstance(content, str):
            content = [{"type": "output_text", "text": content}]
        for at, part in enumerate(_only_objects(content)):
            kind = part.get("type")
            if kind == "refusal":
                self.complete_text(item, "refusal", at, string_or_empty(part.get("refusal")), out)
            elif kind in ("output_text", "text", None):
                self.complete_text(item, "text", at, string_or_empty(part.get("text")), out)
                track = self.open_tracks.get((item.key, "text", at))
                if track is not None and track.pieces:
                    part_fields = {n: v for n, v in part.items() if n not in _PART_FIELDS and v}
                    extra: _Object = {"wire": WIRE, "item": item_fields}
                    if part_fields:
                        extra["part"] = part_fields
                    # The fields are added to the text with the same index.
                    out.append(PartReceived(Text("", extra), track.index))
            else:
                unknown.append(part)
        if unknown:
            opaque = {name: value for name, value in fields.items() if name != "id"}
            out.append(PartReceived(Opaque(WIRE, {**opaque, "content": unknown}), item.index))

    def _end_reasoning(self, item: Item, fields: _Object, out: list[Delta]) -> None:
        for at, part in enumerate(_only_objects(fields.get("summary"))):
            self.complete_text(item, "summary", at, string_or_empty(part.get("text")), out)
        for at, part in enumerate(_only_objects(fields.get("content"))):
            self.complete_text(item, "thought", at, string_or_empty(part.get("text")), out)
        # The first reasoning part of the item holds all its fields, which are sent back.
        at = item.index if item.thought is None else item.thought
        out.append(ReasoningDelta("", at, extra=fields))

    def _end_call(self, item: Item, section: str, fields: _Object, out: list[Delta]) -> None:
        value = fields.get(section)
        text = value if isinstance(value, str) else "" if value is None else arguments_text(value)
        self.complete_text(item, section, 0, text, out)
        extra = {name: v for name, v in fields.items() if name not in _CALL_FIELDS}
        closing = ""
        if section == "input":
            begun = (item.key, section, 0) in self.open_tracks
            closing = _CLOSING if begun else _OPENING + _CLOSING
            extra["type"] = CUSTOM
        call_id, name = _call_id(fields), string_or_empty(fields.get("name"))
        out.append(ToolCallDelta(item.index, call_id, name, closing, extra or None))


_THOUGHTS = ("summary", "thought")
# A custom tool takes plain text. Here its call has one argument, so that it runs like any other.
_OPENING, _CLOSING = '{"input":"', '"}'


def kind_of_item(fields: _Object) -> str:
    """Return an item's type; an item without a type but with content is a message.

    >>> kind_of_item({"type": "reasoning"}), kind_of_item({"content": []})
    ('reasoning', 'message')
    """
    kind = string_or_empty(fields.get("type"))
    return "message" if not kind and "content" in fields else kind


def _remaining_text(text: str, emitted: list[str]) -> str:
    """Return the rest of `text` after the emitted pieces; "" if they are not its beginning."""
    at = 0
    for piece in emitted:
        if not text.startswith(piece, at):
            return ""
        at += len(piece)
    return text[at:]


def _section_delta(section: str, index: int, text: str) -> Delta:
    match section:
        case "text":
            return TextDelta(text, index)
        case "refusal":
            return RefusalDelta(text)
        case "summary" | "thought":
            return ReasoningDelta(text, index)
        case "input":
            return ToolCallDelta(index, arguments=dump_json(text)[1:-1])
        case _:
            return ToolCallDelta(index, arguments=text)


def _call_id(fields: _Object) -> str:
    return string_or_empty(fields.get("call_id")) or string_or_empty(fields.get("id"))


def _only_objects(value: object) -> list[_Object]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _opaque_part(fields: _Object) -> Media | Opaque:
    """Return an item as an opaque part, or as media if it is a generated image."""
    data = string_or_empty(fields.get("result"))
    if fields.get("type") != "image_generation_call" or not data:
        return Opaque(WIRE, fields)
    try:
        image = binascii.a2b_base64(data)
    except ValueError:
        return Opaque(WIRE, fields)
    if not image:
        return Opaque(WIRE, fields)
    item = {name: value for name, value in fields.items() if name != "result"}
    kind = string_or_empty(fields.get("output_format")) or "png"
    return Media(f"image/{kind}", data=image, extra={"wire": WIRE, "item": item})
