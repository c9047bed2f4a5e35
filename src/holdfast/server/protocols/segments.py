"""The segments of a turn: everything that a protocol with requests and responses sends between two waits.

A turn has a segment from its beginning to its first wait or its end, and one after each wait. Which
one an event belongs to follows from the journal alone, so any process can send a response again. This
module must never know a protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.codecs.citation import Citation
from holdfast.codecs.hosted_calls import (
    HostedCall,
    find_citations,
    find_hosted_calls,
    read_hosted_part,
)
from holdfast.core.client_tools import ClientToolResult
from holdfast.core.errors import ErrorInfo
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    OutputChecked,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    Status,
    ToolFinished,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
    TurnStopped,
)
from holdfast.core.messages import FinishReason, Media, Reply, Usage
from holdfast.core.question_log import ASKED, asker_key
from holdfast.core.run_fold import list_usage
from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import (
    EndItem,
    EventItem,
    StreamItem,
    TextItem,
    WithdrawnItem,
)
from holdfast.event_log.text_fold import TextFold

_TOOL = ".tool."


class SegmentBegun(Struct, frozen=True):
    """The segment begins.

    Args:
        opened: the event that opened the turn.
        at: when the segment began, in seconds since the epoch.
    """

    opened: TurnOpened
    at: float


class TextAdded(Struct, frozen=True):
    """Text of a message, which is streamed before it is accepted.

    Args:
        key: the model call that writes it.
        text: the text after the text so far.
    """

    key: str
    text: str


class SegmentTextEnded(Struct, frozen=True):
    """The message is complete. All of its text was added before.

    Args:
        key: the model call that wrote it.
        is_partial: whether the model call did not end well.
        citations: the sources that the text cites.
    """

    key: str
    is_partial: bool = False
    citations: tuple[Citation, ...] = ()


class HostedCallEnded(Struct, frozen=True):
    """A tool that the provider ran has ended. It comes after the text of the reply.

    Args:
        key: the model call that called it.
        index: its number among these calls of the reply, from 0.
        call: the call.
        image: the picture that it made.
    """

    key: str
    index: int
    call: HostedCall
    image: Media | None = None


class SegmentTextWithdrawn(Struct, frozen=True):
    """Text that was added is void, and the run goes on. Nothing follows in this reading of the segment.

    Args:
        reason: why, in words for a person.
    """

    reason: str


class SegmentEnded(Struct, frozen=True):
    """The segment has ended: the turn waits, or has ended.

    Args:
        status: how.
        at: when, in seconds since the epoch.
        usage: the tokens of the segment.
        questions: the questions for which the turn waits, in the order in which they were asked.
        finish: why the last reply ended.
        error: why the turn failed.
    """

    status: Status
    at: float
    usage: Usage
    questions: tuple[QuestionAsked, ...] = ()
    finish: FinishReason = FinishReason.STOP
    error: ErrorInfo | None = None


class SegmentCut(Struct, frozen=True):
    """The stream ends here, and not because the segment did.

    Args:
        reason: "too_slow", "shutting_down", or "deleted": then nothing goes on.
    """

    reason: str


Hold: TypeAlias = Literal["no", "accepted", "output"]
"""When text is sent: at once, when its reply was accepted, or when it was accepted as the output."""

SegmentEvent: TypeAlias = (
    SegmentBegun
    | TextAdded
    | SegmentTextEnded
    | HostedCallEnded
    | SegmentTextWithdrawn
    | SegmentEnded
    | SegmentCut
)


class _Waits:
    """The questions of a turn, and whether everything that is in progress waits for one."""

    __slots__ = ("open", "unfinished")

    def __init__(self) -> None:
        self.open: dict[str, QuestionAsked] = {}
        self.unfinished: set[str] = set()

    def add(self, event: Event) -> bool:
        """Apply an event; return whether it ended a wait of the whole turn."""
        if isinstance(event, ModelReplied):
            place = event.key.removesuffix(".model")
            self.unfinished = {f"{place}{_TOOL}{at}" for at in range(len(event.reply.calls))}
        elif isinstance(event, ToolFinished):
            self.unfinished.discard(event.key)
        elif isinstance(event, QuestionAsked):
            if event.wait == "suspend":
                self.open[event.key.removesuffix(ASKED)] = event
        elif isinstance(event, QuestionAnswered | QuestionUnanswered):
            return event.deferred and event.key in self.open and self.is_waiting()
        return False

    def is_waiting(self) -> bool:
        """Whether nothing is in progress that does not wait."""
        askers = {asker_key(key) for key in self.open}
        if any(_TOOL not in key for key in askers):
            return True  # a hook asks between effects, when no tool is in progress
        return bool(askers) and self.unfinished <= askers

    def close(self, event: Event) -> None:
        """Forget the question that an event ended."""
        if isinstance(event, QuestionAnswered | QuestionUnanswered):
            self.open.pop(event.key, None)


class SegmentFold:
    """Makes the events of one segment of a turn from the items of its stream, beginning with the turn's first.

    Args:
        number: the number of the segment, from 0; None takes all segments, one after the other.
        hold: when text is sent: at once, when its reply was accepted, or when it was accepted as
            the output of the turn.
        void: the keys of replies that are known not to count.
    """

    __slots__ = (
        "_at",
        "_error",
        "_finish",
        "_held",
        "_hold",
        "_key",
        "_number",
        "_opened",
        "_paused",
        "_usage",
        "_void",
        "_waits",
        "current",
        "is_over",
    )

    def __init__(
        self, number: int | None, hold: Hold = "no", void: frozenset[str] = frozenset()
    ) -> None:
        self._number = number
        self._hold = hold
        self._void = void
        self._opened: TurnOpened | None = None
        self._at = 0.0
        self._waits = _Waits()
        self._usage = Usage()
        self._finish = FinishReason.STOP
        self._error: ErrorInfo | None = None
        self._key = ""  # of the message whose text was added last
        self._held: ModelReplied | None = None
        self._paused: dict[str, HostedCall] = {}  # by their ids; a later reply has their results
        self.current = 0
        """The number of the segment to which the next event belongs."""
        self.is_over = False
        """Whether the segment has no more events."""

    def feed(self, item: StreamItem) -> Iterator[SegmentEvent]:
        """Yield the events that an item adds to the segment."""
        if self.is_over:
            return
        if isinstance(item, EventItem):
            yield from self._add_event(item.event)
        elif isinstance(item, TextItem):
            if not self._is_held and self._is_mine() and item.key not in self._void:
                self._key = item.key
                yield TextAdded(item.key, item.text)
        elif isinstance(item, WithdrawnItem):
            if self._key and item.key in (self._key, "") and self._is_mine():
                self.is_over = True
                yield SegmentTextWithdrawn(item.reason)
        elif isinstance(item, EndItem):
            yield from self._end_stream(item)

    def _is_mine(self) -> bool:
        return self._number is None or self.current == self._number

    @property
    def _is_held(self) -> bool:
        return self._hold != "no"

    @property
    def open_questions(self) -> tuple[QuestionAsked, ...]:
        """The questions without an answer, in the order in which they were asked."""
        return tuple(self._waits.open.values())

    def _add_event(self, event: Event) -> Iterator[SegmentEvent]:
        if isinstance(event, TurnOpened):
            self._opened, self._at = event, event.at
            if self._is_mine():
                yield SegmentBegun(event, event.at)
        if self._held is not None:
            yield from self._release_held(self._held, event)
        self._count(event)
        if self._waits.add(event):
            yield from self._end_waiting(event.at)
            self.current += 1
            self._usage, self._error = Usage(), None
            if self._is_mine() and self._opened is not None:
                yield SegmentBegun(self._opened, event.at)
        self._waits.close(event)
        if self._is_mine():
            yield from self._end_text(event)
        if isinstance(event, TurnClosed) and self._is_mine():
            self._error = event.error or self._error
            yield self._make_end(event.status, event.at)

    def _count(self, event: Event) -> None:
        """Count the tokens of the segment, and note how its last reply ended."""
        for _, usage in list_usage(event):
            self._usage += usage
        if isinstance(event, ModelReplied):
            self._finish = event.reply.finish
        elif isinstance(event, ModelFailed):
            self._error = event.error
        elif isinstance(event, TurnInterrupted) and event.partial is not None:
            self._usage += event.partial.usage

    def _end_text(self, event: Event) -> Iterator[SegmentEvent]:
        """Yield the end of the message that an event ends."""
        if isinstance(event, ModelReplied) and self._is_held:
            self._held = event
        elif isinstance(event, ModelReplied):
            if self._key == event.key:
                yield SegmentTextEnded(event.key, citations=find_citations(event.reply.message))
            yield from self._end_hosted_calls(event)
        elif isinstance(event, TurnStopped) and event.text:
            if self._is_held:
                yield TextAdded(event.key, event.text)
            yield SegmentTextEnded(event.key if self._is_held else self._key)
        elif self._key and isinstance(event, ModelFailed | TurnInterrupted):
            yield from _end_partial(self._key, event.partial)

    def _release_held(self, held: ModelReplied, event: Event) -> Iterator[SegmentEvent]:
        """Yield the reply that was held, without its text if an event says that it does not fit."""
        self._held = None
        reply = held.reply
        is_remark = self._hold == "output" and bool(reply.calls)
        is_refused = isinstance(event, OutputChecked) and not event.parsed_by
        if reply.text and not is_remark and not is_refused:
            yield TextAdded(held.key, reply.text)
            yield SegmentTextEnded(held.key, citations=find_citations(reply.message))
        yield from self._end_hosted_calls(held)

    def _end_hosted_calls(self, event: ModelReplied) -> Iterator[SegmentEvent]:
        """Yield the calls of the provider's tools that have ended with a reply."""
        pictures = (
            part for part in event.reply.parts if isinstance(part, Media) and read_hosted_part(part)
        )
        for index, call in enumerate(find_hosted_calls(event.reply.message)):
            if not call.finished:
                self._paused[call.id] = call
                continue
            begun = self._paused.pop(call.id, call)
            ended = msgspec.structs.replace(call, arguments=call.arguments or begun.arguments)
            is_picture = call.name == "image_generation"
            image = next(pictures, None) if is_picture else None
            yield HostedCallEnded(event.key, index, ended, image)

    def _end_waiting(self, at: float) -> Iterator[SegmentEvent]:
        if self._is_mine():
            yield self._make_end(Status.WAITING, at, self.open_questions)
            self.is_over = self._number is not None

    def _make_end(
        self, status: Status, at: float, questions: tuple[QuestionAsked, ...] = ()
    ) -> SegmentEnded:
        self.is_over = True
        return SegmentEnded(
            status, at, self._usage, questions, finish=self._finish, error=self._error
        )

    def _end_stream(self, item: EndItem) -> Iterator[SegmentEvent]:
        if item.reason != "turn_ended":
            yield SegmentCut(item.reason)
        elif self._is_mine():
            asked = self.open_questions
            at = max((question.at for question in asked), default=self._at)
            yield self._make_end(Status.WAITING, at, asked)
        self.is_over = True


