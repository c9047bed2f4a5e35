"""`before_turn` asks a person: the turn is opened for the question, and the hook is called again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal, Middleware
from holdfast.core.errors import MiddlewareError, StoppedError, WaitingError
from holdfast.core.events import QuestionAsked, Status, TurnAccepted, TurnOpened
from holdfast.core.messages import Message, user
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import AnyQuestion, ClarificationQuestion, Denied, PermissionQuestion
from holdfast.middleware import AfterTurn, BeforeTurn, Deny, Patch, Stop
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash


def say(text: str) -> Patch:
    return Patch(messages=[user(text)])


class Number(Middleware):
    """Puts a number before the message; called once for each message, also when a later hook asks."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0

    async def before_turn(self, context: BeforeTurn) -> Patch:
        self.calls += 1
        return say(f"{self.number} {context.message.text}")


class Clarify(Middleware):
    """Asks for a city, and writes it behind the message."""

    def __init__(self, question: str = "Which city?") -> None:
        self.question = question

    async def before_turn(self, context: BeforeTurn) -> Patch | Deny | Stop:
        city = await context.ask(ClarificationQuestion(question=self.question))
        if city == "deny":
            return Deny("No.")
        if city == "forget":
            return Deny("No.", save_message=False)
        if city == "stop":
            return Stop("stopped", "Goodbye.")
        if city == "fail":
            raise KeyError("secret")
        text = f"{context.message.text} in {city}"
        return Patch(messages=[user(text)], instructions=f"{context.instructions} Think of {city}.")


def echo(request: ModelRequest) -> str:
    said = [message.text for message in request.messages if message.role == "user"]
    return f"{request.instructions} | {'; '.join(said)}"


def make(*middleware: Middleware, journal: MemoryJournal | None = None, **options: Any) -> Any:
    return Agent(
        ScriptedModel(*[echo] * 20),
        instructions="Plan.",
        middleware=middleware or [Clarify()],
        journal=journal,
        clock=FakeClock(),
        **options,
    )


def always(answer: object) -> Any:
    async def handler(_: AnyQuestion) -> object:
        return answer

    return handler


async def events(journal: MemoryJournal, run: str = "s") -> list[str]:
    return [f"{one.event.key} {type(one.event).__name__}" for one in await journal.read(run)]


async def test_a_handler_answers_and_the_message_is_that_of_the_hook() -> None:
    journal = MemoryJournal()
    agent = make(journal=journal, on_question=always("Porto"))
    result = await agent.run("A hotel", session="s")
    assert result.output == "Plan. Think of Porto. | A hotel in Porto"
    assert [message.text for message in result.messages if message.role == "user"] == [
        "A hotel in Porto"
    ]
    assert await events(journal) == [
        "t1 TurnOpened",
        "t1.accepted.ask.0.asked QuestionAsked",
        "t1.accepted.ask.0 QuestionAnswered",
        "t1.accepted TurnAccepted",
        "t1.i0.model ModelReplied",
        "t1.closed TurnClosed",
    ]


async def test_the_reader_of_a_stream_answers() -> None:
    async with make().stream("A hotel") as run:
        async for item in run:
            if isinstance(item, ClarificationQuestion):
                assert run.answer(item, "Porto")
    assert run.result.output == "Plan. Think of Porto. | A hotel in Porto"


async def test_a_hook_that_asks_nothing_saves_what_it_saved_before() -> None:
    journal = MemoryJournal()
    await make(Number(1), journal=journal).run("A hotel", session="s")
    assert await events(journal) == [
        "t1 TurnOpened",
        "t1.i0.model ModelReplied",
        "t1.closed TurnClosed",
    ]


async def test_hooks_before_and_after_the_one_that_asks_are_called_once() -> None:
    first, last = Number(1), Number(2)
    agent = make(first, Clarify(), last, on_question=always("Porto"))
    result = await agent.run("A hotel")
    assert result.output == "Plan. Think of Porto. | 2 1 A hotel in Porto"
    assert (first.calls, last.calls) == (1, 1)


async def test_what_an_earlier_hook_removes_is_not_saved() -> None:
    class Redact(Middleware):
        async def before_turn(self, context: BeforeTurn) -> Patch:
            return say(context.message.text.replace("4711", "[number]"))

    journal = MemoryJournal()
    agent = make(Redact(), Clarify(), journal=journal, on_wait="suspend")
    await agent.run("Card 4711", session="s")
    assert "4711" not in repr(await journal.read("s"))


async def test_two_hooks_ask_one_after_the_other_in_new_processes() -> None:
    journal, middle = MemoryJournal(), Number(1)

    def agent() -> Any:
        hooks = (Clarify(), middle, Clarify("From where?"))
        return make(*hooks, journal=journal, on_wait="suspend")

    result = await agent().run("A hotel", session="s")
    for number, city in enumerate(["Porto", "Faro"]):
        assert (result.status, result.output) == (Status.WAITING, None)
        assert [asked.key for asked in result.questions] == [f"t1.accepted.ask.{number}"]
        assert (await agent().resume("s")).questions == result.questions
        assert await agent().recover() == []
        with pytest.raises(WaitingError):
            await agent().run("More", session="s")
        assert await agent().answer("s", result.questions[0], city)
        result = await agent().resume("s")
    assert result.output == ("Plan. Think of Porto. Think of Faro. | 1 A hotel in Porto in Faro")
    second = await agent().run("And now", session="s")
    await agent().answer("s", second.questions[0], "Rome")
    second = await agent().resume("s")
    assert [asked.key for asked in second.questions] == ["t2.accepted.ask.1"]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("append", range(1, 9))
