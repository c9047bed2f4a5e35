"""A service with a PostgreSQL journal: its turns are queued, and driven by it or by other processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.journal.inbox.queued_turns import make_worker
from tests.server.every_route import Caller, Trial
from tests.server.serving import serve

from holdfast import Agent, MemoryJournal, PostgresJournal, ToolPermission, tool
from holdfast.client import (
    Client,
    EntryView,
    InvalidRequestError,
    NewSchedule,
    NotFoundError,
    ServiceConflictError,
    TurnView,
    turn_calls,
)
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.events import TurnClosed, TurnOpened
from holdfast.core.messages import Reply, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.event_log.stream_items import EventItem, NoticeItem, StatusItem
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.queue_limits import QueueLimits
from holdfast.server import AccessOptions, QueueOptions, create_app
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker
from holdfast.worker.worker import EntryWorker

FRONT = QueueOptions(parallel=0)


class Desk:
    """An agent that does what its message says, and what lets it go on."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.has_failed = False

    async def reply(self, request: ModelRequest) -> Reply | str:
        last = request.messages[-1]
        if last.role == "user" and last.text == "pay":
            return Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
        if last.role == "user" and last.text == "wait":
            await self.may_go_on.wait()
        if last.role == "user" and last.text == "fail" and not self.has_failed:
            self.has_failed = True
            info = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="The key is wrong.")
            raise ProviderError("no", info=info)
        return f"You said {last.text}."

    def make_agent(self) -> Agent[Any, Any]:
        @tool(effect="write")
        async def pay(amount: int) -> str:
            """Pay."""
            return f"paid {amount}"

        model = ScriptedModel(*[self.reply] * 100)
        return Agent(
            model, name="desk", tools=[pay], middleware=[ToolPermission(ask=["pay"])], retry=None
        )


@pytest.fixture
def desk() -> Desk:
    return Desk()


@asynccontextmanager
async def serving(url: str, desk: Desk, queue: QueueOptions | None = None) -> AsyncIterator[Client]:
    with PostgresJournal(url) as journal:
        app = create_app(desk.make_agent(), journal=journal, queue=queue)
        async with serve(app) as base, Client(base, patience=20) as client:
            yield client


@asynccontextmanager
async def working(url: str, desk: Desk) -> AsyncIterator[Worker]:
    """Drive turns with a journal of its own, as another process does."""
    with PostgresJournal(url) as journal:
        async with Worker(desk.make_agent(), journal=journal, grace=5) as worker:
            yield worker


@pytest.mark.slow  # takes half a second or more
async def test_a_service_is_a_worker_and_a_busy_session_is_queued(url: str, desk: Desk) -> None:
    async with serving(url, desk) as client:
        turn = await client.run("desk", "hello", session="ada")
        assert (turn.status, turn.text, turn.turn) == ("completed", "You said hello.", 1)
        waiting = await begin(client, "wait", session="ada")
        assert (waiting.status, waiting.turn) == ("running", 2)
        queued = await client.turns.start("desk", "later", session="ada", request="r3")
        assert (queued.status, queued.turn) == ("queued", 0)
        entry = await client.queue.read(queued.entry)
        assert (entry.state, entry.session, entry.request) == ("blocked", "ada", "r3")
        assert (await client.queue.overview()).queued == 1
        items = []
        async for item in client.turns.stream("desk", "later", session="ada", request="r3"):
            items.append(item)
            desk.may_go_on.set()
        assert isinstance(items[0], StatusItem)
        assert items[0].status == "queued"
        first = next(item for item in items if isinstance(item, EventItem))
        assert isinstance(first.event, TurnOpened)
        assert isinstance(items[-1], EventItem)
        assert isinstance(items[-1].event, TurnClosed)
        assert items[-1].turn == 3
        again = await client.turns.start("desk", "later", session="ada", request="r3")
        assert (again.turn, again.text) == (3, "You said later.")
        entry = await wait_for(client, queued.entry, "done")
        assert entry.turn == 3
        (worker,) = await client.workers()
        assert entry.worker == worker.worker
        assert worker.is_alive


