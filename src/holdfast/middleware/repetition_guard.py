"""Ends a turn in which the model repeats the same call.

Before that it can warn the model, withdraw the tool, and ask a person. The call that reaches the limit
does not run. Calls are compared without the order of their keys, and it does not matter how a number is written or
which tool finished first. A changed result resets the count of its call, so polling is not a repetition. This is
not the circuit breaker of an endpoint, which is `resilience.breaker`. No answer must never count as a yes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_arguments
from holdfast.core.batch import find_duplicate_calls
from holdfast.core.constraints import PositiveInt, at_least, template
from holdfast.core.effects import call_index
from holdfast.core.errors import ConfigurationError, HoldfastError
from holdfast.core.events import Event, ModelReplied, QuestionAnswered, QuestionAsked, ToolFinished
from holdfast.core.messages import Media, Part, Text, ToolCall, ToolResult
from holdfast.core.notices import CircuitBreakerTriggered
from holdfast.core.question_log import ASKED
from holdfast.core.questions import Approved, Denied, PermissionQuestion, Timeout
from holdfast.middleware.decisions import Patch, Stop
from holdfast.middleware.hook_contexts import (
    BeforeIteration,
    BeforeTools,
    RunFacts,
    ToolUse,
    arguments_of,
)
from holdfast.middleware.hooks import Middleware

LONGEST_CYCLE = 3
"""The number of calls in the longest cycle that is searched, such as A B C A B C."""

_MORE_RESULTS = 16
"""How many results may be stored beyond those of the latest calls before the others are dropped."""

_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


class LastCall(Struct, frozen=True, gc=False):
    """The last call of one tool: its arguments as written, its signature, its count in a row."""

    arguments: str
    signature: str
    count: int


class WorstRepetition(Struct, frozen=True, gc=False):
    """The call of the last reply that was repeated most often."""

    tool: str = ""
    count: int = 0
    index: int = 0


_NONE = WorstRepetition()


class RecentCalls(Struct, frozen=True, gc=False):
    """The recent calls of a turn.

    Args:
        last: the last call of each tool.
        results: the results of recent calls, by signature.
        recent: the signatures of the latest calls of all tools.
        current: the tool and the signature of each call of the last reply.
        worst: the call of the last reply that was repeated most often.
    """

    last: Mapping[str, LastCall] = {}
    results: Mapping[str, tuple[Text | Media, ...]] = {}
    recent: tuple[str, ...] = ()
    current: tuple[tuple[str, str], ...] = ()
    worst: WorstRepetition = _NONE


def call_signature(call: ToolCall) -> str:
    """Return a call in normal form: keys sorted at every depth, 1.0 written as 1.

    >>> call = ToolCall("1", "f", '{"b": {"y": 1.0, "x": 2}, "a": 3}')
    >>> call_signature(call)
    'f({"a":3,"b":{"x":2,"y":1}})'
    """
    text = call.arguments
    try:
        value = _decode(text or "{}")
        if "." in text or "e" in text or "E" in text:  # otherwise no number is a float
            value = _normalize_numbers(value)
        text = _encode_sorted(value).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass  # malformed arguments are compared as written
    return f"{call.name or '_unknown'}({text})"


def _normalize_numbers(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _normalize_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(inner) for inner in value]
    return value


def count_reply(state: RecentCalls, parts: tuple[Part, ...], max_count: int) -> RecentCalls:
    """Return the state after a reply.

    Args:
        state: the state before it.
        parts: the parts of the reply; only tool calls count.
        max_count: the limit; higher counts are not searched.
    """
    last, recent, worst = dict(state.last), state.recent, _NONE
    current: list[tuple[str, str]] = []
    calls = [part for part in parts if isinstance(part, ToolCall)]
    duplicates = find_duplicate_calls(calls)
    for at, call in enumerate(calls):
        if at in duplicates:  # it does not run
            current.append(current[duplicates[at]])
            continue
        name, written = call.name or "_unknown", call.arguments
        before, count = last.get(name), 1
        same = before is not None and before.arguments == written
        signature = before.signature if before is not None and same else call_signature(call)
        if before is not None and before.signature == signature:
            count += before.count
        last[name] = LastCall(written, signature, count)
        may_cycle = signature in recent[-LONGEST_CYCLE:]  # otherwise no cycle has repeated
        recent = (*recent[1 - LONGEST_CYCLE * max_count :], signature)
        if may_cycle:
            count = max(count, _count_cycles(recent))
        if count > worst.count and worst.count < max_count:
            worst = WorstRepetition(name, count, len(current))
        current.append((name, signature))
    return RecentCalls(last, state.results, recent, tuple(current), worst)


def count_result(state: RecentCalls, event: ToolFinished) -> RecentCalls:
    """Return the state after one of the calls of the last reply has its result."""
    current = state.current
    index = call_index(event.key) if len(current) != 1 else 0
    if index >= len(current):
        return state
    name, signature = current[index]
    content, before = event.result.content, state.results.get(signature)
    if content == before:
        return state
    results = {**state.results, signature: content}
    if len(results) > len(state.recent) + _MORE_RESULTS:
        results = {key: results[key] for key in state.recent if key in results}
    if before is None:
        return RecentCalls(state.last, results, state.recent, state.current, state.worst)
    last, of_tool = state.last, state.last[name]
    if of_tool.signature == signature:
        last = {**last, name: LastCall(of_tool.arguments, signature, 1)}
    return RecentCalls(last, results, (signature,), state.current)


def _count_cycles(recent: tuple[str, ...]) -> int:
    """Return how often the last two or three calls were repeated in a row, as a group."""
    most = 0
    for length in range(2, LONGEST_CYCLE + 1):
        cycle = recent[-length:]
        if len(set(cycle)) == 1:
            continue
        times = 0
        end = len(recent)
        while end >= length and recent[end - length : end] == cycle:
            times += 1
            end -= length
        most = max(most, times)
    return most


REASON = "Circuit breaker: '{tool}' with same arguments would be called {count} times consecutively"
TEXT = (
    "⚠️ Circuit breaker triggered: Function '{tool}' with same arguments would be called {count} "
    "times consecutively. Stopping to prevent infinite loop."
)
HINT = (
    "\n\n⚠️ Function '{tool}' was called {count} times with the same arguments and gave the same "
    "result. Calling it again will not help: use what you have, or try another way."
)
QUESTION = (
    "The model repeats itself: this would be call {count} with the same arguments, and the result "
    "did not change. May it continue?"
)
SOURCE = "RepetitionGuard"

_encode = msgspec.json.encode


class RepetitionState(Struct, frozen=True, gc=False):
    """How often the model repeated calls, and the reactions of the guard in this turn.

    Args:
        calls: the counted calls.
        withdrawn_tools: the tools that are not offered any more.
        open_questions: the keys of open questions, each with the tool and signature of its call.
        allowed: tools and signatures that a person allowed to be repeated, each with the time at
            which this ends, in seconds since the epoch; None means never.
        edited_arguments: a signature of the last reply, and the arguments that it runs with.
    """

    calls: RecentCalls = RecentCalls()
    withdrawn_tools: frozenset[str] = frozenset()
    open_questions: Mapping[str, tuple[str, str]] = {}
    allowed: Mapping[str, float | None] = {}
    edited_arguments: tuple[str, Mapping[str, object]] | None = None


Next: TypeAlias = Callable[[ToolUse], Awaitable[ToolResult]]


class RepetitionGuard(Middleware[RepetitionState]):
    """Ends the turn before the same call runs for the nth time in a row.

    Calls are counted for each tool. Cycles of two or three calls (A B A B) count too, and so do equal
    calls of one reply. The other thresholds are lower; None turns a step off.

    Args:
        max_consecutive_calls: the call with this number does not run, and the turn ends.
        hint_at: after this many equal calls, the model gets a hint that it repeats itself.
        withdraw_at: after this many equal calls, the tool is not offered any more in this turn.
        ask_at: before the equal call with this number, a `PermissionQuestion` asks a person whether it
            may run. A yes lets it run, and further ones if the answer is remembered; anything else
            ends the turn.
        timeout: seconds to wait for that answer; None waits without limit.
        result_aware: whether a changed result resets the count of its call.
        text: the text that the turn ends with; `{tool}` and `{count}` are replaced.

    Raises:
        ConfigurationError: a number is invalid, or is never reached.
    """

    events = (ModelReplied, ToolFinished, QuestionAsked, QuestionAnswered)

    @check_arguments
    def __init__(
        self,
        max_consecutive_calls: Annotated[int, at_least(2)] = 3,
        *,
        hint_at: PositiveInt | None = None,
        withdraw_at: PositiveInt | None = None,
        ask_at: PositiveInt | None = None,
        timeout: Timeout = "default",
        result_aware: bool = True,
        text: Annotated[str, template("tool", "count")] = TEXT,
    ) -> None:
        _check_thresholds(
            max_consecutive_calls,
            {"hint_at": hint_at, "withdraw_at": withdraw_at, "ask_at": ask_at},
        )
        self.max_consecutive_calls = max_consecutive_calls
        self.hint_at = hint_at
        self.withdraw_at = withdraw_at
        self.ask_at = ask_at
        self.timeout = timeout
        self.result_aware = result_aware
        self.text = text
        questions = () if ask_at is None else (QuestionAsked, QuestionAnswered)
        thresholds = (hint_at, withdraw_at, ask_at)
        self._lowest_threshold = min(
            [max_consecutive_calls, *(count for count in thresholds if count is not None)]
        )
        self._hooks = (
            "before_tools",
            *(("before_iteration",) if hint_at is not None or withdraw_at is not None else ()),
            *(("wrap_tool",) if ask_at is not None else ()),
        )
        self.events = (ModelReplied, *((ToolFinished,) if result_aware else ()), *questions)

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        """When a threshold is reached, a tool is withdrawn, or arguments are edited."""
        if hook not in self._hooks:
            return False
        state = facts.state_of(self)
        if state.calls.worst.count >= self._lowest_threshold:
            return True
        return bool(state.withdrawn_tools) or state.edited_arguments is not None

    @property
    def initial(self) -> RepetitionState:
        """The state before the first call."""
        return RepetitionState()

    def fold(self, state: RepetitionState, event: Event) -> RepetitionState:
        """Count calls, compare their results, and remember answers."""
        if isinstance(event, ModelReplied):
            counted = count_reply(state.calls, event.reply.parts, self.max_consecutive_calls)
            withdrawn = state.withdrawn_tools
            if self.withdraw_at is not None and counted.worst.count >= self.withdraw_at:
                withdrawn |= {counted.worst.tool}
            return RepetitionState(counted, withdrawn, state.open_questions, state.allowed)
        if isinstance(event, ToolFinished):
            return _record_result(state, event)
        if isinstance(event, QuestionAsked):
            return _record_question(state, event)
        if isinstance(event, QuestionAnswered) and event.key in state.open_questions:
            return _record_answer(state, event)
        return state

    async def before_tools(self, context: BeforeTools) -> Stop | None:
        """Ask a person at `ask_at`; at the limit, run no tool of the reply and end the turn."""
        state = context.state_of(self)
        worst = state.calls.worst
        if worst.count < self.max_consecutive_calls and await self._may_continue(
            context, state, worst
        ):
            return None
        tool, count = worst.tool, worst.count
        context.emit(
            CircuitBreakerTriggered(context.agent, tool, count, context.iteration, context.now())
        )
        return Stop(REASON.format(tool=tool, count=count), self.text.format(tool=tool, count=count))

    async def _may_continue(
        self, context: BeforeTools, state: RepetitionState, worst: WorstRepetition
    ) -> bool:
        if self.ask_at is None or worst.count < self.ask_at:
            return True
        tool, signature = state.calls.current[worst.index]
        if worst.index in context.invalid:
            return True  # the call does not run, so there is nothing to approve
        call = context.calls[worst.index]
        if _is_allowed(state, (tool, signature, call_signature(call)), context.now()):
            return True
        question = PermissionQuestion(
            tool=tool,
            arguments=arguments_of(call) or {},
            description=QUESTION.format(count=worst.count),
            call_id=call.id,
            source=SOURCE,
        )
        try:
            answer = await context.ask(question, timeout=self.timeout)
        except HoldfastError:
            return False
        return isinstance(answer, Approved)

    async def before_iteration(self, context: BeforeIteration) -> Patch | None:
        """Add the hint to the instructions, and withdraw tools, as configured."""
        state = context.state_of(self)
        tool, count = state.calls.worst.tool, state.calls.worst.count
        instructions = tools = None
        if self.hint_at is not None and count >= self.hint_at:
            instructions = context.instructions + HINT.format(tool=tool, count=count)
        if state.withdrawn_tools:
            tools = tuple(spec for spec in context.tools if spec.name not in state.withdrawn_tools)
        if instructions is None and tools is None:
            return None
        return Patch(instructions=instructions, tools=tools)

    async def wrap_tool(self, context: ToolUse, call_next: Next) -> ToolResult:
        """Run the call with the arguments that a person wrote instead of the model's."""
        state = context.state_of(self)
        if state.edited_arguments is not None and context.index < len(state.calls.current):
            signature, arguments = state.edited_arguments
            if state.calls.current[context.index][1] == signature:
                edited = _encode(arguments).decode()
                call = msgspec.structs.replace(context.call, arguments=edited)
                context = msgspec.structs.replace(context, call=call)
        return await call_next(context)

    def describe(self) -> dict[str, object]:
        """The limits."""
        return {
            "max_consecutive_calls": self.max_consecutive_calls,
            "hint_at": self.hint_at,
            "withdraw_at": self.withdraw_at,
            "ask_at": self.ask_at,
        }


