"""A reply is read as it arrives only while somebody watches; the transport here is the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from holdfast import Agent, Limits, MemoryJournal, TextDelta, ToolCall
from holdfast.client import TextItem
from holdfast.core.deltas import Delta, ReasoningDelta
from holdfast.core.errors import ConfigurationError, LimitError
from holdfast.core.events import TurnInterrupted
from holdfast.events import Observation
from holdfast.models.http_model import join_texts
from holdfast.server import Service
from holdfast.testing import ScriptedModel
from holdfast.transport.port import HttpRequest, Response, Timeouts

WORDS = ("one ", "two ", "three ", "four ")
Step = Callable[[int], Awaitable[None]]


def event(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "r", "model": "m", "choices": [choice]}).encode() + b"\n\n"


PIECES = (
    event({"role": "assistant", "content": ""}),
    *(event({"content": word}) for word in WORDS),
    event({}, "stop") + b"data: [DONE]\n\n",
)


async def go_on(_: int) -> None:
    """No step waits for anything."""


class RecordedTransport:
    """Replies in one piece an event, and records whether each piece was asked for as one that is gathered."""

    def __init__(self, step: Step = go_on) -> None:
        self.step = step
        self.gathered: list[bool] = []
        self.arrived = b""

    def send(
        self, request: HttpRequest, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[Response]:
        return self._respond()

    @asynccontextmanager
    async def _respond(self) -> AsyncIterator[Response]:
        yield RecordedResponse(self)

    async def aclose(self) -> None:
        """Nothing is open."""


class RecordedResponse:
    """The one reply."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, transport: RecordedTransport) -> None:
        self._transport = transport
        self._at = 0

    async def read(self, *, gather: bool = False) -> bytes:
        self._transport.gathered.append(gather)
        await self._transport.step(self._at)
        self._at += 1
        return PIECES[self._at - 1] if self._at <= len(PIECES) else b""

    def read_arrived(self) -> bytes:
        return self._transport.arrived

    def note_content(self) -> None:
        """No limit is kept here."""


def agent(transport: RecordedTransport, **options: object) -> Agent[str]:
    return Agent("openai:m", api_key="k", transport=transport, name="clerk", **options)  # type: ignore[arg-type]


async def test_a_run_gathers() -> None:
    transport = RecordedTransport()
    assert (await agent(transport).run("go")).output == "".join(WORDS)
    assert all(transport.gathered[: len(PIECES)])


async def test_a_stream_with_a_reader_is_live() -> None:
    transport = RecordedTransport()
    async with agent(transport).stream("go") as run:
        texts = [item.text async for item in run if isinstance(item, TextDelta)]
    assert texts == list(WORDS)
    assert not any(transport.gathered)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_with_an_observer_is_live(streamed: bool) -> None:
    transport, texts = RecordedTransport(), []

    def observe(seen: object) -> None:
        if isinstance(item := getattr(seen, "item", None), TextDelta):
            texts.append(item.text)

    clerk = agent(transport, observers=[observe])
    if streamed:
        async with clerk.stream("go") as run:
            await run.wait()
    else:
        await clerk.run("go")
    assert texts == list(WORDS)
    assert not any(transport.gathered)


class Tracer:
    """An observer of the ends of operations."""

    reads_deltas = False

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, seen: Observation) -> None:
        self.seen.append(type(seen.item).__name__)


async def test_a_run_with_an_observer_that_reads_no_deltas_gathers() -> None:
    transport, tracer = RecordedTransport(), Tracer()
    assert (await agent(transport, observers=[tracer]).run("go")).output == "".join(WORDS)
    assert all(transport.gathered[: len(PIECES)])
    assert tracer.seen == ["TurnOpened", "AttemptStarted", "ModelReplied", "TurnClosed"]


async def test_a_stream_beside_an_observer_that_reads_no_deltas_is_live() -> None:
    transport, tracer = RecordedTransport(), Tracer()
    async with agent(transport, observers=[tracer]).stream("go") as run:
        texts = [item.text async for item in run if isinstance(item, TextDelta)]
    assert texts == list(WORDS)
    assert not any(transport.gathered)
    assert "TextDelta" not in tracer.seen


