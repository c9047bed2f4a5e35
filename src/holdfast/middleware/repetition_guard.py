"""Ends a turn that goes in circles: the same call again and again.

Before that it may tell the model, take the tool away, and ask somebody. The call that would be one
too many does not run. Health of an endpoint is another thing: that is `resilience.breaker`. Silence
must never be taken for a yes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_flag
from holdfast.core.errors import ConfigurationError, HoldfastError
from holdfast.core.events import Event, ModelReplied, QuestionAnswered, QuestionAsked, ToolFinished
from holdfast.core.limits import check_count, check_whole
from holdfast.core.messages import ToolResult
from holdfast.core.notices import CircuitBreakerTriggered
from holdfast.core.question_log import ASKED
from holdfast.core.questions import (
    Approved,
    Denied,
    PermissionQuestion,
    Timeout,
    check_timeout,
)
from holdfast.middleware.decisions import Patch, Stop
from holdfast.middleware.hook_contexts import (
    BeforeIteration,
    BeforeTools,
    ToolUse,
    arguments_of,
)
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.repetition import RecentCalls, WorstRepetition, count_reply, count_result

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
    "did not change. Shall it go on?"
)
SOURCE = "RepetitionGuard"

_encode = msgspec.json.encode


class RepetitionState(Struct, frozen=True, gc=False):
    """How often the model repeated itself, and what was done about it in this turn.

    Args:
        calls: the count.
        withdrawn_tools: the tools that are not offered any more.
        open_questions: the questions that wait, with the tool and the signature that they are about.
        allowed: tools and signatures that somebody allowed to be repeated.
        edited_arguments: a signature of the last reply, and the arguments that it runs with.
    """

    calls: RecentCalls = RecentCalls()
    withdrawn_tools: frozenset[str] = frozenset()
    open_questions: Mapping[str, tuple[str, str]] = {}
    allowed: frozenset[str] = frozenset()
    edited_arguments: tuple[str, Mapping[str, object]] | None = None


Next: TypeAlias = Callable[[ToolUse], Awaitable[ToolResult]]


class RepetitionGuard(Middleware[RepetitionState]):
    """Ends the turn before the same call runs for the nth time in a row.

    Calls are counted for each tool; circles of two or three calls (A B A B) count as well, and so
    do equal calls of one reply. Below that number it can do less, from the mildest on; what is
    None is left out.

    Args:
        max_consecutive_calls: the call with this number does not run.
        hint_at: after so many equal calls the model is told that it repeats itself.
        withdraw_at: after so many equal calls the tool is not offered in this turn any more.
        ask_at: before the equal call with this number somebody is asked whether it may run, by a
            `PermissionQuestion`. A yes goes on, also for further ones if it says so; anything else
            ends the turn.
        timeout: seconds to wait for that answer; None waits for ever.
        result_aware: a call whose result changes begins anew.

    Raises:
        ConfigurationError: a number is none, or is never reached.
    """

    def __init__(
        self,
        max_consecutive_calls: int = 3,
        *,
        hint_at: int | None = None,
        withdraw_at: int | None = None,
        ask_at: int | None = None,
        timeout: Timeout = "default",
        result_aware: bool = True,
    ) -> None:
        check_whole("max_consecutive_calls", max_consecutive_calls, at_least=2)
        check_flag("result_aware", result_aware)
        _check_thresholds(
            max_consecutive_calls,
            {"hint_at": hint_at, "withdraw_at": withdraw_at, "ask_at": ask_at},
        )
        check_timeout("timeout", timeout)
        self.max_consecutive_calls = max_consecutive_calls
        self.hint_at = hint_at
        self.withdraw_at = withdraw_at
        self.ask_at = ask_at
        self.timeout = timeout
        self.result_aware = result_aware
        questions = () if ask_at is None else (QuestionAsked, QuestionAnswered)
        rungs = (hint_at, withdraw_at, ask_at)
        self._lowest_threshold = min(
            [max_consecutive_calls, *(one for one in rungs if one is not None)]
        )
        self.events = (ModelReplied, *((ToolFinished,) if result_aware else ()), *questions)

    def acts(self, hook: str) -> bool:
        """Where a setting asks for it."""
        if hook == "before_iteration":
            return self.hint_at is not None or self.withdraw_at is not None
        return hook != "wrap_tool" or self.ask_at is not None

    def idle(self, state: RepetitionState) -> bool:
        """While no count is high, nothing was taken away, and nothing was said."""
        if state.calls.worst.count >= self._lowest_threshold:
            return False
        return not state.withdrawn_tools and state.edited_arguments is None

    @property
    def initial(self) -> RepetitionState:
        """Nothing was called yet."""
        return RepetitionState()

    def fold(self, state: RepetitionState, event: Event) -> RepetitionState:
        """Count what the model asks for, look at what came of it, and keep what somebody said."""
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
        """Run nothing of a reply that repeats a call once too often; ask before that."""
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
        return Stop(REASON.format(tool=tool, count=count), TEXT.format(tool=tool, count=count))

    async def _may_continue(
        self, context: BeforeTools, state: RepetitionState, worst: WorstRepetition
    ) -> bool:
        if self.ask_at is None or worst.count < self.ask_at:
            return True
        tool, mark = state.calls.current[worst.index]
        if tool in state.allowed or mark in state.allowed:
            return True
        if worst.index in context.invalid:
            return True  # it will not run, so that there is nothing to approve
        call = context.calls[worst.index]
        request = PermissionQuestion(
            tool=tool,
            arguments=arguments_of(call) or {},
            description=QUESTION.format(count=worst.count),
            call_id=call.id,
            source=SOURCE,
        )
        try:
            answer = await context.ask(request, timeout=self.timeout)
        except HoldfastError:
            return False
        return isinstance(answer, Approved)

    async def before_iteration(self, context: BeforeIteration) -> Patch | None:
        """Say that it repeats itself, and take tools away, where that was asked for."""
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
        """Run with the arguments that somebody wrote in place of the model's."""
        state = context.state_of(self)
        if state.edited_arguments is not None and context.index < len(state.calls.current):
            mark, arguments = state.edited_arguments
            if state.calls.current[context.index][1] == mark:
                written = _encode(arguments).decode()
                call = msgspec.structs.replace(context.call, arguments=written)
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
        check_count(name, value, at_least=1)
        if value is not None and value >= max_calls:
            raise ConfigurationError(
                name,
                f"is never reached: the turn ends before call {max_calls}, as max_consecutive_calls says",
                fix=f"Give {name} a number below {max_calls}, or max_consecutive_calls a larger one",
            )


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
    if event.kind != PermissionQuestion.__name__:
        return state
    request = msgspec.convert(event.question, PermissionQuestion)
    if request.source != SOURCE:
        return state
    about = state.calls.current[state.calls.worst.index]
    opened = {**state.open_questions, event.key.removesuffix(ASKED): about}
    return msgspec.structs.replace(state, open_questions=opened)


def _record_answer(state: RepetitionState, event: QuestionAnswered) -> RepetitionState:
    tool, mark = state.open_questions[event.key]
    rest = {key: about for key, about in state.open_questions.items() if key != event.key}
    allowed, edited = state.allowed, state.edited_arguments
    answer = msgspec.convert(event.answer, Approved | Denied)
    if isinstance(answer, Approved):
        if answer.remember != "once":
            allowed |= {tool if answer.remember == "tool" else mark}
        if answer.arguments is not None:
            edited = (mark, answer.arguments)
    return RepetitionState(state.calls, state.withdrawn_tools, rest, allowed, edited)
