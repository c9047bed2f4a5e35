"""Turns output items into deltas.

An item begins once, grows in pieces, and ends with its final form. Ending it again changes nothing.
The final form repeats the texts that were emitted. Some servers number its parts differently than the
pieces, merge two parts, or split one. So the texts are compared and not only their numbers. Emitted
text stays, and no text is emitted twice. This module never raises on any JSON.
"""

from __future__ import annotations

import binascii
from collections import deque
from typing import TypeAlias

from msgspec import Struct, field

from holdfast.codecs.call_arguments import arguments_text
from holdfast.codecs.json_text import dump_json, read_strict_json, string_or_empty
from holdfast.codecs.openai_responses.hosted import read_item
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


class Item(Struct, gc=False):
    """One output item, with the texts of its sections that came in pieces."""

    key: Key
    kind: str
    id: str
    index: int
    fields: _Object
    sections: dict[str, Section]
    thought: int | None = None
    ended: bool = False

    @property
    def text(self) -> str:
        """The text of a message that was emitted so far."""
        section = self.sections.get("text")
        return section.text if section is not None else ""

    @property
    def has_arguments(self) -> bool:
        """Whether the arguments of a call that came in pieces are a JSON object."""
        section = self.sections.get("arguments")
        return section is not None and isinstance(read_strict_json(section.text), dict)


class ItemReader:
    """Turns items into deltas, and numbers their parts in the order in which they begin.

    Attributes:
        open_tracks: the open texts, by item, section and part.
        has_all_text: the texts of all messages were emitted, so that no final form adds text.
    """

    __slots__ = ("_count", "has_all_text", "open_tracks")

    def __init__(self) -> None:
        self._count = 0
        self.has_all_text = False
        self.open_tracks: dict[tuple[Key, str, int], Track] = {}

    def begin_item(self, key: Key, fields: _Object, out: list[Delta]) -> Item:
        """Begin an item. Texts that it already holds are read at its end."""
        kind = kind_of_item(fields)
        item = Item(
            key=key,
            kind=kind,
            id=string_or_empty(fields.get("id")),
            index=self._next_index(),
            fields=fields,
            sections={},
        )
        if kind in ("function_call", CUSTOM):
            out.append(
                ToolCallDelta(item.index, _call_id(fields), string_or_empty(fields.get("name")))
            )
        else:
            out += read_item(fields)[:1]
        return item

    def add_text(self, item: Item, section: str, part: int, text: str, out: list[Delta]) -> None:
        """Add a piece to one of the item's texts."""
        track = self.open_tracks.get((item.key, section, part))
        if track is None:
            track = self._open_track(item, section, part, out)
        _grow_track(track, section, text, out)

    def complete_text(
        self, item: Item, section: str, part: int, text: str, out: list[Delta]
    ) -> None:
        """Complete one of the item's texts: emit the rest that was not emitted yet.

        Some servers number a part differently than its pieces. So a text of an unknown number
        completes the oldest incomplete text of the section.
        """
        known = item.sections.get(section)
        track = None if known is None else known.tracks.get(part) or known.next_incomplete()
        if track is None:
            track = self._open_track(item, section, part, out)
        track.complete = True
        _grow_track(track, section, track.remaining(text), out)

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
                out += read_item(fields)[1:]
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

    def _open_track(self, item: Item, section: str, part: int, out: list[Delta]) -> Track:
        index = item.index
        if section == "input":
            out.append(ToolCallDelta(item.index, arguments=_OPENING))
        elif section == "text" or section in _THOUGHTS:
            index = self._next_index()
            if section != "text" and item.thought is None:
                item.thought = index
        track = self.open_tracks[(item.key, section, part)] = Track(index, [])
        known = item.sections.get(section)
        if known is None:
            known = item.sections[section] = Section()
        known.add_track(part, track)
        return track

    def _complete_section(
        self, item: Item, section: str, texts: dict[int, str], out: list[Delta]
    ) -> dict[int, Track]:
        """Emit the additions of the final texts of a section, and return the track of each part."""
        tracks: dict[int, Track] = {}
        known = item.sections.get(section) or Section()
        for part, match in match_texts(known, texts).items():
            if match.track is not None:
                tracks[part] = match.track
            if not match.rest or (section == "text" and self.has_all_text):
                continue
            if match.track is None:
                # The number may belong to another text: a new number is given then.
                number = part if part not in known.tracks else len(known.tracks) + len(texts) + part
                tracks[part] = self._open_track(item, section, number, out)
            _grow_track(tracks[part], section, match.rest, out)
        return tracks

    def _end_message(self, item: Item, fields: _Object, out: list[Delta]) -> None:
        item_fields = {
            name: v for name, v in fields.items() if name not in _MESSAGE_FIELDS and v is not None
        }
        parts = _message_parts(fields)
        refusals = _texts_of(parts, ("refusal",), "refusal")
        texts = _texts_of(parts, _TEXT_KINDS, "text")
        if not texts:
            # The transcript of a reply that is only spoken is its text.
            texts = _texts_of(parts, ("output_audio",), "transcript")
        self._complete_section(item, "refusal", refusals, out)
        for at, track in self._complete_section(item, "text", texts, out).items():
            if track.pieces:
                part_fields = _part_fields(parts[at])
                extra: _Object = {"wire": WIRE, "item": item_fields}
                if part_fields:
                    extra["part"] = part_fields
                # The fields are added to the text with the same index.
                out.append(PartReceived(Text("", extra), track.index))
        unknown = [part for at, part in enumerate(parts) if at not in texts and at not in refusals]
        if unknown:
            opaque = {name: value for name, value in fields.items() if name != "id"}
            out.append(PartReceived(Opaque(WIRE, {**opaque, "content": unknown}), item.index))

    def _end_reasoning(self, item: Item, fields: _Object, out: list[Delta]) -> None:
        for section, name in (("summary", "summary"), ("thought", "content")):
            parts = _only_objects(fields.get(name))
            texts = {at: string_or_empty(part.get("text")) for at, part in enumerate(parts)}
            # Some servers send the same reasoning as a summary and in full.
            whole, others = "".join(texts.values()), item.sections.values()
            if section in item.sections or all(other.text != whole for other in others):
                self._complete_section(item, section, texts, out)
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
_TEXT_KINDS = ("output_text", "text", None)

