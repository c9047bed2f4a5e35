"""Acts for a turn that another process drives: they are saved, and the driver performs them.

Whoever asks for an act waits until the driver has performed it, or until nobody drives the turn any
more. This module must never perform an act twice in one process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic

from holdfast.core.errors import HoldfastError, SessionBusyError
from holdfast.event_log.live.process_exchange import LiveExchange
from holdfast.journal.live_link import DriverAct
from holdfast.resilience.system_clock import new_run_id

LONGEST_WAIT = 10.0
"""Seconds to wait for a driver that does not answer."""

_PAUSE = 1.0  # seconds between two looks, should a message be lost
_log = logging.getLogger("holdfast.hosting")


class DriverActs:
    """The acts of one tenant that cross processes.

    Args:
        tenant: the tenant.
        exchange: the link to the other processes.
        perform: performs an act for a run that this process drives, and returns its result as JSON.
        is_driven: whether this process drives a run.
        is_leased: whether any process drives a run.
    """

    def __init__(
        self,
        tenant: str,
        exchange: LiveExchange,
        perform: Callable[[DriverAct], Awaitable[str]],
        is_driven: Callable[[str], bool],
        is_leased: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._tenant = tenant
        self._exchange = exchange
        self._perform = perform
        self._is_driven = is_driven
        self._is_leased = is_leased
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._looks: set[asyncio.Task[None]] = set()

    async def ask(self, session: str, act: str, body: str) -> str | None:
        """Let the driver of a run perform an act; return its result, or None if nobody drives it.

        Args:
            session: the run.
            act: what to do.
            body: what the act needs, as JSON.

        Raises:
            JournalError: the act could not be saved.
            SessionBusyError: the driver did not answer in time; it may perform the act later.
        """
        asked = DriverAct(new_run_id(), session, act, body)
        link, done = self._exchange.link, self._exchange.expect_result(asked.id)
        await link.add_act(self._tenant, asked)
        self._exchange.announce_act(self._tenant, session)
        end = monotonic() + LONGEST_WAIT
        try:
            while monotonic() < end:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE):
                        await done.wait()
                result = await link.take_result(asked.id)
                if result is not None:
                    return result
                if not await self._is_leased(session):
                    await link.forget_act(asked.id)
                    return None
                done.clear()
        finally:
            self._exchange.forget_result(asked.id)
        raise SessionBusyError(session, "the process that drives its turn does not answer")

    def look_for(self, session: str) -> None:
        """Perform the acts for a run, if this process drives it."""
        if self._is_driven(session):
            task = asyncio.create_task(self.look([session]))
            self._looks.add(task)  # so that it is not collected
            task.add_done_callback(self._looks.discard)

    async def look(self, sessions: list[str]) -> None:
        """Begin to perform the acts for runs that this process drives."""
        if not sessions:
            return
        try:
            acts = await self._exchange.link.find_acts(self._tenant, sessions)
        except HoldfastError as error:
            _log.info("the acts of other processes cannot be read now: %s", error)
            return
        for act in acts:
            if act.id not in self._under_way:
                self._under_way[act.id] = asyncio.create_task(self._perform_one(act))

    async def _perform_one(self, act: DriverAct) -> None:
        try:
            result = await self._perform(act)
            await self._exchange.link.finish_act(act.id, result)
            self._exchange.announce_result(self._tenant, act.session, act.id)
        except HoldfastError as error:
            _log.warning("an act of another process failed: %s", error)
        finally:
            self._under_way.pop(act.id, None)
