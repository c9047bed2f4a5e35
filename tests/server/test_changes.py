"""The stream of changes names what changes in a tenant, from now on, for whoever shows lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import msgspec
import pytest
from starlette.applications import Starlette
from tests.server.every_route import Caller
from tests.server.serving import Api, serve

from holdfast import Agent, MemoryJournal, PostgresJournal, SqliteJournal, ToolPermission, tool
from holdfast.client import Client, EndpointsChanged, SessionsChanged
from holdfast.core.messages import Reply, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.errors import JournalUnreachableError
from holdfast.event_log.live import change_feed, process_exchange
from holdfast.event_log.live.change_feed import MOST_SESSIONS, SECONDS_BETWEEN_CHANGES, ChangeFeed
from holdfast.event_log.live.process_exchange import LiveExchange, TenantRuns
from holdfast.event_log.live.relay import (
    Changed,
    LinkMessage,
    ListWanted,
    decode_message,
    encode_message,
)
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.port import Journal
from holdfast.journal.session_rows import SessionQuery, SessionRow
from holdfast.server import AccessLimits, AccessOptions, QueueOptions, create_app
from holdfast.server.api import change_routes
from holdfast.server.api.change_routes import follow_changes
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker

Item: TypeAlias = dict[str, Any]
Open: TypeAlias = Callable[[], Journal]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "SECONDS_BETWEEN_CHANGES", 0.1)


def test_changes_are_told_twice_a_second() -> None:
    assert SECONDS_BETWEEN_CHANGES == 0.5


@pytest.fixture(params=["sqlite", "postgres"])
def open_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Open a journal of each database."""
    if request.param == "sqlite":
        return lambda: SqliteJournal(tmp_path / "talk.db")
    url = request.getfixturevalue("url")
    return lambda: PostgresJournal(url)


def answer_message(request: ModelRequest) -> Reply | str:
    last = request.messages[-1]
    if last.role == "user" and last.text == "pay":
        return Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
    return f"You said {last.text}."


def make_clerk(journal: Journal | None = None) -> Agent[Any, Any]:
    @tool(effect="write")
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel(*[answer_message] * 300)
    middleware = [ToolPermission(ask=["pay"])]
    return Agent(model, name="clerk", tools=[pay], middleware=middleware, journal=journal)


class Stream:
    """A stream of changes, from its first comment on.

    Args:
        response: the answer.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._lines = response.content
        self.status = response.status

    async def read(self) -> Item:
        """Return the next change."""
        async with asyncio.timeout(60):
            async for line in self._lines:
                if line.startswith(b"data: "):
                    item: Item = msgspec.json.decode(line.removeprefix(b"data: "))
                    return item
        return {"type": "broken"}

    async def read_until(self, fits: Callable[[Item], bool]) -> Item:
        """Return the first change that fits."""
        while not fits(item := await self.read()):
            assert item["type"] != "broken"
        return item

    async def read_session(self, name: str, **fields: object) -> Item:
        """Return a session once it is told with these fields."""
        while True:
            item = await self.read_until(lambda item: item["type"] == "sessions")
            for one in item["sessions"]:
                if one["session"] == name and all(one[key] == fields[key] for key in fields):
                    found: Item = one
                    return found


@asynccontextmanager
async def follow(base: str, key: str = "", query: str = "") -> AsyncIterator[Stream]:
    """Follow the changes of a service."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.get(f"{base}/api/v1/changes{query}") as response,
    ):
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert (await response.content.readline()).startswith(
            b":"
        )  # nothing is missed from here on
        yield Stream(response)


async def start(api: Api, session: str, message: str = "hello") -> None:
    body = {"agent": "clerk", "message": message, "session": session, "wait": 20}
    assert (await api.post("/turns", body)).status in (200, 202)


@pytest.mark.slow  # takes half a second or more
async def test_sessions_that_are_made_changed_and_deleted_are_told(open_journal: Open) -> None:
    app = create_app(make_clerk(), journal=open_journal())
    async with serve(app) as base, Api(base) as api, follow(base) as stream:
        await start(api, "ada")
        told = await stream.read_session("ada", turn_status="completed")
        assert (told["title"], told["turns"], told["agent"]) == ("hello", 1, "clerk")
        assert told == (await api.get("/sessions")).json["sessions"][0]
        await api.call("PATCH", "/sessions/ada", {"title": "Mine"})
        await stream.read_session("ada", title="Mine")
        assert (await api.call("DELETE", "/sessions/ada")).status == 204
        gone = await stream.read_until(lambda item: bool(item.get("deleted")))
        assert gone["deleted"] == [{"session": "ada"}]
        await api.post("/sessions", {"title": "Empty", "session": "eve"})
        await stream.read_session("eve", title="Empty", turn_status="idle")