async def wait_for(client: Client, number: int, state: str) -> EntryView:
    """Return an entry once it is in a state: a little after its turn is."""
    while (entry := await client.queue.read(number)).state != state:
        await asyncio.sleep(0.05)
    return entry


async def begin(client: Client, message: str, *, session: str, request: str = "wait") -> TurnView:
    """Start a turn, and return it once it has begun: the same request finds the same turn."""
    while True:
        turn = await client.turns.start("desk", message, session=session, request=request)
        if turn.status != "queued":
            return turn


@pytest.mark.slow  # takes half a second or more
async def test_what_is_cancelled_is_the_turn_in_progress_and_not_the_next(
    url: str, desk: Desk
) -> None:
    async with serving(url, desk) as client:
        await begin(client, "wait", session="ada")
        later = await client.turns.start("desk", "later", session="ada", request="r2")
        assert later.status == "queued"
        assert (await client.turns.cancel("ada")).turn == 1
        await wait_for(client, later.entry, "done")
        assert (await client.turns.read("ada", 1)).status == "cancelled"
        assert (await client.turns.read("ada", 2)).text == "You said later."


@pytest.mark.slow  # takes half a second or more
async def test_a_front_leaves_every_turn_to_workers(url: str, desk: Desk) -> None:
    async with serving(url, desk, FRONT) as client:
        queued = await client.turns.start("desk", "hello\n", session="ada", request="r1")
        assert queued.status == "queued"
        (listed,) = (await client.sessions.list()).sessions
        assert (listed.session, listed.turn_status, listed.title) == ("ada", "queued", "hello")
        assert not (await client.sessions.list(agent="another")).sessions
        assert (await client.queue.overview()).workers == 0
        async with working(url, desk):
            begun = await begin(client, "hello\n", session="ada", request="r1")
            turn = await client.turns.wait("ada", begun.turn)
            assert turn.text == "You said hello\n."
            assert (await client.sessions.info("ada")).title == listed.title
            (question,) = (await client.run("desk", "pay", session="ada")).questions
            answered = await client.questions.approve(question)
            assert answered.accepted
            assert (await client.turns.wait("ada", 2)).text.startswith("You said")
            assert (await client.sessions.info("ada")).turn_status == "completed"
        await client.turns.start("desk", "hello", session="ada")
        assert (await client.sessions.info("ada")).turn_status == "queued"
        (listed,) = (await client.sessions.list(status="queued")).sessions
        assert (listed.session, listed.turns) == ("ada", 2)
        assert not (await client.sessions.list(status="completed")).sessions


@pytest.mark.slow  # takes half a second or more
async def test_a_session_with_a_title_is_listed_once_while_its_first_turn_is_queued(
    url: str, desk: Desk
) -> None:
    async with serving(url, desk, FRONT) as client:
        await client.sessions.create("Mine", session="ada")
        await client.turns.start("desk", "hello", session="ada")
        await client.sessions.create("Other", session="eve")
        pages = [
            await client.sessions.list(),
            await client.sessions.list(status="queued"),
            await client.sessions.list(agent="desk"),
        ]
        assert [[one.session for one in page.sessions] for page in pages] == [
            ["ada", "eve"],
            ["ada"],
            ["ada"],
        ]
        whole = await client.sessions.info("ada")
        for told in (whole, *(page.sessions[0] for page in pages)):
            assert (told.title, told.agent, told.turn_status) == ("Mine", "desk", "queued")
        (idle,) = (await client.sessions.list(status="idle")).sessions
        assert idle.session == "eve"
        first = await client.sessions.list(limit=1)
        assert [one.session for one in first.sessions] == ["ada", "eve"]
        assert not (await client.sessions.list(limit=1, before=str(first.next))).sessions


