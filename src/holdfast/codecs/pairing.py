"""Tool calls and their results in a history: that each has the other, and by which id.

Servers refuse a history in which a call lacks its result or a result its call, after it was sent
and with words of their own. This module refuses it before, and gives ids that a wire would not
take (missing, repeated, of strange characters) safe ones, the same at each request. It must never
change anything else of a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.core.transcript import Transcript

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,256}")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


def has_plain_id(call: ToolCall) -> bool:
    """Whether every wire takes the call's id.

    >>> has_plain_id(ToolCall("call_1", "pay")), has_plain_id(ToolCall("", "pay"))
    (True, False)
    """
    return _PLAIN_ID.fullmatch(call.id) is not None


def check_pairs(
    messages: Sequence[Message], accepts_id: Callable[[ToolCall], bool] = has_plain_id
) -> bool:
    """Refuse a history whose calls and results do not match; say whether its ids need no change.

    Args:
        messages: the history.
        accepts_id: whether the wire takes the id of a call as it is.

    Raises:
        ConfigurationError: a result without a call, a call without a result, or either of them in
            a message of another role.
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
                _close_call(at, part, open_calls)
    if open_calls:
        _refuse_open(messages[asked_at], asked_at, next(iter(open_calls)))
    return plain


def check_new_pairs(
    messages: Sequence[Message],
    known_count: int,
    accepts_id: Callable[[ToolCall], bool] = has_plain_id,
) -> bool:
    """The same as `check_pairs` for a history whose first `known_count` messages passed it before.

    Only what came since is looked at closely, so that an iteration of a long run stays cheap.
    """
    start, plain = check_tail_pairs(messages, known_count, accepts_id)
    if not (start and plain):
        return plain
    fresh = frozenset(call.id for message in messages[start:] for call in message.calls)
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
) -> tuple[int, bool]:
    """Refuse calls and results that do not match, among what came after `known_count` messages.

    Returns:
        Where the messages begin that were looked at, and whether their ids need no change.
    """
    start = _find_start(messages, min(known_count, len(messages)))
    try:
        return start, check_pairs(messages[start:], accepts_id)
    except ConfigurationError:
        # Once more from the beginning, for the right number in the message.
        check_pairs(messages, accepts_id)
        raise


def _find_start(messages: Sequence[Message], known_count: int) -> int:
    """`known_count`, or the message before it whose calls may not all have been answered by then."""
    at, results = known_count - 1, 0
    while at > 0 and (message := messages[at]).role == "tool":
        results += len(message.parts)
        at -= 1
    if at < 0:
        return 0
    return known_count if len(messages[at].calls) == results else at


def replace_unsafe_ids(
    messages: Sequence[Message], accepts_id: Callable[[ToolCall], bool] = has_plain_id
) -> list[Message]:
    """The same history, each call with an id of its own that the wire takes.

    The history must have passed `check_pairs`. The answer depends on nothing but the history, and
    a longer history gives its beginning the same ids.
    """
    used: dict[str, int] = {}
    waiting: list[tuple[str, str]] = []
    safe: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            waiting = [(call.id, _make_unique_id(call, used, accepts_id)) for call in message.calls]
            names = iter(waiting)
            parts = tuple(
                replace(part, id=next(names)[1]) if isinstance(part, ToolCall) else part
                for part in message.parts
            )
            safe.append(Message(message.role, parts))
        elif message.role == "tool":
            safe.append(Message(message.role, tuple(_rename_results(message, waiting))))
        else:
            safe.append(message)
    return safe


def _rename_results(message: Message, waiting: list[tuple[str, str]]) -> list[ToolResult]:
    results = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            found = next(pair for pair in waiting if pair[0] == part.call_id)
            waiting.remove(found)
            results.append(replace(part, call_id=found[1]))
    return results


def _make_unique_id(
    call: ToolCall, used: dict[str, int], accepts_id: Callable[[ToolCall], bool]
) -> str:
    """An id that is not in `used`, which counts how often each was wanted."""
    stem = call.id if accepts_id(call) else _STRANGE.sub("_", call.id)[:48] or "call"
    own = stem
    while own in used:
        used[stem] += 1
        own = f"{stem}_{used[stem]}"
    used[own] = 1
    return own


def _close_call(at: int, result: ToolResult, open_calls: dict[str, int]) -> None:
    left = open_calls.get(result.call_id)
    if left is None:
        raise ConfigurationError(
            f"messages[{at}]",
            f"the tool result for {result.call_id[:80]!r} answers no open call of the message before",
            fix="keep results directly after the assistant message whose calls they answer",
        )
    if left == 1:
        del open_calls[result.call_id]
    else:
        open_calls[result.call_id] = left - 1


def _refuse_open(message: Message, at: int, call_id: str) -> None:
    name = next((call.name for call in message.calls if call.id == call_id), "")
    raise ConfigurationError(
        f"messages[{at}]",
        f"the call {call_id[:80]!r} of tool {name[:80]!r} has no result",
        fix="add a tool message with a result for each call, or leave the calls out",
    )


def _refuse_role(at: int, message: Message, role: str, what: str) -> None:
    raise ConfigurationError(
        f"messages[{at}]", f"holds {what}, and its role is {message.role}", fix=f"use {role}"
    )
