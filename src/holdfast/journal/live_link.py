"""The port by which the processes of a shared journal send each other items that are not saved yet.

Messages may be lost: a reader of the journal misses nothing without them, it only learns it later. An act
for the driver of a run is saved until it was performed. This module must never carry a truth.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

LARGEST_MESSAGE = 7_900
"""The number of bytes of a message."""


class DriverAct(Struct, frozen=True):
    """An act for the process that drives a run.

    Args:
        id: names the act.
        session: the run.
        act: its name, such as "cancel".
        body: its arguments, as JSON.
    """

    id: str
    session: str
    act: str
    body: str = "{}"


class LiveLink(Protocol):
    """The connection of one process to the others."""

    @property
    def is_up(self) -> bool:
        """Whether messages of other processes arrive."""
        ...

    async def send(self, messages: Sequence[str]) -> None:
        """Send messages to all processes, in order, also to this one. Raises JournalError."""
        ...

    async def add_act(self, tenant: str, act: DriverAct) -> None:
        """Save an act for the driver of a run. Raises JournalError."""
        ...

    async def find_acts(self, tenant: str, sessions: Sequence[str]) -> Sequence[DriverAct]:
        """Return the acts for these runs that have no result yet. Raises JournalError."""
        ...

    async def finish_act(self, act_id: str, result: str) -> None:
        """Save the result of an act. Raises JournalError."""
        ...

    async def take_result(self, act_id: str) -> str | None:
        """Return the result of an act, and forget the act; None if it has no result yet."""
        ...

    async def forget_act(self, act_id: str) -> None:
        """Forget an act that nobody has to perform any more. Raises JournalError."""
        ...

    @property
    def process(self) -> str:
        """The name of this process, by which others ask whether it has ended."""
        ...

    async def find_ended(self, processes: Collection[str]) -> Collection[str]:
        """Return those of some processes that have ended or have lost the journal. Raises JournalError."""
        ...

    def close(self) -> None:
        """Receive no more messages."""
        ...


OpenLink: TypeAlias = Callable[[Callable[[str], None], Callable[[bool], None]], LiveLink]
"""Opens the link of this process, as `LinkedJournal.open_link` does."""


@runtime_checkable
class LinkedJournal(Protocol):
    """A journal whose processes can send each other messages."""

    def open_link(
        self, receive: Callable[[str], None], changed: Callable[[bool], None]
    ) -> LiveLink:
        """Open the link of this process.

        Args:
            receive: called with each message, in another thread.
            changed: called when the link is up or down, in another thread.
        """
        ...
