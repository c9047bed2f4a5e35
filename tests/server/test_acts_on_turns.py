"""Acts on a turn at every moment of its life: each has one outcome, which everybody sees."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.serving import Api, serve

from holdfast import Agent, MemoryJournal, ToolPermission, tool
from holdfast.core.effects import Effect
from holdfast.core.errors import ConfigurationError, SessionBusyError
from holdfast.core.events import Event, QuestionAnswered, TurnClosed, TurnInterrupted, TurnOpened
from holdfast.core.messages import Reply, ToolCall, user
from holdfast.event_log.live.reading import TURN_ENDED, TURN_RESTS, ReadingEnd
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.hosting.turns.turn_runner import ShuttingDownError
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.server import create_app
from holdfast.server.api.session_reading import read_turn
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

PAY = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Work:
    """A model that hangs in its first call, until it may go on."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def hang(self, _request: object) -> str:
        self.has_begun.set()
        await self.may_end.wait()
        return "Done."

    def agent(self, *replies: Reply | str) -> Agent[str]:
        model = ScriptedModel(*(replies or (self.hang,)), "Again.")
        permission = ToolPermission(ask=["pay"])
        return Agent(model, name="payer", tools=[pay], middleware=[permission])

    def tenant(self, *replies: Reply | str) -> TenantService:
        return ServiceTenants(self.agent(*replies)).for_tenant()


async def rest(tenant: TenantService, *, ended: bool = False) -> str:
    """Wait until the turn rests or has ended; return its state."""
    latest = await tenant.last_turn("ada")
    states = TURN_ENDED if ended else TURN_RESTS
    async with asyncio.timeout(60):
        async for _ in tenant.reader.follow("ada", end=ReadingEnd(latest.turn, states)):
            pass
    return (await tenant.last_turn("ada")).status


async def events(tenant: TenantService) -> list[Event]:
    return [record.event for record in await tenant.journal.read("ada")]


async def test_two_people_answer_one_question_at_once() -> None:
    tenant = Work().tenant(PAY)
    await tenant.start("payer", "Pay 3.", session="ada")
    assert await rest(tenant) == "waiting"
    (question,) = await (await tenant.agent_of("ada")).questions("ada")
    receipts = await asyncio.gather(
        tenant.answer("ada", question.approve(by="ann")),
        tenant.answer("ada", question.deny("Too much.", by="bob")),
    )
    assert [receipt.reason for receipt in receipts] == ["", "answered"]
    assert await rest(tenant, ended=True) == "completed"
    late = await tenant.answer("ada", question.deny("Too late.", by="cid"))
    assert late.reason == "answered"
    answers = [event for event in await events(tenant) if isinstance(event, QuestionAnswered)]
    assert [answer.by for answer in answers] == ["ann"]


async def test_a_driven_turn_is_cancelled_once_by_two() -> None:
    work = Work()
    tenant = work.tenant()
    await tenant.start("payer", "Hi.", session="ada")
    await work.has_begun.wait()
    await asyncio.gather(tenant.cancel("ada"), tenant.cancel("ada"))
    await tenant.cancel("ada")  # it has ended
    found = await events(tenant)
    assert sum(isinstance(event, TurnInterrupted) for event in found) == 1
    assert isinstance(found[-1], TurnClosed)
    assert (await tenant.last_turn("ada")).status == "cancelled"


async def test_a_turn_is_cancelled_before_its_stream_has_begun() -> None:
    work = Work()
    tenant = work.tenant()
    starting = asyncio.ensure_future(tenant.start("payer", "Hi.", session="ada"))
    while not tenant.runner.is_driven("ada"):
        await asyncio.sleep(0)
    turn = tenant.runner.find("ada")
    assert turn is not None
    turn.cancel()
    with pytest.raises(SessionBusyError):
        await starting
    assert await events(tenant) == []
    work.may_end.set()
    assert (await tenant.start("payer", "Hi.", session="ada")).number == 1
    assert await rest(tenant) == "completed"


async def test_a_waiting_turn_is_cancelled_and_its_question_is_over() -> None:
    tenant = Work().tenant(PAY)
    await tenant.start("payer", "Pay 3.", session="ada")
    assert await rest(tenant) == "waiting"
    (question,) = await (await tenant.agent_of("ada")).questions("ada")
    await tenant.cancel("ada")
    assert (await tenant.last_turn("ada")).status == "cancelled"
    assert not await tenant.answer("ada", question.approve(by="ann"))
    assert (await tenant.last_turn("ada")).status == "cancelled"  # nobody tried it again


async def test_a_cancellation_and_an_answer_at_once_leave_one_outcome() -> None:
    tenant = Work().tenant(PAY)
    await tenant.start("payer", "Pay 3.", session="ada")
    await rest(tenant)
    (question,) = await (await tenant.agent_of("ada")).questions("ada")
    await asyncio.gather(tenant.cancel("ada"), tenant.answer("ada", question.approve(by="ann")))
    assert await rest(tenant) in ("cancelled", "completed")
    assert sum(isinstance(event, TurnOpened) for event in await events(tenant)) == 1


@pytest.mark.parametrize("agent", ["payer", "somebody else"])
async def test_an_open_turn_is_cancelled_whoever_began_it(agent: str) -> None:
    tenant = Work().tenant()
    await tenant.journal.append("ada", TurnOpened("t1", 1.0, user("Hi."), agent=agent))
    assert (await tenant.last_turn("ada")).status == "open"
    await tenant.cancel("ada")
    assert (await tenant.last_turn("ada")).status == "cancelled"