@pytest.mark.slow  # takes half a second or more
async def test_a_front_does_not_continue_an_open_turn(url: str, desk: Desk) -> None:
    async with serving(url, desk) as client:
        await begin(client, "wait", session="ada")
    with PostgresJournal(url) as journal:
        app = create_app(desk.make_agent(), journal=journal, queue=FRONT)
        async with serve(app) as base, Client(base) as client:
            await app.state.service.continue_open_turns()
            tenant = app.state.service.for_tenant()
            assert not tenant.open_turns.is_queued("ada")
            assert not tenant.runner.is_driven("ada")
            assert (await client.sessions.info("ada")).turn_status == "open"
            async with working(url, desk):
                desk.may_go_on.set()
                assert (await client.turns.wait("ada", 1)).text == "You said wait."


@pytest.mark.slow  # takes half a second or more
async def test_a_turn_that_is_about_to_begin_is_cancelled_by_its_worker(
    url: str, desk: Desk
) -> None:
    async with serving(url, desk, FRONT) as client:
        async with working(url, desk):
            first = await client.turns.run("desk", "hello", session="ada", request="r1")
            assert first.text == "You said hello."
        await client.turns.start("desk", "hello", session="ada", request="r2")
        with PostgresJournal(url) as journal:
            inbox = open_inbox(journal)
            await inbox.note_worker(make_worker("w", agents=("desk",)))
            (job,) = (await inbox.admit()).jobs
            assert await inbox.begin(job.id, "w")
            told = await client.turns.cancel("ada")
            assert (told.turn, told.status) == (1, "queued")
            assert list(await inbox.find_cancelled("w")) == [job.id]


@pytest.mark.slow  # takes half a second or more
async def test_a_front_tells_how_many_turns_are_queued(url: str, desk: Desk) -> None:
    with PostgresJournal(url) as journal:
        app = create_app(desk.make_agent(), journal=journal, queue=FRONT)
        async with serve(app) as base, Client(base) as client:
            await client.turns.start("desk", "hello", session="ada")
            await client.turns.start("desk", "hello", session="ada")
            caller = Caller(base)
            answer = await caller.send("GET", Trial(path="/metrics"), {})
            await caller.close()
            told = answer.body.decode().splitlines()
            assert 'holdfast_queue_depth{state="ready"} 1' in told
            assert 'holdfast_queue_depth{state="blocked"} 1' in told
            assert any(
                line.startswith('holdfast_queue_oldest_seconds{state="ready"} ') for line in told
            )


@pytest.mark.slow  # takes half a second or more
async def test_turns_are_cancelled_and_resumed_through_a_front(url: str, desk: Desk) -> None:
    async with serving(url, desk, FRONT) as client:
        queued = await client.turns.start("desk", "hello", session="eve")
        assert (await client.turns.cancel("eve")).status == "cancelled"
        assert (await client.queue.read(queued.entry)).state == "dropped"
        with pytest.raises(NotFoundError):
            await client.turns.cancel("eve")
        await client.sessions.create("Ivy", session="ivy")
        queued = await client.turns.start("desk", "hello", session="ivy")
        await client.sessions.delete("ivy")
        assert (await client.queue.read(queued.entry)).state == "dropped"
        async with working(url, desk):
            running = await begin(client, "wait", session="ada")
            assert running.status == "running"
            assert (await client.turns.cancel("ada")).status == "cancelled"
            (question,) = (await client.run("desk", "pay", session="bob")).questions
            with pytest.raises(ServiceConflictError, match="waits for an answer"):
                await client.turns.start("desk", "hello", session="bob")
            assert (await client.turns.abandon("bob")).status in ("cancelled", "stopped")
            assert (await client.run("desk", "hello", session="bob")).status == "completed"
            assert not (await client.questions.approve(question)).accepted
            failed = await client.run("desk", "fail", session="fay")
            assert failed.status == "failed"
            await client.turns.resume("fay")
            (entry,) = (await client.queue.entries(session="fay")).entries
            await wait_for(client, entry.entry, "done")
            assert (await client.turns.read("fay", 2)).text == "You said fail."


