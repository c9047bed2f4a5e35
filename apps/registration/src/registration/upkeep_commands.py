"""The commands beside the service: deletion, chasing, reconciling, and the export.

Deletion removes a person from the journal, the folder of photos and the database, and then the bytes of
the deleted rows. This module must never print personal data.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from holdfast import Sessions
from holdfast.errors import ConfigurationError, HoldfastError, SessionBusyError
from holdfast.journal import MemoryJournal, open_journal
from registration.club.time_zone import LONDON
from registration.outbox.chasing import chase
from registration.outbox.reconciling import reconcile
from registration.outbox.upkeep import DAYTIME
from registration.photos.folder import FolderStore
from registration.providers.payments import PaymentProvider
from registration.settings import Settings
from registration.store import Database, StoreError, Transaction, open_database
from registration.store.deletion import (
    Deleted,
    delete_empty_sessions,
    delete_registration,
    delete_session,
    expired,
    expired_registrations,
    forget_session,
)
from registration.store.office import export_csv
from registration.store.registrations import load_registration
from registration.store.sessions import load_session

Delete = Callable[[Transaction], Deleted]


class Archive(Struct, frozen=True, kw_only=True):
    """Where everything of a person is.

    Args:
        settings: the settings.
        database: the database.
        sessions: the conversations, in the journal.
        now: returns seconds since 1970.
    """

    settings: Settings
    database: Database
    sessions: Sessions
    now: Callable[[], float]


class Swept(Struct, frozen=True):
    """The result of a retention run.

    Args:
        sessions: how many expired sessions were deleted.
        registrations: how many registrations were deleted.
        busy: how many were left for the next run, as they are in use.
    """

    sessions: int = 0
    registrations: int = 0
    busy: int = 0


@asynccontextmanager
async def open_archive(
    settings: Settings, now: Callable[[], float] = time.time
) -> AsyncIterator[Archive]:
    """Open the database and the journal.

    Args:
        settings: where they are.
        now: returns seconds since 1970.

    Raises:
        DatabaseUnavailable: the database cannot be opened.
        JournalError: the journal cannot be opened; a file is open in the service.
    """
    async with AsyncExitStack() as stack:
        database = await open_database(settings.database.reveal())
        stack.push_async_callback(database.close)
        journal = open_journal(settings.journal.reveal())
        if not isinstance(journal, MemoryJournal):
            stack.callback(journal.close)
        yield Archive(settings=settings, database=database, sessions=Sessions(journal), now=now)


async def delete_person(archive: Archive, name: str) -> bool:
    """Delete all that is known of a person; whether there was anything.

    Args:
        archive: where it is.
        name: the id of a session, or of a registration.

    Raises:
        SessionBusyError: a turn is in progress; nothing was deleted.
        DatabaseUnavailable: do it again.
        JournalError: do it again.
    """
    now = archive.now()

    def find(tx: Transaction) -> tuple[str | None, Delete]:
        found = load_registration(tx, name)
        session = name if found is None else found.session_id
        if found is not None and (session is None or load_session(tx, session) is None):
            return session, lambda tx: delete_registration(tx, name, now)
        return session, lambda tx: delete_session(tx, session or name, now)

    session, work = await archive.database.read(find)
    had_words = session is not None and await _delete_words(archive, session)
    return await _delete_rows(archive, work) or had_words


async def sweep(archive: Archive) -> Swept:
    """Delete the sessions and registrations that are older than the settings say.

    The club keeps a registration that got as far as the payment, until nothing changed in it for
    `registration_days`. A session that is in use is left.
    """
    settings, database, now = archive.settings, archive.database, archive.now()
    await database.transact(lambda tx: delete_empty_sessions(tx, now))

    def list_expired(tx: Transaction) -> list[str]:
        return expired(
            tx,
            now,
            open_days=settings.open_session_days,
            finished_days=settings.finished_session_days,
        )

    def list_old(tx: Transaction) -> list[str]:
        return expired_registrations(tx, now, days=settings.registration_days)

    swept = Swept()
    for session in await database.read(list_expired):
        try:
            await _delete_words(archive, session)
        except SessionBusyError:
            swept = Swept(swept.sessions, swept.registrations, swept.busy + 1)
            continue
        await _delete_rows(archive, _forget(session, now))
        swept = Swept(swept.sessions + 1, swept.registrations, swept.busy)
    for owner in await database.read(list_old):
        await delete_person(archive, owner)
        swept = Swept(swept.sessions, swept.registrations + 1, swept.busy)
    return swept


def _forget(session: str, now: float) -> Delete:
    return lambda tx: forget_session(tx, session, now)


async def _delete_words(archive: Archive, session: str) -> bool:
    """Delete a conversation from the journal; whether it was there."""
    try:
        await archive.sessions.delete(session)
    except ConfigurationError:
        return False
    return True


async def _delete_rows(archive: Archive, work: Delete) -> bool:
    """Delete rows, and the files that they name; whether there was anything.

    Files of a process that ends in between are removed when the service looks for leftovers.
    """
    deleted = await archive.database.transact(work)
    objects = FolderStore(archive.settings.photo_folder)
    try:
        await objects.remove(deleted.files)
    finally:
        await objects.close()
    return deleted.existed


async def run_retention(settings: Settings) -> int:
    """Delete old data; return the exit status."""
    async with open_archive(settings) as archive:
        swept = await sweep(archive)
        await archive.database.compact()
    _say(
        f"deleted: {swept.sessions} sessions, {swept.registrations} registrations;"
        f" in use, and left for the next time: {swept.busy}"
    )
    return 0


async def run_delete(settings: Settings, name: str) -> int:
    """Delete all that is known of a person; return the exit status.

    Args:
        settings: where it is.
        name: the id of a session, or of a registration.
    """
    async with open_archive(settings) as archive:
        existed = await delete_person(archive, name)
        await archive.database.compact()
    _say("deleted" if existed else "there is no such session or registration")
    return 0 if existed else 1


async def run_chase(settings: Settings) -> int:
    """Write the reminders that are due, and suspend who did not pay; return the exit status."""
    now = time.time()
    if datetime.fromtimestamp(now, LONDON).hour not in DAYTIME:
        _say("parents are written to from 9 to 20 o'clock in London")
        return 0
    async with _opened(settings) as database:
        count = await database.transact(lambda tx: chase(tx, now))
    _say(f"written: {count}; the service sends them")
    return 0


async def run_reconcile(settings: Settings) -> int:
    """Compare the database with the payment provider; return the exit status."""
    async with _opened(settings) as database, PaymentProvider(settings.payments) as payments:
        found = await reconcile(database, payments, settings, time.time())
    _say(
        f"compared: {found.compared}; corrected, with a task for the office: {len(found.corrected)};"
        f" not answered by the provider: {len(found.unanswered)}"
    )
    return 1 if found.unanswered else 0


async def run_export(settings: Settings, target: Path) -> int:
    """Write all registrations of the season to a file that its owner alone may read.

    Args:
        settings: where they are.
        target: the file; it must not exist.
    """
    async with _opened(settings) as database:
        text = await database.read(lambda tx: export_csv(tx, settings.season))
    try:
        descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        _say(f"the file cannot be written: {error.strerror}")
        return 1
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8-sig"))
    _say(f"written: {target}")
    return 0


def run_command(settings: Settings, command: str, argument: str) -> int:
    """Perform a command; return the exit status.

    Args:
        settings: the settings.
        command: its name.
        argument: the id to delete, or the file to write.
    """
    runs = {
        "retention": lambda: run_retention(settings),
        "delete": lambda: run_delete(settings, argument),
        "chase": lambda: run_chase(settings),
        "reconcile": lambda: run_reconcile(settings),
        "export": lambda: run_export(settings, Path(argument)),
    }
    try:
        return asyncio.run(runs[command]())
    except (StoreError, HoldfastError) as error:
        # Errors of both name files and processes, and nobody.
        sys.stderr.write(f"registration: {error}\n")
        return 1


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Database]:
    database = await open_database(settings.database.reveal())
    try:
        yield database
    finally:
        await database.close()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
