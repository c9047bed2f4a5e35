"""Estimates how many bytes of memory an open session takes.

Only new messages are counted, so that the estimate of a long session costs little after each turn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from msgspec import Struct

from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, Text

EMPTY_SESSION = 8_000
_MESSAGE, _PART = 300, 150


class SessionSize(Struct, eq=False):
    """The estimated size of one open session.

    Attributes:
        bytes: the estimate.
    """

    bytes: int = 0
    _machine: SessionMachine | None = None
    _messages: int = 0
    _count: int = 0

    def update(self, machine: SessionMachine) -> None:
        """Count the messages that are new since the last call."""
        if machine is not self._machine:
            self._machine, self._messages, self._count = machine, 0, 0
        transcript = machine.transcript
        # A rewind or a compaction shortens the transcript; the replaced messages stay in memory.
        self._messages += estimate_messages(transcript[self._count :])
        self._count = len(transcript)
        self.bytes = EMPTY_SESSION + self._messages + transcript.encoded_size


def estimate_messages(messages: Iterable[Message]) -> int:
    """Estimate the bytes of messages in memory."""
    size = 0
    for message in messages:
        size += _MESSAGE
        for part in message.parts:
            size += _PART
            size += sys.getsizeof(part.text) if type(part) is Text else _estimate_value(part)
    return size


def _estimate_value(value: object) -> int:
    if isinstance(value, Struct):
        return _PART + sum(_estimate_value(getattr(value, n)) for n in value.__struct_fields__)
    if isinstance(value, Mapping):
        return sys.getsizeof(value) + sum(_estimate_value(one) for one in value.values())
    if isinstance(value, tuple | list):
        return sys.getsizeof(value) + sum(map(_estimate_value, value))
    return sys.getsizeof(value)
