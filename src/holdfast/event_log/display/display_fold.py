"""Turns the event log of one turn into the items that a person sees, the same live and from the journal.

Live text and reasoning are shown as they come. The record of a reply decides: where it differs from what
was shown, the step is withdrawn and shown again. This fold must never show a step twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import get_args

import msgspec

from holdfast.codecs.hosted_calls import HostedCall, find_citations, find_hosted_calls
from holdfast.core.deltas import HostedToolFinished, HostedToolStarted, ToolCallDelta
from holdfast.core.errors import AnswerTypeError, ConfigurationError
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    ResultsWithheld,
    ToolFinished,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
    TurnStopped,
)
from holdfast.core.messages import Media, Opaque, Part, Reasoning, Reply, Text, ToolResult, Usage
from holdfast.core.notices import CustomNotice, Notice
from holdfast.core.question_log import ASKED, asker_key, restore_question
from holdfast.core.questions import AnyQuestion, Denied, Question, restore_answer
from holdfast.core.turn_options import NO_OPTIONS
from holdfast.event_log.display.display_items import (
    AgentStarted,
    AgentTextShown,
    CallReady,
    DisplayItem,
    HostedCallShown,
    MediaShown,
    NoticeShown,
    QuestionClosed,
    QuestionShown,
    ReasoningShown,
    ResultShown,
    SourcesShown,
    StepFinished,
    StepStarted,
    StepWithdrawn,
    StreamCut,
    TurnEnded,
    TurnWaits,
    UserShown,
)
from holdfast.event_log.display.shown_reply import ShownReply, shown_text
from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import (
    EndItem,
    EventItem,
    NoticeItem,
    ReasoningItem,
    StreamItem,
    TextItem,
    WithdrawnItem,
)
from holdfast.event_log.text_fold import TextFold, notice_name, turn_of_key
from holdfast.journal.port import Record
from holdfast.sessions.session_history import fold_history

NO_RESULT = "The turn ended before this tool had a result."
_ASKED_AGAIN = "The model is asked again for this reply."
_WITHHELD = "results_withheld"
_CORRECTED = "The record of the reply differs from what was streamed."


class DisplayFold:
    """Turns the items of one turn into the items that a person sees.

    Feed it the items of the event log, live or from the journal: those of `Client.follow`. Of an agent in this
    process, feed the items of `agent.stream(...)` to `feed_run`.

    Args:
        session: the session.
        sequence: the number of records of the session before the turn.

    >>> fold, replied = DisplayFold("ada"), ModelReplied("t1.i0.model", 0.0, Reply((Text("Hello."),)))
    >>> [type(shown).__name__ for shown in fold.feed_run(replied)]
    ['StepStarted', 'TextShown', 'TextEnded']
    """

    __slots__ = (
        "_agents",
        "_asked_in_step",
        "_calls",
        "_denied",
        "_paused",
        "_questions",
        "_reply",
        "_session",
        "_step",
        "_text",
        "position",
        "usage",
    )

    def __init__(self, session: str, sequence: int = 0) -> None:
        self._session = session
        self._text = TextFold(Position(sequence))
        self._step = ""
        self._reply = ShownReply("")
        self._calls: dict[str, str] = {}
        """The calls without a result, with the names of their tools."""
        self._agents = _AgentTexts()
        self._paused: dict[str, HostedCallShown] = {}
        """The calls of the provider's tools whose results are in a later reply, by their ids."""
        self._denied: set[str] = set()
        self._questions: dict[str, QuestionShown] = {}
        self._asked_in_step: list[str] = []
        self.position = ""
        """The place of the reader, as text."""
        self.usage: dict[str, Usage] = {}
        """The tokens of the replies, by the model."""

    @property
    def questions(self) -> tuple[QuestionShown, ...]:
        """The open questions, in the order in which they were asked."""
        return tuple(self._questions.values())

    def feed(self, item: StreamItem) -> Iterator[DisplayItem]:
        """Yield the items that a person sees of an item of the event log."""
        if isinstance(item, TextItem):
            self.position = item.position
            # Without an attempt it comes from a record, which is the next item and has it whole.
            if item.attempt:
                yield from self._show_live_text(item)
        elif isinstance(item, ReasoningItem):
            yield from self._begin_step(step_of(item.key))
            yield from self._reply.add_reasoning(item.text, item.offset)
        elif isinstance(item, NoticeItem):
            yield from self._show_notice(item.name, item.fields)
        elif isinstance(item, EventItem):
            self.position = item.position
            yield from self._show_event(item)
        elif isinstance(item, WithdrawnItem):
            self.position = item.position
            if step_of(item.key) == self._step:
                yield from self._withdraw(item.reason)
        elif isinstance(item, EndItem):
            yield from self._end(item)
        elif not self.position:  # the state, at the beginning
            self.position = item.position

    def feed_run(self, item: Event | Notice | AnyQuestion) -> Iterator[DisplayItem]:
        """Yield the items for an event, a notice or a question of an agent's own stream, in this process.

        Args:
            item: the item. A question yields nothing: the event that it was asked has it too.
        """
        if not isinstance(item, Question):
            for one in self._text.feed(item):
                yield from self.feed(one)

    def end(self) -> Iterator[DisplayItem]:
        """Yield the end of a stream of this process: the questions for which the turn waits, if there are any."""
        yield from self.feed(EndItem(self.position, "turn_ended"))

    def _show_notice(self, name: str, fields: Mapping[str, object]) -> Iterator[DisplayItem]:
        key = str(fields.get("key", ""))
        if name == "attempt_started" and key.endswith(".model"):
            yield from self._begin_step(step_of(key))
            if not fields.get("continues"):
                yield from self._withdraw(_ASKED_AGAIN)
        elif name in _CALLS:
            if self._step and not self._reply.is_complete:  # else its step is not known
                yield from self._show_live_call(name, fields)
        elif name == "retry_scheduled":
            if key == f"{self._step}.model":
                yield from self._withdraw(_ASKED_AGAIN)
            yield NoticeShown(name, _describe_retry(fields))
        elif name in ("output_mode_changed", "request_form_changed"):
            yield NoticeShown(name, _describe_mode(fields))
        elif name == "from_agent":
            yield from self._show_nested(fields)
        elif name not in _built_in_notices():
            shown = {field: value for field, value in fields.items() if field not in _PLACE}
            yield NoticeShown(name, shown)

    def _show_live_call(self, name: str, fields: Mapping[str, object]) -> Iterator[DisplayItem]:
        if name in _HOSTED:
            call = msgspec.convert(fields, HostedCall)
            finished = name == notice_name(HostedToolFinished)
            yield from self._reply.add_hosted(msgspec.structs.replace(call, finished=finished))
        else:
            yield from self._reply.add_call(fields)

    def _show_nested(self, fields: Mapping[str, object]) -> Iterator[DisplayItem]:
        """Yield the text and the own notices of an agent that runs as a tool."""
        yield from self._agents.feed(fields)
        inner = fields.get("item")
        if isinstance(inner, dict) and inner.get("name") not in _built_in_notices():
            yield from self._show_notice(str(inner.get("name")), inner.get("fields", {}))

    def _show_event(self, item: EventItem) -> Iterator[DisplayItem]:
        event = item.event
        if isinstance(event, TurnOpened):
            options = event.options or NO_OPTIONS
            tools = frozenset(tool.name for tool in options.client_tools)
            message = event.message
            if message is not None and message.role != "user":
                message = None  # nobody said it: the turn began with results of tools, for instance
            yield UserShown(item.turn, message, options.metadata, tools)
        elif isinstance(event, ModelReplied):
            yield from self._show_reply(step_of(event.key), event.reply)
        elif isinstance(event, ModelFailed | TurnInterrupted | TurnStopped):
            yield from self._show_last_text(event)
        elif isinstance(event, ResultsWithheld):
            yield NoticeShown(_WITHHELD, {"tools": event.tools, "reason": event.error.safe})
        elif isinstance(event, ToolFinished):
            yield from self._show_result(event)
        elif isinstance(event, QuestionAsked):
            yield self._show_question(event)
        elif isinstance(event, QuestionAnswered | QuestionUnanswered):
            yield from self._close_question(event)
        elif isinstance(event, TurnClosed):
            yield from self._drop_open()
            yield from self._finish_step()
            yield TurnEnded(event.status, event.error, dict(self.usage))

    def _show_reply(self, step: str, reply: Reply) -> Iterator[DisplayItem]:
        yield from self._begin_step(step)
        yield from self._show_texts(reply)
        if sources := find_citations(reply.message):
            yield SourcesShown(step, sources)
        self._paused.update((shown.hosted.id, shown) for shown in self._reply.unfinished)
        for part in reply.parts:
            if isinstance(part, Media):
                yield MediaShown(step, part)
        for index, call in enumerate(reply.calls):
            key = f"{step}.tool.{index}"
            self._calls[key] = call.name
            streamed = self._reply.streamed_arguments(index)
            yield CallReady(step, key, call.name, call.arguments, streamed)
        self._reply.is_complete = True
        self._reply.has_parts = len(reply.parts) > 0
        self.usage[reply.model] = self.usage.get(reply.model, Usage()) + reply.usage

    def _show_last_text(
        self, event: ModelFailed | TurnInterrupted | TurnStopped
    ) -> Iterator[DisplayItem]:
        """Yield the text that stays of a reply that did not come to its end; its calls did not run."""
        if isinstance(event, TurnStopped):
            parts: tuple[Part, ...] = (Text(event.text),)
        else:
            parts = event.partial.parts if event.partial is not None else ()
        last = Reply(tuple(part for part in parts if isinstance(part, Text | Reasoning | Opaque)))
        if last.text and (self._reply.is_complete or not self._step):
            yield from self._begin_step(_next_step(self._step, event.key))
        if self._step and not self._reply.is_complete:
            yield from self._show_texts(last)
            self._reply.is_complete = True

    def _show_texts(self, reply: Reply) -> Iterator[DisplayItem]:
        """Yield the rest of the reasoning and the text of a reply."""
        reasoning = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
        hosted: list[HostedCall] = []
        for call in find_hosted_calls(reply.message):
            if call.finished and call.id in self._paused:
                yield _finish_call(self._paused.pop(call.id), call)
            else:
                hosted.append(call)
        if not self._reply.fits(reply, reasoning, hosted):
            yield from self._withdraw(_CORRECTED)
        if not self._reply.reasoned and reasoning:
            yield ReasoningShown(self._step, reasoning)
            self._reply.is_reasoning = True
        yield from self._reply.end_reasoning()
        yield from self._reply.add_rest(shown_text(reply), hosted)

    def _show_live_text(self, item: TextItem) -> Iterator[DisplayItem]:
        yield from self._begin_step(step_of(item.key))
        text = item.text
        if item.offset < self._reply.shown:  # what was shown after that place is void
            text = self._reply.text[: item.offset] + text
            yield from self._withdraw(_CORRECTED)
        yield from self._reply.add_text(text)

    def _show_result(self, event: ToolFinished) -> Iterator[DisplayItem]:
        # Unknown are the functions that make an output; they are no calls of the model.
        if self._calls.pop(event.key, None) is not None:
            yield ResultShown(event.key, event.result, event.key in self._denied)

    def _drop_open(self) -> Iterator[DisplayItem]:
        """Yield the ends of questions and calls that the turn has left open."""
        for shown in self._questions.values():
            yield QuestionClosed(shown.question, shown.call, None, "cancelled")
        for key, name in self._calls.items():
            yield ResultShown(key, ToolResult(key, name, (Text(NO_RESULT),), is_error=True))
        for begun in self._paused.values():
            yield _finish_call(begun, HostedCall(name="", result=NO_RESULT, is_error=True))
        self._questions.clear()
        self._calls.clear()
        self._paused.clear()

    def _show_question(self, event: QuestionAsked) -> DisplayItem:
        key = event.key.removesuffix(ASKED)
        asker = asker_key(key)
        question = restore_question(event, self._session)
        shown = QuestionShown(question, asker if ".tool." in asker else "", event.until)
        self._questions[key] = shown
        self._asked_in_step.append(key)
        return shown

    def _close_question(
        self, event: QuestionAnswered | QuestionUnanswered
    ) -> Iterator[DisplayItem]:
        shown = self._questions.pop(event.key, None)
        if shown is None:
            return
        if isinstance(event, QuestionUnanswered):
            yield QuestionClosed(shown.question, shown.call, None, event.why)
            return
        try:
            answer = restore_answer(shown.question, event.answer)
        except (AnswerTypeError, ConfigurationError):
            answer = event.answer
        if isinstance(answer, Denied):
            self._denied.add(shown.call)
        yield QuestionClosed(shown.question, shown.call, answer)

    def _begin_step(self, step: str) -> Iterator[DisplayItem]:
        if step != self._step:
            yield from self._finish_step()
            self._step, self._reply, self._asked_in_step = step, ShownReply(step), []
            yield StepStarted(step)

    def _finish_step(self) -> Iterator[DisplayItem]:
        if self._step:
            yield from self._reply.end_all()
            yield StepFinished(self._step)
            self._step = ""

    def _withdraw(self, reason: str) -> Iterator[DisplayItem]:
        """Yield a withdrawal if anything of the step was shown."""
        if self._step and self._reply.is_anything:
            for key in [key for key in self._calls if key.startswith(f"{self._step}.")]:
                del self._calls[key]
            is_complete, self._reply = self._reply.is_complete, ShownReply(self._step)
            self._reply.is_complete = is_complete
            yield StepWithdrawn(self._step, reason)
            for key in self._asked_in_step:  # they are open all the same
                if key in self._questions:
                    yield self._questions[key]

    def _end(self, item: EndItem) -> Iterator[DisplayItem]:
        self.position = item.position
        if item.reason != "turn_ended":
            yield StreamCut(item.reason)
        elif self._questions:
            yield TurnWaits(self.questions, dict(self.usage))


