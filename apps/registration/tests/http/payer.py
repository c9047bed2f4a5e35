"""A parent with a phone: opens the link of the message, and presses a button on the provider's page."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from apps.registration.tests.http.prepared import prepare_session
from apps.registration.tests.http.served_club import Reply, Served

from registration.store.registrations import Registration, find_of_session

_LINK = re.compile(r"https?://[^/\s]+(/pay/\S+)")


async def ask_for_payment(club: Served, child: str = "Jack") -> Registration:
    """Let a parent name the payment day; return the registration."""
    club.session, club.token = await prepare_session(club.database, child, 29)
    reply = await club.say("15")
    assert reply.status == 200, reply.json
    return await load(club)


async def load(club: Served) -> Registration:
    """Return the registration of the session."""
    session = club.session
    found = await club.database.read(lambda tx: find_of_session(tx, session))
    assert found is not None
    return found


def find_link(club: Served, child: str = "Jack") -> str:
    """Return the path of the payment link that was sent for a child."""
    links = {
        found[1]
        for message in club.providers.sms.inbox
        if child in message.text and (found := _LINK.search(message.text))
    }
    (link,) = links
    return link


async def open_link(club: Served, link: str) -> Reply:
    """Open the link as a browser does, without the token of the chat, and follow no redirect."""
    async with club.http.get(club.address + link, allow_redirects=False) as response:
        return Reply(response.status, await response.text(), response.headers)


async def press(club: Served, link: str, choice: str) -> None:
    """Open the link, and press a button on the page of the provider."""
    opened = await open_link(club, link)
    assert opened.status == 302, opened.json
    async with club.http.post(opened.headers["Location"], data={"choice": choice}) as response:
        assert response.status == 200


async def wait_until(is_so: Callable[[], Awaitable[bool]], seconds: float = 20.0) -> None:
    """Wait until something is so; webhooks and jobs take their time. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not await is_so():
        if time.monotonic() > end:
            raise TimeoutError
        await asyncio.sleep(0.02)


async def wait_status(club: Served, status: str) -> Registration:
    """Wait until the registration of the session has a status, and nothing is left to do."""

    async def is_so() -> bool:
        registration = await load(club)
        return registration.status == status and not await count_left(club)

    await wait_until(is_so)
    return await load(club)


async def count_left(club: Served) -> int:
    """Return how many jobs are not done."""
    rows = await club.database.read(
        lambda tx: tx.execute("SELECT key FROM outbox WHERE state IN ('queued', 'running')")
    )
    return len(rows)


@contextmanager
def lock_database(file: Path) -> Iterator[None]:
    """Lock a SQLite file against everybody who writes."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
