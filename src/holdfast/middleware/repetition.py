"""How often a model repeats itself: a pure count over the replies of a turn and what came of them.

What is compared must never depend on the order of keys, on how a number is written, or on which
tool finished first. A call whose result changes begins anew: polling is no circle.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.core.effects import call_index
from holdfast.core.events import ToolFinished
from holdfast.core.messages import Media, Part, Text, ToolCall

LONGEST_CYCLE = 3
"""Calls of the longest circle that is looked for, such as A B C A B C."""

_MORE_RESULTS = 16
"""Results that may gather beyond those of the latest calls before the others are dropped."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


class LastCall(Struct, frozen=True, gc=False):
    """The last call of one tool: as it was written, its signature, and how often in a row."""

    arguments: str
    signature: str
    count: int


class WorstRepetition(Struct, frozen=True, gc=False):
    """The call of the last reply that repeats itself most."""

    tool: str = ""
    count: int = 0
    index: int = 0


_NONE = WorstRepetition()


class RecentCalls(Struct, frozen=True, gc=False):
    """What was called lately.

    Args:
        last: the last call of each tool.
        results: what the latest signatures gave.
        recent: the latest signatures of all tools.
        current: the tools and the signatures of the last reply.
        worst: the one of them that repeats itself most.
    """

    last: Mapping[str, LastCall] = {}
    results: Mapping[str, tuple[Text | Media, ...]] = {}
    recent: tuple[str, ...] = ()
    current: tuple[tuple[str, str], ...] = ()
    worst: WorstRepetition = _NONE


def call_signature(call: ToolCall) -> str:
    """The call in one spelling: keys sorted at every depth, 1.0 as 1.

    >>> one = ToolCall("1", "f", '{"b": {"y": 1.0, "x": 2}, "a": 3}')
    >>> call_signature(one)
    'f({"a":3,"b":{"x":2,"y":1}})'
    """
    text = call.arguments
    try:
        value = _decode(text or "{}")
        if "." in text or "e" in text or "E" in text:  # else no number is a float
            value = _normalize_numbers(value)
        text = _encode(value).decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass  # compared as it is written
    return f"{call.name or '_unknown'}({text})"


def _normalize_numbers(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _normalize_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(one) for one in value]
    return value


def count_reply(state: RecentCalls, parts: tuple[Part, ...], max_count: int) -> RecentCalls:
    """The state after a reply.

    Args:
        state: before it.
        parts: of the reply; what asks for no tool is passed over.
        max_count: the count that is too high; what is beyond it is not looked for.
    """
    last, recent, worst = dict(state.last), state.recent, _NONE
    current: list[tuple[str, str]] = []
    for call in parts:
        if not isinstance(call, ToolCall):
            continue
        name, written = call.name or "_unknown", call.arguments
        before, count = last.get(name), 1
        same = before is not None and before.arguments == written
        mark = before.signature if before is not None and same else call_signature(call)
        if before is not None and before.signature == mark:
            count += before.count
        last[name] = LastCall(written, mark, count)
        circles = mark in recent[-LONGEST_CYCLE:]  # else none has gone round twice
        recent = (*recent[1 - LONGEST_CYCLE * max_count :], mark)
        if circles:
            count = max(count, _count_cycles(recent))
        if count > worst.count and worst.count < max_count:
            worst = WorstRepetition(name, count, len(current))
        current.append((name, mark))
    return RecentCalls(last, state.results, recent, tuple(current), worst)


def count_result(state: RecentCalls, event: ToolFinished) -> RecentCalls:
    """The state after one of the calls of the last reply has its result."""
    current = state.current
    index = call_index(event.key) if len(current) != 1 else 0
    if index >= len(current):
        return state
    name, mark = current[index]
    got, before = event.result.content, state.results.get(mark)
    if got == before:
        return state
    results = {**state.results, mark: got}
    if len(results) > len(state.recent) + _MORE_RESULTS:
        results = {one: results[one] for one in state.recent if one in results}
    if before is None:
        return RecentCalls(state.last, results, state.recent, state.current, state.worst)
    last, of_tool = state.last, state.last[name]
    if of_tool.signature == mark:
        last = {**last, name: LastCall(of_tool.arguments, mark, 1)}
    return RecentCalls(last, results, (mark,), state.current)


def _count_cycles(recent: tuple[str, ...]) -> int:
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
