"""Bytes of a Chat Completions body, streamed or whole, to deltas; never raises on any bytes.

This module must never decide whether a reply is acceptable;
`codecs.assemble` does.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.codecs.body import Body
from holdfast.codecs.call_arguments import spoil_mended
from holdfast.codecs.events import error_of
from holdfast.codecs.json_text import UNREADABLE, kind_of
from holdfast.codecs.openai_chat.pieces import Pieces
from holdfast.codecs.openai_chat.plain import decode_chunk, read_whole
from holdfast.codecs.sse import LARGEST_EVENT, EventTooLargeError, SseDecoder
from holdfast.codecs.wire import RESPONSE_OBJECT, Failure
from holdfast.core.deltas import Delta, EndMissing, NotAReply, ReasoningDelta, TextDelta
from holdfast.core.errors import ErrorInfo

_MARKERS = (b"[DONE]", b'"[DONE]"')
# An event of another name that is no JSON is a sign of life.
_NAMES = (b"", b"message", b"error", b"completion", b"chunk")


class ChatDecoder:
    """One response body in, deltas out.

    Args:
        content_type: the header's value, or "".
        classify: what an error inside a 200 means.
        provider: the preset's name, for `classify`.
        limit: the largest event or whole body, in bytes.

    Attributes:
        bad_lines: events that were no JSON and were passed over: after the finish reason, in the
            last event of a cut stream, or under a name of their own.
    """

    __slots__ = (
        "_begun", "_body", "_classify", "_done", "_provider", "_quick", "_sse", "bad_lines",
    )  # fmt: skip

    def __init__(
        self,
        content_type: str,
        classify: Callable[[Failure], ErrorInfo],
        provider: str = "",
        limit: int = LARGEST_EVENT,
    ) -> None:
        self._classify = classify
        self._provider = provider
        self._begun: Pieces | None = None
        self._body = Body(limit, content_type)
        self._sse: SseDecoder | None = None
        self._done = False
        # The next chunk may be read by the short way.
        self._quick = False
        self.bad_lines = 0

    @property
    def _pieces(self) -> Pieces:
        """The careful reading, begun when it is first needed."""
        if self._begun is None:
            self._begun = Pieces(self._classify, self._provider)
        return self._begun

    @property
    def passed_over(self) -> dict[str, int]:
        """How often each field of a message came that is not known here."""
        return self._pieces.passed_over

    @property
    def other_choices(self) -> int:
        """Pieces of choices that were not asked for, and were dropped."""
        return self._pieces.other_choices

    def feed(self, data: bytes) -> list[Delta]:
        """The deltas that these bytes complete."""
        out: list[Delta] = []
        if self._done:
            return out
        try:
            # Once the body is known to be a stream, its reader is asked directly: this is the one
            # path that a server pays for at each delta.
            events = self._sse.feed(data) if self._sse is not None else self._body.feed(data)
        except EventTooLargeError as error:
            events = self._body.too_large(error)
        for name, payload in events:
            if not self._quick or name or not self._read_plain(payload, out):
                self._event(name, payload, out)
        if self._sse is None:
            self._sse = self._body.sse
        if self._body.problem is not None:
            self._refuse(self._body.problem, out)
        return out

    def close(self) -> list[Delta]:
        """The body is over; an event that was cut is left out."""
        out: list[Delta] = []
        if self._done:
            return out
        for name, payload in self._body.close():
            self._event(name, payload, out, cut=True)
        if self._body.sse is None:
            self._whole(out)
        elif self._body.problem is None and self._pieces.untouched and self._body.sse.unknown:
            self._body.problem = NotAReply(RESPONSE_OBJECT, "plain text")
        if self._body.problem is not None:
            self._refuse(self._body.problem, out)
        elif not self._done:
            self._pieces.cut(out)
            out.append(EndMissing())
        self._done = True
        return out

    def _read_plain(self, payload: bytes, out: list[Delta]) -> bool:
        """Read a chunk of text, reasoning or arguments; False when it is not just that."""
        try:
            plain = decode_chunk(payload).choices[0].delta
        except (ValueError, RecursionError):
            return False
        text, told = plain.content, plain.reasoning_content or plain.reasoning
        if plain.tool_calls is None:
            if told:
                self._pieces.reasoning.told = True
                out.append(ReasoningDelta(told))
            if text:
                out.append(TextDelta(text))
            return True
        more = None if text or told else self._pieces.calls.more(plain.tool_calls)
        out += more or ()
        return more is not None

    def _event(self, name: bytes, payload: bytes, out: list[Delta], *, cut: bool = False) -> None:
        payload = payload.strip()
        if self._done or not payload:
            return
        if payload in _MARKERS:
            self._pieces.end(out)
            self._done, self._quick = True, False
            return
        value = self._body.json.read(payload)
        if isinstance(value, dict):
            self._take(value, out, failed=name == b"error")
            self._quick = self._pieces.at_rest
        elif value is None:
            # A sign of life.
            self.bad_lines += 1
        elif value is UNREADABLE and name == b"error" and not self._pieces.finished:
            self._pieces.take(error_of(payload), out, failed=True)
        elif value is UNREADABLE and b"\n" in payload:
            # Events that lack the blank line between them: one object a line.
            for line in payload.split(b"\n"):
                self._event(b"", line, out, cut=cut)
        elif self._pieces.finished or cut or name not in _NAMES:
            self._pass_over(payload, out, cut=cut)
        elif value is UNREADABLE:
            self._refuse(NotAReply("JSON in every event", "other text"), out)
        else:
            self._refuse(NotAReply("chunk object", kind_of(value)), out)

    def _take(
        self,
        value: dict[str, object],
        out: list[Delta],
        *,
        failed: bool = False,
        whole: bool = False,
    ) -> None:
        start = len(out)
        self._pieces.take(value, out, failed=failed, whole=whole)
        if self._body.json.has_mended:
            spoil_mended(out, start)

    def _pass_over(self, payload: bytes, out: list[Delta], *, cut: bool) -> None:
        self.bad_lines += 1
        if cut and (b'"delta"' in payload or not self._pieces.finished):
            out.append(EndMissing(inside_event=True))

    def _whole(self, out: list[Delta]) -> None:
        text = self._body.text()
        if (quick := read_whole(text)) is not None:
            out += quick
            self._done = True
            return
        value = self._body.value(text)
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            # An error wrapped in an array is all that comes in this form.
            if "error" not in value[0]:
                return
            value, self._body.problem = value[0], None
        if isinstance(value, dict):
            self._take(value, out, whole=True)
            self._pieces.end(out, whole=True)
            self._done = True

    def _refuse(self, problem: NotAReply, out: list[Delta]) -> None:
        if not self._done:
            out.append(problem)
        self._done, self._quick = True, False
