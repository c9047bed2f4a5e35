"""A service without HTTP: turns in the background, requests, positions, recovery and shutdown."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.live_server import serve

from holdfast import Agent, MemoryJournal, Middleware, ModelReplied, ToolPermission, tool
from holdfast.client import EndItem, EventItem, TextItem, WithdrawnItem
from holdfast.core.errors import ConfigurationError, HoldfastError, SessionBusyError
from holdfast.core.events import TurnClosed
from holdfast.hosting import lifetime
from holdfast.hosting.turns import open_turns
from holdfast.middleware import AfterReply, AfterTurn, CallTools
from holdfast.server import QueueOptions, Service, create_app
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call


def greeter(*replies: Any, **more: Any) -> Agent[str]:
    return Agent(ScriptedModel(*replies), name="greeter", **more)


async def test_a_turn_goes_on_by_itself_and_is_started_once() -> None:
    async with Service(greeter("Hello.", "Never."), journal=MemoryJournal()) as service:
        turn = await service.start("greeter", "Hi.", session="ada", request="m1")
        again = await service.start("greeter", "Hi.", session="ada", request="m1")
        view = await service.wait(turn)
        assert again == turn == await service.find_request("m1")
        assert (view.text, view.status, turn.number) == ("Hello.", "completed", 1)
        assert await service.find_request("m2") is None
        assert [info.session for info in await service.sessions.list()] == ["ada"]


async def test_the_last_hooks_have_run_when_a_turn_was_waited_for() -> None:
    told: list[str] = []

    class Tell(Middleware):
        async def after_turn(self, context: AfterTurn[Any]) -> None:
            await asyncio.sleep(0.05)
            told.append(context.text)

    async with Service(greeter("Hello.", middleware=[Tell()])) as service:
        turn = await service.start("greeter", "Hi.", session="ada")
        assert (await service.wait(turn)).text == "Hello."
        assert told == ["Hello."]


async def test_hooks_that_hang_are_waited_for_as_long_as_was_asked() -> None:
    class Hang(Middleware):
        async def after_turn(self, context: AfterTurn[Any]) -> None:
            await asyncio.sleep(1.0)

    async with Service(greeter("Hello.", middleware=[Hang()])) as service:
        turn = await service.start("greeter", "Hi.", session="ada")
        assert (await service.wait(turn, seconds=0.2)).status == "completed"


@pytest.mark.slow  # takes half a second or more
async def test_a_turn_goes_on_when_its_file_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetime, "_TICK", 0.02)
    monkeypatch.setattr(open_turns, "FIRST_PAUSE", 0.1)
    path, calls = tmp_path / "talk.db", []

    @tool(effect="idempotent")
    async def lock_the_file() -> str:
        calls.append(1)
        if len(calls) == 1:
            other.execute("BEGIN IMMEDIATE")
        return "done"

    agent = greeter(call("lock_the_file", {}), "Bye.", "Bye.", tools=[lock_the_file])
    async with Service(agent, journal=f"sqlite:///{path}") as service:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        with closing(other):
            turn = await service.start("greeter", "Hi.", session="ada")
            assert (await service.wait(turn, seconds=2.0)).status in ("running", "open")
            other.execute("ROLLBACK")
            assert (await service.wait(turn, seconds=10.0)).text == "Bye."


async def read_all(entries: AsyncGenerator[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [entry async for entry in entries]


async def test_a_reader_comes_back_at_any_position_and_misses_nothing() -> None:
    async with Service(greeter("Hello, Ada.")) as service:
        turn = await service.start("greeter", "Hi.", session="ada")
        await service.wait(turn)
        whole = await read_all(service.follow("ada", turn=turn.number))
        events = [item for _, item in whole if isinstance(item, EventItem)]
        assert isinstance(events[-1].event, TurnClosed)
        assert isinstance(whole[-1][1], EndItem)
        for position, _ in whole:
            rest = await read_all(service.follow("ada", position, turn=turn.number))
            left = [item for _, item in rest if isinstance(item, EventItem)]
            assert left == events[len(events) - len(left) :]


async def test_a_reader_sees_text_while_it_is_written() -> None:
    async with Service(greeter("Hello, Ada.")) as service:
        reading = asyncio.create_task(read_all(service.follow("ada", turn=1)))
        await service.start("greeter", "Hi.", session="ada")
        items = [item for _, item in await reading]
    assert "".join(item.text for item in items if isinstance(item, TextItem)) == "Hello, Ada."


async def test_a_question_is_answered_and_the_turn_goes_on() -> None:
    @tool(effect="write")
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    agent = greeter(
        call("pay", {"amount": 3}), "Paid.", tools=[pay], middleware=[ToolPermission(ask=["pay"])]
    )
    async with Service(agent) as service:
        turn = await service.start("greeter", "Pay.", session="ada")
        view = await service.wait(turn)
        assert view.status == "waiting"
        question = (await service.questions("ada"))[0]
        assert await service.answer("ada", question.approve())
        assert (await service.wait(turn)).text == "Paid."


async def test_a_busy_session_is_refused_and_a_turn_can_be_cancelled() -> None:
    @tool(effect="read")
    async def hang() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return ""

    async with Service(greeter(call("hang", {}), tools=[hang])) as service:
        turn = await service.start("greeter", "Hi.", session="ada")
        with pytest.raises(SessionBusyError):
            await service.start("greeter", "And?", session="ada")
        assert (await service.wait(turn, seconds=0.05)).status == "running"
        await service.cancel("ada", by="ada")
        assert (await service.read("ada", 1)).status == "cancelled"


async def test_the_end_leaves_a_turn_open_and_the_next_service_finishes_it() -> None:
    journal = MemoryJournal()

    @tool(name="look", effect="read")
    async def hang() -> str:
        """Look."""
        await asyncio.sleep(60)
        return ""

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "the sea"

    async with Service(greeter(call("look", {}), tools=[hang]), journal=journal) as service:
        turn = await service.start("greeter", "Hi.", session="ada", request="m1")
        reading = asyncio.create_task(read_all(service.follow("ada")))
        await asyncio.sleep(0.05)
    assert (await reading)[-1][1].reason == "shutting_down"
    with pytest.raises(HoldfastError, match="shutting down"):
        await service.start("greeter", "Hi.", session="bob")
    async with Service(greeter("I saw it.", tools=[look]), journal=journal) as service:
        found = await service.find_request("m1")
        assert found == turn
        assert (await service.wait(turn)).text == "I saw it."


PROGRAM = '''
import asyncio, sys
from holdfast import Agent, tool
from holdfast.server import Service
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call

@tool(effect="read")
async def look() -> str:
    """Look."""
    print("looking", flush=True)
    await asyncio.sleep(60)
    return ""

async def main():
    agent = Agent(ScriptedModel(call("look", {})), name="greeter", tools=[look])
    async with Service(agent, journal=sys.argv[1], grace=0.1) as service:
        turn = await service.start("greeter", "Hi.", session="ada", request="m1")
        async for _ in service.follow("ada"):
            pass
    print("closed", flush=True)

asyncio.run(main())
'''


@pytest.mark.slow  # kills a process
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_killed_process_leaves_its_turn_to_the_next(tmp_path: Path, number: int) -> None:
    address = f"sqlite:///{tmp_path}/talk.db"
    process = subprocess.Popen(  # noqa: ASYNC220  # REASON: it is killed
        [sys.executable, "-c", PROGRAM, address], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "looking\n"
    os.kill(process.pid, number)
    process.wait(20)
    process.stdout.close()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "the sea"

    async with Service(greeter("I saw it.", tools=[look]), journal=address) as service:
        turn = await service.start("greeter", "Hi.", session="ada", request="m1")
        assert (await service.wait(turn, seconds=20)).text == "I saw it."
        assert turn.number == 1


async def test_a_service_that_is_not_open_and_wrong_arguments_are_refused() -> None:
    service = Service(greeter("Hello."))
    with pytest.raises(ConfigurationError, match="Service: is not open"):
        await service.start("greeter", "Hi.")
    with pytest.raises(ConfigurationError, match="grace"):
        Service(greeter("Hello."), grace=-1)
    async with service:
        with pytest.raises(ConfigurationError, match="there is no agent 'x'"):
            await service.start("x", "Hi.")
        with pytest.raises(ConfigurationError, match="position"):
            await read_all(service.follow("ada", "x"))
        turn = await service.start("greeter", "Hi.")
        with pytest.raises(ConfigurationError, match="seconds"):
            await service.wait(turn, seconds=0)


class Flow(Middleware):
    """Calls a tool by code in place of the first reply of the model."""

    async def after_reply(self, context: AfterReply) -> CallTools | None:
        return CallTools(("look", {})) if context.iteration == 0 else None


async def test_a_reader_sees_calls_of_code_and_the_text_that_they_replace_is_void() -> None:
    @tool(effect="read", offered=False)
    async def look() -> str:
        """Look."""
        return "the sea"

    agent = greeter("Nonsense.", "Done.", tools=[look], middleware=[Flow()])
    async with Service(agent) as service:
        items: list[Any] = []

        async def read() -> None:
            items.extend([item async for _, item in service.follow("ada", turn=1)])

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        await service.start("greeter", "Hi.", session="ada")
        await reading
    shown: dict[str, str] = {}
    for item in items:
        if isinstance(item, TextItem):
            shown[item.key] = shown.get(item.key, "")[: item.offset] + item.text
        elif isinstance(item, WithdrawnItem):
            shown[item.key] = ""
    assert {key: text for key, text in shown.items() if text} == {"t1.i1.model": "Done."}
    replies = [item.event for item in items if isinstance(item, EventItem)]
    made = [event for event in replies if isinstance(event, ModelReplied)]
    assert [(event.by, len(event.reply.calls)) for event in made] == [("Flow", 1), ("", 0)]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_the_protocols_of_openai_show_the_answer_and_refuse_a_tool_of_the_same_name(
    path: str,
) -> None:
    @tool(effect="read", offered=False)
    async def look() -> str:
        """Look."""
        return "the sea"

    app = create_app(greeter("Nonsense.", "Done.", tools=[look], middleware=[Flow()]))
    function = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    nested = {"type": "function", "function": function}
    flat = {"type": "function", **function}
    body: dict[str, Any] = {"model": "greeter", "input": "Hi.", "tools": [flat]}
    if "chat" in path:
        said = [{"role": "user", "content": "Hi."}]
        body = {"model": "greeter", "messages": said, "tools": [nested]}
    base_url, address = "http://127.0.0.1", ("127.0.0.1", 5000)
    with TestClient(app, base_url=base_url, client=address) as client:
        assert client.post(path, json=body).status_code == 400
        del body["tools"]
        answer = client.post(path, json=body)
    assert answer.status_code == 200
    assert "Done." in answer.text
    assert "look" not in answer.text
    assert "Nonsense." not in answer.text


async def test_a_service_whose_worker_gets_no_turns_is_not_ready(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel("Hello."), name="greeter")
    journal = f"sqlite:///{tmp_path / 'talk.db'}"
    app = create_app(agent, journal=journal, queue=QueueOptions(parallel=1))
    async with serve(app) as server:
        assert (await server.request("GET", "/ready")).json() == {"status": "ready"}
        tasks = {task.get_name(): task for task in asyncio.all_tasks()}
        delivery = tasks["holdfast-delivery"]
        delivery.cancel()
        await asyncio.wait([delivery])
        app.state.access.readiness._at = float("-inf")  # ask again at once
        answer = await server.request("GET", "/ready")
        assert answer.status == 503
        assert answer.json()["problems"] == {"worker": "does not work: EngineError"}
