"""The fold from what observers see of one drive of a turn to the spans and the metrics of it.

It knows no SDK and no clock: the time of each step is passed in, in nanoseconds since the epoch, and the steps come
back as values. The same steps at the same times always give the same spans. Token usage and cost stand on the spans
`chat` alone, since several back ends would count them twice on a parent. This module must never import OpenTelemetry,
and must never write the content of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from holdfast.core.cost import Cost, CostSum
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError
from holdfast.core.events import (
    Event,
    FailedTarget,
    ModelFailed,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    ResultsWithheld,
    ToolFinished,
    TurnClosed,
    TurnInterrupted,
)
from holdfast.core.messages import NO_USAGE, Reply, Usage
from holdfast.core.model_request import ModelSettings
from holdfast.core.notices import AttemptAbandoned, BreakerChanged, Notice, RetryScheduled
from holdfast.resilience.pipeline import Failed
from holdfast.telemetry import genai_names as names
from holdfast.telemetry.observers import ObservedAttempt, ObservedTarget, ObservedTool, ObservedTurn

Value: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = Mapping[str, Value]

NANOSECONDS = 1_000_000_000
DRIVE = "drive"
"""The id of the span of the drive; every other span is below it."""


class StartSpan(Struct, frozen=True):
    """A span begins.

    Args:
        id: names the span within its drive.
        parent: the id of its parent; "" for the span of the drive.
        name: its name.
        kind: its kind.
        at: the time.
        attributes: its first attributes.
    """

    id: str
    parent: str
    name: str
    kind: Literal["internal", "client"]
    at: int
    attributes: Attributes


class EndSpan(Struct, frozen=True):
    """A span ends; `error` is the category of its failure, or ""."""

    id: str
    at: int
    attributes: Attributes
    error: str = ""


class AddEvent(Struct, frozen=True):
    """Something happens within a span."""

    id: str
    name: str
    at: int
    attributes: Attributes


class AddValue(Struct, frozen=True):
    """A value of a metric."""

    metric: str
    value: float
    attributes: Attributes


SpanStep: TypeAlias = StartSpan | EndSpan | AddEvent | AddValue
"""One step that an adapter applies to an SDK."""


class _Chat(Struct, eq=False):
    """A model that is asked by one model call: all its attempts and the waits between them."""

    id: str
    target: ObservedTarget
    model: str
    began_at: int
    attempts: int = 0
    open_attempts: tuple[str, ...] = ()
    ended_at: int = 0
    has_reply: bool = False
    error: str = ""
    first_content: float | None = None
    cancelled: tuple[tuple[str, int, int], ...] = ()
    """The attempts that were cancelled, whose reason may follow: id, number, end."""


class _OpenCall(Struct, eq=False):
    """A tool call that was begun."""

    began_at: int
    attempts: int = 1


class DriveFold:
    """The spans of one drive of a turn.

    Args:
        drive: the drive.
    """

    __slots__ = (
        *("_began_at", "_calls", "_chats", "_drive", "_model_calls", "_questions", "_settings"),
        *("_status", "_tool_calls", "_waits"),
    )

    def __init__(self, drive: ObservedTurn) -> None:
        self._drive = drive
        self._chats: dict[str, list[_Chat]] = {}
        self._calls: dict[str, _OpenCall] = {}
        self._questions: dict[str, int] = {}
        self._waits: dict[str, RetryScheduled] = {}
        self._status: tuple[str, str] = ("", "")
        self._settings: tuple[ModelSettings, dict[str, Value]] | None = None
        self._began_at = self._model_calls = self._tool_calls = 0

    def begin_drive(self, at: int) -> list[SpanStep]:
        """Begin the span of the drive, and end that of its time in a queue."""
        drive = self._drive
        self._began_at = at
        attributes: dict[str, Value] = {
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT_NAME: drive.agent,
            names.RUN_ID: drive.run_id,
            names.TURN: drive.key,
        }
        if drive.session is not None:
            attributes[names.CONVERSATION_ID] = drive.session
        if drive.is_continued:
            attributes[names.CONTINUED] = True
        name = f"{names.INVOKE_AGENT} {drive.agent}"
        steps: list[SpanStep] = [
            StartSpan(DRIVE, "", name, "internal", at=at, attributes=attributes)
        ]
        if drive.submitted_at:
            submitted = min(int(drive.submitted_at * NANOSECONDS), at)
            steps += [
                StartSpan(names.QUEUE, DRIVE, names.QUEUE, "internal", at=submitted, attributes={}),
                EndSpan(names.QUEUE, at, {}),
                AddValue(
                    names.QUEUE_DURATION,
                    _seconds(submitted, at),
                    {names.AGENT_NAME: drive.agent},
                ),
            ]
        return steps

    def end_drive(self, at: int, error: BaseException | None = None) -> list[SpanStep]:
        """End the span of the drive, and all that are open below it.

        Args:
            at: the time.
            error: the exception that ended the drive, if any.
        """
        steps: list[SpanStep] = []
        for key in list(self._chats):
            steps += self._end_chats(key, at)
        for key, call in self._calls.items():
            ended = {names.ATTEMPTS: call.attempts}
            steps.append(EndSpan(key, at, ended, ErrorCategory.CANCELLED.value))
        for key in self._questions:
            steps.append(EndSpan(key, at, {names.QUESTION_OUTCOME: "open"}))
        status, category = self._status
        if not status:
            status = "waiting" if error is None else "open"
            category = "" if error is None else _name_exception(error)
        named = {names.OPERATION: names.INVOKE_AGENT, names.AGENT_NAME: self._drive.agent}
        timed = {**named, names.ERROR_TYPE: category} if category else named
        return [
            *steps,
            EndSpan(DRIVE, at, {names.STATUS: status}, category),
            AddValue(names.AGENT_DURATION, _seconds(self._began_at, at), timed),
            AddValue(names.AGENT_INFERENCE_CALLS, self._model_calls, named),
            AddValue(names.AGENT_TOOL_CALLS, self._tool_calls, named),
        ]

    def begin_attempt(self, call: ObservedAttempt, at: int) -> tuple[str, list[SpanStep]]:
        """Begin an attempt of a model; returns the id of its span and the steps.

        Args:
            call: the attempt.
            at: the time.
        """
        chats = self._chats.setdefault(call.key, [])
        steps: list[SpanStep] = []
        chat = chats[-1] if chats else None
        is_hedge = chat is not None and bool(chat.open_attempts) and chat.target == call.target
        if chat is not None:
            steps += _end_cancelled(chat)
        if chat is None or chat.target != call.target or chat.open_attempts or chat.has_reply:
            chat = _Chat(f"{call.key}#{len(chats)}", call.target, call.request.model, at)
            chats.append(chat)
            self._model_calls += 1
            attributes = self._describe_request(call)
            if is_hedge:
                attributes[names.HEDGE] = True
            name = f"{names.CHAT} {call.request.model}"
            steps.append(StartSpan(chat.id, DRIVE, name, "client", at=at, attributes=attributes))
        chat.attempts += 1
        span = f"{chat.id}.{chat.attempts}"
        chat.open_attempts = (*chat.open_attempts, span)
        about: dict[str, Value] = {names.ATTEMPT_NUMBER: call.attempt}
        wait = self._waits.pop(call.key, None)
        if wait is not None:
            about[names.ATTEMPT_WAIT] = wait.delay
        steps.append(StartSpan(span, chat.id, names.ATTEMPT, "internal", at=at, attributes=about))
        return span, steps

    def end_attempt(self, call: ObservedAttempt, span: str, at: int) -> list[SpanStep]:
        """End an attempt of a model.

        Args:
            call: the attempt, with its outcome.
            span: the id of its span.
            at: the time.
        """
        chat = self._find_chat(call.key, span)
        if chat is None or span not in chat.open_attempts:
            return []
        chat.open_attempts = tuple([one for one in chat.open_attempts if one != span])
        chat.ended_at = at
        if call.first_content_at is not None:
            chat.first_content = max(0.0, call.first_content_at - call.began_at)
        outcome = call.outcome
        if outcome is None:
            chat.error = ErrorCategory.CANCELLED.value
            chat.cancelled = (*chat.cancelled, (span, call.attempt, at))
            return []
        if isinstance(outcome, Failed):
            chat.error = outcome.info.category.value
            return [*_end_failed(span, at, outcome.info), self._count_attempt(chat, chat.error)]
        chat.has_reply, chat.error = True, ""
        return [EndSpan(span, at, {}), self._count_attempt(chat, "")]

    def begin_tool(self, call: ObservedTool, at: int) -> list[SpanStep]:
        """Begin an attempt of a tool; its span covers all attempts.

        Args:
            call: the attempt.
            at: the time.
        """
        known = self._calls.get(call.key)
        if known is not None:
            known.attempts += 1
            wait = self._waits.pop(call.key, None)
            about: dict[str, Value] = {names.ATTEMPT_NUMBER: call.attempt}
            if wait is not None:
                about[names.ATTEMPT_WAIT] = wait.delay
                about[names.ERROR_TYPE] = wait.error.category.value
            return [AddEvent(call.key, names.RETRY, at, about)]
        self._calls[call.key] = _OpenCall(at)
        self._tool_calls += 1
        attributes: dict[str, Value] = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: call.name,
            names.TOOL_TYPE: "function",
            names.KEY: call.key,
        }
        if call.call_id:
            attributes[names.TOOL_CALL_ID] = call.call_id
        name = f"{names.EXECUTE_TOOL} {call.name}"
        return [StartSpan(call.key, DRIVE, name, "internal", at=at, attributes=attributes)]

    def feed(self, item: Event | Notice, at: int) -> list[SpanStep]:
        """Take an event or a notice of the run.

        Args:
            item: the event or notice.
            at: the time.
        """
        take = self._STEPS.get(type(item))
        return [] if take is None else take(self, item, at)

    @classmethod
    def reads_item(cls, item: Event | Notice) -> bool:
        """Whether an item has a meaning for spans."""
        return type(item) in cls._STEPS

    def _note_retry(self, item: RetryScheduled, _at: int) -> list[SpanStep]:
        self._waits[item.key] = item
        return []

    def _end_replied(self, item: ModelReplied, at: int) -> list[SpanStep]:
        used = item.reply.usage + (item.lost or NO_USAGE)
        return self._end_call(item, _Total(used, item.cost, item.tried, item.reply), at)

    def _end_failed_call(self, item: ModelFailed, at: int) -> list[SpanStep]:
        used = item.partial.usage if item.partial is not None else NO_USAGE
        used, error = used + (item.lost or NO_USAGE), item.error.category.value
        return self._end_call(item, _Total(used, item.cost, item.tried, item.partial, error), at)

    def _end_withheld(self, item: ResultsWithheld, at: int) -> list[SpanStep]:
        error = item.error.category.value
        total = _Total(item.lost or NO_USAGE, item.cost, item.tried, None, error)
        return self._end_call(item, total, at)

    def _change_breaker(self, item: BreakerChanged, _at: int) -> list[SpanStep]:
        state = float(names.BREAKER_STATES.get(item.after, -1))
        return [AddValue(names.BREAKER_STATE, state, {names.BREAKER_TARGET: item.target})]

    def _close_turn(self, item: TurnClosed, _at: int) -> list[SpanStep]:
        category = item.error.category.value if item.error is not None else ""
        self._status = (item.status.value, category)
        return []

    def _describe_request(self, call: ObservedAttempt) -> dict[str, Value]:
        request, target = call.request, call.target
        attributes: dict[str, Value] = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: names.name_provider(target.provider),
            names.REQUEST_MODEL: request.model,
            names.REQUEST_STREAM: request.stream,
            names.KEY: call.key,
            **names.name_server(target.address),
        }
        if self._drive.session is not None:
            attributes[names.CONVERSATION_ID] = self._drive.session
        settings = request.settings
        if self._settings is None or self._settings[0] is not settings:
            self._settings = (settings, _describe_settings(settings))
        attributes |= self._settings[1]
        if request.output is not None:
            attributes[names.OUTPUT_TYPE] = "json"
        return attributes

    def _find_chat(self, key: str, span: str) -> _Chat | None:
        chat = span.rpartition(".")[0]
        return next((one for one in self._chats.get(key, ()) if one.id == chat), None)

    def _count_attempt(self, chat: _Chat, category: str) -> AddValue:
        provider = names.name_provider(chat.target.provider)
        about = {names.PROVIDER: provider, names.REQUEST_MODEL: chat.model}
        if category:
            about[names.ERROR_TYPE] = category
        return AddValue(names.ATTEMPTS_METRIC, 1, about)

    def _name_cancelled(self, item: AttemptAbandoned, _at: int) -> list[SpanStep]:
        """End an attempt that was cancelled from within, such as by a time limit, with its reason."""
        steps: list[SpanStep] = []
        for chat in self._chats.get(item.key, ()):
            for one in chat.cancelled:
                span, number, ended_at = one
                if number == item.attempt and not steps:
                    chat.cancelled = tuple(it for it in chat.cancelled if it is not one)
                    chat.error = item.error.category.value
                    steps += _end_failed(span, ended_at, item.error)
                    steps.append(self._count_attempt(chat, chat.error))
        return steps

    def _end_call(
        self, item: ModelReplied | ModelFailed | ResultsWithheld, total: _Total, at: int
    ) -> list[SpanStep]:
        key = item.key.replace(".withheld", ".model")
        steps: list[SpanStep] = []
        if not self._chats.get(key):
            if not total.usage.total and (not isinstance(item, ModelReplied) or item.by):
                return []  # the calls of code, or a failure before a model was asked
            steps += self._show_unasked(key, total.reply, at)
        return [*steps, *self._end_chats(key, at, total)]

    def _show_unasked(self, key: str, reply: Reply | None, at: int) -> list[SpanStep]:
        """Begin the span of a reply that no model was asked for: from a cache, or from a hook."""
        model = reply.model if reply is not None else ""
        self._chats[key] = [_Chat(f"{key}#0", ObservedTarget(model), model, at, has_reply=True)]
        about: dict[str, Value] = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: names.name_provider(""),
            names.KEY: key,
            names.UNASKED: True,
        }
        if model:
            about[names.REQUEST_MODEL] = model
        name = f"{names.CHAT} {model}".rstrip()
        return [StartSpan(f"{key}#0", DRIVE, name, "client", at=at, attributes=about)]

    def _end_chats(self, key: str, at: int, total: _Total | None = None) -> list[SpanStep]:
        """End the chats of a model call, each with its part of the usage and the cost."""
        chats = self._chats.pop(key, [])
        self._waits.pop(key, None)
        total = total or _NOTHING
        replied = [one for one in chats if one.has_reply]
        last = (replied or chats)[-1] if chats else None
        parts = _share_out(chats, last, total)
        steps: list[SpanStep] = []
        for chat in chats:
            chat.cancelled = (*chat.cancelled, *((one, 0, at) for one in chat.open_attempts))
            steps += _end_cancelled(chat)
            usage, cost = parts.get(chat.id, (NO_USAGE, None))
            part = _Total(usage, cost, (), None, chat.error)
            if chat is last:
                part = _Total(usage, cost, (), total.reply, total.error or chat.error)
            steps += _end_chat(chat, chat.ended_at or at, part)
        return steps

    def _interrupt(self, item: TurnInterrupted, at: int) -> list[SpanStep]:
        partial = item.partial
        if partial is None:
            return []
        steps: list[SpanStep] = []
        for key in list(self._chats):
            error = ErrorCategory.CANCELLED.value
            total = _Total(partial.usage, item.cost, (), partial, error)
            steps += self._end_chats(key, at, total)
        return steps

    def _end_tool(self, item: ToolFinished, at: int) -> list[SpanStep]:
        call = self._calls.pop(item.key, None)
        if call is None:
            return []  # it was not run: denied, unknown, or a copy
        result = item.result
        category = item.error.category.value if item.error is not None else ""
        if result.is_error and not category:
            category = ErrorCategory.UNKNOWN.value
        about: dict[str, Value] = {
            names.TOOL_OUTCOME: result.outcome,
            names.ATTEMPTS: call.attempts,
        }
        named = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: result.name,
            names.TOOL_TYPE: "function",
        }
        if category:
            named[names.ERROR_TYPE] = category
        return [
            EndSpan(item.key, at, about, category),
            AddValue(names.TOOL_DURATION, _seconds(call.began_at, at), named),
        ]

    def _ask(self, item: QuestionAsked, at: int) -> list[SpanStep]:
        key = item.key.removesuffix(".asked")
        self._questions[key] = at
        effect = key.partition(".ask.")[0]
        parent = effect if effect in self._calls else DRIVE
        about = {names.QUESTION_KIND: item.kind}
        return [StartSpan(key, parent, names.QUESTION, "internal", at=at, attributes=about)]

    def _answer(self, item: QuestionAnswered | QuestionUnanswered, at: int) -> list[SpanStep]:
        if self._questions.pop(item.key, None) is None:
            return []
        outcome = "answered" if isinstance(item, QuestionAnswered) else item.why
        return [EndSpan(item.key, at, {names.QUESTION_OUTCOME: str(outcome)})]

    _STEPS: ClassVar[dict[type, Callable[[DriveFold, Any, int], list[SpanStep]]]] = {
        AttemptAbandoned: _name_cancelled,
        BreakerChanged: _change_breaker,
        ModelFailed: _end_failed_call,
        ModelReplied: _end_replied,
        QuestionAnswered: _answer,
        QuestionAsked: _ask,
        QuestionUnanswered: _answer,
        ResultsWithheld: _end_withheld,
        RetryScheduled: _note_retry,
        ToolFinished: _end_tool,
        TurnClosed: _close_turn,
        TurnInterrupted: _interrupt,
    }
    """What is done with the items that have a meaning for spans, by their types."""


class _Total(Struct, frozen=True):
    """The usage, the cost and the end of a model call, and the targets that failed before its outcome."""

    usage: Usage
    cost: Cost | None
    tried: tuple[FailedTarget, ...] = ()
    reply: Reply | None = None
    error: str = ""


_NOTHING = _Total(NO_USAGE, None)


def _share_out(
    chats: list[_Chat], last: _Chat | None, total: _Total
) -> dict[str, tuple[Usage, Cost | None]]:
    """Return the part of each chat, so that their sum is the total: what no failed target has is the last one's."""
    parts: dict[str, tuple[Usage, Cost | None]] = {}
    rest, before = total.usage, CostSum()
    for failed in total.tried:
        chat = next((one for one in chats if one.target.name == failed.target), None)
        if chat is None or chat is last or chat.id in parts:
            continue
        parts[chat.id] = (failed.usage, failed.cost)
        rest = rest - failed.usage
        before.add(failed.cost, has_used=False)
    if last is not None:
        cost, earlier = total.cost, before.cost
        if cost is not None and earlier is not None:
            cost = Cost(cost.amount - earlier.amount, cost.currency, known=cost.known)
        parts[last.id] = (rest, cost)
    return parts