_PLACE = frozenset({"run_id", "key"})
_HOSTED = frozenset({notice_name(HostedToolStarted), notice_name(HostedToolFinished)})
_CALLS = _HOSTED | {notice_name(ToolCallDelta)}


def _finish_call(begun: HostedCallShown, ended: HostedCall) -> HostedCallShown:
    """Return a call with the result that came later."""
    hosted = msgspec.structs.replace(
        begun.hosted, result=ended.result, is_error=ended.is_error, finished=True
    )
    return HostedCallShown(begun.step, begun.call, hosted)


def _describe_retry(fields: Mapping[str, object]) -> dict[str, object]:
    error = fields.get("error")
    reason = error.get("safe", "") if isinstance(error, dict) else ""
    shown = {name: fields.get(name) for name in ("attempt", "max_retries", "delay", "tool")}
    return {**shown, "reason": reason}


def _describe_mode(fields: Mapping[str, object]) -> dict[str, object]:
    error = fields.get("error")
    reason = error.get("safe", "") if isinstance(error, dict) else ""
    return {**{name: fields.get(name) for name in ("target", "before", "after")}, "reason": reason}


@cache
def _built_in_notices() -> frozenset[str]:
    return frozenset(notice_name(kind) for kind in get_args(Notice) if kind is not CustomNotice) | {
        "event"
    }


