"""Turns the events of this wire into deltas; a whole response is read as if it had been streamed.

The wire sends most content three times: in pieces, at the end of an item, and in the final response
object. Text that was emitted stays. The later copies add only what is missing: the rest of a text
with the same beginning, a text or an item that never came in pieces, and the fields that must be
sent back. If a later copy contradicts the emitted text, the emitted text stays.

Items that the core has a type for become deltas; any other item is stored unchanged at its end,
when it is complete. This module never raises on any JSON, and counts the objects that it skips.
"""

from __future__ import annotations

from holdfast.codecs.json_text import json_kind, read_tier, string_or_empty
from holdfast.codecs.openai_chat.vocabulary import parse_usage
from holdfast.codecs.openai_responses.errors import classify
from holdfast.codecs.openai_responses.items import (
    Item,
    ItemReader,
    Key,
    Track,
    kind_of_item,
    message_text,
)
from holdfast.codecs.openai_responses.vocabulary import COMPLETED, incomplete_reason, is_progress
from holdfast.codecs.reply_reader import ReplyReader
from holdfast.core.deltas import (
    Delta,
    ErrorReceived,
    NotAReply,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    UsageReceived,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.messages import FinishReason

_Object = dict[str, object]

_TEXTS = {
    # event: section of the item, field that numbers the part, field with the text
    "response.output_text.delta": ("text", "content_index", "delta"),
    "response.output_text.done": ("text", "content_index", "text"),
    "response.refusal.delta": ("refusal", "content_index", "delta"),
    "response.refusal.done": ("refusal", "content_index", "refusal"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "delta"),
    "response.reasoning_summary_text.done": ("summary", "summary_index", "text"),
    "response.reasoning_text.delta": ("thought", "content_index", "delta"),
    "response.reasoning_text.done": ("thought", "content_index", "text"),
    "response.function_call_arguments.delta": ("arguments", "", "delta"),
    "response.function_call_arguments.done": ("arguments", "", "arguments"),
    "response.custom_tool_call_input.delta": ("input", "", "delta"),
    "response.custom_tool_call_input.done": ("input", "", "input"),
}


class ResponsesChunkReader(ReplyReader):
    """Reads the events of one response in order.

    Attributes:
        open_tracks: the open texts, by item, section and part.
        ended: the response has ended.
        unknown_counts: the number of events of each unknown type.
    """

    __slots__ = (
        "_by_id",
        "_items",
        "_last_key",
        "_reader",
        "_started",
        "ended",
    )  # fmt: skip

    def __init__(self, provider: str) -> None:
        super().__init__(classify, provider)
        self._reader = ItemReader()
        self._items: dict[Key, Item] = {}
        self._by_id: dict[str, Key] = {}
        self._last_key: Key = 0
        self._started = False
        self.ended = False

    @property
    def open_tracks(self) -> dict[tuple[Key, str, int], Track]:
        """The open texts, by item, section and part."""
        return self._reader.open_tracks

    def read_event(self, event: _Object, name: str, out: list[Delta]) -> None:
        """Read one event; `name` is its name in the event stream, used if it has no `type`."""
        kind = string_or_empty(event.get("type")) or name
        if self.ended:
            self._count_unknown("after the end")
        elif (text_field := _TEXTS.get(kind)) is not None:
            self._saw_known = True
            self._read_text(event, kind, text_field, out)
        else:
            self._read_other(event, kind, out)

    def read_whole(self, response: _Object, out: list[Delta]) -> None:
        """Read a whole body."""
        output = response.get("output")
        if response.get("error") and not output:
            self._report_error(response, out)
        elif isinstance(output, list) or string_or_empty(response.get("status")) in _UNFINISHED:
            self._read_start(response, out)
            self._finish_response(response, "", out, whole=True)
        elif "output" in response:
            out.append(NotAReply("output list", json_kind(output)))
        else:
            out.append(NotAReply("output attribute", "missing"))

    def close(self, out: list[Delta]) -> None:
        """End the reply, and add the collected deltas."""
        if not self.ended:
            # An open call stays incomplete, so that it cannot run.
            self._close_items(out, _CALLS)
        self._report_missing("response.created event", out)

    def _read_other(self, event: _Object, kind: str, out: list[Delta]) -> None:
        response = event.get("response")
        item = event.get("item")
        match kind:
            case "response.output_item.added" if isinstance(item, dict):
                self._add_item(self._item_key(event, item, new=True), item, out)
            case "response.output_item.done" if isinstance(item, dict):
                self._end_item(self._item_key(event, item), item, out)
            case "response.created" | "response.in_progress" | "response.queued":
                if isinstance(response, dict):
                    self._begin_response(response, kind, out)
            case "response.failed" | "response.error" | "error":
                self._report_error(event, out)
            case (
                "response.completed"
                | "response.incomplete"
                | "response.cancelled"
                | "response.done"
            ) if isinstance(response, dict):
                self._read_start(response, out)
                self._finish_response(response, kind, out)
            case "" if event.get("object") == "response" and not self._saw_known:
                # A whole response, in a stream of one event.
                self.read_whole(event, out)
            case _ if is_progress(kind):
                return
            case _ if event.get("error"):
                self._report_error(event, out)
                return
            case _:
                self._saw_unknown = True
                self._count_unknown(kind)
                return
        self._saw_known = True

    def _begin_response(self, response: _Object, kind: str, out: list[Delta]) -> None:
        if kind == "response.created" and self._items:
            self._report_second_reply(out)
            self._end_body()
        else:
            self._read_start(response, out)

    def _read_start(self, response: _Object, out: list[Delta]) -> None:
        if not self._started:
            self._started = True
            out.append(
                ReplyStarted(
                    string_or_empty(response.get("id")), string_or_empty(response.get("model"))
                )
            )

    def _read_text(
        self, event: _Object, kind: str, text_field: tuple[str, str, str], out: list[Delta]
    ) -> None:
        section, number, field = text_field
        key, item_id = self._item_key(event, {}), string_or_empty(event.get("item_id"))
        item = self._find_item(key, section, item_id, out)
        part = event.get(number)
        text = event.get(field)
        if item is None or not isinstance(text, str):
            self._count_unknown(kind)
            return
        at = part if isinstance(part, int) and not isinstance(part, bool) else 0
        if kind.endswith(".done"):
            self._reader.complete_text(item, section, at, text, out)
        else:
            self._reader.add_text(item, section, at, text, out)

    def _find_item(self, key: Key, section: str, item_id: str, out: list[Delta]) -> Item | None:
        """Return the item of a piece; if it was not announced, the section names its type."""
        kind = _KIND_OF[section]
        item = self._items.get(key)
        if item is None or item.kind != kind:
            item = self._find_named(kind, item_id) or item
        if item is None:
            self._begin_item(key, {"type": kind}, out)
            item = self._items[key]
        return item if item.kind == kind else None

    def _find_named(self, kind: str, *names: str) -> Item | None:
        """Return the open item of this type with one of these ids, whatever number it has."""
        for name in names:
            item = self._items.get(self._by_id.get(name, ""))
            if item is not None and item.kind == kind and not item.ended:
                return item
        return None

    def _item_key(self, event: _Object, item: _Object, *, new: bool = False) -> Key:
        """Return the index of the item if there is one: some servers change an item's id in each event."""
        index = event.get("output_index")
        if isinstance(index, int) and not isinstance(index, bool):
            self._last_key = index
        elif named := string_or_empty(event.get("item_id")) or string_or_empty(item.get("id")):
            self._last_key = self._by_id.get(named, named)
        elif new:
            self._last_key = f"#{len(self._items)}"
        return self._last_key

    def _add_item(self, key: Key, fields: _Object, out: list[Delta]) -> None:
        """Begin an item, unless it was begun by an equal event or by one of its pieces."""
        item = self._items.get(key)
        if item is None or item.ended or item.kind != kind_of_item(fields):
            self._begin_item(key, fields, out)
        else:
            item.fields = fields
            self._note_names(key, fields)

    def _begin_item(self, key: Key, fields: _Object, out: list[Delta]) -> None:
        self._items[key] = self._reader.begin_item(key, fields, out)
        self._note_names(key, fields)

    def _note_names(self, key: Key, fields: _Object) -> None:
        for field in ("id", "call_id"):
            if name := string_or_empty(fields.get(field)):
                self._by_id[name] = key

    def _end_item(self, key: Key, fields: _Object, out: list[Delta]) -> None:
        kind = kind_of_item(fields)
        item = self._items.get(key)
        if item is None or item.kind != kind:
            names = string_or_empty(fields.get("id")), string_or_empty(fields.get("call_id"))
            item = self._find_named(kind, *names)
        if item is None:
            self._begin_item(key, fields, out)
            item = self._items[key]
        self._reader.end_item(item, fields, out)

    def _close_items(self, out: list[Delta], left_open: frozenset[str] = frozenset()) -> None:
        for item in self._items.values():
            if not item.ended and item.kind not in left_open:
                self._reader.end_item(item, item.fields, out)

    def _finish_response(
        self, response: _Object, kind: str, out: list[Delta], *, whole: bool = False
    ) -> None:
        output = response.get("output")
        self._match_output(output if isinstance(output, list) else [], out)
        is_cut = not (whole or self._is_finished(response))
        self._close_items(out, _CALLS)
        if isinstance(usage := response.get("usage"), dict) and usage:
            tier = read_tier(response.get("service_tier"))
            out.append(UsageReceived(parse_usage(usage), tier))
        status = string_or_empty(response.get("status")) or kind.removeprefix("response.")
        if response.get("error") or status == "failed":
            self._report_error(response, out)
        elif status in COMPLETED or not status:
            calls = not _CALLS.isdisjoint([item.kind for item in self._items.values()])
            reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
            self._leave_calls(out, whole_ones=True)
            if not is_cut:
                out.append(ReplyFinished(reason, status))
            # They come after the finish reason, which is then invalid: an incomplete call is not proved.
            self._leave_calls(out)
            out.append(StreamEnded(whole))
        elif status == "incomplete":
            details = response.get("incomplete_details")
            why = string_or_empty(details.get("reason")) if isinstance(details, dict) else ""
            out += (ReplyFinished(incomplete_reason(why), why or status), StreamEnded())
        elif status in _UNFINISHED:
            out.append(ErrorReceived(_unfinished_info(status)))
        self._end_body()

    def _end_body(self) -> None:
        """One body holds one response: a later piece must not be added to a text."""
        self.ended = True
        self.open_tracks.clear()

    def _is_finished(self, response: _Object) -> bool:
        """Whether the response has a status, or lists the items that came.

        The last event by its name alone is what a gateway sends after a failure.
        """
        if string_or_empty(response.get("status")) or not self._items:
            return True
        are_listed = all(item.ended for item in self._items.values())
        return are_listed and bool(response.get("output"))

    def _leave_calls(self, out: list[Delta], *, whole_ones: bool = False) -> None:
        for item in self._items.values():
            if not item.ended and item.kind in _CALLS and (item.has_arguments or not whole_ones):
                self._reader.leave(item, out)

    def _match_output(self, output: list[object], out: list[Delta]) -> None:
        """End each item by its final form; an item that never came before is read whole."""
        items = [fields for fields in output if isinstance(fields, dict)]
        if len(items) < len(output):
            out.append(NotAReply("output item object", "another kind"))
        if self._have_ended(items):
            return
        emitted = "".join([item.text for item in self._items.values()])
        # Some servers split the final text into other items than the pieces.
        self._reader.has_all_text = bool(emitted) and emitted == message_text(items)
        keys = _match_items(self._items, items) if self._items else [None] * len(items)
        for at, (known_key, fields) in enumerate(zip(keys, items, strict=True)):
            key = f"final {at}" if known_key is None else known_key
            if known_key is None:
                self._begin_item(key, fields, out)
            self._reader.end_item(self._items[key], fields, out)

    def _have_ended(self, items: list[_Object]) -> bool:
        """Whether these are exactly the items that came, and all of them have ended already."""
        ended = {(item.kind, item.id) for item in self._items.values() if item.ended and item.id}
        named = {(kind_of_item(fields), string_or_empty(fields.get("id"))) for fields in items}
        return len(ended) == len(self._items) == len(items) and named == ended


_CALLS = frozenset({"function_call", "custom_tool_call"})
_UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})
_KIND_OF = {
    "text": "message",
    "refusal": "message",
    "summary": "reasoning",
    "thought": "reasoning",
    "arguments": "function_call",
    "input": "custom_tool_call",
}


