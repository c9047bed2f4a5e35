"""A turn whose question nobody answers in time continues by itself, once, also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer
from tests.server.note_agent import answer, final_text
from tests.server.processes import Client, ServedProcess

from holdfast import Agent, MemoryJournal, SqliteJournal, ToolPermission, tool
from holdfast.core.client_tools import CLIENT_TIMEOUT, ClientTool
from holdfast.core.events import (
    Event,
    QuestionAsked,
    QuestionUnanswered,
    ToolFinished,
    TurnClosed,
    TurnOpened,
)
from holdfast.core.messages import Reply, ToolCall
from holdfast.event_log.live.reading import TURN_ENDED, TURN_RESTS, ReadingEnd
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.hosting.turns.open_turns import QuestionDeadlines
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.port import Journal, Record
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.emulator import Emulator

pytestmark = pytest.mark.anyio

PAY = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
PAY_TWICE = Reply((ToolCall("c1", "pay", '{"amount": 3}'), ToolCall("c2", "give", "{}")))
LOCATE = Reply((ToolCall("c1", "locate", "{}"),))
DAY = 86_400.0


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(effect="write")
async def give() -> str:
    """Give something."""
    return "given"


def payer(clock: FakeClock, *replies: Reply | str) -> Agent[str]:
    """Make an agent that asks for an hour before it pays, and for a day before it gives."""
    asking = [ToolPermission(allow=["give"], ask=["pay"], timeout=3600)]
    asking.append(ToolPermission(allow=["pay"], ask=["give"], timeout=DAY))
    model = ScriptedModel(*(replies or (PAY, "Not paid.")))
    return Agent(model, name="payer", tools=[pay, give], middleware=asking, clock=clock)


def stopped_clock() -> FakeClock:
    return FakeClock(auto=False)


async def rest(tenant: TenantService, session: str = "ada", *, ended: bool = False) -> str:
    """Wait until the turn rests or has ended; return its state."""
    latest = await tenant.last_turn(session)
    end = ReadingEnd(latest.turn, TURN_ENDED if ended else TURN_RESTS)
    async with asyncio.timeout(60):
        async for _ in tenant.reader.follow(session, end=end):
            pass
        await tenant.runner.wait(session)
    return (await tenant.last_turn(session)).status


async def settle(tenant: TenantService, session: str = "ada") -> None:
    """Wait until the deadline of a turn that rests was read."""
    while tenant.open_turns.is_queued(session):
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # the timer sleeps


async def events(tenant: TenantService, session: str = "ada") -> list[Event]:
    return [record.event for record in await tenant.journal.read(session)]


def unanswered(found: Sequence[Event]) -> list[str | None]:
    return [event.why for event in found if isinstance(event, QuestionUnanswered)]


async def start_waiting(tenant: TenantService, session: str = "ada") -> None:
    await tenant.start("payer", "Pay 3.", session=session)
    assert await rest(tenant, session) == "waiting"
    await settle(tenant, session)


async def test_a_turn_continues_when_the_time_for_the_answer_is_over() -> None:
    clock = stopped_clock()
    tenant = ServiceTenants(payer(clock)).for_tenant()
    await start_waiting(tenant)
    clock.advance(3599)
    await settle(tenant)
    assert (await tenant.last_turn("ada")).status == "waiting"
    clock.advance(1)
    assert await rest(tenant, ended=True) == "completed"
    found = await events(tenant)
    assert unanswered(found) == ["timeout"]
    (finished,) = [event for event in found if isinstance(event, ToolFinished)]
    assert "paid" not in str(finished)


async def test_an_answer_in_time_stops_the_timer() -> None:
    clock = stopped_clock()
    tenant = ServiceTenants(payer(clock, PAY, "Paid.", "Never.")).for_tenant()
    await start_waiting(tenant)
    (question,) = await (await tenant.agent_of("ada")).questions("ada")
    assert await tenant.answer("ada", question.approve(by="ann"))
    assert await rest(tenant, ended=True) == "completed"
    before = await events(tenant)
    clock.advance(DAY)
    await settle(tenant)
    assert await events(tenant) == before


async def test_each_question_ends_at_its_own_time() -> None:
    clock = stopped_clock()
    tenant = ServiceTenants(payer(clock, PAY_TWICE, "Neither.")).for_tenant()
    await start_waiting(tenant)
    clock.advance(3600)
    await rest_again(tenant, answers=1)
    assert (await tenant.last_turn("ada")).status == "waiting"
    await settle(tenant)
    clock.advance(DAY)
    assert await rest(tenant, ended=True) == "completed"
    assert unanswered(await events(tenant)) == ["timeout", "timeout"]


async def rest_again(tenant: TenantService, answers: int) -> None:
    async with asyncio.timeout(60):
        while len(unanswered(await events(tenant))) < answers:
            await asyncio.sleep(0)
    await tenant.runner.wait("ada")


async def test_sessions_continue_in_the_order_of_their_deadlines() -> None:
    clock = stopped_clock()
    tenant = ServiceTenants(payer(clock, *[PAY] * 10, *["Not paid."] * 5)).for_tenant()
    for number in range(10):
        await start_waiting(tenant, f"s{number}")
        clock.advance(10)
    clock.advance(3600 - 60)  # 5 of them
    for number in range(5):
        assert await rest(tenant, f"s{number}", ended=True) == "completed"
    states = [(await tenant.last_turn(f"s{number}")).status for number in range(5, 10)]
    assert states == ["waiting"] * 5


async def test_the_next_process_continues_what_is_overdue_and_waits_for_the_rest() -> None:
    clock, journal = stopped_clock(), MemoryJournal()
    first = ServiceTenants(payer(clock), journal)
    await start_waiting(first.for_tenant(), "early")
    clock.advance(1800)
    first_again = ServiceTenants(payer(clock), journal)
    await start_waiting(first_again.for_tenant(), "late")
    await first.close(0)
    await first_again.close(0)
    clock.advance(1800)

    second = ServiceTenants(payer(clock, "Not paid.", "Not paid."), journal)
    await second.continue_open_turns()
    tenant = second.for_tenant()
    assert await rest(tenant, "early", ended=True) == "completed"
    assert (await tenant.last_turn("late")).status == "waiting"
    clock.advance(1800)
    assert await rest(tenant, "late", ended=True) == "completed"


async def test_the_question_of_an_agent_inside_a_tool_ends_the_wait_of_its_caller() -> None:
    clock = stopped_clock()
    inner = payer(clock).as_tool(name="payer", description="Pays.")
    call = Reply((ToolCall("c1", "payer", '{"task": "Pay 3."}'),))
    model = ScriptedModel(call, "It was not paid.")
    outer = Agent(model, name="outer", tools=[inner], clock=clock)
    tenant = ServiceTenants(outer).for_tenant()
    await tenant.start("outer", "Pay 3.", session="ada")
    assert await rest(tenant) == "waiting"
    await settle(tenant)
    (asked,) = [event for event in await events(tenant) if isinstance(event, QuestionAsked)]
    assert asked.until == clock.now() + 3600
    clock.advance(3600)
    assert await rest(tenant, ended=True) == "completed"
    (finished,) = [event for event in await events(tenant) if isinstance(event, ToolFinished)]
    assert "Not paid." in str(finished)


async def test_a_tool_of_the_client_that_never_answers_fails_and_the_turn_goes_on() -> None:
    clock = stopped_clock()
    model = ScriptedModel(LOCATE, "I do not know where you are.")
    tenant = ServiceTenants(Agent(model, name="payer", clock=clock)).for_tenant()
    await tenant.start("payer", "Where am I?", session="ada", tools=[ClientTool("locate")])
    assert await rest(tenant) == "waiting"
    await settle(tenant)
    clock.advance(CLIENT_TIMEOUT)
    assert await rest(tenant, ended=True) == "completed"
    (finished,) = [e for e in await events(tenant) if isinstance(e, ToolFinished)]
    assert "The caller gave no result of 'locate' within 3600 seconds." in str(finished)


class _Unreadable(MemoryJournal):
    """A journal that cannot be read for a while."""

    is_down = False

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        if self.is_down:
            raise JournalStorageError("memory", "is down")
        return await super().read_by_keys(run, keys)

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        if self.is_down:
            raise JournalStorageError("memory", "is down")
        return await super().read(run, after)


async def test_a_journal_that_is_down_at_the_deadline_is_read_again() -> None:
    clock, journal = stopped_clock(), _Unreadable()
    tenant = ServiceTenants(payer(clock), journal).for_tenant()
    await start_waiting(tenant)
    journal.is_down = True
    clock.advance(3600)
    await settle(tenant)
    journal.is_down = False
    assert (await tenant.last_turn("ada")).status == "waiting"
    clock.advance(1)
    assert await rest(tenant, ended=True) == "completed"


async def test_a_new_message_does_not_overtake_a_question_that_is_over() -> None:
    clock, journal = stopped_clock(), MemoryJournal()
    first = ServiceTenants(payer(clock), journal)
    await start_waiting(first.for_tenant())
    await first.close(0)
    clock.advance(3600)
    tenant = ServiceTenants(payer(clock, "Not paid.", "Hello."), journal).for_tenant()
    with pytest.raises(Exception, match="being continued"):
        await tenant.start("payer", "Hi.", session="ada")
    assert await rest(tenant, ended=True) == "completed"
    await tenant.start("payer", "Hi.", session="ada")
    assert await rest(tenant, ended=True) == "completed"


async def test_recover_of_the_library_continues_a_turn_whose_question_is_over() -> None:
    clock, journal = stopped_clock(), MemoryJournal()
    service = ServiceTenants(payer(clock), journal)
    await start_waiting(service.for_tenant())
    await service.close(0)
    model = ScriptedModel("Not paid.")
    asking = ToolPermission(allow=["give"], ask=["pay"], timeout=3600)
    agent = Agent(
        model, name="payer", tools=[pay, give], middleware=[asking], clock=clock, journal=journal
    )
    assert await agent.recover() == []
    clock.advance(3600)
    (recovered,) = await agent.recover()
    assert recovered.result is not None
    assert recovered.result.output == "Not paid."


async def test_the_timer_reads_the_time_of_day_again() -> None:
    clock, seen = stopped_clock(), list[str]()
    deadlines = QuestionDeadlines(clock, seen.append)
    deadlines.set_time("later", clock.now() + 7200)
    deadlines.set_time("first", clock.now() + 3600)
    deadlines.set_time("never", clock.now() + 3600)
    deadlines.set_time("never", float("inf"))
    await asyncio.sleep(0)
    clock.step(3600)  # the machine was suspended, or its clock was set
    clock.advance(60)
    await asyncio.sleep(0)
    assert seen == ["first"]
    deadlines.close()
    deadlines.set_time("closed", clock.now())
    clock.advance(7200)
    await asyncio.sleep(0)
    assert seen == ["first"]


async def read_session(journal: Journal) -> list[Event]:
    return [record.event for record in await journal.read("ada")]


def check_continued_once(found: list[Event]) -> None:
    assert unanswered(found) == ["timeout"]
    for kind in (TurnOpened, QuestionAsked, TurnClosed):
        assert sum(isinstance(event, kind) for event in found) == 1, kind


async def wait_for_question(client: Client) -> None:
    async with asyncio.timeout(60):
        while client.status != "waiting":
            await asyncio.sleep(0.01)


@pytest.mark.slow  # kills a process
async def test_a_killed_process_that_starts_after_the_deadline_continues_the_turn(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    with (
        Emulator(answer) as emulator,
        ServedProcess(f"sqlite:///{path}", emulator.base_url, tmp_path) as process,
    ):
        client = Client([process.api], "ada", "Pay")
        reading = asyncio.ensure_future(client.run())
        await wait_for_question(client)
        await process.kill()
        with SqliteJournal(path) as journal:
            assert unanswered(await read_session(journal)) == []
        process.later = 3601
        process.start()
        await asyncio.wait_for(reading, 60)
    assert client.status == "completed"
    assert client.replies[-1] == final_text("Pay")
    assert not (tmp_path / "paid").exists()
    with SqliteJournal(path) as journal:
        check_continued_once(await read_session(journal))


@pytest.mark.slow  # kills a process
async def test_two_processes_that_start_after_the_deadline_continue_the_turn_once(
    tmp_path: Path, postgres: PostgresServer, url: str
) -> None:
    with (
        Emulator(answer) as emulator,
        ServedProcess(url, emulator.base_url, tmp_path) as first,
        ServedProcess(url, emulator.base_url, tmp_path) as second,
    ):
        client = Client([first.api, second.api], "ada", "Pay")
        reading = asyncio.ensure_future(client.run())
        await wait_for_question(client)
        while postgres.rows(url, "SELECT state FROM holdfast_inbox") != [("waiting",)]:
            await asyncio.sleep(0.05)
        for process in (first, second):
            await process.kill()
            process.later = 3601
        # The inbox goes by the clock of its database.
        postgres.rows(url, "UPDATE holdfast_inbox SET due_at = due_at - 3601")
        for process in (first, second):
            process.start()
        await asyncio.wait_for(reading, 60)
        calls = len(emulator.requests)
    assert client.status == "completed"
    assert calls == 2
    assert not (tmp_path / "paid").exists()
    with PostgresJournal(url) as journal:
        check_continued_once(await read_session(journal))
