"""Checks that every tool call in a history has a result and the reverse, and arranges both as servers need them.

Servers reject a history with a call without a result, or a result without a call. This module
rejects it before it is sent. It also replaces ids that a wire does not accept (missing, repeated,
or with special characters), by the same ids for every request, and puts the results of one message's
calls into one message, in the order and under the names of the calls. It changes nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message, Part, ToolCall, ToolResult
from holdfast.core.transcript import Transcript

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,256}")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


def has_plain_id(call: ToolCall) -> bool:
    """Whether every wire accepts the call's id.

    >>> has_plain_id(ToolCall("call_1", "pay")), has_plain_id(ToolCall("", "pay"))
    (True, False)
    """
    return _PLAIN_ID.fullmatch(call.id) is not None


def check_pairs(
    messages: Sequence[Message], accepts_id: Callable[[ToolCall], bool] = has_plain_id
) -> bool:
    """Check that calls and results match, and return whether all ids can stay as they are.

    Args:
        messages: the history.
        accepts_id: whether the wire accepts the id of a call.

    Raises:
        ConfigurationError: a result has no call, a call has no result, or one of them is in a
            message of another role.
    """
    seen: set[str] = set()
    open_calls: dict[str, int] = {}
    plain = True
    asked_at = 0
    for at, message in enumerate(messages):
        if open_calls and message.role != "tool":
            _refuse_open(messages[asked_at], asked_at, next(iter(open_calls)))
        for part in message.parts:
            if isinstance(part, ToolCall):
                if message.role != "assistant":
                    _refuse_role(at, message, "assistant", "a tool call")
                plain = plain and part.id not in seen and accepts_id(part)
                seen.add(part.id)
                open_calls[part.id] = open_calls.get(part.id, 0) + 1
                asked_at = at
            elif isinstance(part, ToolResult):
                if message.role != "tool":
                    _refuse_role(at, message, "tool", "a tool result")
                if open_calls.get(part.call_id) == 1:
                    del open_calls[part.call_id]
                else:
                    _close_call(at, part, open_calls)
    if open_calls:
        _refuse_open(messages[asked_at], asked_at, next(iter(open_calls)))
    return plain


def check_new_pairs(
    messages: Sequence[Message],
    known_count: int,
    accepts_id: Callable[[ToolCall], bool] = has_plain_id,
) -> bool:
    """Do the same as `check_pairs`, for a history whose first `known_count` messages have passed it.

    Only the later messages are checked in full, so that an iteration of a long run stays cheap.
    """
    tail, plain = check_tail_pairs(messages, known_count, accepts_id)
    start = len(messages) - len(tail)
    if not (start and plain):
        return plain
    fresh = frozenset(call.id for message in tail for call in message.calls)
    if not fresh:
        return True
    if isinstance(messages, Transcript):
        return not messages.has_call(fresh, start)
    return not any(
        isinstance(part, ToolCall) and part.id in fresh
        for message in messages[:start]
        if message.role == "assistant"
        for part in message.parts
    )


def check_tail_pairs(
    messages: Sequence[Message],
    known_count: int,
    accepts_id: Callable[[ToolCall], bool] = has_plain_id,
) -> tuple[Sequence[Message], bool]:
    """Check the calls and results that come after the first `known_count` messages.

    Returns:
        The messages that were checked, and whether the ids in them can stay.
    """
    tail = find_tail(messages, known_count)
    try:
        return tail, check_pairs(tail, accepts_id)
    except ConfigurationError:
        # The check runs again from the beginning, so that the error names the right index.
        check_pairs(messages, accepts_id)
        raise


def find_tail(messages: Sequence[Message], known_count: int) -> Sequence[Message]:
    """Return the messages after the first `known_count`, from an earlier one on whose calls may lack results."""
    if known_count < 1:
        return messages[0:]
    known_count = min(known_count, len(messages))
    at, results = known_count - 1, 0
    message = messages[at]
    while at > 0 and message.role == "tool":
        results += len(message.parts)
        at -= 1
        message = messages[at]
    return messages[known_count if len(message.calls) == results else at :]


def arrange_results(messages: Sequence[Message], tail: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with the results of each message's calls in one message, in the order of the calls.

    Histories of a machine are so already. One that a program gives may have results in several messages,
    which most servers refuse, in another order, or under another name.

    Args:
        messages: the history, which must have passed `check_pairs`.
        tail: those at its end that are not known to be arranged (see `find_tail`).

    Returns:
        The same object if nothing is to be changed.
    """
    before = None
    for message in tail:
        if message.role == "tool" and not _are_in_order(before, message):
            break
        before = message
    else:
        return messages
    arranged: list[Message] = []
    answers: list[Part] = []
    for message in messages:
        if message.role == "tool":
            answers += message.parts
            continue
        if answers:
            arranged.append(_order_results(arranged[-1].calls, answers))
            answers = []
        arranged.append(message)
    return [*arranged, _order_results(arranged[-1].calls, answers)] if answers else arranged


