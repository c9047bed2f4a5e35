"""Output items as deltas: what each kind of item shows, and what of it must go back.

An item is begun once, grows in pieces, and is ended by its last and whole form. Ending it again
changes nothing. This module must never raise on any JSON.
"""

from __future__ import annotations

import binascii
from typing import TypeAlias

from msgspec import Struct

from holdfast.codecs.call_arguments import arguments_text
from holdfast.codecs.json_text import dump_json
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
"""An item's `output_index`, or its id where there is none."""

CUSTOM = "custom_tool_call"

_Object: TypeAlias = dict[str, object]
_CALL_FIELDS = frozenset({"type", "call_id", "name", "arguments", "input"})
_MESSAGE_FIELDS = frozenset({"type", "role", "content"})
_PART_FIELDS = frozenset({"type", "text"})


class Track(Struct, gc=False):
    """One text under way: the number of the part that it belongs to, and what came of it."""

    index: int
    pieces: list[str]


class Item(Struct, gc=False):
    """One output item under way."""

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
        open_tracks: the texts under way, by item, section and part.
    """

    __slots__ = ("_count", "open_tracks")

    def __init__(self) -> None:
        self._count = 0
        self.open_tracks: dict[tuple[Key, str, int], Track] = {}

    def begin_item(self, key: Key, fields: _Object, out: list[Delta]) -> Item:
        """An item is announced; its texts, if it has any yet, wait for its end."""
        kind = kind_of_item(fields)
        item = Item(key, kind, string_or_empty(fields.get("id")), self._next_index(), fields)
        if kind in ("function_call", CUSTOM):
            out.append(
                ToolCallDelta(item.index, _call_id(fields), string_or_empty(fields.get("name")))
            )
        return item

    def add_text(self, item: Item, section: str, part: int, text: str, out: list[Delta]) -> None:
        """A piece of one of the item's texts."""
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
        """The whole of one of the item's texts: what of it was not shown yet is shown now."""
        track = self.open_tracks.get((item.key, section, part))
        if rest := text if track is None else _remaining_text(text, track.pieces):
            self.add_text(item, section, part, rest, out)

    def end_item(self, item: Item, fields: _Object, out: list[Delta]) -> None:
        """The item in its last and whole form."""
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
        """A call whose whole form never came: it has the arguments that were streamed.

        Its name is given again, which makes a finish reason before it void.
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
        own = {
            name: v for name, v in fields.items() if name not in _MESSAGE_FIELDS and v is not None
        }
        strange = []
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
                    beside = {n: v for n, v in part.items() if n not in _PART_FIELDS and v}
                    extra = {"wire": WIRE, "item": own, **({"part": beside} if beside else {})}
                    # It joins the text that was shown as it came.
                    out.append(PartReceived(Text("", extra), track.index))
            else:
                strange.append(part)
        if strange:
            kept = {name: value for name, value in fields.items() if name != "id"}
            out.append(PartReceived(Opaque(WIRE, {**kept, "content": strange}), item.index))

    def _end_reasoning(self, item: Item, fields: _Object, out: list[Delta]) -> None:
        for at, part in enumerate(_only_objects(fields.get("summary"))):
            self.complete_text(item, "summary", at, string_or_empty(part.get("text")), out)
        for at, part in enumerate(_only_objects(fields.get("content"))):
            self.complete_text(item, "thought", at, string_or_empty(part.get("text")), out)
        # The first thought of the item carries the whole of it back.
        at = item.index if item.thought is None else item.thought
        out.append(ReasoningDelta("", at, extra=fields))

    def _end_call(self, item: Item, section: str, fields: _Object, out: list[Delta]) -> None:
        whole = fields.get(section)
        text = whole if isinstance(whole, str) else "" if whole is None else arguments_text(whole)
        self.complete_text(item, section, 0, text, out)
        extra = {name: value for name, value in fields.items() if name not in _CALL_FIELDS}
        closing = ""
        if section == "input":
            begun = (item.key, section, 0) in self.open_tracks
            closing = _CLOSING if begun else _OPENING + _CLOSING
            extra["type"] = CUSTOM
        call_id, name = _call_id(fields), string_or_empty(fields.get("name"))
        out.append(ToolCallDelta(item.index, call_id, name, closing, extra or None))


_THOUGHTS = ("summary", "thought")
# A custom tool takes plain text; here it is a call with one argument, so that it can be run.
_OPENING, _CLOSING = '{"input":"', '"}'


def kind_of_item(fields: _Object) -> str:
    """An item's type; one that does not say it and has content is a message.

    >>> kind_of_item({"type": "reasoning"}), kind_of_item({"content": []})
    ('reasoning', 'message')
    """
    said = string_or_empty(fields.get("type"))
    return "message" if not said and "content" in fields else said


def string_or_empty(value: object) -> str:
    """A string as it is, anything else as an empty one."""
    return value if isinstance(value, str) else ""


def _remaining_text(text: str, shown: list[str]) -> str:
    """What follows in `text` after what was shown; nothing when the two do not agree."""
    at = 0
    for piece in shown:
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
    """An item that is kept verbatim; a picture is also something to show."""
    data = string_or_empty(fields.get("result"))
    if fields.get("type") != "image_generation_call" or not data:
        return Opaque(WIRE, fields)
    try:
        picture = binascii.a2b_base64(data)
    except ValueError:
        return Opaque(WIRE, fields)
    if not picture:
        return Opaque(WIRE, fields)
    item = {name: value for name, value in fields.items() if name != "result"}
    kind = string_or_empty(fields.get("output_format")) or "png"
    return Media(f"image/{kind}", data=picture, extra={"wire": WIRE, "item": item})
