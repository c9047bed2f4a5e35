"""The events of this wire as deltas, and a whole message as the events that it would have been.

Blocks that the core has a type for become deltas as they come. Any other block, known today or
not, is put together from its pieces and kept verbatim, since the server wants it back. This module
must never raise on any JSON, and must count what it passes over.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from holdfast.codecs.anthropic.errors import classify
from holdfast.codecs.anthropic.history import WIRE
from holdfast.codecs.anthropic.vocabulary import finish_reason, usage_of
from holdfast.codecs.call_arguments import arguments_text
from holdfast.codecs.json_text import UNREADABLE, json_text, kind_of, read_json
from holdfast.codecs.wire import Failure
from holdfast.core.deltas import (
    Delta,
    Ended,
    ErrorSeen,
    Finished,
    NotAReply,
    PartSeen,
    ReasoningDelta,
    RefusalDelta,
    ReplyStarted,
    TextDelta,
    ToolCallDelta,
    UsageSeen,
)
from holdfast.core.messages import Opaque, Reasoning, Text

_Object: TypeAlias = dict[str, object]

_READ = {
    "text": frozenset({"type", "text"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "tool_use": frozenset({"type", "id", "name", "input"}),
}
_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}


class _Block(Struct):
    """One content block under way: its fields, and the pieces of text that go to their ends."""

    kind: str
    fields: _Object
    pieces: dict[str, list[str]]


class Pieces:
    """Reads the events of one reply in order.

    Attributes:
        plain: the kind of each open block that the core has a type for, by index.
        ended: the end marker has come.
        passed_over: how often each unknown event or delta type came.
    """

    __slots__ = (
        "_blocks", "_container", "_failed", "_filled", "_last", "_provider", "_recognised", "_strange", "_usage",
        "ended", "passed_over", "plain",
    )  # fmt: skip

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: dict[int, _Block] = {}
        self._filled: set[int] = set()
        self._last = -1
        self._usage: _Object = {}
        self._container: object = None
        self._recognised = False
        self._strange = False
        self._failed = False
        self.plain: dict[int, str] = {}
        self.ended = False
        self.passed_over: dict[str, int] = {}

    def fill(self, index: int) -> None:
        """A piece of the arguments of the call at `index` has come."""
        self._filled.add(index)

    def take(self, event: _Object, name: str, out: list[Delta]) -> None:
        """One event; `name` is that of the event stream, for events that do not say their type."""
        kind = event.get("type")
        kind = kind if isinstance(kind, str) else name
        if self.ended:
            # One response holds one message: what follows it is somebody else's.
            self._pass_over("after the end")
            return
        match kind:
            case "content_block_delta":
                self._delta(self._index(event), _object(event.get("delta")), out)
            case "content_block_start":
                self._start(self._index(event, new=True), _object(event.get("content_block")), out)
            case "content_block_stop":
                self._stop(self._index(event), out)
            case "message_start":
                self._open(_object(event.get("message")), out)
            case "message_delta":
                self._close(_object(event.get("delta")), out)
                self._count(event.get("usage"), out)
            case "message_stop":
                self._end(out)
            case "error":
                self._fail(event, out)
            case "ping":
                return
            case _:
                self._other(event, kind, out)
                return
        self._recognised = True

    def take_whole(self, message: _Object, out: list[Delta]) -> None:
        """A whole body, as the events of its stream."""
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
            message = {**message, "content": content}
        if message.get("type") == "error" or ("error" in message and content is None):
            self._fail(message, out)
        elif isinstance(content, list):
            self._open(message, out)
            self._close(message, out)
            self._end(out, whole=True)
        elif "content" in message:
            out.append(NotAReply("content list", kind_of(content)))
        else:
            out.append(NotAReply("content attribute", "missing"))

    def cut(self, out: list[Delta]) -> None:
        """Nothing more comes: give what was collected."""
        self._stop_all(out)
        if self._strange and not self._recognised and not self._failed:
            out.append(NotAReply("message_start event", "missing"))

    def _index(self, event: _Object, *, new: bool = False) -> int:
        index = event.get("index")
        if isinstance(index, int) and not isinstance(index, bool):
            return index
        return self._last + 1 if new else self._last

    def _open(self, message: _Object, out: list[Delta]) -> None:
        out.append(ReplyStarted(_text(message.get("id")), _text(message.get("model"))))
        self._container = message.get("container")
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._start(index, block, out)
                self._stop(index, out)
            else:
                out.append(NotAReply("content block object", kind_of(block)))
        self._count(message.get("usage"), out)

    def _close(self, ending: _Object, out: list[Delta]) -> None:
        details = ending.get("stop_details")
        if isinstance(details, dict) and (told := _text(details.get("explanation"))):
            out.append(RefusalDelta(told))
        if reason := _text(ending.get("stop_reason")):
            self._stop_all(out)
            container = ending.get("container") or self._container
            if isinstance(container, dict):
                # It is no block: `encode` names it when the server's code waits for a result.
                out.append(PartSeen(Opaque(WIRE, {"container": container}), note=True))
            out.append(Finished(finish_reason(reason), reason))

    def _end(self, out: list[Delta], *, whole: bool = False) -> None:
        self._stop_all(out)
        self.ended = True
        out.append(Ended(whole))

    def _count(self, usage: object, out: list[Delta]) -> None:
        """Totals so far: a later number replaces an earlier one, and none leaves it."""
        if isinstance(usage, dict) and usage:
            self._usage.update((name, value) for name, value in usage.items() if value is not None)
            out.append(UsageSeen(usage_of(self._usage)))

    def _start(self, index: int, block: _Object, out: list[Delta]) -> None:
        if index in self._blocks:
            self._stop(index, out)
        self._last = index
        kind = _text(block.get("type"))
        read = _READ.get(kind)
        if read is None:
            self._blocks[index] = _Block(kind, dict(block), {})
            if kind == "fallback":
                to = _object(block.get("to"))
                out.append(ReplyStarted(model=_text(to.get("model"))))
            return
        beside = {key: value for key, value in block.items() if key not in read}
        self._blocks[index] = _Block(kind, beside, {})
        self.plain[index] = kind
        if kind == "text":
            out.append(TextDelta(_text(block.get("text")), index))
        elif kind == "thinking":
            signature = _text(block.get("signature")) or None
            out.append(
                ReasoningDelta(_text(block.get("thinking")), index, signature, beside or None)
            )
        else:
            call_id, name = _text(block.get("id")), _text(block.get("name"))
            out.append(ToolCallDelta(index, call_id, name, extra=beside or None))
            self._blocks[index].fields = {"input": block.get("input")}

    def _delta(self, index: int, delta: _Object, out: list[Delta]) -> None:
        kind = _text(delta.get("type"))
        if index not in self._blocks and kind in _GROWS:
            # Nobody said what this block is; its pieces do.
            self._start(index, {"type": _GROWS[kind]}, out)
        block = self._blocks.get(index)
        if block is None:
            self._pass_over(kind)
        elif index in self.plain:
            self._plain_delta(index, block, delta, out)
        else:
            self._grow(block, kind, delta)

    def _plain_delta(self, index: int, block: _Block, delta: _Object, out: list[Delta]) -> None:
        kind = _text(delta.get("type"))
        match (block.kind, kind):
            case ("text", "text_delta"):
                out.append(TextDelta(_text(delta.get("text")), index))
            case ("text", "citations_delta"):
                self._grow(block, kind, delta)
            case ("thinking", "thinking_delta"):
                out.append(ReasoningDelta(_text(delta.get("thinking")), index))
            case ("thinking", "signature_delta"):
                out.append(ReasoningDelta("", index, _text(delta.get("signature")) or None))
            case ("tool_use", "input_json_delta"):
                if piece := _text(delta.get("partial_json")):
                    self._filled.add(index)
                    out.append(ToolCallDelta(index, arguments=piece))
            case _:
                self._pass_over(kind)

    def _grow(self, block: _Block, kind: str, delta: _Object) -> None:
        """Any piece of a block that is kept verbatim: text is appended, lists grow, the rest is set."""
        for key, piece in delta.items():
            if key == "type" or piece is None:
                continue
            name, value = _FIELD_OF.get(key, key), piece
            held = block.fields.get(name)
            if key == "citation":
                value = [value]
            if isinstance(value, list) and isinstance(held, list):
                held.extend(value)
            elif isinstance(value, str) and (name == "input" or isinstance(held, str | None)):
                start = [held] if isinstance(held, str) else []
                block.pieces.setdefault(name, start).append(value)
            else:
                block.fields[name] = value
        if kind not in _KNOWN_DELTAS:
            self._pass_over(kind)

    def _stop_all(self, out: list[Delta]) -> None:
        for index in list(self._blocks):
            self._stop(index, out, complete=False)

    def _stop(self, index: int, out: list[Delta], *, complete: bool = True) -> None:
        """End a block; `complete` means that the server ended it, so that no argument is missing."""
        block = self._blocks.pop(index, None)
        if block is None:
            return
        fields = block.fields
        for name, pieces in block.pieces.items():
            fields[name] = _joined(name, pieces, fields.get(name))
        kind = self.plain.pop(index, "")
        if not kind:
            part = Reasoning(wire=WIRE, extra=fields) if block.kind in _HIDDEN else None
            out.append(PartSeen(part or Opaque(WIRE, fields), index))
        elif kind == "text":
            if beside := {name: value for name, value in fields.items() if value}:
                # It joins the text that was shown as it came.
                out.append(PartSeen(Text("", {"wire": WIRE, **beside}), index))
        elif kind == "tool_use" and index not in self._filled:
            given = fields.get("input")
            written = given if isinstance(given, str) else arguments_text(given)
            if given or complete:
                out.append(ToolCallDelta(index, arguments="{}" if given is None else written))
        self._filled.discard(index)

    def _fail(self, event: _Object, out: list[Delta]) -> None:
        self._failed = True
        body = json_text(event).encode()
        out.append(ErrorSeen(classify(Failure(provider=self._provider, body=body))))

    def _other(self, event: _Object, kind: str, out: list[Delta]) -> None:
        if event.get("error"):
            self._fail(event, out)
        elif kind == "message" and "content" in event and not self._recognised:
            # Whole, in a stream of one event.
            self._recognised = True
            self.take_whole(event, out)
        else:
            self._strange = True
            self._pass_over(kind)

    def _pass_over(self, kind: str) -> None:
        # A hostile server can name as many kinds as it likes; a few are enough to see that.
        if kind in self.passed_over or len(self.passed_over) < 64:
            self.passed_over[kind[:80]] = self.passed_over.get(kind[:80], 0) + 1


_FIELD_OF = {"partial_json": "input", "citation": "citations"}
_HIDDEN = frozenset({"redacted_thinking"})
_KNOWN_DELTAS = frozenset({*_GROWS, "citations_delta", "signature_delta", "compaction_delta"})


def _joined(name: str, pieces: list[str], before: object) -> object:
    text = "".join(pieces)
    if name != "input":
        return text
    if not text.strip():
        return before if before is not None else {}
    value = read_json(text.encode("utf-8", "replace"))
    return text if value is UNREADABLE else value


def _object(value: object) -> _Object:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
