"""With `on_busy="interrupt"`, a message ends the turn in progress of its session, and nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Agent, Reply, tool
from holdfast.core.errors import ConfigurationError, StoppedError
from holdfast.core.events import Status
from holdfast.core.messages import Text, ToolCall, ToolResult
from holdfast.journal import MemoryJournal
from holdfast.runtime.turn_state.turn_hooks import INTERRUPTED_TEXT
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Worker:
    """An agent whose turns call a tool a few times, each time until its gate is open."""

    def __init__(self, calls: int = 1, output: Any = None) -> None:
        self.gate, self.has_begun = asyncio.Event(), asyncio.Event()
        self.calls = calls
        self.done: list[str] = []

        @tool(effect="write")
        async def work(name: str) -> str:
            """Work."""
            self.has_begun.set()
            await self.gate.wait()
            self.done.append(name)
            return f"did {name}"

        self.model = ScriptedModel(*[self._answer] * 100)
        more = {} if output is None else {"output": output}
        self.agent: Agent[Any] = Agent(
            self.model,
            name="worker",
            tools=[work],
            journal=MemoryJournal(),
            on_busy="interrupt",
            **more,
        )

    def _answer(self, request: Any) -> Reply | str:
        messages = list(request.messages)
        at = max(number for number, one in enumerate(messages) if one.role == "user")
        text = messages[at].parts[0].text
        made = sum(one.role == "assistant" for one in messages[at:])
        if text.startswith("work") and made < self.calls:
            call = ToolCall(f"c{len(messages)}", "work", f'{{"name": "{text}-{made}"}}')
            return Reply((Text("I begin."), call))
        return f"Said {text}."


def check_history(messages: Any) -> None:
    """Check that each call has one result, and that nothing else is between them."""
    open_calls: set[str] = set()
    for message in messages:
        if message.role != "tool":
            assert not open_calls
        for part in message.parts:
            if isinstance(part, ToolCall):
                open_calls.add(part.id)
            elif isinstance(part, ToolResult):
                open_calls.remove(part.call_id)
    assert not open_calls


async def test_the_turn_in_progress_stops_and_keeps_what_it_did() -> None:
    worker = Worker(calls=5)
    first = asyncio.create_task(worker.agent.run("work", session="s"))
    await worker.has_begun.wait()
    second = asyncio.create_task(worker.agent.run("Other", session="s"))
    await asyncio.sleep(0)
    worker.gate.set()
    stopped, result = await first, await second
    assert (stopped.status, stopped.stop_reason) == (Status.STOPPED, "interrupted")
    assert stopped.text == INTERRUPTED_TEXT
    assert (result.status, result.text) == (Status.COMPLETED, "Said Other.")
    assert worker.done == ["work-0"]  # the tool that was under way is finished, and no other begins
    sent = worker.model.requests[-1].messages
    check_history(sent)
    texts = [part.text for one in sent for part in one.parts if isinstance(part, Text)]
    assert texts == ["work", "I begin.", INTERRUPTED_TEXT, "Other"]


async def test_a_session_without_a_turn_in_progress_goes_on() -> None:
    worker = Worker()
    for text in ("One", "Two"):
        assert (await worker.agent.run(text, session="s")).text == f"Said {text}."


async def test_a_turn_of_another_session_stays() -> None:
    worker = Worker(calls=2)
    first = asyncio.create_task(worker.agent.run("work", session="other"))
    await worker.has_begun.wait()
    assert (await worker.agent.run("One", session="s")).text == "Said One."
    worker.gate.set()
    assert (await first).status is Status.COMPLETED


async def test_an_interrupted_turn_with_an_output_raises() -> None:
    worker = Worker(calls=5, output=int)
    first = asyncio.create_task(worker.agent.run("work", session="s"))
    await worker.has_begun.wait()
    second = asyncio.create_task(worker.agent.run("work", session="s"))
    await asyncio.sleep(0)
    second.cancel()
    worker.gate.set()
    with pytest.raises(StoppedError):
        await first
    with pytest.raises(asyncio.CancelledError):
        await second


@settings(max_examples=60)
@given(
    calls=st.integers(0, 4),
    pauses=st.lists(st.integers(0, 30), min_size=1, max_size=5),
)
def test_messages_at_any_moment_are_turns_of_their_own_in_order(
    calls: int, pauses: list[int]
) -> None:
    async def run() -> None:
        worker = Worker(calls)
        worker.gate.set()
        texts = [f"work{number}" for number in range(len(pauses))]
        tasks = []
        for text, pause in zip(texts, pauses, strict=True):
            tasks.append(asyncio.create_task(worker.agent.run(text, session="s")))
            for _ in range(pause):
                await asyncio.sleep(0)
        results = await asyncio.gather(*tasks)
        assert {one.status for one in results} <= {Status.COMPLETED, Status.STOPPED}
        assert results[-1].status is Status.COMPLETED
        last = await worker.agent.run("Last", session="s")
        check_history(last.messages)
        sent = [
            one.parts[0].text for one in worker.model.requests[-1].messages if one.role == "user"
        ]
        assert sent == [*texts, "Last"]
        assert len(worker.done) == len(set(worker.done))

    asyncio.run(run())


@pytest.mark.parametrize("value", ["steer", "", None, 1])
def test_another_wish_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_busy"):
        Agent(ScriptedModel("x"), on_busy=value)