@pytest.mark.slow  # takes half a second or more
async def test_a_question_and_its_answer_are_told(open_journal: Open) -> None:
    app = create_app(make_clerk(), journal=open_journal())
    async with serve(app) as base, Api(base) as api, follow(base) as stream:
        await start(api, "ada", "pay")
        told = await stream.read_session("ada", turn_status="waiting")
        (question,) = (await api.get("/questions")).json["questions"]
        assert told["questions"] == [question["key"]]
        given = {"key": question["key"], "binding": question["binding"], "answer": "approve"}
        assert (await api.post("/sessions/ada/answers", given)).json["accepted"]
        await stream.read_session("ada", turn_status="completed", questions=[])


@pytest.mark.slow  # takes half a second or more
async def test_a_turn_of_another_process_is_told_while_it_goes_on(url: str) -> None:
    may_end = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        await may_end.wait()
        return "done"

    model = ScriptedModel(Reply((ToolCall("c1", "wait", "{}"),)), "ready")
    driver = create_app(Agent(model, name="clerk", tools=[wait]), journal=PostgresJournal(url))
    front = create_app(make_clerk(), journal=PostgresJournal(url), queue=QueueOptions(parallel=0))
    async with (
        serve(front) as base,
        serve(driver) as other,
        Api(other) as api,
        follow(base) as stream,
    ):
        body = {"agent": "clerk", "message": "hello", "session": "ada"}
        assert (await api.post("/turns", body)).status == 202
        # The marker of its tool is a record in the middle of the turn: it makes three.
        while int((await stream.read_session("ada", turn_status="running"))["position"]) < 3:
            pass
        may_end.set()
        await stream.read_session("ada", turn_status="completed")


@pytest.mark.slow  # takes half a second or more
async def test_a_message_in_the_queue_is_told_and_so_are_the_limits(url: str) -> None:
    front = QueueOptions(parallel=0)
    app = create_app(make_clerk(), journal=PostgresJournal(url), queue=front)
    async with serve(app) as base, Api(base) as api, follow(base) as stream:
        await make_clerk(PostgresJournal(url)).submit("hello", session="ada", request="r1")
        await stream.read_until(lambda item: item["type"] == "queue")
        told = await stream.read_session("ada", turn_status="queued")
        assert (told["title"], told["turn"]) == ("hello", 0)
        assert (await api.post("/queue/pause")).json["limits"]["is_paused"]
        await stream.read_until(lambda item: item["type"] == "queue")
        await api.post("/queue/resume")
        async with Worker(make_clerk(), journal=PostgresJournal(url)):
            await stream.read_session("ada", turn_status="completed")


async def test_a_slow_reader_learns_what_another_one_has_read_of_the_queue(url: str) -> None:
    front = QueueOptions(parallel=0)
    app = create_app(make_clerk(), journal=PostgresJournal(url), queue=front)
    async with serve(app) as base, follow(base) as quick:
        tenant = app.state.service.for_tenant()
        slow = follow_changes(tenant, sees_endpoints=False, idle=15, seconds=None)
        async with aclosing(slow), asyncio.timeout(60):
            assert (await anext(slow)).startswith(b":")
            await make_clerk(PostgresJournal(url)).submit("hello", session="ada", request="r1")
            await quick.read_session("ada", turn_status="queued")
            tenant.watch.feed.note_session("other")
            read = await anext(slow)
    assert b'"type":"queue"' in read
    assert b'"turn_status":"queued"' in read
    assert b'{"session":"other"}' in read


async def test_what_code_beside_the_service_does_is_found(tmp_path: Path) -> None:
    agent = make_clerk(journal := SqliteJournal(tmp_path / "talk.db"))
    app = create_app(agent)
    async with serve(app) as base, Api(base) as api, follow(base) as stream:
        await start(api, "told")
        await app.state.service.look_for_changes()
        await agent.run("hello", session="ada")
        await app.state.service.look_for_changes()
        await stream.read_session("ada", turn_status="completed")
        await journal.delete("ada")
        await app.state.service.look_for_changes()
        gone = await stream.read_until(lambda item: bool(item.get("deleted")))
        assert gone["deleted"] == [{"session": "ada"}]


