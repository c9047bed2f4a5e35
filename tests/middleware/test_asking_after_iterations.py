"""`after_iteration` asks a person: it waits, or the run is suspended and the hook is called again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal, Middleware, RetryOptions, tool
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    MiddlewareError,
    ProviderError,
    WaitingError,
)
from holdfast.core.events import QuestionAsked, Status
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import AnyQuestion, ClarificationQuestion
from holdfast.middleware import AfterIteration, Stop
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash


class Review(Middleware):
    """Asks after every iteration whether to go on."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []

    async def after_iteration(self, context: AfterIteration) -> Stop | None:
        answer = await context.ask(ClarificationQuestion(question="Go on?"))
        self.answers.append((context.iteration, answer))
        return Stop("reviewed", "The review says no.") if answer == "no" else None


@tool(effect="write")
def pay(euros: int) -> str:
    """Pay."""
    paid.append(euros)
    return f"paid {euros}"


paid: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


def reply(request: ModelRequest) -> Any:
    said = sum(message.role == "assistant" for message in request.messages)
    return [ToolCall("1", "pay", '{"euros": 5}'), ToolCall("2", "pay", '{"euros": 7}'), "done"][
        said
    ]


def make(review: Review, **options: Any) -> Agent[str]:
    model = ScriptedModel(*[reply] * 20)
    return Agent(model, tools=[pay], middleware=[review], clock=FakeClock(), **options)


def handler(given: Sequence[str]) -> Callable[[AnyQuestion], Awaitable[object]]:
    left = list(given)

    async def answer(_: AnyQuestion) -> object:
        return left.pop(0)

    return answer


async def keys_asked(journal: MemoryJournal, run: str) -> list[str]:
    events = [record.event for record in await journal.read(run)]
    return [event.key for event in events if isinstance(event, QuestionAsked)]


ASKED = [f"t1.i{number}.after.ask.0.asked" for number in range(3)]


async def test_a_hook_waits_for_its_answer_after_each_iteration() -> None:
    review, journal = Review(), MemoryJournal()
    agent = make(review, journal=journal, on_question=handler(["a", "b", "c"]))
    assert (await agent.run("Go", session="s")).output == "done"
    assert review.answers == [(0, "a"), (1, "b"), (2, "c")]
    assert await keys_asked(journal, "s") == ASKED


async def test_the_reader_of_a_stream_answers() -> None:
    review = Review()
    async with make(review).stream("Go") as run:
        async for item in run:
            if isinstance(item, ClarificationQuestion):
                assert run.answer(item, "yes")
    assert run.result.output == "done"
    assert review.answers == [(0, "yes"), (1, "yes"), (2, "yes")]


@pytest.mark.parametrize("iteration", [0, 1, 2])
async def test_the_answer_no_ends_the_turn(iteration: int) -> None:
    review = Review()
    given = ["yes"] * iteration + ["no"]
    result = await make(review, on_question=handler(given)).run("Go")
    # After the last iteration there is nothing left to stop.
    assert result.status is (Status.COMPLETED if iteration == 2 else Status.STOPPED)
    assert paid == [5, 7][: iteration + 1]


async def test_a_suspended_hook_is_called_again_after_the_answer() -> None:
    journal = MemoryJournal()
    review = Review()
    result = await make(review, journal=journal, on_wait="suspend").run("Go", session="s")
    for number in range(3):
        assert (result.status, result.output, result.text) == (Status.WAITING, None, "")
        assert [asked.key for asked in result.questions] == [f"t1.i{number}.after.ask.0"]
        agent = make(review, journal=journal, on_wait="suspend")
        again = await agent.resume("s")
        assert (again.status, again.questions) == (Status.WAITING, result.questions)
        assert await agent.recover() == []
        with pytest.raises(WaitingError):
            await agent.run("More", session="s")
        assert await agent.answer("s", result.questions[0], f"answer {number}")
        result = await make(review, journal=journal, on_wait="suspend").resume("s")
    assert (result.status, result.output) == (Status.COMPLETED, "done")
    assert review.answers == [(number, f"answer {number}") for number in range(3)]
    assert paid == [5, 7]
    assert await keys_asked(journal, "s") == ASKED
    assert (await make(review, journal=journal).questions("s")) == ()


@pytest.mark.parametrize("append", range(1, 22))
async def test_a_crash_at_any_append_asks_each_question_once(append: int) -> None:
    given = ["a", "b", "c"]

    async def by_iteration(question: AnyQuestion) -> object:
        return given[int(question.key[4])]

    for before in (False, True):
        paid.clear()
        journal, review = MemoryJournal(), Review()
        broken = CrashAt(journal, append, before=before)
        try:
            await make(review, journal=broken, on_question=by_iteration).run("Go", session="s")
        except SimulatedCrash:
            agent = make(review, journal=journal, on_question=by_iteration)
            if await journal.read("s"):
                await agent.resume("s")
            else:
                await agent.run("Go", session="s")
        assert await keys_asked(journal, "s") == ASKED, before
        assert dict(review.answers) == {0: "a", 1: "b", 2: "c"}, before
        assert len(paid) == len(set(paid)), before  # nothing is paid twice
        assert await make(review, journal=journal).questions("s") == (), before


