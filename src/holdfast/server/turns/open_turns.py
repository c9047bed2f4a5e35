"""Continues the turns of a tenant that no process drives: their process was killed or told to stop.

A turn that waits for an answer stays as it is, and so does one of an agent that this process does not
have. A turn that cannot be finished now, since a provider is down, is tried again later. This module
must never try a turn again that has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from time import monotonic

from msgspec import Struct

from holdfast.core.effects import is_nested_run
from holdfast.core.errors import HoldfastError
from holdfast.journal.port import RunEntry
from holdfast.runtime.open_runs.recovery import waits_for_answers
from holdfast.server.bound_agents import AnyAgent
from holdfast.server.turns.turn_runner import TurnRunner
from holdfast.sessions.session_index import SessionIndex

MOST_AT_ONCE = 200
"""The number of turns that are continued at once."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds after which a turn that could not be finished is tried again; each pause is twice the last."""

_log = logging.getLogger("holdfast.server")


class _Seen(Struct):
    """What is known of a run that was left open.

    Args:
        records: the number of its records when it was looked at.
        pause: seconds until it is tried again.
        due_at: the time from which it is tried again; None while it waits for an answer.
    """

    records: int
    pause: float = 0.0
    due_at: float | None = None


class OpenTurns:
    """The turns of one tenant that were left open.

    Args:
        journal: the journal of the tenant.
        runner: drives the turns.
        agents: the agents by name.
    """

    def __init__(
        self, journal: SessionIndex, runner: TurnRunner, agents: Mapping[str, AnyAgent]
    ) -> None:
        self._journal = journal
        self._runner = runner
        self._agents = agents
        self._seen: dict[str, _Seen] = {}
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def is_queued(self, session: str) -> bool:
        """Whether the turn of a session is about to be continued here."""
        return session in self._tasks

    @property
    def has_unfinished(self) -> bool:
        """Whether a turn is to be tried again later."""
        return any(seen.due_at is not None for seen in self._seen.values())

    async def look(self) -> None:
        """Begin to continue what was left open, and return.

        Raises:
            JournalError: the journal cannot be read.
        """
        entries = await self._journal.runs(turn_open=True)
        runs = {entry.run for entry in entries}
        for run in [run for run in self._seen if run not in runs]:
            del self._seen[run]
        for entry in entries:
            if self._may_continue(entry) and not await self._waits(entry):
                self.begin(entry)

    def _may_continue(self, entry: RunEntry) -> bool:
        if entry.leased or entry.run in self._tasks or self._runner.is_driven(entry.run):
            return False
        return entry.agent in self._agents and not is_nested_run(entry.run)

    async def _waits(self, entry: RunEntry) -> bool:
        """Whether a run is to be left alone for now, because it waits or was just tried."""
        seen = self._seen.get(entry.run)
        if seen is not None and seen.records == entry.records:
            return seen.due_at is None or monotonic() < seen.due_at
        self._seen[entry.run] = _Seen(entry.records)
        return await waits_for_answers(self._journal, entry.run)

    def begin(self, entry: RunEntry) -> None:
        """Continue a run as soon as there is room."""
        seen = self._seen.setdefault(entry.run, _Seen(entry.records))
        seen.pause = min(max(FIRST_PAUSE, 2 * seen.pause), LONGEST_PAUSE)
        task = asyncio.create_task(self._continue(entry), name=f"holdfast-open-{entry.run}")
        self._tasks[entry.run] = task
        task.add_done_callback(lambda _: self._tasks.pop(entry.run, None))

    async def _continue(self, entry: RunEntry) -> None:
        async with self._places:
            if self._runner.is_closing:
                return
            try:
                self._runner.recover(entry.run, self._agents[entry.agent])
            except HoldfastError as error:
                _log.warning("the open turn of %s is not continued: %s", entry.run, error)
            await self._runner.wait(entry.run)
        seen = self._seen.get(entry.run)
        if seen is not None:
            seen.due_at = monotonic() + seen.pause

    def close(self) -> None:
        """Continue nothing more."""
        for task in self._tasks.values():
            task.cancel()
