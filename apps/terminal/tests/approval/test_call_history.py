"""Who answered and what ran, from the events alone; and the rates that rest on it."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from apps.terminal.tests.approval.desk import Desk, approve, call, texts

from adh.approval.call_history import CallHistory, fold_calls
from holdfast import Reply, ToolCall, tool
from holdfast.events import ModelReplied, QuestionAnswered

RULES = """
own:
  reads:
    pattern: read_file
    supervision: automatic
    risk: low
    priority: 5
    restrictions:
      rate_limit: {calls: 2, seconds: 60}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, RULES)
    (desk.project / "a").write_text("hello")
    return desk


READ = call("read_file", file_path="a")


def list_refused(found: list[str]) -> list[bool]:
    return ["rate_limit" in text or "times" in text or text != "hello" for text in found]


async def test_calls_over_the_rate_are_denied_until_time_has_passed(desk: Desk) -> None:
    result = await desk.run(desk.agent(READ, READ, READ, "Ok."))
    assert list_refused(texts(result)) == [False, False, True]
    desk.clock.advance(61)
    assert list_refused(texts(await desk.run(desk.agent(READ, "Ok.")))) == [False]


async def test_calls_of_one_reply_count_each_other(desk: Desk) -> None:
    reads = [msgspec.structs.replace(READ, id=f"read_{number}") for number in range(3)]
    result = await desk.run(desk.agent(reads, "Ok."))
    assert list_refused(texts(result)) == [False, False, True]


async def test_a_call_that_a_reply_has_twice_counts_once(desk: Desk) -> None:
    read = msgspec.structs.replace(READ, id="read_1")
    assert list_refused(texts(await desk.run(desk.agent([read] * 3, "Ok.")))) == [False] * 3
    assert list_refused(texts(await desk.run(desk.agent(READ, "Ok.")))) == [False]


async def test_rate_survives_a_restart_and_a_rewind(desk: Desk) -> None:
    with closing(desk.journal()) as journal:
        agent = desk.agent(READ, READ, "Ok.", journal=journal)
        await agent.run("Read.", session="s1", deps=desk.context())
    with closing(desk.journal()) as journal:
        agent = desk.agent(READ, "Ok.", READ, "Ok.", journal=journal)
        result = await agent.run("Read.", session="s1", deps=desk.context())
        assert list_refused(texts(result)[-1:]) == [True]
        await agent.sessions.rewind("s1", 0)
        result = await agent.run("Read.", session="s1", deps=desk.context())
        assert list_refused(texts(result)[-1:]) == [True]


async def test_denied_calls_do_not_count(desk: Desk) -> None:
    desk.rules = desk.load(RULES.replace("automatic", "confirm"))
    agent = desk.agent(READ, READ, READ, READ, "Ok.")
    answers = iter([False, False, True, True])
    result = await desk.run(
        agent, lambda question: approve(question) if next(answers) else question.deny()
    )
    assert texts(result)[2:] == ["hello", "hello"]


async def test_call_that_was_cancelled_while_it_ran_counts(desk: Desk) -> None:
    started = asyncio.Event()

    @tool(effect="write")
    async def read_file(file_path: str) -> str:
        """Read."""
        started.set()
        await asyncio.Event().wait()
        return file_path

    with closing(desk.journal()) as journal:
        for _ in range(2):
            started.clear()
            agent = desk.agent(READ, "Ok.", journal=journal, tools=[read_file])
            async with agent.stream("Read.", session="s1", deps=desk.context()) as run:
                waiting = asyncio.ensure_future(run.wait())
                await started.wait()
                run.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
        agent = desk.agent(READ, "Ok.", journal=journal)
        result = await agent.run("Read.", session="s1", deps=desk.context())
    assert list_refused(texts(result)[-1:]) == [True]


def test_long_texts_of_arguments_are_not_kept() -> None:
    written = json.dumps({"file_path": "a", "content": "x" * 1_000_000, "deep": [1]})
    for arguments, kept in (
        (written, {"file_path": "a", "content": "x" * 1_000, "deep": [1]}),
        ("[" * 10_000, {}),
        (json.dumps(["x" * 10_000]), {}),
    ):
        reply = Reply((ToolCall("c", "write_file", arguments),))
        history = fold_calls(CallHistory(), ModelReplied("t1.i0.model", 1.0, reply))
        (call_,) = history.open_calls.values()
        assert json.loads(call_.arguments) == kept


def test_answers_of_any_shape_are_folded() -> None:
    reply = Reply((ToolCall("c", "pay", "{}"),))
    history = fold_calls(CallHistory(), ModelReplied("t1.i0.model", 1.0, reply))
    for answer in (None, "yes", 3, [], {"type": "approved", "typed": 3}, {"arguments": "x"}):
        event = QuestionAnswered("t1.i0.tool.0.ask.0", 2.0, answer)
        folded = fold_calls(history, event)
        assert folded.answers["t1.i0.tool.0"].typed == ""
    assert fold_calls(history, QuestionAnswered("t1.ask.0", 2.0, {})) == history
