"""Puts the turns of a service into the inbox of its journal, and drives them by a worker beside it.

That is the default for a journal that processes share. With any other journal a turn begins at once,
unless options say otherwise: nobody else could drive it. This module must never speak HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Annotated

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.inbox.dispatch_engine import DispatchEngine
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.worker.engines.engine_opening import open_engine, share_link
from holdfast.worker.quarantine import QuarantineOptions
from holdfast.worker.worker import EntryWorker


class QueueOptions(Struct, frozen=True, kw_only=True):
    """How the turns of a service are queued and driven.

    Args:
        parallel: how many turns this process drives at once; 0 only serves people, and leaves every
            turn to the workers of a PostgreSQL journal.
        engine: carries the jobs: "postgres" or "nats://host:4222", the same for every process of
            the journal; None for the one that fits the journal.
        quarantine: when a turn is driven alone and when it is parked, since processes die of it; None
            for the default. The process ends itself when its loop is blocked only if this asks for it.

    Raises:
        ConfigurationError: a setting is wrong.

    >>> QueueOptions(parallel=4)
    QueueOptions(parallel=4, engine=None, quarantine=None)
    """

    parallel: Annotated[int, between(0, 10_000)] = 16
    engine: str | None = None
    quarantine: QuarantineOptions | None = None

    def __post_init__(self) -> None:
        check_fields(self, "queue.")


def queue_turns(
    service: ServiceTenants, lifetime: ServiceLifetime, options: QueueOptions | None
) -> AbstractAsyncContextManager[object]:
    """Return the lifespan of a service, whose turns go through the inbox if they can.

    Args:
        service: the service.
        lifetime: its lifetime, which the returned block enters.
        options: how turns are driven; None for the default.

    Raises:
        ConfigurationError: the options do not fit the journal, or a package is missing.
    """
    is_shared = isinstance(service.journal, PostgresJournal)
    if options is None and not is_shared:
        return lifetime
    given = options or QueueOptions()
    if not given.parallel and not is_shared:
        problem = "leaves every turn to workers, and no other process shares the journal"
        raise ConfigurationError("queue", problem, fix="Use a PostgreSQL journal")
    inbox, drives = open_inbox(service.journal), given.parallel > 0
    service.inbox, service.drives = inbox, drives
    service.prepare.append(lambda tenant: tenant.queue_turns(inbox, drives=drives))
    if given.parallel:
        return EntryWorker(
            service,
            lifetime,
            given.engine,
            parallel=given.parallel,
            quarantine=given.quarantine,
        )
    return _front(service, open_engine(given.engine, service.journal), lifetime)


@asynccontextmanager
async def _front(
    service: ServiceTenants, engine: DispatchEngine, lifetime: ServiceLifetime
) -> AsyncIterator[None]:
    """Serve people without driving a turn; the engine only shows the runs of workers."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(engine.close)
        await engine.open()
        share_link(service, engine)
        await stack.enter_async_context(lifetime)
        yield
