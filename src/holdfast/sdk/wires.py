"""The objects of each SDK handed to the codec of their wire: one reading of a wire, whoever fetched it.

A codec reads bytes, and below them objects; an SDK has read the bytes already. What differs between
an object and the wire's own is put right here. This module must never judge a reply.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.codecs.anthropic.history import WIRE as ANTHROPIC
from holdfast.codecs.anthropic.pieces import Pieces as AnthropicPieces
from holdfast.codecs.gemini.errors import classify as classify_gemini
from holdfast.codecs.gemini.pieces import Pieces as GeminiPieces
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.openai_chat.errors import classify as classify_chat
from holdfast.codecs.openai_chat.pieces import Pieces as ChatPieces
from holdfast.codecs.openai_chat.vocabulary import WIRE as CHAT
from holdfast.codecs.openai_responses.pieces import Pieces as ResponsesPieces
from holdfast.core.deltas import Delta
from holdfast.sdk.dialect import is_whole
from holdfast.sdk.gemini_names import in_wire_names
from holdfast.sdk.plain import Object


class Wire(Protocol):
    """The objects of one reply in order, as deltas."""

    def chunk(self, thing: Object, out: list[Delta]) -> None:
        """One chunk or event of a stream."""
        ...

    def whole(self, thing: Object, out: list[Delta]) -> None:
        """A whole response."""
        ...

    def close(self, out: list[Delta]) -> None:
        """The stream is over: what was held back."""
        ...


class _Chat:
    def __init__(self) -> None:
        self._pieces = ChatPieces(classify_chat, "")

    def chunk(self, thing: Object, out: list[Delta]) -> None:
        self._pieces.take(_with(thing, "choices"), out)

    def whole(self, thing: Object, out: list[Delta]) -> None:
        self._pieces.take(_with(thing, "choices"), out, whole=True)
        self._pieces.end(out, whole=True)

    def close(self, out: list[Delta]) -> None:
        self._pieces.cut(out)


class _Events:
    """A wire whose stream consists of events, which are unlike a whole response."""

    def __init__(self, wire: str, pieces: AnthropicPieces | ResponsesPieces) -> None:
        self._wire = wire
        self._pieces = pieces
        self._whole = False

    def chunk(self, thing: Object, out: list[Delta]) -> None:
        # A proxy, or a call that forgot to ask for a stream, may answer whole.
        if is_whole(thing, self._wire):
            self.whole(thing, out)
        else:
            self._pieces.take(thing, "", out)

    def whole(self, thing: Object, out: list[Delta]) -> None:
        self._whole = True
        self._pieces.take_whole(_typed(thing), out)

    def close(self, out: list[Delta]) -> None:
        if not self._whole:
            self._pieces.cut(out)


class _Gemini:
    def __init__(self, *, renamed: bool) -> None:
        self._pieces = GeminiPieces(classify_gemini, "")
        self._renamed = renamed

    def chunk(self, thing: Object, out: list[Delta]) -> None:
        self._pieces.take(self._as_sent(thing), out)

    def whole(self, thing: Object, out: list[Delta]) -> None:
        self._pieces.take(self._as_sent(thing), out)
        self._pieces.end(out)

    def close(self, out: list[Delta]) -> None:
        self._pieces.close(out)

    def _as_sent(self, thing: Object) -> Object:
        sent = _with(thing if self._renamed else in_wire_names(thing), "candidates")
        text = sent.get("text")
        if isinstance(text, str) and not sent["candidates"]:
            # An object with nothing but its text, as wrappers and tests make them.
            sent = {**sent, "candidates": [{"content": {"parts": [{"text": text}]}}]}
        return sent


def wire_named(name: str, *, renamed: bool) -> Wire:
    """A reader for one reply of this wire.

    Args:
        name: as `dialect_of` gives it.
        renamed: the objects have the wire's own names of fields already.
    """
    if name == GEMINI:
        return _Gemini(renamed=renamed)
    if name == CHAT:
        return _Chat()
    return _Events(name, AnthropicPieces("") if name == ANTHROPIC else ResponsesPieces(""))


def _with(thing: Object, name: str) -> Object:
    """The object with a field that its class promises, and that was left out because it was empty."""
    if name in thing or thing.get("error"):
        return thing
    return {**thing, name: None}


def _typed(thing: Object) -> Object:
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
