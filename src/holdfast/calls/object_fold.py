"""Builds one reply from the objects of an SDK by the codecs, streamed or whole.

This module never waits, calls no callbacks and does not log.
"""

from __future__ import annotations

from itertools import islice

from msgspec.structs import replace

from holdfast.calls.http_responses import HttpBody, HttpReply
from holdfast.calls.object_dialect import detect_wire, find_reply_id
from holdfast.calls.object_json import Object, declared_fields, own_values, to_json_object
from holdfast.calls.response_shapes import convert_response
from holdfast.calls.sdk_wires import SdkWire, make_wire
from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.gemini.vocabulary import WIRE as GEMINI
from holdfast.codecs.wire import Quirks
from holdfast.core.deltas import Delta, PartReceived, ReplyFinished, StreamEnded
from holdfast.core.messages import FinishReason, Opaque, ReplyKind, Usage


class ObjectFold:
    """Reads the objects of one reply; each reply needs a new fold.

    Args:
        quirks: how this provider's form of the wire differs from the vendor's.

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
        "_history_length",
        "_http",
        "_is_closed",
        "_quirks",
        "_reader",
        "_reply_id",
        "_usage_before",
        "continues_text",
        "turns",
        "wire",
    )

    def __init__(self, quirks: Quirks | None = None) -> None:
        self._quirks = quirks or Quirks()
        self._assembler: Assembler | None = None
        self._reader: SdkWire | None = None
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
        return self._read_object(_unwrap_chunk(convert_response(source)), whole=False)

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
        elif self._reader is not None and not self._is_closed:
            self._reader.close(out)
            if self._all_bare:
                out += (ReplyFinished(FinishReason.UNKNOWN), StreamEnded())
            self._feed_assembler(out)
        self._is_closed = True
        return out

    def finish(self) -> AssembledReply:
        """Return the reply so far, with its kind and error: that of the last turn, with the usage of all."""
        assembled = (self._assembler or Assembler(self._quirks)).finish()
        if not self.turns:
            return assembled
        usage = self._usage_before + assembled.reply.usage
        return replace(assembled, reply=replace(assembled.reply, usage=usage))

    def _read_http(self, source: HttpReply | bytes) -> list[Delta]:
        """Read the head of an HTTP response, or a piece of its body after it."""
        if isinstance(source, HttpReply):
            self._http = HttpBody(source, self._quirks)
            source = source.body
        out = [] if self._http is None else self._http.feed(source)
        self._feed_http(out)
        return out

    def _feed_http(self, deltas: list[Delta]) -> None:
        if self._http is not None and self._assembler is None and self._http.wire:
            self.wire = self._http.wire
            self._assembler = Assembler(self._quirks, self.wire)
        self._feed_assembler(deltas)

    def _read_object(self, source: object, *, whole: bool) -> list[Delta]:
        out: list[Delta] = []
        value = to_json_object(source)
        if value is None:
            return out
        sdk_calls = self._read_sdk_calls(value)
        reply_id = find_reply_id(value, self.wire)
        if sdk_calls or (reply_id and self._reply_id not in ("", reply_id)):
            self._end_turn(has_results=bool(sdk_calls))
        reader = self._reader or self._open_reader(source, value)
        self._reply_id = reply_id or self._reply_id or find_reply_id(value, self.wire)
        if reader is None:
            return out
        if self._all_bare:
            self._all_bare = not _is_sdk_model(source) and _is_bare_object(value)
        if whole:
            reader.read_whole(value, out)
        else:
            reader.read_chunk(value, out)
        self._feed_assembler(out)
        if self.wire == GEMINI:
            out += sdk_calls
        return out

    def _end_turn(self, *, has_results: bool) -> None:
        """Begin the next turn, if the SDK itself went on with the reply so far.

        It ran the calls of a finished reply, or continued one that paused. Anything else stays one
        reply, so that its reader can refuse two replies in one stream.
        """
        if self._reader is None or self._assembler is None:
            return
        reply = self._assembler.finish().reply
        has_paused = reply.kind is ReplyKind.PAUSED
        if not (has_results or has_paused or (reply.calls and reply.kind not in _UNFINISHED)):
            return
        ending: list[Delta] = []
        self._reader.close(ending)
        self._feed_assembler(ending)
        self._usage_before += self._assembler.finish().reply.usage
        self._reader, self._all_bare = None, True
        self.continues_text = has_paused
        self.turns += 1

    def _open_reader(self, source: object, value: Object) -> SdkWire | None:
        self.wire = detect_wire(value, {}) or detect_wire(value, declared_fields(source))
        if not self.wire:
            return None
        # The SDK's dump has the names of the wire; other objects may have Python's names.
        config = getattr(type(source), "model_config", None)
        renamed = isinstance(config, dict) and bool(config.get("alias_generator"))
        self._assembler = Assembler(self._quirks, self.wire)
        self._reader = make_wire(self.wire, has_wire_names=renamed)
        return self._reader

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