@pytest.mark.slow  # takes half a second or more
async def test_a_reader_of_a_turn_that_never_begins_is_told_why(url: str, desk: Desk) -> None:
    """By a notice in its stream, and by the answer to the same request."""
    async with serving(url, desk, FRONT) as client:
        told: list[object] = []

        async def read() -> None:
            async for item in client.turns.stream("desk", "hello", session="ada", request="r1"):
                told.append(item)  # noqa: PERF401  # REASON: others look at it meanwhile

        reading = asyncio.create_task(read())
        while not told:
            await asyncio.sleep(0.01)
        (entry,) = (await client.queue.entries()).entries
        assert (await client.queue.drop(entry.entry)).state == "dropped"
        with pytest.raises(ServiceConflictError, match="is dropped"):
            await reading
        notice = told[-1]
        assert isinstance(notice, NoticeItem)
        assert (notice.name, notice.fields["state"]) == ("queued_turn_over", "dropped")


@pytest.mark.slow  # takes half a second or more
async def test_an_open_turn_of_the_queue_is_abandoned_over_http(url: str, desk: Desk) -> None:
    """With its entry, in one transaction: nobody continues it, and its session goes on."""
    async with serving(url, desk, FRONT) as client:
        async with working(url, desk):
            turn = await client.run("desk", "pay", session="ada", request="r1")
            assert turn.status == "waiting"
        (entry,) = (await client.queue.entries()).entries
        assert (await client.turns.abandon("ada")).status == "cancelled"
        assert (await client.queue.read(entry.entry)).state == "done"
        async with working(url, desk):
            assert (await client.run("desk", "hello", session="ada")).text == "You said hello."


@pytest.mark.slow  # takes half a second or more
async def test_what_the_queue_refuses_is_said_with_its_reason(url: str, desk: Desk) -> None:
    async with serving(url, desk, FRONT) as client:
        await client.turns.start("desk", "hello", session="ada", request="r1")
        with PostgresJournal(url) as journal:
            await open_inbox(journal).set_limits("tenant", QueueLimits(queued=1))
        answer = await post(client, {"agent": "desk", "message": "more"})
        assert (answer["status"], answer["kind"]) == (429, "queue_full")
        assert answer["retry_after"] >= 1
        with pytest.raises(ServiceConflictError, match="can only be retried"):
            await client.queue.retry(1)
        assert (await client.queue.drop(1)).state == "dropped"
        assert (await client.queue.retry(1)).state == "ready"
        assert (await client.queue.cancel(1)).state == "dropped"
        paused = await client.queue.pause()
        assert paused.limits.is_paused
        assert (await client.queue.drain()).limits.is_draining
        assert not (await client.queue.resume()).limits.is_paused
        with pytest.raises(NotFoundError):
            await client.queue.read(99)
        with pytest.raises(NotFoundError):
            await client.turns.start("nobody", "hello")


async def post(client: Client, body: dict[str, object]) -> dict[str, Any]:
    """Start a turn without the repetitions of a client; return the problem."""
    import aiohttp

    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{client._connection._root}/turns", json=body) as response,
    ):
        found: dict[str, Any] = await response.json(content_type=None)
        return {"status": response.status, **found}


@pytest.mark.slow  # takes half a second or more
async def test_protocols_work_through_a_front(url: str, desk: Desk) -> None:
    with PostgresJournal(url) as journal:
        app = create_app(desk.make_agent(), journal=journal, queue=FRONT)
        async with serve(app) as base, working(url, desk):
            caller = Caller(base)
            chat = {"model": "desk", "messages": [{"role": "user", "content": "hello"}]}
            answer = await caller.post("/v1/chat/completions", chat)
            assert answer.json["choices"][0]["message"]["content"] == "You said hello."
            response = await caller.post("/v1/responses", {"model": "desk", "input": "hello"})
            assert response.json["status"] == "completed"
            part = {"type": "text", "text": "hello"}
            message = {"id": "m1", "role": "user", "parts": [part]}
            body = {"id": "chat", "messages": [message]}
            streamed = await caller.send("POST", Trial(path="/vercel/desk/chat", body=body), {})
            assert b"You said hello." in streamed.body
            run = {"threadId": "t", "runId": "r", "messages": [{**USER, "id": "u1"}]}
            streamed = await caller.send("POST", Trial(path="/agui/desk", body=run), {})
            assert b"RUN_FINISHED" in streamed.body
            await caller.close()


