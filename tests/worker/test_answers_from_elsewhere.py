"""A question that a worker's turn asks is answered through the journal of another process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.every_route import make_clerk
from tests.server.serving import Api, serve
from tests.worker.paying_worker import Ledger, PayingSettings, final_text, make_agent
from tests.worker.worker_cluster import WorkerCluster, serve_model

from holdfast import PostgresJournal
from holdfast.core.events import QuestionAnswered, Status, ToolFinished
from holdfast.journal.inbox.entries import EntryState
from holdfast.server import create_app

pytestmark = pytest.mark.slow  # starts workers as processes

ORDER, SECONDS = "t0/s0/0", 60.0


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model(0.0) as url:
        yield url


@pytest.fixture
def settings(model: str, url: str, tmp_path: Path) -> PayingSettings:
    ledger = str(tmp_path / "ledger.db")
    return PayingSettings(journal=url, model=model, ledger=ledger, lease=4.0, asks=True)


@pytest.mark.parametrize("is_approved", [True, False])
async def test_an_answer_of_another_process_lets_the_turn_of_a_worker_go_on(
    settings: PayingSettings, tmp_path: Path, is_approved: bool
) -> None:
    agent, ledger = make_agent(settings), Ledger(Path(settings.ledger))
    async with WorkerCluster(settings, tmp_path, 1) as cluster:
        run = await agent.submit(ORDER, session="s0", request=ORDER)
        waiting = await run.wait(SECONDS)
        assert waiting.status is Status.WAITING
        (question,) = waiting.questions
        assert not ledger.read("pay")
        answer = question.approve(by="ann") if is_approved else question.deny("no", by="ann")
        assert await agent.answer("s0", answer)
        while (await run.read_state()) is not EntryState.DONE:  # REASON: polled
            await asyncio.sleep(0.02)
        result = await run.wait(SECONDS)
        worker = cluster.workers[0].pid
    assert result.text == final_text(ORDER)
    assert {deed.process for deed in ledger.read("look")} == {worker}
    assert [deed.process for deed in ledger.read("pay")] == [worker] * is_approved
    with PostgresJournal(settings.journal) as journal:
        events = [record.event for record in await journal.read("s0")]
    assert [event.by for event in events if isinstance(event, QuestionAnswered)] == ["ann"]
    assert sum(isinstance(event, ToolFinished) for event in events) == 2


async def test_an_answer_that_comes_while_no_worker_is_there_is_found_by_the_next_one(
    settings: PayingSettings, tmp_path: Path
) -> None:
    agent, ledger = make_agent(settings), Ledger(Path(settings.ledger))
    async with WorkerCluster(settings, tmp_path, 1):
        run = await agent.submit(ORDER, session="s0", request=ORDER)
        (question,) = (await run.wait(SECONDS)).questions
        while (await run.read_state()) is not EntryState.WAITING:  # REASON: polled
            await asyncio.sleep(0.02)
    assert await agent.answer("s0", question.approve(by="ann"))
    assert await run.read_state() is EntryState.READY
    async with WorkerCluster(settings, tmp_path, 1) as cluster:
        while (await run.read_state()) is not EntryState.DONE:  # REASON: polled
            await asyncio.sleep(0.02)
        assert (await run.wait(SECONDS)).text == final_text(ORDER)
        worker = cluster.workers[0].pid
    assert [deed.process for deed in ledger.read("pay")] == [worker]
    assert len(ledger.read("look")) == 1
    assert not await agent.answer("s0", question.approve(by="bob"))


TRIES = 12


async def test_a_second_answer_in_another_process_names_the_first(url: str) -> None:
    apps = [create_app(make_clerk(), journal=PostgresJournal(url)) for _ in range(2)]
    async with serve(apps[0]) as one, serve(apps[1]) as two, Api(one) as here, Api(two) as there:
        for number in range(TRIES):
            session = f"s{number}"
            turn = {"agent": "clerk", "message": "pay", "session": session, "wait": 20}
            (asked,) = (await here.post("/turns", turn)).json["questions"]
            answer = {"key": asked["key"], "binding": asked["binding"], "answer": "deny"}
            path = f"/sessions/{session}/answers"
            both = await asyncio.gather(here.post(path, answer), there.post(path, answer))
            told = sorted((one.json for one in both), key=lambda view: bool(view["accepted"]))
            first, second = told[1], told[0]
            assert first["accepted"] is True
            assert second == {"accepted": False, "reason": "answered", "by_whom": "local"}
