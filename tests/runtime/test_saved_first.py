"""Each event is saved before a turn acts on it; a reply and the marker before its tools are one append."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.runtime.slow_journal import CALL, Bench, SlowJournal

from holdfast import Agent, Middleware, SqliteJournal, tool
from holdfast.core.deltas import TextDelta
from holdfast.core.events import ModelReplied, ToolFinished
from holdfast.core.messages import Reply, ReplyKind, Text, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.port import Journal
from holdfast.journal.sqlite.writer import WriterJob
from holdfast.middleware.decisions import Stop
from holdfast.middleware.hook_contexts import (
    AfterIteration,
    AfterReply,
    BeforeIteration,
    BeforeTools,
)
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

LOOK = ToolCall("d", "look", "{}")
FULL = JournalStorageError("talk.db", "the disk is full")


async def hang(_: ModelRequest) -> str:
    await asyncio.Event().wait()
    return "too late"


@pytest.mark.parametrize("effect", ["write", "read"])
async def test_nothing_is_done_or_shown_before_what_it_follows_is_saved(effect: str) -> None:
    bench = Bench(CALL, "Done.", effect=effect)  # type: ignore[arg-type]
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    assert (bench.asked, bench.shown) == (0, [])
    journal.save("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    assert (bench.paid, bench.shown) == (0, ["t1"])
    journal.save("t1.i0.model", "t1.i0.begun")
    await journal.until("t1.i0.tool.0")
    assert (bench.paid, bench.asked) == (1, 1)
    assert bench.shown == ["t1", "t1.i0.model", "t1.i0.begun"]
    journal.save("t1.i0.tool.0")
    await journal.until("t1.i1.model", "t1.closed")
    assert bench.asked == 2
    assert not task.done()
    journal.save("t1.i1.model", "t1.closed")
    assert await task == "Done."
    assert bench.shown == await bench.saved()


async def test_results_of_tools_that_run_at_once_are_saved_at_the_same_time() -> None:
    bench = Bench((CALL, LOOK), "Done.")
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.0", "t1.i0.tool.1")
    assert bench.asked == 1
    bench.journal.save("t1.i0.tool.0")
    await bench.journal.until("t1.i0.tool.1")
    assert bench.shown[-1] == "t1.i0.tool.0"
    assert bench.asked == 1, "the model is asked when both results are saved"
    bench.journal.let_go()
    assert await task == "Done."
    assert bench.shown == await bench.saved()


async def test_a_result_is_shown_when_it_is_saved_while_another_tool_is_at_work() -> None:
    slow = asyncio.Event()
    bench = Bench((LOOK, CALL), "Done.", until=slow)
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.1")
    bench.journal.save("t1.i0.tool.1")
    await bench.journal.until()
    assert bench.shown[-1] == "t1.i0.tool.1"
    slow.set()
    bench.journal.let_go()
    assert await task == "Done."


async def test_a_reply_that_pauses_is_saved_before_the_model_is_asked_to_go_on() -> None:
    bench = Bench(Reply((Text("Hm"),), ReplyKind.PAUSED), "Done.")
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.save("t1")
    await journal.until("t1.i0.model")
    assert bench.asked == 1
    journal.let_go()
    assert await task == "Done."


async def test_a_turn_whose_result_cannot_be_saved_ends_and_the_result_is_in_doubt() -> None:
    bench = Bench(CALL, "I am back.")
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.0")
    bench.journal.fail(FULL)
    with pytest.raises(JournalStorageError, match="the disk is full"):
        await task
    assert bench.shown == await bench.saved() == ["t1", "t1.i0.model", "t1.i0.begun"]
    bench.journal.let_go()
    assert await bench.begin("And now?") == "I am back."
    [result] = [m for m in bench.model.requests[-1].messages if m.role == "tool"]
    assert "Whether it took effect is unknown" in result.parts[0].text  # type: ignore[union-attr]


async def test_no_tool_runs_when_the_reply_and_its_marker_cannot_be_saved() -> None:
    bench = Bench(CALL, "I am back.")
    task, journal = bench.begin(), bench.journal
    await journal.until("t1")
    journal.save("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    journal.fail(FULL)
    with pytest.raises(JournalStorageError, match="the disk is full"):
        await task
    assert (bench.paid, bench.shown, await bench.saved()) == (0, ["t1"], ["t1"])


async def test_a_cancelled_turn_has_the_results_that_were_saved() -> None:
    bench = Bench(CALL, hang)
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.0")
    bench.journal.save("t1.i0.tool.0")
    await bench.journal.until()
    bench.journal.let_go()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert (await bench.saved())[-3:] == ["t1.i0.tool.0", "t1.interrupted", "t1.closed"]


class Noting(Middleware):
    """Notes what was saved when its hooks are called."""

    name = "noting"

    def __init__(self) -> None:
        self.journal: Journal | None = None
        self.seen: list[tuple[str, str]] = []

    async def note(self, hook: str) -> None:
        assert self.journal is not None
        records = await self.journal.read("s")
        self.seen.append((hook, records[-1].event.key))


class Watching(Noting):
    async def before_iteration(self, context: BeforeIteration) -> None:
        await self.note("before")

    async def after_iteration(self, context: AfterIteration) -> None:
        await self.note("after")


async def test_no_hook_is_called_before_what_it_sees_is_saved() -> None:
    watching = Watching()
    bench = Bench(CALL, "Done.", middleware=(watching,))
    watching.journal = bench.journal
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.0")
    assert bench.asked == 1
    bench.journal.let_go()
    assert await task == "Done."
    assert watching.seen == [
        ("before", "t1"),
        ("after", "t1.i0.tool.0"),
        ("before", "t1.i0.tool.0"),
        ("after", "t1.i1.model"),
    ]


class AtTools(Noting):
    async def before_tools(self, context: BeforeTools) -> None:
        await self.note("before tools")


async def test_a_hook_before_the_tools_sees_the_reply_saved_and_no_marker() -> None:
    watching = AtTools()
    bench = Bench(CALL, "Done.", middleware=(watching,))
    watching.journal = bench.journal
    bench.journal.let_go()
    assert await bench.begin() == "Done."
    assert watching.seen == [("before tools", "t1.i0.model")]
    assert (await bench.saved())[1:3] == ["t1.i0.model", "t1.i0.begun"]


async def test_a_hook_after_the_last_iteration_sees_the_reply_saved_and_no_end() -> None:
    watching = Watching()
    bench = Bench("Done.", middleware=(watching,))
    watching.journal = bench.journal
    bench.journal.let_go()
    assert await bench.begin() == "Done."
    assert watching.seen[-1] == ("after", "t1.i0.model")
    assert await bench.saved() == ["t1", "t1.i0.model", "t1.closed"]


class Stopping(Middleware):
    async def after_reply(self, context: AfterReply) -> Stop:
        return Stop("enough", "That is all.")


class Failing(Middleware[int]):
    initial = 0
    events = (ModelReplied,)

    def fold(self, state: int, event: ModelReplied) -> int:
        raise RuntimeError("a fold")


@pytest.mark.parametrize("middleware", [Stopping(), Failing()], ids=["stop", "fold"])
async def test_no_marker_is_saved_when_a_hook_ends_the_turn_before_its_tools(
    middleware: Middleware,
) -> None:
    """The marker would say that the tools may have begun."""
    bench = Bench(CALL, middleware=(middleware,))
    bench.journal.let_go()
    await asyncio.gather(bench.begin(), return_exceptions=True)
    assert bench.paid == 0
    assert await bench.saved() == ["t1", "t1.i0.model", "t1.stopped", "t1.closed"]


async def test_a_turn_with_a_tool_is_four_commits(tmp_path: Path) -> None:
    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        return "paid"

    statements: list[str] = []
    with SqliteJournal(tmp_path / "talk.db") as journal:
        trace: WriterJob[None] = WriterJob(
            lambda c: c.set_trace_callback(statements.append), writes=False
        )
        await journal._writer.submit(trace)
        agent = Agent(ScriptedModel(CALL, "Done."), tools=[pay], journal=journal)
        assert (await agent.run("Pay.", session="s")).text == "Done."
        assert len(await journal.read("s")) == 6
    assert statements.count("COMMIT") == 4  # opened, replied and begun, tool, replied and closed


@pytest.mark.parametrize("error", [JournalStorageError("talk.db", "is full"), OSError("is gone")])
async def test_a_turn_ends_at_a_record_that_cannot_be_saved(error: Exception) -> None:
    journal, paid, seen = SlowJournal(), list[str](), list[object]()
    journal.slow = False

    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        paid.append("once")
        journal.slow = True
        return "paid"

    agent = Agent(
        ScriptedModel(CALL, "To nothing."),
        tools=[pay],
        journal=journal,
        observers=[lambda one: seen.append(one.item)],
    )
    async with asyncio.timeout(60), agent.stream("Pay.", session="s") as stream:
        await journal.until("t1.i0.tool.0")
        journal.fail(error)
        with pytest.raises(type(error), match="is"):
            await stream.wait()
    assert paid == ["once"]
    assert [item for item in seen if isinstance(item, TextDelta | ToolFinished)] == []
    kept = [record.event.key for record in await journal.read("s")]
    assert kept == ["t1", "t1.i0.model", "t1.i0.begun"]
