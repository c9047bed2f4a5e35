"""Hooks end to end: when they are called, what they see, what they return, how they fail."""

from __future__ import annotations

import asyncio

import pytest
from tests.tool_results import results_in_request

from holdfast import Agent, Limits, MemoryJournal, RetryOptions, tool
from holdfast.core.errors import (
    ConfigurationError,
    HoldfastError,
    LimitError,
    MiddlewareError,
    ProviderError,
    StoppedError,
)
from holdfast.core.events import ModelReplied, Status, ToolFinished, TurnStopped
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, Reply, Text, ToolCall, ToolResult, user
from holdfast.middleware.decisions import Deny, Patch, Replace, Stop, UseReply
from holdfast.middleware.hooks import Middleware
from holdfast.testing import FakeClock, ScriptedModel

ran: list[str] = []


@tool(effect="read")
async def look(what: str = "") -> str:
    """Look at something."""
    return f"saw {what}"


@tool(effect="read")
async def broken() -> str:
    """Always fails."""
    raise RuntimeError("password=hunter2")


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


class Spy(Middleware):
    def __init__(self, name: str, log: list[str]) -> None:
        self.label, self.log = name, log

    def say(self, what: str) -> None:
        self.log.append(f"{self.label}.{what}")

    async def before_turn(self, context):
        self.say("before_turn")

    async def after_turn(self, context):
        self.say("after_turn")

    async def before_iteration(self, context):
        self.say(f"before_iteration {context.iteration}")

    async def wrap_model(self, context, call_next):
        self.say("wrap_model>")
        try:
            return await call_next(context)
        finally:
            self.say("<wrap_model")

    async def after_reply(self, context):
        self.say("after_reply")

    async def after_iteration(self, context):
        self.say(f"after_iteration {[result.text for result in context.results]}")

    async def before_tools(self, context):
        self.say("before_tools")

    async def before_tool(self, context):
        self.say(f"before_tool {context.tool} {context.arguments}")

    async def wrap_tool(self, context, call_next):
        self.say("wrap_tool>")
        try:
            return await call_next(context)
        finally:
            self.say("<wrap_tool")

    async def after_tool(self, context):
        self.say(f"after_tool {context.result.text}")

    async def on_error(self, context):
        self.say(f"on_error {type(context.exception).__name__}")


async def test_hooks_run_in_their_documented_order() -> None:
    log: list[str] = []
    model = ScriptedModel(call("look", '{"what": "x"}'), "done")
    agent = Agent(model, tools=[look], middleware=[Spy("a", log), Spy("b", log)])
    assert (await agent.run("go")).output == "done"
    assert log == [
        "a.before_turn",
        "b.before_turn",
        "a.before_iteration 0",
        "b.before_iteration 0",
        "a.wrap_model>",
        "b.wrap_model>",
        "b.<wrap_model",
        "a.<wrap_model",
        "b.after_reply",
        "a.after_reply",
        "a.before_tools",
        "b.before_tools",
        "a.before_tool look {'what': 'x'}",
        "b.before_tool look {'what': 'x'}",
        "a.wrap_tool>",
        "b.wrap_tool>",
        "b.<wrap_tool",
        "a.<wrap_tool",
        "b.after_tool saw x",
        "a.after_tool saw x",
        "b.after_iteration ['saw x']",
        "a.after_iteration ['saw x']",
        "a.before_iteration 1",
        "b.before_iteration 1",
        "a.wrap_model>",
        "b.wrap_model>",
        "b.<wrap_model",
        "a.<wrap_model",
        "b.after_reply",
        "a.after_reply",
        "b.after_iteration []",
        "a.after_iteration []",
        "b.after_turn",
        "a.after_turn",
    ]


async def test_after_hooks_run_when_the_tool_and_when_the_model_failed() -> None:
    log: list[str] = []
    model = ScriptedModel(call("broken"), ProviderError("down"))
    handling = RetryOptions(max_retries=0)
    agent = Agent(model, tools=[broken], middleware=[Spy("a", log)], retry=handling)
    with pytest.raises(ProviderError):
        await agent.run("go")
    assert "a.on_error RuntimeError" in log
    assert "a.after_tool Error: Function 'broken' failed." in log
    assert log[-4:] == [
        "a.on_error ProviderError",
        "a.after_reply",
        "a.after_iteration []",
        "a.after_turn",
    ]


