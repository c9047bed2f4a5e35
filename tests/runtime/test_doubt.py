"""A write in doubt is settled by its check: it happened, it is done again, or the model reads why nobody knows."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tool_results import texts_of_results

from holdfast import (
    Agent,
    ClarificationQuestion,
    ConfigurationError,
    Middleware,
    Status,
    ToolPermission,
    tool,
)
from holdfast.core.events import DoubtChecked, Event, ToolFinished, TurnClosed
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, Reply, ToolCall, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import AnyQuestion, Approved
from holdfast.journal.memory import MemoryJournal
from holdfast.middleware import ToolUse
from holdfast.runtime.result import Result
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash
from holdfast.testing.replaying import replay
from holdfast.tools import Check, DoubtfulCall, Happened, NotHappened, ToolContext, Unknown

LIMIT, SETTLE = 30.0, 2.0


class Ledger:
    """A party without idempotency: each request that lands is a payment.

    Args:
        faults: one for each request: "ok"; "lost before" and "lost after" lose the connection before and
            after the payment; a number is a payment that lands so many seconds after its connection was
            lost. After the last one, all requests are answered.
    """

    def __init__(self, clock: FakeClock, *faults: str | float) -> None:
        self.clock = clock
        self.faults = list(faults)
        self.paid: list[str] = []
        self.requests: list[str] = []
        self.checks: list[float] = []
        self._late: set[asyncio.Task[None]] = set()

    async def pay(self, key: str) -> str:
        self.requests.append(key)
        fault = self.faults.pop(0) if self.faults else "ok"
        if isinstance(fault, float):
            task = asyncio.create_task(self._land_later(fault, key))
            self._late.add(task)
        elif fault != "lost before":
            self.paid.append(key)
        if fault != "ok":
            raise ConnectionResetError
        return "receipt 1"

    async def _land_later(self, seconds: float, key: str) -> None:
        await self.clock.sleep(seconds)
        self.paid.append(key)

    async def was_paid(self, call: DoubtfulCall) -> Happened | NotHappened:
        self.checks.append(self.clock.monotonic())
        found = call.idempotency_key in self.paid
        return Happened("receipt 1, read back") if found else NotHappened()


def answer(request: ModelRequest) -> Reply | str:
    if request.messages[-1].role == "user":
        return Reply((ToolCall("a", "pay", '{"amount": 5}'),))
    return "done"


def make_agent(
    ledger: Ledger, check: Any = None, journal: object = None, **keywords: Any
) -> Agent[Any]:
    @tool(effect="write", timeout=LIMIT, check=check or ledger.was_paid)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        return await ledger.pay(context.idempotency_key)

    model = ScriptedModel(*[answer] * 50)
    tools = keywords.pop("tools", [pay])
    return Agent(model, name="payer", tools=tools, journal=journal, clock=ledger.clock, **keywords)


async def history_of(journal: MemoryJournal) -> list[Message]:
    machine = SessionMachine()
    for record in await journal.read("s"):
        machine.apply(record.event)
    return list(machine.transcript)


def find_result(result: Result[Any]) -> ToolResult:
    (found,) = [
        part for one in result.messages for part in one.parts if isinstance(part, ToolResult)
    ]
    return found


async def find_checks(journal: MemoryJournal, run: str = "s") -> list[DoubtChecked]:
    events: list[Event] = [record.event for record in await journal.read(run)]
    return [event for event in events if isinstance(event, DoubtChecked)]


async def test_a_write_that_happened_has_the_result_that_its_check_read_back() -> None:
    ledger, journal = Ledger(FakeClock(), "lost after"), MemoryJournal()
    result = await make_agent(ledger, journal=journal).run("go", session="s")
    assert texts_of_results(result.messages) == ["receipt 1, read back"]
    assert not find_result(result).in_doubt
    assert len(ledger.paid) == len(ledger.requests) == 1
    (saved,) = await find_checks(journal)
    assert (saved.key, saved.verdict) == ("t1.i0.tool.0.check.0", "happened")


async def test_a_write_that_did_not_happen_is_done_again_under_the_same_key() -> None:
    ledger, journal = Ledger(FakeClock(), "lost before"), MemoryJournal()
    result = await make_agent(ledger, journal=journal).run("go", session="s")
    assert texts_of_results(result.messages) == ["receipt 1"]
    assert len(ledger.paid) == 1
    assert len(set(ledger.requests)) == 1
    assert [one.settled for one in await find_checks(journal)] == [False, True]
    first, second = ledger.checks
    assert (first, second) == (0.0, SETTLE)


async def test_a_write_that_lands_after_the_first_look_is_not_done_again() -> None:
    ledger = Ledger(FakeClock(), 1.6)
    result = await make_agent(ledger).run("go")
    assert texts_of_results(result.messages) == ["receipt 1, read back"]
    assert len(ledger.requests) == 1


async def test_without_settle_a_party_that_is_slow_gets_the_write_twice() -> None:
    ledger = Ledger(FakeClock(), 1.6)
    check = Check(ledger.was_paid, settle=0)
    await make_agent(ledger, check).run("go")
    await ledger.clock.sleep(5)
    assert len(ledger.paid) == 2


@pytest.mark.parametrize(("retry", "requests"), [(0, 1), (1, 2), (2, 3)])
async def test_a_write_is_done_again_so_often_and_then_the_model_reads_that_it_did_not_happen(
    retry: int, requests: int
) -> None:
    ledger = Ledger(FakeClock(), *["lost before"] * 9)
    result = await make_agent(ledger, Check(ledger.was_paid, retry=retry)).run("go")
    assert len(ledger.requests) == requests
    found = find_result(result)
    assert (found.is_error, found.in_doubt) == (True, False)
    assert found.text.endswith(" Its check found that it did not take effect.")


async def test_a_check_that_does_not_know_leaves_the_doubt_with_its_reason() -> None:
    ledger, journal = Ledger(FakeClock(), "lost after"), MemoryJournal()
    agent = make_agent(ledger, lambda _: Unknown("the bank is closed"), journal)
    found = find_result(await agent.run("go", session="s"))
    assert found.in_doubt
    assert found.text.endswith(
        " Its check could not find out whether it did: the bank is closed."
        " It may have taken effect: check before calling it again."
    )
    assert [one.verdict for one in await find_checks(journal)] == ["unknown"]


async def test_a_check_that_fails_is_called_again_as_a_read_is() -> None:
    ledger, failures = Ledger(FakeClock(), "lost after"), [OSError("secret"), OSError("secret")]

    async def look(call: DoubtfulCall) -> object:
        if failures:
            raise failures.pop()
        return await ledger.was_paid(call)

    result = await make_agent(ledger, look).run("go")
    assert texts_of_results(result.messages) == ["receipt 1, read back"]


def fail(_: DoubtfulCall) -> object:
    raise OSError("secret")


async def hang(_: DoubtfulCall) -> object:
    return await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (fail, "the check failed with OSError"),
        (Check(hang, timeout=0.01), "the check did not answer within 0.01 seconds"),
        (lambda _: True, "the check returned bool"),
        (lambda _: Happened(object()), "it happened, but "),
        (lambda _: Unknown("token sk-abcdefghijklmnopqrstuvwx"), "token "),
    ],
)
async def test_a_check_without_an_answer_leaves_the_doubt(check: Any, why: str) -> None:
    ledger = Ledger(FakeClock(), "lost after")
    found = find_result(await make_agent(ledger, check).run("go"))
    assert found.in_doubt
    assert f"find out whether it did: {why}" in found.text
    assert "secret" not in found.text
    assert "abcdefghijklmnopqrstuvwx" not in found.text


async def test_a_failure_that_proves_that_nothing_happened_needs_no_check() -> None:
    ledger = Ledger(FakeClock())

    @tool(effect="write", timeout=LIMIT, check=fail)
    async def pay(amount: int) -> str:
        """Pay."""
        raise ConnectionRefusedError

    found = find_result(await make_agent(ledger, tools=[pay]).run("go"))
    assert not found.in_doubt


@pytest.mark.parametrize("settle", [0, SETTLE])
async def test_the_thread_of_a_sync_tool_has_ended_before_a_denial_is_believed(
    settle: float,
) -> None:
    go, paid = threading.Event(), list[str]()
    looked = 0

    def was_paid(_: DoubtfulCall) -> object:
        nonlocal looked
        looked += 1
        if not paid:
            go.set()  # the payment lands after this look
        return Happened("paid late") if paid else NotHappened()

    @tool(effect="write", timeout=0.05, check=Check(was_paid, settle=settle))
    def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        go.wait(30)
        paid.append(context.idempotency_key)
        return "paid"

    model = ScriptedModel(*[answer] * 9)
    result = await Agent(model, tools=[pay], clock=FakeClock()).run("go")
    assert texts_of_results(result.messages) == ["paid late"]
    assert len(paid) == 1
    assert looked == 2


async def test_an_approval_holds_for_the_repetition() -> None:
    ledger, asked = Ledger(FakeClock(), "lost before"), list[AnyQuestion]()

    async def approve(question: AnyQuestion) -> object:
        asked.append(question)
        return Approved(arguments={"amount": 3})

    seen: list[object] = []

    async def was_paid(call: DoubtfulCall) -> object:
        seen.append(call.arguments)
        return await ledger.was_paid(call)

    agent = make_agent(
        ledger, was_paid, middleware=[ToolPermission(ask=["pay"])], on_question=approve
    )
    result = await agent.run("go")
    assert texts_of_results(result.messages)[0].startswith("receipt 1")
    assert len(ledger.requests) == 2
    assert len(asked) == 1
    assert seen == [{"amount": 3}] * 2


async def test_a_hook_that_passes_a_call_on_twice_at_once_waits_for_one_after_the_other() -> None:
    class Twice(Middleware):
        async def wrap_tool(
            self, context: ToolUse, call_next: Callable[[ToolUse], Awaitable[ToolResult]]
        ) -> ToolResult:
            first, _ = await asyncio.gather(call_next(context), call_next(context))
            return first

    ledger = Ledger(FakeClock(), "lost after")
    result = await make_agent(ledger, middleware=[Twice()]).run("go")
    assert texts_of_results(result.messages) == ["receipt 1, read back"]
    assert len(ledger.requests) == 1


async def test_the_check_gets_the_call_and_its_surroundings() -> None:
    ledger, calls = Ledger(FakeClock(now=100.0), "lost after"), list[DoubtfulCall]()

    async def was_paid(call: DoubtfulCall) -> object:
        calls.append(call)
        return await ledger.was_paid(call)

    agent = make_agent(ledger, was_paid, MemoryJournal())
    await agent.run("go", session="s", deps="bank", metadata={"person": "ann"})
    (call,) = calls
    assert (call.tool, call.arguments, call.began_at) == ("pay", {"amount": 5}, 100.0)
    assert (call.deps, call.session, call.metadata) == ("bank", "s", {"person": "ann"})
    assert call.idempotency_key == ledger.requests[0]
    assert "5" not in repr(call).replace(call.idempotency_key, "")


# -- a person decides


def do_not_know(_: DoubtfulCall) -> Unknown:
    return Unknown("the bank is closed")


@pytest.mark.parametrize(
    ("fault", "said", "result", "requests"),
    [
        ("lost after", "It happened: receipt 7", "receipt 7", 1),
        ("lost after", "it happened", "(no result)", 1),
        ("lost before", "It did not happen", "receipt 1", 2),
    ],
)
async def test_a_person_decides_what_the_check_does_not_know(
    fault: str, said: str, result: str, requests: int
) -> None:
    ledger, journal, asked = Ledger(FakeClock(), fault), MemoryJournal(), list[str]()

    async def decide(question: ClarificationQuestion) -> str:
        asked.append(question.question)
        return said

    check = Check(do_not_know, on_doubt="ask")
    agent = make_agent(ledger, check, journal, on_question=decide)
    found = await agent.run("go", session="s")
    assert texts_of_results(found.messages) == [result]
    assert len(ledger.requests) == requests
    assert asked == [
        'Did pay({"amount":5}) take effect? Its check could not find out (the bank is closed).'
    ]
    assert [one.by for one in await find_checks(journal)] == ["check", "person"]


async def test_a_person_lets_the_check_be_asked_again_and_nobody_leaves_the_doubt() -> None:
    ledger, answers = Ledger(FakeClock(), "lost after"), ["Ask the check again", None]

    async def decide(_: ClarificationQuestion) -> str | None:
        return answers.pop(0)

    check = Check(do_not_know, on_doubt="ask")
    journal = MemoryJournal()
    result = await make_agent(ledger, check, journal, on_question=decide).run("go", session="s")
    assert find_result(result).in_doubt
    assert [one.by for one in await find_checks(journal)] == ["check", "person", "check"]


@pytest.mark.parametrize(
    ("fault", "said", "requests"),
    [("lost after", "It happened", 1), ("lost before", "It did not happen", 2)],
)
async def test_a_turn_that_waits_for_the_decision_goes_on_in_another_process(
    fault: str, said: str, requests: int
) -> None:
    ledger, journal = Ledger(FakeClock(), fault), MemoryJournal()
    check = Check(do_not_know, on_doubt="ask")
    first = make_agent(ledger, check, journal, on_wait="suspend")
    assert (await first.run("go", session="s")).status is Status.WAITING
    second = make_agent(ledger, check, journal, on_wait="suspend")
    (question,) = await second.questions("s")
    await second.answer("s", question.answer(said))
    (found,) = await second.recover()
    assert not find_result(found.result).in_doubt
    assert len(ledger.requests) == requests
    assert len(ledger.paid) == 1


async def test_each_round_of_a_doubt_has_a_question_and_an_answer_of_its_own() -> None:
    ledger, journal = Ledger(FakeClock(), *["lost before"] * 2), MemoryJournal()
    check = Check(do_not_know, on_doubt="ask", retry=3)
    agent = make_agent(ledger, check, journal, on_wait="suspend")
    await agent.run("go", session="s")
    for said in ("It did not happen", "It happened: receipt 17"):
        agent = make_agent(ledger, check, journal, on_wait="suspend")
        (question,) = await agent.questions("s")
        await agent.answer("s", question.answer(said))
        (found,) = await agent.recover()
    assert texts_of_results(found.result.messages) == ["receipt 17"]
    assert len(ledger.requests) == 2


async def test_a_decision_counts_whatever_the_check_would_say_by_then() -> None:
    ledger, journal = Ledger(FakeClock(), "lost after"), MemoryJournal()
    answers: list[object] = [Unknown("closed")]

    def look(_: DoubtfulCall) -> object:
        return answers.pop() if answers else NotHappened()

    check = Check(look, on_doubt="ask")
    await make_agent(ledger, check, journal, on_wait="suspend").run("go", session="s")
    agent = make_agent(ledger, check, journal, on_wait="suspend")
    (question,) = await agent.questions("s")
    await agent.answer("s", question.answer("It happened: receipt 17"))
    (found,) = await agent.recover()
    assert texts_of_results(found.result.messages) == ["receipt 17"]
    assert len(ledger.requests) == 1


async def test_a_person_who_says_other_things_is_asked_some_times_and_not_without_end() -> None:
    ledger, asked = Ledger(FakeClock(), "lost after"), list[str]()

    async def decide(question: ClarificationQuestion) -> str:
        asked.append(question.source)
        return "yes, it went through"

    check = Check(do_not_know, on_doubt="ask")
    found = find_result(await make_agent(ledger, check, on_question=decide).run("go"))
    assert found.in_doubt
    assert asked == ["check 1", "check 3", "check 5", "check 7", "check 9"]


async def test_a_denial_of_a_person_waits_for_the_thread_of_the_tool() -> None:
    go, begun, ended = threading.Event(), list[float](), list[float]()

    @tool(effect="write", timeout=0.05, check=Check(do_not_know, on_doubt="ask"))
    def pay(amount: int) -> str:
        """Pay."""
        begun.append(time.monotonic())
        if len(begun) == 1:
            go.wait(30)
            ended.append(time.monotonic())
        return "paid"

    async def decide(_: ClarificationQuestion) -> str:
        threading.Timer(0.1, go.set).start()
        return "It did not happen"

    model = ScriptedModel(*[answer] * 9)
    agent = Agent(model, tools=[pay], clock=FakeClock(), on_question=decide)
    result = await agent.run("go")
    assert texts_of_results(result.messages) == ["paid"]
    assert begun[1] > ended[0]


async def test_a_turn_that_is_interrupted_while_it_settles_repeats_nothing() -> None:
    ledger, journal = Ledger(FakeClock(auto=False), "lost before"), MemoryJournal()
    agent = make_agent(ledger, journal=journal, on_busy="interrupt")
    first = asyncio.create_task(agent.run("go", session="s"))
    while len(ledger.checks) < 1:
        await asyncio.sleep(0)
    second = asyncio.create_task(agent.run("hello", session="s"))
    while not first.done():
        await asyncio.sleep(0)
        ledger.clock.advance(0.01)
    assert ledger.clock.monotonic() < SETTLE
    assert find_result(first.result()).in_doubt
    assert len(ledger.requests) == 1
    second.cancel()


async def test_a_process_that_stops_waits_for_no_check_and_the_next_one_asks_it() -> None:
    ledger, journal = Ledger(FakeClock(auto=False), "lost before"), MemoryJournal()
    async with make_agent(ledger, journal=journal).stream("go", session="s") as stream:
        while len(ledger.checks) < 1:
            await asyncio.sleep(0)
        await stream.leave_open(grace=3600)
    assert len(ledger.requests) == 1
    ledger.clock.advance(SETTLE)
    later = Ledger(FakeClock())
    later.requests = ledger.requests
    (found,) = await make_agent(later, journal=journal).recover()
    assert texts_of_results(found.result.messages) == ["receipt 1"]
    assert len(ledger.requests) == 2


async def cancel_inside(_: DoubtfulCall) -> object:
    inner = asyncio.create_task(asyncio.sleep(9))
    inner.cancel()
    return await inner


def time_out(_: DoubtfulCall) -> object:
    raise TimeoutError


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (cancel_inside, "the check failed with CancelledError"),
        (time_out, "the check failed with TimeoutError"),
        (lambda _: NotHappened, "the check returned the class NotHappened and not NotHappened()"),
    ],
)
async def test_a_check_that_is_cancelled_inside_has_failed_alone(check: Any, why: str) -> None:
    ledger = Ledger(FakeClock(), "lost after")
    found = find_result(await make_agent(ledger, check).run("go"))
    assert f"find out whether it did: {why}" in found.text


async def test_a_repetition_asks_nobody_again_and_counts_its_attempts() -> None:
    ledger, asked, journal = Ledger(FakeClock(), "lost before"), list[str](), MemoryJournal()

    @tool(effect="write", timeout=LIMIT, check=ledger.was_paid)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        await context.ask(ClarificationQuestion(question=f"Pay {amount}?"))
        return await ledger.pay(context.idempotency_key)

    async def decide(question: ClarificationQuestion) -> str:
        asked.append(question.question)
        return "yes"

    agent = make_agent(ledger, tools=[pay], on_question=decide, journal=journal)
    result = await agent.run("go", session="s")
    assert texts_of_results(result.messages) == ["receipt 1"]
    assert asked == ["Pay 5?"]
    events = [record.event for record in await journal.read("s")]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.attempts == 2


async def test_the_output_of_a_turn_is_what_its_check_read_back() -> None:
    @tool(effect="write", timeout=LIMIT, check=lambda _: Happened("receipt 17"))
    def book(room: str) -> str:
        """Book."""
        raise ConnectionResetError

    model = ScriptedModel('{"room": "blue"}')
    result = await Agent(model, output=book, clock=FakeClock()).run("go")
    assert result.output == "receipt 17"


# -- after a crash

BEGUN = 3  # records: opened, replied, begun


async def crash(
    ledger: Ledger, journal: MemoryJournal, moment: int, *, before: bool = False
) -> None:
    dying = CrashAt(journal, moment, before=before)
    with pytest.raises(SimulatedCrash):
        await make_agent(ledger, journal=dying).run("go", session="s")


async def recover(ledger: Ledger, journal: MemoryJournal) -> Result[Any]:
    (found,) = await make_agent(ledger, journal=journal).recover()
    return found.result


async def test_a_call_that_a_killed_process_left_is_checked_and_not_repeated() -> None:
    ledger, journal = Ledger(FakeClock()), MemoryJournal()
    await crash(ledger, journal, BEGUN + 1, before=True)
    assert len(ledger.paid) == 1  # but its result was not saved
    result = await recover(ledger, journal)
    assert texts_of_results(result.messages) == ["receipt 1, read back"]
    assert len(ledger.requests) == 1


async def test_a_call_that_did_not_begin_is_made_when_a_lost_process_could_no_longer_make_it() -> (
    None
):
    ledger, journal = Ledger(FakeClock()), MemoryJournal()
    await crash(ledger, journal, BEGUN)
    before = ledger.clock.monotonic()
    result = await recover(ledger, journal)
    assert texts_of_results(result.messages) == ["receipt 1"]
    assert [round(at - before, 3) for at in ledger.checks] == [0.0, 2 * LIMIT + SETTLE]


async def test_an_answer_that_is_saved_is_used_and_not_asked_for_again() -> None:
    ledger, journal = Ledger(FakeClock(), "lost after"), MemoryJournal()
    await crash(ledger, journal, BEGUN + 1)  # after the check
    assert len(await find_checks(journal)) == 1
    result = await recover(ledger, journal)
    assert texts_of_results(result.messages) == ["receipt 1, read back"]
    assert len(ledger.checks) == 1


async def test_a_turn_that_ends_keeps_what_its_check_has_found() -> None:
    ledger, journal = Ledger(FakeClock(), "lost after"), MemoryJournal()
    await crash(ledger, journal, BEGUN + 1)  # after the check
    result = await make_agent(ledger, journal=journal, tools=[]).run("next", session="s")
    (left,) = [
        part
        for message in await history_of(journal)
        for part in message.parts
        if isinstance(part, ToolResult) and part.text.startswith("receipt")
    ]
    assert not left.in_doubt
    assert result.output


async def test_a_repetition_that_is_killed_is_checked_again() -> None:
    ledger, journal = Ledger(FakeClock(), "lost before"), MemoryJournal()
    await crash(ledger, journal, BEGUN + 3, before=True)  # after both checks and the repetition
    assert len(ledger.paid) == 1
    result = await recover(ledger, journal)
    assert texts_of_results(result.messages) == ["receipt 1, read back"]
    assert len(ledger.paid) == 1


async def test_a_call_is_in_doubt_if_a_hook_keeps_its_check_from_being_asked() -> None:
    ledger, journal = Ledger(FakeClock()), MemoryJournal()
    await crash(ledger, journal, BEGUN + 1, before=True)
    agent = make_agent(ledger, journal=journal, middleware=[ToolPermission(deny=["pay"])])
    (found,) = await agent.recover()
    assert find_result(found.result).in_doubt
    assert not ledger.checks


FAULTS = st.sampled_from(["ok", "lost before", "lost after", 0.4, 1.0, 0.8 * SETTLE])


CRASHES = st.lists(st.tuples(st.integers(1, 7), st.booleans()), max_size=4)


@given(st.lists(FAULTS, max_size=3), CRASHES)
def test_whatever_is_lost_or_killed_a_write_happens_once_or_its_check_says_that_it_did_not(
    faults: list[str | float], crashes: list[tuple[int, bool]]
) -> None:
    async def act() -> None:
        ledger, journal = Ledger(FakeClock(), *faults), MemoryJournal()
        for moment, before in [*crashes, (99, False)]:
            agent = make_agent(ledger, journal=CrashAt(journal, moment, before=before))
            with contextlib.suppress(SimulatedCrash):
                if await journal.read("s"):
                    await agent.recover()
                else:
                    await agent.run("go", session="s")
        await ledger.clock.sleep(100)
        events = [record.event for record in await journal.read("s")]
        (finished,) = [event for event in events if isinstance(event, ToolFinished)]
        assert isinstance(events[-1], TurnClosed)
        assert not finished.result.in_doubt
        assert len(ledger.paid) == (not finished.result.is_error)

    asyncio.run(act())


async def test_a_recorded_turn_with_checks_is_replayed() -> None:
    for faults in (["lost before"], ["lost after"], ["lost before"] * 2):
        ledger, journal = Ledger(FakeClock(), *faults), MemoryJournal()
        agent = make_agent(ledger, journal=journal)
        await agent.run("go", session="s")
        looked = len(ledger.checks)
        await replay(journal, agent)
        assert len(ledger.checks) == looked


# -- bad input


@pytest.mark.parametrize("effect", ["read", "idempotent", None])
def test_only_a_write_has_a_check(effect: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"tool\.check: is for a tool with effect=\"write"):
        tool(effect=effect, check=fail)


def test_a_check_needs_a_time_limit() -> None:
    @tool(effect="write", check=fail)
    def pay() -> str:
        """Pay."""
        return ""

    with pytest.raises(ConfigurationError, match=r"tool\.timeout: is missing, and pay has a check"):
        Agent(ScriptedModel("x"), tools=[pay])
    Agent(ScriptedModel("x"), tools=[pay], tool_timeout=30)


@pytest.mark.parametrize("field", ["timeout", "settle", "retry"])
@pytest.mark.parametrize("value", [-1, "soon", float("nan")])
def test_wrong_settings_of_a_check_are_refused(field: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"check\.{field}"):
        Check(fail, **{field: value})  # type: ignore[arg-type]
