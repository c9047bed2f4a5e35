"""The synchronous client is the asynchronous one, driven from a thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
from scripts import sync_client
from tests.server.serving import serve

from holdfast import Agent
from holdfast.client import Client, NotFoundError, ReplyText, SyncClient
from holdfast.server import create_app
from holdfast.testing import ScriptedModel


@pytest.fixture
def address() -> Iterator[str]:
    """Serve an agent in another thread."""
    ready, found, stop = threading.Event(), [], threading.Event()

    async def run() -> None:
        agent = Agent(ScriptedModel("One.", "Two."), name="greeter")
        async with serve(create_app(agent)) as base:
            found.append(base)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(20)
    yield found[0]
    stop.set()
    thread.join(20)


def test_a_program_without_a_loop_runs_and_streams_turns(address: str) -> None:
    with SyncClient(address) as client:
        assert [agent.name for agent in client.agents()] == ["greeter"]
        assert client.run("greeter", "Hi.", session="ada").text == "One."
        reply = ReplyText()
        for item in client.turns.stream("greeter", "Hi.", session="ada"):
            reply.add(item)
        assert reply.text == "Two."
        for item in client.follow("ada"):
            assert item.__struct_config__.tag == "status"
            break  # leaving early closes the stream
        with pytest.raises(NotFoundError):
            client.sessions.info("eve")


def test_it_is_written_from_the_asynchronous_client() -> None:
    assert sync_client.WRITTEN.read_text("utf-8") == sync_client.render(), "run: ./run generate"


def test_both_clients_have_the_same_calls() -> None:
    pairs: list[tuple[object, object]] = [(Client, SyncClient)]
    one, other = Client("http://127.0.0.1:1"), SyncClient("http://127.0.0.1:1")
    spaces = [name for name in vars(one) if not name.startswith("_")]
    pairs += [(type(getattr(one, name)), type(getattr(other, name))) for name in spaces]
    for wanted, given in pairs:
        names = [name for name in vars(wanted) if not name.startswith("_") and name != "aclose"]
        for name in names:
            expected = inspect.signature(getattr(wanted, name)).parameters
            assert inspect.signature(getattr(given, name)).parameters == expected, name
    other.close()


class Calls:
    """The calls of a part of a client, which are noted and do nothing."""

    def __init__(self) -> None:
        self.made: list[tuple[str, list[object]]] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def call(*given: object, **named: object) -> None:
            self.made.append((name, sorted(map(str, [*given, *named.values()]))))

        return call


def test_each_call_is_that_of_the_other_client_with_its_arguments() -> None:
    one, other = Client("http://127.0.0.1:1"), SyncClient("http://127.0.0.1:1")
    calls, wanted = Calls(), []
    parts = [name for name in vars(one) if not name.startswith("_")]
    for part in parts:
        given = type(getattr(other, part))(calls)
        kind = type(getattr(one, part))
        members = inspect.getmembers(kind, inspect.iscoroutinefunction)
        for name, call in [pair for pair in members if not pair[0].startswith("_")]:
            _, *parameters = inspect.signature(call).parameters.values()
            plain = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
            named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
            getattr(given, name)(*plain, **{word: word for word in named})
            wanted.append((name, sorted([*plain, *named])))
    assert calls.made == wanted
    assert len(wanted) > 30
    other.close()
