"""Turns a segment of a turn into chunks of Chat Completions, or into one completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from holdfast.codecs.citation import Citation
from holdfast.core.errors import ErrorInfo
from holdfast.core.events import Status
from holdfast.core.messages import FinishReason
from holdfast.server.protocols.openai_shapes import (
    DELETED,
    ClientCall,
    SegmentName,
    describe_cut,
    describe_failure,
    describe_withdrawal,
    name_error,
    to_chat_usage,
    to_client_call,
)
from holdfast.server.protocols.segments import (
    BETWEEN_MESSAGES,
    SegmentBegun,
    SegmentCut,
    SegmentEnded,
    SegmentEvent,
    SegmentTextEnded,
    SegmentTextWithdrawn,
    TextAdded,
)

COMPLETION = "chatcmpl-"

Json: TypeAlias = dict[str, object]

_FINISHES = {FinishReason.LENGTH: "length", FinishReason.CONTENT_FILTER: "content_filter"}
_KINDS = {"rate_limit_exceeded": "rate_limit_error", DELETED: "invalid_request_error"}
_WAITS = "The run waits for an answer that this protocol cannot carry. Session: {}, turn {}."


class ChatFailure(Struct, frozen=True):
    """The run did not give a completion.

    Args:
        message: why, in words for a person.
        code: the kind of the failure.
    """

    message: str
    code: str

    def to_json(self) -> Json:
        """Return the body of the error."""
        kind = _KINDS.get(self.code, "server_error")
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


class ChatProjection:
    """Makes one completion.

    Args:
        name: the segment.
        has_usage: whether the last chunk has the tokens.
    """

    __slots__ = (
        "_begin",
        "_has_usage",
        "_head",
        "_key",
        "_length",
        "_name",
        "annotations",
        "calls",
        "finish",
        "text",
        "usage",
    )

    def __init__(self, name: SegmentName, *, has_usage: bool = False) -> None:
        self._name = name
        self._has_usage = has_usage
        self._head: Json = {}
        self._key = ""
        self._length = self._begin = 0  # of the text, and where its last message begins
        self.text: list[str] = []
        """The pieces of the text so far."""
        self.annotations: list[Json] = []
        """The sources that the text cites."""
        self.calls: tuple[ClientCall, ...] = ()
        """The calls of the caller's tools."""
        self.finish = ""
        """Why the completion ended."""
        self.usage: Json = {}
        """The tokens."""

    def feed(self, event: SegmentEvent) -> Iterator[Json | ChatFailure]:
        """Yield the chunks for an event of a segment; a failure is the last."""
        if isinstance(event, SegmentBegun):
            self._head = {
                "id": self._name.to_id(COMPLETION),
                "object": "chat.completion.chunk",
                "created": int(event.at),
                "model": event.opened.agent,
                "service_tier": "default",
                "system_fingerprint": None,
            }
            yield self._make_chunk({"role": "assistant", "content": "", "refusal": None})
        elif isinstance(event, TextAdded):
            between = BETWEEN_MESSAGES if self.text and self._key != event.key else ""
            if self._key != event.key:
                self._key, self._begin = event.key, self._length + len(between)
            yield from self._add_text(between + event.text)
        elif isinstance(event, SegmentTextEnded):
            yield from self._add_annotations(event.citations)
        elif isinstance(event, SegmentTextWithdrawn):
            yield ChatFailure(describe_withdrawal(event.reason, self._name), "text_withdrawn")
        elif isinstance(event, SegmentEnded):
            yield from self._end(event)
        elif isinstance(event, SegmentCut):
            yield ChatFailure(describe_cut(event.reason, self._name), event.reason)

    def _add_text(self, text: str) -> Iterator[Json]:
        self.text.append(text)
        self._length += len(text)
        yield self._make_chunk({"content": text})

    def _add_annotations(self, citations: Iterable[Citation]) -> Iterator[Json]:
        """Yield the sources of the last message. Those without an address have no form here."""
        added = [_describe_source(one, self._begin) for one in citations if one.url]
        self.annotations += added
        if added:
            yield self._make_chunk({"annotations": added})

    def _end(self, event: SegmentEnded) -> Iterator[Json | ChatFailure]:
        failure = self._find_failure(event.status, event.error)
        if failure is not None:
            yield failure
            return
        calls = [to_client_call(self._name.session, asked) for asked in event.questions]
        self.calls = tuple(call for call in calls if call is not None)
        if len(self.calls) < len(calls):  # the text says so, and no call is sent
            self.calls = ()
            between = BETWEEN_MESSAGES if self.text else ""
            words = _WAITS.format(self._name.session, self._name.turn)
            yield from self._add_text(between + words)
        for at, call in enumerate(self.calls):
            yield self._make_chunk({"tool_calls": [{"index": at, **_describe_call(call)}]})
        self.finish = self._name_finish(event)
        self.usage = to_chat_usage(event.usage)
        yield self._make_chunk({}, self.finish)
        if self._has_usage:
            yield {**self._head, "choices": [], "usage": self.usage}

    def _find_failure(self, status: Status, error: ErrorInfo | None) -> ChatFailure | None:
        if status is Status.CANCELLED:
            return ChatFailure(
                f"The run was cancelled. (session {self._name.session})", "cancelled"
            )
        if status is Status.FAILED or (status is Status.STOPPED and error is not None):
            return ChatFailure(describe_failure(error, self._name), name_error(error))
        return None

    def _name_finish(self, event: SegmentEnded) -> str:
        if self.calls:
            return "tool_calls"
        if event.status is Status.LIMIT:
            return "length"
        return _FINISHES.get(event.finish, "stop")

    def _make_chunk(self, delta: Json, finish: str | None = None) -> Json:
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk: Json = {**self._head, "choices": [choice]}
        if self._has_usage:
            chunk["usage"] = None
        return chunk

    def build_completion(self) -> Json:
        """Return the whole completion, after its end."""
        text = "".join(self.text)
        message: Json = {
            "role": "assistant",
            "content": text if text or not self.calls else None,
            "refusal": None,
            "annotations": self.annotations,
        }
        if self.calls:
            message["tool_calls"] = [_describe_call(call) for call in self.calls]
        choice: Json = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self.finish,
        }
        head = {**self._head, "object": "chat.completion"}
        return {**head, "choices": [choice], "usage": self.usage}


def _describe_call(call: ClientCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _describe_source(citation: Citation, begin: int) -> Json:
    place = {"start_index": begin + citation.start, "end_index": begin + citation.end}
    source = {**place, "url": citation.url, "title": citation.title}
    return {"type": "url_citation", "url_citation": source}


def find_failure(told: Iterable[Json | ChatFailure]) -> ChatFailure | None:
    """Return the failure among the chunks of a projection."""
    return next((one for one in told if isinstance(one, ChatFailure)), None)