USER = {"role": "user", "content": "hello"}


@pytest.mark.slow  # takes half a second or more
async def test_a_tenant_sees_its_own_queue_only(url: str, desk: Desk) -> None:
    with PostgresJournal(url) as journal:
        access = AccessOptions(auth="keys")
        app = create_app(desk.make_agent(), journal=journal, queue=FRONT, access=access)
        async with serve(app) as base:
            alpha = await Caller.make(app, base, "alpha", "admin")
            bravo = await Caller.make(app, base, "bravo", "admin")
            body = {"agent": "desk", "message": "hello ALPHA", "session": "ALPHA"}
            queued = await alpha.post("/api/v1/turns", body)
            entry = queued.json["entry"]
            schedule = {"name": "ALPHA", "agent": "desk", "message": "hi", "every": 3600}
            await alpha.post("/api/v1/schedules", schedule)
            for path in ("/queue", "/queue/entries", "/schedules", "/workers", "/sessions"):
                told = await bravo.send("GET", Trial(path=f"/api/v1{path}"), {})
                assert told.status == 200, told
                assert b"ALPHA" not in told.body
            for method, path in [
                ("GET", f"/queue/entries/{entry}"),
                ("POST", f"/queue/entries/{entry}/cancel"),
                ("POST", f"/queue/entries/{entry}/drop"),
                ("POST", f"/queue/entries/{entry}/retry"),
                ("POST", "/schedules/ALPHA/pause"),
                ("POST", "/schedules/ALPHA/run"),
                ("GET", "/schedules/ALPHA/history"),
                ("DELETE", "/schedules/ALPHA"),
                ("POST", "/sessions/ALPHA/cancel"),
                ("GET", "/sessions/ALPHA/events"),
            ]:
                told = await bravo.send(method, Trial(path=f"/api/v1{path}"), {})
                assert told.status == 404, (method, path, told)
            await bravo.post("/api/v1/queue/pause", {})
            own = await alpha.send("GET", Trial(path="/api/v1/queue"), {})
            assert own.json["limits"]["is_paused"] is False
            assert own.json["queued"] == 1
            await alpha.close()
            await bravo.close()


@pytest.mark.slow  # takes half a second or more
async def test_depths_and_workers_tell_a_tenant_nothing_of_others(url: str, desk: Desk) -> None:
    with PostgresJournal(url) as journal:
        access = AccessOptions(auth="keys")
        app = create_app(desk.make_agent(), journal=journal, queue=FRONT, access=access)
        inbox = open_inbox(journal)
        async with serve(app) as base:
            alpha = await Caller.make(app, base, "alpha", "admin")
            bravo = await Caller.make(app, base, "bravo", "admin")
            body = {"agent": "desk", "message": "hello", "session": "ALPHA"}
            entry = (await alpha.post("/api/v1/turns", body)).json["entry"]
            for name, tenants in [("of-all", ()), ("of-alpha", ("alpha",))]:
                await inbox.note_worker(make_worker(name, agents=("desk",), tenants=tenants))
            await inbox.admit()
            await inbox.begin(entry, "of-all")
            queues = [
                await one.send("GET", Trial(path="/api/v1/queue"), {}) for one in (alpha, bravo)
            ]
            told = [
                await one.send("GET", Trial(path="/api/v1/workers"), {}) for one in (alpha, bravo)
            ]
            await alpha.close()
            await bravo.close()
        assert [(one.json["running"], one.json["workers"]) for one in queues] == [(1, 2), (0, 1)]
        assert queues[1].json["depths"] == []
        own, other = ({one["worker"]: one for one in answer.json} for answer in told)
        assert set(own) == {"of-all", "of-alpha"}
        assert [one["entry"] for one in own["of-all"]["entries"]] == [entry]
        assert set(other) == {"of-all"}
        assert (other["of-all"]["driving"], other["of-all"]["entries"]) == (1, [])