class BeforeIteration(Middleware):
    def __init__(self, decision: object) -> None:
        self.decision = decision

    async def before_iteration(self, context):
        return self.decision


async def test_use_reply_skips_the_model_and_the_other_before_hooks_still_run() -> None:
    log: list[str] = []
    model = ScriptedModel()
    journal = MemoryJournal()
    agent = Agent(
        model, middleware=[BeforeIteration(UseReply("cached")), Spy("b", log)], journal=journal
    )
    result = await agent.run("go", session="s")
    assert result.output == "cached"
    assert model.requests == []
    assert "b.before_iteration 0" in log
    assert "b.wrap_model>" not in log
    assert "b.after_reply" in log
    (replied,) = [
        record.event for record in await journal.read("s") if isinstance(record.event, ModelReplied)
    ]
    assert replied.attempts == 0


async def test_replies_of_a_hook_count_toward_the_limit_of_iterations() -> None:
    hook = BeforeIteration(UseReply(Reply((call("look"),))))
    agent = Agent(ScriptedModel(), tools=[look], middleware=[hook], limits=Limits(iterations=2))
    with pytest.raises(LimitError) as ended:
        async with asyncio.timeout(60):
            await agent.run("go")
    assert ended.value.limit == "iterations"
    assert ended.value.result is not None
    assert ended.value.result.iterations == 2


async def test_patch_changes_what_the_model_sees_and_not_the_history() -> None:
    model = ScriptedModel("ok")
    patch = Patch(messages=(user("other"),), instructions="new")
    result = await Agent(model, instructions="old", middleware=[BeforeIteration(patch)]).run("go")
    assert [message.text for message in model.requests[0].messages] == ["other"]
    assert model.requests[0].instructions == "new"
    assert [message.text for message in result.messages] == ["go", "ok"]


async def test_stop_ends_the_turn_with_its_text_and_a_reason() -> None:
    journal = MemoryJournal()
    agent = Agent(
        ScriptedModel(), middleware=[BeforeIteration(Stop("why", "Enough."))], journal=journal
    )
    result = await agent.run("go", session="s")
    assert (result.status, result.output, result.text) == (Status.STOPPED, "Enough.", "Enough.")
    assert result.stop_reason == "why"
    assert [message.text for message in result.messages] == ["go", "Enough."]
    events = [record.event for record in await journal.read("s")]
    machine = SessionMachine()
    for event in events:
        machine.apply(event)
    assert machine.status is Status.STOPPED
    assert any(isinstance(event, TurnStopped) and event.by == "BeforeIteration" for event in events)


async def test_stop_is_never_an_output_of_another_type() -> None:
    agent = Agent(ScriptedModel(), output=int, middleware=[BeforeIteration(Stop("why", "Enough."))])
    with pytest.raises(StoppedError, match="Enough") as caught:
        await agent.run("go")
    assert caught.value.reason == "why"
    assert caught.value.result.status is Status.STOPPED


class BeforeTool(Middleware):
    def __init__(self, decision: object) -> None:
        self.decision = decision

    async def before_tool(self, context):
        return self.decision


async def test_deny_prevents_the_tool_and_ends_the_chain_and_after_hooks_run() -> None:
    log: list[str] = []
    model = ScriptedModel(call("look"), "ok")
    middleware = [BeforeTool(Deny("Permission denied by user.")), Spy("b", log)]
    await Agent(model, tools=[look], middleware=middleware).run("go")
    assert results_in_request(model) == ["Permission denied by user."]
    assert not [line for line in log if line.startswith("b.before_tool ")]
    assert "b.after_tool Permission denied by user." in log


async def test_replace_gives_a_result_without_running_and_the_chain_continues() -> None:
    log: list[str] = []
    model = ScriptedModel(call("broken"), "ok")
    middleware = [BeforeTool(Replace("instead")), Spy("b", log)]
    await Agent(model, tools=[broken], middleware=middleware).run("go")
    assert results_in_request(model) == ["instead"]
    assert "b.before_tool broken {}" in log
    assert "b.wrap_tool>" not in log


