"""The engine over NATS JetStream, for installations whose PostgreSQL has enough to do without it.

Jobs are messages of a stream with work-queue retention: each stays until its job is over, and one
that is not confirmed for a while is delivered to another worker. The inbox stays in the journal. It
must never carry a job to the workers of another journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.journal.inbox.dispatch_engine import HandleJob, Job
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.live_link import LinkedJournal, OpenLink

if TYPE_CHECKING:
    from holdfast.worker.engines.nats_connection import NatsConnection
    from holdfast.worker.engines.nats_stream import JobStream


class NatsEngine:
    """Carries jobs over a NATS server with JetStream; it belongs to one event loop.

    Args:
        url: `nats://user:password@host:4222`, see `NatsAddress`.
        identify: returns the identity of the journal, as `PostgresJournal.identify` does; not
            called if the address names a space.
        stall: seconds without a sign of life after which a job is delivered to another worker.

    Raises:
        ConfigurationError: an argument is invalid, or nats-py is not installed.

    >>> NatsEngine("nats://ada:secret@broker/staging", lambda: None)
    NatsEngine('nats://broker:4222/staging')
    """

    name = "nats"

    def __init__(
        self, url: str, identify: Callable[[], Awaitable[str]], *, stall: float = 20.0
    ) -> None:
        check_value("stall", stall, PositiveFloat)
        try:
            from holdfast.worker.engines.nats_connection import NatsAddress
        except ImportError as error:
            raise ConfigurationError(
                "engine",
                "nats needs the package nats-py, which is not installed",
                fix=install_command("nats"),
            ) from error
        self.address = NatsAddress(url)
        self._identify = identify
        self._stall = stall
        self._connection: NatsConnection | None = None
        self._stream: JobStream | None = None

    def __repr__(self) -> str:
        return f"NatsEngine({self.address.location!r})"

    async def open(self) -> None:
        """Connect, and create the stream unless it is there.

        Raises:
            EngineError: no server with JetStream can be reached.
        """
        from holdfast.worker.engines.nats_connection import NatsConnection
        from holdfast.worker.engines.nats_stream import JobStream

        if self._connection is None:
            space = await find_space(self.address.space, self._identify)
            self._stream = JobStream(space, self._stall)
            self._connection = NatsConnection(self.address)
        connection, stream = self._get_open()
        await connection.perform(stream.create)

    async def put(self, jobs: Sequence[Job]) -> None:
        """Put jobs; return when the server has stored them.

        Raises:
            EngineError: some may not have been stored.
        """
        if jobs:
            connection, stream = self._get_open()
            await connection.perform(lambda client: stream.put(client, jobs))

    async def run(self, handle: HandleJob, queues: Sequence[str], slots: JobSlots) -> None:
        """Deliver jobs until cancelled; see `DispatchEngine.run`."""
        from holdfast.worker.engines.nats_stream import NatsDelivery, NatsDeliverySettings

        connection, stream = self._get_open()
        settings = NatsDeliverySettings(tuple(queues), slots, self._stall)
        await NatsDelivery(connection, stream, handle, settings).run()

    async def find_lost(self, ids: Collection[int]) -> Collection[int]:
        """Return those of these entries that have no message in the stream."""
        if not ids:
            return []
        connection, stream = self._get_open()
        live = await connection.perform(stream.find_ids)
        return [entry for entry in ids if entry not in live]

    def make_open_link(self, journal: LinkedJournal) -> OpenLink:
        """Return a function that opens a live link over NATS; acts stay in the journal.

        The engine must be open, and must be closed after the link.

        Args:
            journal: the journal of the acts, whose own link is used while NATS is down.
        """
        from holdfast.worker.engines.nats_connection import NatsLink

        connection, stream = self._get_open()

        def open_link(receive: Callable[[str], None], changed: Callable[[bool], None]) -> NatsLink:
            own = journal.open_link(receive, lambda _is_up: None)
            return NatsLink(connection, stream.live_subject, own, receive, changed)

        return open_link

    def _get_open(self) -> tuple[NatsConnection, JobStream]:
        if self._connection is None or self._stream is None:
            raise EngineError(self.name, "is not open", fix="Await open() first")
        return self._connection, self._stream

    async def close(self) -> None:
        """Close the connection. A second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def find_space(named: str, identify: Callable[[], Awaitable[str]]) -> str:
    """Return the part of all subjects that names a journal.

    Args:
        named: the space that the address names; "" if it names none.
        identify: returns the identity of the journal.
    """
    if named:
        return f"s-{named}"
    return "j-" + hashlib.sha256((await identify()).encode()).hexdigest()[:24]
