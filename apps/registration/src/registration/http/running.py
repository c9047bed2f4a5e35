"""Opens the parts of the service and of its photos, in order, and closes them again.

The jobs of photos have a worker of their own, so that a slow model delays no message to a parent. This module must
never perform anything (the workers and the turns do), and must never decide anything about a photo.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from holdfast import Agent
from holdfast.errors import HoldfastError
from holdfast.resilience import CallMetrics
from holdfast.server import Service
from registration.flow.agents import ModelChoice, make_agents, make_photo_check
from registration.flow.conversations import make_conversation_handler
from registration.flow.model_calls import ModelCalls
from registration.flow.parts import Counts, Parts
from registration.flow.photo_verdicts import describe_failure, judge_photo, take_verdict
from registration.outbox.handlers import Desk, make_handlers
from registration.outbox.kinds import CHECK_PHOTO
from registration.outbox.outcomes import make_waits
from registration.outbox.upkeep import Upkeep
from registration.outbox.worker import Worker
from registration.photos.checking import (
    NoVerdict,
    PhotoDesk,
    Verdict,
    make_photo_handler,
    remove_leftovers,
)
from registration.photos.converter import Converter
from registration.photos.folder import FolderStore
from registration.photos.object_store import ObjectStore, ObjectStoreError
from registration.providers.address_book import AddressBook
from registration.providers.connection import ProviderClient
from registration.providers.messages import Mailer, SmsProvider
from registration.providers.payments import PaymentProvider
from registration.settings import Endpoint, Settings
from registration.store import StoreError, open_database

if TYPE_CHECKING:
    from registration.providers.mcp_addresses import McpAddressBook

C = TypeVar("C", bound=ProviderClient)

GRACE = 10.0
"""Seconds that the end waits for tools that write."""


class Time(Struct, frozen=True):
    """The clock of the service; a test brings its own.

    Args:
        now: returns seconds since the epoch.
        sleep: waits between two calls of a model.
        job_waits: seconds before each further attempt at a job; None for those of the settings.
    """

    now: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    job_waits: tuple[float, ...] | None = None


REAL_TIME = Time()


class Running(Struct, frozen=True, kw_only=True):
    """The service while it runs.

    Args:
        parts: the parts that the conversations work with.
        service: drives the turns.
        worker: does the jobs of the outbox.
        photos: the parts that the routes of photos work with.
    """

    parts: Parts
    service: Service
    worker: Worker
    photos: Photos


@asynccontextmanager
async def open_service(settings: Settings, clock: Time = REAL_TIME) -> AsyncIterator[Running]:
    """Open the database, the providers, the agents and the worker; close them at the end.

    Args:
        settings: the settings.
        clock: the clock, and how to wait.

    Raises:
        DatabaseUnavailable: the database cannot be opened.
        JournalError: the journal cannot be opened.
    """
    async with AsyncExitStack() as stack:
        database = await open_database(settings.database.reveal())
        stack.push_async_callback(database.close)

        def connect(kind: Callable[[Endpoint], C], endpoint: Endpoint) -> C:
            client = kind(endpoint)
            stack.push_async_callback(client.close)
            return client

        parts = Parts(
            settings=settings,
            database=database,
            payments=connect(PaymentProvider, settings.payments),
            sms=connect(SmsProvider, settings.sms),
            addresses=connect(AddressBook, settings.addresses),
            mcp_addresses=_find_mcp(settings),
            mail=connect(Mailer, settings.mail),
            calls=ModelCalls(CallMetrics(), sleep=clock.sleep),
            counts=Counts(),
            now=clock.now,
        )
        choice = ModelChoice(
            name=settings.model,
            base_url=settings.model_address or None,
            api_key=settings.model_key.reveal() or None,
        )
        journal = settings.journal.reveal()
        agents = make_agents(parts, choice, journal)
        service = await stack.enter_async_context(
            Service(agents.values(), journal=journal, grace=GRACE)
        )
        photo_check = await stack.enter_async_context(make_photo_check(parts, choice))
        photos = await stack.enter_async_context(open_photos(parts, photo_check))
        waits = clock.job_waits or make_waits(settings.job_wait_seconds)
        worker = await stack.enter_async_context(_run_worker(parts, service, waits))
        await stack.enter_async_context(_run_upkeep(parts, photos))
        yield Running(parts=parts, service=service, worker=worker, photos=photos)


def _find_mcp(settings: Settings) -> McpAddressBook | None:
    """Return the address book behind the MCP server of the settings; None without one."""
    if not settings.mcp_address:
        return None
    # The SDK takes 34 MB and half a second: only who has a server pays for it.
    from registration.providers.mcp_addresses import McpAddressBook  # noqa: PLC0415 -- as above

    return McpAddressBook(Endpoint(address=settings.mcp_address, token=settings.mcp_token))


@asynccontextmanager
async def _run_upkeep(parts: Parts, photos: Photos) -> AsyncIterator[None]:
    """Chase payments and end old conversations, once an hour."""
    upkeep = Upkeep(parts.database, parts.now, photos.discard)
    task = asyncio.create_task(upkeep.run(), name="registration-upkeep")
    try:
        yield
    finally:
        upkeep.stop()
        await task


@asynccontextmanager
async def _run_worker(
    parts: Parts, service: Service, waits: tuple[float, ...]
) -> AsyncIterator[Worker]:
    desk = Desk(
        settings=parts.settings,
        database=parts.database,
        payments=parts.payments,
        sms=parts.sms,
        mail=parts.mail,
        now=parts.now,
    )
    handlers = make_handlers(desk, waits) | make_conversation_handler(parts, service.sessions)
    worker = Worker(parts.database, handlers, parts.now, new_jobs=parts.new_jobs)
    task = asyncio.create_task(worker.run(), name="registration-worker")
    try:
        yield worker
    finally:
        worker.stop()
        try:
            await asyncio.wait_for(task, GRACE)
        except TimeoutError:  # its present job is done again by another, with the same key
            with suppress(asyncio.CancelledError):
                await task


LEASE: Final = 15.0
"""Seconds after which the job of a process that was killed is done by another."""
CLEAN_EVERY: Final = 600.0

_log = logging.getLogger("registration")


class Photos(Struct, frozen=True, kw_only=True):
    """The parts that the routes of photos work with.

    Args:
        objects: where the files are.
        worker: does the jobs.
    """

    objects: ObjectStore
    worker: Worker

    async def discard(self, names: Iterable[str]) -> None:
        """Remove uploads; those that cannot be removed now are left to the cleaning."""
        with suppress(ObjectStoreError):
            await self.objects.remove(names)


@asynccontextmanager
async def open_photos(parts: Parts, agent: Agent[Any]) -> AsyncIterator[Photos]:
    """Open the object store and do the jobs of photos until the end.

    Args:
        parts: the database, and the settings.
        agent: looks at photos.
    """
    objects = FolderStore(parts.settings.photo_folder)

    async def judge(session: str, picture: bytes) -> Verdict:
        try:
            found = await judge_photo(agent, session, picture)
        except HoldfastError as error:
            raise NoVerdict(describe_failure(error)) from None
        return Verdict(found.acceptable, found.reason)

    desk = PhotoDesk(
        database=parts.database,
        objects=objects,
        converter=Converter(),
        judge=judge,
        take_verdict=take_verdict,
        now=parts.now,
    )
    handlers: Mapping[str, Any] = {CHECK_PHOTO: make_photo_handler(desk)}
    worker = Worker(parts.database, handlers, parts.now, lease=LEASE)
    tasks = [
        asyncio.create_task(worker.run(), name="registration-photos"),
        asyncio.create_task(_clean(parts, objects), name="registration-photos-cleaning"),
    ]
    try:
        yield Photos(objects=objects, worker=worker)
    finally:
        worker.stop()
        for task in tasks:  # their jobs are done by another, after their leases
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await objects.close()


async def _clean(parts: Parts, objects: ObjectStore) -> None:
    while True:
        try:
            await remove_leftovers(parts.database, objects, parts.now())
        except (StoreError, ObjectStoreError) as error:
            _log.warning("files that are not needed were not removed: %s", error)
        await asyncio.sleep(CLEAN_EVERY)