async def test_a_crash_at_any_append_ends_the_same(append: int, before: bool) -> None:
    journal = MemoryJournal()
    options = {"on_question": always("Porto")}
    hooks = (Number(1), Clarify(), Number(2))
    broken = CrashAt(journal, append, before=before)
    try:
        result = await make(*hooks, journal=broken, **options).run("A hotel", session="s")  # type: ignore[arg-type]
    except SimulatedCrash:
        agent = make(*hooks, journal=journal, **options)
        again = await journal.read("s")
        result = await (agent.resume("s") if again else agent.run("A hotel", session="s"))
    assert result.output == "Plan. Think of Porto. | 2 1 A hotel in Porto"
    saved = [record.event for record in await journal.read("s")]
    for kind in (TurnOpened, QuestionAsked, TurnAccepted):
        assert sum(isinstance(event, kind) for event in saved) == 1


async def test_recovery_takes_over_a_turn_that_crashed_before_it_was_accepted() -> None:
    journal = MemoryJournal()
    broken = CrashAt(journal, 3)
    with pytest.raises(SimulatedCrash):
        await make(journal=broken, on_question=always("Porto")).run("A hotel", session="s")
    (found,) = await make(journal=journal, on_question=always("Faro")).recover()
    assert found.result is not None
    assert found.result.output == "Plan. Think of Porto. | A hotel in Porto"


@pytest.mark.parametrize("answer", ["deny", "forget"])
async def test_a_refused_message_is_in_no_later_turn(answer: str) -> None:
    journal = MemoryJournal()
    with pytest.raises(StoppedError, match=r"No\."):
        await make(journal=journal, on_question=always(answer)).run("Bad", session="s")
    result = await make(journal=journal, on_question=always("Porto")).run("Good", session="s")
    assert result.output.endswith("| Good in Porto")


async def test_a_hook_stops_the_turn_after_the_answer() -> None:
    result = await make(on_question=always("stop")).run("A hotel")
    assert (result.status, result.output) == (Status.STOPPED, "Goodbye.")


async def test_a_hook_that_fails_after_the_answer_accepts_nothing() -> None:
    journal = MemoryJournal()
    agent = make(journal=journal, on_question=always("fail"))
    with pytest.raises(MiddlewareError, match="Clarify") as caught:
        await agent.run("Bad", session="s")
    assert caught.value.result is not None
    assert caught.value.result.status is Status.FAILED
    # The message was never accepted, so it is neither tried again nor sent with the next one.
    with pytest.raises(MiddlewareError):
        await make(journal=journal, on_question=always("Porto")).resume("s")
    result = await make(journal=journal, on_question=always("Porto")).run("Good", session="s")
    assert result.output.endswith("| Good in Porto")


async def test_a_turn_that_is_cancelled_while_it_asks_leaves_no_message() -> None:
    journal, asked, ended = MemoryJournal(), asyncio.Event(), list[Status]()

    class Ends(Middleware):
        async def after_turn(self, context: AfterTurn) -> None:
            ended.append(context.status)

    async def never(_: AnyQuestion) -> object:
        asked.set()
        return await asyncio.Event().wait()

    agent = make(Clarify(), Ends(), journal=journal, on_question=never)
    running = asyncio.create_task(agent.run("Bad", session="s"))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await agent.questions("s") == ()
    assert (await events(journal))[-1] == "t1.closed TurnClosed"
    with pytest.raises(Exception, match="cancelled"):
        await make(journal=journal, on_question=always("Porto")).resume("s")
    result = await make(journal=journal, on_question=always("Porto")).run("Good", session="s")
    assert result.output.endswith("| Good in Porto")


async def test_a_waiting_turn_is_abandoned_without_its_message() -> None:
    journal = MemoryJournal()
    await make(journal=journal, on_wait="suspend").run("Bad", session="s")
    result = await make(journal=journal).abandon("s")
    assert result.status is Status.CANCELLED
    assert [message for message in result.messages if message.role == "user"] == []


async def test_without_anybody_to_ask_the_default_answer_counts() -> None:
    given: list[object] = []

    class Permit(Middleware):
        async def before_turn(self, context: BeforeTurn) -> Deny | None:
            answer = await context.ask(PermissionQuestion(tool="talk"))
            given.append(answer)
            return Deny("Not allowed.") if isinstance(answer, Denied) else None

    with pytest.raises(StoppedError, match="Not allowed"):
        await make(Permit()).run("Hello")
    assert len(given) == 1


async def test_several_questions_at_the_same_time() -> None:
    class Both(Middleware):
        async def before_turn(self, context: BeforeTurn) -> Patch:
            async with asyncio.TaskGroup() as group:
                asks = [
                    group.create_task(context.ask(ClarificationQuestion(question=text)))
                    for text in ("A?", "B?")
                ]
            return say(" ".join(task.result() for task in asks))

    result = await make(Both(), on_question=always("yes")).run("Hello")
    assert result.output == "Plan. | yes yes"


async def test_an_agent_that_runs_as_a_tool_asks_its_caller() -> None:
    from holdfast.core.messages import ToolCall

    child = make().as_tool(name="planner")
    model = ScriptedModel(ToolCall("1", "planner", '{"task": "A hotel"}'), "done")
    parent = Agent(model, tools=[child], journal=MemoryJournal(), on_wait="suspend")
    waiting = await parent.run("Go", session="s")
    assert waiting.status is Status.WAITING
    assert await parent.answer("s", waiting.questions[0], "Porto")
    result = await parent.resume("s")
    texts = [part.text for message in result.messages for part in results_of(message)]
    assert texts == ["Plan. Think of Porto. | A hotel in Porto"]


def results_of(message: Message) -> list[Any]:
    from holdfast.core.messages import ToolResult

    return [part for part in message.parts if isinstance(part, ToolResult)]
