"""What comes while a turn of the same session is under way: a verdict on a photo, a payment, a deletion."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from apps.registration.tests.flow.chat_club import KEYS
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE
from apps.registration.tests.http.payer import ask_for_payment, find_link, press, wait_status
from apps.registration.tests.http.prepared import BEFORE_SEASON
from apps.registration.tests.http.served_club import HeldAnswer, Served, serve_club
from apps.registration.tests.photos import samples

from holdfast import ToolCall
from holdfast.testing.emulator import EmulatedRequest
from registration.emulators.model import choose_reply
from registration.settings import Settings, read_settings
from registration.upkeep_commands import open_archive, sweep

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer

_DAY = 86_400.0


class _Held:
    """Lets the next request to the model wait until the test lets it go. The model has a thread of its own."""

    def __init__(self) -> None:
        self.holds_next = False
        self.has_come, self.may_go = threading.Event(), threading.Event()

    async def __call__(self, request: EmulatedRequest) -> str | Sequence[ToolCall]:
        if self.holds_next:
            self.holds_next = False
            self.has_come.set()
            while not self.may_go.is_set():
                await asyncio.sleep(0.01)
        return choose_reply(request)


@pytest.mark.slow  # starts a program or a server
async def test_a_verdict_and_a_payment_come_during_a_turn(tmp_path: Path) -> None:
    held = _Held()
    async with serve_club(tmp_path, clock=BEFORE_SEASON, replies=held) as club:
        await ask_for_payment(club)
        assert (await club.say_all("yes", "9/10", "7")).json["routine_number"] == 34
        held.holds_next = True
        turn = asyncio.create_task(club.say("How large may the picture be?"))
        await asyncio.to_thread(held.has_come.wait, 60)
        assert (await club.send_photo(samples.photo(1))).status == 202
        await press(club, find_link(club), "pay")
        assert (await club.follow_photo())["state"] == "done"
        assert not turn.done()  # the turn read its message at step 34, and ends at 35
        held.may_go.set()
        reply = await turn
        assert (reply.status, reply.json["routine_number"]) == (200, 35)
        paid = await wait_status(club, "active")
        assert (paid.signing_fee_paid, paid.photo_file is not None) == (True, True)
        assert (await club.say("Thank you")).json["routine_number"] == 35
        paid_messages = [one for one in club.providers.sms.inbox if "confirmed" in one.text]
        assert len(paid_messages) == 1


def _read_settings(club: Served, folder: Path, url: str) -> Settings:
    return read_settings(
        {
            **club.providers.environment,
            **KEYS,
            "REGISTRATION_DATABASE": url,
            "REGISTRATION_JOURNAL": url,
            "REGISTRATION_PHOTO_FOLDER": str(folder / "photos"),
        }
    )


@pytest.mark.slow  # starts a program or a server
async def test_a_session_that_expires_in_a_turn_is_deleted_after_it(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url, held = postgres.new_url(), HeldAnswer()
    late = {"addresses": held}
    async with serve_club(tmp_path, provider_faults=late, database=url, journal=url) as club:
        await club.say_all(*TO_HOUSE)
        turn = asyncio.create_task(club.say("12", message_id="m1"))
        await held.has_come.wait()
        settings, later = _read_settings(club, tmp_path, url), time.time() + 31 * _DAY
        async with open_archive(settings, lambda: later) as archive:
            during = await sweep(archive)
            assert (during.sessions, during.busy) == (0, 1)
            held.may_go.set()
            reply = await turn
            assert (reply.status, reply.json["routine_number"]) == (200, 15)
            after = await sweep(archive)
            assert (after.sessions, after.busy) == (1, 0)
        gone = await club.say("yes", message_id="m2")
        assert gone.status == 404
        for table in ("sessions", "messages", "effects"):
            rows = await club.database.read(
                lambda tx, name=table: tx.execute(f"SELECT * FROM {name}")
            )
            assert not rows, table
