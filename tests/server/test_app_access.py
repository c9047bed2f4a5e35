"""`create_app` lets only those through who may pass, with any journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.live_server import serve

from holdfast import Agent, SqliteJournal
from holdfast.errors import ConfigurationError
from holdfast.journal.service_store_opening import open_service_store
from holdfast.server import AccessOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.testing import ScriptedModel

TURN = b'{"agent": "greeter", "message": "Hi"}'


def greeter(**settings: object) -> Agent[str]:
    return Agent(ScriptedModel("Hello."), name="greeter", **settings)  # type: ignore[arg-type]


async def test_a_turn_needs_a_key_as_soon_as_there_is_one(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        app = create_app(greeter(), journal=journal, access=AccessOptions(auth="keys"))
        async with serve(app) as server:
            refused = await server.request("POST", "/api/v1/turns", TURN)
            assert (refused.status, refused.json()["kind"]) == (401, "unauthenticated")
            store = open_service_store(journal)  # as another process would
            text, key = make_key("ci", scopes=("admin",), now=0.0)
            await store.add_key(key)
            started = await server.request(
                "POST", "/api/v1/turns", TURN, authorization=f"Bearer {text}"
            )
            assert started.status in (200, 202)
            assert (await server.request("GET", "/ready")).json() == {"status": "ready"}
            store.close()


async def test_a_service_in_memory_answers_this_machine() -> None:
    app = create_app(greeter())
    async with serve(app) as server:
        assert (await server.request("POST", "/api/v1/turns", TURN)).status in (200, 202)
        hostile = await server.request("POST", "/api/v1/turns", TURN, origin="https://evil.example")
        assert hostile.status == 403
    await app.state.access.check_bind("127.0.0.1")
    with pytest.raises(ConfigurationError, match="no keys"):
        await app.state.access.check_bind("0.0.0.0")


async def test_a_journal_that_was_closed_is_not_ready(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "talk.db")
    async with serve(create_app(greeter(), journal=journal)) as server:
        journal.close()
        reply = await server.request("GET", "/ready")
        assert reply.status == 503
        assert reply.json()["problems"] == {"journal": "does not work: JournalClosedError"}
        assert (await server.request("GET", "/health")).status == 200
