"""Recognizes a request that brings the results which a waiting run has asked for.

A caller without a memory at the service sends the whole conversation each time. It continues a run
only if its last messages are results for calls of that run, and the messages before them are those that were
sent: otherwise the run would go on with a history that its caller does not know.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.json_strict import NotJson, read_strict_json
from holdfast.core.messages import Media, Message, Text, ToolCall, ToolResult
from holdfast.core.question_log import ASKED
from holdfast.server.protocols.openai_shapes import REQUEST_KEY, to_client_call
from holdfast.server.protocols.segments import BETWEEN_MESSAGES, SegmentedTurn

Line: TypeAlias = list[object]
"""A message without the parts that clients write in different ways: its role, its texts, calls and results."""


class SentHistory(Struct, frozen=True):
    """The messages of the request that began a turn, as the metadata of the turn has them.

    Args:
        lines: their number.
        digest: their digest.
    """

    lines: int
    digest: str


def simplify(messages: Sequence[Message]) -> list[Line]:
    """Return messages without the parts that clients write in different ways.

    Messages of the assistant that follow each other are one, and so are messages with results.

    >>> from holdfast.core.messages import assistant, user
    >>> simplify([user("Hi"), assistant("Hello")])
    [['user', 'Hi'], ['assistant', 'Hello', []]]
    """
    lines: list[Line] = []
    for message in messages:
        line = _simplify_one(message)
        before = lines[-1] if lines else None
        if before is None or before[0] != line[0] or line[0] not in ("assistant", "tool"):
            lines.append(line)
        elif line[0] == "tool":
            before[1:] = sorted([*before[1:], *line[1:]], key=str)
        else:
            texts = [str(one) for one in (before[1], line[1]) if one]
            calls = [*_listed(before[2]), *_listed(line[2])]
            lines[-1] = ["assistant", BETWEEN_MESSAGES.join(texts), calls]
    return lines


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _simplify_one(message: Message) -> Line:
    if message.role == "tool":
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        return ["tool", *sorted(([one.call_id, one.text] for one in results), key=str)]
    if message.role == "assistant":
        calls = [_simplify_call(part) for part in message.calls]
        return ["assistant", message.text, calls]
    media = [msgspec.to_builtins(part) for part in message.parts if isinstance(part, Media)]
    return [message.role, message.text, *media]


def _simplify_call(call: ToolCall) -> list[object]:
    try:
        arguments = read_strict_json(call.arguments or "{}")
    except NotJson:
        arguments = call.arguments
    return [call.id, call.name, arguments]


def digest_lines(lines: Sequence[Line]) -> str:
    """Return a digest of simplified messages."""
    text = json.dumps(lines, sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def note_history(messages: Sequence[Message]) -> SentHistory:
    """Return the digest of the messages of its request that a turn remembers."""
    lines = simplify(messages)
    return SentHistory(len(lines), digest_lines(lines))


def find_segment(told: SegmentedTurn, keys: frozenset[str]) -> int | None:
    """Return the number of the segment that waits or waited for just these questions."""
    for number, segment in enumerate(told.segments):
        if keys == {asked.key.removesuffix(ASKED) for asked in segment.questions}:
            return number
    return None


def was_sent(told: SegmentedTurn, session: str, number: int, messages: Sequence[Message]) -> bool:
    """Whether messages are those that were sent before the results of a segment.

    Args:
        told: the turn.
        session: its session.
        number: the segment whose results follow the messages.
        messages: the messages before the results.
    """
    options = told.opened.options
    noted = None if options is None else options.metadata.get(REQUEST_KEY)
    try:
        sent = msgspec.convert(noted, _Noted).history
    except msgspec.ValidationError:
        return False
    lines = simplify(messages)
    if digest_lines(lines[: sent.lines]) != sent.digest:
        return False
    return lines[sent.lines :] == simplify(_list_told(told, session, number))


class _Noted(Struct):
    history: SentHistory


def _list_told(told: SegmentedTurn, session: str, number: int) -> list[Message]:
    """Return the messages that a caller got and gave from the beginning of a turn to the calls of a segment."""
    messages: list[Message] = []
    for at, segment in enumerate(told.segments[: number + 1]):
        found = [(asked, to_client_call(session, asked)) for asked in segment.questions]
        calls = [(asked, call) for asked, call in found if call is not None]
        text = (Text(segment.text),) if segment.text else ()
        parts = tuple(ToolCall(call.id, call.name, call.arguments) for _, call in calls)
        messages.append(Message("assistant", (*text, *parts)))
        if at < number:
            results = [
                ToolResult(call.id, call.name, (Text(told.answers[key].text),))
                for asked, call in calls
                if (key := asked.key.removesuffix(ASKED)) in told.answers
            ]
            messages.append(Message("tool", tuple(results)))
    return messages