async def test_pieces_of_a_subagent_are_not_for_an_observer_that_reads_none() -> None:
    transport, tracer = RecordedTransport(), Tracer()
    asks = ToolCall("1", "clerk", '{"task": "go"}')
    tools = [agent(transport).as_tool()]
    await Agent(ScriptedModel(asks, "done"), tools=tools, observers=[tracer]).run("go")
    assert all(transport.gathered[: len(PIECES)])
    # Of the subagent: its turn, its attempt, its reply, and the end.
    assert tracer.seen.count("FromAgent") == 4


def test_whether_an_observer_reads_deltas_is_true_or_false() -> None:
    tracer = Tracer()
    tracer.reads_deltas = "no"  # type: ignore[assignment]
    with pytest.raises(ConfigurationError, match=r"observers\[0\].reads_deltas"):
        Agent("openai:m", api_key="k", observers=[tracer])


async def test_a_stream_whose_reader_only_waits_for_the_result_gathers() -> None:
    transport = RecordedTransport()
    async with agent(transport).stream("go") as run:
        assert (await run.wait()).output == "".join(WORDS)
    assert all(transport.gathered[: len(PIECES)])


async def test_a_reader_that_comes_and_goes_is_noticed_at_the_next_piece() -> None:
    watched = iter([False, False, True, True, False, False])
    is_watched = False

    async def look(_: int) -> None:
        nonlocal is_watched
        is_watched = next(watched, is_watched)

    transport = RecordedTransport(look)
    async with agent(transport).stream("go") as run:
        run.deliver_live_while(lambda: is_watched)
        texts = [item.text async for item in run if isinstance(item, TextDelta)]
    assert "".join(texts) == "".join(WORDS)
    assert transport.gathered[:6] == [True, True, True, False, False, True]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_subagent_is_as_live_as_its_caller(streamed: bool) -> None:
    transport = RecordedTransport()
    asks = ToolCall("1", "clerk", '{"task": "go"}')
    caller = Agent(ScriptedModel(asks, "done"), tools=[agent(transport).as_tool()])
    if streamed:
        async with caller.stream("go") as run:
            async for _item in run:
                pass
    else:
        await caller.run("go")
    assert transport.gathered[: len(PIECES)] == [not streamed] * len(PIECES)


@pytest.mark.parametrize("how", ["cancelled", "time limit"])
async def test_what_has_arrived_belongs_to_the_partial_reply_of_a_turn_that_ends(how: str) -> None:
    waits = asyncio.Event()

    async def wait_at_two(at: int) -> None:
        if at == 2:
            waits.set()
            await asyncio.Event().wait()

    transport, journal = RecordedTransport(wait_at_two), MemoryJournal()
    transport.arrived = PIECES[2] + PIECES[3] + PIECES[4][:20]
    limits = Limits(seconds=0.05) if how == "time limit" else Limits()
    work = agent(transport, journal=journal, limits=limits).run("go", session="s")
    task = asyncio.create_task(work)
    await waits.wait()
    if how == "cancelled":
        task.cancel()
    with pytest.raises(asyncio.CancelledError if how == "cancelled" else LimitError):
        await task
    ends = [one.event for one in await journal.read("s") if isinstance(one.event, TurnInterrupted)]
    (said,) = [end.partial.text for end in ends if end.partial is not None]
    assert said == "one two three "


async def test_who_subscribes_in_the_middle_gets_what_came_so_far_and_is_live_from_then_on() -> (
    None
):
    at_three, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait_at_three(at: int) -> None:
        if at == 3:
            at_three.set()
            await may_go_on.wait()

    transport = RecordedTransport(wait_at_three)
    texts: list[str] = []
    async with asyncio.timeout(60), Service(agent(transport)) as service:
        turn = await service.start("clerk", "go", session="ada")
        await at_three.wait()
        assert transport.gathered == [True] * 4
        async for _position, item in service.follow("ada", turn=turn.number):
            if isinstance(item, TextItem):
                texts.append(item.text)
                may_go_on.set()
    assert texts[0] == "one two "
    assert "".join(texts) == "".join(WORDS)
    assert not any(transport.gathered[4:])


def test_joined_texts_are_the_same_text_in_the_same_order() -> None:
    deltas: list[Delta] = [
        *(TextDelta("a"), TextDelta("b"), ReasoningDelta("c"), TextDelta("d"), TextDelta("e", 1)),
        *(TextDelta("f", 1), ReasoningDelta("g")),
    ]
    joined = [TextDelta("ab"), ReasoningDelta("c"), TextDelta("d"), TextDelta("ef", 1)]
    assert join_texts(deltas) == [*joined, ReasoningDelta("g")]
    assert join_texts([]) == []
