"""The objects of one reply, folded by the codecs into one judged reply, streamed or whole.

This module must never wait, call back or log: it is the core under every shell of this room.
"""

from __future__ import annotations

from itertools import islice

from holdfast.calls.object_dialect import detect_wire
from holdfast.calls.object_json import Object, declared_fields, own_values, to_json_object
from holdfast.calls.sdk_wires import SdkWire, make_wire
from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.wire import Quirks
from holdfast.core.deltas import Delta, PartReceived, StreamEnded
from holdfast.core.messages import Opaque


class ObjectFold:
    """Takes the objects of one reply; one fold for each reply.

    Args:
        quirks: how this provider's form of the wire differs from the vendor's.

    Attributes:
        wire: the wire that the objects speak; "" until one of them told.

    >>> fold = ObjectFold()
    >>> deltas = fold.read_whole({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
    >>> fold.wire, fold.finish().reply.text
    ('openai_chat', 'Hi')
    """

    __slots__ = (
        "_all_bare",
        "_assembler",
        "_history_length",
        "_is_closed",
        "_is_closed",
        "_quirks",
        "_reader",
        "wire",
    )

    def __init__(self, quirks: Quirks | None = None) -> None:
        self._quirks = quirks or Quirks()
        self._assembler: Assembler | None = None
        self._reader: SdkWire | None = None
        self._all_bare = True
        self._is_closed = False
        self._history_length = 0
        self.wire = ""

    def read_chunk(self, thing: object) -> list[Delta]:
        """The deltas of one chunk or event; none for an object of no wire."""
        return self._read_object(_unwrap_chunk(thing), whole=False)

    def read_whole(self, thing: object) -> list[Delta]:
        """The deltas of a whole response, which is then at its end."""
        deltas = self._read_object(thing, whole=True)
        self._is_closed = True
        return deltas

    def close(self) -> list[Delta]:
        """The stream is over: the deltas that were held back."""
        out: list[Delta] = []
        if self._reader is not None and not self._is_closed:
            self._reader.close(out)
            if self._all_bare:
                out.append(StreamEnded())
            self._feed_assembler(out)
        self._is_closed = True
        return out

    def finish(self) -> AssembledReply:
        """The reply as far as it came, judged."""
        return (self._assembler or Assembler(self._quirks)).finish()

    def _read_object(self, thing: object, *, whole: bool) -> list[Delta]:
        out: list[Delta] = []
        found = to_json_object(thing)
        if found is None:
            return out
        reader = self._reader or self._open_reader(thing, found)
        if reader is None:
            return out
        if self._all_bare:
            self._all_bare = not _is_sdk_model(thing) and _is_bare_object(found)
        if whole:
            reader.read_whole(found, out)
        else:
            reader.read_chunk(found, out)
        self._feed_assembler(out)
        if self.wire == GEMINI:
            out += self._read_sdk_calls(found)
        return out

    def _open_reader(self, thing: object, found: Object) -> SdkWire | None:
        self.wire = detect_wire(found, {}) or detect_wire(found, declared_fields(thing))
        if not self.wire:
            return None
        # The SDK's own dump has the names of the wire; anything else may have those of Python.
        config = getattr(type(thing), "model_config", None)
        renamed = isinstance(config, dict) and bool(config.get("alias_generator"))
        self._assembler = Assembler(self._quirks, self.wire)
        self._reader = make_wire(self.wire, has_wire_names=renamed)
        return self._reader

    def _feed_assembler(self, deltas: list[Delta]) -> None:
        if self._assembler is not None:
            feed = self._assembler.feed
            for delta in deltas:
                feed(delta)

    def _read_sdk_calls(self, found: Object) -> list[Delta]:
        """Calls and results of tools that the SDK ran by itself, told beside the reply.

        The list repeats what was asked before, and grows from chunk to chunk.
        """
        told = found.get("automaticFunctionCallingHistory") or found.get(
            "automatic_function_calling_history"
        )
        if not isinstance(told, list):
            return []
        parts = _parts_since_question(told)
        fresh = [
            PartReceived(Opaque(GEMINI, part)) for part in islice(parts, self._history_length, None)
        ]
        self._history_length = max(self._history_length, len(parts))
        return list(fresh)


def _parts_since_question(contents: list[object]) -> list[Object]:
    found: list[Object] = []
    for content in contents:
        held = to_json_object(content) or {}
        parts = held.get("parts")
        for part in parts if isinstance(parts, list) else ():
            fields = to_json_object(part) or {}
            if held.get("role") == "user" and isinstance(fields.get("text"), str):
                found.clear()
            else:
                found.append(fields)
    return found


def _unwrap_chunk(thing: object) -> object:
    """The chunk inside the event of an SDK's helper, which holds also all that came before."""
    own = own_values(thing)
    if own.get("type") == "chunk" and own.get("chunk") is not None:
        return own["chunk"]
    return thing


def _is_sdk_model(thing: object) -> bool:
    return isinstance(getattr(type(thing), "model_config", None), dict)


def _is_bare_object(found: Object) -> bool:
    """Whether an object says nothing but its content, so that no finish reason can be asked for.

    No server sends such objects; wrappers and tests make them.
    """
    if not found.keys() <= _BARE:
        return False
    lists = [value for name in _LISTS if isinstance(value := found.get(name), list)]
    entries = [entry for entries in lists for entry in entries]
    return all(isinstance(entry, dict) and entry.keys() <= _BARE_ENTRY for entry in entries)


_LISTS = ("candidates", "choices")
_BARE = frozenset({*_LISTS, "text", "method_calls"})
_BARE_ENTRY = frozenset({"content", "delta", "index", "method_calls"})
