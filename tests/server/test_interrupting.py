"""A message may take the place of the turn in progress: nothing is lost, done twice or out of order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from starlette.applications import Starlette
from tests.server.note_agent import answer as answer_slowly
from tests.server.processes import GONE, ServedProcess
from tests.server.serving import Api, serve

from holdfast import Agent, Reply, ToolPermission, tool
from holdfast.core.messages import Text, ToolCall
from holdfast.server import create_app
from holdfast.server.queued_turns import QueueOptions
from holdfast.testing import Emulator, ScriptedModel
from holdfast.testing.emulator import Pace

pytestmark = pytest.mark.anyio

INTERRUPT = {"Holdfast-On-Busy": "interrupt"}


class Worker:
    """An agent that looks or pays until a gate is open, as its message asks, or answers at once."""

    def __init__(self) -> None:
        self.gate, self.has_begun = asyncio.Event(), asyncio.Event()
        self.paid: list[str] = []

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.has_begun.set()
            await self.gate.wait()
            return "nothing"

        @tool(effect="write")
        async def pay() -> str:
            """Pay."""
            self.has_begun.set()
            await self.gate.wait()
            self.paid.append("paid")
            return "paid"

        @tool(effect="write")
        async def ask() -> str:
            """Ask."""
            return "asked"

        self.model = ScriptedModel(*[self._answer] * 40)
        self.agent = Agent(
            self.model,
            name="worker",
            tools=[look, pay, ask],
            middleware=[ToolPermission(allow=["look", "pay"], ask=["ask"])],
        )

    def _answer(self, request: Any) -> Reply | str:
        last = request.messages[-1]
        text = last.parts[0].text if last.role == "user" else ""
        if text.lower() in ("look", "pay", "ask"):
            return Reply((Text("I begin."), ToolCall("c", text.lower(), "{}")))
        return f"Said {text}."

    def make_app(self, *, is_queued: bool) -> Starlette:
        queue = QueueOptions(parallel=4) if is_queued else None
        return create_app(self.agent, journal="memory:", queue=queue)


@pytest.fixture(params=[False, True], ids=["at once", "queued"])
def is_queued(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def send(api: Api, text: str, headers: dict[str, str] | None = None, wait: int = 20) -> Any:
    body = {"agent": "worker", "message": text, "session": "s", "wait": wait}
    return await api.post("/turns", body, headers=headers or {})


async def read_turns(api: Api, count: int) -> list[tuple[str, str]]:
    """Return the status and the text of the turns."""
    turns = [(await api.get(f"/sessions/s/turns/{number}")).json for number in range(1, count + 1)]
    assert (await api.get(f"/sessions/s/turns/{count + 1}")).status == 404
    return [(one["status"], one["text"]) for one in turns]


async def test_the_turn_in_progress_ends_and_keeps_what_it_did(*, is_queued: bool) -> None:
    worker = Worker()
    async with serve(worker.make_app(is_queued=is_queued)) as base, Api(base) as api:
        first = asyncio.create_task(send(api, "Look"))
        await worker.has_begun.wait()
        second = await send(api, "Other", INTERRUPT)
        assert (second.status, second.json["text"]) == (200, "Said Other.")
        assert (await first).json["status"] == "cancelled"
        assert [status for status, _ in await read_turns(api, 2)] == ["cancelled", "completed"]
        seen = worker.model.requests[-1].messages
        texts = [part.text for one in seen for part in one.parts if isinstance(part, Text)]
        assert texts[:2] == ["Look", "I begin."]
        assert texts[-1] == "Other"


async def test_a_running_write_is_finished_first(*, is_queued: bool) -> None:
    worker = Worker()
    async with serve(worker.make_app(is_queued=is_queued)) as base, Api(base) as api:
        first = asyncio.create_task(send(api, "Pay"))
        await worker.has_begun.wait()
        second = asyncio.create_task(send(api, "Other", INTERRUPT))
        await asyncio.sleep(0.1)
        assert not second.done()
        assert not first.done()
        worker.gate.set()
        assert (await second).json["text"] == "Said Other."
        assert (await first).json["status"] == "cancelled"
        assert worker.paid == ["paid"]


async def test_a_turn_that_waits_for_an_answer_stays(*, is_queued: bool) -> None:
    worker = Worker()
    async with serve(worker.make_app(is_queued=is_queued)) as base, Api(base) as api:
        assert (await send(api, "Ask")).json["status"] == "waiting"
        refused = await send(api, "Other", INTERRUPT)
        assert refused.status == 409
        assert (await read_turns(api, 1))[0][0] == "waiting"


async def test_a_session_without_a_turn_in_progress_goes_on(*, is_queued: bool) -> None:
    worker = Worker()
    async with serve(worker.make_app(is_queued=is_queued)) as base, Api(base) as api:
        for text in ("One", "Two"):
            assert (await send(api, text, INTERRUPT)).json["text"] == f"Said {text}."
        assert [status for status, _ in await read_turns(api, 2)] == ["completed"] * 2


async def test_a_message_that_is_sent_again_does_not_interrupt_itself(*, is_queued: bool) -> None:
    worker = Worker()
    headers = {**INTERRUPT, "Idempotency-Key": "k"}
    async with serve(worker.make_app(is_queued=is_queued)) as base, Api(base) as api:
        first = asyncio.create_task(send(api, "Look", headers))
        await worker.has_begun.wait()
        again = asyncio.create_task(send(api, "Look", headers))
        await asyncio.sleep(0.1)
        worker.gate.set()
        for one in (await first, await again):
            assert (one.json["turn"], one.json["status"]) == (1, "completed")
        await read_turns(api, 1)


async def test_messages_at_the_same_time_are_all_turns(*, is_queued: bool) -> None:
    worker = Worker()
    async with serve(worker.make_app(is_queued=is_queued)) as base, Api(base) as api:
        first = asyncio.create_task(send(api, "Look"))
        await worker.has_begun.wait()
        texts = [f"m{number}" for number in range(4)]
        sent = await asyncio.gather(*(send(api, text, INTERRUPT) for text in texts))
        assert {one.status for one in sent} == {200}
        assert (await first).json["status"] == "cancelled"
        turns = await read_turns(api, 5)
        said = [text for status, text in turns if status == "completed"]
        assert len(said) == len(set(said))
        assert all(status in ("completed", "cancelled") for status, _ in turns)
        assert turns[-1][0] == "completed"


@pytest.mark.parametrize("protocol", ["vercel", "agui"])
async def test_other_protocols_interrupt_too(protocol: str, *, is_queued: bool) -> None:
    worker = Worker()
    message = {"id": "m2", "role": "user"}
    bodies: dict[str, tuple[str, dict[str, object]]] = {
        "vercel": (
            "/vercel/worker/chat",
            {
                "id": "s",
                "trigger": "submit-message",
                "messages": [{**message, "parts": [{"type": "text", "text": "Other"}]}],
            },
        ),
        "agui": (
            "/agui/worker",
            {
                "threadId": "s",
                "runId": "r",
                "messages": [{**message, "content": "Other"}],
                "state": {},
                "tools": [],
                "context": [],
                "forwardedProps": {},
            },
        ),
    }
    path, body = bodies[protocol]
    async with (
        serve(worker.make_app(is_queued=is_queued)) as base,
        Api(base) as api,
        aiohttp.ClientSession() as http,
    ):
        first = asyncio.create_task(send(api, "Look"))
        await worker.has_begun.wait()
        async with http.post(base + path, json=body, headers=INTERRUPT) as answer:
            assert answer.status == 200
            assert b"Said Other." in await answer.read()
        assert (await first).json["status"] == "cancelled"


@pytest.mark.parametrize("value", ["", "steer", "interrupt, interrupt", "INTERRUPT"])
async def test_another_wish_is_refused_by_its_name(value: str) -> None:
    worker = Worker()
    async with serve(worker.make_app(is_queued=False)) as base, Api(base) as api:
        refused = await send(api, "One", {"Holdfast-On-Busy": value})
        assert refused.status == 400
        assert refused.json["field"] == "Holdfast-On-Busy"
        assert "interrupt" in refused.json["detail"]


# -- with processes


async def send_until_accepted(
    process: ServedProcess, key: str, text: str, headers: dict[str, str]
) -> None:
    body = {"agent": "noter", "message": text, "session": "s"}
    async with asyncio.timeout(60), aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.post(
                    f"{process.api}/turns",
                    json=body,
                    headers={**headers, "Idempotency-Key": key},
                ) as sent:
                    if sent.status in (200, 202):
                        return
            except GONE:
                pass
            await asyncio.sleep(0.05)


@pytest.mark.slow  # kills services
@pytest.mark.parametrize("seed", range(4))
async def test_a_kill_at_any_moment_loses_and_doubles_no_message(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    journal = f"sqlite:///{tmp_path / 'talk.db'}"
    with (
        Emulator(answer_slowly, faults=lambda _: Pace(0.02)) as model,
        ServedProcess(journal, model.base_url, tmp_path, seconds=0.2) as process,
    ):
        await send_until_accepted(process, "one", "Note1", {})
        await asyncio.sleep(dice.uniform(0.0, 0.6))
        sending = asyncio.create_task(send_until_accepted(process, "two", "Note2", INTERRUPT))
        await asyncio.sleep(dice.uniform(0.0, 0.3))
        await process.kill()
        process.start()
        await sending
        await send_until_accepted(process, "two", "Note2", INTERRUPT)
        async with asyncio.timeout(60), aiohttp.ClientSession() as http:
            turns: list[dict[str, Any]] = []
            while not turns or turns[-1]["status"] in ("running", "open"):
                turns = []
                for number in (1, 2, 3):
                    async with http.get(f"{process.api}/sessions/s/turns/{number}") as read:
                        if read.status == 200:
                            turns.append(await read.json())
                await asyncio.sleep(0.05)
        assert [one["request"] for one in turns] == ["one", "two"]
        assert turns[0]["status"] in ("cancelled", "completed")
        assert turns[1]["status"] == "completed"
        saved = tmp_path / "notes"  # the first turn may end before it saves
        notes = saved.read_text().split() if saved.exists() else []
        assert len(notes) == len(set(notes))