async def test_stop_before_a_tool_runs_no_tool_that_has_not_begun() -> None:
    model = ScriptedModel((call("look", call_id="1"), call("look", call_id="2")))
    agent = Agent(model, tools=[look], middleware=[BeforeTool(Stop("why", "Enough."))])
    result = await agent.run("go")
    assert result.output == "Enough."
    results = [part for part in result.messages[2].parts if isinstance(part, ToolResult)]
    assert [part.is_error for part in results] == [True, True]


class BeforeTools(Middleware):
    def __init__(self, decision: object) -> None:
        self.decision = decision

    async def before_tools(self, context):
        return self.decision


async def test_before_tools_can_deny_all_or_stop_before_any() -> None:
    model = ScriptedModel((call("look", call_id="1"), call("look", call_id="2")), "ok")
    await Agent(model, tools=[look], middleware=[BeforeTools(Deny("not now"))]).run("go")
    assert results_in_request(model) == ["not now", "not now"]
    model = ScriptedModel(call("look"))
    result = await Agent(model, tools=[look], middleware=[BeforeTools(Stop("r", "Bye."))]).run("go")
    assert (result.output, result.status) == ("Bye.", Status.STOPPED)
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


class Failing(Middleware):
    def __init__(self, where: str) -> None:
        async def fail(*_: object) -> None:
            raise KeyError("secret=abc")

        setattr(self, where, fail)


@pytest.mark.parametrize(
    "where",
    ["before_turn", "before_iteration", "after_reply", "after_iteration", "before_tools"],
)
async def test_a_hook_that_raises_fails_the_turn_and_is_named(where: str) -> None:
    model = ScriptedModel(call("look"), "ok")
    with pytest.raises(MiddlewareError, match=f"Failing.{where} raised KeyError") as caught:
        await Agent(model, tools=[look], middleware=[Failing(where)]).run("go")
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value, HoldfastError)


@pytest.mark.parametrize("where", ["after_iteration", "after_turn", "after_reply"])
async def test_the_errors_of_after_hooks_are_raised_together(where: str) -> None:
    names = {"after_iteration": "AfterIteration", "after_turn": "AfterMessageTurn"}
    agent = Agent(ScriptedModel("ok"), middleware=[Failing(where), Failing(where)])
    with pytest.raises(MiddlewareError) as caught:
        await agent.run("go")
    group = caught.value.__cause__
    assert isinstance(group, ExceptionGroup)
    said = names.get(where, "AfterReply")
    assert group.message == f"One or more {said} middleware hooks failed"
    assert len(group.exceptions) == 2
    assert caught.value.result is not None


@pytest.mark.parametrize("where", ["before_tool", "wrap_tool"])
async def test_a_tool_hook_that_raises_gives_the_generic_text(where: str) -> None:
    model = ScriptedModel(call("look"), "ok")
    await Agent(model, tools=[look], middleware=[Failing(where)]).run("go")
    assert results_in_request(model) == ["Error: Function 'look' failed."]


async def test_an_after_tool_hook_that_raises_keeps_the_result_and_fails_the_turn() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(call("look", '{"what": "x"}'), "ok")
    agent = Agent(model, tools=[look], middleware=[Failing("after_tool")], journal=journal)
    with pytest.raises(MiddlewareError, match="One or more AfterFunction middleware hooks failed"):
        await agent.run("go", session="s")
    finished = [
        record.event for record in await journal.read("s") if isinstance(record.event, ToolFinished)
    ]
    assert [event.result.text for event in finished] == ["saw x"]


class Hanging(Middleware):
    async def before_iteration(self, context):
        await asyncio.Event().wait()


async def test_a_hook_that_hangs_times_out_and_is_named() -> None:
    agent = Agent(ScriptedModel("ok"), middleware=[Hanging().only(hook_timeout=0.01)])
    with pytest.raises(
        MiddlewareError, match=r"Hanging.before_iteration did not end within 0.01 s"
    ):
        await agent.run("go")


