"""A run that waits in a journal which many processes share: asked by one, answered by another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, PostgresJournal, Status, tool
from holdfast.core.messages import ToolCall
from holdfast.core.questions import AnyQuestion, Approved, PermissionQuestion
from holdfast.errors import SessionBusyError
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.runtime.open_runs import answering
from holdfast.testing import ScriptedModel


@pytest.fixture
def journals(postgres: PostgresServer) -> Iterator[list[PostgresJournal]]:
    url = postgres.new_url()
    journals = [PostgresJournal(url), PostgresJournal(url)]
    yield journals
    for journal in journals:
        journal.close()


paid: list[int] = []


@tool(effect="write")
async def pay(euros: int) -> str:
    """Pay."""
    paid.append(euros)
    return f"paid {euros}"


def reply(request: Any) -> ToolCall | str:
    last = request.messages[-1]
    return ToolCall("a", "pay", '{"euros": 5}') if last.role == "user" else "done"


def clerk(**keywords: Any) -> Agent[str]:
    asks = [ToolPermission(ask=["pay"])]
    return Agent(
        ScriptedModel(*[reply] * 9), name="clerk", tools=[pay], middleware=asks, **keywords
    )


def boss(**keywords: Any) -> Agent[str]:
    def task(request: Any) -> ToolCall | str:
        last = request.messages[-1]
        return ToolCall("a", "clerk", '{"task": "Pay."}') if last.role == "user" else "done"

    return Agent(ScriptedModel(*[task] * 9), tools=[clerk().as_tool()], **keywords)


@pytest.mark.parametrize("make", [clerk, boss])
async def test_one_process_asks_another_answers_and_either_goes_on(
    make: Any, journals: list[PostgresJournal]
) -> None:
    paid.clear()
    first, second = (make(journal=journal, on_wait="suspend") for journal in journals)
    waiting = await first.run("go", session="s")
    assert waiting.status is Status.WAITING
    (request,) = await second.questions("s")
    assert await second.answer("s", request, Approved())
    results = await asyncio.gather(first.resume("s"), second.resume("s"))
    assert {result.output for result in results} == {"done"}
    assert results[0].messages == results[1].messages
    assert paid == [5]


async def test_of_answers_in_two_processes_at_once_one_counts(
    journals: list[PostgresJournal],
) -> None:
    first, second = (clerk(journal=journal, on_wait="suspend") for journal in journals)
    (request,) = (await first.run("go", session="s")).questions
    receipts = await asyncio.gather(
        *(one.answer("s", request, Approved()) for one in (first, second) * 5)
    )
    assert sorted(receipt.reason for receipt in receipts) == ["", *["answered"] * 9]


async def test_a_run_that_another_process_holds_is_answered_there(
    journals: list[PostgresJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_PATIENCE", 0.05)
    asked: asyncio.Future[AnyQuestion] = asyncio.get_running_loop().create_future()
    free = asyncio.Event()

    async def handler(request: AnyQuestion) -> object:
        asked.set_result(request)
        await free.wait()
        return None

    first = clerk(journal=journals[0], on_question=handler)
    work = asyncio.create_task(first.run("go", session="s"))
    request = await asked
    assert isinstance(request, PermissionQuestion)
    second = clerk(journal=journals[1])
    assert await second.questions("s") == (request,)
    with pytest.raises(SessionBusyError):
        await second.answer("s", request, Approved())
    assert await first.answer("s", request, Approved())
    assert (await work).output == "done"