def _next_step(step: str, key: str) -> str:
    """Return the step after a step.

    Args:
        step: the step; "" for the first one.
        key: a key of the turn.

    >>> _next_step("t1.i0", "t1.stopped"), _next_step("", "t1.stopped")
    ('t1.i1', 't1.i0')
    """
    turn, between, number = step.rpartition(".i")
    if not between or not number.isdecimal():
        return f"{key.partition('.')[0]}.i0"
    return f"{turn}.i{int(number) + 1}"


def step_of(key: str) -> str:
    """Return the step to which the key of an effect belongs.

    >>> step_of("t1.i0.model"), step_of("t1.stopped")
    ('t1.i0', 't1.stopped')
    """
    return key.removesuffix(".model")


_VOID = ("attempt_abandoned", "reply_replaced")


class _AgentTexts:
    """The replies that nested agents are writing. They are live only: their records are elsewhere."""

    __slots__ = ("_lengths",)

    def __init__(self) -> None:
        self._lengths: dict[tuple[str, tuple[str, ...]], int] = {}

    def feed(self, fields: Mapping[str, object]) -> Iterator[DisplayItem]:
        """Yield the items for an event or notice of a nested agent.

        Args:
            fields: those of a `FromAgent`.
        """
        call, chain, inner = str(fields.get("key", "")), fields.get("chain"), fields.get("item")
        if not isinstance(chain, list | tuple) or not isinstance(inner, dict):
            return
        agents = tuple(str(name) for name in chain)
        if (call, agents) not in self._lengths:
            self._lengths[call, agents] = 0
            yield AgentStarted(call, agents)
        name, given = inner.get("name"), inner.get("fields")
        shown = given if isinstance(given, dict) else {}
        length = self._lengths[call, agents]
        if name == "text_delta":
            text = str(shown.get("text", ""))
            self._lengths[call, agents] += len(text)
            yield AgentTextShown(call, agents, length, text)
        elif name in _VOID and length:
            self._lengths[call, agents] = 0
            yield AgentTextShown(call, agents, 0, "")
        elif _begins_reply(name, shown):
            self._lengths[call, agents] = 0  # its text replaces that of the reply before


def _begins_reply(name: object, fields: Mapping[str, object]) -> bool:
    is_model = str(fields.get("key", "")).endswith(".model")
    return name == "attempt_started" and is_model and not fields.get("continues")


def show_records(session: str, records: Sequence[Record]) -> Iterator[tuple[int, DisplayItem, str]]:
    """Yield the items of the turns that were not rewound, with the number of the turn and the place after it.

    Args:
        session: the session.
        records: all its records.
    """
    counted = {point.number for point in fold_history(records).points if point.counts}
    turn, fold = 0, DisplayFold(session)
    for sequence, record in enumerate(records):
        event = record.event
        if isinstance(event, TurnOpened):
            turn, fold = turn_of_key(event.key), DisplayFold(session, sequence)
        if turn in counted and turn_of_key(event.key) == turn:
            for shown in fold.feed_run(event):
                yield turn, shown, fold.position