async def test_a_hook_that_waits_briefly_does_not_time_out() -> None:
    class Waiting(Middleware):
        async def before_iteration(self, context):
            for _ in range(3):
                await asyncio.sleep(0)
            async with asyncio.timeout(60):
                await asyncio.sleep(0.001)
            return Patch(instructions="late")

    model = ScriptedModel("ok")
    await Agent(model, middleware=[Waiting()]).run("go")
    assert model.requests[0].instructions == "late"


async def test_cancellation_passes_through_a_waiting_hook_at_once() -> None:
    log: list[str] = []
    agent = Agent(ScriptedModel("ok"), middleware=[Hanging(), Spy("b", log)])
    task = asyncio.create_task(agent.run("go"))
    while not log:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["b.before_turn"]


@pytest.mark.parametrize("answer", ["yes", Deny("no"), True])
async def test_a_wrong_decision_is_named(answer: object) -> None:
    with pytest.raises(MiddlewareError, match=r"BeforeIteration.before_iteration returned \w+; it"):
        await Agent(ScriptedModel("ok"), middleware=[BeforeIteration(answer)]).run("go")


async def test_a_wrap_hook_that_returns_no_reply_is_named() -> None:
    class Empty(Middleware):
        async def wrap_model(self, context, call_next):
            await call_next(context)

    with pytest.raises(MiddlewareError, match="must return Reply"):
        await Agent(ScriptedModel("ok"), middleware=[Empty()]).run("go")


async def test_a_wrap_hook_can_replace_a_failed_model_call() -> None:
    class Fallback(Middleware):
        async def wrap_model(self, context, call_next):
            try:
                return await call_next(context)
            except ProviderError:
                return Reply((Text("sorry"),))

    agent = Agent(
        ScriptedModel(ProviderError("down")),
        middleware=[Fallback()],
        retry=RetryOptions(max_retries=0),
    )
    assert (await agent.run("go")).output == "sorry"


async def test_tool_hooks_apply_to_the_tools_that_they_name() -> None:
    model = ScriptedModel((call("look", call_id="1"), call("broken", call_id="2")), "ok")
    deny = BeforeTool(Deny("no")).only(tools=["bro*"])
    await Agent(model, tools=[look, broken], middleware=[deny]).run("go")
    assert results_in_request(model) == ["saw ", "no"]


async def test_a_condition_skips_a_hook() -> None:
    stop = BeforeIteration(Stop("r", "Bye.")).only(enabled=lambda hook, facts: facts.turn == 2)
    agent = Agent(ScriptedModel("one", "two"), middleware=[stop])
    assert (await agent.run("go", session="s")).output == "one"
    assert (await agent.run("go", session="s")).output == "Bye."


class First(Middleware):
    before = ("Second",)


class Second(Middleware):
    pass


def test_a_wrong_order_names_both() -> None:
    Agent(ScriptedModel(), middleware=[First(), Second()])
    with pytest.raises(ConfigurationError, match="First must stand before Second"):
        Agent(ScriptedModel(), middleware=[Second(), First()])
    late = Second().only(after=[First])
    with pytest.raises(ConfigurationError, match="Second must stand after First"):
        Agent(ScriptedModel(), middleware=[late, First().only(before=[])])


