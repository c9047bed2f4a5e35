"""The agents of a service on one journal, for each tenant, and the parts that all tenants share.

This module must never speak HTTP, and must never decide who may do something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from holdfast.core.errors import ConfigurationError
from holdfast.event_log.live.process_exchange import LiveExchange, NoteLink
from holdfast.hosting.bound_agents import AnyAgent, journal_of, name_agents
from holdfast.hosting.shared_limits import SharedLimits
from holdfast.hosting.tenant_service import ServiceOptions, TenantService
from holdfast.hosting.turn_claims import TurnClaims
from holdfast.hosting.turns.turn_runner import Observe
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.journal_names import DEFAULT_TENANT
from holdfast.journal.live_link import LinkedJournal, OpenLink
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal, SharedJournal, VisibleProcesses
from holdfast.journal.service_store.service_store_opening import open_service_store
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.journal.tenants import TenantList
from holdfast.runtime.sessions.session_pool import resolve_journal


class ServiceTenants:
    """The agents of a service on one journal, for each tenant.

    Args:
        agents: one agent, or several with different names.
        journal: the journal or its address; by default that of the first agent, or memory.
        options: how it shows its turns.
        allow_models: the names of models that a request may ask for.

    Raises:
        ConfigurationError: an argument is wrong.
    """

    def __init__(
        self,
        agents: AnyAgent | Iterable[AnyAgent],
        journal: Journal | str | None = None,
        options: ServiceOptions | None = None,
        allow_models: Collection[str] = (),
    ) -> None:
        self.prepare: list[Callable[[TenantService], None]] = []
        """Called with the service of each tenant, before anybody uses it."""
        self.allow_models = frozenset(allow_models)
        self.is_closing = False
        self.inbox: Inbox | None = None
        """Where its turns are queued; None if each begins at once."""
        self.drives = True
        """Whether this process drives turns; set before the first request."""
        self.observe: Observe | None = None
        """Called with each item of the turns of every tenant; set before the first request."""
        self.note_accepted: Callable[[], None] | None = None
        """Called by the task whose turn is accepted; set before the first request."""
        self.note_link: NoteLink = _ignore_link
        """Called when the link to other processes is lost or found; set before the first request."""
        self.note_departed: Callable[[], None] | None = None
        """Called when the turns of another process can be taken over, since it has ended."""
        self.open_link: OpenLink | None = None
        """Opens the link to other processes instead of the journal; set before the first request."""
        self._exchange: LiveExchange | None = None
        self._limits: SharedLimits | None = None
        self._watching: asyncio.Task[None] | None = None
        self.agents = name_agents(agents)
        self._options = options or ServiceOptions()
        self._check_agent_names()
        first = next(iter(self.agents.values()))
        self.journal = resolve_journal(journal) or journal_of(first) or MemoryJournal()
        self.store = open_service_store(self.journal)
        """Stores everything besides runs: keys, answered requests, acts."""
        is_shared, window = isinstance(self.journal, SharedJournal), self._options.retry_window
        self.claims = TurnClaims(self.store, window, is_shared=is_shared)
        """The turns that were begun without an idempotency key."""
        self._tenants: dict[str, TenantService] = {}

    def _check_agent_names(self) -> None:
        for field in ("hold_text", "on_disconnect"):
            for name in getattr(self._options, field):
                if name not in self.agents:
                    known = ", ".join(sorted(self.agents))
                    raise ConfigurationError(
                        field, f"there is no agent {name!r}", fix=f"Use: {known}"
                    )

    def for_tenant(self, tenant: str = DEFAULT_TENANT) -> TenantService:
        """Return the service as a tenant sees it."""
        found = self._tenants.get(tenant)
        if found is None:
            journal = self.journal.for_tenant(tenant)
            found = self._tenants[tenant] = TenantService(
                tenant, self.agents, journal, self._options
            )
            for prepare in self.prepare:
                prepare(found)
            found.watch.feed.on_reader.append(self._watch_inbox)
            found.runner.observe = self.observe
            found.runner.note_accepted = self.note_accepted
            if self._exchange is not None:
                found.connect(self._exchange)
            if self.is_closing:
                found.close_readers()
        return found

    def _watch_inbox(self) -> None:
        """Show the readers of lists that the inbox may have changed, from the first reader on."""
        if self.inbox is not None and self._watching is None and not self.is_closing:
            task = self._note_changes(self.inbox)
            self._watching = asyncio.create_task(task, name="holdfast-inbox-changes")

    async def _note_changes(self, inbox: Inbox) -> None:
        with inbox.watch() as changes:
            while True:
                await changes.wait()
                for tenant in self.tenants:
                    tenant.watch.feed.note_topic("inbox")

    @property
    def tenants(self) -> tuple[TenantService, ...]:
        """The tenants that were served by this process."""
        return tuple(self._tenants.values())

    async def count_bytes(self, tenant: str) -> int:
        """Return the bytes that are stored of a tenant: its runs, its queued turns, and uploads.

        Raises:
            JournalError: the journal or the store cannot be read.
        """
        stored = await self.for_tenant(tenant).count_bytes()
        return stored + await self.store.count_bytes(tenant)

    async def continue_open_turns(self) -> None:
        """Continue the turns that no process drives, of all tenants; return when they were begun.

        Raises:
            JournalError: the journal cannot be read.
        """
        if not self.drives:
            return
        names: Iterable[str] = [DEFAULT_TENANT, *self._tenants]
        if isinstance(self.journal, TenantList):
            names = await self.journal.tenants(turn_open=True)
        for name in dict.fromkeys(names):
            await self.for_tenant(name).open_turns.look()

    async def end_departed(self) -> None:
        """Take over the turns of processes that have ended, as soon as the journal knows of it.

        Raises:
            JournalError: the journal cannot be read.
        """
        if isinstance(self.journal, VisibleProcesses) and await self.journal.end_departed():
            if self.note_departed is not None:
                self.note_departed()
            await self.continue_open_turns()

    def open_exchange(self) -> None:
        """Connect this process with the others of its journal, if it can; on the event loop."""
        if isinstance(self.journal, VisibleProcesses):
            self.journal.show_process()
        if isinstance(self.journal, LinkedJournal) and self._exchange is None:
            open_link = self.open_link or self.journal.open_link
            self.note_link(False)  # until it is up: the server may be silent from the beginning
            self._exchange = LiveExchange(open_link, self.note_link)
            self._limits = SharedLimits(self._exchange)
            self.claims.link = self._exchange.link
            for tenant in self.tenants:
                tenant.connect(self._exchange)

    @property
    def is_connected(self) -> bool:
        """Whether this process hears of the others, or is alone."""
        if not isinstance(self.journal, SharedJournal):
            return True
        return self._exchange is not None and self._exchange.is_up

    async def look_for_changes(self) -> None:
        """Find the changes of other processes, should messages be lost, or of code beside the service.

        Raises:
            JournalError: the journal cannot be read.
        """
        is_shared = isinstance(self.journal, SharedJournal)
        for tenant in self.tenants:
            if is_shared or tenant.watch.feed.has_readers:
                await tenant.look_for_changes()

    async def cancel_unread_turns(self, now: float) -> None:
        """Begin to cancel the turns that are to end once nobody reads them; called about each second.

        Args:
            now: a clock in seconds that does not go back.

        Raises:
            JournalError: the journal cannot be read.
        """
        for tenant in self.tenants:
            await tenant.unread_turns.look(now)

    def tidy(self) -> None:
        """Forget the runs that no reader of this process needs any more."""
        if self._exchange is not None:
            self._exchange.tidy()

    async def check_journal(self) -> None:
        """Raise JournalError if the journal does not answer, or its file is not the one that was opened."""
        if isinstance(self.journal, SqliteJournal):
            await self.journal.check_files()
        await self.journal.find_request("ready?")

    @property
    def has_unfinished_turns(self) -> bool:
        """Whether a turn that could not be finished is to be tried again later."""
        return any(tenant.open_turns.has_unfinished for tenant in self.tenants)

    async def close(self, grace: float, *, drains: bool = False) -> None:
        """Stop: accept no more turns, end the streams, and leave the turns in progress open.

        Args:
            grace: the longest time to wait for writing tools, in seconds.
            drains: whether requests that cannot come back for their answer are served before that, for
                the seconds that the options allow. `release_requests` ends this.
        """
        self.is_closing = True
        drain = self._options.drain if drains else 0.0
        if not drain:
            self.release_requests()
        for tenant in self.tenants:
            tenant.close_readers()
        if self._watching is not None:
            self._watching.cancel()
        await asyncio.gather(*[tenant.leave_turns(grace, drain) for tenant in self.tenants])
        if self._limits is not None:
            self._limits.close()
        if self._exchange is not None:
            self._exchange.close()

    def release_requests(self) -> None:
        """Wait no more for requests that cannot come back for their answer."""
        for tenant in self.tenants:
            tenant.watch.release_all()


def _ignore_link(_is_up: bool) -> None:  # REASON: a callback
    """Nobody wants to know."""
