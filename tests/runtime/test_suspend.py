"""A run that asks while nobody answers ends as waiting, and goes on when somebody has answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.tool_results import results_in_history

from holdfast import Agent, Limits, tool
from holdfast.core import events as ev
from holdfast.core.batch import IN_DOUBT_TEXT, NOT_RUN_TEXT
from holdfast.core.errors import AnswerTypeError, ConfigurationError, WaitingError
from holdfast.core.events import Status
from holdfast.core.messages import ToolCall
from holdfast.core.question_log import UnknownQuestion, compute_binding
from holdfast.core.questions import (
    Answer,
    AnyQuestion,
    Approved,
    ClarificationQuestion,
    ContinuationQuestion,
    Continued,
    PermissionQuestion,
    Question,
    question_content,
)
from holdfast.journal.memory import MemoryJournal
from holdfast.middleware.continuation_permission import ContinuationPermission
from holdfast.middleware.decisions import Deny, Patch, Stop
from holdfast.middleware.hook_contexts import (
    AfterTool,
    AfterTurn,
    BeforeTool,
    BeforeTools,
    BeforeTurn,
)
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.runtime.questions.open_question import Receipt
from holdfast.runtime.questions.question_checks import _shows_the_same
from holdfast.runtime.result import Result
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.context import ToolContext


class World:
    """What tools did, across all processes; `replies` is what the model says, by what it was told."""

    def __init__(self, *replies: Any, journal: MemoryJournal | None = None) -> None:
        self.did: list[str] = []
        self.asked_models = 0
        self.replies = replies
        self.journal = journal or MemoryJournal()
        self.clock = FakeClock(auto=False)

    def reply(self, request: Any) -> Any:
        self.asked_models += 1
        return self.replies[sum(m.role == "assistant" for m in request.messages)]

    def answer_to(self, key: str, value: object) -> Answer[object]:
        """An answer to the question of this key; one that fits none, if it is not saved yet."""
        event, _ = self.journal._runs.get("s", {}).get(f"{key}.asked", (None, None))
        asked = isinstance(event, ev.QuestionAsked)
        return Answer(key, value, compute_binding(event, "s") if asked else "")

    def tools(self) -> list[Any]:
        @tool(effect="write")
        async def book(ctx: ToolContext, city: str) -> str:
            """Book after asking in which class."""
            self.did.append(f"before {city}")
            chosen = await ctx.ask(ClarificationQuestion(question=f"Class to {city}?"))
            self.did.append(f"booked {city}")
            return f"{city} in class {chosen}"

        @tool(effect="write")
        async def pay(euros: int) -> str:
            """Pay."""
            self.did.append(f"paid {euros}")
            return f"paid {euros}"

        @tool(effect="write")
        def ring(ctx: ToolContext) -> str:
            """Ask from a thread."""
            return f"rang {asyncio.run(ctx.ask(ClarificationQuestion(question='Whom?')))}"

        return [book, pay, ring]

    def agent(self, **options: Any) -> Agent[str]:
        """A fresh one, as after a restart."""
        given: dict[str, Any] = {"on_wait": "suspend", "journal": self.journal, **options}
        tools = given.pop("tools", None) or self.tools()
        return Agent(ScriptedModel(*[self.reply] * 200), tools=tools, clock=self.clock, **given)

    async def events(self, run_id: str = "s") -> list[ev.Event]:
        return [record.event for record in await self.journal.read(run_id)]


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def book(city: str, call_id: str = "c1") -> ToolCall:
    return call("book", f'{{"city": "{city}"}}', call_id)


def pay(euros: int, call_id: str = "c1") -> ToolCall:
    return call("pay", f'{{"euros": {euros}}}', call_id)


def strangers() -> list[asyncio.Task[Any]]:
    """Tasks that are neither this test's nor the test runner's."""
    return [
        task
        for task in asyncio.all_tasks()
        if task is not asyncio.current_task() and "TestRunner" not in repr(task)
    ]


# The whole way.


async def test_a_question_ends_the_run_as_waiting_and_an_answer_lets_it_go_on() -> None:
    world = World(book("Porto"), "done")
    first = await world.agent().run("go", session="s")
    assert first.status is Status.WAITING
    assert first.output is None
    (question,) = first.questions
    assert isinstance(question, ClarificationQuestion)
    assert (question.key, question.question) == ("t1.i0.tool.0.ask.0", "Class to Porto?")
    assert world.did == ["before Porto"]
    again = world.agent()
    assert await again.questions("s") == first.questions
    assert await again.answer("s", first.questions[0], "2")
    assert await again.questions("s") == ()
    result = await world.agent().resume("s")
    assert result.output == "done"
    assert result.status is Status.COMPLETED
    assert result.questions == ()
    assert results_in_history(result) == ["Porto in class 2"]
    assert world.did == ["before Porto", "before Porto", "booked Porto"]
    assert world.asked_models == 2
    assert strangers() == []


async def test_the_messages_are_those_of_a_run_that_was_answered_live() -> None:
    replies = ((book("Porto", "a"), pay(5, "b"), book("Faro", "c")), "done")
    live, later = World(*replies), World(*replies)

    async def at_once(request: AnyQuestion) -> object:
        return "1"

    expected = await live.agent(on_question=at_once).run("go", session="s")
    first = await later.agent().run("go", session="s")
    assert [asked.key for asked in first.questions] == ["t1.i0.tool.0.ask.0", "t1.i0.tool.2.ask.0"]
    assert later.did.count("paid 5") == 1
    for asked in first.questions:
        assert await later.agent().answer("s", asked, "1")
    result = await later.agent().resume("s")
    assert result.messages == expected.messages
    assert later.did.count("paid 5") == 1


async def test_with_some_answered_it_goes_on_and_waits_again() -> None:
    world = World((book("Porto", "a"), book("Faro", "b")), "done")
    first = await world.agent().run("go", session="s")
    await world.agent().answer("s", first.questions[1], "1")
    second = await world.agent().resume("s")
    assert second.status is Status.WAITING
    assert second.questions == first.questions[:1]
    assert "booked Faro" in world.did
    await world.agent().answer("s", first.questions[0], "2")
    result = await world.agent().resume("s")
    assert results_in_history(result) == ["Porto in class 2", "Faro in class 1"]
    assert world.did.count("booked Faro") == 1


async def test_resuming_without_an_answer_waits_again_and_writes_nothing() -> None:
    world = World(book("Porto"), "done")
    first = await world.agent().run("go", session="s")
    before = await world.events()
    again = await world.agent().resume("s")
    assert (again.status, again.questions) == (Status.WAITING, first.questions)
    assert await world.events() == before


async def test_resuming_with_a_handler_asks_it() -> None:
    world = World(book("Porto"), "done")
    await world.agent().run("go", session="s")

    async def now(request: AnyQuestion) -> object:
        return "3"

    result = await world.agent(on_question=now).resume("s")
    assert results_in_history(result) == ["Porto in class 3"]


async def test_a_run_without_a_session_waits_under_its_id() -> None:
    world = World(book("Porto"), "done")
    first = await world.agent().run("go")
    await world.agent().answer(first.run_id, first.questions[0], "2")
    assert (await world.agent().resume(first.run_id)).output == "done"


async def test_a_sync_tool_asks_from_its_thread() -> None:
    world = World(call("ring"), "done")
    first = await world.agent().run("go", session="s")
    assert [question.key for question in first.questions] == ["t1.i0.tool.0.ask.0"]
    await world.agent().answer("s", first.questions[0], "Ada")
    assert results_in_history(await world.agent().resume("s")) == ["rang Ada"]


async def test_a_sync_tool_may_ask_and_be_answered_at_once() -> None:
    world = World(call("ring"), "done")

    async def now(request: AnyQuestion) -> object:
        return "Ada"

    held = world.agent(on_wait="hold", on_question=now)
    assert results_in_history(await held.run("go")) == ["rang Ada"]


async def test_a_sync_tool_that_asks_is_let_go_when_the_run_is_cancelled() -> None:
    world = World(call("ring"), "done")
    async with world.agent(on_wait="hold").stream("go") as run:
        async for item in run:
            if isinstance(item, Question):
                run.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert strangers() == []


# Hooks that ask.


async def test_a_permission_waits_and_the_tool_runs_once_after_the_yes() -> None:
    world = World(pay(5), "done")
    options = {"middleware": [ToolPermission(ask=["pay"])]}
    first = await world.agent(**options).run("go", session="s")
    assert world.did == []
    (request,) = first.questions
    assert isinstance(request, PermissionQuestion)
    assert (request.tool, request.arguments) == ("pay", {"euros": 5})
    options = {"middleware": [ToolPermission(ask=["pay"])]}
    assert await world.agent(**options).answer("s", request.approve(arguments={"euros": 3}))
    result = await world.agent(**options).resume("s")
    assert results_in_history(result) == ["paid 3"]
    assert world.did == ["paid 3"]


async def test_a_no_that_comes_days_later_is_a_no() -> None:
    world = World(pay(5), "done")
    options = {"middleware": [ToolPermission(ask=["pay"])]}
    first = await world.agent(**options).run("go", session="s")
    world.clock.advance(3 * 86400)
    (request,) = first.questions
    assert isinstance(request, PermissionQuestion)
    await world.agent(**options).answer("s", request.deny("Too much."))
    assert results_in_history(await world.agent(**options).resume("s")) == ["Too much."]
    assert world.did == []


async def test_the_limit_of_iterations_waits_for_a_yes() -> None:
    world = World(pay(1), pay(2), "done")
    options: dict[str, Any] = {"middleware": [ContinuationPermission(1)]}
    first = await world.agent(**options).run("go", session="s")
    (request,) = first.questions
    assert isinstance(request, ContinuationQuestion)
    await world.agent(**options).answer("s", request.approve(2))
    result = await world.agent(**options).resume("s")
    assert result.output == "done"
    assert (world.did, world.asked_models) == (["paid 1", "paid 2"], 3)


class AskBefore(Middleware[None]):
    """Asks before all tools of a reply."""

    async def before_tools(self, context: BeforeTools) -> Deny | None:
        yes = await context.ask(ClarificationQuestion(question="All of them?"))
        return None if yes == "yes" else Deny("Not these.")


@pytest.mark.parametrize(("answer", "told"), [("yes", "paid 5"), ("no", "Not these.")])
async def test_a_hook_before_the_tools_is_not_passed_by(answer: str, told: str) -> None:
    world = World((pay(5, "a"), pay(6, "b")), "done")
    first = await world.agent(middleware=[AskBefore()]).run("go", session="s")
    assert first.status is Status.WAITING
    assert world.did == []
    await world.agent().answer("s", first.questions[0], answer)
    result = await world.agent(middleware=[AskBefore()]).resume("s")
    assert results_in_history(result)[0] == told


class AskAfter(Middleware[None]):
    """Asks when the tool has run."""

    async def after_tool(self, context: AfterTool) -> None:
        await context.ask(PermissionQuestion(tool="tell"))


async def test_what_a_hook_asks_after_the_act_is_not_suspended_since_the_act_would_be_repeated() -> (
    None
):
    world = World(pay(5), "done")
    result = await world.agent(middleware=[AskAfter()]).run("go", session="s")
    assert result.output == "done"
    assert world.did == ["paid 5"]
    unanswered = [one for one in await world.events() if isinstance(one, ev.QuestionUnanswered)]
    assert [one.why for one in unanswered] == ["nobody"]


class StopAtPay(Middleware[None]):
    """Ends the turn when something is to be paid."""

    async def before_tool(self, context: BeforeTool) -> Stop | None:
        return Stop("paying", "No money.") if context.tool == "pay" else None


async def test_a_stop_ends_the_turn_whatever_waits() -> None:
    world = World((book("Porto", "a"), pay(5, "b")), "done")
    result = await world.agent(middleware=[StopAtPay()]).run("go", session="s")
    assert (result.status, result.text) == (Status.STOPPED, "No money.")
    assert result.questions == ()
    assert strangers() == []


# A stream.


async def test_whoever_reads_the_stream_may_answer_before_the_next_item() -> None:
    world = World(book("Porto"), "done")
    async with world.agent().stream("go", session="s") as run:
        async for item in run:
            if isinstance(item, Question):
                run.answer(item, "1")
    assert results_in_history(run.result) == ["Porto in class 1"]
    assert world.did == ["before Porto", "booked Porto"]


async def test_a_reader_that_goes_on_without_answering_ends_the_run_as_waiting() -> None:
    world = World((book("Porto", "a"), book("Faro", "b")), "done")
    async with world.agent().stream("go", session="s") as run:
        seen = [item async for item in run if isinstance(item, Question)]
    result = run.result
    assert result.status is Status.WAITING
    assert {one.key for one in result.questions} == {one.key for one in seen}
    assert world.clock.sleeps == [300.0, 300.0]
    assert strangers() == []


async def test_whoever_stops_reading_lets_the_run_wait() -> None:
    world = World(book("Porto"), "done")
    async with world.agent().stream("go", session="s") as run:
        async for item in run:
            if isinstance(item, Question):
                break
        result = await run.wait()
    assert result.status is Status.WAITING


async def test_a_reader_that_thinks_too_long_finds_the_run_waiting() -> None:
    world = World(book("Porto"), "done")
    async with world.agent().stream("go", session="s") as run:
        async for item in run:
            if isinstance(item, Question):
                while not world.clock.sleeps:
                    await asyncio.sleep(0)
                world.clock.advance(300)
                while run._task is not None and not run._task.done():
                    await asyncio.sleep(0)
                assert run.answer(item, "1") == Receipt("late")
    assert run.result.status is Status.WAITING
    assert await world.agent().answer("s", run.result.questions[0], "1")


async def test_a_handler_that_leaves_it_to_the_stream_lets_the_reader_answer() -> None:
    world = World(book("Porto"), "done")

    async def shy(request: AnyQuestion) -> object:
        return None

    async with world.agent(on_question=shy).stream("go") as run:
        async for item in run:
            if isinstance(item, Question):
                run.answer(item, "1")
    assert results_in_history(run.result) == ["Porto in class 1"]
    alone = await world.agent(on_question=shy).run("go")
    assert alone.status is Status.WAITING


# In doubt.


async def test_a_write_that_asked_by_itself_is_in_doubt_once_it_was_run_again() -> None:
    """Suspended, it stands at its question; after the answer was taken up, nobody knows."""

    class Dying(MemoryJournal):
        dead = False

        async def append(
            self, run: str, event: ev.Event, effect: Any = None, *, marker: ev.Event | None = None
        ) -> None:
            if self.dead or isinstance(event, ev.ToolFinished):
                self.dead = True
                raise OSError("the disk is gone")
            await super().append(run, event, effect, marker=marker)

    dying = Dying()
    world = World(book("Porto"), "done", journal=dying)
    first = await world.agent().run("go", session="s")
    await world.agent().answer("s", first.questions[0], "1")
    with pytest.raises(OSError, match="disk"):
        await world.agent().resume("s")
    assert world.did[-1] == "booked Porto"
    dying.append = MemoryJournal.append.__get__(dying)  # type: ignore[method-assign]
    result = await world.agent().resume("s")
    assert results_in_history(result) == [IN_DOUBT_TEXT.format(name="book")]
    assert world.did.count("booked Porto") == 1


async def test_an_answer_to_a_held_permission_is_found_after_a_crash() -> None:
    """Also a run that holds: its tool had not begun, so the yes that came meanwhile lets it run."""
    world = World(pay(5), "done")
    options: dict[str, Any] = {"middleware": [ToolPermission(ask=["pay"])], "on_wait": "hold"}
    crashed = world.agent(**options)
    async with crashed.stream("go", session="s") as run:
        async for item in run:
            if isinstance(item, PermissionQuestion):
                break
        kept = MemoryJournal()
        for record in await world.journal.read("s"):
            await kept.append("s", record.event)
    world.journal = kept
    (request,) = await world.agent(**options).questions("s")
    assert await world.agent(**options).answer("s", request, Approved())
    result = await world.agent(**options).resume("s")
    assert results_in_history(result) == ["paid 5"]


# Answers, and what is no answer.


async def test_receipts_of_answers_to_a_run_that_rests() -> None:
    world = World(book("Porto"), "done")
    first = await world.agent().run("go", session="s")
    given = world.agent()
    key = first.questions[0]
    unknown = Answer("t1.i0.tool.9.ask.0", "?", key.binding)
    assert await given.answer("s", unknown) == Receipt("unknown")
    with pytest.raises(AnswerTypeError, match="Expected response of type str"):
        await given.answer("s", key, 2)
    assert await given.questions("s") == first.questions
    assert await given.answer("s", key, "2") == Receipt()
    assert await given.answer("s", key, "1") == Receipt("answered")
    await given.resume("s")
    assert await given.answer("s", key, "1") == Receipt("answered")
    with pytest.raises(ConfigurationError, match="knows no run 'nobody'"):
        await given.answer("nobody", key, "1")
    with pytest.raises(ConfigurationError, match="knows no run 'nobody'"):
        await given.questions("nobody")


async def test_answers_to_one_question_at_once_are_taken_once() -> None:
    world = World(book("Porto"), "done")
    first = await world.agent().run("go", session="s")
    given = world.agent()
    receipts = await asyncio.gather(
        *(given.answer("s", first.questions[0], str(number)) for number in range(20))
    )
    assert sorted(receipt.reason for receipt in receipts) == ["", *["answered"] * 19]
    answered = [one for one in await world.events() if isinstance(one, ev.QuestionAnswered)]
    assert len(answered) == 1


async def test_a_timeout_that_was_set_is_counted_by_the_clock_while_the_run_rests() -> None:
    @tool(effect="read")
    async def quick(ctx: ToolContext) -> str:
        """Ask for an hour."""
        answer = await ctx.ask(PermissionQuestion(tool="quick"), timeout=3600)
        return answer.because if hasattr(answer, "because") else "yes"

    world = World(call("quick"), "done")
    first = await world.agent(tools=[quick]).run("go", session="s")
    world.clock.advance(3599)
    assert (await world.agent(tools=[quick]).resume("s")).status is Status.WAITING
    world.clock.advance(1)
    assert await world.agent(tools=[quick]).answer("s", first.questions[0], Approved()) == Receipt(
        "late"
    )
    assert results_in_history(await world.agent(tools=[quick]).resume("s")) == ["timeout"]


async def test_a_run_that_goes_on_holds_a_question_for_what_is_left_of_its_time() -> None:
    @tool(effect="read")
    async def quick(ctx: ToolContext) -> str:
        """Ask for an hour."""
        answer = await ctx.ask(PermissionQuestion(tool="quick"), timeout=3600)
        return answer.because if hasattr(answer, "because") else "yes"

    asked = asyncio.Event()

    async def silent(request: AnyQuestion) -> object:
        asked.set()
        return await asyncio.Event().wait()

    world = World(call("quick"), "done")
    await world.agent(tools=[quick]).run("go", session="s")
    world.clock.advance(3599)
    going_on = world.agent(tools=[quick], on_question=silent).resume("s")
    async with asyncio.timeout(60):
        resumed = asyncio.create_task(going_on)
        await asked.wait()
        world.clock.advance(1)
        assert results_in_history(await resumed) == ["timeout"]


async def test_days_of_waiting_are_no_time_of_the_turn() -> None:
    world = World(book("Porto"), "done")
    limits = Limits(seconds=60)
    first = await world.agent(limits=limits).run("go", session="s")
    world.clock.advance(86400)
    await world.agent().answer("s", first.questions[0], "1")
    world.clock.advance(86400)
    assert (await world.agent(limits=limits).resume("s")).output == "done"


async def test_an_answer_from_a_process_that_does_not_know_the_kind_is_refused() -> None:
    world = World(book("Porto"), "done")
    await world.agent().run("go", session="s")
    events = world.journal._runs["s"]
    asked, effect = events["t1.i0.tool.0.ask.0.asked"]
    assert isinstance(asked, ev.QuestionAsked)
    foreign = ev.QuestionAsked(asked.key, asked.at, "Stranger", {"fee": 3}, asked.wait)
    events[asked.key] = (foreign, effect)
    (request,) = await world.agent().questions("s")
    assert isinstance(request, UnknownQuestion)
    assert (request.kind, request.content) == ("Stranger", {"fee": 3})
    with pytest.raises(ConfigurationError, match="Import the module"):
        await world.agent().answer("s", request, "2")


# The session meanwhile.


async def test_a_message_to_a_session_that_waits_is_refused_and_nothing_is_lost() -> None:
    world = World(book("Porto"), "done")
    first = await world.agent().run("go", session="s")
    with pytest.raises(WaitingError, match=r"t1\.i0\.tool\.0\.ask\.0.*agent\.abandon\('s'\)"):
        await world.agent().run("hello?", session="s")
    await world.agent().answer("s", first.questions[0], "1")
    with pytest.raises(WaitingError, match="was answered and has not continued yet"):
        await world.agent().run("hello?", session="s")
    assert (await world.agent().resume("s")).output == "done"


async def test_a_turn_that_waits_can_be_given_up() -> None:
    world = World((book("Porto", "a"), pay(5, "b")), "done")
    options: dict[str, Any] = {"middleware": [ToolPermission(ask=["pay"], allow=["book"])]}
    await world.agent(**options).run("go", session="s")
    closed = await world.agent(**options).abandon("s")
    assert closed.status is Status.CANCELLED
    # What asked by itself had begun; what waited for its permission had not.
    assert results_in_history(closed) == [
        IN_DOUBT_TEXT.format(name="book"),
        NOT_RUN_TEXT.format(name="pay"),
    ]
    assert await world.agent().questions("s") == ()
    assert (await world.agent().abandon("s")).status is Status.CANCELLED
    world.replies = ("", "hello")
    assert (await world.agent().run("hello?", session="s")).output == "hello"


# Races and cancellation.


def gate(world: World) -> tuple[list[Any], asyncio.Event, asyncio.Event]:
    """Two tools: one asks, the other goes on until it is let go."""
    started, free = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def slow() -> str:
        """Work."""
        started.set()
        await free.wait()
        world.did.append("slow")
        return "slow"

    return [*world.tools(), slow], started, free


async def asked_and_left(agent: Agent[str]) -> AnyQuestion:
    """The question, when who asked it has left and a sibling is still at work."""
    while True:
        run = agent._engine.answering.active_turns.get("s")
        if run is not None and run.effects.suspended_count:
            return (await agent.questions("s"))[0]
        await asyncio.sleep(0)


async def test_an_answer_while_siblings_are_at_work_is_kept_and_the_run_goes_on() -> None:
    world = World((book("Porto", "a"), call("slow", call_id="b")), "done")
    tools, started, free = gate(world)
    given = world.agent(tools=tools)
    work = asyncio.create_task(given.run("go", session="s"))
    await started.wait()
    request = await asked_and_left(given)
    assert await given.answer("s", request, "1")
    assert isinstance((await world.events())[-1], ev.QuestionAnswered)
    assert await given.answer("s", request, "2") == Receipt("answered")
    assert await given.answer("s", Answer("t1.i0.tool.7.ask.0", "2", "")) == Receipt("unknown")
    free.set()
    result = await work
    assert result.output == "done"
    assert results_in_history(result) == ["Porto in class 1", "slow"]
    assert world.did.count("slow") == 1
    assert strangers() == []


@pytest.mark.parametrize("pauses", range(12))
async def test_an_answer_at_any_moment_of_suspending_is_neither_lost_nor_doubled(
    pauses: int,
) -> None:
    world = World(book("Porto"), "done")
    given = world.agent()
    work = asyncio.create_task(given.run("go", session="s"))
    while not world.did:
        await asyncio.sleep(0)
    for _ in range(pauses):
        await asyncio.sleep(0)
    receipt = await given.answer("s", world.answer_to("t1.i0.tool.0.ask.0", "1"))
    result: Result[str] = await work
    if not receipt:
        assert receipt.reason in ("unknown", "mismatch")  # it was not saved yet
        assert await given.answer("s", result.questions[0], "1")
    if result.status is Status.WAITING:
        result = await given.resume("s")
    assert results_in_history(result) == ["Porto in class 1"]
    assert world.did.count("booked Porto") == 1
    answers = [one for one in await world.events() if isinstance(one, ev.QuestionAnswered)]
    assert len(answers) == 1
    assert strangers() == []


async def test_cancelling_while_one_waits_and_another_works_closes_the_turn() -> None:
    world = World((book("Porto", "a"), call("slow", call_id="b")), "done")
    tools, started, _ = gate(world)
    given = world.agent(tools=tools)
    work = asyncio.create_task(given.run("go", session="s"))
    await started.wait()
    await asked_and_left(given)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    events = await world.events()
    assert isinstance(events[-1], ev.TurnClosed)
    assert events[-1].status is Status.CANCELLED
    assert await given.answer("s", world.answer_to("t1.i0.tool.0.ask.0", "1")) == Receipt("late")
    assert strangers() == []


async def test_a_hundred_runs_that_wait_leave_no_task_behind() -> None:
    world = World(book("Porto"), "done")
    given = world.agent()
    results = await asyncio.gather(*(given.run("go", session=f"s{n}") for n in range(100)))
    assert {one.status for one in results} == {Status.WAITING}
    assert strangers() == []
    assert given._engine.answering.active_turns == {}
    for number, one in enumerate(results):
        await given.answer(f"s{number}", one.questions[0], str(number))
    ended = await asyncio.gather(*(given.resume(f"s{n}") for n in range(100)))
    assert [results_in_history(one) for one in ended] == [
        [f"Porto in class {n}"] for n in range(100)
    ]


async def test_tasks_of_a_tool_may_ask_together() -> None:
    @tool(effect="read")
    async def both(ctx: ToolContext) -> str:
        """Ask in two tasks."""
        async with asyncio.TaskGroup() as group:
            one = group.create_task(ctx.ask(ClarificationQuestion(question="A?")))
            two = group.create_task(ctx.ask(ClarificationQuestion(question="B?")))
        return one.result() + two.result()

    world = World(call("both"), "done")
    result = await world.agent(tools=[both]).run("go", session="s")
    letters = {"A?": "a", "B?": "b"}
    for _ in range(3):
        if result.status is not Status.WAITING:
            break
        for one in result.questions:
            assert isinstance(one, ClarificationQuestion)
            await world.agent().answer("s", one, letters[one.question])
        result = await world.agent(tools=[both]).resume("s")
    assert results_in_history(result) == ["ab"]


async def test_a_tool_that_asks_twice_waits_twice() -> None:
    @tool(effect="write")
    async def twice(ctx: ToolContext) -> str:
        """Ask one after the other."""
        first = await ctx.ask(ClarificationQuestion(question="A?"))
        return first + await ctx.ask(ClarificationQuestion(question="B?"))

    world = World(call("twice"), "done")
    result = await world.agent(tools=[twice]).run("go", session="s")
    for letter in ("a", "b"):
        (request,) = result.questions
        await world.agent().answer("s", request, letter)
        result = await world.agent(tools=[twice]).resume("s")
    assert results_in_history(result) == ["ab"]


async def test_a_tool_that_catches_every_exception_is_suspended_all_the_same() -> None:
    @tool(effect="write")
    async def careful(ctx: ToolContext) -> str:
        """Catch everything."""
        try:
            return await ctx.ask(ClarificationQuestion(question="A?"))
        except Exception:  # noqa: BLE001  # REASON: that is what is tried
            return "caught"

    world = World(call("careful"), "done")
    first = await world.agent(tools=[careful]).run("go", session="s")
    assert first.status is Status.WAITING


# What is given wrongly.


def test_suspending_needs_a_journal_and_a_known_word() -> None:
    with pytest.raises(ConfigurationError, match=r"journal: on_wait=.suspend. needs one"):
        Agent(ScriptedModel(), on_wait="suspend")
    with pytest.raises(ConfigurationError, match="on_wait: must be"):
        Agent(ScriptedModel(), on_wait="later")  # type: ignore[arg-type]


async def test_a_held_run_takes_its_answer_from_the_agent_too() -> None:
    world = World(book("Porto"), "done")
    given = world.agent(on_wait="hold")
    async with given.stream("go", session="s") as run:
        async for item in run:
            if isinstance(item, Question):
                with pytest.raises(AnswerTypeError):
                    await given.answer("s", item, Continued())
                assert await given.answer("s", item, "1")
                assert await given.answer("s", item, "2") == Receipt("answered")
    assert results_in_history(run.result) == ["Porto in class 1"]


# Every moment.


@pytest.mark.parametrize("pauses", range(0, 40, 2))
async def test_cancelling_at_any_moment_leaves_a_turn_that_is_closed_or_waits(pauses: int) -> None:
    world = World((book("Porto", "a"), pay(5, "b")), "done")
    given = world.agent(middleware=[ToolPermission(ask=["pay"], allow=["book"])])
    work = asyncio.create_task(given.run("go", session="s"))
    for _ in range(pauses):
        await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait([work])
    assert strangers() == []
    assert given._engine.answering.active_turns == {}
    if not await world.events():
        return
    left = await given.abandon("s")
    assert left.status is Status.CANCELLED
    assert len(results_in_history(left)) in (0, 2)


class Instructed(Middleware[None]):
    """Instructions of its own for each turn."""

    async def before_turn(self, context: BeforeTurn) -> Patch:
        return Patch(instructions="Be brief.")


async def test_instructions_that_a_hook_gave_the_turn_are_those_of_its_rest() -> None:
    world = World(book("Porto"), "done")
    first = await world.agent(middleware=[Instructed()]).run("go", session="s")
    await world.agent().answer("s", first.questions[0], "1")
    again = world.agent(middleware=[Instructed()])
    await again.resume("s")
    model = again._engine.plan.model
    assert isinstance(model, ScriptedModel)
    assert [request.instructions for request in model.requests] == ["Be brief."]


async def test_what_was_asked_before_is_answered_while_its_hook_is_on_the_way_again() -> None:
    """The run goes on, and whoever asked has not come to ask again: the answer is kept for it."""
    world = World((book("Porto", "a"), call("slow", call_id="b")), "done")
    tools, started, free = gate(world)
    first = world.agent(tools=tools)
    work = asyncio.create_task(first.run("go", session="s"))
    await started.wait()
    request = await asked_and_left(first)
    free.set()
    assert (await work).status is Status.WAITING
    again = world.agent()
    going = asyncio.create_task(again.resume("s"))
    while "s" not in again._engine.answering.active_turns:
        await asyncio.sleep(0)
    assert await again.answer("s", request, "1")
    result = await going
    if result.status is Status.WAITING:
        result = await again.resume("s")
    assert results_in_history(result)[0] == "Porto in class 1"
    assert strangers() == []


async def killed_beside_a_question(world: World) -> None:
    """One tool was left to wait, and the process died while another one was at work."""
    tools, started, _ = gate(world)
    given = world.agent(tools=tools)
    work = asyncio.create_task(given.run("go", session="s"))
    await started.wait()
    await asked_and_left(given)
    kept = MemoryJournal()
    for record in await world.journal.read("s"):
        await kept.append("s", record.event)
    work.cancel()
    await asyncio.wait([work])
    world.journal = kept


async def test_a_run_that_died_beside_a_question_is_recovered_and_waits_on() -> None:
    world = World((book("Porto", "a"), call("slow", call_id="b")), "done")
    await killed_beside_a_question(world)
    tools, _, _ = gate(world)
    (found,) = await world.agent(tools=tools).recover()
    assert found.result is not None
    assert found.result.status is Status.WAITING
    finished = [one for one in await world.events() if isinstance(one, ev.ToolFinished)]
    assert [one.key for one in finished] == ["t1.i0.tool.1"]
    # Now that all of it waits, there is nothing to recover.
    before = await world.events()
    assert await world.agent(tools=tools).recover() == []
    assert await world.events() == before
    await world.agent().answer("s", found.result.questions[0], "1")
    (ended,) = await world.agent(tools=tools).recover()
    assert ended.result is not None
    assert results_in_history(ended.result) == [
        "Porto in class 1",
        IN_DOUBT_TEXT.format(name="slow"),
    ]


async def test_a_run_whose_tools_wait_all_together_is_not_interrupted() -> None:
    world = World((pay(5, "a"), pay(6, "b")), "done")
    await world.agent(middleware=[AskBefore()]).run("go", session="s")
    assert await world.agent(middleware=[AskBefore()]).recover() == []


async def test_a_run_waits_for_an_answer_that_is_being_kept() -> None:
    """The last sibling ends while the journal is still writing the answer down."""
    writing, written = asyncio.Event(), asyncio.Event()

    class Slow(MemoryJournal):
        async def append(
            self, run: str, event: ev.Event, effect: Any = None, *, marker: ev.Event | None = None
        ) -> None:
            if isinstance(event, ev.QuestionAnswered):
                writing.set()
                await written.wait()
            await super().append(run, event, effect, marker=marker)

    world = World((book("Porto", "a"), call("slow", call_id="b")), "done", journal=Slow())
    tools, started, free = gate(world)
    given = world.agent(tools=tools)
    work = asyncio.create_task(given.run("go", session="s"))
    await started.wait()
    answering = asyncio.create_task(given.answer("s", await asked_and_left(given), "1"))
    await writing.wait()
    free.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not work.done()
    written.set()
    assert await answering == Receipt()
    result = await work
    assert result.status is Status.COMPLETED
    assert results_in_history(result) == ["Porto in class 1", "slow"]


@pytest.mark.parametrize("pauses", range(14))
async def test_a_no_to_all_tools_holds_whenever_it_comes(pauses: int) -> None:
    world = World((pay(5, "a"), pay(6, "b")), "done")
    given = world.agent(middleware=[AskBefore()])
    work = asyncio.create_task(given.run("go", session="s"))
    while not world.asked_models:
        await asyncio.sleep(0)
    for _ in range(pauses):
        await asyncio.sleep(0)
    receipt = await given.answer("s", world.answer_to("t1.i0.begun.ask.0", "no"))
    result: Result[str] = await work
    if not receipt:
        await given.answer("s", world.answer_to("t1.i0.begun.ask.0", "no"))
    if result.status is Status.WAITING:
        result = await given.resume("s")
    assert results_in_history(result) == ["Not these."] * 2
    assert world.did == []


class CountTurns(Middleware[None]):
    """Counts the turns that are over."""

    def __init__(self) -> None:
        self.over: list[Status] = []

    async def after_turn(self, context: AfterTurn) -> None:
        self.over.append(context.status)


async def test_a_turn_that_waits_is_not_over() -> None:
    world, counting = World(book("Porto"), "done"), CountTurns()
    first = await world.agent(middleware=[counting]).run("go", session="s")
    assert counting.over == []
    await world.agent().answer("s", first.questions[0], "1")
    await world.agent(middleware=[counting]).resume("s")
    assert counting.over == [Status.COMPLETED]


async def test_a_no_that_comes_while_the_hook_that_asked_cleans_up_is_heard_by_it() -> None:
    leaving, gone = asyncio.Event(), asyncio.Event()

    class Tidy(AskBefore):
        async def before_tools(self, context: BeforeTools) -> Deny | None:
            try:
                return await super().before_tools(context)
            except BaseException:
                leaving.set()
                await gone.wait()
                raise

    world = World((pay(5, "a"), pay(6, "b")), "done")
    given = world.agent(middleware=[Tidy()])
    work = asyncio.create_task(given.run("go", session="s"))
    await leaving.wait()
    assert await given.answer("s", world.answer_to("t1.i0.begun.ask.0", "no"))
    gone.set()
    result = await work
    assert result.status is Status.COMPLETED
    assert results_in_history(result) == ["Not these."] * 2
    assert world.did == []


class AskedFirst(Middleware[None]):
    """Asks before a turn, and keeps the texts of the messages that it sees, the new one last."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    async def before_turn(self, context: BeforeTurn) -> None:
        messages = [*context.messages, context.message]
        self.seen.append([message.text for message in messages])
        if len(context.messages) > 0:
            await context.ask(ClarificationQuestion(question="Which one?"))


