"""Requests of OpenAI's protocols that a client sends again by itself: one turn for each wanted call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from msgspec.json import encode
from tests.server.protocols.test_openai_over_http import Client
from tests.server.serving import Answer, serve

from holdfast import Agent, Reply, tool
from holdfast.core.messages import ToolCall
from holdfast.errors import ConfigurationError
from holdfast.journal import MemoryJournal
from holdfast.journal.service_store.service_store_opening import open_service_store
from holdfast.server import AccessOptions, ServiceOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

RESPONSES, CHAT = "/responses", "/chat/completions"
COUNT = "x-stainless-retry-count"
REPLAYED = "idempotency-replayed"


def make_body(path: str, *, stream: bool = False, text: str = "Pay.") -> dict[str, object]:
    given = {"input": text} if path == RESPONSES else {"messages": [_say(text)]}
    return {"model": "payer", "stream": stream, **given}


def _say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


class Till:
    """An agent that pays, and whose payments take until the gate is open."""

    def __init__(self) -> None:
        self.payments = 0
        self.has_begun = asyncio.Event()
        self.gate = asyncio.Event()

        @tool(effect="write")
        async def pay() -> str:
            """Pay."""
            self.payments += 1
            self.has_begun.set()
            await self.gate.wait()
            return "paid"

        def answer(request: Any) -> Reply | str:
            is_asked = request.messages[-1].role == "user"
            return Reply((ToolCall("c", "pay", "{}"),)) if is_asked else "Paid."

        self.agent = Agent(ScriptedModel(*[answer] * 100), name="payer", tools=[pay])

    @asynccontextmanager
    async def serve(self, **keywords: Any) -> AsyncIterator[Client]:
        app = create_app(self.agent, **keywords)
        self.claims = app.state.service.claims
        async with serve(app) as base, Client(base) as client:
            yield client

    async def send_and_leave(self, client: Client, path: str, body: object, count: int = 0) -> None:
        """Send a request, and leave as a client does whose time is over."""
        self.has_begun.clear()
        sending = asyncio.create_task(send(client, path, body, count))
        await self.has_begun.wait()
        sending.cancel()
        await asyncio.wait([sending])


async def send(client: Client, path: str, body: object, count: int | None = 0) -> Answer:
    headers = {} if count is None else {COUNT: str(count)}
    return await client.call("POST", path, body, **headers)


def is_paid(answer: Answer) -> bool:
    return answer.status == 200 and b"Paid." in answer.body


@pytest.mark.parametrize("path", [RESPONSES, CHAT])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("counts", [False, True])
async def test_a_client_whose_time_was_over_gets_the_turn_that_it_has_begun(
    path: str, stream: bool, counts: bool
) -> None:
    till, body = Till(), make_body(path, stream=stream)
    async with till.serve() as client:
        await till.send_and_leave(client, path, body)
        for number in (1, 2):  # its payment does not begin again
            await leave_soon(client, path, body, number if counts else None)
        till.gate.set()
        answer = await send(client, path, body, 3 if counts else None)
        assert is_paid(answer)
        assert answer.headers[REPLAYED] == "true"
        assert till.payments == 1
        again = await send(client, path, body)  # somebody has got the answer
        assert REPLAYED not in again.headers
        assert till.payments == 2


async def leave_soon(client: Client, path: str, body: object, count: int | None) -> None:
    """Send a request that joins a turn in progress, and leave once it was received."""
    headers = {"Content-Type": "application/json"}
    if count is not None:
        headers[COUNT] = str(count)
    timeout = aiohttp.ClientTimeout(total=0.1)
    with pytest.raises((asyncio.TimeoutError, aiohttp.ClientError)):
        async with client.http.post(
            client.base + path, data=encode(body), headers=headers, timeout=timeout
        ) as response:
            await response.read()


@pytest.mark.parametrize("path", [RESPONSES, CHAT])
async def test_ten_samples_are_ten_turns_and_their_ten_repetitions_join_them(path: str) -> None:
    till, body = Till(), make_body(path)
    async with till.serve() as client:
        sending = [asyncio.create_task(send(client, path, body)) for _ in range(10)]
        while till.payments < 10:
            await asyncio.sleep(0.005)
        for one in sending:
            one.cancel()
        await asyncio.wait(sending)
        till.gate.set()
        again = await asyncio.gather(*(send(client, path, body, 1) for _ in range(10)))
    assert all(is_paid(answer) for answer in again)
    assert len({answer.json["id"] for answer in again}) == 10
    assert till.payments == 10


@pytest.mark.parametrize("count", ["", "0", "-1", "1.5", "one", "1, 1", "99999", "\u00b2", "+1"])
async def test_a_wrong_count_says_nothing(count: str) -> None:
    till, body = Till(), make_body(CHAT)
    async with till.serve() as client:
        waiting = asyncio.create_task(send(client, CHAT, body))
        await till.has_begun.wait()
        till.has_begun.clear()
        other = asyncio.create_task(
            client.call("POST", CHAT, body, **{COUNT: count.encode().decode("latin-1")})
        )
        await till.has_begun.wait()  # a payment of its own
        till.gate.set()
        answers = await asyncio.gather(waiting, other)
    assert [REPLAYED in answer.headers for answer in answers] == [False, False]
    assert till.payments == 2


async def test_a_count_above_zero_joins_a_connection_that_looks_open() -> None:
    till, body = Till(), make_body(CHAT)
    async with till.serve() as client:
        lost = asyncio.create_task(send(client, CHAT, body))
        await till.has_begun.wait()
        again = asyncio.create_task(send(client, CHAT, body, 1))
        while not any(held.is_joined for held in till.claims._list_held()):
            await asyncio.sleep(0.005)
        till.gate.set()
        answers = await asyncio.gather(lost, again)
    assert answers[0].body == answers[1].body
    assert till.payments == 1


async def test_a_key_of_the_client_is_all_that_counts_if_there_is_one() -> None:
    till, body = Till(), make_body(CHAT)
    till.gate.set()
    async with till.serve() as client:
        for key, count in (("a", 0), ("b", 1), ("a", 2)):
            headers = {"Idempotency-Key": key, COUNT: str(count)}
            assert is_paid(await client.call("POST", CHAT, body, **headers))
    assert till.payments == 2


async def test_another_sender_path_or_body_joins_nothing() -> None:
    journal, till = MemoryJournal(), Till()
    app = create_app(till.agent, journal=journal, access=AccessOptions())
    tokens = []
    for name, tenant in (("ann", "acme"), ("bob", "acme"), ("ann", "other")):
        text, key = make_key(name, tenant=tenant, scopes=("run",), now=0.0)
        await app.state.service.store.add_key(key)
        tokens.append({"Authorization": f"Bearer {text}"})
    async with serve(app) as base:
        async with Client(base, tokens[0]) as client:
            await till.send_and_leave(client, CHAT, make_body(CHAT))
        till.gate.set()
        for token in tokens[1:]:
            async with Client(base, token) as client:
                assert REPLAYED not in (await send(client, CHAT, make_body(CHAT), 1)).headers
        async with Client(base, tokens[0]) as client:
            for body in (make_body(CHAT, text="Pay!"), {**make_body(CHAT), "user": "ann"}):
                assert REPLAYED not in (await send(client, CHAT, body, 1)).headers
            assert REPLAYED in (await send(client, CHAT, make_body(CHAT), 1)).headers
    assert till.payments == 5


async def test_a_window_of_zero_joins_nothing() -> None:
    till, body = Till(), make_body(CHAT)
    async with till.serve(options=ServiceOptions(retry_window=0)) as client:
        await till.send_and_leave(client, CHAT, body)
        till.gate.set()
        assert REPLAYED not in (await send(client, CHAT, body, 1)).headers
    assert till.payments == 2


@pytest.mark.parametrize("window", [-1, 86_401, "600", None, float("nan"), True])
def test_a_wrong_window_is_refused(window: Any) -> None:
    with pytest.raises(ConfigurationError, match="retry_window"):
        ServiceOptions(retry_window=window)


async def test_a_refused_request_is_not_joined() -> None:
    till = Till()
    till.gate.set()
    async with till.serve() as client:
        wrong = {**make_body(CHAT), "response_format": {"type": "json_schema"}}
        assert (await send(client, CHAT, wrong)).status == 400
        answer = await send(client, CHAT, wrong, 1)
        assert answer.status == 400
        assert REPLAYED not in answer.headers


async def test_the_next_process_joins_what_nobody_got() -> None:
    """The same journal and store, as after a restart."""
    till, journal, body = Till(), MemoryJournal(), make_body(RESPONSES)
    store = open_service_store(journal)
    for number in range(2):
        app = create_app(till.agent, journal=journal)
        app.state.service.claims._store = store
        async with serve(app) as base, Client(base) as client:
            if number:
                answers = [await send(client, RESPONSES, body, 1) for _ in range(2)]
            else:
                await till.send_and_leave(client, RESPONSES, body)
                till.gate.set()
    assert [REPLAYED in answer.headers for answer in answers] == [True, False]
    assert till.payments == 2


async def test_a_response_in_the_background_was_got_at_once() -> None:
    till, body = Till(), {**make_body(RESPONSES), "background": True}
    async with till.serve() as client:
        first = await send(client, RESPONSES, body)
        second = await send(client, RESPONSES, body, 1)
        assert first.json["id"] != second.json["id"]
        till.gate.set()
