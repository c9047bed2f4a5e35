"""Quotas of tokens: counts the tokens of a tenant's turns, and stops them when the day's are used up.

A turn that is stopped stays open in the journal, as when a worker stops. It goes on when the day ends or
the quota is raised; or when others have ended, if it was stopped because more turns ran than the tokens
that were left are reserved for. An entry rests only when the tokens of its turn are counted. Tokens that were used
on the day before its tenant had a quota, or by a worker that died, are read from the journal. This module
must never close a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from holdfast.core.errors import HoldfastError
from holdfast.core.events import Event, ModelFailed, ModelReplied, ResultsWithheld, ToolFinished
from holdfast.core.notices import Notice
from holdfast.event_log.text_fold import is_event
from holdfast.hosting.tenant_service import TenantService
from holdfast.hosting.turns.turn_runner import DrivenTurn
from holdfast.journal.inbox.driving import NEVER
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.queue_limits import LimitTable
from holdfast.journal.inbox.submitting import SECONDS_OF_A_DAY
from holdfast.journal.inbox.token_room import TokenUse
from holdfast.sessions.session_index import SessionIndex

_RUNS_OF_A_PAGE = 100

_log = logging.getLogger("holdfast.worker")


class TokenQuota:
    """The quotas of the tenants that a worker serves.

    Args:
        inbox: has the quotas, and counts the tokens of all workers.
        grace: the longest time to wait for writing tools of a turn that is stopped, in seconds.
    """

    def __init__(self, inbox: Inbox, grace: float) -> None:
        self._inbox = inbox
        self._grace = grace
        self._limits = LimitTable({})
        self._journals: dict[str, SessionIndex] = {}
        self._tasks: dict[tuple[str, str], set[asyncio.Task[None]]] = defaultdict(set)
        self._uncounted: set[str] = set()
        """The tenants of which some tokens could not be counted."""
        self._crowded: set[tuple[str, str]] = set()
        """The sessions whose turns were stopped for others of their tenants."""

    async def read_limits(self) -> None:
        """Read the quotas again; called regularly. Raises JournalError."""
        self._limits = LimitTable(await self._inbox.read_limits())

    def watch(self, tenant: TenantService) -> None:
        """Count the tokens of the turns of a tenant that this process drives."""

        def note(turn: DrivenTurn, item: Event | Notice) -> None:
            if (
                is_event(item)
                and self._is_limited(tenant.tenant)
                and (tokens := count_tokens(item))
            ):
                task = asyncio.create_task(self._add(tenant, turn, tokens, item.at))
                self._note_task((tenant.tenant, turn.session), task)

        tenant.runner.note_item = note
        self._journals[tenant.tenant] = tenant.journal

    def _note_task(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        def forget(task: asyncio.Task[None]) -> None:
            tasks = self._tasks.get(key, set())
            tasks.discard(task)
            if not tasks:
                self._tasks.pop(key, None)

        self._tasks[key].add(task)
        task.add_done_callback(forget)

    def _is_limited(self, tenant: str) -> bool:
        return self._limits.of_tenant(tenant).tokens_per_day is not None

    async def is_used_up(self, tenant: str) -> bool:
        """Whether a tenant may use no more tokens on this day. Raises JournalError."""
        return self._is_limited(tenant) and (await self._count(tenant, 0)).left == 0

    async def settle(self, tenant: str, session: str) -> bool:
        """Return once the tokens of a turn that rests are counted.

        Returns:
            Whether it was stopped since too many turns ran for the tokens that were left.

        Raises:
            JournalError: they cannot be counted now.
        """
        key = (tenant, session)
        if tasks := self._tasks.get(key):
            await asyncio.wait(set(tasks))
        if tenant in self._uncounted:
            await self._count(tenant, 0)
        was_crowded = key in self._crowded
        self._crowded.discard(key)
        return was_crowded

    async def _count(self, tenant: str, tokens: int, at: float = NEVER) -> TokenUse:
        """Count tokens, and return those that the tenant may still use."""
        if tenant in self._uncounted:
            await self._inbox.count_tokens_again(tenant)
            self._uncounted.discard(tenant)
        use = await self._inbox.add_tokens(tenant, tokens, at)
        since = use.uncounted_before
        if since is None:
            return use
        earlier = await read_tokens_of_day(self._journals[tenant], since)
        await self._inbox.set_earlier_tokens(tenant, since, earlier)
        return await self._inbox.add_tokens(tenant, 0)

    async def _add(self, tenant: TenantService, turn: DrivenTurn, tokens: int, at: float) -> None:
        name = tenant.tenant
        try:
            use = await self._count(name, tokens, at)
        except HoldfastError as error:
            self._uncounted.add(name)
            _log.warning("tokens of a turn are counted later: %s", error)
            return
        must_stop = use.left == 0 or use.is_crowded
        if must_stop and tenant.runner.find(turn.session) is turn:
            if use.left:
                self._crowded.add((name, turn.session))
            await turn.leave(self._grace)


async def read_tokens_of_day(journal: SessionIndex, until: float) -> int:
    """Return the tokens that the turns of a tenant used on a day, by its journal.

    It reads every session that has changed on this day, one after another. A reply that is also in a fork
    of its session counts once.

    Args:
        journal: the journal of the tenant.
        until: a time of the day, in seconds since the epoch; tokens that were used later do not count.
    """
    midnight = until - until % SECONDS_OF_A_DAY
    total, last = 0, None
    counted: set[tuple[str, float]] = set()  # a copy has the key and the time of its original
    while page := await journal.recent_runs(_RUNS_OF_A_PAGE, last):
        for entry in page:
            if entry.changed_at < midnight:
                return total
            for record in await journal.read(entry.run):
                event = record.event
                if midnight <= event.at < until and (event.key, event.at) not in counted:
                    total += count_tokens(event)
                    counted.add((event.key, event.at))
        last = page[-1].changed_at, page[-1].run
    return total


def count_tokens(item: Event | Notice) -> int:
    """Return the tokens that an event of a turn adds, with those of failed attempts and of agents in tools.

    >>> from holdfast.core.messages import Reply, Usage
    >>> count_tokens(ModelReplied("t1.i0.model", 0.0, Reply((), usage=Usage(input=3, output=2))))
    5
    """
    if isinstance(item, ModelReplied):
        lost = item.lost.total if item.lost is not None else 0
        return item.reply.usage.total + lost
    if isinstance(item, ModelFailed):
        partial = item.partial.usage.total if item.partial is not None else 0
        return partial + (item.lost.total if item.lost is not None else 0)
    if isinstance(item, ResultsWithheld):
        return item.lost.total if item.lost is not None else 0
    return item.usage.total if isinstance(item, ToolFinished) else 0
