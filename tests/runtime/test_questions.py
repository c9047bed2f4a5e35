"""Somebody is asked: answered, denied, too late, twice, by the wrong type, by nobody, from a thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.tool_results import results_in_history

from holdfast import Agent, Limits, tool
from holdfast.core import events as ev
from holdfast.core.errors import (
    AnswerTypeError,
    ConfigurationError,
    LimitError,
    UnansweredError,
)
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import ToolCall
from holdfast.core.question_log import restore_question
from holdfast.core.questions import (
    Answer,
    Approved,
    ClarificationQuestion,
    Continued,
    Denied,
    PermissionQuestion,
    Question,
)
from holdfast.journal.memory import MemoryJournal
from holdfast.middleware.chain import NO_HOOKS
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.driver import drive_turn
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.questions.open_question import Receipt, address_answer
from holdfast.runtime.sessions.session_pool import OpenSession
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.context import ToolContext

seen: list[object] = []


@pytest.fixture(autouse=True)
def _clear() -> None:
    seen.clear()


@tool(effect="write")
async def pay(ctx: ToolContext, euros: int = 10) -> str:
    """Pay."""
    answer = await ctx.ask(PermissionQuestion(tool="pay", arguments={"euros": euros}))
    seen.append(answer)
    if isinstance(answer, Denied):
        return f"denied: {answer.reason}"
    return f"paid {(answer.arguments or {'euros': euros})['euros']}"


@tool(effect="read")
async def where(ctx: ToolContext) -> str:
    """Ask for a city."""
    return await ctx.ask(ClarificationQuestion(question="Which city?", options=("Porto", "Faro")))


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def still() -> FakeClock:
    return FakeClock(auto=False)


def agent(*calls: ToolCall, clock: FakeClock | None = None, **options: Any) -> Agent[str]:
    model = ScriptedModel(calls, "done")
    return Agent(model, tools=[pay, where], clock=clock or still(), **options)


async def watch(
    run: RunStream[str], answer: Callable[[Question[Any]], object] = lambda request: None
) -> list[object]:
    items: list[object] = []
    async for item in run:
        items.append(item)
        if isinstance(item, Question):
            answer(item)
    return items


# Answered.


async def test_an_answer_from_the_stream_reaches_the_tool() -> None:
    async with agent(call("pay")).stream("go") as run:
        items = await watch(run, lambda request: run.answer(request.approve()))  # type: ignore[attr-defined]
    assert results_in_history(run.result) == ["paid 10"]
    asked = next(item for item in items if isinstance(item, PermissionQuestion))
    assert asked == PermissionQuestion(
        key="t1.i0.tool.0.ask.0",
        binding=asked.binding,
        tool="pay",
        arguments={"euros": 10},
        description="Pay.",
    )
    kinds = [
        type(item)
        for item in items
        if type(item).__module__ == ev.__name__ and "Question" in type(item).__name__
    ]
    assert kinds == [ev.QuestionAsked, ev.QuestionAnswered]


async def test_a_denial_reaches_the_tool_with_its_reason() -> None:
    async with agent(call("pay")).stream("go") as run:
        await watch(run, lambda request: run.answer(request, Denied(reason="Too much.")))
    assert results_in_history(run.result) == ["denied: Too much."]


async def test_edited_arguments_reach_the_tool() -> None:
    async with agent(call("pay")).stream("go") as run:
        await watch(run, lambda request: run.answer(request, Approved(arguments={"euros": 3})))
    assert results_in_history(run.result) == ["paid 3"]


async def test_a_handler_answers_addressed_or_bare() -> None:
    async def addressed(request: Question[Any]) -> object:
        assert isinstance(request, PermissionQuestion)
        return request.approve()

    async def bare(request: Question[Any]) -> object:
        return Approved()

    for handler in (addressed, bare):
        result = await agent(call("pay"), on_question=handler).run("go")
        assert results_in_history(result) == ["paid 10"]


async def test_a_handler_that_answers_nothing_leaves_the_question_to_the_stream() -> None:
    async def shy(request: Question[Any]) -> object:
        return None

    given = agent(call("where"), on_question=shy)
    async with given.stream("go") as run:
        await watch(run, lambda request: run.answer(request, "Faro"))
    assert results_in_history(run.result) == ["Faro"]
    alone = await agent(call("pay"), on_question=shy).run("go")
    assert isinstance(seen[-1], Denied)
    assert seen[-1].because == "nobody"
    assert "on_question" in results_in_history(alone)[0]


async def test_run_sync_asks_its_handler() -> None:
    async def handler(request: Question[Any]) -> object:
        return Approved()

    assert results_in_history(agent(call("pay"), on_question=handler).run_sync("go")) == ["paid 10"]


async def test_two_questions_of_parallel_tools_are_told_apart() -> None:
    calls = (call("pay", '{"euros": 1}', "a"), call("where", call_id="b"))
    requests: list[Question[Any]] = []

    async with agent(*calls).stream("go") as run:

        def both(request: Question[Any]) -> None:
            requests.append(request)
            if len(requests) == 2:
                for one in reversed(requests):
                    city = isinstance(one, ClarificationQuestion)
                    run.answer(one, "Porto" if city else Denied(reason="no"))

        await watch(run, both)
    assert results_in_history(run.result) == ["denied: no", "Porto"]
    assert {one.key for one in requests} == {"t1.i0.tool.0.ask.0", "t1.i0.tool.1.ask.0"}


async def test_two_questions_of_one_tool_have_numbers_of_their_own() -> None:
    @tool(effect="read")
    async def both(ctx: ToolContext) -> str:
        """Ask twice."""
        first = ctx.ask(ClarificationQuestion(question="A?"))
        second = ctx.ask(ClarificationQuestion(question="A?"))
        return " ".join(await asyncio.gather(first, second))

    keys: list[str] = []
    given = Agent(ScriptedModel(call("both"), "done"), tools=[both], clock=still())
    async with given.stream("go") as run:

        def one(request: Question[Any]) -> None:
            keys.append(request.key)
            run.answer(request, request.key[-1])

        await watch(run, one)
    assert keys == ["t1.i0.tool.0.ask.0", "t1.i0.tool.0.ask.1"]
    assert results_in_history(run.result) == ["0 1"]


# Fast, from elsewhere, many.


async def test_an_answer_that_comes_before_the_wait_begins_is_not_lost() -> None:
    """The waiter is there before anybody can see the question."""
    questions = QuestionBroker(has_reader=True)

    class Eager(MemoryJournal):
        async def append(
            self, run: str, event: ev.Event, effect: Any = None, *, marker: ev.Event | None = None
        ) -> None:
            await super().append(run, event, effect, marker=marker)
            if isinstance(event, ev.QuestionAsked):
                assert questions.answer(restore_question(event, run).answer(Approved()))

    given = agent(call("pay"), clock=FakeClock())
    run = new_turn(given, SessionMachine(), Eager(), questions)
    await opened(run)
    assert seen == [Approved()]
    assert run.plan.clock.sleeps == [300.0]  # type: ignore[attr-defined]


async def opened(run: ActiveTurn) -> None:
    from holdfast.core.messages import user

    await run.open_turn(user("go"))
    await drive_turn(run)


async def test_a_thread_may_answer() -> None:
    async with agent(call("pay")).stream("go") as run:
        threads: list[threading.Thread] = []

        def from_thread(request: Question[Any]) -> None:
            thread = threading.Thread(target=run.answer, args=(request, Approved()))
            threads.append(thread)
            thread.start()

        await watch(run, from_thread)
        threads[0].join()
    assert results_in_history(run.result) == ["paid 10"]


async def test_of_many_threads_one_wins() -> None:
    receipts: list[Receipt] = []
    async with agent(call("where")).stream("go") as run:
        threads: list[threading.Thread] = []

        def race(request: Question[Any]) -> None:
            start = threading.Barrier(8)

            def answer(city: str) -> None:
                start.wait()
                receipts.append(run.answer(request, city))

            threads.extend(threading.Thread(target=answer, args=(f"city {n}",)) for n in range(8))
            for thread in threads:
                thread.start()

        await watch(run, race)
        for thread in threads:
            thread.join()
    assert sorted(receipt.reason for receipt in receipts) == ["", *["answered"] * 7]
    assert results_in_history(run.result)[0].startswith("city")


async def test_another_task_may_answer() -> None:
    arrived: asyncio.Future[Question[Any]] = asyncio.get_running_loop().create_future()

    async with agent(call("pay")).stream("go") as run:

        async def elsewhere() -> None:
            request = await arrived
            await asyncio.sleep(0)
            run.answer(request, Approved())

        other = asyncio.create_task(elsewhere())
        await watch(run, arrived.set_result)
        await other
    assert results_in_history(run.result) == ["paid 10"]


async def test_a_hundred_runs_of_one_agent_keep_their_questions_apart() -> None:
    @tool(effect="read")
    async def echo(ctx: ToolContext, n: int) -> str:
        """Ask for a number."""
        return await ctx.ask(ClarificationQuestion(question=str(n)))

    def ask(request: Any) -> ToolCall:
        number = request.messages[-1].text
        return call("echo", f'{{"n": {number}}}')

    model = ScriptedModel(*[ask] * 100, *["done"] * 100)
    given = Agent(model, tools=[echo], clock=still())

    async def one(number: int) -> list[str]:
        async with given.stream(str(number)) as run:

            def answer(request: Question[Any]) -> None:
                assert isinstance(request, ClarificationQuestion)
                asyncio.get_running_loop().call_soon(run.answer, request, f"{request.question}!")

            await watch(run, answer)
            return results_in_history(run.result)

    found = await asyncio.gather(*(one(number) for number in range(100)))
    assert found == [[f"{number}!"] for number in range(100)]


# No answer.


async def test_without_anybody_to_ask_the_question_is_denied_at_once() -> None:
    clock = still()
    result = await agent(call("pay"), clock=clock).run("go")
    assert results_in_history(result) == [
        (
            "denied: Nobody is there to answer. Give the agent `on_question=...`, or use "
            "`agent.stream(...)` and `run.answer(...)`."
        )
    ]
    assert clock.sleeps == []


async def test_five_minutes_without_an_answer_are_a_timeout_and_no_denial_by_a_person() -> None:
    clock = FakeClock()
    async with agent(call("pay"), clock=clock).stream("go") as run:
        items = await watch(run)
    assert clock.sleeps == [300.0]
    assert seen == [
        Denied(
            reason="Permission request timed out. Please respond to permission requests promptly.",
            because="timeout",
        )
    ]
    unanswered = [item for item in items if isinstance(item, ev.QuestionUnanswered)]
    assert [event.why for event in unanswered] == ["timeout"]


async def test_a_question_whose_kind_cannot_say_no_fails_its_tool_and_is_not_repeated() -> None:
    clock = FakeClock()
    async with agent(call("where"), clock=clock).stream("go") as run:
        items = await watch(run)
    assert results_in_history(run.result) == ["Error: Function 'where' failed."]
    assert len([item for item in items if isinstance(item, Question)]) == 1
    assert clock.sleeps == [300.0]


async def test_timeout_cancellation_and_denial_are_three_results() -> None:
    async def causes(act: Callable[[RunStream[str], PermissionQuestion], object]) -> str:
        async with agent(call("pay"), clock=FakeClock()).stream("go") as run:
            await watch(run, lambda request: act(run, request))  # type: ignore[arg-type]
        answer = seen[-1]
        assert isinstance(answer, Denied)
        return answer.because

    assert await causes(lambda run, request: None) == "timeout"
    assert await causes(lambda run, request: run.dismiss(request)) == "cancelled"
    assert await causes(lambda run, request: run.answer(request.deny())) == "person"


async def test_cancelling_the_run_while_it_asks_leaves_nothing_behind() -> None:
    clock, before = still(), asyncio.all_tasks()
    receipts: list[Receipt] = []
    async with agent(call("pay"), clock=clock).stream("go") as run:
        requests: list[Question[Any]] = []

        def stop(request: Question[Any]) -> None:
            requests.append(request)
            run.cancel()

        await watch(run, stop)
        receipts.append(run.answer(requests[0], Approved()))
    assert receipts == [Receipt("late")]
    assert seen == []
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_handler_is_cancelled_with_its_question() -> None:
    ended: list[str] = []
    started = asyncio.Event()

    async def slow(request: Question[Any]) -> object:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("handler")
        return None

    async with agent(call("pay"), on_question=slow).stream("go") as run:

        async def answer(request: Question[Any]) -> None:
            await started.wait()
            run.answer(request, Approved())

        tasks: list[asyncio.Task[None]] = []
        await watch(run, lambda request: tasks.append(asyncio.create_task(answer(request))))
    assert results_in_history(run.result) == ["paid 10"]
    assert ended == ["handler"]


async def test_a_handler_that_raises_is_a_no_and_the_log_tells(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(request: Question[Any]) -> object:
        raise RuntimeError("out of paper")

    with caplog.at_level(logging.ERROR, "holdfast"):
        await agent(call("pay"), on_question=broken).run("go")
    assert isinstance(seen[-1], Denied)
    assert seen[-1].because == "failed"
    assert "out of paper" not in seen[-1].reason
    assert "out of paper" in caplog.text


async def test_whoever_stops_watching_denies_what_is_open() -> None:
    async with agent(call("pay")).stream("go") as run:
        async for item in run:
            if isinstance(item, PermissionQuestion):
                break
        result = await run.wait()
    assert isinstance(seen[-1], Denied)
    assert seen[-1].because == "nobody"
    assert results_in_history(result)[0].startswith("denied: Nobody")


async def test_a_tool_may_stop_waiting_and_the_question_waits_no_more() -> None:
    @tool(effect="read")
    async def impatient(ctx: ToolContext) -> str:
        """Ask, and give up."""
        try:
            async with asyncio.timeout(0.01):
                await ctx.ask(ClarificationQuestion(question="?"))
        except TimeoutError:
            return "gave up"
        return "answered"

    given = Agent(ScriptedModel(call("impatient"), "done"), tools=[impatient], clock=still())
    requests: list[Question[Any]] = []
    async with given.stream("go") as run:
        await watch(run, requests.append)
        assert run.answer(requests[0], "Porto") == Receipt("late")
    assert results_in_history(run.result) == ["gave up"]


# Wrong answers.


async def test_unknown_double_and_late_answers_are_refused_and_harm_nothing() -> None:
    receipts: list[Receipt] = []
    async with agent(call("where")).stream("go") as run:

        def answer(request: Question[Any]) -> None:
            receipts.append(run.answer(Answer("t1.i0.tool.9.ask.0", "?", "")))
            receipts.append(run.dismiss(msgspec.structs.replace(request, key="nobody")))
            receipts.append(run.answer(request, "Porto"))
            receipts.append(run.answer(request, "Faro"))
            receipts.append(run.dismiss(request))

        items = await watch(run, answer)
        (request,) = [item for item in items if isinstance(item, Question)]
        receipts.append(run.answer(request, "Braga"))
    reasons = [receipt.reason for receipt in receipts]
    assert reasons == ["unknown", "unknown", "", "answered", "answered", "answered"]
    assert [bool(receipt) for receipt in receipts] == [False, False, True, False, False, False]
    assert results_in_history(run.result) == ["Porto"]


async def test_an_answer_after_the_timeout_is_late() -> None:
    async with agent(call("pay"), clock=FakeClock()).stream("go") as run:
        requests: list[Question[Any]] = []
        await watch(run, requests.append)
        assert run.answer(requests[0], Approved()) == Receipt("late")
        assert run.dismiss(requests[0]) == Receipt("late")


async def test_a_wrong_type_is_an_error_for_who_answers_and_the_question_stays_open() -> None:
    async with agent(call("pay")).stream("go") as run:

        def answer(request: Question[Any]) -> None:
            with pytest.raises(AnswerTypeError) as caught:
                run.answer(request, Continued())
            assert str(caught.value) == (
                "Expected response of type Approved | Denied, but received Continued"
            )
            run.answer(request, Approved())

        await watch(run, answer)
    assert results_in_history(run.result) == ["paid 10"]


async def test_a_handler_with_a_wrong_type_is_a_typed_error_in_the_tool() -> None:
    async def wrong(request: Question[Any]) -> object:
        return True

    caught: list[Exception] = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        try:
            await ctx.ask(PermissionQuestion(tool="x"))
        except AnswerTypeError as error:
            caught.append(error)
        return "not done"

    given = Agent(ScriptedModel(call("ask"), "done"), tools=[ask], on_question=wrong)
    await given.run("go")
    assert str(caught[0]) == "Expected response of type Approved | Denied, but received bool"


@pytest.mark.parametrize("handler", [lambda request: None, 3, "yes"])
def test_a_handler_that_is_not_async_is_refused(handler: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_question: must be an async function"):
        agent(call("pay"), on_question=handler)


@pytest.mark.parametrize(
    ("request_", "timeout", "problem"),
    [
        ("pay?", 1.0, "request: must be Question, got str"),
        (PermissionQuestion(tool="x"), 0.0, "timeout: must be a finite number above 0"),
        (PermissionQuestion(tool="x", arguments={"a": object()}), 1.0, "cannot be saved"),
    ],
)
async def test_a_wrong_question_is_refused_before_anybody_is_asked(
    request_: Any, timeout: float, problem: str
) -> None:
    caught: list[str] = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        try:
            await ctx.ask(request_, timeout=timeout)
        except ConfigurationError as error:
            caught.append(str(error))
        return "no"

    given = Agent(ScriptedModel(call("ask"), "done"), tools=[ask], clock=still())
    async with given.stream("go") as run:
        items = await watch(run)
    assert problem in caught[0]
    assert [item for item in items if isinstance(item, Question)] == []


async def test_a_context_of_a_test_says_what_is_missing() -> None:
    context = ToolContext(run_id="r", key="k")
    with pytest.raises(ConfigurationError, match="no question can be asked"):
        await context.ask(PermissionQuestion(tool="x"))


async def test_a_test_can_give_a_context_its_own_answers() -> None:
    async def yes(scope: str, attempt: int, request: Any, timeout: float | None) -> object:
        return Approved()

    context = ToolContext(run_id="r", key="k", asker=yes)
    assert await pay.function(context, 7) == "paid 7"


# Time.


@pytest.mark.slow  # takes half a second or more
async def test_the_limits_of_tool_and_turn_stand_still_while_a_person_thinks() -> None:
    @tool(effect="read", timeout=0.5)
    async def slow_person(ctx: ToolContext) -> str:
        """Ask."""
        return await ctx.ask(ClarificationQuestion(question="?"), timeout=None)

    given = Agent(
        ScriptedModel(call("slow_person"), "done"),
        tools=[slow_person],
        limits=Limits(seconds=0.7),
    )
    async with given.stream("go") as run:

        def later(request: Question[Any]) -> None:
            asyncio.get_running_loop().call_later(0.9, run.answer, request, "Porto")

        await watch(run, later)
    assert results_in_history(run.result) == ["Porto"]


async def test_after_the_answer_the_limit_of_the_tool_counts_again() -> None:
    @tool(effect="write", timeout=0.05)
    async def hangs(ctx: ToolContext) -> str:
        """Ask, and hang."""
        await ctx.ask(ClarificationQuestion(question="?"))
        await asyncio.Event().wait()
        return ""

    given = Agent(ScriptedModel(call("hangs"), "done"), tools=[hangs], clock=still())
    async with given.stream("go") as run:
        await watch(run, lambda request: run.answer(request, "now"))
    assert results_in_history(run.result)[0].startswith("Error: Function 'hangs' failed.")


async def test_after_the_answer_the_limit_of_the_turn_counts_again() -> None:
    @tool(effect="read")
    async def hangs(ctx: ToolContext) -> str:
        """Ask, and hang."""
        await ctx.ask(ClarificationQuestion(question="?"))
        await asyncio.Event().wait()
        return ""

    given = Agent(
        ScriptedModel(call("hangs")),
        tools=[hangs],
        limits=Limits(seconds=0.1),
        tool_timeout=60,
        clock=still(),
    )
    async with given.stream("go") as run:
        with pytest.raises(LimitError):
            await watch(run, lambda request: run.answer(request, "now"))


# Again: retries and restarts.


async def test_a_second_attempt_finds_the_answer_of_the_first_and_asks_nobody() -> None:
    attempts: list[object] = []

    @tool(effect="read")
    async def flaky(ctx: ToolContext) -> str:
        """Ask, and fail once."""
        attempts.append(await ctx.ask(ClarificationQuestion(question="?")))
        if len(attempts) == 1:
            raise RuntimeError("not yet")
        return "ok"

    given = Agent(ScriptedModel(call("flaky"), "done"), tools=[flaky], clock=FakeClock())
    async with given.stream("go") as run:
        items = await watch(run, lambda request: run.answer(request, "Porto"))
    assert attempts == ["Porto", "Porto"]
    assert len([item for item in items if isinstance(item, Question)]) == 1


async def test_a_yes_is_never_used_for_another_question() -> None:
    amounts = iter([10, 1000])

    @tool(effect="read")
    async def greedy(ctx: ToolContext) -> str:
        """Ask for more at each attempt."""
        euros = next(amounts)
        answer = await ctx.ask(PermissionQuestion(tool="greedy", arguments={"euros": euros}))
        if euros == 10:
            raise RuntimeError("again")
        return type(answer).__name__

    given = Agent(ScriptedModel(call("greedy"), "done"), tools=[greedy], clock=FakeClock())
    keys: list[str] = []

    async with given.stream("go") as run:

        def answer(request: Question[Any]) -> None:
            assert isinstance(request, PermissionQuestion)
            keys.append(request.key)
            small = request.arguments["euros"] == 10
            run.answer(request.approve() if small else request.deny())

        await watch(run, answer)
    assert results_in_history(run.result) == ["Denied"]
    assert keys == ["t1.i0.tool.0.ask.0", "t1.i0.tool.0.ask.1"]


class Crash(BaseException):
    pass


def new_turn(
    given: Agent[str], machine: SessionMachine, journal: MemoryJournal, questions: QuestionBroker
) -> ActiveTurn:
    opened = OpenSession(machine, NO_HOOKS.new_folds(), journal)
    return ActiveTurn(given._engine.plan, "r", opened, TurnContext(questions=questions))


async def crashed(
    kill: Callable[[ev.Event], bool], answer: Callable[[QuestionBroker], Awaitable[None]]
) -> tuple[SessionMachine, MemoryJournal]:
    """A run that dies when `kill` says so, and what its journal says, read back from JSON."""
    questions = QuestionBroker(has_reader=True)

    class Dying(MemoryJournal):
        async def append(
            self, run: str, event: ev.Event, effect: Any = None, *, marker: ev.Event | None = None
        ) -> None:
            if kill(event):
                raise Crash
            await super().append(run, event, effect, marker=marker)

    journal = Dying()
    run = new_turn(agent(call("pay")), SessionMachine(), journal, questions)
    other = asyncio.create_task(answer(questions))  # type: ignore[arg-type]
    with pytest.raises(Crash):
        await opened(run)
    other.cancel()
    machine, again = SessionMachine(), MemoryJournal()
    for record in await journal.read("r"):
        event = msgspec.json.decode(msgspec.json.encode(record.event), type=ev.Event)
        machine.apply(event)
        await again.append("r", event)
    return machine, again


async def resumed(
    machine: SessionMachine, journal: MemoryJournal, questions: QuestionBroker
) -> list[type[ev.Event]]:
    before = len(await journal.read("r"))
    given = agent(call("pay"), clock=FakeClock())
    given._engine.plan.model._script.pop(0)  # type: ignore[attr-defined]  # read before the crash
    run = new_turn(given, machine, journal, questions)
    await drive_turn(run)
    assert machine.status is ev.Status.COMPLETED
    return [type(record.event) for record in (await journal.read("r"))[before:]]


async def _approve(questions: QuestionBroker) -> None:
    while (waiter := questions._open_questions.get("t1.i0.tool.0.ask.0")) is None:
        await asyncio.sleep(0)
    assert questions.answer(address_answer(waiter.question, Approved()))


async def test_after_a_crash_the_tool_runs_again_and_finds_the_answer() -> None:
    machine, journal = await crashed(lambda event: isinstance(event, ev.ToolFinished), _approve)
    seen.clear()
    events = await resumed(machine, journal, QuestionBroker())
    assert seen == [Approved()]
    assert ev.QuestionAsked not in events
    assert ev.QuestionAnswered not in events


async def test_after_a_crash_an_open_question_is_asked_again_under_its_key() -> None:
    machine, journal = await crashed(lambda event: isinstance(event, ev.QuestionAnswered), _approve)
    assert [asked.kind for asked in machine.questions.open_questions] == ["PermissionQuestion"]
    keys: list[str] = []

    async def handler(request: Question[Any]) -> object:
        keys.append(request.key)
        return Denied(reason="not after all")

    events = await resumed(machine, journal, QuestionBroker(handler))
    assert keys == ["t1.i0.tool.0.ask.0"]
    assert seen[-1] == Denied(reason="not after all")
    assert ev.QuestionAsked not in events
    assert ev.QuestionAnswered in events


async def test_after_a_crash_a_timeout_stays_a_timeout() -> None:
    async def expire(questions: QuestionBroker) -> None:
        while (waiter := questions._open_questions.get("t1.i0.tool.0.ask.0")) is None:
            await asyncio.sleep(0)
        waiter.settle("timeout")

    machine, journal = await crashed(lambda event: isinstance(event, ev.ToolFinished), expire)
    seen.clear()
    await resumed(machine, journal, QuestionBroker())
    assert isinstance(seen[0], Denied)
    assert seen[0].because == "timeout"


async def test_a_hook_asks_with_numbers_of_its_own() -> None:
    given = agent(call("pay"))
    machine = SessionMachine()

    async def handler(request: Question[Any]) -> object:
        return "Porto" if isinstance(request, ClarificationQuestion) else Approved()

    run = new_turn(given, machine, MemoryJournal(), QuestionBroker(handler))
    from holdfast.core.messages import user

    await run.open_turn(user("go"))
    ask = run.questions.make_tool_asker(run)
    key = "t1.i0.model"
    assert await ask(key, 1, ClarificationQuestion(question="?"), 300.0) == "Porto"
    assert await ask(key, 1, PermissionQuestion(tool="x"), 5.0) == Approved()
    assert list(machine.questions.outcomes) == ["t1.i0.model.ask.0", "t1.i0.model.ask.1"]
    # Another process, which nobody watches, finds what was answered, and nothing else.
    again = QuestionBroker().make_tool_asker(run)
    assert await again(key, 1, ClarificationQuestion(question="?"), None) == "Porto"
    with pytest.raises(UnansweredError) as caught:
        await again(key, 1, ClarificationQuestion(question="another"), None)
    assert caught.value.why == "nobody"


async def test_whoever_shows_a_question_learns_that_it_ended() -> None:
    async with agent(call("pay"), clock=FakeClock()).stream("go") as run:
        dialogs: list[asyncio.Task[None]] = []
        await watch(
            run,
            lambda request: dialogs.append(asyncio.ensure_future(run.wait_until_ended(request))),  # type: ignore[arg-type]
        )
        await asyncio.wait_for(dialogs[0], 60)
        await asyncio.wait_for(run.wait_until_ended("unknown"), 60)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("answered", [False, True])
async def test_an_approval_may_wait_across_a_restart_since_the_tool_has_not_begun(
    answered: bool,
) -> None:
    """While a write waits for its permission it is not in doubt; after the yes it is."""
    paid: list[int] = []

    @tool(effect="write")
    async def send(euros: int) -> str:
        """Send."""
        paid.append(euros)
        return f"sent {euros}"

    class Dying(MemoryJournal):
        dead = False

        async def append(
            self, run: str, event: ev.Event, effect: Any = None, *, marker: ev.Event | None = None
        ) -> None:
            last = ev.ToolFinished if answered else ev.QuestionAnswered
            if self.dead or isinstance(event, last):
                self.dead = True
                raise Stopped
            await super().append(run, event, effect, marker=marker)

    async def yes(request: Question[Any]) -> object:
        assert isinstance(request, PermissionQuestion)
        return request.approve()

    def worker(journal: MemoryJournal, *script: Any) -> Agent[str]:
        return Agent(
            ScriptedModel(*script),
            tools=[send],
            middleware=[ToolPermission(ask=["send"])],
            journal=journal,
            on_question=yes,
            clock=still(),
        )

    journal = Dying()
    with pytest.raises(Stopped):
        await worker(journal, call("send", '{"euros": 5}')).run("go", session="s")
    again = MemoryJournal()
    for record in await journal.read("s"):
        event = msgspec.json.decode(msgspec.json.encode(record.event), type=ev.Event)
        await again.append("s", event)
    paid.clear()
    result = await worker(again, "done").resume("s")
    assert paid == ([] if answered else [5])
    assert ("unknown" in results_in_history(result)[0]) is answered


async def test_nobody_polls_while_a_question_waits() -> None:
    """One timer and one wait: the loop has nothing to do until somebody answers."""
    clock = still()
    async with agent(call("pay"), clock=clock).stream("go") as run:
        async for item in run:
            if isinstance(item, Question):
                for _ in range(20):
                    await asyncio.sleep(0)
                loop = asyncio.get_running_loop()
                turns: list[int] = []
                for _ in range(5):
                    # What is ready beside this test itself.
                    turns.append(len(loop._ready))  # type: ignore[attr-defined]
                    await asyncio.sleep(0)
                assert turns == [0] * 5
                run.answer(item, Approved())
    assert clock.sleeps == [300.0]
