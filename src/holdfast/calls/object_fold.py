"""Builds one reply from the objects of an SDK by the codecs, streamed or whole.

A codec decodes bytes into objects, and the SDK has already done this. So the differences between an SDK's
object and the wire's own are corrected here. This module never waits, calls no callbacks and does not log.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Protocol

from msgspec.structs import replace

from holdfast.calls.http_responses import HttpBody, HttpReply
from holdfast.calls.object_dialect import (
    convert_converse,
    detect_wire,
    find_reply_id,
    is_whole_response,
)
from holdfast.calls.object_json import (
    Object,
    declared_fields,
    own_values,
    to_json_object,
    to_json_value,
)
from holdfast.calls.response_reader import DEFAULT_READER, ResponseReader, convert_response
from holdfast.codecs.anthropic.chunk_reader import AnthropicChunkReader
from holdfast.codecs.anthropic.history import WIRE as ANTHROPIC
from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.gemini.chunk_reader import GeminiChunkReader
from holdfast.codecs.gemini.errors import classify as classify_gemini
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.openai_chat.chunk_reader import OpenAIChatChunkReader
from holdfast.codecs.openai_chat.errors import classify as classify_chat
from holdfast.codecs.openai_chat.reply_habits import HabitReader
from holdfast.codecs.openai_chat.vocabulary import WIRE as CHAT
from holdfast.codecs.openai_responses.chunk_reader import ResponsesChunkReader
from holdfast.core.deltas import Delta, PartReceived, ReplyFinished, StreamEnded
from holdfast.core.messages import FinishReason, Opaque, ReplyKind, Usage


class ObjectFold:
    """Reads the objects of one reply; each reply needs a new fold.

    Args:
        reader: how the objects are read.

    Attributes:
        wire: the wire of the objects; "" until it is detected.
        turns: the number of model turns that began. An SDK that runs tools gives several in one stream.
        continues_text: whether the last of them continues the text of the one before.

    >>> fold = ObjectFold()
    >>> deltas = fold.read_whole({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
    >>> fold.wire, fold.finish().reply.text
    ('openai_chat', 'Hi')
    """

    __slots__ = (
        "_all_bare",
        "_assembler",
        "_habits",
        "_history_length",
        "_http",
        "_is_closed",
        "_reader",
        "_reply_id",
        "_usage_before",
        "_wire_reader",
        "continues_text",
        "turns",
        "wire",
    )

    def __init__(self, reader: ResponseReader = DEFAULT_READER) -> None:
        self._reader = reader
        self._assembler: Assembler | None = None
        self._wire_reader: SdkWire | None = None
        self._habits: HabitReader | None = None
        self._all_bare = True
        self._is_closed = False
        self._history_length = 0
        self._http: HttpBody | None = None
        self._reply_id = ""
        self._usage_before = Usage()
        self.continues_text = False
        self.turns = 0
        self.wire = ""

    def read_chunk(self, source: object) -> list[Delta]:
        """Return the deltas of one chunk or event; none for an object of an unknown wire."""
        if isinstance(source, HttpReply) or (isinstance(source, bytes) and self._http is not None):
            return self._read_http(source)
        return self._read_object(_unwrap_chunk(convert_response(source, self._reader)), whole=False)

    def read_whole(self, source: object) -> list[Delta]:
        """Return the deltas of a whole response, and end the reply."""
        if isinstance(source, HttpReply):
            return self._read_http(source) + self.close()
        deltas = self._read_object(source, whole=True)
        self._is_closed = True
        return deltas

    def close(self) -> list[Delta]:
        """End the stream, and return the remaining deltas."""
        out: list[Delta] = []
        if self._http is not None and not self._is_closed:
            out = self._http.close()
            self._feed_http(out)
        elif self._wire_reader is not None and not self._is_closed:
            self._wire_reader.close(out)
            if self._all_bare:
                out += (ReplyFinished(FinishReason.UNKNOWN), StreamEnded())
            out = self._read_habits(out, is_end=True)
            self._feed_assembler(out)
        self._is_closed = True
        return out

    def finish(self) -> AssembledReply:
        """Return the reply so far, with its kind and error: that of the last turn, with the usage of all."""
        assembled = (self._assembler or Assembler(self._reader.profile)).finish()
        if not self.turns:
            return assembled
        usage = self._usage_before + assembled.reply.usage
        return replace(assembled, reply=replace(assembled.reply, usage=usage))

    def _read_http(self, source: HttpReply | bytes) -> list[Delta]:
        """Read the head of an HTTP response, or a piece of its body after it."""
        if isinstance(source, HttpReply):
            self._http = HttpBody(source, self._reader.profile)
            source = source.body
        out = [] if self._http is None else self._http.feed(source)
        self._feed_http(out)
        return out

    def _feed_http(self, deltas: list[Delta]) -> None:
        if self._http is not None and self._assembler is None and self._http.wire:
            self.wire = self._http.wire
            self._assembler = Assembler(self._reader.profile, self.wire)
        self._feed_assembler(deltas)

    def _read_object(self, source: object, *, whole: bool) -> list[Delta]:
        out: list[Delta] = []
        given = to_json_object(source)
        if given is None:
            return out
        value = convert_converse(given)
        sdk_calls = self._read_sdk_calls(value)
        reply_id = find_reply_id(value, self.wire)
        if sdk_calls or (reply_id and self._reply_id not in ("", reply_id)):
            self._end_turn(has_results=bool(sdk_calls))
        reader = self._wire_reader or self._open_reader(source, value)
        self._reply_id = reply_id or self._reply_id or find_reply_id(value, self.wire)
        if reader is None:
            return out
        if self._all_bare:
            self._all_bare = value is given and not _is_sdk_model(source) and _is_bare_object(value)
        if whole:
            reader.read_whole(value, out)
        else:
            reader.read_chunk(value, out)
        out = self._read_habits(out)
        self._feed_assembler(out)
        if self.wire == GEMINI:
            out += sdk_calls
        return out

    def _end_turn(self, *, has_results: bool) -> None:
        """Begin the next turn, if the SDK itself went on with the reply so far.

        It ran the calls of a finished reply, or continued one that paused. Anything else stays one
        reply, so that its reader can refuse two replies in one stream.
        """
        if self._wire_reader is None or self._assembler is None:
            return
        reply = self._assembler.finish().reply
        has_paused = reply.kind is ReplyKind.PAUSED
        if not (has_results or has_paused or (reply.calls and reply.kind not in _UNFINISHED)):
            return
        ending: list[Delta] = []
        self._wire_reader.close(ending)
        self._feed_assembler(self._read_habits(ending, is_end=True))
        self._usage_before += self._assembler.finish().reply.usage
        self._wire_reader, self._all_bare = None, True
        self.continues_text = has_paused
        self.turns += 1

    def _open_reader(self, source: object, value: Object) -> SdkWire | None:
        self.wire = detect_wire(value, {}) or detect_wire(value, declared_fields(source))
        if not self.wire:
            return None
        # The SDK's dump has the names of the wire; other objects may have Python's names.
        config = getattr(type(source), "model_config", None)
        renamed = isinstance(config, dict) and bool(config.get("alias_generator"))
        profile = self._reader.profile
        self._assembler = Assembler(profile, self.wire)
        has_habits = profile.has_habits and self.wire == CHAT
        self._habits = HabitReader(profile) if has_habits else None
        self._wire_reader = make_wire(self.wire, has_wire_names=renamed)
        return self._wire_reader

    def _read_habits(self, deltas: list[Delta], *, is_end: bool = False) -> list[Delta]:
        """Return the deltas without the habits of the endpoint."""
        if self._habits is None:
            return deltas
        read = self._habits.read_deltas(deltas)
        return read + self._habits.close() if is_end else read

    def _feed_assembler(self, deltas: list[Delta]) -> None:
        if self._assembler is not None:
            feed = self._assembler.feed
            for delta in deltas:
                feed(delta)

    def _read_sdk_calls(self, value: Object) -> list[Delta]:
        """Return the calls and results of tools that the SDK ran by itself.

        The SDK's list includes the history before the request, and grows from chunk to chunk.
        """
        history = value.get("automaticFunctionCallingHistory") or value.get(
            "automatic_function_calling_history"
        )
        if not isinstance(history, list):
            return []
        parts = _parts_since_question(history)
        fresh = [
            PartReceived(Opaque(GEMINI, part)) for part in islice(parts, self._history_length, None)
        ]
        self._history_length = max(self._history_length, len(parts))
        return list(fresh)


_UNFINISHED = (ReplyKind.UNTERMINATED, ReplyKind.ERROR_REPLY, ReplyKind.NOT_A_REPLY)


def _parts_since_question(contents: list[object]) -> list[Object]:
    parts_since: list[Object] = []
    for content in contents:
        content_fields = to_json_object(content) or {}
        parts = content_fields.get("parts")
        for part in parts if isinstance(parts, list) else ():
            fields = to_json_object(part) or {}
            if content_fields.get("role") == "user" and isinstance(fields.get("text"), str):
                parts_since.clear()
            else:
                parts_since.append(fields)
    return parts_since


def _unwrap_chunk(source: object) -> object:
    """Return the chunk inside the event of an SDK's helper, which also holds all earlier chunks."""
    values = own_values(source)
    if values.get("type") == "chunk" and values.get("chunk") is not None:
        return values["chunk"]
    return source


def _is_sdk_model(source: object) -> bool:
    return isinstance(getattr(type(source), "model_config", None), dict)


def _is_bare_object(value: Object) -> bool:
    """Whether an object holds only content, so that no finish reason is required.

    Wrappers and tests create such objects; servers do not send them.
    """
    if not value.keys() <= _BARE:
        return False
    lists = [found for name in _LISTS if isinstance(found := value.get(name), list)]
    entries = [entry for items in lists for entry in items]
    return all(isinstance(entry, dict) and entry.keys() <= _BARE_ENTRY for entry in entries)


_LISTS = ("candidates", "choices")
_BARE = frozenset({*_LISTS, "text", "method_calls"})
_BARE_ENTRY = frozenset({"content", "delta", "index", "method_calls"})


class SdkWire(Protocol):
    """Turns the objects of one reply into deltas, in order."""

    def read_chunk(self, source: Object, out: list[Delta]) -> None:
        """Read one chunk or event of a stream."""
        ...

    def read_whole(self, source: Object, out: list[Delta]) -> None:
        """Read a whole response."""
        ...

    def close(self, out: list[Delta]) -> None:
        """End the stream, and add the remaining deltas."""
        ...


class _ChatWire:
    def __init__(self) -> None:
        self._reader = OpenAIChatChunkReader(classify_chat, "")

    def read_chunk(self, source: Object, out: list[Delta]) -> None:
        self._reader.read_object(_with_field(source, "choices"), out)

    def read_whole(self, source: Object, out: list[Delta]) -> None:
        self._reader.read_object(_with_field(source, "choices"), out, whole=True)
        self._reader.end_reply(out, whole=True)

    def close(self, out: list[Delta]) -> None:
        self._reader.close(out)


class _EventWire:
    """A wire whose stream consists of events, which differ from a whole response."""

    def __init__(self, wire: str, reader: AnthropicChunkReader | ResponsesChunkReader) -> None:
        self._wire = wire
        self._reader = reader
        self._is_whole = False

    def read_chunk(self, source: Object, out: list[Delta]) -> None:
        # A proxy, or a call without the streaming option, may return a whole response.
        if is_whole_response(source, self._wire):
            self.read_whole(source, out)
        else:
            self._reader.read_event(source, "", out)

    def read_whole(self, source: Object, out: list[Delta]) -> None:
        self._is_whole = True
        self._reader.read_whole(_add_item_types(source), out)

    def close(self, out: list[Delta]) -> None:
        if not self._is_whole:
            self._reader.close(out)


class _GeminiWire:
    def __init__(self, *, has_wire_names: bool) -> None:
        self._reader = GeminiChunkReader(classify_gemini, "")
        self._has_wire_names = has_wire_names

    def read_chunk(self, source: Object, out: list[Delta]) -> None:
        self._reader.read_object(self._to_wire_object(source), out)

    def read_whole(self, source: Object, out: list[Delta]) -> None:
        self._reader.read_object(self._to_wire_object(source), out)
        self._reader.end_whole_body(out)

    def close(self, out: list[Delta]) -> None:
        self._reader.close(out)

    def _to_wire_object(self, source: Object) -> Object:
        wire_object = _with_field(
            source if self._has_wire_names else _to_wire_names(source), "candidates"
        )
        text = wire_object.get("text")
        if isinstance(text, str) and source.get("candidates") == []:
            # A wrapper of a response, as tests create it: its text, and an empty list of candidates.
            wire_object = {**wire_object, "candidates": [{"content": {"parts": [{"text": text}]}}]}
        return wire_object


def make_wire(name: str, *, has_wire_names: bool) -> SdkWire:
    """Return a reader for one reply of this wire.

    Args:
        name: the result of `detect_wire`.
        has_wire_names: the objects already have the wire's field names.
    """
    if name == GEMINI:
        return _GeminiWire(has_wire_names=has_wire_names)
    if name == CHAT:
        return _ChatWire()
    return _EventWire(
        name, AnthropicChunkReader("") if name == ANTHROPIC else ResponsesChunkReader("")
    )


def _with_field(source: Object, name: str) -> Object:
    """Add a field that was omitted because it is empty."""
    if name in source or source.get("error"):
        return source
    return {**source, name: None}


def _add_item_types(source: Object) -> Object:
    """Add the type "message" to items of a response that have content but no type."""
    output = source.get("output")
    if not isinstance(output, list):
        return source
    if not [item for item in output if isinstance(item, dict) and "type" not in item]:
        return source
    items = [
        {"type": "message", **item}
        if isinstance(item, dict) and "type" not in item and "content" in item
        else item
        for item in output
    ]
    return {**source, "output": items}


_USER_DATA = frozenset({"args", "response"})


def _to_wire_names(chunk: Mapping[str, object]) -> Object:
    """Return an object of Gemini's SDK with the names of the wire and without the fields that are None.

    The SDK writes `finish_reason` for the wire's `finishReason`. Names inside arguments and results
    come from the model or a tool, so they stay unchanged. Values are never changed.

    >>> _to_wire_names({"candidates": [{"finish_reason": "STOP", "content": None}]})
    {'candidates': [{'finishReason': 'STOP'}]}
    >>> _to_wire_names({"function_call": {"args": {"city_name": None}}})
    {'functionCall': {'args': {'city_name': None}}}
    """
    return {
        _to_camel_case(name): value
        if type(value) is str or name in _USER_DATA
        else _rename_fields(value)
        for name, value in chunk.items()
        if value is not None
    }


def _rename_fields(value: object) -> object:
    kind = type(value)
    if kind is dict:
        return _to_wire_names(value)  # type: ignore[arg-type]  # is a dictionary
    if kind is list:
        return [_rename_fields(inner) for inner in value]  # type: ignore[attr-defined]  # is a list
    return value if kind in _AS_THEY_ARE else _convert_value(value)


_AS_THEY_ARE = frozenset({str, int, float, bool})


def _convert_value(value: object) -> object:
    """Convert values that a dictionary made from an SDK's object may hold: bytes, enums, objects."""
    converted = to_json_value(value)
    return _rename_fields(converted) if isinstance(converted, dict | list) else converted


@lru_cache(maxsize=512)
def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