def _end_chat(chat: _Chat, at: int, part: _Total) -> list[SpanStep]:
    """Return the end of a chat, and its metrics."""
    reply, usage, cost = part.reply, part.usage, part.cost
    about: dict[str, Value] = {names.ATTEMPTS: chat.attempts, **_describe_reply(reply)}
    if chat.first_content is not None:
        about[names.RESPONSE_TIME_TO_FIRST_CHUNK] = chat.first_content
    if usage.total or reply is not None:
        about[names.USAGE_INPUT], about[names.USAGE_OUTPUT] = usage.input, usage.output
        for field, attribute in names.USAGE_PARTS.items():
            if (count := getattr(usage, field)) > 0:
                about[attribute] = count
    if cost is not None:
        about[names.COST], about[names.COST_CURRENCY] = str(cost.amount), cost.currency
        about[names.COST_KNOWN] = cost.known
    end = EndSpan(chat.id, at, about, part.error)
    return [end, *_measure_chat(chat, at, part)]


def _describe_reply(reply: Reply | None) -> dict[str, Value]:
    if reply is None:
        return {}
    about: dict[str, Value] = {
        names.RESPONSE_FINISH_REASONS: (reply.raw_finish or reply.finish.value,)
    }
    if reply.id:
        about[names.RESPONSE_ID] = reply.id
    if reply.model:
        about[names.RESPONSE_MODEL] = reply.model
    return about


