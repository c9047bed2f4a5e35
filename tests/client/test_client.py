"""The client of a service does each thing once and shows each text once, whatever the network does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.client.faulty_proxy import Fault, run_proxy
from tests.server.serving import serve

from holdfast import Agent, ConfigurationError, Limits, ToolPermission, tool
from holdfast.client import (
    AccessError,
    BusyError,
    Client,
    InvalidRequestError,
    NotFoundError,
    RateLimitedError,
    ReplyText,
    ServiceError,
    UnavailableError,
)
from holdfast.core.errors import SessionBusyError, TransportError
from holdfast.core.messages import Reply, ToolCall
from holdfast.event_log.stream_items import EventItem, StreamItem, TextItem, WithdrawnItem
from holdfast.server import create_app
from holdfast.testing import ScriptedModel

CALL = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
LONG = "".join(f"Sentence number {number} of a long reply. " for number in range(400))


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def make_payer(*replies: Reply | str) -> Agent[Any, Any]:
    permission = ToolPermission(ask=["pay"])
    return Agent(ScriptedModel(*replies), name="payer", tools=[pay], middleware=[permission])


@asynccontextmanager
async def serving(*replies: Reply | str) -> AsyncIterator[str]:
    async with serve(create_app(make_payer(*replies))) as base:
        yield base


async def test_a_client_runs_turns_and_answers() -> None:
    async with serving(CALL, "Done.", "More.") as base, Client(base) as client:
        (agent,) = await client.agents()
        assert agent.tools[0].name == "pay"
        turn = await client.run("payer", "Pay 3.", session="a/b", limits=Limits(iterations=4))
        assert (turn.status, turn.turn) == ("waiting", 1)
        (question,) = (await client.questions.list()).questions
        assert question == turn.questions[0] == (await client.questions.of("a/b"))[0]
        with pytest.raises(ServiceError):
            await client.turns.start("payer", "More?", session="a/b")
        receipt = await client.questions.approve(question, arguments={"amount": 2})
        assert receipt.accepted
        turn = await client.turns.wait("a/b", 1)
        assert turn.text == "Done."
        late = await client.questions.deny(question)
        assert (late.reason, late.by_whom) == ("answered", "local")
        fork = await client.sessions.fork("a/b")
        await client.run("payer", "More?", session=fork)
        assert await client.sessions.rewind(fork, 1) == 3
        assert (await client.sessions.rename(fork, "Copy")).title == "Copy"
        assert (await client.sessions.list(limit=1)).sessions[0].session == fork
        assert len((await client.sessions.history(fork)).points) == 3
        await client.sessions.delete(fork)
        with pytest.raises(NotFoundError):
            await client.sessions.info(fork)


async def test_problems_become_typed_errors() -> None:
    async with serving("Hi.") as base, Client(base) as client:
        with pytest.raises(InvalidRequestError) as wrong:
            await client.turns.start("payer", "")
        assert isinstance(wrong.value, ConfigurationError)
        assert (wrong.value.argument, wrong.value.details.status) == ("message", 422)
        with pytest.raises(NotFoundError):
            await client.turns.start("nobody", "Hi.")
        with pytest.raises(ConfigurationError, match="sesion: is not an argument"):
            await client.turns.start("payer", "Hi.", sesion="x")  # type: ignore[call-arg]
    assert issubclass(BusyError, SessionBusyError)


async def follow_to_end(client: Client, session: str) -> list[StreamItem]:
    return [item async for item in client.follow(session, until="turn_end")]


def check_items(items: list[StreamItem], text: str) -> None:
    """Check that every record came once and in order, and the text is the reply."""
    sequences = [item.sequence for item in items if isinstance(item, EventItem)]
    assert sequences == list(range(1, len(sequences) + 1))
    shown, begun = ReplyText(), set[str]()
    for item in items:
        if isinstance(item, TextItem):
            assert item.offset or item.key not in begun  # no text comes twice
            begun.add(item.key)
        elif isinstance(item, WithdrawnItem):
            begun.discard(item.key)
        shown.add(item)
    assert shown.text == text
    assert len([item for item in items if item.__struct_config__.tag == "status"]) <= 3


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("cut", [0, 1, 150, 300, 700, 3_000, 20_000])
async def test_a_stream_that_is_cut_goes_on_where_it_was(cut: int) -> None:
    async with serving(LONG) as base:
        faults = [Fault("drop", cut), Fault("refuse", 503), Fault("cut", cut + 400)]
        async with run_proxy(base, *faults) as proxy, Client(proxy.url) as client:
            items = [item async for item in client.turns.stream("payer", "Hi.", session="ada")]
            check_items(items, LONG)
        async with run_proxy(base, *faults) as proxy, Client(proxy.url) as client:
            check_items(await follow_to_end(client, "ada"), LONG)
        async with Client(base) as client:
            assert len((await client.sessions.history("ada")).points) == 1


@pytest.mark.slow  # takes half a second or more
async def test_a_turn_whose_answer_is_lost_is_started_once() -> None:
    async with serving("One.", "Two.") as base:
        faults = [Fault("drop", 0), Fault("drop", 10), Fault("refuse", 429, "Retry-After: 1\r\n")]
        async with run_proxy(base, *faults) as proxy, Client(proxy.url) as client:
            turn = await client.run("payer", "Hi.")
            assert (turn.text, proxy.connections) == ("One.", 4)
            assert len((await client.sessions.list()).sessions) == 1


async def test_an_act_whose_answer_is_lost_is_done_once() -> None:
    async with serving("One.") as base:
        faults = [Fault("drop", 0)]
        async with Client(base) as client:
            await client.run("payer", "Hi.", session="ada")
        async with run_proxy(base, *faults) as proxy, Client(proxy.url) as client:
            fork = await client.sessions.fork("ada")
        async with run_proxy(base, *faults) as proxy, Client(proxy.url) as client:
            assert (await client.sessions.rename("ada", "Bills")).title == "Bills"
        async with run_proxy(base, *faults) as proxy, Client(proxy.url) as client:
            await client.sessions.delete("ada")
            assert proxy.connections == 2
            assert [one.session for one in (await client.sessions.list()).sessions] == [fork]


@pytest.mark.slow  # takes half a second or more
async def test_patience_ends_with_the_error() -> None:
    refusals: list[tuple[Fault, type[Exception]]] = [
        (Fault("refuse", 503), UnavailableError),
        (Fault("refuse", 429), RateLimitedError),
        (Fault("drop"), TransportError),
    ]
    async with serving("One.") as base:
        for fault, kind in refusals:
            async with (
                run_proxy(base, *([fault] * 50)) as proxy,
                Client(proxy.url, patience=0.4) as client,
            ):
                with pytest.raises(kind):
                    await client.agents()
                assert proxy.connections > 1
                with pytest.raises(kind):
                    await follow_to_end(client, "ada")
        async with run_proxy(base, Fault("refuse", 401)) as proxy, Client(proxy.url) as client:
            with pytest.raises(AccessError):
                await client.agents()
            assert proxy.connections == 1
    async with Client(base, patience=0.3) as client:
        with pytest.raises(TransportError):
            await client.agents()


async def test_a_client_waits_for_a_service_that_restarts() -> None:
    agent = make_payer("One.")
    async with serve(create_app(agent)) as base:
        pass
    port = int(base.rpartition(":")[2])
    async with Client(base) as client:
        asking = asyncio.create_task(client.agents())
        await asyncio.sleep(0)
        async with serve(create_app(agent), to_port=port):
            assert (await asking)[0].name == "payer"


def test_the_client_needs_none_of_the_server_packages() -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules.update(starlette=None, uvicorn=None)\n"
        "from holdfast.client import Client, SyncClient; SyncClient('http://127.0.0.1:1')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
