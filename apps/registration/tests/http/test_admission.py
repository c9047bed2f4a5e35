"""What every request passes: bodies within limits, headers of security, and windows by address."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE
from apps.registration.tests.http.served_club import HeldAnswer, Served, serve_club
from apps.registration.tests.store.samples import NOON

from registration.http import admission
from registration.store import open_database
from registration.store.deletion import delete_empty_sessions
from registration.store.messages import NewMessage, save_message
from registration.store.sessions import create_session, load_session


async def send_raw(club: Served, head: str, body: bytes = b"") -> bytes:
    """Send bytes, and return what comes back until the connection is closed."""
    address = urlsplit(club.address)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"{head}\r\nHost: club\r\n\r\n".encode() + body)
    await writer.drain()
    received = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()
    return received


async def test_a_body_that_does_not_arrive_is_answered_with_408(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "BODY_SECONDS", 0.2)
    async with serve_club(tmp_path) as club:
        told = "Content-Type: application/json\r\nConnection: close\r\nContent-Length: 100"
        head = f"POST /sessions HTTP/1.1\r\n{told}"
        received = await send_raw(club, head, b'{"a"')
        assert received.startswith(b"HTTP/1.1 408 ")
        assert b'"too_slow"' in received
        assert (await club.call("POST", "/sessions", {})).status == 201


async def test_a_body_that_is_too_long_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with serve_club(tmp_path, body_bytes="1000") as club:
        for head, body in (
            ("Content-Length: 5000", b""),
            ("Transfer-Encoding: chunked", b"7d0\r\n" + b"x" * 2000 + b"\r\n"),
        ):
            told = f"Content-Type: application/json\r\nConnection: close\r\n{head}"
            line = f"POST /chat HTTP/1.1\r\n{told}"
            assert (await send_raw(club, line, body)).startswith(b"HTTP/1.1 413 ")


async def test_an_address_that_no_database_can_look_up_is_refused(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        for path in ("/sessions/%00", "/office/registrations?after=%00", "/pay/a%00b"):
            received = await send_raw(club, f"GET {path} HTTP/1.1\r\nConnection: close")
            assert received.startswith(b"HTTP/1.1 400 "), path


async def test_every_answer_has_headers_of_security(tmp_path: Path) -> None:
    async with serve_club(tmp_path, public_address="https://club.example") as club:
        for path in ("/nowhere", f"/sessions/{club.session}", "/chat"):
            headers = (await club.call("GET", path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cache-Control"] == "no-store"
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert headers["Strict-Transport-Security"]


async def test_an_address_begins_so_many_conversations_in_a_window(tmp_path: Path) -> None:
    async with serve_club(tmp_path, sessions_per_window="3") as club:
        statuses = [(await club.call("POST", "/sessions", {})).status for _ in range(3)]
        assert statuses == [201, 201, 429]
        assert (await club.say("200-nobody-u10-2526")).status == 200


async def test_the_log_has_templates_and_no_values(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registration.access")
    async with serve_club(tmp_path) as club:
        await club.call("GET", f"/sessions/{club.session}?name=Zebedee")
        await club.call("GET", "/Zebedee")
    lines = [one.getMessage() for one in caplog.records if one.name == "registration.access"]
    assert lines[-2].startswith("GET /sessions/{session_id} 200 ")
    assert lines[-1].startswith("GET (none) 404 ")
    assert club.session not in caplog.text
    assert "Zebedee" not in caplog.text


async def test_a_mistake_of_the_program_tells_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*arguments: object) -> None:
        raise RuntimeError("Zebedee Quackenbush")

    async with serve_club(tmp_path) as club:
        monkeypatch.setattr("registration.http.chat_routes.find_own_session", fail)
        reply = await club.say("Hello")
        assert (reply.status, reply.json["error"]["kind"]) == (500, "failed")
        assert "Zebedee" not in f"{reply.json}{caplog.text}"
        assert "RuntimeError at " in caplog.text


async def test_a_conversation_in_which_nobody_wrote_is_deleted_after_a_day(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path}/club.db")
    for name in ("empty", "asked", "new"):
        began = NOON + (name == "new") * 60
        await database.transact(lambda tx, n=name, at=began: create_session(tx, n, n, "u", at))
    new = NewMessage("asked", "m1", "t1", "How do I register?")
    await database.transact(lambda tx: save_message(tx, new, NOON))
    assert await database.transact(lambda tx: delete_empty_sessions(tx, NOON + 86_400)) == 1
    left = [
        name
        for name in ("empty", "asked", "new")
        if await database.read(lambda tx, n=name: load_session(tx, n))
    ]
    assert left == ["asked", "new"]
    await database.close()


@pytest.mark.slow  # starts a program or a server
def test_a_server_writes_its_log_to_standard_error() -> None:
    program = """
import logging
from registration.serve import configure_logs
configure_logs()
logging.getLogger("registration.access").info("GET / 200 1 ms")
logging.getLogger("another").info("left out")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.endswith("INFO registration.access GET / 200 1 ms\n")
    assert done.stderr.count("\n") == 1


async def follow(club: Served, turn: str, stack: AsyncExitStack) -> int:
    """Open an event stream until the stack is closed; return the status."""
    headers = {"Authorization": f"Bearer {club.token}"}
    response = await stack.enter_async_context(
        club.http.get(f"{club.address}/events/{turn}", headers=headers)
    )
    return response.status


@pytest.mark.slow  # starts a program or a server
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
    held = HeldAnswer()
    async with serve_club(tmp_path, provider_faults={"addresses": held}, **settings) as club:
        await club.say_all(*TO_HOUSE)
        body = {"user_message": "12", "session_id": club.session}
        sent = await club.call("POST", "/chat", body, Prefer="respond-async")
        turn = sent.json["turn"]
        async with AsyncExitStack() as stack:
            assert [await follow(club, turn, stack) for _ in range(2)] == [200, 200]
            refused = await club.call("GET", f"/events/{turn}")
            assert (refused.status, refused.json["error"]["kind"]) == (status, kind)
            assert refused.headers["Retry-After"] == "5"
        async with asyncio.timeout(60):  # the readers left, and the turn goes on
            while True:
                async with AsyncExitStack() as stack:
                    if await follow(club, turn, stack) == 200:
                        break
        held.may_go.set()
        assert "event: answer" in (await club.call("GET", f"/events/{turn}")).json