def _match_items(streamed: dict[Key, Item], items: list[_Object]) -> list[Key | None]:
    """Return for each final item the key of the streamed item, or None.

    Items match by id, then by position, then by type in order.
    """
    kinds = [kind_of_item(fields) for fields in items]
    by_id = {(item.kind, item.id): key for key, item in streamed.items() if item.id}
    unmatched = dict(streamed)
    keys: list[Key | None] = [None] * len(items)
    for at, fields in enumerate(items):
        key = by_id.get((kinds[at], string_or_empty(fields.get("id"))))
        if key is not None and unmatched.pop(key, None) is not None:
            keys[at] = key
    for at, kind in enumerate(kinds):
        if keys[at] is None and at in unmatched and unmatched[at].kind == kind:
            keys[at] = at
            del unmatched[at]
    of_kind: dict[str, list[Key]] = {}
    for key in reversed(unmatched):
        of_kind.setdefault(unmatched[key].kind, []).append(key)
    for at, kind in enumerate(kinds):
        if keys[at] is None and of_kind.get(kind):
            keys[at] = of_kind[kind].pop()
    return keys


def _unfinished_info(status: str) -> ErrorInfo:
    if status == "cancelled":
        safe = "the provider cancelled the response"
        return ErrorInfo(category=ErrorCategory.CANCELLED, safe=safe, code="cancelled")
    safe = f"the response is not finished: its status is {status!r} (it runs in the background)"
    return ErrorInfo(category=ErrorCategory.CLIENT_ERROR, safe=safe, code=status)
