"""An agent as a tool of another: what reaches into it, and what comes out of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.tool_results import results_in_request

from holdfast import Agent, Limits, Middleware, RetryOptions, Tool, tool
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.events import ModelReplied, Status, ToolFinished, TurnClosed, TurnInterrupted
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import AnyQuestion, Approved, Denied, PermissionQuestion
from holdfast.events import FromAgent
from holdfast.journal.memory import MemoryJournal
from holdfast.middleware import Stop
from holdfast.middleware.hook_contexts import BeforeIteration
from holdfast.runtime.subagent import MOST_DEEP
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash
from holdfast.tools.context import ToolContext


def asks(name: str, task: str = "look", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, f'{{"task": "{task}"}}')


def parent(child: Tool, *more: Tool, **keywords: object) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(asks(child.name), "done")
    return Agent(model, name="boss", tools=[child, *more], **keywords), model  # type: ignore[arg-type]


async def test_the_answer_of_the_agent_is_the_result_of_the_tool() -> None:
    scout = ScriptedModel("All clear.")
    boss, model = parent(Agent(scout, name="scout").as_tool())
    assert (await boss.run("Go")).output == "done"
    assert results_in_request(model) == ["All clear."]
    assert [message.text for message in scout.requests[0].messages] == ["look"]


def test_the_tool_is_named_and_described() -> None:
    agent = Agent(ScriptedModel(), name="scout")
    made = agent.as_tool(name="ask_scout", description="Looks ahead.")
    assert (made.name, made.description) == ("ask_scout", "Looks ahead.")
    assert agent.as_tool().description == "Give a task to the agent 'scout', and get its answer."
    assert list(made.spec.schema["properties"]) == ["task"]  # type: ignore[call-overload]


def test_an_agent_that_only_reads_is_a_tool_that_only_reads() -> None:
    @tool(effect="read")
    def look() -> str:
        return ""

    def touch() -> str:
        return ""

    assert Agent(ScriptedModel(), tools=[look]).as_tool().effect == "read"
    assert Agent(ScriptedModel(), tools=[look, touch]).as_tool().effect == "idempotent"


@pytest.mark.parametrize("name", ["", "two words", "x" * 65])
def test_a_name_that_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tool\.name"):
        Agent(ScriptedModel()).as_tool(name=name)


def test_limits_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="limits: must be Limits or None, got int"):
        Agent(ScriptedModel()).as_tool(limits=5)  # type: ignore[arg-type]


async def test_each_call_is_a_conversation_of_its_own() -> None:
    scout = ScriptedModel("one", "two")
    child = Agent(scout, name="scout").as_tool()
    model = ScriptedModel(asks("scout"), asks("scout"), "done")
    await Agent(model, tools=[child]).run("Go")
    assert [len(request.messages) for request in scout.requests] == [1, 1]


async def test_its_own_limits_end_it_and_the_calling_model_is_told() -> None:
    def look() -> str:
        return "nothing"

    scout = ScriptedModel(ToolCall("1", "look", "{}"), ToolCall("2", "look", "{}"), "never")
    child = Agent(scout, name="scout", tools=[look]).as_tool(limits=Limits(iterations=1))
    boss, model = parent(child)
    assert (await boss.run("Go")).output == "done"
    (said,) = results_in_request(model)
    assert said.startswith("Agent 'scout' failed: Maximum iteration limit reached (1 iterations)")


def broken() -> ProviderError:
    info = ErrorInfo(
        category=ErrorCategory.SERVER_ERROR,
        safe="The provider failed.",
        private="password=hunter2 at db-7",
    )
    return ProviderError("password=hunter2 at db-7", info=info)


async def test_its_failure_is_told_safely_and_not_tried_again_by_the_caller() -> None:
    scout = ScriptedModel(broken(), broken())
    clock = FakeClock()
    agent = Agent(scout, name="scout", retry=RetryOptions(max_retries=1), clock=clock)
    boss, model = parent(agent.as_tool())
    assert (await boss.run("Go")).output == "done"
    assert results_in_request(model) == ["Error: Function 'scout' failed."]
    assert len(scout.requests) == 2


async def test_its_failure_is_told_in_full_with_detailed_errors() -> None:
    agent = Agent(ScriptedModel(broken()), name="scout", retry=RetryOptions(max_retries=0))
    model = ScriptedModel(asks("scout"), "done")
    await Agent(model, tools=[agent.as_tool()], detailed_errors=True).run("Go")
    assert results_in_request(model) == ["Error invoking function 'scout': The provider failed."]


async def test_an_agent_that_a_middleware_stopped_has_not_succeeded() -> None:
    class Halt(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> Stop:
            return Stop("halted", "No more today.")

    boss, model = parent(Agent(ScriptedModel(), name="scout", middleware=[Halt()]).as_tool())
    async with boss.stream("Go") as run:
        results = [item.result async for item in run if isinstance(item, ToolFinished)]
    assert results_in_request(model) == ["Agent 'scout' was stopped: No more today."]
    assert [result.is_error for result in results] == [True]


async def test_an_empty_task_reaches_no_model() -> None:
    scout = ScriptedModel()
    child = Agent(scout, name="scout").as_tool()
    model = ScriptedModel(asks("scout", " "), "done")
    await Agent(model, tools=[child]).run("Go")
    assert results_in_request(model) == ["Agent 'scout' was not run: its task is empty."]


async def test_the_time_of_the_caller_is_the_most_there_is() -> None:
    seen: list[float | None] = []

    @tool
    def peek(context: ToolContext) -> str:
        seen.append(context.remaining)
        return "ok"

    clock = FakeClock()
    scout = ScriptedModel(ToolCall("1", "peek", "{}"), "ok")
    agent = Agent(scout, name="scout", tools=[peek], clock=clock, limits=Limits(seconds=500))
    boss, _ = parent(agent.as_tool(), clock=clock, limits=Limits(seconds=7))
    await boss.run("Go")
    boss, _ = parent(
        Agent(
            ScriptedModel(ToolCall("1", "peek", "{}"), "ok"),
            name="scout",
            tools=[peek],
            clock=clock,
        ).as_tool(limits=Limits(seconds=3)),
        clock=clock,
        limits=Limits(seconds=7),
    )
    await boss.run("Go")
    assert seen == [5.6, 3.0]  # a share of what the caller has left, and less


async def test_the_caller_that_is_cancelled_ends_both_and_both_journals_say_so() -> None:
    begun = asyncio.Event()

    async def hang() -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    async def hangs(request: object) -> str:
        return await hang()

    journal = MemoryJournal()
    scout = ScriptedModel(hangs)
    boss, _ = parent(Agent(scout, name="scout", journal=journal).as_tool())
    work = asyncio.create_task(boss.run("Go"))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    (kept,) = journal._runs.values()
    events = [event for event, _ in kept.values()]
    assert [event.reason for event in events if isinstance(event, TurnInterrupted)] == ["cancelled"]


async def test_what_it_shows_is_on_the_stream_of_the_caller_with_the_chain_of_names() -> None:
    deep = Agent(ScriptedModel("bottom"), name="deep").as_tool()
    middle = Agent(ScriptedModel(asks("deep"), "middle"), name="middle", tools=[deep]).as_tool()
    boss, _ = parent(middle)
    async with boss.stream("Go") as run:
        items = [item async for item in run]
    inner = [item for item in items if isinstance(item, FromAgent)]
    said = [(one.chain, one.item.text) for one in inner if isinstance(one.item, TextDelta)]
    assert said == [(("middle", "deep"), "bottom"), (("middle",), "middle")]
    assert {one.key for one in inner} == {"t1.i0.tool.0"}
    closed = [one.chain for one in inner if isinstance(one.item, TurnClosed)]
    assert closed == [("middle", "deep"), ("middle",)]
    assert not any(isinstance(one.item, FromAgent) for one in inner)


async def test_the_text_of_the_caller_is_its_own() -> None:
    boss, _ = parent(Agent(ScriptedModel("secret thoughts"), name="scout").as_tool())
    async with boss.stream("Go") as run:
        assert [text async for text in run.text()] == ["done"]


async def test_nobody_watches_and_nothing_is_streamed() -> None:
    scout = ScriptedModel("ok")
    boss, _ = parent(Agent(scout, name="scout").as_tool())
    await boss.run("Go")
    assert [request.stream for request in scout.requests] == [False]


async def test_its_usage_stands_on_its_events_and_counts_for_the_caller() -> None:
    boss, _ = parent(Agent(ScriptedModel("ok"), name="scout").as_tool())
    async with boss.stream("Go") as run:
        spent = [
            item.item.reply.usage.total
            async for item in run
            if isinstance(item, FromAgent) and isinstance(item.item, ModelReplied)
        ]
        result = run.result
    assert spent == [15]
    assert result.usage.total == 45


@tool
async def pay(context: ToolContext) -> str:
    """Pay."""
    answer = await context.ask(PermissionQuestion(tool="pay"))
    return "paid" if isinstance(answer, Approved) else answer.reason


def payer(**keywords: object) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(ToolCall("1", "pay", "{}"), "finished")
    return Agent(model, name="payer", tools=[pay], **keywords), model  # type: ignore[arg-type]


async def test_its_questions_are_asked_by_the_caller_and_kept_in_its_journal() -> None:
    child, scout = payer()
    boss, _ = parent(child.as_tool())
    keys = []
    async with boss.stream("Go") as run:
        async for item in run:
            if isinstance(item, PermissionQuestion):
                keys.append(item.key)
                assert run.answer(item.approve())
    assert keys == ["t1.i0.tool.0.ask.0"]
    assert results_in_request(scout) == ["paid"]


async def test_the_usage_of_a_call_that_goes_on_after_an_answer_counts_once() -> None:
    answered = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for the answer to be saved."""
        await answered.wait()
        return "waited"

    child, _ = payer()
    model = ScriptedModel((asks("payer"), ToolCall("c2", "wait", "{}")), "done")
    journal = MemoryJournal()
    tools = [child.as_tool(), wait]
    boss = Agent(model, name="boss", tools=tools, journal=journal, on_wait="suspend")
    work = asyncio.create_task(boss.run("Go", session="s"))
    turns = boss._engine.answering.active_turns
    while not ((run := turns.get("s")) and run.effects.suspended_count):
        await asyncio.sleep(0)
    (question,) = await boss.questions("s")
    assert await boss.answer("s", question.approve())
    answered.set()
    result = await work
    assert result.output == "done"
    records = [record for one in await journal.runs() for record in await journal.read(one.run)]
    replies = [one.event.reply for one in records if isinstance(one.event, ModelReplied)]
    assert len(replies) == 4
    assert result.usage.total == sum(reply.usage.total for reply in replies)