async def test_the_stream_ends_when_it_has_lasted_as_long_as_was_asked_for() -> None:
    async with serve(create_app(make_clerk())) as base, Api(base) as api:
        assert await api.items("/changes?seconds=0.01") == [{"type": "end", "reason": "time_over"}]
        assert (await api.get("/changes?seconds=0")).status == 422


async def test_the_stream_ends_in_time_while_something_changes_all_the_time() -> None:
    tenant = create_app(make_clerk()).state.service.for_tenant()
    loop = asyncio.get_running_loop()

    def change() -> None:
        nonlocal changing
        tenant.watch.feed.note_session("ada")
        changing = loop.call_later(0.001, change)

    changing = loop.call_soon(change)
    try:
        async with asyncio.timeout(60):
            stream = follow_changes(tenant, sees_endpoints=False, idle=15, seconds=0.3)
            pieces = [piece async for piece in stream]
    finally:
        changing.cancel()
    assert b"time_over" in pieces[-1]
    assert len(pieces) < 10  # not one for each change


async def test_a_quiet_stream_has_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_routes, "SECONDS_BETWEEN_COMMENTS", 0.02)
    async with (
        serve(create_app(make_clerk())) as base,
        aiohttp.ClientSession() as http,
        http.get(f"{base}/api/v1/changes") as response,
    ):
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Accel-Buffering"] == "no"
        for _ in range(3):
            assert (await response.content.readuntil(b"\n\n")).startswith(b":")


async def test_the_stream_ends_with_the_process() -> None:
    app = create_app(make_clerk())
    async with serve(app) as base, follow(base) as stream:
        app.state.service.for_tenant().close_readers()
        assert await stream.read() == {"type": "end", "reason": "shutting_down"}


async def test_a_reader_that_comes_while_the_process_stops_starts_nothing(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "talk.db")
    service = create_app(make_clerk(), journal=journal, queue=QueueOptions()).state.service
    assert service.inbox is not None
    await service.close(0)
    service.for_tenant().watch.feed.subscribe().leave()
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert "holdfast-inbox-changes" not in names


# -- who sees what


@asynccontextmanager
async def serve_with_keys(**limits: int) -> AsyncIterator[tuple[Starlette, str]]:
    access = AccessOptions(auth="keys", limits=AccessLimits(**limits))  # type: ignore[arg-type]
    app = create_app(make_clerk(), journal=MemoryJournal(), access=access)
    async with serve(app) as base:
        yield app, base


async def make_key(app: Starlette, base: str, tenant: str, *scopes: str) -> str:
    caller = await Caller.make(app, base, tenant, *scopes)
    key = str(caller.http.headers["Authorization"]).removeprefix("Bearer ")
    await caller.http.close()
    return key


async def test_a_tenant_is_told_of_its_own_sessions_alone() -> None:
    async with serve_with_keys() as (app, base):
        keys = [await make_key(app, base, tenant, "run", "read") for tenant in ("alpha", "beta")]
        apis = [Api(base, {"Authorization": f"Bearer {key}"}) for key in keys]
        async with apis[0], apis[1], follow(base, keys[1]) as stream:
            await start(apis[0], "hidden")
            await start(apis[1], "seen")
            item = await stream.read()
            while item["type"] != "sessions" or item["sessions"][0]["turn_status"] != "completed":
                assert "hidden" not in str(item)
                item = await stream.read()
            assert [one["session"] for one in item["sessions"]] == ["seen"]


async def test_a_redacted_reader_is_told_states_and_no_texts() -> None:
    async with serve_with_keys() as (app, base):
        key = await make_key(app, base, "alpha", "run", "read")
        redacted = await make_key(app, base, "alpha", "read:redacted")
        api = Api(base, {"Authorization": f"Bearer {key}"})
        async with api, follow(base, redacted) as stream:
            await start(api, "ada", "my name is Ada")
            told = await stream.read_session("ada", turn_status="completed")
            assert (told["title"], told["turns"]) == ("[redacted]", 1)
            assert (await api.call("DELETE", "/sessions/ada")).status == 204
            gone = await stream.read_until(lambda item: bool(item.get("deleted")))
            assert gone["deleted"] == [{"session": "ada"}]


async def test_only_who_may_see_endpoints_is_told_of_them() -> None:
    async with serve_with_keys() as (app, base):
        admin = await make_key(app, base, "alpha", "admin")
        reader = await make_key(app, base, "alpha", "read")
        feed = app.state.service.for_tenant("alpha").watch.feed
        async with follow(base, admin) as told, follow(base, reader) as other:
            feed.note_topic("endpoints")
            assert await told.read() == {"type": "endpoints"}
            feed.note_topic("queue")
            assert await other.read() == {"type": "queue"}


