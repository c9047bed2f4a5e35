"""Ends a turn that goes in circles: the same call again and again (seed 000: CircuitBreaker).

The call that would be one too many does not run. A call whose result changes is no circle: polling
is allowed. Health of an endpoint is another thing: that is `resilience.breaker`. What is compared
must never depend on the order of keys or on how a number is written.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, ModelReplied, ToolFinished
from holdfast.core.limits import check_count
from holdfast.core.messages import Media, Text, ToolCall
from holdfast.core.notices import CircuitBreakerTriggered
from holdfast.middleware.decisions import Patch, Stop
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.moments import BeforeIteration, BeforeTools

REASON = "Circuit breaker: '{tool}' with same arguments would be called {count} times consecutively"
TEXT = (
    "⚠️ Circuit breaker triggered: Function '{tool}' with same arguments would be called {count} "
    "times consecutively. Stopping to prevent infinite loop."
)
HINT = (
    "\n\n⚠️ Function '{tool}' was called {count} times with the same arguments and gave the same "
    "result. Calling it again will not help: use what you have, or try another way."
)
LONGEST_CYCLE = 3
"""Calls of the longest circle that is looked for, such as A B C A B C."""

_MOST_RESULTS = 64


class Calls(Struct, frozen=True):
    """What was called lately.

    `last` is the last signature of each tool and how often it came in a row; `results` what the
    latest signatures gave; `recent` the latest signatures of all tools; `current` the tools and
    signatures of this reply; `worst` the tool of it that repeats itself most.
    """

    last: Mapping[str, tuple[str, int]] = {}
    results: Mapping[str, tuple[Text | Media, ...]] = {}
    recent: tuple[str, ...] = ()
    current: tuple[tuple[str, str], ...] = ()
    worst: tuple[str, int] = ("", 0)


def signature(call: ToolCall) -> str:
    """The call in one spelling: keys sorted at every depth, 1.0 as 1.

    >>> one = ToolCall("1", "f", '{"b": {"y": 1.0, "x": 2}, "a": 3}')
    >>> signature(one)
    'f({"a":3,"b":{"x":2,"y":1}})'
    """
    name = call.name or "_unknown"
    try:
        plain = _plain(msgspec.json.decode(call.arguments.encode() or b"{}"))
        shown = msgspec.json.encode(plain, order="deterministic").decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        shown = call.arguments
    return f"{name}({shown})"


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


class RepetitionGuard(Middleware[Calls]):
    """Stops the turn before the same call runs for the nth time in a row.

    Calls are counted for each tool; circles of two or three calls (A B A B) count as well, and so
    do equal calls of one reply.

    Args:
        max_consecutive_calls: the call with this number does not run.
        hint_at: after so many equal calls the model is told that it repeats itself.
        withdraw_at: after so many equal calls the tool is not offered any more.
        result_aware: a call whose result changes begins anew.
    """

    def __init__(
        self,
        max_consecutive_calls: int = 3,
        *,
        hint_at: int | None = None,
        withdraw_at: int | None = None,
        result_aware: bool = True,
    ) -> None:
        if max_consecutive_calls is None:
            raise ConfigurationError("max_consecutive_calls", "must be a whole number, got None")
        check_count("max_consecutive_calls", max_consecutive_calls, at_least=2)
        check_count("hint_at", hint_at, at_least=1)
        check_count("withdraw_at", withdraw_at, at_least=1)
        self.max_consecutive_calls = max_consecutive_calls
        self.hint_at = hint_at
        self.withdraw_at = withdraw_at
        self.result_aware = result_aware

    @property
    def initial(self) -> Calls:
        """Nothing was called yet."""
        return Calls()

    def fold(self, state: Calls, event: Event) -> Calls:
        """Count what the model asks for, and look at what came of it."""
        if isinstance(event, ModelReplied):
            return self._asked(state, event.reply.calls)
        if isinstance(event, ToolFinished) and self.result_aware:
            return _answered(state, event)
        return state

    def _asked(self, state: Calls, calls: tuple[ToolCall, ...]) -> Calls:
        last, recent, worst = dict(state.last), state.recent, ("", 0)
        current = tuple((call.name or "_unknown", signature(call)) for call in calls)
        for name, mark in current:
            before, count = last.get(name, ("", 0))
            count = count + 1 if mark == before else 1
            last[name] = (mark, count)
            known = mark in recent
            recent = (*recent, mark)[-LONGEST_CYCLE * self.max_consecutive_calls :]
            if known:
                count = max(count, _circles(recent))
            if count > worst[1] and worst[1] < self.max_consecutive_calls:
                worst = (name, count)
        return Calls(last, state.results, recent, current, worst)

    async def before_tools(self, moment: BeforeTools) -> Stop | None:
        """Run nothing of a reply that repeats a call once too often."""
        tool, count = moment.state_of(self).worst
        if count < self.max_consecutive_calls:
            return None
        moment.tell(
            CircuitBreakerTriggered(moment.agent, tool, count, moment.iteration, moment.now())
        )
        return Stop(REASON.format(tool=tool, count=count), TEXT.format(tool=tool, count=count))

    async def before_iteration(self, moment: BeforeIteration) -> Patch | None:
        """Say that it repeats itself, or take the tool away, where that was asked for."""
        if self.hint_at is None and self.withdraw_at is None:
            return None
        tool, count = moment.state_of(self).worst
        instructions = tools = None
        if self.hint_at is not None and count >= self.hint_at:
            instructions = moment.instructions + HINT.format(tool=tool, count=count)
        if self.withdraw_at is not None and count >= self.withdraw_at:
            tools = tuple(spec for spec in moment.tools if spec.name != tool)
        if instructions is None and tools is None:
            return None
        return Patch(instructions=instructions, tools=tools)

    def describe(self) -> dict[str, object]:
        """The limits."""
        return {
            "max_consecutive_calls": self.max_consecutive_calls,
            "hint_at": self.hint_at,
            "withdraw_at": self.withdraw_at,
        }


def _circles(recent: tuple[str, ...]) -> int:
    """How often the last two or three calls came in a row, as a whole."""
    most = 0
    for length in range(2, LONGEST_CYCLE + 1):
        circle = recent[-length:]
        if len(set(circle)) == 1:
            continue
        times = 0
        end = len(recent)
        while end >= length and recent[end - length : end] == circle:
            times += 1
            end -= length
        most = max(most, times)
    return most


def _answered(state: Calls, event: ToolFinished) -> Calls:
    index = int(event.key.rpartition(".")[2])
    if index >= len(state.current):
        return state
    name, mark = state.current[index]
    got, before = event.result.content, state.results.get(mark)
    results = {**state.results, mark: got}
    if len(results) > _MOST_RESULTS:
        results = {one: results[one] for one in state.recent if one in results}
    if before is None or before == got:
        return Calls(state.last, results, state.recent, state.current, state.worst)
    return Calls({**state.last, name: (mark, 1)}, results, (mark,), state.current)