async def test_its_own_handler_is_asked_before_those_of_the_caller() -> None:
    async def mine(request: AnyQuestion) -> object:
        return Approved()

    async def not_mine(request: AnyQuestion) -> object:
        raise AssertionError("the caller was asked")

    child, scout = payer(on_question=mine)
    boss, _ = parent(child.as_tool(), on_question=not_mine)
    await boss.run("Go")
    assert results_in_request(scout) == ["paid"]


async def test_a_question_that_its_handler_leaves_goes_to_the_caller() -> None:
    async def leave(request: AnyQuestion) -> object:
        return None

    async def refuse(request: AnyQuestion) -> object:
        return Denied(reason="Not today.")

    child, scout = payer(on_question=leave)
    boss, _ = parent(child.as_tool(), on_question=refuse)
    await boss.run("Go")
    assert results_in_request(scout) == ["Not today."]


async def test_nobody_to_ask_is_a_no() -> None:
    child, scout = payer()
    boss, _ = parent(child.as_tool())
    await boss.run("Go")
    (said,) = results_in_request(scout)
    assert said.startswith("Nobody is there to answer.")


async def test_agents_that_call_each_other_in_a_loop_are_stopped() -> None:
    made: list[Tool] = []

    @tool(name="first")
    async def late(task: str, context: ToolContext) -> object:
        return await made[0].function(task, context)  # type: ignore[misc]

    second = Agent(ScriptedModel(asks("first"), "second"), name="second", tools=[late])
    model = ScriptedModel(asks("second"), asks("second"), "inner", "outer")
    first = Agent(model, name="first", tools=[second.as_tool()])
    made.append(first.as_tool())
    assert (await first.run("Go")).output == "outer"
    assert any(
        "agents call each other in a loop (second > first > second)" in text
        for request in model.requests
        for message in request.messages
        for part in message.parts
        if isinstance(part, ToolResult)
        for text in [part.text]
    )