async def test_a_key_without_the_scope_may_not_follow() -> None:
    async with serve_with_keys() as (app, base):
        key = await make_key(app, base, "alpha", "run")
        async with Api(base, {"Authorization": f"Bearer {key}"}) as api:
            assert (await api.get("/changes")).status == 403


@pytest.mark.slow  # takes half a second or more
async def test_the_stream_ends_when_its_key_is_revoked() -> None:
    async with serve_with_keys() as (app, base):
        key = await make_key(app, base, "alpha", "read")
        async with follow(base, key) as stream:
            (stored,) = await app.state.access.keys.store.list_keys()
            await app.state.access.keys.store.revoke_key(stored.id, 1.0)
            assert await stream.read() == {"type": "end", "reason": "access_ended"}
            assert (await stream.read())["type"] == "broken"


async def test_a_redacted_reader_learns_why_the_stream_ends() -> None:
    async with serve_with_keys() as (app, base):
        key = await make_key(app, base, "alpha", "read:redacted")
        async with follow(base, key) as stream:
            app.state.service.for_tenant("alpha").close_readers()
            assert await stream.read() == {"type": "end", "reason": "shutting_down"}


async def test_the_stream_counts_as_a_stream_until_its_reader_leaves() -> None:
    async with serve_with_keys(streams_per_key=1) as (app, base):
        key = await make_key(app, base, "alpha", "read")
        async with Api(base, {"Authorization": f"Bearer {key}"}) as api:
            async with follow(base, key):
                refused = await api.get("/changes")
                assert (refused.status, refused.json["kind"]) == (429, "open_streams")
            async with asyncio.timeout(60):
                while app.state.service.for_tenant("alpha").watch.feed.has_readers:
                    await asyncio.sleep(0.005)
            assert (await api.get("/changes?seconds=0.01")).status == 200


# -- what it costs


