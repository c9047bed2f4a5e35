"""Turns the events of this wire into deltas; a whole message is read as if it had been streamed.

Blocks that the core has a type for become deltas as they arrive. Any other block is assembled from
its pieces and stored unchanged, because the server expects it back. This module never raises on any
JSON, and counts the objects that it skips.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from holdfast.codecs.anthropic.errors import classify
from holdfast.codecs.anthropic.history import WIRE
from holdfast.codecs.anthropic.hosted import read_block
from holdfast.codecs.anthropic.vocabulary import finish_reason, parse_usage
from holdfast.codecs.call_arguments import arguments_text
from holdfast.codecs.json_text import (
    UNREADABLE,
    json_kind,
    read_json,
    read_tier,
    string_or_empty,
)
from holdfast.codecs.reply_reader import ReplyReader
from holdfast.core.deltas import (
    Delta,
    NotAReply,
    PartReceived,
    ReasoningDelta,
    RefusalDelta,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
    UsageReceived,
)
from holdfast.core.messages import FinishReason, Opaque, Reasoning, Text

_Object: TypeAlias = dict[str, object]

_READ = {
    "text": frozenset({"type", "text"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "tool_use": frozenset({"type", "id", "name", "input"}),
}
_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}


class _Block(Struct):
    """An open content block: its fields, and the pieces of text that are appended to them at its end."""

    kind: str
    fields: _Object
    pieces: dict[str, list[str]]


class AnthropicChunkReader(ReplyReader):
    """Reads the events of one reply in order.

    Attributes:
        plain_kinds: the kinds of the open blocks that the core has a type for, by index.
        ended: the end marker came.
        unknown_counts: the number of events and deltas of each unknown type.
    """

    __slots__ = (
        "_blocks",
        "_container",
        "_ends_quietly",
        "_filled_calls",
        "_hosted_names",
        "_last_index",
        "_usage",
        "_whole_message",
        "ended",
        "plain_kinds",
    )  # fmt: skip

    def __init__(self, provider: str) -> None:
        super().__init__(classify, provider)
        self._blocks: dict[int, _Block] = {}
        self._filled_calls: set[int] = set()
        self._hosted_names: dict[str, str] = {}
        self._last_index = -1
        self._usage: _Object = {}
        self._container: object = None
        # The last event of the message had an empty stop reason, as some servers send it.
        self._ends_quietly = False
        # The first event, if it had all content of the message, and the reason for its end.
        self._whole_message: _Object | None = None
        self.plain_kinds: dict[int, str] = {}
        self.ended = False

    def note_arguments(self, index: int) -> None:
        """Record that the call at `index` has arguments."""
        self._filled_calls.add(index)

    def read_event(self, event: _Object, name: str, out: list[Delta]) -> None:
        """Read one event; `name` is its name in the event stream, used if it has no `type`."""
        kind = event.get("type")
        kind = kind if isinstance(kind, str) else name
        if self.ended:
            # One response holds one message, so anything after it is ignored.
            self._count_unknown("after the end")
            return
        match kind:
            case "content_block_delta":
                self._read_delta(self._block_index(event), _dict_or_empty(event.get("delta")), out)
            case "content_block_start":
                self._start_block(
                    self._block_index(event, new=True),
                    _dict_or_empty(event.get("content_block")),
                    out,
                )
            case "content_block_stop":
                self._stop_block(self._block_index(event), out)
            case "message_start":
                message = _dict_or_empty(event.get("message"))
                self._open_message(message, out)
                # A call of the server's own code comes as a whole message in its first event.
                self._whole_message = message if message.get("content") else None
            case "message_delta":
                ending = _dict_or_empty(event.get("delta"))
                self._whole_message = None
                self._ends_quietly = not self._blocks and ending.get("stop_reason", 0) in ("", None)
                self._close_message(ending, out)
                self._add_usage(event.get("usage"), out)
            case "message_stop":
                self._end_message(out)
            case "error":
                self._report_error(event, out)
            case "ping":
                return
            case _:
                self._read_other(event, kind, out)
                return
        self._saw_known = True

    def read_whole(self, message: _Object, out: list[Delta]) -> None:
        """Read a whole body as if it had been streamed."""
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
            message = {**message, "content": content}
        if message.get("type") == "error" or ("error" in message and content is None):
            self._report_error(message, out)
        elif isinstance(content, list):
            self._open_message(message, out)
            self._close_message(message, out)
            self._end_message(out, whole=True)
        elif "content" in message:
            out.append(NotAReply("content list", json_kind(content)))
        else:
            out.append(NotAReply("content attribute", "missing"))

    def close(self, out: list[Delta]) -> None:
        """End the reply, and add the collected deltas."""
        self._stop_all_blocks(out)
        self._report_missing("message_start event", out)

    def _block_index(self, event: _Object, *, new: bool = False) -> int:
        index = event.get("index")
        if isinstance(index, int) and not isinstance(index, bool):
            return index
        return self._last_index + 1 if new else self._last_index

    def _open_message(self, message: _Object, out: list[Delta]) -> None:
        if self._last_index >= 0:
            self._report_second_reply(out)
            self.ended = True
            return
        out.append(
            ReplyStarted(string_or_empty(message.get("id")), string_or_empty(message.get("model")))
        )
        self._container = message.get("container")
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._start_block(index, block, out)
                self._stop_block(index, out)
            else:
                out.append(NotAReply("content block object", json_kind(block)))
        self._add_usage(message.get("usage"), out)

    def _close_message(self, ending: _Object, out: list[Delta]) -> None:
        details = ending.get("stop_details")
        if isinstance(details, dict):
            explanation = string_or_empty(details.get("explanation"))
            if explanation:
                out.append(RefusalDelta(explanation))
        if reason := string_or_empty(ending.get("stop_reason")):
            self._stop_all_blocks(out)
            container = ending.get("container") or self._container
            if isinstance(container, dict):
                # `encode` names the container in the next request while the server's code waits for a result.
                out.append(PartReceived(Opaque(WIRE, {"container": container}), note=True))
            out.append(ReplyFinished(finish_reason(reason), reason))

    def _end_message(self, out: list[Delta], *, whole: bool = False) -> None:
        if self._whole_message is not None:
            self._close_message(self._whole_message, out)
        self._stop_all_blocks(out)
        self.ended = True
        if self._ends_quietly:
            out.append(ReplyFinished(FinishReason.UNKNOWN, ""))
        out.append(StreamEnded(whole))

    def _add_usage(self, usage: object, out: list[Delta]) -> None:
        """Update the totals. A later number replaces an earlier one; null leaves it unchanged."""
        if isinstance(usage, dict) and usage:
            self._usage.update((name, value) for name, value in usage.items() if value is not None)
            tier = read_tier(self._usage.get("service_tier"), self._usage.get("speed"))
            out.append(UsageReceived(parse_usage(self._usage), tier))

    def _start_block(self, index: int, block: _Object, out: list[Delta]) -> None:
        if index in self._blocks:
            self._stop_block(index, out)
        self._last_index = index
        self._ends_quietly = False
        self._whole_message = None
        kind = string_or_empty(block.get("type"))
        own_fields = _READ.get(kind)
        if own_fields is None:
            self._blocks[index] = _Block(kind, dict(block), {})
            if kind == "fallback":
                to = _dict_or_empty(block.get("to"))
                out.append(ReplyStarted(model=string_or_empty(to.get("model"))))
            return
        other_fields = {key: value for key, value in block.items() if key not in own_fields}
        self._blocks[index] = _Block(kind, other_fields, {})
        self.plain_kinds[index] = kind
        if kind == "text":
            _emit_text(block, index, out)
        elif kind == "thinking":
            _emit_reasoning(block, index, other_fields, out)
        else:
            call_id, name = string_or_empty(block.get("id")), string_or_empty(block.get("name"))
            out.append(ToolCallDelta(index, call_id, name, extra=other_fields or None))
            self._blocks[index].fields = {"input": block.get("input")}

    def _read_delta(self, index: int, delta: _Object, out: list[Delta]) -> None:
        kind = string_or_empty(delta.get("type"))
        if index not in self._blocks and kind in _GROWS:
            # The start event is missing; the type of the delta implies the type of the block.
            self._start_block(index, {"type": _GROWS[kind]}, out)
        block = self._blocks.get(index)
        if block is None:
            self._count_unknown(kind)
        elif index in self.plain_kinds:
            self._read_plain_delta(index, block, delta, out)
        else:
            self._extend_block(block, kind, delta)

    def _read_plain_delta(
        self, index: int, block: _Block, delta: _Object, out: list[Delta]
    ) -> None:
        kind = string_or_empty(delta.get("type"))
        match (block.kind, kind):
            case ("text", "text_delta"):
                _emit_text(delta, index, out)
            case ("text", "citations_delta"):
                self._extend_block(block, kind, delta)
            case ("thinking", "thinking_delta" | "signature_delta"):
                _emit_reasoning(delta, index, {}, out)
            case ("tool_use", "input_json_delta"):
                if piece := string_or_empty(delta.get("partial_json")):
                    self._filled_calls.add(index)
                    out.append(ToolCallDelta(index, arguments=piece))
            case _:
                self._count_unknown(kind)

    def _extend_block(self, block: _Block, kind: str, delta: _Object) -> None:
        """Add a piece to a block that is stored unchanged: texts and lists grow, other values are replaced."""
        for key, piece in delta.items():
            if key == "type" or piece is None:
                continue
            name, value = _FIELD_OF.get(key, key), piece
            current = block.fields.get(name)
            if key == "citation":
                value = [value]
            if isinstance(value, list) and isinstance(current, list):
                current.extend(value)
            elif isinstance(value, str) and (name == "input" or isinstance(current, str | None)):
                start = [current] if isinstance(current, str) else []
                block.pieces.setdefault(name, start).append(value)
            else:
                block.fields[name] = value
        if kind not in _KNOWN_DELTAS:
            self._count_unknown(kind)

    def _stop_all_blocks(self, out: list[Delta]) -> None:
        for index in list(self._blocks):
            self._stop_block(index, out, complete=False)

    def _stop_block(self, index: int, out: list[Delta], *, complete: bool = True) -> None:
        """End a block; `complete` means that the server ended it, so no arguments are missing."""
        block = self._blocks.pop(index, None)
        if block is None:
            return
        fields = block.fields
        for name, pieces in block.pieces.items():
            fields[name] = _join_pieces(name, pieces, fields.get(name))
        kind = self.plain_kinds.pop(index, "")
        if not kind:
            part = Reasoning(wire=WIRE, extra=fields) if block.kind in _HIDDEN else None
            out += [
                *read_block(fields, self._hosted_names),
                PartReceived(part or Opaque(WIRE, fields), index),
            ]
        elif kind == "text":
            if extra := {name: value for name, value in fields.items() if value}:
                # The fields are added to the text with the same index.
                out.append(PartReceived(Text("", {"wire": WIRE, **extra}), index))
        elif kind == "tool_use" and index not in self._filled_calls:
            value = fields.get("input")
            text = value if isinstance(value, str) else arguments_text(value)
            if value or complete:
                out.append(ToolCallDelta(index, arguments="{}" if value is None else text))
        self._filled_calls.discard(index)

    def _read_other(self, event: _Object, kind: str, out: list[Delta]) -> None:
        if event.get("error"):
            self._report_error(event, out)
        elif kind == "message" and "content" in event and not self._saw_known:
            # A whole message, in a stream of one event.
            self._saw_known = True
            self.read_whole(event, out)
        else:
            self._saw_unknown = True
            self._count_unknown(kind)


_FIELD_OF = {"partial_json": "input", "citation": "citations"}
_HIDDEN = frozenset({"redacted_thinking"})
_KNOWN_DELTAS = frozenset({*_GROWS, "citations_delta", "signature_delta", "compaction_delta"})


def _join_pieces(name: str, pieces: list[str], before: object) -> object:
    text = "".join(pieces)
    if name != "input":
        return text
    if not text.strip():
        return before if before is not None else {}
    value = read_json(text.encode("utf-8", "replace"))
    return text if value is UNREADABLE else value


def _emit_text(holder: _Object, index: int, out: list[Delta]) -> None:
    """Add the text of a block or a delta, if it has any."""
    text = string_or_empty(holder.get("text"))
    if text:
        out.append(TextDelta(text, index))


def _emit_reasoning(holder: _Object, index: int, extra: _Object, out: list[Delta]) -> None:
    """Add the reasoning and the signature of a block or a delta, if it has any of them."""
    text = string_or_empty(holder.get("thinking"))
    signature = string_or_empty(holder.get("signature"))
    if text or signature or extra:
        out.append(ReasoningDelta(text, index, signature or None, extra or None))


def _dict_or_empty(value: object) -> _Object:
    return value if isinstance(value, dict) else {}