def test_an_invalid_middleware_is_refused() -> None:
    for wrong, problem in (
        ([Second], "must be Middleware, got the class Second. Write Second"),
        ([3], "must be Middleware, got int"),
        ([one := Second(), one], "given twice"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            Agent(ScriptedModel(), middleware=wrong)  # type: ignore[arg-type]

    class Plain(Middleware):
        def before_iteration(self, context):  # type: ignore[override]
            return None

    with pytest.raises(
        ConfigurationError, match=r"Plain\.before_iteration is not a coroutine function"
    ):
        Agent(ScriptedModel(), middleware=[Plain()])


def test_describe_shows_the_composed_order() -> None:
    shown = Agent(ScriptedModel(), middleware=[Spy("a", []), First(), Hanging()]).describe()
    assert "before_iteration: Spy > Hanging" in shown
    assert "before_turn: Spy\n" in shown


class Counting(Middleware[int]):
    @property
    def initial(self) -> int:
        return 0

    def fold(self, state: int, event: object) -> int:
        return state + isinstance(event, ToolFinished)

    async def before_iteration(self, context):
        return Patch(instructions=f"{context.state_of(self)} tools")


class CountingAll(Counting):
    scope = "session"


async def test_state_is_per_turn_or_per_session() -> None:
    for kind, wanted in ((Counting, "0 tools"), (CountingAll, "1 tools")):
        model = ScriptedModel(call("look"), "one", "two")
        agent = Agent(model, tools=[look], middleware=[kind()])
        await agent.run("go", session="s")
        assert model.requests[1].instructions == "1 tools"
        await agent.run("go", session="s")
        assert model.requests[2].instructions == wanted


async def test_a_session_state_is_rebuilt_from_the_journal() -> None:
    journal = MemoryJournal()
    middleware = [CountingAll()]
    first = Agent(
        ScriptedModel(call("look"), "one"), tools=[look], middleware=middleware, journal=journal
    )
    await first.run("go", session="s")
    model = ScriptedModel("two")
    second = Agent(model, tools=[look], middleware=[CountingAll()], journal=journal)
    await second.run("go", session="s")
    assert model.requests[0].instructions == "1 tools"


async def test_a_hundred_runs_at_once_never_see_each_others_state() -> None:
    def script(request: object) -> ToolCall | str:
        messages = request.messages  # type: ignore[attr-defined]
        wanted = int(messages[0].text)
        done = sum(message.role == "tool" for message in messages)
        assert request.instructions == f"{done} tools"  # type: ignore[attr-defined]
        return call("look", f'{{"what": "{done}"}}') if done < wanted else "done"

    model = ScriptedModel(*[script] * 1000)
    agent = Agent(model, tools=[look], middleware=[Counting()], limits=Limits(iterations=20))
    results = await asyncio.gather(*(agent.run(str(number % 9 + 0)) for number in range(100)))
    assert {result.output for result in results} == {"done"}


async def test_a_fold_that_raises_fails_the_turn_and_is_named() -> None:
    class Bad(Middleware[int]):
        def fold(self, state, event):
            if isinstance(event, ToolFinished):
                raise KeyError("x")
            return state

    with pytest.raises(MiddlewareError, match=r"Bad\.fold raised KeyError"):
        await Agent(ScriptedModel(call("look"), "ok"), tools=[look], middleware=[Bad()]).run("go")


async def test_a_refused_message_is_can_be_saved_nowhere() -> None:
    class Refuse(Middleware):
        async def before_turn(self, context):
            return Deny("No.", save_message=False)

    journal = MemoryJournal()
    with pytest.raises(StoppedError, match=r"No\."):
        await Agent(ScriptedModel(), middleware=[Refuse()], journal=journal).run("x", session="s")
    assert await journal.read("s") == []


async def test_a_message_can_be_changed_before_it_is_saved() -> None:
    class Mask(Middleware):
        async def before_turn(self, context):
            return Patch(messages=(user("masked"),))

    result = await Agent(ScriptedModel("ok"), middleware=[Mask()]).run("secret")
    assert [message.text for message in result.messages] == ["masked", "ok"]
    assert isinstance(result.messages[0], Message)


async def test_hooks_run_outside_of_retry() -> None:
    log: list[str] = []
    model = ScriptedModel(ProviderError("x"), "ok")
    agent = Agent(
        model,
        middleware=[Spy("a", log)],
        clock=FakeClock(),
        retry=RetryOptions(normalize_errors=False),
    )
    await agent.run("go")
    assert len(model.requests) == 2
    assert log.count("a.wrap_model>") == 1


class Left(Middleware):
    before = ("Right",)


class Right(Middleware):
    before = ("Left",)


def test_contradicting_constraints_are_reported() -> None:
    for order in ([Left(), Right()], [Right(), Left()]):
        with pytest.raises(ConfigurationError) as caught:
            Agent(ScriptedModel(), middleware=order)
        said = str(caught.value)
        assert "contradict each other: each must stand before the other" in said
        assert "Left" in said
        assert "Right" in said
    Agent(ScriptedModel(), middleware=[Left(), Right().only(before=[])])