def find_void_replies(events: Iterable[Event]) -> frozenset[str]:
    """Return the keys of the replies whose text did not fit the type of the output."""
    void: set[str] = set()
    last = ""
    for event in events:
        if isinstance(event, ModelReplied):
            last = event.key if event.reply.text else ""
        elif isinstance(event, OutputChecked) and not event.parsed_by and last:
            void.add(last)
            last = ""
    return frozenset(void)


def _end_partial(key: str, reply: Reply | None) -> Iterator[SegmentEvent]:
    if reply is not None and reply.text:
        yield SegmentTextEnded(key, is_partial=True, citations=find_citations(reply.message))


def question_fields(asked: QuestionAsked) -> dict[str, object]:
    """Return the content of a question, as JSON values."""
    plain = msgspec.to_builtins(asked.question)
    return plain if isinstance(plain, dict) else {}


BETWEEN_MESSAGES = "\n\n"
"""The text between two messages of the model that a protocol sends as one text."""


class SegmentText(Struct):
    """One segment.

    Args:
        text: its text.
        questions: the questions for which it waits or waited.
        has_ended: whether the turn waits at its end, waited there, or has ended.
    """

    text: str = ""
    questions: tuple[QuestionAsked, ...] = ()
    has_ended: bool = False


class SegmentedTurn(Struct, frozen=True):
    """A turn in segments, as its caller gets it.

    Args:
        opened: the event that opened it.
        segments: its segments so far.
        answers: the results that the caller gave, by the keys of the questions.
        open_keys: the keys of the questions without an answer.
        void: the keys of replies that do not count.
    """

    opened: TurnOpened
    segments: tuple[SegmentText, ...]
    answers: dict[str, ClientToolResult]
    open_keys: frozenset[str]
    void: frozenset[str]


