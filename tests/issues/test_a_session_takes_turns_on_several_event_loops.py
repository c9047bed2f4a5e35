"""A session could be spoken to on one event loop only, once two of its turns had met there.

What made the second turn wait belonged to the event loop on which turns had first met. On any other
loop, of a thread or of a later `asyncio.run`, two turns that met raised "bound to a different event
loop"; had none met before, the waiting one was not woken. So `run_sync` in a thread beside `run` on
the loop of a server, or a worker that calls `asyncio.run` for each job, lost messages.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Agent, MemoryJournal
from holdfast.core.model_request import ModelRequest
from holdfast.errors import SessionBusyError
from holdfast.testing import ScriptedModel


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
            return (await asyncio.wait_for(turn, 10)).output

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
