"""A PostgreSQL that dies in the middle of a turn and comes back: the message is answered, once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from apps.registration.tests.flow.test_registration_by_chat import TO_PHOTO
from apps.registration.tests.http.served_club import HeldAnswer, Reply, Served, serve_club
from tests.postgres_server import CannotRun, PostgresServer

from registration.emulators.faults import Faults


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of its own, as the test kills it."""
    try:
        server = PostgresServer()
    except CannotRun as error:
        pytest.skip(str(error))
    yield server
    server.stop()


async def _say_until_answered(club: Served, text: str, message: str) -> tuple[Reply, list[int]]:
    refused: list[int] = []
    async with asyncio.timeout(60):
        while True:
            reply = await club.say(text, message_id=message)
            if reply.status == 200:
                return reply, refused
            assert reply.json["error"]["retryable"], reply.json
            refused.append(reply.status)
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("down", [0.0, 2.0], ids=["restarted", "away for a while"])
async def test_a_message_is_answered_after_the_database_was_restarted(
    tmp_path: Path, server: PostgresServer, down: float
) -> None:
    held = {name: HeldAnswer() for name in ("addresses", "payments")}
    late = {**held, "sms": Faults(["late"], late=1.0)}
    given = {"database": server.new_url(), "journal": server.new_url()}
    async with serve_club(tmp_path, provider_faults=late, **given) as club:
        kills = {"12": held["addresses"], "15": held["payments"]}
        steps = []
        for number, text in enumerate(TO_PHOTO):
            turn = asyncio.create_task(_say_until_answered(club, text, f"m{number}"))
            if text in kills:
                await kills[text].has_come.wait()
                assert not turn.done()
                await asyncio.to_thread(server.kill)
                kills[text].may_go.set()
                await asyncio.sleep(down)
                await asyncio.to_thread(server.start)
            reply, _ = await turn
            steps.append(reply.json["routine_number"])
        assert steps == sorted(set(steps)), steps
        assert steps[-1] == 34
        assert len(club.providers.payments.requests) == 1
        assert len(club.providers.sms.inbox) == 1
