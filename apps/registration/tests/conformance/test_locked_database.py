"""The database is locked: nothing is said to be saved, and what happened meanwhile is not doubled."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from apps.registration.tests.http.payer import lock_database
from apps.registration.tests.http.prepared import BEFORE_SEASON, prepare_session
from apps.registration.tests.http.served_club import serve_club
from apps.registration.tests.http.webhooks import make_webhook, send_webhook
from apps.registration.tests.http.whole_registrations import find_step

from registration.emulators.faults import Fault, Faults

# Starts no processes, so that it may run beside those that do.
pytestmark = pytest.mark.xdist_group("registrations")


class LockingFaults(Faults):
    """Locks the database at the first request that creates something."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.lock: AbstractContextManager[None] | None = None

    def take(self, method: str, path: str, key: str) -> Fault | None:
        """Lock, once; the provider works."""
        if self.lock is None and (method, path) == ("POST", "/v1/billing_requests"):
            self.lock = lock_database(self.file)
            self.lock.__enter__()
        return None


async def test_what_could_not_be_saved_is_found_by_its_key(tmp_path: Path) -> None:
    faults = LockingFaults(tmp_path / "club.db")
    async with serve_club(
        tmp_path, provider_faults={"payments": faults}, clock=BEFORE_SEASON
    ) as club:
        club.session, club.token = await prepare_session(club.database, "Jack", 29)
        refused = await club.say("15", message_id="m1")
        assert (refused.status, refused.json["error"]["retryable"]) == (503, True)
        assert await find_step(club) == 29
        assert faults.lock is not None
        faults.lock.__exit__(None, None, None)
        steps = []
        for _ in range(20):
            reply = await club.say("15", message_id="m1")
            steps.append((reply.status, reply.json.get("routine_number")))
            if reply.status == 200:
                break
        assert steps[-1] == (200, 30), steps
        assert len(club.providers.payments.requests) == len(club.providers.sms.inbox) == 1


async def test_while_the_database_is_locked_nothing_is_said_to_be_saved(tmp_path: Path) -> None:
    async with serve_club(tmp_path, clock=BEFORE_SEASON) as club:
        club.session, club.token = await prepare_session(club.database, "Jack", 29)
        body, signature = make_webhook(club, payment="PM1")
        with lock_database(tmp_path / "club.db"):
            webhook, message = await asyncio.gather(
                send_webhook(club, body, signature), club.say("15", message_id="m1")
            )
        assert (webhook.status, webhook.json["error"]["retryable"]) == (503, True)
        assert (message.status, message.json["error"]["retryable"]) == (503, True)
        assert await find_step(club) == 29
        assert not club.providers.payments.requests
        # It is saved now, or was a little after its answer: on a slow machine that does not wait for the lock's end.
        again = await send_webhook(club, body, signature)
        assert (again.status, again.json["new"] in (0, 1)) == (200, True)
        assert (await send_webhook(club, body, signature)).json["new"] == 0
        assert (await club.say("15", message_id="m1")).json["routine_number"] == 30