def split_turn(events: Sequence[Event], hold: Hold) -> SegmentedTurn | None:
    """Return the turn to which events belong; None if the first one does not open a turn.

    Args:
        events: its events, from the first on.
        hold: when text is sent.
    """
    opened = events[0] if events else None
    if not isinstance(opened, TurnOpened):
        return None
    void = find_void_replies(events)
    # Nothing of the journal is withdrawn, so the accepted text is the text that was sent.
    fold = SegmentFold(None, "accepted" if hold == "no" else hold, void)
    segments, lines = TextFold(Position()), [SegmentText()]
    key = ""
    for event in events:
        for item in segments.feed(event):
            for told in fold.feed(item):
                if isinstance(told, TextAdded):
                    between = BETWEEN_MESSAGES if lines[-1].text and told.key != key else ""
                    lines[-1].text += between + told.text
                    key = told.key
                elif isinstance(told, SegmentEnded):
                    lines[-1].questions, lines[-1].has_ended = told.questions, True
                    lines.append(SegmentText())
    del lines[fold.current + 1 :]
    open_keys = frozenset(asked.key.removesuffix(ASKED) for asked in fold.open_questions)
    if not lines[-1].has_ended:
        lines[-1].questions = fold.open_questions
    return SegmentedTurn(opened, tuple(lines), _collect_answers(events), open_keys, void)


def _collect_answers(events: Sequence[Event]) -> dict[str, ClientToolResult]:
    """Return the results of client tools among the answers."""
    found = {}
    for event in events:
        if isinstance(event, QuestionAnswered):
            try:
                found[event.key] = msgspec.convert(event.answer, ClientToolResult)
            except msgspec.ValidationError:
                continue  # the answer to another kind of question
    return found
