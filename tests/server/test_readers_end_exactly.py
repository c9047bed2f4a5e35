"""Whatever a run does and whenever a reader is cut, it ends with the exact text of every reply.

A run is any sequence of attempts that fail, continue, are replaced or die with their process. A reader
is cut at any item and comes back to the process that drives the run, or to one that has only the
journal.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from holdfast import Agent
from holdfast.core.deltas import ReasoningDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    OutputChecked,
    QuestionAsked,
    Status,
    ToolFinished,
    ToolsBegun,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
    TurnStopped,
)
from holdfast.core.messages import Reply, Text, ToolResult, user
from holdfast.core.notices import (
    AttemptAbandoned,
    AttemptStarted,
    FromAgent,
    Notice,
    ReplyReplaced,
    RetryScheduled,
)
from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.live_run import LiveRun
from holdfast.event_log.live.reading import SessionReader
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.event_log.positions import START, Position, parse_position
from holdfast.event_log.stream_items import EndItem, EventItem, StreamItem, TextItem, WithdrawnItem
from holdfast.event_log.text_fold import TextFold, find_text, is_event
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.memory import MemoryJournal
from holdfast.sessions.session_index import to_index
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker

CRASH = "the process dies"
Step: TypeAlias = Event | Notice | str

_TEXTS = st.text(st.sampled_from("ab é😀\ud83d\n"), min_size=1, max_size=3)
_DELTAS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1]), _TEXTS), max_size=4)
_LATER = ErrorInfo(category=ErrorCategory.TRANSIENT, safe="Later.")


class Attempt(Struct):
    """One attempt of a model call."""

    deltas: list[tuple[int, str]]
    end: str
    noise: bool


class Call(Struct):
    """A model call: attempts that do not end it, and one that does."""

    attempts: list[Attempt]
    last: Attempt


_FAILING = st.builds(
    Attempt,
    _DELTAS,
    st.sampled_from(["abandoned", "continued", "asked again", "dies"]),
    st.booleans(),
)
_ENDING = st.builds(
    Attempt,
    _DELTAS,
    st.sampled_from(["accepted", "accepted", "replaced", "unfit", "from a hook"]),
    st.booleans(),
)
_CLOSING = st.builds(
    Attempt,
    _DELTAS,
    st.sampled_from(["accepted", "failed", "failed empty", "interrupted", "stopped", "cancelled"]),
    st.booleans(),
)
_CALLS = st.builds(Call, st.lists(_FAILING, max_size=3), _ENDING)
_LAST_CALL = st.builds(Call, st.lists(_FAILING, max_size=3), _CLOSING)


class Script:
    """The steps of a run with these calls."""

    def __init__(self, calls: list[Call]) -> None:
        self.steps: list[Step] = [TurnOpened("t1", 0.0, user("Hi"))]
        self._key = ""
        self._blocks: dict[int, str] = {}
        for number, call in enumerate(calls):
            self._call(number, call)
        self.steps.append(TurnClosed("t1.closed", 9.0, Status.COMPLETED))

    @property
    def _reply(self) -> Reply:
        return Reply(tuple(Text(text) for _, text in sorted(self._blocks.items())))

    def _call(self, number: int, call: Call) -> None:
        self._key, self._blocks = f"t1.i{number}.model", {}
        continues = False
        for attempt_number, attempt in enumerate([*call.attempts, call.last], 1):
            if attempt.end != "from a hook":
                self._begin(attempt_number, attempt, continues=continues)
            continues = attempt.end == "continued"
            self._end(number, attempt_number, attempt)

    def _begin(self, number: int, attempt: Attempt, *, continues: bool) -> None:
        if not continues:
            self._blocks = {}
        self.steps.append(AttemptStarted(self._key, number, "model", continues))
        if attempt.noise:
            self.steps += [ReasoningDelta("hm"), ToolCallDelta(2, "c", "look")]
        for index, text in attempt.deltas:
            self._blocks[index] = self._blocks.get(index, "") + text
            self.steps.append(TextDelta(text, index))
            if attempt.noise:
                self.steps.append(FromAgent("t1.i0.tool.0", ("clerk",), TextDelta("beside")))

    def _end(self, call: int, number: int, attempt: Attempt) -> None:
        key, end = self._key, attempt.end
        if end == "abandoned":
            self.steps += [AttemptAbandoned(key, number, _LATER), self._retry(number)]
            if attempt.noise:
                asked = f"{key}.ask.{number}.asked"
                self.steps.append(QuestionAsked(asked, 1.0, "continuation", {}))
        elif end == "continued":
            self.steps.append(self._retry(number))
        elif end == "dies":
            self.steps.append(CRASH)
        elif end in ("accepted", "unfit", "replaced", "from a hook"):
            self._accept(call, attempt)
        elif end == "stopped":
            text = self._reply.text
            self.steps += [TurnStopped("t1.stopped", 1.0, "enough", text), TextDelta(text)]
        elif end in ("interrupted", "cancelled"):
            partial = self._reply if end == "interrupted" else None
            self.steps.append(TurnInterrupted("t1.interrupted", 1.0, "cancelled", (), partial))
        elif end in ("failed", "failed empty"):
            partial = self._reply if end == "failed" else None
            self.steps += [
                AttemptAbandoned(key, number, _LATER),
                ModelFailed(key, 1.0, _LATER, partial),
            ]

    def _retry(self, number: int) -> RetryScheduled:
        return RetryScheduled(self._key, number, 3, 0.0, _LATER)

    def _accept(self, call: int, attempt: Attempt) -> None:
        if attempt.end == "replaced":
            self.steps.append(ReplyReplaced(self._key))
        if attempt.end in ("replaced", "from a hook"):
            self._blocks = {0: "instead" if attempt.noise else "a"}
            self.steps.append(TextDelta(self._blocks[0]))
        self.steps.append(ModelReplied(self._key, 1.0, self._reply))
        if attempt.end == "unfit":
            self.steps.append(OutputChecked(f"t1.i{call}.output", 1.0))
        elif attempt.noise:
            result = ToolResult("c", "look", (Text("seen"),))
            self.steps += [
                ToolsBegun(f"t1.i{call}.begun", 1.0),
                ToolFinished(f"t1.i{call}.tool.0", 1.0, result),
            ]


class World:
    """The process that drives the run "s", and another one that only has the journal.

    Args:
        lag: how many items are saved and not shown yet.
    """

    def __init__(self, lag: int) -> None:
        self._journal = MemoryJournal()
        self._watch = SessionWatch()
        self._live: LiveRun | None = None
        self._hidden: deque[Event | Notice] = deque()
        self._lag = lag
        index = to_index(self._journal)
        self.here = SessionReader(index, self, self._watch)
        self.elsewhere = SessionReader(index, _Nobody(), SessionWatch())

    def is_driven(self, _session: str) -> bool:
        return self._live is not None

    def find_live(self, _session: str) -> LiveRun | None:
        return self._live

    def want(self, _session: str) -> None:
        """No other process drives the run."""

    poll = None

    async def do(self, step: Step) -> None:
        """Perform one step of the run."""
        if isinstance(step, str):
            self._hidden.clear()
            self._end()
            return
        if self._live is None:
            records = await self._journal.read("s")
            self._live = LiveRun(len(records), encode_item)
            self._watch.wake("s")
        if is_event(step):
            await self._journal.append("s", step)
        self._hidden.append(step)
        self._show(self._lag)

    def _show(self, lag: int) -> None:
        while self._live is not None and len(self._hidden) > lag:
            self._live.publish(self._hidden.popleft())

    def _end(self) -> None:
        if self._live is not None:
            self._live.close()
            self._live = None
        self._watch.wake("s")

    def finish(self) -> None:
        """End the process after everything was shown."""
        self._show(0)
        self._end()


class _Nobody:
    def is_driven(self, _session: str) -> bool:
        return False

    def find_live(self, _session: str) -> LiveRun | None:
        return None

    def want(self, _session: str) -> None:
        """Nobody tells of the run."""

    poll = 0.0005


class ReadingClient:
    """A client that shows the text of each reply, by the rules of the items."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._position = START
        self._shown = ""
        self._task: asyncio.Task[None] | None = None
        self._may_take = asyncio.Semaphore(0)
        self.texts: list[tuple[str, str]] = []
        """The key of each event that ended a reply, and the text that was shown then."""
        self.sequences: list[int] = []
        self.has_ended = asyncio.Event()

    def connect(self, *, elsewhere: bool = False) -> None:
        reader = self._world.elsewhere if elsewhere else self._world.here
        self._task = asyncio.create_task(self._read(reader))

    async def disconnect(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    async def take(self, most: int) -> None:
        """Let it take some items, if there are any."""
        for _ in range(most):
            self._may_take.release()
        for _ in range(3 * most):
            await asyncio.sleep(0)

    async def _read(self, reader: SessionReader) -> None:
        entries = reader.follow("s", self._position)
        try:
            async for entry in entries:
                await self._may_take.acquire()
                self._check_growth(entry.item, entry.position)
                self._position = parse_position(str(entry.position))
                self._take(entry.item)
        finally:
            await entries.aclose()  # type: ignore[attr-defined]  # REASON: it is a generator

    def _check_growth(self, item: StreamItem, position: Position) -> None:
        assert position.sequence >= self._position.sequence
        if position.sequence == self._position.sequence and not isinstance(item, WithdrawnItem):
            if isinstance(item, TextItem) and item.offset == 0:
                return  # what was shown is replaced
            assert position.offset >= self._position.offset

    def _take(self, item: StreamItem) -> None:
        if isinstance(item, TextItem):
            assert len(self._shown) >= item.offset
            self._shown = self._shown[: item.offset] + item.text
        elif isinstance(item, WithdrawnItem):
            self._shown = ""
        elif isinstance(item, EventItem):
            self.sequences.append(item.sequence)
            if find_text(item.event) is not None:
                self.texts.append((item.event.key, self._shown))
                self._shown = ""
            if isinstance(item.event, TurnClosed):
                assert self._shown == ""
                self.has_ended.set()


def expected_texts(steps: list[Step]) -> Iterator[tuple[str, str]]:
    for step in steps:
        if not isinstance(step, str) and is_event(step):
            text = find_text(step)
            if text is not None:
                yield step.key, text


class Moment(Struct):
    """What a reader does after a step of the run."""

    takes: int
    cuts: bool
    elsewhere: bool


_MOMENTS = st.builds(
    Moment, st.integers(0, 4), st.integers(0, 3).map(lambda n: n == 0), st.booleans()
)


async def play(steps: list[Step], moments: list[Moment], lag: int) -> None:
    world = World(lag)
    await world.do(steps[0])
    client = ReadingClient(world)
    client.connect()
    for at, step in enumerate(steps[1:]):
        await world.do(step)
        moment = moments[at % len(moments)]
        await client.take(moment.takes)
        if moment.cuts:
            await client.disconnect()
            client.connect(elsewhere=moment.elsewhere)
    world.finish()
    await client.disconnect()
    client.connect()
    await client.take(20 * len(steps) + 100)
    await asyncio.wait_for(client.has_ended.wait(), 60)
    await client.disconnect()
    assert client.texts == list(expected_texts(steps))
    assert client.sequences == list(range(1, len(client.sequences) + 1))


@pytest.mark.slow  # takes half a second or more
@given(
    st.lists(_CALLS, max_size=2),
    _LAST_CALL,
    st.lists(_MOMENTS, min_size=1, max_size=12),
    st.integers(0, 2),
)
def test_every_reader_ends_with_the_exact_text(
    calls: list[Call], last: Call, moments: list[Moment], lag: int
) -> None:
    asyncio.run(play(Script([*calls, last]).steps, moments, lag))


@given(st.lists(_CALLS, max_size=3), _LAST_CALL)
def test_the_live_fold_and_the_fold_of_the_journal_agree(calls: list[Call], last: Call) -> None:
    steps = [step for step in Script([*calls, last]).steps if not isinstance(step, str)]
    live, saved = TextFold(), TextFold()
    for step in steps:
        shown = [item for item in live.feed(step) if isinstance(item, EventItem | WithdrawnItem)]
        if is_event(step):
            again = [
                item for item in saved.feed(step) if isinstance(item, EventItem | WithdrawnItem)
            ]
            assert shown[-len(again) :] == again
            assert live.position.sequence == saved.position.sequence


@pytest.mark.parametrize("end", ["accepted", "cancelled"])
def test_text_of_a_dead_process_is_withdrawn(end: str) -> None:
    dies = Attempt([(0, "Hel"), (0, "lo")], "dies", noise=False)
    steps = Script([Call([dies], Attempt([(0, "Hallo")], end, noise=False))]).steps
    stays = Moment(4, cuts=False, elsewhere=False)
    asyncio.run(play(steps, [stays], 0))


async def _run_turn(tenant: TenantService, text: str) -> None:
    await tenant.start("greeter", text, session="ada")
    await tenant.runner.wait("ada")


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_reader_gets_the_end_of_a_deleted_session(*, is_made_again: bool) -> None:
    tenant = ServiceTenants(Agent(ScriptedModel("One.", "Two."), name="greeter")).for_tenant()
    await _run_turn(tenant, "Hello")
    items = tenant.reader.follow("ada")
    async with asyncio.timeout(60):
        async for entry in items:
            if isinstance(entry.item, EventItem) and entry.position.sequence == 3:
                break
        following = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        await tenant.sessions.delete("ada")
        if is_made_again:
            await _run_turn(tenant, "Hello again")
        tenant.watch.wake("ada")
        entry = await following
    assert entry.item == EndItem("3", "deleted")


async def test_a_turn_that_ends_after_the_journal_was_read_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel("Hello."), name="greeter", journal=journal)
    run = await agent.submit("Hi.", session="ada")
    find_request, has_run = MemoryJournal.find_request, False

    async def find_before_the_turn(journal: MemoryJournal, request: str) -> Any:
        nonlocal has_run
        found = await find_request(journal, request)
        if not has_run:
            has_run = True
            async with Worker(agent):
                await run.wait(20)
        return found

    monkeypatch.setattr(MemoryJournal, "find_request", find_before_the_turn)
    items = [item async for _, item in run.events()]
    assert isinstance(items[-1], EndItem)
