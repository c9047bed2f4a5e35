"""Counts how often a model repeats a call: a pure fold over the replies and results of a turn.

The comparison must never depend on the order of keys, on how a number is written, or on which tool
finished first. A changed result resets the count of its call, so polling does not count as repetition.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.core.duplicate_calls import find_duplicate_calls
from holdfast.core.effects import call_index
from holdfast.core.events import ToolFinished
from holdfast.core.messages import Media, Part, Text, ToolCall

LONGEST_CYCLE = 3
"""The number of calls in the longest cycle that is searched, such as A B C A B C."""

_MORE_RESULTS = 16
"""How many results may be stored beyond those of the latest calls before the others are dropped."""

_encode = msgspec.json.Encoder(order="deterministic").encode
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
        text = _encode(value).decode()
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
