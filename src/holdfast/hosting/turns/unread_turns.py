"""Cancels turns that nobody reads any more, where an agent or a request asks for that.

A connection that ends changes nothing by itself: a reader may come back. This module must never cancel a turn
that somebody reads, and must never cut a tool that writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from holdfast.core.effects import turn_key
from holdfast.core.events import TurnOpened
from holdfast.core.turn_options import NO_OPTIONS
from holdfast.event_log.text_fold import turn_of_key
from holdfast.hosting.turns.turn_runner import DrivenTurn, TurnRunner
from holdfast.sessions.session_index import SessionIndex

OnDisconnect: TypeAlias = Literal["continue", "cancel"]
"""The fate of a turn that nobody reads."""

ON_DISCONNECT: Final = "holdfast.on_disconnect"
"""The name of the value in the metadata of a turn whose request says what happens."""

NOBODY: Final = "nobody reads it"
"""Who cancels a turn that nobody reads, as its history says."""


def is_cancelled_unread(opened: TurnOpened, policies: Mapping[str, OnDisconnect]) -> bool:
    """Whether a turn is cancelled once nobody reads it.

    Args:
        opened: the event that opened it.
        policies: what happens to the turns of an agent, by its name, if their request does not say.
    """
    metadata = (opened.options or NO_OPTIONS).metadata
    return metadata.get(ON_DISCONNECT, policies.get(opened.agent)) == "cancel"


class UnreadTurns:
    """The turns of one tenant that this process drives and that nobody may read.

    Args:
        journal: the journal of the tenant.
        runner: drives the turns.
        policies: what happens to the turns of an agent, by its name.
        seconds: after how many seconds without a reader a turn is cancelled.
    """

    def __init__(
        self,
        journal: SessionIndex,
        runner: TurnRunner,
        policies: Mapping[str, OnDisconnect],
        seconds: float,
    ) -> None:
        self._journal = journal
        self._runner = runner
        self._policies = policies
        self._seconds = seconds
        self._since: dict[DrivenTurn, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def look(self, now: float) -> None:
        """Begin to cancel the turns that nobody has read for too long.

        Args:
            now: a clock in seconds that does not go back.

        Raises:
            JournalError: the journal cannot be read.
        """
        before, self._since = self._since, {}
        for turn in self._runner.driven:
            if turn.live is None or turn.live.readers or turn.is_cancelled or turn.is_left:
                continue
            if not await self._is_cancelled_unread(turn):
                continue
            since = self._since[turn] = before.get(turn, now)
            if now - since >= self._seconds:
                task = asyncio.create_task(turn.cancel_after_writes(NOBODY))
                self._tasks.add(task)  # so that it is not collected
                task.add_done_callback(self._tasks.discard)

    async def _is_cancelled_unread(self, turn: DrivenTurn) -> bool:
        """Whether a turn is cancelled once nobody reads it; one that was continued is read once."""
        if turn.opened is None:
            keys = await self._journal.keys(turn.session)
            number = max(map(turn_of_key, keys), default=0)
            for record in await self._journal.read_by_keys(turn.session, [turn_key(number)]):
                if isinstance(record.event, TurnOpened):
                    turn.opened = record.event
        return turn.opened is not None and is_cancelled_unread(turn.opened, self._policies)
