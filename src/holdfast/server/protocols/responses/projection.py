"""Turns a segment of a turn into events of Responses, with sequence numbers that the journal repeats.

A sequence number has a step: an event takes one step, and text one for each character. The bits below are a
digest of the message so far (`event_log.positions.number_step`). So numbers grow, a reader may come back with any
of them to any process, and a reader whose text does not count any more learns so. A number below those of the
first text may be any: the events after it are sent. Every stream ends with an event that says so: one that
ends before the response does, with an `error`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from holdfast.event_log.positions import TextDigest, number_step, read_step
from holdfast.server.protocols.openai_shapes import (
    DELETED,
    SegmentName,
    describe_cut,
    describe_withdrawal,
)
from holdfast.server.protocols.responses.response_object import (
    Json,
    ResponseHead,
    ResponseStatus,
    describe_end,
    make_annotations,
    make_hosted_item,
    make_message,
    make_question_item,
    make_text_part,
)
from holdfast.server.protocols.segments import (
    HostedCallEnded,
    SegmentBegun,
    SegmentCut,
    SegmentEnded,
    SegmentEvent,
    SegmentTextEnded,
    SegmentTextWithdrawn,
    TextAdded,
)

_STEPS_BEFORE_TEXT = 4
"""The fewest events before the first text. No number of a text is among theirs, so there nothing was withdrawn."""

_DIGITS, _DIGIT_BITS = 5, 20  # of a digest
_CHANGED = "The text after which this stream was to go on is not the text of the response."


class ResponseProjection:
    """Makes the events of one response.

    Args:
        name: the segment.
        after: make only the events after this sequence number; None makes all of them.
    """

    __slots__ = (
        "_after",
        "_digest",
        "_head",
        "_key",
        "_name",
        "_sent",
        "_step",
        "_text",
        "is_cut",
        "is_over",
        "output",
        "response",
    )

    def __init__(self, name: SegmentName, after: int | None = None) -> None:
        self._name = name
        self._after = self._sent = -1 if after is None else after
        self._head: ResponseHead | None = None
        self._step = -1  # of the last event
        self._key = ""  # of the message in progress
        self._text: list[str] = []
        self._digest = TextDigest()
        self.output: list[Json] = []
        """The items that are complete."""
        self.response: Json | None = None
        """The response as it stands; None before it has begun."""
        self.is_over = False
        """Whether the last event was made."""
        self.is_cut = False
        """Whether that says that the stream ends, and the response goes on."""

    def feed(self, event: SegmentEvent) -> Iterator[Json]:
        """Yield the events of the protocol for an event of the segment."""
        if self.is_over:
            return
        if isinstance(event, SegmentBegun):
            self._head = ResponseHead(self._name, event)
            self.response = self._head.build("in_progress", [])
            yield from self._add("response.created", response=self.response)
            yield from self._add("response.in_progress", response=self.response)
        elif isinstance(event, TextAdded):
            if self._key != event.key:
                yield from self._begin_message(event.key)
            yield from self._add_text(event.text)
        elif isinstance(event, SegmentTextEnded):
            yield from self._end_message(make_annotations(event.citations))
        elif isinstance(event, HostedCallEnded):
            yield from self._add_hosted_call(event)
        elif isinstance(event, SegmentTextWithdrawn | SegmentCut):
            yield from self._end_early(event)
        elif isinstance(event, SegmentEnded):
            yield from self._end(event)

    def make_error(self, code: str, message: str) -> Json:
        """Return the event of a stream that ends here, though the response does not.

        It repeats the number of the last event, so that the reader can go on after it.
        """
        names: Json = {"code": code, "message": message, "param": None}
        # The SDKs of OpenAI raise what the field `error` has.
        error: Json = {"type": "server_error", **names}
        return {"type": "error", **names, "error": error, "sequence_number": max(0, self._sent)}

    def _add(self, kind: str, **fields: object) -> Iterator[Json]:
        """Yield an event that takes one step, unless the reader has it."""
        if self.is_over:
            return
        self._step += 1
        number, _ = number_step(self._step)
        is_of_text = self._step >= _STEPS_BEFORE_TEXT and self._after != number
        if is_of_text and self._after >= 0 and read_step(self._after) == self._step:
            yield from self._fail_changed()
        elif number > self._after:
            self._sent = number
            yield {"type": kind, "sequence_number": number, **fields}

    def _begin_message(self, key: str) -> Iterator[Json]:
        if self._key:
            yield from self._end_message()
        self._key, self._text, self._digest = key, [], TextDigest()
        item = make_message(self._name, key)
        at = len(self.output)
        yield from self._add("response.output_item.added", output_index=at, item=item)
        yield from self._add(
            "response.content_part.added", **self._place(), part=make_text_part("")
        )

    def _place(self) -> Json:
        item = make_message(self._name, self._key)
        return {"item_id": item["id"], "output_index": len(self.output), "content_index": 0}

    def _add_text(self, text: str) -> Iterator[Json]:
        """Yield the text that the reader does not have, if its own is the beginning of the text."""
        if self.is_over:
            return
        self._text.append(text)
        known = read_step(max(self._after, 0)) - self._step
        if 0 < known <= len(text):
            self._digest.add(text[:known])
            self._step += known
            if self._number_text() != self._after:
                yield from self._fail_changed()
                return
            text = text[known:]
        self._digest.add(text)
        self._step += len(text)
        number = self._number_text()
        if text and number > self._after:
            self._sent = number
            yield {
                "type": "response.output_text.delta",
                "sequence_number": number,
                **self._place(),
                "delta": text,
                "logprobs": [],
            }

    def _number_text(self) -> int:
        number, bits = number_step(self._step)
        return number + (int(str(self._digest)[:_DIGITS], 16) >> (_DIGIT_BITS - bits))

    def _end_message(self, annotations: Sequence[Json] = ()) -> Iterator[Json]:
        if not self._key:
            return
        text, place = "".join(self._text), self._place()
        for at, note in enumerate(annotations):
            kind = "response.output_text.annotation.added"
            yield from self._add(kind, **place, annotation_index=at, annotation=note)
        part = make_text_part(text, annotations)
        yield from self._add("response.output_text.done", **place, text=text, logprobs=[])
        yield from self._add("response.content_part.done", **place, part=part)
        yield from self._end_item(make_message(self._name, self._key, part))
        self._key = ""

    def _add_hosted_call(self, ended: HostedCallEnded) -> Iterator[Json]:
        item = make_hosted_item(self._name, ended)
        if item is None:
            return
        at, kind = len(self.output), f"response.{item['type']}"
        place: Json = {"item_id": item["id"], "output_index": at}
        begun = {**item, "status": "in_progress"}
        yield from self._add("response.output_item.added", output_index=at, item=begun)
        yield from self._add(f"{kind}.in_progress", **place)
        if item["status"] == "completed":
            yield from self._add(f"{kind}.completed", **place)
        yield from self._end_item(item)

    def _end_item(self, item: Json) -> Iterator[Json]:
        at = len(self.output)
        self.output.append(item)
        yield from self._add("response.output_item.done", output_index=at, item=item)

    def _add_question(self, item: Json) -> Iterator[Json]:
        at = len(self.output)
        if item["type"] != "function_call":
            yield from self._add("response.output_item.added", output_index=at, item=item)
            yield from self._end_item(item)
            return
        begun = {**item, "status": "in_progress", "arguments": ""}
        place: Json = {"item_id": item["id"], "output_index": at}
        arguments = item["arguments"]
        yield from self._add("response.output_item.added", output_index=at, item=begun)
        yield from self._add("response.function_call_arguments.delta", **place, delta=arguments)
        done: Json = {**place, "name": item["name"], "arguments": arguments}
        yield from self._add("response.function_call_arguments.done", **done)
        yield from self._end_item(item)

    def _end(self, event: SegmentEnded) -> Iterator[Json]:
        if self._head is None:
            return
        yield from self._end_message()
        for asked in event.questions:
            yield from self._add_question(make_question_item(self._name.session, asked))
        status, fields = describe_end(self._head, event)
        yield from self._end_response(status, fields)

    def _end_early(self, event: SegmentTextWithdrawn | SegmentCut) -> Iterator[Json]:
        if isinstance(event, SegmentTextWithdrawn):
            yield from self._fail("text_withdrawn", describe_withdrawal(event.reason, self._name))
        elif event.reason == DELETED:
            yield from self._fail(DELETED, describe_cut(DELETED, self._name))
        elif not self.is_over:
            self.is_over = self.is_cut = True
            yield self.make_error(event.reason, describe_cut(event.reason, self._name))

    def _fail_changed(self) -> Iterator[Json]:
        yield from self._fail("text_withdrawn", describe_withdrawal(_CHANGED, self._name))

    def _fail(self, code: str, message: str) -> Iterator[Json]:
        """Yield the end of a stream that cannot go on; the response itself does."""
        if self._head is None or self.is_over:
            return
        self.is_over = True
        error: Json = {"error": {"code": code, "message": message}}
        self.response = self._head.build("failed", list(self.output), error)
        # No event of the response itself has such a number, so nobody can go on after it.
        number = number_step(self._step + 1)[0] + 1
        yield {"type": "response.failed", "sequence_number": number, "response": self.response}

    def _end_response(self, status: ResponseStatus, fields: Json) -> Iterator[Json]:
        if self._head is None or self.is_over:
            return
        if self._step + 1 >= _STEPS_BEFORE_TEXT and self._after > number_step(self._step + 1)[0]:
            yield from self._fail_changed()  # the reader has more than there is
            return
        response = self._head.build(status, list(self.output), fields)
        yield from self._add(_name_end(status), response=response)
        if not self.is_over:
            self.is_over, self.response = True, response


def _name_end(status: ResponseStatus) -> str:
    """Return the event of an end. The protocol has none for a cancellation."""
    kind: Literal["completed", "failed", "incomplete"] = "incomplete"
    if status in ("completed", "failed"):
        kind = "completed" if status == "completed" else "failed"
    return f"response.{kind}"
