"""An agent end to end, with a scripted model: everything else is real."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from tests.tool_results import results_in_request

from holdfast import Agent, Limits, ModelSettings, RetryOptions, Usage, tool, user
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    LimitError,
    OutputError,
    ProviderError,
    TruncatedError,
    UnterminatedError,
)
from holdfast.core.events import ModelReplied, Status, TurnClosed
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import FinishReason, Reply, ReplyKind, Text, ToolCall, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, RetryScheduled
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.context import ToolContext


@tool(effect="read")
async def weather(city: str) -> str:
    """Current weather in a city."""
    return f"sunny in {city}"


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def down(retry_after: float | None = None) -> ProviderError:
    info = ErrorInfo(
        category=ErrorCategory.SERVER_ERROR, safe="the provider is down", retry_after=retry_after
    )
    return ProviderError("the provider is down", info=info)


async def test_a_tool_is_run_and_its_result_goes_to_the_model() -> None:
    model = ScriptedModel(call("weather", '{"city": "Porto"}'), "Sunny!")
    result = await Agent(model, tools=[weather]).run("Weather in Porto?")
    assert result.output == "Sunny!"
    assert results_in_request(model) == ["sunny in Porto"]
    assert result.status is Status.COMPLETED
    assert result.usage.total == 30
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_failing_model_is_retried_with_backoff_and_the_result_is_whole() -> None:
    clock = FakeClock()
    model = ScriptedModel(down(), down(), "ok")
    result = await Agent(model, clock=clock, rng=lambda: 0.5).run("Hi")
    assert result.output == "ok"
    assert clock.sleeps == [1.0, 2.0]


async def test_a_retry_after_is_obeyed_exactly() -> None:
    clock = FakeClock()
    model = ScriptedModel(down(retry_after=7.25), "ok")
    await Agent(model, clock=clock).run("Hi")
    assert clock.sleeps == [7.25]


async def test_when_nothing_helps_the_error_is_typed_and_carries_the_result() -> None:
    model = ScriptedModel(*[down() for _ in range(4)])
    with pytest.raises(ProviderError, match="the provider is down") as caught:
        await Agent(model, clock=FakeClock()).run("Hi")
    result = caught.value.result
    assert result.status is Status.FAILED
    assert result.messages == (user("Hi"),)


async def test_what_one_tool_raises_never_hides_its_sibling_nor_reaches_the_model() -> None:
    @tool
    def login() -> str:
        """Log in."""
        raise RuntimeError("password=hunter2")

    model = ScriptedModel(
        (call("login", call_id="1"), call("weather", '{"city": "Faro"}', call_id="2")), "done"
    )
    agent = Agent(
        model,
        tools=[login, weather],
        retry=RetryOptions(max_retries=0),
        clock=FakeClock(),
    )
    result = await agent.run("go")
    assert results_in_request(model) == ["Error: Function 'login' failed.", "sunny in Faro"]
    assert "hunter2" not in str(result)


async def test_details_are_shown_redacted_when_asked_for() -> None:
    @tool
    def login() -> str:
        """Log in."""
        raise RuntimeError("no route; password=hunter2")

    model = ScriptedModel(call("login"), "done")
    once = RetryOptions(max_retries=0)
    await Agent(model, tools=[login], retry=once, detailed_errors=True).run("go")
    assert results_in_request(model) == [
        "Error invoking function 'login': no route; password=[redacted]"
    ]


async def test_a_tool_that_fails_twice_and_then_works_is_called_three_times() -> None:
    calls = []

    @tool
    def flaky() -> str:
        """Sometimes."""
        calls.append(1)
        if len(calls) < 3:
            raise RuntimeError("not yet")
        return "now"

    model = ScriptedModel(call("flaky"), "done")
    await Agent(model, tools=[flaky], clock=FakeClock()).run("go")
    assert len(calls) == 3
    assert results_in_request(model) == ["now"]


async def test_a_write_that_may_have_happened_is_not_repeated_and_the_model_is_told() -> None:
    calls = []

    @tool(effect="write")
    def pay(amount: int) -> str:
        """Pay."""
        calls.append(amount)
        raise ConnectionError("lost while waiting for the answer")

    model = ScriptedModel(call("pay", '{"amount": 5}'), "I will check.")
    await Agent(model, tools=[pay], clock=FakeClock()).run("go")
    assert calls == [5]
    assert "may have taken effect" in results_in_request(model)[0]


@pytest.mark.parametrize("arguments", ['{"amount": 5, "to": "bo', "", "[5]", '{"amount": "much"}'])
async def test_a_call_that_is_not_right_is_never_executed(arguments: str) -> None:
    calls = []

    @tool
    def pay(amount: int, to: str = "bob") -> str:
        """Pay."""
        calls.append(amount)
        return "paid"

    model = ScriptedModel(call("pay", arguments), "sorry")
    await Agent(model, tools=[pay]).run("go")
    assert calls == []
    assert results_in_request(model)[0].startswith("Error")


async def test_a_whole_call_in_a_truncated_reply_is_not_executed_either() -> None:
    calls = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        calls.append(amount)
        return "paid"

    cut = Reply((call("pay", '{"amount": 5}'),), kind=ReplyKind.TRUNCATED)
    await Agent(ScriptedModel(cut, "sorry"), tools=[pay]).run("go")
    assert calls == []


def cut_off(*names: str) -> Reply:
    """A reply that was cut within the call of the last tool."""
    calls = tuple(call(name, '{"text": "on', name) for name in names)
    return Reply(calls, kind=ReplyKind.TRUNCATED, finish=FinishReason.LENGTH, usage=Usage(10, 50))


@tool
def write(text: str) -> str:
    """Write a text."""
    return text


@tool
def note(text: str) -> str:
    """Note a text."""
    return text


WRITTEN = call("write", '{"text": "once"}')


@pytest.mark.parametrize("second", [["write"], ["note", "write"]])
async def test_a_call_that_is_cut_twice_ends_the_turn(second: list[str]) -> None:
    model = ScriptedModel(cut_off("write"), cut_off(*second), "Here I am.")
    journal = MemoryJournal()
    settings = ModelSettings(max_tokens=50)
    agent = Agent(model, tools=[write, note], journal=journal, settings=settings)
    with pytest.raises(TruncatedError) as caught:
        await agent.run("go", session="s")
    assert str(caught.value) == (
        "The call of 'write' was cut at the output limit of 50 tokens for the second time. "
        "Raise settings.max_tokens, or let the tool take its work in smaller pieces"
    )
    assert caught.value.info.category is ErrorCategory.TRUNCATED
    assert caught.value.partial == cut_off(*second)
    assert len(model.requests) == 2
    machine = SessionMachine()
    for record in await journal.read("s"):
        machine.apply(record.event)
    assert (machine.status, machine.usage) == (Status.FAILED, Usage(20, 100))
    assert (await agent.run("Are you there?", session="s")).output == "Here I am."
    assert not any(
        part == cut_off(*second).parts[-1] for part in model.requests[2].messages[-2].parts
    )


@pytest.mark.parametrize(
    "replies",
    [
        [cut_off("write"), WRITTEN],
        [cut_off("write"), cut_off("note"), WRITTEN],
        [cut_off("write"), WRITTEN, cut_off("write"), WRITTEN],
        [cut_off("note", "write"), cut_off("note"), WRITTEN],
    ],
)
async def test_a_call_that_gets_shorter_runs(replies: list[Reply | ToolCall]) -> None:
    model = ScriptedModel(*replies, "Done.")
    assert (await Agent(model, tools=[write, note]).run("go")).output == "Done."


async def test_a_call_that_was_cut_in_an_earlier_turn_does_not_count() -> None:
    model = ScriptedModel(cut_off("write"), "No.", cut_off("write"), "No.")
    agent = Agent(model, tools=[write])
    assert (await agent.run("go", session="s")).output == "No."
    assert (await agent.run("go", session="s")).output == "No."


async def test_a_call_that_is_cut_twice_is_no_output() -> None:
    model = ScriptedModel(cut_off("write"), cut_off("write"))
    with pytest.raises(TruncatedError, match="The call of 'write'") as caught:
        await Agent(model, tools=[write], output=int).run("go")
    assert not isinstance(caught.value, OutputError)
    assert "for the second time after" not in str(caught.value)


async def test_an_unknown_tool_is_answered_with_those_that_exist() -> None:
    model = ScriptedModel(call("wether"), "sorry")
    await Agent(model, tools=[weather]).run("go")
    assert "weather" in results_in_request(model)[0]


async def test_the_iteration_limit_is_a_typed_error_with_a_history_to_go_on_from() -> None:
    again = call("weather", '{"city": "Porto"}')
    model = ScriptedModel(again, again, "here it is")
    agent = Agent(model, tools=[weather], limits=Limits(iterations=2))
    with pytest.raises(LimitError, match="Maximum iteration limit reached") as caught:
        await agent.run("go")
    result = await agent.run("go on", history=caught.value.result.history)
    assert result.output == "here it is"


async def test_cancelling_cancels_the_tools_and_leaves_nothing_behind() -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    @tool
    async def slow() -> str:
        """Slow."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")
        return ""

    journal = MemoryJournal()
    model = ScriptedModel(
        (call("slow", call_id="1"), call("weather", '{"city": "x"}', call_id="2")), "ok"
    )
    agent = Agent(model, tools=[slow, weather], journal=journal)
    before = asyncio.all_tasks()
    task = asyncio.create_task(agent.run("go", session="s"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["slow"]
    assert asyncio.all_tasks() == before
    last = (await journal.read("s"))[-1].event
    assert isinstance(last, TurnClosed)
    assert last.status is Status.CANCELLED
    result = await agent.run("and now?", session="s")
    said = [part.text for m in result.messages for part in m.parts if isinstance(part, ToolResult)]
    assert "unknown" in said[0]
    assert said[1] == "sunny in x"


async def test_the_time_limit_stops_what_hangs_and_says_so() -> None:
    async def hang(_request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return ""

    agent = Agent(ScriptedModel(hang), limits=Limits(seconds=0.05))
    with pytest.raises(LimitError, match=r"time limit of 0\.05 seconds"):
        await agent.run("go")


async def test_a_session_remembers_and_its_turns_wait_for_each_other() -> None:
    model = ScriptedModel("one", "two", "three")
    agent = Agent(model)
    done = await asyncio.gather(*(agent.run(text, session="alice") for text in ("a", "b", "c")))
    assert [result.output for result in done] == ["one", "two", "three"]
    assert len(done[-1].messages) == 6
    other = Agent(ScriptedModel("x"))
    assert len((await other.run("hi", session="alice")).messages) == 2


async def test_a_session_is_found_again_in_its_journal() -> None:
    journal = MemoryJournal()
    await Agent(ScriptedModel("one"), journal=journal).run("a", session="s")
    result = await Agent(ScriptedModel("two"), journal=journal).run("b", session="s")
    assert [m.text for m in result.messages] == ["a", "one", "b", "two"]


async def test_a_stream_shows_deltas_events_and_what_to_forget() -> None:
    lost = UnterminatedError("cut", partial=Reply((Text("half an"),)))
    lost.info = ErrorInfo(category=ErrorCategory.TRANSIENT, safe="cut", code="unterminated")
    agent = Agent(ScriptedModel(lost, "a whole answer"), clock=FakeClock())
    async with agent.stream("go") as run:
        items = [item async for item in run]
    kinds = [type(item).__name__ for item in items]
    assert kinds.index("AttemptAbandoned") < kinds.index("RetryScheduled")
    assert any(isinstance(item, AttemptAbandoned) for item in items)
    assert any(isinstance(item, RetryScheduled) for item in items)
    assert isinstance(items[-2], ModelReplied)
    assert run.result.output == "a whole answer"


async def test_committed_text_never_holds_an_abandoned_attempt() -> None:
    lost = UnterminatedError("cut", partial=Reply((Text("half an"),)))
    agent = Agent(ScriptedModel(lost, "a whole answer"), clock=FakeClock())
    async with agent.stream("go") as run:
        assert [text async for text in run.text()] == ["a whole answer"]


async def test_leaving_a_stream_early_cancels_the_run() -> None:
    ended = asyncio.Event()

    async def hang(_request: ModelRequest) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    before = asyncio.all_tasks()
    async with Agent(ScriptedModel(hang)).stream("go") as run:
        async for item in run:
            if isinstance(item, AttemptStarted):
                await asyncio.sleep(0)
                break
    assert ended.is_set()
    assert asyncio.all_tasks() == before


async def test_a_hundred_runs_of_one_agent_do_not_meet() -> None:
    @tool
    async def echo(context: ToolContext, text: str) -> str:
        """Echo."""
        await asyncio.sleep(0)
        return f"{text} {context.deps}"

    def ask(request: ModelRequest) -> ToolCall | str:
        last = request.messages[-1]
        if last.role == "user":
            return call("echo", f'{{"text": "{last.text}"}}')
        (part,) = last.parts
        assert isinstance(part, ToolResult)
        return part.text

    agent = Agent(ScriptedModel(*[ask] * 200), tools=[echo])
    done = await asyncio.gather(*(agent.run(f"m{n}", deps=n) for n in range(100)))
    assert [result.output for result in done] == [f"m{n} {n}" for n in range(100)]


def test_run_sync_works_from_a_script_and_from_a_thread() -> None:
    assert Agent(ScriptedModel("hi")).run_sync("go").output == "hi"
    seen: list[str] = []
    thread = threading.Thread(
        target=lambda: seen.append(Agent(ScriptedModel("there")).run_sync("go").output)
    )
    thread.start()
    thread.join()
    assert seen == ["there"]


async def test_run_sync_works_inside_a_running_loop() -> None:
    assert Agent(ScriptedModel("hi")).run_sync("go").output == "hi"


async def test_an_unexpected_exception_ends_the_turn_and_not_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_request: ModelRequest) -> str:
        raise KeyError("api_key=abcdef")

    with caplog.at_level(logging.WARNING, "holdfast"), pytest.raises(ProviderError) as caught:
        await Agent(ScriptedModel(broken)).run("go")
    assert isinstance(caught.value.__cause__, KeyError)
    assert "abcdef" not in str(caught.value)
    assert "abcdef" not in caplog.text


BAD = [
    ("model", {"model": "gpt-5"}),
    ("provider", {"model": "nobody:gpt-5"}),
    ("model", {"model": 7}),
    ("name", {"name": " "}),
    ("instructions", {"instructions": None}),
    ("limits", {"limits": 3}),
    ("retry", {"retry": "hard"}),
    ("parallel_tools", {"parallel_tools": 0}),
    ("output", {"output": threading.Lock()}),
    ("api_key", {"model": "openai:gpt-5", "api_key": " "}),
    ("base_url", {"model": "openai:gpt-5", "api_key": "k", "base_url": "localhost:1"}),
]


@pytest.mark.parametrize(("argument", "given"), BAD)
def test_what_is_wrong_is_said_at_construction(argument: str, given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Agent(**{"model": ScriptedModel(), **given})
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("argument", "value"),
    [("iterations", -1), ("iterations", 1.5), ("seconds", float("nan")), ("tokens", "many")],
)
def test_a_limit_that_is_no_limit_is_refused(argument: str, value: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Limits(**{argument: value})
    assert caught.value.argument == f"limits.{argument}"


def test_a_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"OPENAI_API_KEY.*is not set"):
        Agent("openai:gpt-5")


def test_a_key_is_in_no_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecret-123456")
    agent = Agent("openai:gpt-5")
    assert "verysecret" not in repr(agent) + agent.describe() + repr(agent._engine.plan)


@pytest.mark.parametrize("prompt", ["", "  ", [], 7, b"x", [7]])
async def test_a_prompt_that_says_nothing_is_refused(prompt: object) -> None:
    with pytest.raises(ConfigurationError, match="prompt"):
        await Agent(ScriptedModel()).run(prompt)


async def test_another_model_answers_when_the_first_cannot_and_the_result_says_so() -> None:
    refused = ErrorInfo(category=ErrorCategory.RATE_LIMIT_TERMINAL, safe="no credit left")
    first = ScriptedModel(ProviderError("no credit left", info=refused), name="one:a")
    second = ScriptedModel("from the second", name="two:b")
    journal = MemoryJournal()
    result = await Agent(first, fallback=[second], journal=journal).run("Hi", session="s")
    assert result.output == "from the second"
    assert [(one.target, one.attempts) for one in result.tried] == [("one:a", 1)]
    replied = [r.event for r in await journal.read("s") if isinstance(r.event, ModelReplied)]
    assert replied[0].tried == result.tried
    assert second.requests[0].model == "b"


def test_describe_shows_the_strategies_in_their_order() -> None:
    shown = Agent(ScriptedModel(), fallback=[ScriptedModel(name="two:b")]).describe()
    names = ["format:", "fallback:", "retry:", "breaker:", "limiter:", "call, parse"]
    places = [shown.index(name) for name in names]
    assert places == sorted(places)


@pytest.mark.parametrize("fallback", ["openai:gpt-5", 7, ["nobody:x"], [None]])
def test_a_fallback_that_is_none_is_refused(fallback: object) -> None:
    with pytest.raises(ConfigurationError):
        Agent(ScriptedModel(), fallback=fallback)


@pytest.mark.parametrize("kind", [Agent, SqliteJournal])
def test_the_repr_of_an_object_that_was_not_constructed(kind: type) -> None:
    assert repr(kind.__new__(kind)).startswith(kind.__name__)
