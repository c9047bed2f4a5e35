"""The service is killed at every instant of steps 28 to 35; the parent goes on, and nothing is doubled."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from apps.registration.tests.http.mortal_club import (
    Child,
    KillingFaults,
    MortalClub,
    check_child,
    name_children,
    open_mortal_club,
    register_with_deaths,
)
from apps.registration.tests.http.payer import count_left, press, wait_until

from registration.store.registrations import Registration, find_of_session

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.timeout(900)

KINDS = ("before a record", "after a record", "before a commit", "after a commit")
IS_FULL = bool(os.environ.get("HOLDFAST_FULL"))
DEAD_LEASES = 120.0
"""Seconds after which every job of a dead process is taken by another."""


async def kill_everywhere(club: MortalClub, kind: str, numbers: Sequence[int] = ()) -> list[Child]:
    """Register children, each with a death at another instant of every message.

    Args:
        club: the service.
        kind: the kind of the instants.
        numbers: which instants; by default all, until a message has fewer.
    """
    children = []
    for number, name in enumerate(name_children("Kim"), 1):
        if numbers and number > max(numbers):
            break
        if numbers and number not in numbers:
            continue
        child = await club.begin_child(name)
        children.append(child)
        if not await register_with_deaths(club, child, kind, number):
            break
    assert club.kills >= len(children)
    return children


async def pay_for(club: MortalClub, children: list[Child]) -> None:
    """Let every parent pay; each registration is confirmed once."""
    for child in children:
        await press(club, await check_child(club, child), "pay")
    await club.put_forward(DEAD_LEASES)
    await wait_until(lambda: are_done(club, children), 120.0)
    for child in children:
        registration = await find_registration(club, child)
        mine = {"registration": registration.id}
        payments = club.providers.payments
        assert len([one for one in payments.subscriptions if one.metadata == mine]) == 1
        texts = [one.text for one in club.providers.sms.inbox if child.name in one.text]
        assert sorted("confirmed" in text for text in texts) == [False, True]


async def find_registration(club: MortalClub, child: Child) -> Registration:
    session = child.session
    found = await club.database.read(lambda tx: find_of_session(tx, session))
    assert found is not None
    return found


async def are_done(club: MortalClub, children: list[Child]) -> bool:
    states = {(await find_registration(club, child)).status for child in children}
    return states == {"active"} and not await count_left(club)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_registration_survives_every_instant(tmp_path: Path, kind: str) -> None:
    urls = (f"sqlite:///{tmp_path}/club.db", f"sqlite:///{tmp_path}/talk.db")
    async with open_mortal_club(tmp_path, *urls) as club:
        await pay_for(club, await kill_everywhere(club, kind))


@pytest.mark.parametrize("kind", KINDS if IS_FULL else KINDS[:1])
async def test_another_process_takes_over(
    tmp_path: Path, postgres: PostgresServer, kind: str
) -> None:
    async with open_mortal_club(tmp_path, postgres.new_url(), postgres.new_url()) as club:
        await club.start_other()
        await pay_for(club, await kill_everywhere(club, kind, () if IS_FULL else (4,)))


@pytest.mark.parametrize("acts", [False, True])
async def test_a_service_dies_while_a_provider_works(
    new_urls: Callable[[], tuple[str, str]], tmp_path: Path, acts: bool
) -> None:
    async with open_mortal_club(tmp_path, *new_urls()) as club:
        children = []
        for name, faults, path in (
            ("Ann", club.providers.payments.faults, "/v1/billing_requests"),
            ("Ben", club.providers.sms.faults, "/v1/messages"),
        ):
            assert isinstance(faults, KillingFaults)
            faults.request, faults.acts, faults.left = f"POST {path}", acts, 1
            child = await club.begin_child(name)
            children.append(child)
            assert await register_with_deaths(club, child, "", 0) == 1
        await pay_for(club, children)
