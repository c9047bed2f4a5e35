"""Event streams that are open at once: how many, what is answered to one more, and when there is room again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE
from apps.registration.tests.http.served_club import Served, serve_club

from registration.emulators.faults import Faults


async def follow(club: Served, turn: str, stack: AsyncExitStack) -> int:
    """Open an event stream until the stack is closed; return the status."""
    headers = {"Authorization": f"Bearer {club.token}"}
    response = await stack.enter_async_context(
        club.http.get(f"{club.address}/events/{turn}", headers=headers)
    )
    return response.status


@pytest.mark.parametrize(
    ("settings", "status", "kind"),
    [
        ({"session_event_streams": "2"}, 429, "too_many_requests"),
        ({"event_streams": "2"}, 503, "unavailable"),
    ],
    ids=["session", "process"],
)
async def test_a_stream_too_many_is_refused_until_another_ends(
    tmp_path: Path, settings: dict[str, str], status: int, kind: str
) -> None:
    slow = {"addresses": Faults(["late"], late=3.0)}
    async with serve_club(tmp_path, provider_faults=slow, **settings) as club:
        await club.say_all(*TO_HOUSE)
        body = {"user_message": "12", "session_id": club.session}
        sent = await club.call("POST", "/chat", body, Prefer="respond-async")
        turn = sent.json["turn"]
        async with AsyncExitStack() as stack:
            assert [await follow(club, turn, stack) for _ in range(2)] == [200, 200]
            refused = await club.call("GET", f"/events/{turn}")
            assert (refused.status, refused.json["error"]["kind"]) == (status, kind)
            assert refused.headers["Retry-After"] == "5"
        async with asyncio.timeout(2):  # the readers left, and the turn goes on
            while True:
                async with AsyncExitStack() as stack:
                    if await follow(club, turn, stack) == 200:
                        break
        assert "event: answer" in (await club.call("GET", f"/events/{turn}")).json
