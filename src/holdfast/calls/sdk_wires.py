"""The objects of each SDK handed to the codec of their wire: one reading of a wire, whoever fetched it.

A codec reads bytes, and below them objects; an SDK has read the bytes already. What differs between
an object and the wire's own is put right here. This module must never judge a reply.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.calls.gemini_names import to_wire_names
from holdfast.calls.object_dialect import is_whole_response
from holdfast.calls.object_json import Object
from holdfast.codecs.anthropic.chunk_reader import AnthropicChunkReader as AnthropicPieces
from holdfast.codecs.anthropic.history import WIRE as ANTHROPIC
from holdfast.codecs.gemini.chunk_reader import GeminiChunkReader as GeminiPieces
from holdfast.codecs.gemini.errors import classify as classify_gemini
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.openai_chat.chunk_reader import OpenAIChatChunkReader as ChatPieces
from holdfast.codecs.openai_chat.errors import classify as classify_chat
from holdfast.codecs.openai_chat.vocabulary import WIRE as CHAT
from holdfast.codecs.openai_responses.chunk_reader import ResponsesChunkReader as ResponsesPieces
from holdfast.core.deltas import Delta


class SdkWire(Protocol):
    """The objects of one reply in order, as deltas."""

    def read_chunk(self, thing: Object, out: list[Delta]) -> None:
        """One chunk or event of a stream."""
        ...

    def read_whole(self, thing: Object, out: list[Delta]) -> None:
        """A whole response."""
        ...

    def close(self, out: list[Delta]) -> None:
        """The stream is over: what was held back."""
        ...


class _ChatWire:
    def __init__(self) -> None:
        self._reader = ChatPieces(classify_chat, "")

    def read_chunk(self, thing: Object, out: list[Delta]) -> None:
        self._reader.read_object(_with_field(thing, "choices"), out)

    def read_whole(self, thing: Object, out: list[Delta]) -> None:
        self._reader.read_object(_with_field(thing, "choices"), out, whole=True)
        self._reader.end_reply(out, whole=True)

    def close(self, out: list[Delta]) -> None:
        self._reader.close(out)


class _EventWire:
    """A wire whose stream consists of events, which are unlike a whole response."""

    def __init__(self, wire: str, reader: AnthropicPieces | ResponsesPieces) -> None:
        self._wire = wire
        self._reader = reader
        self._is_whole = False

    def read_chunk(self, thing: Object, out: list[Delta]) -> None:
        # A proxy, or a call that forgot to ask for a stream, may answer whole.
        if is_whole_response(thing, self._wire):
            self.read_whole(thing, out)
        else:
            self._reader.read_event(thing, "", out)

    def read_whole(self, thing: Object, out: list[Delta]) -> None:
        self._is_whole = True
        self._reader.read_whole(_add_item_types(thing), out)

    def close(self, out: list[Delta]) -> None:
        if not self._is_whole:
            self._reader.close(out)


class _GeminiWire:
    def __init__(self, *, has_wire_names: bool) -> None:
        self._reader = GeminiPieces(classify_gemini, "")
        self._has_wire_names = has_wire_names

    def read_chunk(self, thing: Object, out: list[Delta]) -> None:
        self._reader.read_object(self._to_wire_object(thing), out)

    def read_whole(self, thing: Object, out: list[Delta]) -> None:
        self._reader.read_object(self._to_wire_object(thing), out)
        self._reader.end_whole_body(out)

    def close(self, out: list[Delta]) -> None:
        self._reader.close(out)

    def _to_wire_object(self, thing: Object) -> Object:
        sent = _with_field(thing if self._has_wire_names else to_wire_names(thing), "candidates")
        text = sent.get("text")
        if isinstance(text, str) and not sent["candidates"]:
            # An object with nothing but its text, as wrappers and tests make them.
            sent = {**sent, "candidates": [{"content": {"parts": [{"text": text}]}}]}
        return sent


def make_wire(name: str, *, has_wire_names: bool) -> SdkWire:
    """A reader for one reply of this wire.

    Args:
        name: as `detect_wire` gives it.
        has_wire_names: the objects have the wire's own names of fields already.
    """
    if name == GEMINI:
        return _GeminiWire(has_wire_names=has_wire_names)
    if name == CHAT:
        return _ChatWire()
    return _EventWire(name, AnthropicPieces("") if name == ANTHROPIC else ResponsesPieces(""))


def _with_field(thing: Object, name: str) -> Object:
    """The object with a field that its class promises, and that was left out because it was empty."""
    if name in thing or thing.get("error"):
        return thing
    return {**thing, name: None}


def _add_item_types(thing: Object) -> Object:
    """A response whose items do not say what they are: those with content are messages."""
    output = thing.get("output")
    if not isinstance(output, list):
        return thing
    if not [item for item in output if isinstance(item, dict) and "type" not in item]:
        return thing
    items = [
        {"type": "message", **item}
        if isinstance(item, dict) and "type" not in item and "content" in item
        else item
        for item in output
    ]
    return {**thing, "output": items}