@pytest.mark.slow  # takes half a second or more
async def test_schedules_are_made_run_and_deleted(url: str, desk: Desk) -> None:
    async with serving(url, desk) as client:
        made = await client.schedules.put(
            NewSchedule(
                name="report", agent="desk", message="hello", cron="0 9 * * MON-FRI", priority=3
            )
        )
        assert made.next_tick
        assert made.priority == 3
        assert (await client.schedules.pause("report")).is_paused
        entry = await client.schedules.run("report", request="once")
        again = await client.schedules.run("report", request="once")
        assert entry.entry == again.entry
        await wait_for(client, entry.entry, "done")
        (tick,) = await client.schedules.history("report")
        assert (tick.outcome, tick.entry) == ("triggered", entry.entry)
        assert not (await client.schedules.resume("report")).is_paused
        await client.schedules.delete("report")
        assert await client.schedules.list() == ()
        with pytest.raises(InvalidRequestError, match="cron"):
            await client.schedules.put(NewSchedule(name="report", agent="desk", message="hello"))


def test_a_journal_of_one_process_has_no_front(desk: Desk) -> None:
    with pytest.raises(ConfigurationError, match="queue: leaves every turn to workers"):
        create_app(desk.make_agent(), queue=FRONT)


@pytest.mark.parametrize("place", ["memory:", "sqlite:///talk.db"])
async def test_a_journal_of_one_process_queues_turns_if_it_is_told_to(
    place: str, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = create_app(desk.make_agent(), journal=place, queue=QueueOptions(parallel=2))
    async with serve(app) as base, Client(base) as client:
        await begin(client, "wait", session="ada")
        later = await client.turns.start("desk", "pay", session="ada", request="r2")
        assert later.status == "queued"
        desk.may_go_on.set()
        await wait_for(client, later.entry, "waiting")
        (question,) = (await client.questions.list()).questions
        await client.questions.approve(question)
        await wait_for(client, later.entry, "done")


async def test_a_client_waits_for_a_turn_that_is_queued_for_long(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, statuses = turn_calls.call, list[str]()

    async def note_status(*given: Any) -> Any:
        view = await call(*given)
        statuses.append(view.status)
        return view

    monkeypatch.setattr(turn_calls, "_WAIT", 0.05)
    app = create_app(desk.make_agent(), journal="memory:", queue=QueueOptions(parallel=2))
    async with serve(app) as base, Client(base) as client:
        await begin(client, "wait", session="ada")
        monkeypatch.setattr(turn_calls, "call", note_status)
        running = asyncio.create_task(client.run("desk", "later", session="ada"))
        while statuses.count("queued") < 2 and not running.done():
            await asyncio.sleep(0.01)
        desk.may_go_on.set()
        assert (await running).text == "You said later."


async def test_an_open_turn_of_the_queue_is_continued_through_it_alone(desk: Desk) -> None:
    journal, queue = MemoryJournal(), QueueOptions(parallel=1)
    app = create_app(desk.make_agent(), journal=journal, queue=queue)
    async with serve(app) as base, Client(base) as client:
        await begin(client, "wait", session="ada")
    service = ServiceTenants(desk.make_agent(), journal)
    EntryWorker(service, ServiceLifetime(service, 0.0))  # it is not started
    await service.continue_open_turns()
    tenant = service.for_tenant()
    assert (await tenant.last_turn("ada")).status == "open"
    assert not tenant.open_turns.is_queued("ada")