async def test_agents_do_not_stand_inside_each_other_without_end() -> None:
    models = [ScriptedModel("bottom")]
    agent = Agent(models[0], name="agent")
    for _ in range(MOST_DEEP + 1):
        models.append(ScriptedModel(asks("agent"), "up"))
        agent = Agent(models[-1], name="agent", tools=[agent.as_tool()])
    assert (await agent.run("Go")).output == "up"
    assert models[0].requests == []
    assert "in a loop" in results_in_request(models[1])[0]


async def test_two_calls_at_once_of_one_agent_do_not_mix() -> None:
    async def echo(request: object) -> str:
        await asyncio.sleep(0)
        return request.messages[-1].text  # type: ignore[attr-defined, no-any-return]

    child = Agent(ScriptedModel(echo, echo), name="scout").as_tool()
    model = ScriptedModel((asks("scout", "left", "1"), asks("scout", "right", "2")), "done")
    async with Agent(model, tools=[child]).stream("Go") as run:
        shown = {
            (item.key, item.item.text)
            async for item in run
            if isinstance(item, FromAgent) and isinstance(item.item, TextDelta)
        }
    assert results_in_request(model) == ["left", "right"]
    assert shown == {("t1.i0.tool.0", "left"), ("t1.i0.tool.1", "right")}