class CountedReads:
    """Counts the pages that a tenant's journal reads, and may fail.

    Args:
        tenant: the tenant.
        monkeypatch: puts it between.
    """

    def __init__(self, tenant: TenantService, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.fails = False
        self._list = tenant.journal.list_sessions
        monkeypatch.setattr(MemoryJournal, "list_sessions", self.list_sessions)

    async def list_sessions(self, wanted: SessionQuery) -> Sequence[SessionRow]:
        self.count += 1
        if self.fails:
            raise JournalUnreachableError("the journal", "it is away")
        return await self._list(wanted)


async def test_readers_share_what_is_read_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(make_clerk())
    async with serve(app) as base, follow(base) as one, follow(base) as other:
        tenant = app.state.service.for_tenant()
        reads = CountedReads(tenant, monkeypatch)
        for _ in range(200):
            tenant.watch.wake("ada")
        told = {"type": "sessions", "sessions": [], "deleted": [{"session": "ada"}]}
        assert [await one.read(), await other.read()] == [told, told]
        assert reads.count == 1


async def test_a_journal_that_fails_makes_the_reader_read_its_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = create_app(make_clerk())
    async with serve(app) as base, Api(base) as api, follow(base) as stream:
        reads = CountedReads(app.state.service.for_tenant(), monkeypatch)
        reads.fails = True
        app.state.service.for_tenant().watch.wake("ada")
        assert [(await stream.read())["type"] for _ in range(2)] == ["list", "queue"]
        reads.fails = False
        await start(api, "ada")
        await stream.read_session("ada", turn_status="completed")


async def test_changes_come_together_and_not_more_often_than_the_pause() -> None:
    feed, clock = ChangeFeed(), asyncio.get_running_loop().time
    reader, times, named = feed.subscribe(), list[float](), list[int]()
    for _ in range(3):
        for number in range(50):
            feed.note_session(f"s{number}")
            feed.note_session(f"s{number}")
        changes = await reader.take(5)
        assert changes is not None
        times.append(clock())
        named.append(len(changes.sessions))
    assert named == [50, 50, 50]
    assert all(later - before >= 0.095 for before, later in pairwise(times))
    assert await reader.take(0.01) is None


async def test_a_slow_reader_costs_a_bounded_set_of_names() -> None:
    feed = ChangeFeed()
    slow = feed.subscribe()
    for number in range(MOST_SESSIONS + 1):
        feed.note_session(f"s{number}")
    for number in range(10_000):
        feed.note_session(f"t{number}")
    changes = await slow.take(5)
    assert changes is not None
    assert (changes.sessions, changes.is_complete) == (frozenset(), False)
    feed.note_session("ada")
    changes = await slow.take(5)
    assert changes is not None
    assert (changes.sessions, changes.is_complete) == (frozenset({"ada"}), True)


async def test_a_reader_that_was_busy_when_it_was_woken_takes_the_changes_at_once() -> None:
    feed, clock = ChangeFeed(), asyncio.get_running_loop().time
    quick, busy = feed.subscribe(), feed.subscribe()
    feed.note_session("ada")
    assert await quick.take(5) is not None
    begun = clock()
    changes = await busy.take(5)
    assert changes is not None
    assert changes.sessions == {"ada"}
    assert clock() - begun < 1


async def test_a_feed_without_readers_does_nothing() -> None:
    feed = ChangeFeed()
    feed.note_session("ada")
    feed.note_topic("queue")
    assert (feed.version, feed.is_collecting) == (0, False)
    reader = feed.subscribe()
    feed.note_session("ada")
    assert feed.is_collecting
    reader.leave()
    assert not feed.is_collecting


class StoringLink:
    """A link to other processes that keeps the messages; `receive` gives it one of theirs."""

    is_up = True

    def __init__(self) -> None:
        self.sent: list[LinkMessage | None] = []
        self.has_sent = asyncio.Event()
        self.receive: Callable[[str], None]

    async def send(self, messages: Sequence[str]) -> None:
        self.sent += map(decode_message, messages)
        self.has_sent.set()

    def open(self, receive: Callable[[str], None], _changed: Callable[[bool], None]) -> Any:
        self.receive = receive
        return self


@pytest.mark.parametrize("count", [2, MOST_SESSIONS, 3000])
async def test_other_processes_get_no_more_names_than_their_readers(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(process_exchange, "_SECONDS_BETWEEN_CHANGES", 0.01)
    link, watch = StoringLink(), SessionWatch()
    exchange = LiveExchange(link.open, lambda _is_up: None)
    runs = TenantRuns("", MemoryJournal(), watch, lambda _session: None, lambda _session: None)
    exchange.add_tenant(runs)
    link.receive(encode_message(ListWanted("other", "", "")))
    await link.has_sent.wait()  # that this process is there, as it has heard of the other one
    link.sent.clear()
    link.has_sent.clear()
    for number in range(count):
        watch.note_record(f"s{number}")
    async with asyncio.timeout(60):
        await link.has_sent.wait()
    names = [message.session for message in link.sent if isinstance(message, Changed)]
    assert len(names) == len(link.sent)
    is_named = count <= MOST_SESSIONS
    assert sorted(names) == (sorted(f"s{number}" for number in range(count)) if is_named else [""])


async def test_a_reader_reads_its_list_again_if_another_process_names_no_sessions() -> None:
    link, watch = StoringLink(), SessionWatch()
    exchange = LiveExchange(link.open, lambda _is_up: None)
    runs = TenantRuns("", MemoryJournal(), watch, lambda _session: None, lambda _session: None)
    exchange.add_tenant(runs)
    reader = watch.feed.subscribe()
    link.receive(encode_message(Changed("other", "", "")))
    changes = await reader.take(10)
    assert changes is not None
    assert (changes.sessions, changes.topics, changes.is_complete) == (set(), set(), False)


@pytest.mark.slow  # takes half a second or more
async def test_the_client_follows_changes_over_a_restart_of_the_service(tmp_path: Path) -> None:
    port = 0
    async with AsyncExitStack() as stack:
        for session in ("ada", "bob"):
            journal = SqliteJournal(tmp_path / "talk.db")
            app = create_app(make_clerk(), journal=journal)
            async with serve(app, to_port=port) as base, Api(base) as api:
                if not port:
                    port = int(base.rpartition(":")[2])
                    client = await stack.enter_async_context(Client(base))
                    changes = await stack.enter_async_context(aclosing(client.changes()))  # type: ignore[type-var]
                async with asyncio.timeout(30):
                    while not isinstance(await anext(changes), EndpointsChanged):
                        pass
                    await start(api, session)
                    while not _names(await anext(changes), session):
                        pass
            journal.close()


def _names(change: object, session: str) -> bool:
    named = change.sessions if isinstance(change, SessionsChanged) else ()
    return session in {one.session for one in named}
