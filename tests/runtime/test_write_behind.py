"""A turn that goes on while its records are on their way: what waits for them, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest

from holdfast import Agent, MemoryJournal, Middleware, SqliteJournal, tool
from holdfast.core.effects import Effect
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Event, ToolsBegun
from holdfast.core.messages import Reply, ReplyKind, Text, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.journal.journal_errors import JournalClosedError, JournalStorageError
from holdfast.journal.port import HandedOver, Journal, Then
from holdfast.journal.writer import WriterJob
from holdfast.middleware.hook_contexts import AfterIteration, AfterTool, BeforeIteration, BeforeTool
from holdfast.runtime.sessions.local_lease import LocalLease
from holdfast.runtime.write_behind import WriteBehind, enqueue_of
from holdfast.testing import ScriptedModel
from holdfast.testing.scripted import ScriptLine
from holdfast.tools.tool import ToolEffect

pytestmark = pytest.mark.anyio

CALL = ToolCall("c", "pay", "{}")


@tool(effect="write")
async def pay() -> str:
    """Pay."""
    return "paid"


class Kept:
    """A record that is kept when the test says so."""

    def __init__(self, key: str, keep: Callable[[], None], then: Then | None) -> None:
        self.key = key
        self._keep = keep
        self._then = then
        self._over = asyncio.get_running_loop().create_future()

    def end(self, error: HoldfastError | None = None) -> None:
        if error is None:
            self._keep()
        if self._then is not None:
            self._then(error)
        if error is not None and not self._over.done():
            self._over.set_exception(error)
            self._over.exception()
        elif not self._over.done():
            self._over.set_result(None)

    def __await__(self) -> Generator[object, None, None]:
        yield from self._over.__await__()


class SlowJournal(MemoryJournal):
    """Keeps nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.on_the_way: list[Kept] = []
        self.slow = True

    def enqueue(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        after: HandedOver | None = None,
        then: Then | None = None,
    ) -> HandedOver:
        def keep() -> None:
            with pytest.raises(StopIteration):
                MemoryJournal.append(self, run, event, effect).send(None)

        handed = Kept(event.key, keep, then)
        if self.slow:
            self.on_the_way.append(handed)
        else:
            handed.end()
        return handed

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        await self.enqueue(run, event, effect)

    @property
    def waiting(self) -> list[str]:
        return [one.key for one in self.on_the_way]

    def fail(self, error: HoldfastError) -> None:
        """Let the first that waits fail."""
        self.on_the_way.pop(0).end(error)

    def let_go(self) -> None:
        """Keep all, at once from now on."""
        self.slow = False
        while self.on_the_way:
            self.on_the_way.pop(0).end()

    def keep(self, *keys: str) -> None:
        """Keep exactly these, which are the first that wait."""
        for key in keys:
            assert self.on_the_way[0].key == key, self.waiting
            self.on_the_way.pop(0).end()

    async def until(self, *keys: str) -> None:
        """Wait until exactly these are on their way, and nothing else can move."""
        for _ in range(200):
            await asyncio.sleep(0)
        assert self.waiting == list(keys)


class Bench:
    """An agent with one tool, on a slow journal, in a stream that is read."""

    def __init__(
        self,
        *script: ScriptLine,
        middleware: tuple[Middleware, ...] = (),
        effect: ToolEffect = "write",
        until: asyncio.Event | None = None,
    ) -> None:
        self.journal = SlowJournal()
        self.paid = self.looked = 0
        self.shown: list[str] = []
        self.model = ScriptedModel(*script)

        @tool(effect=effect)
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            if until is not None:
                await until.wait()
            return "paid"

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.looked += 1
            return "seen"

        tools = [pay, look]
        self.agent = Agent(self.model, tools=tools, journal=self.journal, middleware=middleware)

    @property
    def asked(self) -> int:
        return len(self.model.requests)

    def begin(self, said: str = "Pay.") -> asyncio.Task[str]:
        async def run() -> str:
            async with self.agent.stream(said, session="s") as stream:
                async for item in stream:
                    if isinstance(item, Event):
                        self.shown.append(item.key)
                return stream.result.text

        return asyncio.create_task(run())

    async def begun(self) -> asyncio.Task[str]:
        """The turn, up to where the result of its tool is on its way."""
        task, journal = self.begin(), self.journal
        await journal.until("t1")
        journal.keep("t1")
        await journal.until("t1.i0.model", "t1.i0.begun")
        journal.keep("t1.i0.model", "t1.i0.begun")
        return task

    async def kept(self) -> list[str]:
        return [record.event.key for record in await self.journal.read("s")]


