"""The objects of one reply, folded by the codecs into one judged reply, streamed or whole.

This module must never wait, call back or log: it is the core under every shell of this room.
"""

from __future__ import annotations

from itertools import islice

from holdfast.codecs.assemble import Assembled, Assembler
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.wire import Quirks
from holdfast.core.deltas import Delta, Ended, PartSeen
from holdfast.core.messages import Opaque
from holdfast.sdk.dialect import dialect_of
from holdfast.sdk.plain import Object, declared, own_values, plain
from holdfast.sdk.wires import Wire, wire_named


class ObjectFold:
    """Takes the objects of one reply; one fold for each reply.

    Args:
        quirks: how this provider's form of the wire differs from the vendor's.

    Attributes:
        wire: the wire that the objects speak; "" until one of them told.

    >>> fold = ObjectFold()
    >>> deltas = fold.whole({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
    >>> fold.wire, fold.finish().reply.text
    ('openai_chat', 'Hi')
    """

    __slots__ = ("_assembler", "_bare", "_closed", "_history", "_quirks", "_reader", "wire")

    def __init__(self, quirks: Quirks | None = None) -> None:
        self._quirks = quirks or Quirks()
        self._assembler: Assembler | None = None
        self._reader: Wire | None = None
        self._bare = True
        self._closed = False
        self._history = 0
        self.wire = ""

    def chunk(self, thing: object) -> list[Delta]:
        """The deltas of one chunk or event; none for an object of no wire."""
        return self._take(_inner(thing), whole=False)

    def whole(self, thing: object) -> list[Delta]:
        """The deltas of a whole response, which is then at its end."""
        deltas = self._take(thing, whole=True)
        self._closed = True
        return deltas

    def close(self) -> list[Delta]:
        """The stream is over: the deltas that were held back."""
        out: list[Delta] = []
        if self._reader is not None and not self._closed:
            self._reader.close(out)
            if self._bare:
                out.append(Ended())
            self._feed(out)
        self._closed = True
        return out

    def finish(self) -> Assembled:
        """The reply as far as it came, judged."""
        return (self._assembler or Assembler(self._quirks)).finish()

    def _take(self, thing: object, *, whole: bool) -> list[Delta]:
        out: list[Delta] = []
        found = plain(thing)
        if found is None:
            return out
        reader = self._reader or self._open(thing, found)
        if reader is None:
            return out
        if self._bare:
            self._bare = not _is_model(thing) and _is_bare(found)
        if whole:
            reader.whole(found, out)
        else:
            reader.chunk(found, out)
        self._feed(out)
        if self.wire == GEMINI:
            out += self._called_by_sdk(found)
        return out

    def _open(self, thing: object, found: Object) -> Wire | None:
        self.wire = dialect_of(found, {}) or dialect_of(found, declared(thing))
        if not self.wire:
            return None
        # The SDK's own dump has the names of the wire; anything else may have those of Python.
        config = getattr(type(thing), "model_config", None)
        renamed = isinstance(config, dict) and bool(config.get("alias_generator"))
        self._assembler = Assembler(self._quirks, self.wire)
        self._reader = wire_named(self.wire, renamed=renamed)
        return self._reader

    def _feed(self, deltas: list[Delta]) -> None:
        if self._assembler is not None:
            feed = self._assembler.feed
            for delta in deltas:
                feed(delta)

    def _called_by_sdk(self, found: Object) -> list[Delta]:
        """Calls and results of tools that the SDK ran by itself, told beside the reply.

        The list repeats what was asked before, and grows from chunk to chunk.
        """
        told = found.get("automaticFunctionCallingHistory") or found.get(
            "automatic_function_calling_history"
        )
        if not isinstance(told, list):
            return []
        parts = _since_last_question(told)
        fresh = [PartSeen(Opaque(GEMINI, part)) for part in islice(parts, self._history, None)]
        self._history = max(self._history, len(parts))
        return list(fresh)


def _since_last_question(contents: list[object]) -> list[Object]:
    found: list[Object] = []
    for content in contents:
        held = plain(content) or {}
        parts = held.get("parts")
        for part in parts if isinstance(parts, list) else ():
            fields = plain(part) or {}
            if held.get("role") == "user" and isinstance(fields.get("text"), str):
                found.clear()
            else:
                found.append(fields)
    return found


def _inner(thing: object) -> object:
    """The chunk inside the event of an SDK's helper, which holds also all that came before."""
    own = own_values(thing)
    if own.get("type") == "chunk" and own.get("chunk") is not None:
        return own["chunk"]
    return thing


def _is_model(thing: object) -> bool:
    return isinstance(getattr(type(thing), "model_config", None), dict)


def _is_bare(found: Object) -> bool:
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
