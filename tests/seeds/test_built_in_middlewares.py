"""Guidance, the cache, skills, logging and continuation together, as the third document describes them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Agent,
    ContinuationPermission,
    ContinuationQuestion,
    LimitError,
    Limits,
    RetryOptions,
    tool,
)
from holdfast.compat import AgentBuilder
from holdfast.core.messages import ToolCall
from holdfast.events import QuestionAnswered
from holdfast.middleware import (
    Guidance,
    IterationCache,
    IterationLogging,
    Middleware,
    Patch,
    Stop,
    UseReply,
)
from holdfast.skills import Skills
from holdfast.testing import FakeClock, ScriptedModel

CALL = ToolCall("1", "fetch", "{}")


@tool(effect="read")
def fetch() -> str:
    """Fetch."""
    return "data"


async def test_guidance_warns_from_three_before_its_number() -> None:
    model = ScriptedModel(*[CALL] * 19, "end")
    agent = Agent(model, tools=[fetch], middleware=[Guidance()], limits=Limits(iterations=30))
    await agent.run("Go.")
    warned = [request.instructions.partition("WARNING: ")[2][:6] for request in model.requests]
    assert warned[16:] == ["", "Only 3", "Only 2", "Only 1"]
    assert not any(warned[:17])


def cached(*middleware: Middleware[Any], script: Any, **keywords: Any) -> Any:
    model = ScriptedModel(*script)
    return model, Agent(model, tools=[fetch], middleware=middleware, **keywords)


async def test_a_reply_is_kept_for_ten_minutes_and_not_longer() -> None:
    clock = FakeClock()
    model, agent = cached(IterationCache(), script=["one", "two"], clock=clock)
    assert (await agent.run("Go.")).text == "one"
    clock.advance(599)
    assert (await agent.run("Go.")).text == "one"
    clock.advance(2)
    assert (await agent.run("Go.")).text == "two"
    assert len(model.requests) == 2


async def test_other_instructions_miss_the_cache() -> None:
    cache = IterationCache()
    model = ScriptedModel("one", "two")
    texts = [
        (await Agent(model, instructions=words, middleware=[cache]).run("Go.")).text
        for words in ("A", "B", "A")
    ]
    assert texts == ["one", "two", "one"]


async def test_a_reply_with_calls_is_kept_too() -> None:
    model, agent = cached(IterationCache(), script=[CALL, "end"])
    assert [(await agent.run("Go.")).text for _ in range(2)] == ["end", "end"]
    assert len(model.requests) == 2


async def test_a_reply_that_another_hook_gave_is_not_kept() -> None:
    class Once(Middleware):
        given = False

        async def before_iteration(self, context: Any) -> UseReply | None:
            if self.given:
                return None
            self.given = True
            return UseReply("skipped")

    _, agent = cached(Once(), IterationCache(), script=["two"])
    assert [(await agent.run("Go.")).text for _ in range(2)] == ["skipped", "two"]


@pytest.mark.slow  # takes half a second or more
async def test_three_thousand_prompts_have_keys_of_their_own() -> None:
    def echo(request: Any) -> str:
        return str(request.messages[-1].text)

    model, agent = cached(IterationCache(entries=5000), script=[echo] * 3000)
    for number in range(3000):
        assert (await agent.run(f"p{number}")).text == f"p{number}"
    assert (await agent.run("p7")).text == "p7"
    assert len(model.requests) == 3000


class Adds(Middleware):
    async def before_iteration(self, context: Any) -> Patch:
        return Patch(instructions=context.instructions + "!")


@pytest.mark.parametrize("cache_first", [True, False])
async def test_the_cache_works_in_either_order(*, cache_first: bool) -> None:
    pair: list[Middleware[Any]] = [IterationCache(), Adds()]
    model, agent = cached(*(pair if cache_first else pair[::-1]), script=["one"])
    assert [(await agent.run("Go.")).text for _ in range(2)] == ["one", "one"]
    assert len(model.requests) == 1


async def test_a_cache_of_your_own_skips_the_model() -> None:
    class OwnCache(Middleware):
        def __init__(self) -> None:
            self.kept: dict[str, Any] = {}

        async def before_iteration(self, context: Any) -> UseReply | None:
            found = self.kept.get(repr(context.messages))
            return UseReply(found) if found else None

        async def after_reply(self, context: Any) -> None:
            self.kept[repr(context.messages)] = context.reply

    model, agent = cached(OwnCache(), script=[CALL, "end"])
    assert [(await agent.run("Go.")).text for _ in range(2)] == ["end", "end"]
    assert len(model.requests) == 2


async def test_the_milliseconds_of_the_log_are_those_of_the_model_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    clock = FakeClock()

    def slow(request: Any) -> str:
        clock.advance(0.3)
        return "done"

    _, agent = cached(IterationLogging(), script=[slow], clock=clock)
    await agent.run("Go.")
    assert "completed in 300ms" in caplog.text


async def test_without_the_middleware_no_iteration_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "holdfast")
    _, agent = cached(script=["done"])
    await agent.run("Go.")
    assert "Iteration" not in caplog.text


async def test_skills_guidance_and_logging_work_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    folder = tmp_path / "trading"
    folder.mkdir()
    header = "---\nname: trading\ndescription: Stocks.\nallowed-tools: fetch\n---\n"
    (folder / "SKILL.md").write_text(f"{header}Check the price first.\n")
    skills = Skills(tmp_path)
    model = ScriptedModel(ToolCall("1", "open_skill", '{"name": "trading"}'), "end", "again")
    agent = Agent(
        model,
        instructions="Base.",
        tools=[fetch, *skills.tools],
        middleware=[skills.middleware, Guidance(), IterationLogging()],
    )
    await agent.run("Go.", session="s")
    await agent.run("Go on.", session="s")
    first, second, third = (request.instructions for request in model.requests)
    block = "🔧 ACTIVE SKILL PROTOCOLS (Execute ALL steps completely)\n\n## trading:"
    assert [block in text for text in (first, second, third)] == [False, True, False]
    assert "Check the price first." in second
    assert "**Available functions:** fetch" in second
    assert second.startswith("Base.")
    assert "ITERATION GUIDANCE: You have 1 tool result(s)" in second
    assert "🔄 Iteration 1 starting" in caplog.text


async def test_the_middleware_for_skills_registers_itself(tmp_path: Path) -> None:
    (tmp_path / "trading").mkdir()
    (tmp_path / "trading" / "SKILL.md").write_text(
        "---\nname: trading\ndescription: Stocks.\n---\nCheck the price first.\n"
    )
    opens = ToolCall("1", "open_skill", '{"name": "trading"}')
    for give_skills in (
        lambda model: Agent(model, toolsets=[Skills(tmp_path)]),
        lambda model: AgentBuilder(model=model).with_keywords(toolsets=[Skills(tmp_path)]).build(),
    ):
        model = ScriptedModel(opens, "end")
        await give_skills(model).run("Go.")
        shown = ["Check the price first." in request.instructions for request in model.requests]
        assert shown == [False, True]
        assert "Check the price first." not in repr(model.requests[1].messages)


async def test_a_reader_of_the_stream_grants_an_extension() -> None:
    model = ScriptedModel(*[CALL] * 6, "done")
    agent = Agent(model, tools=[fetch], middleware=[ContinuationPermission(2)])
    async with agent.stream("Go.") as run:
        async for item in run:
            if isinstance(item, ContinuationQuestion):
                assert (item.iteration, item.limit, item.source) == (3, 2, "ContinuationPermission")
                run.answer(item.approve(5))
        result = await run.wait()
    assert (result.text, result.iterations) == ("done", 7)


def test_questions_and_continuation_work_from_synchronous_code() -> None:
    async def grant(question: Any) -> Any:
        return question.approve(2)

    model = ScriptedModel(*[CALL] * 3, "done")
    agent = Agent(model, tools=[fetch], middleware=[ContinuationPermission(2)], on_question=grant)
    result = agent.run_sync("Go.")
    assert (result.text, result.iterations) == ("done", 4)


async def test_a_continuation_of_your_own_folds_the_answers() -> None:
    class Own(Middleware[int]):
        """Asks every third iteration; its state is the number of answers."""

        @property
        def initial(self) -> int:
            return 0

        def fold(self, state: int, event: Any) -> int:
            return state + isinstance(event, QuestionAnswered)

        async def before_iteration(self, context: Any) -> Stop | None:
            limit = 3 * (context.state_of(self) + 1)
            if context.iteration < limit:
                return None
            question = ContinuationQuestion(iteration=context.iteration + 1, limit=limit)
            answer = await context.ask(question)
            return None if hasattr(answer, "iterations") else Stop("denied", "Enough.")

    asked: list[int] = []

    async def twice(question: Any) -> Any:
        asked.append(question.limit)
        return question.approve() if len(asked) < 2 else question.deny()

    model = ScriptedModel(*[CALL] * 20)
    agent = Agent(
        model, tools=[fetch], middleware=[Own()], on_question=twice, limits=Limits(iterations=50)
    )
    result = await agent.run("Go.")
    assert (result.status, result.text, asked) == ("stopped", "Enough.", [3, 6])


async def test_the_limit_of_iterations_has_the_exact_text() -> None:
    agent = Agent(ScriptedModel(*[CALL] * 20), tools=[fetch], retry=RetryOptions(max_retries=0))
    with pytest.raises(LimitError) as caught:
        await agent.run("Go.")
    assert str(caught.value).startswith(
        "Maximum iteration limit reached (10 iterations). The agent was unable to complete the "
        "task within the allowed number of turns."
    )
