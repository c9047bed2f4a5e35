"""One question that waits for its end, and the receipt that an answer gets.

The first end wins, whatever thread it comes from. Nothing here may know what an answer means.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.errors import AnswerTypeError, Unanswered
from holdfast.core.requests import Answer, AnyRequest


class Receipt(Struct, frozen=True):
    """What became of an answer; true when it was taken.

    `reason` says why it was not: there is no such question, it has an answer already, or nobody
    waits any more. Whether the answer was kept is told by the event `QuestionAnswered`.

    >>> bool(Receipt("late"))
    False
    """

    reason: Literal["", "unknown", "answered", "late"] = ""

    def __bool__(self) -> bool:
        return not self.reason


Ending: TypeAlias = Answer[object] | Unanswered | AnswerTypeError


class OpenQuestion:
    """One open question. `settle` may be called from any thread; the first call wins."""

    __slots__ = ("_event", "_lock", "_loop", "outcome", "request")

    def __init__(self, request: AnyRequest) -> None:
        self.request = request
        self.outcome: Ending | None = None
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._lock = threading.Lock()

    def settle(self, outcome: Ending) -> bool:
        """Whether this outcome is the one that counts."""
        with self._lock:
            if self.outcome is not None or self._loop.is_closed():
                return False
            self.outcome = outcome
            self._loop.call_soon_threadsafe(self._event.set)
        return True

    async def wait(self) -> Ending:
        """The outcome that counts."""
        await self._event.wait()
        return self.outcome or "cancelled"
