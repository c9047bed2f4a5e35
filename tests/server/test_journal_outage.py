"""While PostgreSQL is down, requests are answered soon, and turns in progress wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest
from tests.postgres_server import PostgresServer, Proxy
from tests.server.serving import Answer, Api, serve

from holdfast import Agent, PostgresJournal, Reply, ToolCall, ToolPermission, tool
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.turns import turn_runner
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.postgres import postgres_live
from holdfast.server import create_app
from holdfast.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio

LONG = 60.0
"""Seconds for which a turn waits for the server, and which a statement may take whose answer is lost."""
SOON = LONG / 2
"""Seconds; a request takes a few, and many more on a busy machine."""
BODY = {"agent": "worker", "message": "Work.", "session": "ada"}


@pytest.fixture
def stopped(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server that the test kills; it runs again afterwards."""
    yield postgres
    postgres.kill()
    postgres.start()


class Work:
    """A tool that ends when the test says so."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture
async def base(url: str, work: Work) -> AsyncIterator[str]:
    """The address of a service."""

    @tool(effect="write")
    async def do_work() -> str:
        """Work."""
        work.begun.set()
        await work.may_end.wait()
        return "done"

    model = ScriptedModel(Reply((ToolCall("c", "do_work", "{}"),)), "All done.", "Again.")
    with PostgresJournal(url, wait=LONG) as journal:
        agent = Agent(model, name="worker", tools=[do_work], journal=journal)
        async with serve(create_app(agent)) as address:
            yield address


async def timed(call: asyncio.Future[Answer]) -> tuple[Answer, float]:
    began = time.monotonic()
    return await call, time.monotonic() - began


@pytest.mark.slow  # takes half a second or more
async def test_requests_are_refused_soon_and_a_turn_goes_on_when_the_server_is_back(
    base: str, work: Work, stopped: PostgresServer
) -> None:
    async with Api(base) as api, aiohttp.ClientSession() as http:
        assert (await api.get("/sessions")).status == 200
        waiting = asyncio.ensure_future(api.post("/turns", {**BODY, "wait": 50}))
        await work.begun.wait()
        stream = await http.get(f"{api.base}/sessions/ada/events?until=turn_end")
        stopped.kill()
        chat = {"model": "worker", "messages": [{"role": "user", "content": "Hi."}]}
        found = await asyncio.gather(
            *[
                timed(asyncio.ensure_future(call))
                for call in (
                    api.get("/sessions"),
                    api.get("/sessions/ada"),
                    api.get("/sessions/eve/events", headers={"Accept": "text/event-stream"}),
                    api.get("/questions"),
                    api.post("/turns", {**BODY, "session": "eve", "wait": 50}),
                    api.post("/turns", {**BODY, "session": "eve"}, headers=keyed("k")),
                    api.call("PATCH", "/sessions/ada", {"title": "Work"}),
                    api.post("/sessions/ada/fork", {}, headers=keyed("f")),
                )
            ]
        )
        for answer, seconds in found:
            assert (answer.status, answer.json["kind"]) == (503, "journal"), answer.body
            assert answer.json["retryable"]
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert seconds < SOON
        began = time.monotonic()
        async with http.get(f"{base}/ready") as ready:
            assert ready.status == 503
            assert (await ready.json())["problems"] == {"journal": "cannot be reached"}
        assert time.monotonic() - began < SOON
        began = time.monotonic()
        async with http.post(f"{base}/v1/chat/completions", json=chat) as refused:
            assert refused.status == 503
            assert (await refused.json())["error"]["type"] == "server_error"
        assert time.monotonic() - began < SOON
        assert not waiting.done()  # its turn was accepted, and is not lost
        stopped.start()
        work.may_end.set()
        turn = (await waiting).json
        assert (turn["status"], turn["text"]) == ("completed", "All done.")
        assert b"turn_closed" in await stream.read()
        async with asyncio.timeout(60):
            while (await api.get("/sessions")).status != 200:
                await asyncio.sleep(0.05)
        again = await api.post("/sessions/ada/fork", {}, headers=keyed("f"))
        assert again.status in (201, 409), again.body


@pytest.mark.slow  # takes half a second or more
async def test_a_short_restart_of_the_server_is_waited_for(
    base: str, stopped: PostgresServer
) -> None:
    async with Api(base) as api:
        assert (await api.get("/sessions")).status == 200
        stopped.kill()
        call = asyncio.ensure_future(api.get("/sessions"))
        await asyncio.to_thread(stopped.start)
        assert (await call).status == 200


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("is_linked", [True, False], ids=["linked", "not linked yet"])
async def test_a_network_that_loses_everything_is_noticed(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch, *, is_linked: bool
) -> None:
    monkeypatch.setattr(postgres_live, "SECONDS_BETWEEN_BEATS", 0.2)
    if not is_linked:
        monkeypatch.setattr(postgres_live, "CHANNEL", "SELECT pg_sleep(5)")
    async with Proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        with PostgresJournal(through, wait=0, timeout=LONG) as journal:
            app = create_app(Agent(ScriptedModel("Hi."), name="worker", journal=journal))
            async with serve(app) as base, Api(base) as api:
                # A link with so short beats is made anew on a busy machine.
                while (await api.get("/sessions")).status != 200:
                    await asyncio.sleep(0.01)
                # The link notices what is lost. Until it is there, nothing is taken for certain.
                while is_linked and not app.state.service.is_connected:
                    await asyncio.sleep(0.01)
                proxy.is_down = True
                proxy.silence()
                try:
                    answer, seconds = await timed(asyncio.ensure_future(api.get("/sessions")))
                    assert (answer.status, answer.json["kind"]) == (503, "journal"), answer.body
                    assert seconds < SOON
                finally:
                    proxy.cut()  # so that nothing waits for the silent connections
                    proxy.up()
                async with asyncio.timeout(60):
                    while (await api.get("/sessions")).status != 200:
                        await asyncio.sleep(0.05)


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


# An answer comes while its turn is about to rest, and the journal cannot be read for a moment.


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_an_answered_turn_goes_on_after_its_journal_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
    agent = Agent(
        ScriptedModel(call, "Done."),
        name="payer",
        tools=[pay],
        middleware=[ToolPermission(ask=["pay"])],
        clock=FakeClock(),
    )
    tenant = ServiceTenants(agent).for_tenant()
    look, failures = turn_runner._has_new_answers, 0

    async def answer_and_fail(turn: Any, result: Any, agent: Any) -> bool:
        nonlocal failures
        if failures:
            return await look(turn, result, agent)
        failures += 1
        (question,) = await agent.questions("ada")
        assert await tenant.answer("ada", question.approve(by="ann"))
        raise JournalStorageError("journal.db", "cannot be read", fix="Try again")

    monkeypatch.setattr(turn_runner, "_has_new_answers", answer_and_fail)
    await tenant.start("payer", "Pay 3.", session="ada")
    async with asyncio.timeout(60):
        while (await tenant.last_turn("ada")).status != "completed":
            await asyncio.sleep(0.01)
    assert failures == 1