async def hang(_: ModelRequest) -> str:
    await asyncio.Event().wait()
    return "too late"


async def test_what_waits_and_what_does_not() -> None:
    bench = Bench(CALL, "Done.")
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    assert bench.asked == 0, "nobody is asked before what the user said is kept"
    journal.keep("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    assert bench.shown == ["t1"]
    journal.keep("t1.i0.model")
    await journal.until("t1.i0.begun")
    assert bench.paid == 0, "no tool begins before the marker is kept"
    journal.keep("t1.i0.begun")
    await journal.until("t1.i0.tool.0", "t1.i1.model", "t1.closed")
    assert bench.asked == 2, "the model is asked while the result is being kept"
    assert bench.shown == ["t1", "t1.i0.model", "t1.i0.begun"], "nothing is shown that is not kept"
    journal.keep("t1.i0.tool.0", "t1.i1.model")
    await journal.until("t1.closed")
    assert not task.done()
    journal.keep("t1.closed")
    assert await task == "Done."
    assert bench.shown == await bench.kept()


async def test_a_tool_that_only_reads_runs_while_the_reply_is_being_kept() -> None:
    bench = Bench(CALL, "Done.", effect="read")
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.keep("t1")
    await journal.until("t1.i0.model", "t1.i0.begun", "t1.i0.tool.0")
    assert bench.paid == 1
    assert bench.asked == 1, "the model is not asked again before its reply is kept"
    assert bench.shown == ["t1"]
    journal.keep("t1.i0.model", "t1.i0.begun")
    await journal.until("t1.i0.tool.0")
    assert bench.asked == 1
    journal.keep("t1.i0.tool.0")
    await journal.until("t1.i1.model", "t1.closed")
    journal.let_go()
    assert await task == "Done."
    assert bench.shown == await bench.kept()


async def test_a_tool_that_reads_for_long_is_not_waited_for_again() -> None:
    slow = asyncio.Event()
    bench = Bench(CALL, "Done.", effect="read", until=slow)
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.keep("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    assert bench.paid == 1
    journal.keep("t1.i0.model", "t1.i0.begun")
    slow.set()
    await journal.until("t1.i0.tool.0", "t1.i1.model", "t1.closed")
    journal.let_go()
    assert await task == "Done."


TWO = (CALL, ToolCall("d", "pay", "{}"))


async def begun_twice(*then: ScriptLine) -> tuple[Bench, asyncio.Task[str]]:
    """A turn whose two tools have ended at the same moment."""
    bench = Bench(TWO, *then)
    task = await bench.begun()
    await asyncio.sleep(0)
    return bench, task


async def test_tools_that_end_at_the_same_moment_are_not_waited_for() -> None:
    bench, task = await begun_twice("Done.")
    journal = bench.journal
    await journal.until("t1.i0.tool.0", "t1.i0.tool.1", "t1.i1.model", "t1.closed")
    assert bench.asked == 2, "the model is asked while both results are being kept"
    assert bench.shown == ["t1", "t1.i0.model", "t1.i0.begun"], "nothing is shown that is not kept"
    journal.keep("t1.i0.tool.0")
    await journal.until("t1.i0.tool.1", "t1.i1.model", "t1.closed")
    journal.let_go()
    assert await task == "Done."
    assert bench.shown == await bench.kept()


async def test_none_of_two_results_is_believed_when_the_first_cannot_be_kept() -> None:
    bench, task = await begun_twice(hang, "I am back.")
    full = JournalStorageError("talk.db", "the disk is full")
    await bench.journal.until("t1.i0.tool.0", "t1.i0.tool.1")
    assert bench.asked == 2
    bench.journal.fail(full)
    bench.journal.fail(full)
    with pytest.raises(JournalStorageError, match="the disk is full"):
        await task
    assert bench.shown == await bench.kept() == ["t1", "t1.i0.model", "t1.i0.begun"]
    bench.journal.let_go()
    assert await bench.begin("And now?") == "I am back."


async def test_a_result_that_cannot_be_handed_over_is_not_on_its_way() -> None:
    def closed(*_: object, **__: object) -> HandedOver:
        raise JournalClosedError("talk.db", "is closed")

    behind = WriteBehind(closed, None)
    with pytest.raises(JournalClosedError):
        await behind.keep_result("r", ToolsBegun("t1.i0.begun", 1.0), None, None)
    assert behind.all_kept


async def test_a_result_is_shown_when_it_is_kept_while_another_tool_is_at_work() -> None:
    slow = asyncio.Event()
    bench = Bench((ToolCall("d", "look", "{}"), CALL), "Done.", until=slow)
    task, journal = await bench.begun(), bench.journal
    await journal.until("t1.i0.tool.0")
    assert "t1.i0.tool.0" not in bench.shown
    journal.keep("t1.i0.tool.0")
    await journal.until()
    assert bench.shown[-1] == "t1.i0.tool.0"
    slow.set()
    await journal.until("t1.i0.tool.1", "t1.i1.model", "t1.closed")
    journal.let_go()
    assert await task == "Done."


async def test_a_run_that_is_cancelled_keeps_all_results_that_were_on_their_way() -> None:
    slow = asyncio.Event()
    bench = Bench((ToolCall("d", "look", "{}"), CALL), hang, until=slow)
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.0")
    task.cancel()
    await bench.journal.until("t1.i0.tool.0", "t1.interrupted")
    bench.journal.let_go()
    await asyncio.wait([task])
    assert task.cancelled()
    assert (await bench.kept())[-3:] == ["t1.i0.tool.0", "t1.interrupted", "t1.closed"]


async def test_one_tool_that_may_change_something_holds_up_all_of_a_reply() -> None:
    bench = Bench((CALL, ToolCall("d", "look", "{}")), "Done.")
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.keep("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    assert not bench.paid
    assert not bench.looked
    journal.let_go()
    assert await task == "Done."
    assert bench.looked == 1


async def test_a_reply_that_pauses_is_kept_before_the_model_is_asked_to_go_on() -> None:
    bench = Bench(Reply((Text("Hm"),), ReplyKind.PAUSED), "Done.")
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.keep("t1")
    await journal.until("t1.i0.model")
    assert bench.asked == 1
    journal.let_go()
    assert await task == "Done."


async def test_the_model_is_left_when_the_result_cannot_be_kept() -> None:
    bench = Bench(CALL, hang, "I am back.")
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.0")
    assert bench.asked == 2
    bench.journal.fail(JournalStorageError("talk.db", "the disk is full"))
    with pytest.raises(JournalStorageError, match="the disk is full"):
        await task
    assert await bench.kept() == ["t1", "t1.i0.model", "t1.i0.begun"]
    assert "t1.i0.tool.0" not in bench.shown
    bench.journal.let_go()
    assert await bench.begin("And now?") == "I am back."
    [result] = [m for m in bench.model.requests[-1].messages if m.role == "tool"]
    assert "Whether it took effect is unknown" in result.parts[0].text  # type: ignore[union-attr]


async def test_of_an_answer_that_cannot_be_kept_nothing_is_left() -> None:
    bench = Bench("Lost.", "Kept.")
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.keep("t1")
    await journal.until("t1.i0.model", "t1.closed")
    full = JournalStorageError("talk.db", "the disk is full")
    journal.fail(full)
    journal.fail(full)
    with pytest.raises(JournalStorageError, match="the disk is full"):
        await task
    assert bench.shown == await bench.kept() == ["t1"]
    journal.let_go()
    assert await bench.begin("And now?") == "Kept."
    assert [m.text for m in bench.model.requests[-1].messages if m.role == "user"][-1] == "And now?"


async def test_a_run_that_is_cancelled_keeps_what_was_on_its_way() -> None:
    bench = Bench(CALL, hang)
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.0")
    task.cancel()
    await bench.journal.until("t1.i0.tool.0", "t1.interrupted")
    bench.journal.let_go()
    await asyncio.wait([task])
    assert task.cancelled()
    assert (await bench.kept())[-3:] == ["t1.i0.tool.0", "t1.interrupted", "t1.closed"]


class Noting(Middleware):
    """Notes what was kept when its hooks are called."""

    name = "noting"

    def __init__(self) -> None:
        self.journal: Journal | None = None
        self.seen: list[tuple[str, str]] = []

    async def note(self, hook: str) -> None:
        assert self.journal is not None
        records = await self.journal.read("s")
        self.seen.append((hook, records[-1].event.key))


class Watching(Noting):
    """Around iterations."""

    async def before_iteration(self, context: BeforeIteration) -> None:
        await self.note("before")

    async def after_iteration(self, context: AfterIteration) -> None:
        await self.note("after")


async def test_no_hook_is_called_before_what_it_sees_is_kept() -> None:
    watching = Watching()
    bench = Bench(CALL, "Done.", middleware=(watching,))
    watching.journal = bench.journal
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.keep("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    journal.keep("t1.i0.model", "t1.i0.begun")
    await journal.until("t1.i0.tool.0")
    assert bench.asked == 1, "a hook comes before the model, and waits"
    journal.keep("t1.i0.tool.0")
    await journal.until("t1.i1.model")
    journal.let_go()
    assert await task == "Done."
    assert watching.seen == [
        ("before", "t1"),
        ("after", "t1.i0.tool.0"),
        ("before", "t1.i0.tool.0"),
        ("after", "t1.i1.model"),
    ]


class AtTools(Noting):
    """The same, around tools."""

    async def before_tool(self, context: BeforeTool) -> None:
        await self.note("before")

    async def after_tool(self, context: AfterTool) -> None:
        await self.note("after")


async def test_no_hook_of_a_tool_that_reads_is_called_before_the_reply_is_kept() -> None:
    watching = AtTools()
    bench = Bench(CALL, "Done.", middleware=(watching,), effect="read")
    watching.journal = bench.journal
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.keep("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    assert not bench.paid
    journal.let_go()
    assert await task == "Done."
    assert watching.seen == [("before", "t1.i0.begun"), ("after", "t1.i0.begun")]


async def test_a_journal_that_sees_each_append_is_asked_for_each(tmp_path: Path) -> None:
    class Seeing(SqliteJournal):
        seen = 0

        async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
            self.seen += 1
            await super().append(run, event, effect)

    with Seeing(tmp_path / "a.db") as journal, SqliteJournal(tmp_path / "b.db") as plain:
        assert enqueue_of(journal) is None
        assert enqueue_of(plain) == plain.enqueue
        assert LocalLease(plain, "r").enqueue == plain.enqueue
        assert enqueue_of(LocalLease(journal, "r")) is None
        assert (await Agent(ScriptedModel("Hi."), journal=journal).run("Hello")).text == "Hi."
        assert journal.seen == 3


async def test_a_reply_shares_its_commit_with_what_follows(tmp_path: Path) -> None:
    commits: list[str] = []
    with SqliteJournal(tmp_path / "talk.db") as journal:
        note = partial(WriterJob, lambda c: c.set_trace_callback(commits.append), writes=False)
        await journal._writer.submit(note())
        bench = Bench(CALL, "Done.")
        agent = Agent(bench.model, tools=[pay], journal=journal)
        assert (await agent.run("Pay.", session="s")).text == "Done."
        assert len(await journal.read("s")) == 6
    # What the user said; the reply and the marker; the result, at times with the last reply and the end.
    assert commits.count("COMMIT") <= 4
