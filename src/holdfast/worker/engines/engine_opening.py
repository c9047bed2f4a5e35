"""Opens the engine that an address names, and shows the runs of a process over it where it can do that.

Errors do not show the address, which may hold a password.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from holdfast.core.errors import ConfigurationError
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.inbox.dispatch_engine import DispatchEngine, LinkingEngine
from holdfast.journal.live_link import LinkedJournal
from holdfast.journal.port import SharedJournal
from holdfast.worker.engines.asyncio_engine import AsyncioEngine
from holdfast.worker.engines.nats_engine import NatsEngine
from holdfast.worker.engines.postgres_engine import PostgresEngine

FORMS = '"postgres", "nats://host:4222" or "asyncio"'
_NATS = ("nats://", "tls://", "ws://", "wss://")


@runtime_checkable
class IdentifiedJournal(Protocol):
    """A journal that has an identity, by which others are told apart."""

    async def identify(self) -> str:
        """Return a text that is equal for all processes of this journal, and for no other journal."""
        ...


def open_engine(address: str | None, journal: object, *, stall: float = 20.0) -> DispatchEngine:
    """Return the engine at an address; await its `open` before it is used.

    Args:
        address: "postgres" for the database of the journal, `nats://user:password@host:4222` for a
            NATS server with JetStream, "asyncio" for this process alone. None means "postgres" if the
            journal is in PostgreSQL, and "asyncio" otherwise.
        journal: the journal of the inbox.
        stall: seconds without a sign of life after which a worker counts as dead.

    Raises:
        ConfigurationError: the address is wrong or does not fit the journal, or a package is missing.

    >>> from holdfast.journal.memory import MemoryJournal
    >>> open_engine(None, MemoryJournal()).name
    'asyncio'
    """
    from holdfast.journal.postgres.postgres_journal import PostgresJournal

    if address is None:
        address = "postgres" if isinstance(journal, PostgresJournal) else "asyncio"
    if address == "asyncio":
        if isinstance(journal, SharedJournal):
            raise ConfigurationError(
                "engine",
                "asyncio carries jobs within one process, and the journal is shared by many",
                fix='Use "postgres"',
            )
        return AsyncioEngine()
    if address == "postgres":
        if isinstance(journal, PostgresJournal):
            address_of_journal = journal._server.address  # noqa: SLF001  # REASON: one database for both
            return PostgresEngine(address_of_journal, stall=stall)
        raise _unshared_error("postgres")
    if address.startswith(_NATS):
        if isinstance(journal, IdentifiedJournal):
            return NatsEngine(address, journal.identify, stall=stall)
        raise _unshared_error("nats")
    raise ConfigurationError("engine", f"must be {FORMS}")


def _unshared_error(engine: str) -> ConfigurationError:
    return ConfigurationError(
        "engine",
        f"{engine} serves many processes, and the journal belongs to one",
        fix='Use a PostgreSQL journal, or the engine "asyncio"',
    )


def share_link(service: ServiceTenants, engine: DispatchEngine) -> None:
    """Let a service show its runs over an engine; call it before the service starts.

    Args:
        service: the service.
        engine: the engine, which is open.
    """
    journal = service.journal
    if isinstance(engine, LinkingEngine) and isinstance(journal, LinkedJournal):
        service.open_link = engine.make_open_link(journal)