async def test_a_hook_may_ask_after_a_failed_model_call() -> None:
    journal, review = MemoryJournal(), Review()
    info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")

    def failing() -> Agent[str]:
        return Agent(
            ScriptedModel(ProviderError("down", info=info)),
            middleware=[review],
            journal=journal,
            on_wait="suspend",
            retry=RetryOptions(max_retries=0),
        )

    waiting = await failing().run("Go", session="s")
    assert waiting.status is Status.WAITING
    await failing().answer("s", waiting.questions[0], "yes")
    with pytest.raises(ProviderError, match="down"):
        await failing().resume("s")
    assert review.answers == [(0, "yes")]


async def test_a_turn_that_is_cancelled_while_it_asks_after_its_answer_is_completed() -> None:
    journal, asked = MemoryJournal(), asyncio.Event()

    async def never(question: AnyQuestion) -> object:
        if question.key.startswith("t1.i2"):
            asked.set()
            await asyncio.Event().wait()
        return "yes"

    agent = make(Review(), journal=journal, on_question=never)
    running = asyncio.create_task(agent.run("Go", session="s"))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await agent.questions("s") == ()
    kinds = [type(record.event).__name__ for record in await journal.read("s")]
    assert kinds[-1] == "TurnClosed"


async def test_without_anybody_to_ask_the_turn_fails_with_the_reason() -> None:
    with pytest.raises(MiddlewareError, match="after_iteration"):
        await make(Review()).run("Go")


async def test_hooks_before_the_next_iteration_do_not_get_its_answer() -> None:
    class AlsoBefore(Review):
        async def before_iteration(self, context: Any) -> None:
            question = ClarificationQuestion(question="Go on?")
            self.answers.append((-1, await context.ask(question)))

    journal, review = MemoryJournal(), AlsoBefore()
    asked = 0
    result = await make(review, journal=journal, on_wait="suspend").run("Go", session="s")
    while result.status is Status.WAITING:
        agent = make(review, journal=journal, on_wait="suspend")
        await agent.answer("s", result.questions[0], f"{asked}")
        asked += 1
        result = await agent.resume("s")
    assert asked == 6
    assert sorted({answer for _, answer in review.answers}) == [str(one) for one in range(6)]


def book(city: str) -> str:
    """Book."""
    paid.append(len(city))
    return f"booked {city}"


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("append", range(1, 10))
async def test_an_output_function_is_called_once_whatever_crashes(
    append: int, before: bool
) -> None:
    def agent(journal: Any) -> Agent[str]:
        return Agent(
            ScriptedModel('{"city": "Porto"}', '{"city": "Porto"}'),
            output=book,
            middleware=[Review()],
            journal=journal,
            on_question=handler(["yes", "yes"]),
        )

    journal = MemoryJournal()
    with suppress(SimulatedCrash):
        await agent(CrashAt(journal, append, before=before)).run("Go", session="s")
    again = agent(journal)
    with suppress(
        ProviderError
    ):  # after a crash in the function it is in doubt, and the turn fails
        result = await (
            again.resume("s") if await journal.read("s") else again.run("Go", session="s")
        )
        assert result.output == "booked Porto"
    assert len(paid) <= 1
    assert await keys_asked(journal, "s") == ASKED[:1]


# A hook where nobody can be asked.


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


async def _ask(_self: object, context: Any) -> None:
    await context.ask(ClarificationQuestion(question="Sure?"))


async def _answer(_question: object) -> str:
    return "yes"


@pytest.mark.parametrize("on_wait", ["hold", "suspend"])
@pytest.mark.parametrize("handler", [None, _answer])
async def test_asking_in_a_hook_where_it_is_impossible_is_a_plain_error(
    on_wait: Any, handler: Any
) -> None:
    asking = type("Asking", (Middleware,), {"after_turn": _ask})()
    agent = Agent(
        ScriptedModel(ToolCall("1", "look", "{}"), "Done."),
        tools=[look],
        middleware=[asking],
        journal=MemoryJournal(),
        on_wait=on_wait,
        on_question=handler,
    )
    with pytest.raises(MiddlewareError) as caught:
        await agent.run("Go.", session="ada")
    text = str(caught.value)
    assert "Asking.after_turn raised ConfigurationError: ask: nobody can be asked here" in text
    assert "Ask in a tool" in text