async def test_the_deps_of_the_caller_are_those_of_the_agent() -> None:
    @tool
    def who(context: ToolContext[str]) -> str:
        return context.deps

    scout = ScriptedModel(ToolCall("1", "who", "{}"), "ok")
    boss, _ = parent(Agent(scout, name="scout", tools=[who]).as_tool())
    await boss.run("Go", deps="alice")
    assert results_in_request(scout) == ["alice"]


# Kept beside the caller's run.


def both(
    journal: object, asked: list[str], done: list[str], **keywords: object
) -> tuple[Agent[str], list[str]]:
    """A boss and its clerk; what their models were asked, and what tools did."""

    @tool(effect="idempotent")
    async def file(context: ToolContext) -> str:
        """File something."""
        done.append(context.idempotency_key)
        return "filed"

    def model(name: str, *replies: Reply) -> ScriptedModel:
        def reply(request: ModelRequest) -> Reply:
            asked.append(name)
            return replies[sum(one.role == "assistant" for one in request.messages)]

        return ScriptedModel(*[reply] * 9)

    filing = Reply((ToolCall("1", "file", "{}"),))
    clerk = Agent(model("clerk", filing, filing, text("All filed.")), name="clerk", tools=[file])
    calls = Reply((ToolCall("1", "clerk", '{"task": "File."}'),))
    boss_model = model("boss", calls, text("done"))
    return Agent(boss_model, tools=[clerk.as_tool()], journal=journal, **keywords), asked  # type: ignore[arg-type]