async def test_a_hook_that_asked_before_a_turn_sees_the_same_history_after_the_answer() -> None:
    journal, hook = MemoryJournal(), AskedFirst()
    model = ScriptedModel("Hello.", "Done.")
    agent = Agent(model, journal=journal, middleware=[hook], on_wait="suspend")
    await agent.run("Hi", session="s")
    waiting = await agent.run("Book it", session="s")
    await agent.answer("s", waiting.questions[0], "the first")
    result = await agent.resume("s")
    assert result.text == "Done."
    assert len(hook.seen) > 2
    assert {tuple(texts) for texts in hook.seen[1:]} == {("Hi", "Hello.", "Book it")}


@pytest.mark.parametrize(
    ("may_remember", "is_the_same"),
    [pytest.param(True, True, id="its default"), pytest.param(False, False, id="another value")],
)
def test_a_field_that_a_question_got_later_makes_no_other_question(
    may_remember: bool, is_the_same: bool
) -> None:
    content = question_content(PermissionQuestion(tool="pay", may_remember=may_remember))
    saved = {name: value for name, value in content.items() if name != "may_remember"}
    before = ev.QuestionAsked("t1.i0.tool.0.ask.0.asked", 0.0, "PermissionQuestion", saved)
    assert _shows_the_same(before, (before.kind, content, "")) is is_the_same
