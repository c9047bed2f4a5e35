"""The items of the event log of a session, which every protocol of the service is made from.

An item is a record of the journal, live text, or a notice. Items must never carry a secret: errors in
them have their public half only.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from holdfast.codecs.citation import Citation
from holdfast.codecs.hosted_calls import HostedCall
from holdfast.core.events import Event


class EventItem(Struct, frozen=True, tag="event"):
    """A record of the journal.

    Args:
        position: the place after it.
        sequence: its number in the session, from 1.
        turn: the number of its turn.
        event: the event.
        hosted: of a reply: its calls of tools that the provider ran; absent if there are none.
        citations: of a reply: the sources that its text cites; absent if there are none.
    """

    position: str
    sequence: int
    turn: int
    event: Event
    hosted: tuple[HostedCall, ...] | UnsetType = UNSET
    citations: tuple[Citation, ...] | UnsetType = UNSET


class TextItem(Struct, frozen=True, tag="text"):
    """Text of the reply in progress. A client sets `shown = shown[:offset] + text`.

    Args:
        position: the place after it.
        key: the model call, such as `t1.i0.model`.
        offset: the number of characters of the reply before it.
        text: the text.
        attempt: the attempt of the call; 0 if it is not known.
    """

    position: str
    key: str
    offset: int
    text: str
    attempt: int = 0


class ReasoningItem(Struct, frozen=True, tag="reasoning"):
    """Reasoning of the reply in progress. The record of the reply has it whole.

    Args:
        key: the model call.
        offset: the number of characters of reasoning before it.
        text: the text.
        attempt: the attempt of the call.
    """

    key: str
    offset: int
    text: str
    attempt: int = 0


class WithdrawnItem(Struct, frozen=True, tag="withdrawn"):
    """All text of `key` that was streamed is void. The text that counts follows.

    Args:
        position: the place after it.
        key: the model call.
        reason: why, in words for a person.
        attempt: the attempt of the call; 0 if it is not known.
    """

    position: str
    key: str
    reason: str
    attempt: int = 0


class NoticeItem(Struct, frozen=True, tag="notice"):
    """A notice that has no item of its own, such as an announced retry.

    Args:
        name: its class name in snake case, such as `retry_scheduled`.
        fields: its fields, as JSON values.
    """

    name: str
    fields: dict[str, object]


SessionState: TypeAlias = Literal[
    "idle",
    "queued",
    "running",
    "open",
    "waiting",
    "completed",
    "failed",
    "limit",
    "cancelled",
    "stopped",
]
"""The state of the last turn of a session. "idle" means that there is no turn, "queued" that a turn is in
the queue and has not begun, "open" that the turn has not ended and no process drives it."""


class StatusItem(Struct, frozen=True, tag="status"):
    """The state of the last turn: the first item of a stream, and one at each change.

    Args:
        position: the place of the reader.
        turn: the number of the turn; 0 if there is none.
        status: its state.
        questions: the keys of the open questions.
    """

    position: str
    turn: int
    status: SessionState
    questions: tuple[str, ...] = ()


class EndItem(Struct, frozen=True, tag="end"):
    """The stream ends here, and not because the session did. Come back with the position.

    Args:
        position: the place of the reader.
        reason: "turn_ended" if only the turn was asked for; "too_slow" if the reader did not read;
            "shutting_down" if the process stops; "access_ended" if the key of the reader was revoked or
            has expired, or the person signed out; "deleted" if the session was deleted, whether or not
            there is a new one with its name. Only with this last one does the position mean nothing any more.
    """

    position: str
    reason: Literal["turn_ended", "too_slow", "shutting_down", "deleted", "access_ended"]


StreamItem: TypeAlias = (
    EventItem | TextItem | ReasoningItem | WithdrawnItem | NoticeItem | StatusItem | EndItem
)
"""Everything that a stream of the service sends."""
