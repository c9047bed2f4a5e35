"""Computes the history of a session from its records, without the agent that wrote them.

This module must never plan or perform anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.effects import call_index
from holdfast.core.events import (
    Event,
    HistoryCompacted,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    SessionRewound,
    Status,
    TurnClosed,
    TurnOpened,
)
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Media, Message, ToolCall
from holdfast.core.question_log import ASKED, asker_key
from holdfast.core.session_state import Phase
from holdfast.journal.port import Record
from holdfast.middleware import permission_memory, repetition_guard
from holdfast.middleware.permission_memory import argument_text


class Replay:
    """Applies the records of one session to a machine, one at a time.

    Args:
        records: all records, in order.
    """

    __slots__ = ("_next", "machine", "records")

    def __init__(self, records: Sequence[Record]) -> None:
        self._next = 0
        self.machine = SessionMachine()
        self.records = records

    def apply_next(self) -> Event:
        """Apply the next record. Raises IllegalEventError, and IndexError at the end."""
        event = self.records[self._next].event
        self._next += 1
        self.machine.apply(event)
        return event


Kind = Literal["turn", "rewind", "compaction"]


class Point(Struct, frozen=True, kw_only=True):
    """A numbered point of a session: a turn, or a change of its history.

    Args:
        number: the number for `fork` and `rewind`.
        kind: "turn", "rewind" or "compaction".
        at: when it began, in seconds since the epoch.
        text: the user's message, or the types of its media if it has no text; "" for a turn that
            tries the last one again; of a compaction, the summary.
        status: how the turn ended; "running" for a turn that has not ended.
        to: the number that a rewind went back to.
        counts: False for a turn or change that was rewound, and for a rewind itself.
    """

    number: int
    kind: Kind
    at: float
    text: str = ""
    status: Status = Status.COMPLETED
    to: int = 0
    counts: bool = True


class History(Struct, frozen=True, kw_only=True):
    """The content of a session.

    Args:
        messages: the messages that the next request would contain before the new message.
        as_run: the same messages; where a person changed the arguments of a call in an approval, the
            call has the arguments of the person and not those of the model.
        points: its turns and changes, in order.
        open: whether its last turn has not ended.
    """

    messages: tuple[Message, ...]
    as_run: tuple[Message, ...]
    points: tuple[Point, ...]
    open: bool


def fold_history(records: Sequence[Record]) -> History:
    """Compute the history of a session from its records.

    Raises:
        IllegalEventError: the records do not form a session.
    """
    replay = Replay(records)
    points: dict[int, Point] = {}
    edits = _Edits()
    for _ in records:
        event = replay.apply_next()
        edits.add(event, replay.machine.transcript)
        number = replay.machine.turn
        if isinstance(event, TurnClosed):
            points[number] = replace(points[number], status=event.status)
        elif (point := _to_point(number, event)) is not None:
            points[number] = point
    changes = {number: point.to for number, point in points.items() if point.kind == "rewind"}
    alive = set(list_surviving_turns(len(points), changes))
    messages = tuple(replay.machine.transcript)
    return History(
        messages=messages,
        as_run=tuple(map(edits.apply, messages)),
        points=tuple(replace(point, counts=point.number in alive) for point in points.values()),
        open=replay.machine.phase is not Phase.IDLE,
    )


class _Edits:
    """The calls whose arguments a person changed in an approval."""

    __slots__ = ("_arguments", "_asked", "_reply")

    def __init__(self) -> None:
        self._asked: dict[str, object] = {}
        self._reply = Message("assistant", ())
        # By the identity of the message, which is kept so that no other one gets its identity:
        # neither messages nor the ids of calls are unique.
        self._arguments: dict[int, tuple[Message, dict[int, str]]] = {}

    def add(self, event: Event, transcript: Sequence[Message]) -> None:
        """Add an event that was applied to the transcript."""
        if isinstance(event, ModelReplied):
            self._reply = transcript[-1]
        elif isinstance(event, QuestionAsked):
            # A question of an agent that is used as a tool is about a call of that agent.
            if not event.origin:
                self._asked[event.key.removesuffix(ASKED)] = event.question
        elif isinstance(event, QuestionAnswered) and event.key in self._asked:
            index = self._find_call(event.key, _as_fields(self._asked.pop(event.key)))
            arguments = _as_fields(event.answer).get("arguments")
            if index is not None and arguments is not None:
                _, edits = self._arguments.setdefault(id(self._reply), (self._reply, {}))
                edits[index] = argument_text(arguments)

    def apply(self, message: Message) -> Message:
        """Return a message with the arguments that its calls ran with."""
        if id(message) not in self._arguments:
            return message
        _, edits = self._arguments[id(message)]
        parts, index = list(message.parts), -1
        for place, part in enumerate(parts):
            if isinstance(part, ToolCall):
                index += 1
                parts[place] = replace(part, arguments=edits.get(index, part.arguments))
        return replace(message, parts=tuple(parts))

    def _find_call(self, key: str, question: Mapping[str, object]) -> int | None:
        """Return the index of the call that a question is about; None if there is no such call."""
        if permission_memory.is_about_written_call(question.get("source")):
            asker = asker_key(key)
            return call_index(asker) if ".tool." in asker else None
        if question.get("source") == repetition_guard.SOURCE:
            ids = [call.id for call in self._reply.calls]
            name = question.get("call_id")
            return ids.index(name) if name in ids else None
        return None  # a hook or a tool asked by itself


def _as_fields(value: object) -> Mapping[str, object]:
    """Return the fields of a question or an answer; nothing of a value that has none."""
    return value if isinstance(value, Mapping) else {}


def describe_prompt(message: Message) -> str:
    """Return the text of a message of the user, or the types of its media if it has no text.

    >>> from holdfast.core.messages import user
    >>> describe_prompt(user("Hello")), describe_prompt(user(Media("image/png", url="https://x/a.png")))
    ('Hello', '[image/png]')
    """
    media = [part.media_type for part in message.parts if isinstance(part, Media)]
    return message.text or (f"[{', '.join(media)}]" if media else "")


def _to_point(number: int, event: Event) -> Point | None:
    if isinstance(event, TurnOpened):
        text = "" if event.message is None else describe_prompt(event.message)
        return Point(number=number, kind="turn", at=event.at, text=text, status=Status.RUNNING)
    if isinstance(event, SessionRewound):
        return Point(number=number, kind="rewind", at=event.at, to=event.to)
    if isinstance(event, HistoryCompacted):
        return Point(number=number, kind="compaction", at=event.at, text=event.summary)
    return None


def list_surviving_turns(last: int, rewinds: Mapping[int, int]) -> list[int]:
    """List the numbers that still count, in order: without rewound turns and the rewinds.

    Args:
        last: the latest number.
        rewinds: the number of each rewind, and the number that it went back to.

    >>> list_surviving_turns(5, {4: 1})
    [1, 5]
    """
    found = []
    number = last
    while number > 0:
        if number in rewinds:
            number = rewinds[number]
            continue
        found.append(number)
        number -= 1
    return found[::-1]