def _measure_chat(chat: _Chat, at: int, part: _Total) -> list[SpanStep]:
    """Return the metrics of a chat."""
    cost = part.cost
    named: dict[str, Value] = {
        names.OPERATION: names.CHAT,
        names.PROVIDER: names.name_provider(chat.target.provider),
        names.REQUEST_MODEL: chat.model,
        **names.name_server(chat.target.address),
    }
    if part.reply is not None and part.reply.model:
        named[names.RESPONSE_MODEL] = part.reply.model
    steps = _count_usage(part.usage, named)
    if cost is not None and cost.amount:
        paid = {**named, names.COST_CURRENCY: cost.currency}
        steps.append(AddValue(names.COST_METRIC, float(cost.amount), paid))
    timed = {**named, names.ERROR_TYPE: part.error} if part.error else named
    if chat.attempts:
        steps.append(AddValue(names.INFERENCE_DURATION, _seconds(chat.began_at, at), timed))
    if chat.first_content is not None:
        steps.append(AddValue(names.TIME_TO_FIRST_CHUNK, chat.first_content, timed))
    return steps


def _count_usage(usage: Usage, named: Attributes) -> list[SpanStep]:
    """Return the counts of tokens, each with its modality, as far as it is known."""
    steps: list[SpanStep] = []
    unknown = {**named, names.MODALITY: "unknown"}
    sounds = {"input": usage.audio_input, "output": usage.audio_output}
    for field, metric in names.TOKENS.items():
        count, sound = getattr(usage, field), sounds.get(field, 0)
        if count > sound:
            steps.append(AddValue(metric, count - sound, unknown))
        if sound:
            steps.append(AddValue(metric, sound, {**named, names.MODALITY: "audio"}))
    return steps


def _describe_settings(settings: ModelSettings) -> dict[str, Value]:
    """Return the attributes for the settings of a request."""
    about: dict[str, Value] = {}
    for field, attribute in names.SETTINGS.items():
        value = getattr(settings, field)
        if value is not None:
            about[attribute] = value
    if settings.stop:
        about[names.REQUEST_STOP_SEQUENCES] = settings.stop
    return about


def _end_failed(span: str, at: int, info: ErrorInfo) -> list[SpanStep]:
    about: dict[str, Value] = {names.LANDED: info.landed.value}
    if info.status is not None:
        about[names.HTTP_STATUS] = info.status
    return [EndSpan(span, at, about, info.category.value)]


def _end_cancelled(chat: _Chat) -> list[SpanStep]:
    """End the attempts that were cancelled and whose reason nobody said."""
    ended, chat.cancelled = chat.cancelled, ()
    return [EndSpan(span, at, {}, ErrorCategory.CANCELLED.value) for span, _, at in ended]


def _name_exception(error: BaseException) -> str:
    return error.info.category.value if isinstance(error, HoldfastError) else type(error).__name__


def _seconds(begin: int, end: int) -> float:
    return max(0, end - begin) / NANOSECONDS