def _check_thresholds(max_calls: int, thresholds: Mapping[str, int | None]) -> None:
    for name, value in thresholds.items():
        if value is not None and value >= max_calls:
            raise ConfigurationError(
                name,
                f"is never reached: the turn ends before call {max_calls}, as max_consecutive_calls says",
                fix=f"Give {name} a number below {max_calls}, or max_consecutive_calls a larger one",
            )


def _is_allowed(state: RepetitionState, names: Iterable[str], now: float) -> bool:
    """Whether a person allowed the repetition by one of these names, for longer than until now."""
    ends = [state.allowed[name] for name in names if name in state.allowed]
    return any(end is None or now < end for end in ends)


def _record_result(state: RepetitionState, event: ToolFinished) -> RepetitionState:
    counted = count_result(state.calls, event)
    if counted is state.calls:
        return state
    withdrawn = state.withdrawn_tools
    if withdrawn and state.calls.worst.count and not counted.worst.count:  # the result changed
        withdrawn -= {state.calls.worst.tool}
    return RepetitionState(
        counted, withdrawn, state.open_questions, state.allowed, state.edited_arguments
    )


def _record_question(state: RepetitionState, event: QuestionAsked) -> RepetitionState:
    if event.kind != PermissionQuestion.__name__ or event.origin:
        return state
    question = msgspec.convert(event.question, PermissionQuestion)
    if question.source != SOURCE:
        return state
    call = state.calls.current[state.calls.worst.index]
    open_questions = {**state.open_questions, event.key.removesuffix(ASKED): call}
    return msgspec.structs.replace(state, open_questions=open_questions)


def _record_answer(state: RepetitionState, event: QuestionAnswered) -> RepetitionState:
    tool, signature = state.open_questions[event.key]
    rest = {key: about for key, about in state.open_questions.items() if key != event.key}
    allowed, edited = state.allowed, state.edited_arguments
    answer = msgspec.convert(event.answer, Approved | Denied)
    if isinstance(answer, Approved):
        approved = signature
        if answer.arguments is not None:
            edited = (signature, answer.arguments)
            written = _encode(answer.arguments).decode()
            approved = call_signature(ToolCall("", tool, written))
        if answer.remember != "once":
            subject = tool if answer.remember == "tool" else approved
            allowed = {**allowed, subject: event.expires_at}
    return RepetitionState(state.calls, state.withdrawn_tools, rest, allowed, edited)