def text(words: str) -> Reply:
    return Reply((Text(words),))


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
async def test_after_a_crash_at_any_append_both_go_on_and_nothing_is_paid_twice(
    before: bool,
) -> None:
    moment, died = 0, True
    while died:
        moment += 1
        journal, asked, done = MemoryJournal(), list[str](), list[str]()
        try:
            result = await both(CrashAt(journal, moment, before=before), asked, done)[0].run(
                "Go", session="s"
            )
            died = False
        except SimulatedCrash:
            if not await journal.read("s"):
                continue
            result = await both(journal, asked, done)[0].resume("s")
        assert result.output == "done"
        kept = [
            record.event
            for entry in await journal.runs()
            for record in await journal.read(entry.run)
        ]
        replies = [event for event in kept if isinstance(event, ModelReplied)]
        assert len(replies) == 5
        # Only an answer that was not kept is asked for again.
        assert len(asked) - 5 in ((0, 1) if before and died else (0,))
        calls = {one.rpartition(":")[0] for one in done}
        assert calls == {f"s/t1.i0.tool.0:t1.i{n}.tool.0" for n in (0, 1)}
        assert len(set(done)) == 2  # the same keys after the crash
    assert moment > 12


@pytest.mark.slow  # takes half a second or more
async def test_another_attempt_of_the_call_is_another_conversation() -> None:
    journal = MemoryJournal()

    async def hang(request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    clerk = Agent(ScriptedModel(hang, "At last."), name="clerk")
    boss = Agent(
        ScriptedModel(asks("clerk"), "done"),
        tools=[clerk.as_tool()],
        journal=journal,
        retry=RetryOptions(max_retries=1),
        tool_timeout=0.5,
        clock=FakeClock(),
    )
    result = await boss.run("Go", session="s")
    assert result.output == "done"
    runs = [entry.run for entry in await journal.runs()]
    assert runs == ["s", "s/t1.i0.tool.0", "s/t1.i0.tool.0.again.1"]
    first, second = [(await journal.read(run))[-1].event for run in runs[1:]]
    assert isinstance(first, TurnClosed)
    assert isinstance(second, TurnClosed)
    assert (first.status, second.status) == (Status.CANCELLED, Status.COMPLETED)


async def test_without_a_journal_nothing_is_kept_beside() -> None:
    boss, _ = both(None, [], [])
    await boss.run("Go", session="s")
    kept = boss._engine.session_pool.journal
    assert [entry.run for entry in await kept.runs()] == ["s"]


# The description of a subagent.

HEAD = "Give a task to the agent 'scout', and get its answer."


@pytest.mark.parametrize(
    ("instructions", "purpose"),
    [
        ("You find cheap flights. Never book one.", "You find cheap flights."),
        ("You find flights, e.g. to Porto, under 3.5 hours! Be brief.", "You find flights, e.g. to Porto, under 3.5 hours!"),
        ("# Scout\n\nYou find\nflights", "You find flights"),
        ("# Scout\nYou find flights.\n\nBe brief.", "You find flights."),
        (["", lambda: "Today is Monday.", "Find flights?\nOr trains."], "Find flights?"),
        ("航空券を探します。短く答えます。", "航空券を探します。"),
        ("", ""),
        (lambda: "You find flights.", ""),
    ],
)  # fmt: skip
def test_the_default_description_has_the_first_sentence(instructions: Any, purpose: str) -> None:
    made = Agent(ScriptedModel(), name="scout", instructions=instructions).as_tool()
    assert made.description == f"{HEAD} {purpose}".rstrip()


def test_a_long_sentence_is_cut_between_words() -> None:
    made = Agent(ScriptedModel(), name="scout", instructions="word " * 500).as_tool()
    assert made.description.endswith("word ...")
    assert len(made.description) < 400


def test_a_description_of_the_caller_is_used_as_it_is() -> None:
    agent = Agent(ScriptedModel(), name="scout", instructions="You find flights.")
    assert agent.as_tool(description="Looks ahead.").description == "Looks ahead."