# A custom tool takes plain text. Here its call has one argument, so that it runs like any other.
_OPENING, _CLOSING = '{"input":"', '"}'


def kind_of_item(fields: _Object) -> str:
    """Return an item's type; an item without a type but with content is a message.

    >>> kind_of_item({"type": "reasoning"}), kind_of_item({"content": []})
    ('reasoning', 'message')
    """
    kind = string_or_empty(fields.get("type"))
    return "message" if not kind and "content" in fields else kind


def message_text(items: list[_Object]) -> str:
    """Return the text of the messages among these items, joined."""
    texts: list[str] = []
    for fields in items:
        if kind_of_item(fields) == "message":
            texts += _texts_of(_message_parts(fields), _TEXT_KINDS, "text").values()
    return "".join(texts)


def _message_parts(fields: _Object) -> list[_Object]:
    content = fields.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    return _only_objects(content)


def _part_fields(part: _Object) -> _Object:
    """Return the fields of a text to send back; of a spoken text all, with its type."""
    if part.get("type") == "output_audio":
        return part
    return {name: value for name, value in part.items() if name not in _PART_FIELDS and value}


def _texts_of(parts: list[_Object], kinds: tuple[object, ...], field: str) -> dict[int, str]:
    """Return the texts of the parts of these kinds, by the number of the part."""
    return {
        at: string_or_empty(part.get(field))
        for at, part in enumerate(parts)
        if part.get("type") in kinds
    }


def _grow_track(track: Track, section: str, text: str, out: list[Delta]) -> None:
    if text:
        track.pieces.append(text)
        out.append(_section_delta(section, track.index, text))


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


class Track(Struct, gc=False):
    """One text: the index of its part, and the pieces so far; `complete` after its whole text came."""

    index: int
    pieces: list[str]
    complete: bool = False

    @property
    def text(self) -> str:
        """The pieces, joined. They become one piece, since several later copies are compared with it."""
        pieces = self.pieces
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0] if pieces else ""

    def remaining(self, text: str) -> str:
        """Return the rest of `text` after the emitted pieces; "" if they are not its beginning."""
        emitted = self.text
        return text[len(emitted) :] if text.startswith(emitted) else ""


class Section(Struct):
    """The texts of one section of an item, by the number of the part, in the order of their beginning."""

    tracks: dict[int, Track] = field(default_factory=dict)
    incomplete: deque[Track] = field(default_factory=deque)

    @property
    def text(self) -> str:
        """All texts, joined."""
        return "".join([track.text for track in self.tracks.values()])

    def add_track(self, part: int, track: Track) -> None:
        """Add the text of a part."""
        self.tracks[part] = track
        self.incomplete.append(track)

    def next_incomplete(self) -> Track | None:
        """Return the oldest text whose whole form has not come."""
        while self.incomplete and self.incomplete[0].complete:
            self.incomplete.popleft()
        return self.incomplete[0] if self.incomplete else None


class TextMatch(Struct, frozen=True):
    """The track of a final text, None for a new one, and the rest of the text that it adds."""

    track: Track | None
    rest: str = ""


def match_texts(section: Section, texts: dict[int, str]) -> dict[int, TextMatch]:
    """Match the final texts of a section to its tracks, by the number of the part.

    >>> section = Section({1: Track(0, ["Hel"])})
    >>> match_texts(section, {0: "Hello"})[0].rest
    'lo'
    """
    tracks = section.tracks
    if all(part in texts and texts[part].startswith(track.text) for part, track in tracks.items()):
        return {
            part: TextMatch(track, track.remaining(text))
            if (track := tracks.get(part)) is not None
            else TextMatch(None, text)
            for part, text in texts.items()
        }
    if "".join(texts.values()).startswith(section.text):
        return _match_by_position(list(tracks.values()), texts)
    # The final form contradicts the pieces. Only texts beyond the emitted ones are new.
    emitted = [*tracks.values(), *[None] * len(texts)]
    return {
        part: TextMatch(track) if track is not None else TextMatch(None, text)
        for (part, text), track in zip(texts.items(), emitted, strict=False)
    }


def _match_by_position(tracks: list[Track], texts: dict[int, str]) -> dict[int, TextMatch]:
    """Match the texts of which the emitted text is the beginning, wherever one part ends."""
    starts: list[int] = []
    emitted = 0
    for track in tracks:
        starts.append(emitted)
        emitted += len(track.text)
    matches: dict[int, TextMatch] = {}
    at = start = 0
    for part, text in texts.items():
        while at + 1 < len(tracks) and starts[at + 1] <= start:
            at += 1
        if start >= emitted:
            matches[part] = TextMatch(None, text)
        else:
            end_is_missing = start + len(text) > emitted
            track = tracks[-1] if end_is_missing else tracks[at]
            matches[part] = TextMatch(track, text[emitted - start :])
        start += len(text)
    return matches
