"""Passes the objects of an SDK to the reader of their wire.

A codec decodes bytes into objects, and the SDK has already done this. This module corrects the
differences between an SDK's object and the wire's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from holdfast.calls.object_dialect import is_whole_response
from holdfast.calls.object_json import Object, to_json_value
from holdfast.codecs.anthropic.chunk_reader import AnthropicChunkReader
from holdfast.codecs.anthropic.history import WIRE as ANTHROPIC
from holdfast.codecs.gemini.chunk_reader import GeminiChunkReader
from holdfast.codecs.gemini.errors import classify as classify_gemini
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.openai_chat.chunk_reader import OpenAIChatChunkReader
from holdfast.codecs.openai_chat.errors import classify as classify_chat
from holdfast.codecs.openai_chat.vocabulary import WIRE as CHAT
from holdfast.codecs.openai_responses.chunk_reader import ResponsesChunkReader
from holdfast.core.deltas import Delta


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
