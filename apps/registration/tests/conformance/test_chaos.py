"""Ten registrations while 30 % of all requests to every party fail: the right end, and nothing doubled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from apps.registration.tests.http.mortal_club import name_children
from apps.registration.tests.http.parents import InsistingParent, find_wrong
from apps.registration.tests.http.payer import count_left, find_link, open_link, wait_until
from apps.registration.tests.http.prepared import BEFORE_SEASON
from apps.registration.tests.http.served_club import Served, serve_club
from msgspec.structs import replace

from registration.emulators import Faults, WebhookPlan
from registration.emulators.model import make_faults
from registration.store.tasks import list_tasks

# Starts no processes, so that it may run beside those that do.
pytestmark = pytest.mark.xdist_group("registrations")

PARENTS = 100 if os.environ.get("HOLDFAST_FULL") else 10
PARTIES = ("payments", "sms", "mail", "addresses")
SHORT = {f"{party}_total_seconds": "0.5" for party in PARTIES}
ONE_ADDRESS = {"sessions_per_window": "1000"}  # all parents come from one


@pytest.mark.timeout(1200)
async def test_every_child_is_registered_once(
    tmp_path: Path, new_urls: Callable[[], tuple[str, str]]
) -> None:
    faults = {name: Faults(chance=0.3, seed=11, late=0.7) for name in PARTIES}
    time = replace(BEFORE_SEASON, job_waits=(0.1,) * 12)
    database, journal = new_urls()
    async with serve_club(
        tmp_path,
        faults=make_faults(0.3, 11),
        provider_faults=faults,
        plan=WebhookPlan(spread=0.3, seed=11),
        clock=time,
        database=database,
        journal=journal,
        **SHORT,
        **ONE_ADDRESS,
    ) as club:
        names = name_children("Kim")
        parents = [InsistingParent(club, next(names)) for _ in range(PARENTS)]
        await asyncio.gather(*(register(club, parent) for parent in parents))
        await wait_until(lambda: is_quiet(club), 60.0)
        for parent in parents:
            await check_once(club, parent)
        assert await club.database.read(list_tasks) == []
    assert all(one.happened for name, one in faults.items() if name != "mail")


async def register(club: Served, parent: InsistingParent) -> None:
    await parent.register()
    await wait_until(lambda: has_link(club, parent), 60.0)
    await pay(club, find_link(club, parent.child))
    await parent.finish()
    await wait_until(lambda: is_active(parent), 60.0)


async def has_link(club: Served, parent: InsistingParent) -> bool:
    return any(parent.child in one.text for one in club.providers.sms.inbox)


async def pay(club: Served, link: str) -> None:
    """Open the link until it leads to the provider, and pay twice, as a double click does."""
    for _ in range(60):
        opened = await open_link(club, link)
        if opened.status == 302:
            break
        assert opened.status == 503, opened.json
        await asyncio.sleep(0.1)
    for _ in range(2):
        async with club.http.post(opened.headers["Location"], data={"choice": "pay"}) as page:
            assert page.status == 200


async def is_active(parent: InsistingParent) -> bool:
    return (await parent.registration()).status == "active"


async def is_quiet(club: Served) -> bool:
    return not await count_left(club)


async def check_once(club: Served, parent: InsistingParent) -> None:
    registration, payments = await parent.registration(), club.providers.payments
    assert find_wrong(parent, registration) == []
    assert parent.find_unhelpful() == []
    mine = {"registration": registration.id}
    assert [one.id for one in payments.requests if one.metadata == mine] == [
        registration.billing_request
    ]
    assert [one.status for one in payments.payments if one.metadata == mine] == ["confirmed"]
    assert [one.id for one in payments.subscriptions if one.metadata == mine] == [
        registration.subscription
    ]
    texts = [one.text for one in club.providers.sms.inbox if parent.child in one.text]
    assert sorted("confirmed" in text for text in texts) == [False, True]