def _are_in_order(before: Message | None, answers: Message) -> bool:
    """Whether a message holds the results of all calls of the message before it, in their order."""
    results = iter(answers.parts)
    for part in before.parts if before is not None else ():
        if isinstance(part, ToolCall):
            result = next(results, None)
            if not isinstance(result, ToolResult) or result.call_id != part.id:
                return False
            if result.name != part.name:
                return False
    return next(results, None) is None


def _order_results(calls: Sequence[ToolCall], answers: list[Part]) -> Message:
    results = [part for part in answers if isinstance(part, ToolResult)]
    others = [part for part in answers if not isinstance(part, ToolResult)]
    ordered: list[Part] = []
    for call in calls:
        result = next(result for result in results if result.call_id == call.id)
        results.remove(result)
        ordered.append(result if result.name == call.name else replace(result, name=call.name))
    return Message("tool", (*ordered, *others))


def replace_unsafe_ids(
    messages: Sequence[Message], accepts_id: Callable[[ToolCall], bool] = has_plain_id
) -> list[Message]:
    """Return the history with a unique id for each call that the wire accepts.

    The history must have passed `check_pairs`. The ids depend only on the history, and they stay
    the same when messages are added at its end.
    """
    used: dict[str, int] = {}
    waiting: list[tuple[str, str]] = []
    safe: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            waiting = [(call.id, _make_unique_id(call, used, accepts_id)) for call in message.calls]
            names = iter(waiting)
            parts = tuple(
                _rename_call(part, next(names)[1]) if isinstance(part, ToolCall) else part
                for part in message.parts
            )
            safe.append(Message(message.role, parts))
        elif message.role == "tool":
            safe.append(Message(message.role, tuple(_rename_results(message, waiting))))
        else:
            safe.append(message)
    return safe


def _rename_call(call: ToolCall, call_id: str) -> ToolCall:
    if call.id == call_id:
        return call
    # The id of the vendor's item would stand for the call with the other id.
    extra = {name: value for name, value in (call.extra or {}).items() if name != "id"}
    return replace(call, id=call_id, extra=extra or None)


def _rename_results(message: Message, waiting: list[tuple[str, str]]) -> list[ToolResult]:
    results = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            pair = next(pair for pair in waiting if pair[0] == part.call_id)
            waiting.remove(pair)
            results.append(replace(part, call_id=pair[1]))
    return results


def _make_unique_id(
    call: ToolCall, used: dict[str, int], accepts_id: Callable[[ToolCall], bool]
) -> str:
    """Return an id that is not in `used`, which counts how often each id was needed."""
    stem = call.id if accepts_id(call) else _STRANGE.sub("_", call.id)[:48] or "call"
    unique = stem
    while unique in used:
        used[stem] += 1
        unique = f"{stem}_{used[stem]}"
    used[unique] = 1
    return unique


def _close_call(at: int, result: ToolResult, open_calls: dict[str, int]) -> None:
    """Close one of several open calls with the same id. Raises ConfigurationError if none is open."""
    count = open_calls.get(result.call_id)
    if count is None:
        raise ConfigurationError(
            f"messages[{at}]",
            f"the tool result for {result.call_id[:80]!r} has no open call in the message before it",
            fix="put results directly after the assistant message with their calls",
        )
    open_calls[result.call_id] = count - 1


def _refuse_open(message: Message, at: int, call_id: str) -> None:
    name = next((call.name for call in message.calls if call.id == call_id), "")
    raise ConfigurationError(
        f"messages[{at}]",
        f"the call {call_id[:80]!r} of tool {name[:80]!r} has no result",
        fix="add a tool message with a result for each call, or leave the calls out",
    )


def _refuse_role(at: int, message: Message, role: str, part_name: str) -> None:
    raise ConfigurationError(
        f"messages[{at}]", f"holds {part_name}, but its role is {message.role}", fix=f"use {role}"
    )