async def test_a_cancellation_while_the_turn_ends_changes_nothing() -> None:
    work = Work()
    tenant = work.tenant()
    await tenant.start("payer", "Hi.", session="ada")
    work.may_end.set()
    turn = tenant.runner.find("ada")
    while turn is not None and not turn.has_closed:
        await asyncio.sleep(0)
    await tenant.cancel("ada")
    assert (await tenant.last_turn("ada")).status == "completed"


async def test_a_message_for_an_open_turn_continues_it_first() -> None:
    work = Work()
    tenant = work.tenant()
    await tenant.journal.append("ada", TurnOpened("t1", 1.0, user("Hi."), agent="payer"))
    work.may_end.set()
    with pytest.raises(SessionBusyError, match="is being continued"):
        await tenant.start("payer", "And?", session="ada")
    await work.has_begun.wait()
    assert await rest(tenant) == "completed"
    assert (await tenant.start("payer", "And?", session="ada")).number == 2


async def test_open_turns_are_continued_unless_they_wait_or_belong_to_another_agent() -> None:
    journal, work = MemoryJournal(), Work()
    first = ServiceTenants(work.agent(PAY), journal).for_tenant()
    await first.start("payer", "Pay 3.", session="waiting")
    await first.runner.wait("waiting")
    for tenant, session, agent in (
        ("a", "mine", "payer"),
        ("b", "mine", "payer"),
        ("a", "strange", "stranger"),
    ):
        opened = TurnOpened("t1", 1.0, user("Hi."), agent=agent)
        await journal.for_tenant(tenant).append(session, opened)
    service, work = (
        ServiceTenants(Agent(ScriptedModel("One.", "Two."), name="payer"), journal),
        Work(),
    )
    await service.continue_open_turns()
    for tenant in ("a", "b"):
        while service.for_tenant(tenant).open_turns.is_queued("mine"):
            await asyncio.sleep(0)
        assert (await service.for_tenant(tenant).last_turn("mine")).status == "completed"
    assert (await service.for_tenant("a").last_turn("strange")).status == "open"
    assert (await service.for_tenant().last_turn("waiting")).status == "waiting"


async def test_a_service_that_stops_refuses_turns_and_ends_streams() -> None:
    work = Work()
    service = ServiceTenants(work.agent())
    tenant = service.for_tenant()
    await tenant.start("payer", "Hi.", session="ada")
    await work.has_begun.wait()
    entries = tenant.reader.follow("ada")
    reading = asyncio.ensure_future(_read_all(entries))
    await asyncio.sleep(0)
    await service.close(1.0)
    assert (await reading)[-1] == "shutting_down"
    for started in (tenant, service.for_tenant("another")):
        with pytest.raises(ShuttingDownError):
            await started.start("payer", "Hi.", session="bob")
    assert (await tenant.last_turn("ada")).status == "open"


async def _read_all(entries: object) -> list[str]:
    return [str(getattr(entry.item, "reason", "")) async for entry in entries]  # type: ignore[attr-defined]


class BrokenJournal(MemoryJournal):
    """A journal that saves nothing while it is broken."""

    is_broken = False

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if self.is_broken:
            raise JournalStorageError("the journal", "the disk is full", fix="Free some space")
        await super().append(run, event, effect, marker=marker)


async def test_nothing_is_said_to_be_accepted_while_the_journal_is_unavailable() -> None:
    journal = BrokenJournal()
    agent = Agent(ScriptedModel("Hello."), name="payer")
    async with serve(create_app(agent, journal=journal)) as address, Api(address) as api:
        journal.is_broken = True
        body = {"agent": "payer", "message": "Hi.", "session": "ada"}
        refused = await api.post("/turns", body)
        assert refused.status == 503
        assert refused.json["kind"] == "journal"
        assert refused.json["retryable"] is True
        assert await journal.read("ada") == []
        journal.is_broken = False
        assert (await api.post("/turns", {**body, "wait": 5})).status == 200
        (opened, *_) = [record.event for record in await journal.read("ada")]
        assert isinstance(opened, TurnOpened)


async def test_a_session_is_not_changed_under_a_driven_turn() -> None:
    work = Work()
    app = create_app(work.agent())
    async with serve(app) as address, Api(address) as api:
        body = {"agent": "payer", "message": "Hi.", "session": "ada"}
        assert (await api.post("/turns", body)).status == 202
        await work.has_begun.wait()
        for answer in (
            await api.post("/sessions/ada/rewind", {"to": 0}),
            await api.post("/sessions/ada/compact", {}),
            await api.post("/turns", body),
            await api.call("DELETE", "/sessions/ada"),
        ):
            assert (answer.status, answer.json["kind"]) == (409, "busy")
        work.may_end.set()
        await rest(app.state.service.for_tenant(), ended=True)
        assert (await api.call("DELETE", "/sessions/ada")).status == 204
    with pytest.raises(ConfigurationError):
        await app.state.service.for_tenant().last_turn("ada")


async def test_a_turn_that_has_closed_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = asyncio.Event()

    async def hang(_request: object) -> str:
        await may_end.wait()
        return "Done."

    tenant = ServiceTenants(Agent(ScriptedModel(hang), name="slow")).for_tenant()
    accepted = await tenant.start("slow", "Go.", session="ada")
    look = tenant.last_turn

    async def end_after_look(session: str) -> object:
        found = await look(session)
        may_end.set()
        await tenant.runner.wait(session)
        return found

    monkeypatch.setattr(tenant, "last_turn", end_after_look)
    turn = await read_turn(tenant, "ada", accepted.number)
    assert turn.closed_at is not None
    assert (turn.status, turn.text) == ("completed", "Done.")
    assert turn.position == str((await look("ada")).records)
