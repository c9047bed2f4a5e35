"""Where an agent runs: on several event loops, on uvloop, and not on others."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvloop

from holdfast import (
    Agent,
    ClarificationQuestion,
    ConfigurationError,
    MemoryJournal,
    RetryOptions,
    SqliteJournal,
    ToolContext,
    tool,
)
from holdfast.core.deltas import TextDelta
from holdfast.core.import_part import import_part
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import Answer
from holdfast.errors import SessionBusyError, TransportError
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, Emulator, ResetBeforeHeaders, Stall, call
from holdfast.transport.port import Timeouts

# Turns of one session that meet on different event loops.


async def slowly(request: ModelRequest) -> str:
    await asyncio.sleep(0)
    return f"answer {len(request.messages)}"


async def both(agent: Agent[str]) -> list[str]:
    turns = (agent.run("Hello?", session="ada") for _ in range(2))
    return [result.output for result in await asyncio.gather(*turns)]


def test_turns_that_meet_again_on_a_later_loop_wait_for_each_other() -> None:
    agent = Agent(ScriptedModel(*[slowly] * 4))
    assert asyncio.run(both(agent)) == ["answer 1", "answer 3"]
    assert asyncio.run(both(agent)) == ["answer 5", "answer 7"]


def test_turns_of_many_threads_come_one_after_the_other() -> None:
    agent = Agent(ScriptedModel(*[slowly] * 20), journal=MemoryJournal())

    def turn(_: int) -> str:
        return asyncio.run(agent.run("Hello?", session="ada")).output

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(turn, range(20)))
    assert sorted(answers) == sorted(f"answer {1 + 2 * number}" for number in range(20))


def test_a_turn_waits_for_one_of_another_loop_and_is_woken() -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def held(request: ModelRequest) -> str:
        begun.set()
        await asyncio.to_thread(go_on.wait)
        return "first"

    agent = Agent(ScriptedModel(held, slowly))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(agent.run_sync, "Hello?", session="ada")
        begun.wait(10)

        async def second() -> str:
            turn = asyncio.create_task(agent.run("Are you there?", session="ada"))
            await asyncio.sleep(0)
            go_on.set()
            return (await asyncio.wait_for(turn, 60)).output

        assert asyncio.run(second()) == "answer 3"
        assert first.result(10).output == "first"


def test_a_turn_of_another_loop_can_be_refused() -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def held(request: ModelRequest) -> str:
        begun.set()
        await asyncio.to_thread(go_on.wait)
        return "first"

    agent = Agent(ScriptedModel(held), on_busy="refuse")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(agent.run_sync, "Hello?", session="ada")
        begun.wait(10)
        with pytest.raises(SessionBusyError):
            asyncio.run(agent.run("Are you there?", session="ada"))
        go_on.set()
        assert first.result(10).output == "first"


def test_an_answer_from_another_event_loop_is_accepted_at_once() -> None:
    waits, go_on = threading.Event(), threading.Event()
    taken: list[bool] = []

    @tool(effect="write")
    async def book(context: ToolContext) -> str:
        """Book."""
        return await context.ask(ClarificationQuestion(question="Where?"))

    @tool(effect="read")
    async def look() -> str:
        """Look, until there is an answer."""
        while not agent._engine.answering.active_turns["ada"].effects.suspended_count:
            await asyncio.sleep(0)
        waits.set()
        await asyncio.to_thread(go_on.wait, 60)
        return "a wall"

    async def answer() -> None:
        (question,) = await agent.questions("ada")
        taken.append(bool(await agent.answer("ada", question, "Porto")))

    calls = [call("book", {}, id="1"), call("look", {}, id="2")]
    model = ScriptedModel(calls, "Done.")
    agent = Agent(model, tools=[book, look], journal=MemoryJournal(), on_wait="suspend")
    answering = threading.Thread(target=lambda: asyncio.run(answer()), daemon=True)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(agent.run_sync, "Go.", session="ada")
        try:
            assert waits.wait(20)
            answering.start()
            answering.join(20)
            assert taken == [True]
        finally:
            go_on.set()
        assert run.result(20).text == "Done."


# Other event loops, other processes, and packed programs.


def make_agent() -> Agent[str]:
    return Agent(ScriptedModel("hi"), journal=MemoryJournal())


async def start_stream(agent: Agent[str]) -> None:
    async with agent.stream("go"):
        pass


async def start_resume_stream(agent: Agent[str]) -> None:
    async with agent.resume_stream("r"):
        pass


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "start",
    [
        lambda agent: agent.run("go"),
        lambda agent: agent.run("go", session="ada"),
        lambda agent: agent.resume("r"),
        lambda agent: agent.recover(),
        lambda agent: agent.questions("r"),
        lambda agent: agent.abandon("r"),
        lambda agent: agent.answer("r", Answer("t1.i0.tool.0.ask.0", "yes", "b")),
        start_stream,
        start_resume_stream,
    ],
)
def test_another_event_loop_gets_an_error_that_names_asyncio(
    start: Callable[[Agent[str]], Coroutine[object, object, object]],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that was never awaited
        work = start(make_agent())
        with pytest.raises(ConfigurationError, match="asyncio"):
            work.send(None)  # what any event loop does
        del work
        gc.collect()


def test_an_agent_cannot_be_pickled_and_says_so() -> None:
    with pytest.raises(TypeError, match="Build it in each process"):
        pickle.dumps(make_agent())


def test_a_copy_of_an_agent_is_the_agent() -> None:
    agent = make_agent()
    assert copy.copy(agent) is copy.deepcopy(agent) is agent


def test_a_missing_part_names_the_option_of_the_packer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.codecs.gemini.codec", None)
    with pytest.raises(ModuleNotFoundError, match="--collect-submodules holdfast"):
        import_part("holdfast.codecs.gemini.codec")


@pytest.mark.parametrize(
    ("place", "fix"),
    [
        (
            "/opt/holdfast/src/holdfast/core/import_part.py",
            "In the checkout: pip install '.[server]'",
        ),
        ("/lib/site-packages/holdfast/core/import_part.py", "pip install 'holdfast[server]'"),
        (
            "C:\\holdfast\\src\\holdfast\\core\\import_part.py",
            "In the checkout: pip install '.[server]'",
        ),
    ],
)
def test_a_missing_extra_names_the_command_that_installs_it(
    place: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.core.import_part.__file__", place)
    monkeypatch.delitem(sys.modules, "holdfast.server.app", raising=False)
    for name in ("starlette", "starlette.applications", "starlette.routing"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        import_part("holdfast.server.app")
    assert str(caught.value).startswith("holdfast.server.app needs starlette")
    assert str(caught.value).endswith(fix)
    assert "\n" not in str(caught.value)


# The transports and handles of uvloop are no subclasses of asyncio's.

on_uvloop = pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])

CALLS = (ToolCall("a", "in_thread", '{"n": 1}'), ToolCall("b", "on_loop", '{"n": 2}'))


@tool
def in_thread(n: int) -> str:
    """Work in a thread."""
    time.sleep(0)
    return str(n)


@tool
async def on_loop(n: int) -> str:
    """Work on the loop."""
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
    return str(n)


def make_agent_at(
    emulator: Emulator, journal: SqliteJournal | None = None, **more: object
) -> Agent[str]:
    return Agent(
        "openai:m",
        base_url=emulator.base_url,
        api_key="k",
        tools=[in_thread, on_loop],
        journal=journal,
        **more,  # type: ignore[arg-type]
    )


@on_uvloop
async def test_a_turn_on_uvloop_has_tools_a_journal_and_faults(tmp_path: Path) -> None:
    faults = [ResetBeforeHeaders(), None, DropAfter(2)]
    async with Emulator([CALLS, CALLS, "done", "done"], faults=faults) as emulator:
        with SqliteJournal(tmp_path / "talk.db") as journal:
            async with make_agent_at(emulator, journal, clock=FakeClock()).stream(
                "go", session="s"
            ) as stream:
                said = [notice.text async for notice in stream if isinstance(notice, TextDelta)]
            assert "".join(said).endswith("done")
            assert stream.result.output == "done"
            assert len(await journal.read("s")) > 5


@on_uvloop
async def test_a_cancelled_turn_on_uvloop_closes_its_connection() -> None:
    async with Emulator(["never"], faults=[Stall(seconds=30)]) as emulator:
        turn = asyncio.ensure_future(make_agent_at(emulator).run("go"))
        while not emulator.requests:
            await asyncio.sleep(0.005)
        turn.cancel()
        await asyncio.wait([turn])
        assert turn.cancelled()
        await emulator.wait_idle()


@on_uvloop
async def test_a_silent_server_is_left_on_uvloop() -> None:
    timeouts = Timeouts(between_chunks=0.2)
    async with Emulator(["never"], faults=[Stall(after=2, seconds=30)]) as emulator:
        made = make_agent_at(emulator, timeouts=timeouts, retry=RetryOptions(max_retries=0))
        async with made.stream("go") as stream:
            with pytest.raises(TransportError, match="no new content"):
                async for _ in stream:
                    pass
