"""The events of this wire as deltas, and a whole response as the items that it would have streamed.

The wire says most things three times: in pieces, at the end of an item, and in the response object
at the end. What was shown as it came stays as it is; the later sayings only add what is missing:
the end of a text whose beginning agrees, a text or an item that never came in pieces, and the
fields that must go back. Where a later saying contradicts what was shown, the shown one stands.

Items that the core has a type for become deltas; any other item, known today or not, is kept
verbatim from its end, where it is whole. This module must never raise on any JSON, and must count
what it passes over.
"""

from __future__ import annotations

from holdfast.codecs.json_text import json_text, kind_of
from holdfast.codecs.openai_chat.vocabulary import usage_of
from holdfast.codecs.openai_responses.errors import classify
from holdfast.codecs.openai_responses.items import (
    Item,
    ItemReader,
    Key,
    Track,
    kind_of_item,
    text_of,
)
from holdfast.codecs.openai_responses.vocabulary import COMPLETED, incomplete_reason, is_progress
from holdfast.codecs.wire import Failure
from holdfast.core.deltas import (
    Delta,
    Ended,
    ErrorSeen,
    Finished,
    NotAReply,
    ReplyStarted,
    UsageSeen,
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


class Pieces:
    """Reads the events of one response in order.

    Attributes:
        running: the texts under way, by item, section and part.
        ended: the end has come.
        passed_over: how often each unknown kind of event came.
    """

    __slots__ = (
        "_by_id", "_failed", "_last", "_provider", "_reader", "_recognised", "_seen", "_started", "_strange",
        "ended", "passed_over",
    )  # fmt: skip

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._reader = ItemReader()
        self._seen: dict[Key, Item] = {}
        self._by_id: dict[str, Key] = {}
        self._last: Key = 0
        self._started = False
        self._recognised = False
        self._strange = False
        self._failed = False
        self.ended = False
        self.passed_over: dict[str, int] = {}

    @property
    def running(self) -> dict[tuple[Key, str, int], Track]:
        """The texts under way, by item, section and part."""
        return self._reader.running

    def take(self, event: _Object, name: str, out: list[Delta]) -> None:
        """One event; `name` is that of the event stream, for events that do not say their type."""
        kind = text_of(event.get("type")) or name
        if self.ended:
            self._pass_over("after the end")
        elif (place := _TEXTS.get(kind)) is not None:
            self._recognised = True
            self._text(event, kind, place, out)
        else:
            self._other(event, kind, out)

    def take_whole(self, response: _Object, out: list[Delta]) -> None:
        """A whole body."""
        output = response.get("output")
        if response.get("error") and not output:
            self._fail(response, out)
        elif isinstance(output, list) or text_of(response.get("status")) in _UNFINISHED:
            self._start(response, out)
            self._finish(response, "", out, whole=True)
        elif "output" in response:
            out.append(NotAReply("output list", kind_of(output)))
        else:
            out.append(NotAReply("output attribute", "missing"))

    def cut(self, out: list[Delta]) -> None:
        """Nothing more comes: give what was collected."""
        if not self.ended:
            # A call is not closed: a cut one must not look as if it could be run.
            self._close_items(out, _CALLS)
        if self._strange and not self._recognised and not self._failed:
            out.append(NotAReply("response.created event", "missing"))

    def _other(self, event: _Object, kind: str, out: list[Delta]) -> None:
        response = event.get("response")
        item = event.get("item")
        match kind:
            case "response.output_item.added" if isinstance(item, dict):
                self._added(self._key(event, item, new=True), item, out)
            case "response.output_item.done" if isinstance(item, dict):
                self._done(self._key(event, item), item, out)
            case "response.created" | "response.in_progress" | "response.queued":
                if isinstance(response, dict):
                    self._start(response, out)
            case "response.failed" | "response.error" | "error":
                self._fail(event, out)
            case (
                "response.completed"
                | "response.incomplete"
                | "response.cancelled"
                | "response.done"
            ) if isinstance(response, dict):
                self._start(response, out)
                self._finish(response, kind, out)
            case "" if event.get("object") == "response" and not self._recognised:
                # Whole, in a stream of one event.
                self.take_whole(event, out)
            case _ if is_progress(kind):
                return
            case _ if event.get("error"):
                self._fail(event, out)
                return
            case _:
                self._strange = True
                self._pass_over(kind)
                return
        self._recognised = True

    def _start(self, response: _Object, out: list[Delta]) -> None:
        if not self._started:
            self._started = True
            out.append(ReplyStarted(text_of(response.get("id")), text_of(response.get("model"))))

    def _text(
        self, event: _Object, kind: str, place: tuple[str, str, str], out: list[Delta]
    ) -> None:
        section, number, field = place
        item = self._item(self._key(event, {}), section, out)
        part = event.get(number)
        text = event.get(field)
        if item is None or not isinstance(text, str):
            self._pass_over(kind)
            return
        at = part if isinstance(part, int) and not isinstance(part, bool) else 0
        if kind.endswith(".done"):
            self._reader.settle(item, section, at, text, out)
        else:
            self._reader.grow(item, section, at, text, out)

    def _item(self, key: Key, section: str, out: list[Delta]) -> Item | None:
        """The item of a piece; one that nobody announced is told by its pieces."""
        item = self._seen.get(key)
        if item is None and section in _KIND_OF:
            self._added(key, {"type": _KIND_OF[section]}, out)
            item = self._seen[key]
        return item if item is not None and item.kind == _KIND_OF[section] else None

    def _key(self, event: _Object, item: _Object, *, new: bool = False) -> Key:
        """By number where there is one: some servers give an item another id in each event."""
        index = event.get("output_index")
        if isinstance(index, int) and not isinstance(index, bool):
            self._last = index
        elif named := text_of(event.get("item_id")) or text_of(item.get("id")):
            self._last = self._by_id.get(named, named)
        elif new:
            self._last = f"#{len(self._seen)}"
        return self._last

    def _added(self, key: Key, fields: _Object, out: list[Delta]) -> None:
        item = self._seen[key] = self._reader.begin(key, fields, out)
        if item.id:
            self._by_id[item.id] = key

    def _done(self, key: Key, fields: _Object, out: list[Delta]) -> None:
        item = self._seen.get(key)
        if item is None or item.kind != kind_of_item(fields):
            self._added(key, fields, out)
            item = self._seen[key]
        self._reader.end(item, fields, out)

    def _close_items(self, out: list[Delta], left_open: frozenset[str] = frozenset()) -> None:
        for item in self._seen.values():
            if not item.ended and item.kind not in left_open:
                self._reader.end(item, item.fields, out)

    def _finish(
        self, response: _Object, kind: str, out: list[Delta], *, whole: bool = False
    ) -> None:
        output = response.get("output")
        self._match(output if isinstance(output, list) else [], out)
        self._close_items(out, _CALLS)
        if isinstance(usage := response.get("usage"), dict) and usage:
            out.append(UsageSeen(usage_of(usage)))
        status = text_of(response.get("status")) or kind.removeprefix("response.")
        if response.get("error") or status == "failed":
            self._fail(response, out)
        elif status in COMPLETED or not status:
            calls = not _CALLS.isdisjoint([item.kind for item in self._seen.values()])
            reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
            out.append(Finished(reason, status))
            # Behind the finish reason, which does not vouch for a call that was never completed.
            self._leave_calls(out)
            out.append(Ended(whole))
        elif status == "incomplete":
            details = response.get("incomplete_details")
            why = text_of(details.get("reason")) if isinstance(details, dict) else ""
            out += (Finished(incomplete_reason(why), why or status), Ended())
        elif status in _UNFINISHED:
            out.append(ErrorSeen(_unfinished(status)))
        self.ended = True
        # One body holds one response: a piece that follows must find no text to join.
        self.running.clear()

    def _leave_calls(self, out: list[Delta]) -> None:
        for item in self._seen.values():
            if not item.ended and item.kind in _CALLS:
                self._reader.leave(item, out)

    def _match(self, output: list[object], out: list[Delta]) -> None:
        """Finish each item by its last saying; one that never came before is taken whole."""
        items = [fields for fields in output if isinstance(fields, dict)]
        if len(items) < len(output):
            out.append(NotAReply("output item object", "another kind"))
        known = _same(self._seen, items) if self._seen else [None] * len(items)
        for at, (key, fields) in enumerate(zip(known, items, strict=True)):
            place = f"final {at}" if key is None else key
            if key is None:
                self._added(place, fields, out)
            self._reader.end(self._seen[place], fields, out)

    def _fail(self, event: _Object, out: list[Delta]) -> None:
        self._failed = True
        body = json_text(event).encode()
        out.append(ErrorSeen(classify(Failure(provider=self._provider, body=body))))

    def _pass_over(self, kind: str) -> None:
        # A hostile server can name as many kinds as it likes; a few are enough to see that.
        if kind in self.passed_over or len(self.passed_over) < 64:
            self.passed_over[kind[:80]] = self.passed_over.get(kind[:80], 0) + 1


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


def _same(seen: dict[Key, Item], items: list[_Object]) -> list[Key | None]:
    """For each last saying the item that was seen before, or None.

    The same id decides, else the same place, else the same type in order.
    """
    kinds = [kind_of_item(fields) for fields in items]
    by_id = {(item.kind, item.id): key for key, item in seen.items() if item.id}
    left = dict(seen)
    found: list[Key | None] = [None] * len(items)
    for at, fields in enumerate(items):
        key = by_id.get((kinds[at], text_of(fields.get("id"))))
        if key is not None and left.pop(key, None) is not None:
            found[at] = key
    for at, kind in enumerate(kinds):
        if found[at] is None and at in left and left[at].kind == kind:
            found[at] = at
            del left[at]
    of_kind: dict[str, list[Key]] = {}
    for key in reversed(left):
        of_kind.setdefault(left[key].kind, []).append(key)
    for at, kind in enumerate(kinds):
        if found[at] is None and of_kind.get(kind):
            found[at] = of_kind[kind].pop()
    return found


def _unfinished(status: str) -> ErrorInfo:
    if status == "cancelled":
        safe = "the response was cancelled at the provider"
        return ErrorInfo(category=ErrorCategory.CANCELLED, safe=safe, code="cancelled")
    safe = f"the response is not finished: its status is {status!r} (it runs in the background)"
    return ErrorInfo(category=ErrorCategory.CLIENT_ERROR, safe=safe, code=status)
